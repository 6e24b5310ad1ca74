// SPDX-License-Identifier: Apache-2.0
// `spillway sched`: GPU-hours where moves take time and GPUs differ, and `optimal`.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "sched_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

TEST_F(SchedCli, MovesTakeFiveSecondsUnlessToldOtherwise) {
  const auto rows = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"--experiment", "gpu-hours", "--list", "tiny",
                                      "--shares",     "exact",     "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto run = Replay(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return json::parse(run.out)["rows"];
  };
  EXPECT_EQ(rows({})[7]["move_s"], 5.0);
  EXPECT_EQ(rows({"--move-time", "5s"}), rows({}));
  const json slow = rows({"--move-time", "1m"}), at_once = rows({"--move-time", "0s"});
  EXPECT_EQ(slow[7]["move_s"], 60.0);
  EXPECT_GT(slow[7]["held_twice_gpu_hours"], 0);
  EXPECT_EQ(at_once[7]["move_gpu_hours"], 0.0);
  EXPECT_EQ(at_once[7]["moves"], at_once[7]["migrations"]);
  ExpectRefused(Replay({"--experiment", "gpu-hours", "--list", "tiny", "--move-time", "soon"}),
                "--move-time: expected a duration from 0s to 24h, such as 5s or 1.5m, got soon");
  EXPECT_THAT(Replay({"--list", "tiny", "--move-time", "5s"}).err,
              HasSubstr("--move-time: is for --experiment gpu-hours"));
}

