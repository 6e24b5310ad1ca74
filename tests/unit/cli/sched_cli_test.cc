// SPDX-License-Identifier: Apache-2.0
// `spillway sched` as its users meet it, on lists of its own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include "sched_cli.h"

namespace spillway {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

TEST_F(SchedCli, ReplaysPlacementWithARowPerPolicy) {
  const auto outcome = Replay({"--experiment", "placement", "--list", "tiny", "--seeds", "2", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json document = json::parse(outcome.out);
  ASSERT_EQ(document["rows"].size(), 8u);
  EXPECT_EQ(document["rows"][0]["policy"], "spillway");
  EXPECT_EQ(document["rows"][0]["seeds"], 2);
  EXPECT_GT(document["rows"][0]["alloc_pct_at_130"], 80);
  EXPECT_LE(document["rows"][0]["alloc_pct_at_100"], 100);
  EXPECT_EQ(Replay({"--list", "tiny", "--seeds", "2", "--json"}).out, outcome.out) << "the same every time";
}

TEST_F(SchedCli, ReplaysGpuHoursWithEveryBaselineAndARule) {
  const auto outcome = Replay({"--experiment", "gpu-hours", "--list", "tiny", "--json"});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  const json rows = json::parse(outcome.out)["rows"];
  ASSERT_EQ(rows.size(), 24u) << "three rules, eight policies";
  EXPECT_EQ(rows[7]["policy"], "spillway");
  EXPECT_EQ(rows[7]["shares"], "exact");
  EXPECT_LE(rows[7]["gpu_hours"], rows[3]["gpu_hours"]);
  EXPECT_TRUE(rows[7].contains("saved_vs_first_fit_pct"));
}

TEST_F(SchedCli, WritesAReport) {
  const std::string folder = folder_.File("out");
  const auto outcome = Replay({"--list", "tiny", "--seeds", "1", "--out", folder});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.out, HasSubstr(folder + "/report.html"));
}

TEST_F(SchedCli, ReplaysArrivalsAndDepartures) {
  const auto run =
      Replay({"--experiment", "arrivals", "--list", "tiny", "--arrivals", "200", "--seeds", "2", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json rows = json::parse(run.out)["rows"];
  ASSERT_EQ(rows.size(), 20u) << "eight policies, two of them with each demand, with and without moves";
  EXPECT_EQ(rows[0]["policy"], "spillway");
  for (const char* key : {"alloc_pct", "fragmented_pct", "waiting_pct", "delay_mean_s", "delay_p50_s",
                          "delay_p99_s", "moves_per_100"})
    EXPECT_TRUE(rows[0].contains(key)) << key;
  const auto borrowed =
      Replay({"--experiment", "arrivals", "--list", folder_.File("untimed.csv"), "--durations", "tiny",
              "--arrivals", "200", "--seeds", "1", "--policy", "fgd", "--moves", "0"});
  EXPECT_EQ(borrowed.exit_code, 0) << borrowed.err;
}

TEST_F(SchedCli, RefusesListsItCannotUse) {
  ExpectRefused(Replay({"--list", "nope"}), "expected a file, or a list in ");
  ExpectRefused(Replay({"--list", "nope"}), ": tiny");
  ExpectRefused(Replay({"--list", folder_.File("missing.csv")}), "missing.csv: expected a readable file");
  ExpectRefused(Replay({"--list", folder_.File("c.yaml")}), "c.yaml");
  ExpectRefused(Run({"replay", "--data", "/nowhere"}), "--data /nowhere: expected a folder");
  const auto nowhere = testing::RunProgram(
      {"/bin/sh", "-c", "cd / && unset SPILLWAY_OPENB && exec " SPILLWAY " sched replay --list default"});
  ExpectRefused(nowhere,
                "(public traces: github.com/alibaba/clusterdata, folder cluster-trace-gpu-v2023/csv)");
  ExpectRefused(Run({"replay", "--data", "/nowhere", "--list", folder_.File("untimed.csv"), "--nodes",
                     folder_.File("openb_node_list_gpu_node.csv")}),
                "--data /nowhere: expected a folder");
  ExpectRefused(
      Replay({"--experiment", "gpu-hours", "--list", folder_.File("untimed.csv")}),
      "untimed.csv: expected columns creation_time and deletion_time, as --experiment gpu-hours needs");
  ExpectRefused(Replay({"--experiment", "arrivals", "--list", folder_.File("untimed.csv")}),
                "--durations takes them from another list");
  EXPECT_THAT(Replay({"--load", "90"}).err, HasSubstr("is for --experiment arrivals"));
  EXPECT_EQ(Replay({"--experiment", "nothing"}).exit_code, 2);
  EXPECT_EQ(Replay({"--seeds", "0"}).exit_code, 2);
}

TEST_F(SchedCli, TakesAFileOfAnyName) {
  folder_.Write("jobs.txt", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,500\n");
  folder_.Write("tiny", "no list, and not taken for the one of that name");
  const auto in_folder = [&](const std::string& words) {
    return testing::RunProgram({"/bin/sh", "-c",
                                "cd \"$0\" && exec " SPILLWAY " sched replay --seeds 1 " + words,
                                folder_.File("")});
  };
  for (const char* words : {"jobs.txt --nodes openb_node_list_gpu_node.csv", "jobs.txt --data .",
                            "./jobs.txt --data .", "tiny --data ."}) {
    const auto outcome = in_folder(words);
    EXPECT_EQ(outcome.exit_code, 0) << words << outcome.err;
  }
  ExpectRefused(in_folder("none.txt --data ."), "list none.txt: expected a file, or a list in .: tiny");
}

TEST_F(SchedCli, AnErrorIsOneLineWhateverAFileIsCalled) {
  const std::string name = folder_.File("a\nb\x1b[2J\xff.csv"),
                    shown = folder_.File("a\\x0ab\\x1b[2J\\xff.csv");
  const auto expect_line = [&](std::vector<std::string> words, const std::string& what) {
    const auto outcome = Run(std::move(words));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.err;
    EXPECT_THAT(outcome.err, HasSubstr(shown + what));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  expect_line({"replay", name, "--experiment", "gpu-hours"}, ": expected a readable file");
  expect_line({"place", name}, ": expected a readable file");
  expect_line({"replay", "--data", name}, ": expected a folder");
  expect_line({"replay", "--out", name + "/x"}, "/x: parent directory ");
  expect_line({"optimal", "--lp", name + "/x"}, "/x: parent directory ");
  std::ofstream(name) << "name\n";
  expect_line({"replay", name, "--experiment", "gpu-hours"}, ":1: expected a column");
  expect_line({"place", name}, ":1: ");
  expect_line({"replay", "--data", folder_.File(""), "--list", "tiny", "--out", name}, ": expected a folder");
  ExpectRefused(Replay({"--list", "tiny", "--out", folder_.File("untimed.csv")}),
                "--out " + folder_.File("untimed.csv") + ": expected a folder");
}

// The figures are of other jobs and nodes, though these have the names of the published ones.
TEST_F(SchedCli, PublishedFiguresAreNotAddedToAListOfTheSameName) {
  folder_.Write(
      "fgd_published.csv",
      "workload,policy,n_seeds,alloc_mean_at_100,alloc_mean_at_130,alloc_sd_at_100,alloc_sd_at_130\n"
      "openb_pod_list_tiny,06-FGD,10,95.2,95.4,0.1,0.1\n");
  const auto run = Replay({"--list", "tiny", "--seeds", "1", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  const json document = json::parse(run.out);
  for (const json& row : document["rows"]) EXPECT_EQ(row["published_at_130"], nullptr) << row;
  EXPECT_FALSE(document["ratios"].contains("points_over_published_fgd_at_130"));
}

TEST_F(SchedCli, BoundsCanBeLeftOut) {
  const auto run = Replay({"--list", "tiny", "--seeds", "1", "--policy", "fgd", "--no-bound", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_EQ(json::parse(run.out)["rows"][0]["bound_pct"], nullptr);
  EXPECT_THAT(Replay({"--experiment", "gpu-hours", "--list", "tiny", "--no-bound"}).err,
              HasSubstr("--no-bound: is for --experiment placement"));
}

TEST_F(SchedCli, RefusesListsOfWhichNothingCanBeMeasured) {
  const std::string head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n";
  folder_.Write("cpu.csv", head + "p,1000,1,0,0,0,9\n");
  ExpectRefused(Replay({"--list", folder_.File("cpu.csv")}),
                "cpu.csv: num_gpu: expected one job at least that asks for a GPU");
  folder_.Write("moment.csv", head + "p,1,1,1,500,7,7\nq,1,1,0,0,7,9\n");
  ExpectRefused(Replay({"--experiment", "arrivals", "--list", folder_.File("moment.csv")}),
                "moment.csv: expected one job at least that asks for a GPU and lasts");
  std::string rare = head + "g,1,1,1,1,0,1\n";
  for (int i = 0; i < 9; ++i) rare += "c,1,1,0,0,0,20000\n";
  folder_.Write("rare.csv", rare);
  ExpectRefused(Replay({"--experiment", "arrivals", "--list", folder_.File("rare.csv")}),
                "rare.csv: expected at most 2000000 jobs at a time at --load 95, got 1.71e+09");
  std::string shapes = head;
  for (int i = 0; i <= 20'000; ++i) shapes += "p," + std::to_string(i) + ",1,1,500,0,9\n";
  folder_.Write("shapes.csv", shapes);
  ExpectRefused(Replay({"--list", folder_.File("shapes.csv")}),
                "shapes.csv: expected at most 20000 shapes of job (jobs that ask for the same), got 20001");
  folder_.Write("gap.csv", head + "p,1,1,1,500,,9\n");
  ExpectRefused(Replay({"--experiment", "gpu-hours", "--list", folder_.File("gap.csv")}),
                "gap.csv:2: expected a creation_time and a deletion_time");
  EXPECT_EQ(Replay({"--list", folder_.File("gap.csv"), "--seeds", "1"}).exit_code, 0);
}

TEST_F(SchedCli, BusyOnAListThatComesBeforeSaysFromWhen) {
  ExpectRefused(Replay({"--experiment", "gpu-hours", "--list", "tiny", "--busy", "2"}),
                "openb_pod_list_tiny.csv: creation_time: expected jobs that arrive after 9600000 s");
  const auto run =
      Replay({"--experiment", "gpu-hours", "--list", "tiny", "--busy", "2", "--busy-from", "0", "--json"});
  ASSERT_EQ(run.exit_code, 0) << run.err;
  EXPECT_GT(json::parse(run.out)["rows"][0]["gpu_hours"], 0);
}

// Does the process deal with that signal by now? True as well once it is gone.
bool Catches(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("SigCgt:"))
      return (std::stoull(line.substr(7), nullptr, 16) >> (signal - 1) & 1) != 0;
  return true;
}

// The report of an earlier run is worth more than one of nothing.
TEST_F(SchedCli, AnInterruptBeforeTheFirstSeedLeavesAnEarlierReport) {
  const std::string out = folder_.File("out"), log = folder_.File("log");
  ASSERT_EQ(Replay({"--list", "tiny", "--seeds", "1", "--out", out}).exit_code, 0);
  const std::string before = folder_.Read("out/report.json");
  std::string many = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  for (int i = 0; i < 2000; ++i) many += "p," + std::to_string(i) + ",1,1,1\n";
  folder_.Write("many.csv", many);  // whose bounds take many seconds
  testing::Running replay({SPILLWAY, "sched", "replay", folder_.File("many.csv"), "--data", folder_.File(""),
                           "--seeds", "1", "--policy", "first-fit", "--out", out},
                          log);
  while (!Catches(replay.pid(), SIGTERM)) std::this_thread::yield();
  replay.Signal(SIGTERM);
  EXPECT_EQ(replay.Wait(), 130);
  EXPECT_THAT(folder_.Read("log"), HasSubstr("interrupted"));
  EXPECT_EQ(folder_.Read("out/report.json"), before);
}

// The lists behind a table of docs/scheduler.md.
TEST_F(SchedCli, FurtherListsAreMadeFromOneTheSameEveryTime) {
  std::string jobs = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  for (int i = 0; i < 100; ++i)
    for (const char* job :
         {"c,4000,4096,0,0\n", "p,8000,8192,1,470\n", "w,12000,8192,1,1000\n", "s,24000,8192,2,1000\n"})
      jobs += job;
  folder_.Write("jobs.csv", jobs);
  const auto make = [&](const std::string& into) {
    const auto run = testing::RunProgram(
        {"/usr/bin/env", "python3", std::string(EXAMPLES) + "/sched/make_lists", folder_.File("jobs.csv"),
         folder_.File("openb_node_list_gpu_node.csv"), folder_.File(into)});
    EXPECT_EQ(run.exit_code, 0) << run.err;
  };
  make("once");
  make("again");
  int lists = 0;
  for (const auto& file : std::filesystem::directory_iterator(folder_.File("once"))) {
    const std::string name = file.path().filename();
    EXPECT_EQ(folder_.Read("once/" + name), folder_.Read("again/" + name)) << name;
    ++lists;
  }
  EXPECT_EQ(lists, 34);
  const auto count = [&](const std::string& name, const std::string& what) {
    const std::string text = folder_.Read("once/" + name);
    int found = 0;
    for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++found;
    return found;
  };
  EXPECT_EQ(count("cpu-only-0.csv", ",4096,0,0,"), 0);
  // Of this list nothing comes from jobs.csv but its length.
  std::ifstream committed(EXAMPLES "/../tests/unit/scheduler/forty_kinds.csv");
  const std::string first_rows(std::istreambuf_iterator<char>(committed), {});
  EXPECT_GT(first_rows.size(), 1000u);
  EXPECT_THAT(folder_.Read("once/forty-kinds-1.csv"), StartsWith(first_rows));
  EXPECT_NEAR(count("cpu-only-70.csv", ",4096,0,0,"), 280, 40) << "of 400";
  EXPECT_EQ(count("cpu-x1.5.csv", ",12000,8192,1,470,"), 100);
  EXPECT_NEAR(count("models-60.csv", ",T4\n") + count("models-60.csv", ",G2\n"), 180, 40) << "of 300";
  EXPECT_EQ(Replay({"--list", folder_.File("once/forty-kinds-1.csv"), "--seeds", "1", "--policy", "first-fit",
                    "--no-bound"})
                .exit_code,
            0);
}

TEST_F(SchedCli, SaysWhichMigProfileItCountsAndWhichModelsItDoesNotKnow) {
  folder_.Write(
      "mig.yaml",
      "cluster:\n  isolation: fraction\n  slices: memory\n  models: [{name: OWN, mig: true}]\n  nodes:\n"
      "    - {name: a, model: H100}\n    - {name: b, model: OWN}\n    - {name: c, model: H100}\n");
  const auto placed = Run({"place", folder_.File("mig.yaml"), "--milli", "500", "--explain"});
  EXPECT_EQ(placed.exit_code, 0);
  EXPECT_THAT(placed.out, HasSubstr("500 milli are a MIG slice 3g (slices: memory)"));
  EXPECT_THAT(placed.out, HasSubstr("\nfragmentation_milli: thousandths of a GPU that become useless"));
  EXPECT_THAT(placed.out, HasSubstr("free_milli: thousandths of the GPU. speed: a T4's is 1.\n"));
  EXPECT_THAT(placed.err,
              HasSubstr("mig.yaml:6: cluster.nodes[a].model: unknown model \"H100\", did you mean H100-80?"));
  EXPECT_EQ(std::count(placed.err.begin(), placed.err.end(), '\n'), 1) << placed.err;
  std::ofstream(folder_.File("mig.yaml"), std::ios::app)
      << "  jobs: [{name: j, node: a, start: 0, milli: 100}]\n";
  EXPECT_THAT(Run({"place", folder_.File("mig.yaml")}).err, HasSubstr("did you mean H100-80?"))
      << "beside the job's";
}

TEST_F(SchedCli, PlacesAJobAndSaysWhy) {
  const auto own = Run(
      {"place", folder_.File("c.yaml"), "--milli", "300", "--tenant", "red", "--objective", "fewest-gpus"});
  EXPECT_EQ(own.out, "n-1 GPU 0\n");
  const auto other =
      Run({"place", folder_.File("c.yaml"), "--milli", "300", "--tenant", "blue", "--explain"});
  EXPECT_THAT(other.out, StartsWith("n-2 GPU 0\n"));
  EXPECT_THAT(other.out, HasSubstr("others lack room that no other tenant has (1 node)."));
  const auto nowhere = Run({"place", folder_.File("c.yaml"), "--gpus", "2"});
  EXPECT_EQ(nowhere.exit_code, 1);
  EXPECT_THAT(nowhere.out, HasSubstr("fits nowhere"));
  EXPECT_THAT(nowhere.out,
              HasSubstr("they lack 2 idle GPUs at once, where no node has more than 1 (2 nodes)"));
  ExpectRefused(Run({"place", folder_.File("c.yaml"), "--model", "A11"}), "--model A11: expected one of T4");
  const auto elsewhere = Run({"place", folder_.File("c.yaml"), "--model", "A10"});
  EXPECT_EQ(elsewhere.exit_code, 1) << "a model that there is, but not here, is no mistake";
  EXPECT_THAT(elsewhere.out, HasSubstr("fits nowhere"));
  ExpectRefused(Run({"place", folder_.File("missing.yaml")}), "missing.yaml");
}

TEST_F(SchedCli, NamesTheSliceAndExplainsItsChoiceOfGpu) {
  const std::string slices = EXAMPLES "/sched/slices.yaml", cluster = EXAMPLES "/sched/cluster.yaml";
  const auto plain = Run({"place", slices, "--milli", "500", "--objective", "fewest-gpus"});
  EXPECT_EQ(plain.out, "a100-2 GPU 0 slice 3g@0\n") << plain.err;
  const auto why = Run({"place", slices, "--milli", "500", "--objective", "fewest-gpus", "--explain"});
  EXPECT_THAT(why.out, HasSubstr("The GPUs of a100-2:"));
  EXPECT_THAT(why.out, HasSubstr("score (spillway, objective fewest-gpus): 0 to 60"));
  EXPECT_THAT(why.out, HasSubstr("The GPU within a node: "));
  const json rows = json::parse(
      Run({"place", slices, "--milli", "500", "--objective", "fewest-gpus", "--json"}).out)["rows"];
  EXPECT_EQ(rows[0]["slice"], "3g");
  EXPECT_EQ(rows[0]["start"], 0);
  EXPECT_EQ(std::count_if(rows.begin(), rows.end(), [](const json& row) { return row["kind"] == "gpu"; }), 2);
  EXPECT_EQ(Run({"place", cluster, "--milli", "470"}).out, "t4-1 GPU 0\n");
  EXPECT_EQ(json::parse(Run({"place", cluster, "--gpus", "2", "--json"}).out)["rows"][0]["slice"], nullptr);
}

TEST_F(SchedCli, SaysWhichWholeGpus) {
  folder_.Write("whole.yaml",
                "cluster:\n  nodes:\n    - {name: n, model: T4, gpus: 4}\n"
                "  jobs:\n    - {name: j, node: n, gpu: 1, milli: 300}\n");
  EXPECT_EQ(Run({"place", folder_.File("whole.yaml"), "--gpus", "2"}).out, "n GPUs 0,2\n");
  EXPECT_EQ(Run({"place", folder_.File("whole.yaml"), "--gpus", "1"}).out, "n GPU 0\n");
  EXPECT_EQ(Run({"place", folder_.File("whole.yaml"), "--gpus", "0"}).out, "n\n");
  const auto gpus = [&](const char* count, const char* milli) {
    return json::parse(Run({"place", folder_.File("whole.yaml"), "--gpus", count, "--milli", milli, "--json"})
                           .out)["rows"][0]["gpus"];
  };
  EXPECT_EQ(gpus("3", "1000"), "0,2,3");
  EXPECT_EQ(gpus("1", "700"), "1");
  EXPECT_EQ(gpus("0", "1000"), "");
  EXPECT_THAT(Run({"place", folder_.File("whole.yaml"), "--gpus", "2", "--explain"}).out, HasSubstr(" 0,2 "));
}

TEST_F(SchedCli, RefusesWhatWouldDoNothing) {
  const auto one_line = [&](std::vector<std::string> words, const std::string& why) {
    const auto outcome = Run(std::move(words));
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, StartsWith("spillway: "));
    EXPECT_THAT(outcome.err, HasSubstr(why));
    EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
  };
  one_line({"replay", "--policy", "fgd", "--prices", "fair"}, "--prices: is for --policy spillway");
  one_line({"replay", "--experiment", "arrivals", "--policy", "random", "--demand", "list"},
           "--demand: is for --policy spillway or fgd");
  one_line({"replay", "--busy", "3"}, "--busy: is for --experiment gpu-hours");
  one_line({"replay", "--experiment", "gpu-hours", "--seeds", "3"}, "--seeds: is for --experiment placement");
  one_line({"optimal", "--seed", "-1"},
           "--seed: expected a whole number from 0 to 18446744073709551615, got -1");
  one_line({"optimal", "--snapshots", "3"}, "--check");
  one_line({"optimal", "--lp", folder_.File("typo/x.lp")}, "x.lp: parent directory ");
  one_line({"replay", "--data", folder_.File(""), "--out", folder_.File("typo/out")}, "--out ");
  one_line({"plaec"}, "sched: expected a verb (place, replay, optimal, mig), got plaec");
  one_line({}, "sched: expected a verb");
  one_line({"place", folder_.File("c.yaml"), "--nonsense"}, "--nonsense");
}

TEST_F(SchedCli, SaysWhichModelsNobodyHas) {
  folder_.Write("spec.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1,1,1,500,X9|T4\n");
  const auto outcome = Replay({"--list", folder_.File("spec.csv"), "--seeds", "1"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, HasSubstr("gpu_spec: no node has \"X9\", asked for by 1 job\n"));
  std::string jobs = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";
  for (int i = 10; i < 40; ++i) jobs += "p,1,1,1,500,X" + std::to_string(i) + "|T4\n";
  folder_.Write("many.csv", jobs);
  const auto many = Replay({"--list", folder_.File("many.csv"), "--seeds", "1"});
  EXPECT_EQ(std::count(many.err.begin(), many.err.end(), '\n'), 21) << many.err;
  EXPECT_THAT(many.err, HasSubstr("gpu_spec: and 10 models more that no node has\n"));
}

TEST_F(SchedCli, TellsTheGeometry) {
  const json document = json::parse(Run({"mig", "--json"}).out);
  EXPECT_EQ(document["ratios"]["multisets"], 37);
  EXPECT_EQ(document["ratios"]["maximal"], 12);
  EXPECT_EQ(document["ratios"]["maximal_placements"], 19);
  EXPECT_THAT(Run({"mig", "--taken", "3g@4"}).out, HasSubstr("2g + 2g"));
  ExpectRefused(Run({"mig", "--taken", "3g@2"}), "--taken 3g@2: expected PROFILE@SLICE");
  ExpectRefused(Run({"mig", "--taken", "3g@4,1g@5"}), "--taken 1g@5: expected");
  ExpectRefused(Run({"mig", "--model", "T4"}), "expected one that MIG divides");
}

}  // namespace
}  // namespace spillway
