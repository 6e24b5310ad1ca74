// SPDX-License-Identifier: Apache-2.0
#include "lab/gpus/gpu_jobs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <string>

namespace spillway::lab {
namespace {

using ::testing::HasSubstr;

scheduler::TraceJob Job(int64_t arrives_s, int64_t leaves_s, int milli = 500, int gpus = 1) {
  scheduler::TraceJob job;
  job.job.gpus = gpus;
  job.job.milli = milli;
  job.arrives_s = arrives_s;
  job.leaves_s = leaves_s;
  return job;
}

TEST(GpuJobs, OfAWindowAreCutToIt) {
  scheduler::JobList list;
  list.jobs = {Job(0, 100),     Job(900, 1200),       Job(1260, 9000, 1000, 8),
               Job(1400, 1404), Job(1250, 3000, 250), Job(3000, 4000)};
  const auto jobs = JobsOf(list, {"x", 1000, 1000}, 2, 10);
  ASSERT_EQ(jobs.size(), 2u);
  EXPECT_EQ(jobs[0].at_s, 0);
  EXPECT_EQ(jobs[0].for_s, 200);
  EXPECT_EQ(jobs[0].share, 0.5);
  EXPECT_EQ(jobs[1].at_s, 250);
  EXPECT_EQ(jobs[1].for_s, 750);
  EXPECT_EQ(jobs[1].share, 0.25);
}

TEST(GpuJobs, OfAWindowAreThinnedUntilEachCouldHaveAGpu) {
  scheduler::JobList list;
  for (int i = 0; i < 12; i++) list.jobs.push_back(Job(100 * i, 100 * i + 450));
  // Five run at a time.
  EXPECT_EQ(JobsOf(list, {"x", 0, 5000}, 5, 10).size(), 12u);
  const auto few = JobsOf(list, {"x", 0, 5000}, 2, 10);
  ASSERT_EQ(few.size(), 4u);
  EXPECT_EQ(few[1].at_s, 300);
  EXPECT_EQ(JobsOf(list, {"x", 0, 5000}, 1, 10).size(), 3u);
}

TEST(GpuJobs, AreReadFromAListBesideTheFile) {
  const std::string folder = ::testing::TempDir();
  std::ofstream(folder + "/few.csv")
      << "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n"
         "a,1000,1024,1,470,3600,7200\n";
  const auto jobs = ParseGpuJobs("trace: {list: few.csv, from: 1h, for: 2h}\n", folder + "/jobs.yaml");
  ASSERT_TRUE(jobs) << jobs.error().message;
  ASSERT_EQ(jobs->jobs.size(), 1u);
  EXPECT_EQ(jobs->jobs[0].share, 0.47);
  EXPECT_EQ(jobs->jobs[0].for_s, 3600);
}

TEST(GpuJobs, RefusesWithFileLineKeyAndWhatWasExpected) {
  const auto error = [](const std::string& yaml) {
    const auto jobs = ParseGpuJobs(yaml, "j.yaml");
    return jobs ? "accepted" : jobs.error().message;
  };
  EXPECT_THAT(error("hosts: 2\n"), HasSubstr("j.yaml:1: jobs: expected jobs, or a trace"));
  EXPECT_THAT(error("jobs: [{at: 0h, for: 1h, share: 5}]\n"),
              HasSubstr("j.yaml:1: jobs[#1].share: expected"));
  EXPECT_THAT(error("trace: {list: ./no.csv, from: 0h, for: 1h}\n"), HasSubstr("j.yaml:1: trace: "));
  EXPECT_THAT(error("trace: {list: ./no.csv, from: 0h, for: 1h}\n"), HasSubstr("no.csv"));
  EXPECT_THAT(error("trace: {for: 1h}\n"), HasSubstr("trace.from: expected a time such as 90m"));
}

}  // namespace
}  // namespace spillway::lab