TEST_F(SchedCli, GpuHoursOnAClusterFollowItsSpeeds) {
  folder_.Write("speeds.yaml", "cluster:\n  models:\n    - {name: G2, speed: 3}\n");
  folder_.Write("many.csv",
                "sn,cpu_milli,memory_mib,gpu,model\na,1,1,16,G2\nb,1,1,16,G2\nc,1,1,16,G2\nd,1,1,8,T4\n");
  folder_.Write("own.yaml",
                "cluster:\n  models:\n    - {name: X, speed: 2}\n  nodes:\n"
                "    - {name: n, count: 40, model: X}\n");
  folder_.Write("jobs.yaml", "cluster:\n  nodes:\n    - {name: n}\n  jobs:\n    - {node: n}\n");
  folder_.Write("rules.yaml", "cluster:\n  isolation: gpu\n  nodes:\n    - {name: n}\n");
  const auto no_sharing = [&](std::vector<std::string> more) {
    std::vector<std::string> words = {"--experiment", "gpu-hours", "--list", "tiny",
                                      "--shares",     "exact",     "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const auto run = Replay(words);
    EXPECT_EQ(run.exit_code, 0) << run.err;
    return json::parse(run.out)["rows"][0];
  };
  const double alike = no_sharing({})["gpu_hours"];
  EXPECT_NEAR(no_sharing({"--cluster", folder_.File("own.yaml")})["gpu_hours"], alike / 2, 2e-3);
  const json named =
      no_sharing({"--cluster", folder_.File("speeds.yaml"), "--nodes", folder_.File("many.csv")});
  EXPECT_EQ(named["dropped"], 0);
  EXPECT_NEAR(named["gpu_hours"], alike / 3, 2e-3) << "G2 goes first";
  EXPECT_GT(no_sharing({"--cluster", folder_.File("speeds.yaml")})["dropped"], 0)
      << "of the folder's ten GPUs";
  const auto refuse = [&](std::vector<std::string> more, const std::string& why) {
    std::vector<std::string> words = {"--experiment", "gpu-hours", "--list", "tiny"};
    words.insert(words.end(), more.begin(), more.end());
    ExpectRefused(Replay(words), why);
  };
  refuse({"--cluster", folder_.File("none.yaml")}, "none.yaml: expected a readable file");
  refuse({"--cluster", folder_.File("jobs.yaml")}, "jobs.yaml: cluster.jobs: expected none here");
  refuse({"--cluster", folder_.File("rules.yaml")}, "rules.yaml: cluster.isolation, slices: expected none");
  refuse({"--nodes", folder_.File("openb_node_list_gpu_node.csv")}, "--nodes: is for --experiment placement");
  refuse({"--cluster", folder_.File("own.yaml"), "--nodes", folder_.File("openb_node_list_gpu_node.csv")},
         "--nodes: not allowed where ");
}

TEST_F(SchedCli, OptimalNamesATemporaryFolderThatIsNotThere) {
  ExpectRefused(testing::RunProgram({"/usr/bin/env", "TMPDIR=/nonexistent", SPILLWAY, "sched", "optimal"}),
                "spillway: TMPDIR: expected a folder for temporary files");
}

TEST_F(SchedCli, OptimalSaysHowTheSolverEnded) {
  const auto run = [&](const std::string& script) {
    folder_.Write("cbc", "#!/bin/sh\n" + script + "\n");
    std::filesystem::permissions(folder_.File("cbc"), std::filesystem::perms::owner_all);
    return testing::RunProgram({"/usr/bin/env", "PATH=" + folder_.File("") + ":/bin", SPILLWAY, "sched",
                                "optimal", "--isolation", "none", "--threads", "1"});
  };
  const auto failed = run("exit 3");
  EXPECT_EQ(failed.exit_code, 1);
  EXPECT_THAT(failed.err, HasSubstr("spillway: cbc failed with exit code 3\n"));
  EXPECT_THAT(run("kill -9 $$").err, HasSubstr("spillway: cbc was killed by signal 9\n"));
}

// A solver that never ends in time is counted, and is no success of ours.
TEST_F(SchedCli, OptimalCountsWhatIsNotSolvedInTimeAtInstantsOfAList) {
  const auto run = [&](const std::string& answer, std::vector<std::string> more) {
    folder_.Write("cbc", "#!/bin/sh\nfor last; do :; done\necho '" + answer + "' > $last\n");
    std::filesystem::permissions(folder_.File("cbc"), std::filesystem::perms::owner_all);
    std::vector<std::string> words = {"/usr/bin/env",
                                      "PATH=" + folder_.File("") + ":/bin",
                                      SPILLWAY,
                                      "sched",
                                      "optimal",
                                      "--data",
                                      folder_.File(""),
                                      "--list",
                                      "tiny"};
    words.insert(words.end(), more.begin(), more.end());
    return testing::RunProgram(words);
  };
  const auto late = run("Stopped on time - objective value 3",
                        {"--window", "0..4000", "--instants", "5", "--solve-time", "1s", "--json"});
  ASSERT_EQ(late.exit_code, 0) << late.err;
  const json rows = json::parse(late.out)["rows"];
  ASSERT_EQ(rows.size(), 6u);
  EXPECT_EQ(rows[0]["in_time"], false);
  EXPECT_EQ(rows[0]["optimum_gpus_on"], nullptr);
  EXPECT_EQ(rows[5]["kind"], "window");
  EXPECT_EQ(rows[5]["not_in_time"], 5);
  EXPECT_EQ(rows[5]["same"], 0);
  EXPECT_EQ(rows[5]["ours_gpu_hours"], 0.0);
  const auto absurd =
      run("Optimal - objective value 99", {"--window", "0..4000", "--instants", "2", "--json"});
  EXPECT_EQ(absurd.exit_code, 1) << "ours is better than what is called the optimum";
  EXPECT_EQ(json::parse(absurd.out)["rows"][0]["fault"], "ours is better than the optimum");
  const auto refuse = [&](std::vector<std::string> more, const std::string& why) {
    ExpectRefused(run("", more), why);
  };
  for (const char* window : {"5", "5..", "..5", "9..5", "-1..5", "a..b"})
    refuse({"--window", window}, "expected FROM..TO in seconds of the list's time, TO above FROM");
  refuse({"--window", "90000..99000"},
         "--window 90000..99000: expected a job that shares a GPU to come in it");
  refuse({"--window", "0..9", "--check"}, "--check");
  refuse({}, "--window");
}

}  // namespace
}  // namespace spillway
