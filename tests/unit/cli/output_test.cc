// SPDX-License-Identifier: Apache-2.0
// Every program where its output cannot be written: one line on stderr, exit code 1, and no abort.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "program.h"

namespace spillway {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::Outcome;

// `redirect` as a shell's, such as ">/dev/full".
Outcome RunInto(const std::string& redirect, std::vector<std::string> words) {
  words.insert(words.begin(), {"/bin/sh", "-c", "exec \"$0\" \"$@\" " + redirect});
  return testing::RunProgram(words);
}

// Into a pipe that nobody reads; SIGPIPE is ignored, as InterruptGuard and daemons have it.
Outcome RunWithoutReader(const testing::Folder& folder, std::vector<std::string> words) {
  const std::string pipe = folder.File("pipe");
  words.insert(words.begin(), {"/bin/sh", "-c",
                               "trap '' PIPE; mkfifo " + pipe + " && exec 3<>" + pipe + " 4>" + pipe +
                                   " 3<&- && exec \"$0\" \"$@\" >&4 4>&-"});
  return testing::RunProgram(words);
}

const std::string kLost = "writing the output: No space left on device\n";

TEST(Output, ThatIsLostIsOneLineAndExitCode1OfEveryProgram) {
  for (const std::string program :
       {"spillway", "spillway-agent", "spillway-bench", "spillway-compute", "spillway-executor",
        "spillway-gateway", "spillway-kubernetes", "spillway-lab", "spillway-load", "spillway-neighbour",
        "spillway-nic-balancer", "spillway-node", "spillway-plan", "spillway-sched", "spillway-sim",
        "spillway-unit", "spillwayd"}) {
    for (const char* option : {"--help", "--version"}) {
      const Outcome outcome = RunInto(">/dev/full", {PROGRAMS "/" + program, option});
      EXPECT_EQ(outcome.exit_code, 1) << program;
      EXPECT_THAT(outcome.err, HasSubstr(": " + kLost)) << program;
      EXPECT_EQ(std::count(outcome.err.begin(), outcome.err.end(), '\n'), 1) << outcome.err;
    }
  }
}

TEST(Output, ThatIsLostIsSaidOnceWhateverItsForm) {
  for (const std::vector<std::string>& words : {std::vector<std::string>{"sched", "mig"},
                                                {"sched", "mig", "--json"},
                                                {"plan", "paper"},
                                                {"plan", "paper", "--json"},
                                                {"check", EXAMPLES "/pool/nat.yaml"},
                                                {"check", EXAMPLES "/pool/nat.yaml", "--json"}}) {
    auto argv = words;
    argv.insert(argv.begin(), SPILLWAY);
    const Outcome full = RunInto(">/dev/full", argv);
    EXPECT_EQ(full.exit_code, 1) << words[0];
    EXPECT_EQ(full.err, "spillway: " + kLost);
    const Outcome closed = RunInto(">&-", argv);
    EXPECT_EQ(closed.exit_code, 1) << words[0];
    EXPECT_EQ(closed.err, "spillway: writing the output: Bad file descriptor\n");
  }
}

TEST(Output, WhoseReaderIsGoneEndsTheProgramQuietly) {
  const testing::Folder folder;
  const Outcome outcome = RunWithoutReader(folder, {SPILLWAY, "sched", "mig"});
  EXPECT_EQ(outcome.exit_code, 141);
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(Output, ThatIsLostTakesNoReportAway) {
  const testing::Folder folder;
  folder.Write("jobs.csv",
               "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\np,1,1,1,500,0,9\n");
  for (const char* json : {"", "--json"}) {
    std::vector<std::string> words = {SPILLWAY,       "sched",     "replay", folder.File("jobs.csv"),
                                      "--experiment", "gpu-hours", "--out",  folder.File("out") + json};
    if (*json != '\0') words.push_back(json);
    const Outcome outcome = RunInto(">/dev/full", words);
    EXPECT_EQ(outcome.exit_code, 1);
    EXPECT_EQ(outcome.err, "spillway: " + kLost);
    EXPECT_THAT(folder.Read(std::string("out") + json + "/report.json"), HasSubstr("\"gpu_hours\""));
  }
}

TEST(Output, DiagnosticsThatAreLostLeaveTheExitCodeAsItIs) {
  EXPECT_EQ(RunInto("2>/dev/full", {SPILLWAY, "check", "/missing.yaml"}).exit_code, 2);
  EXPECT_EQ(RunInto("2>&-", {SPILLWAY, "check", "/missing.yaml"}).exit_code, 2);
}

}  // namespace
}  // namespace spillway
