// SPDX-License-Identifier: Apache-2.0
// Lists of nodes and jobs, and cluster files: what is understood, what is refused and how it says so.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdio>
#include <fstream>

#include "scheduler/cluster_reader.h"
#include "scheduler/replay/openb_lists.h"

namespace spillway::scheduler {
namespace {

using ::testing::HasSubstr;

const std::string kNodes =
    "sn,cpu_milli,memory_mib,gpu,model\nn0,64000,262144,2,P100\nn1,96000,393216,8,G2\n";
const std::string kJobs =
    "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,creation_time,deletion_time\n"
    "p0,12000,16384,1,460,,LS,10,20\r\n"
    "p1,6000,12288,0,0,,LS,11,30\n\n"
    "p2,6000,12288,2,1000,G2|V100M32,LS,12,31\n";

std::vector<GpuModel> Models() { return ParseNodeList(kNodes, "n.csv")->models; }

std::string JobsError(const std::string& text) {
  const auto list = ParseJobList(text, "j.csv", Models());
  return list ? "accepted" : list.error().message;
}

TEST(NodeList, ReadsNodesAndModels) {
  const auto list = ParseNodeList(kNodes, "n.csv");
  ASSERT_TRUE(list) << list.error().message;
  ASSERT_EQ(list->nodes.size(), 2u);
  EXPECT_EQ(list->nodes[1].gpus, 8);
  EXPECT_EQ(list->models[static_cast<size_t>(list->nodes[1].model)].name, "G2");
  EXPECT_LT(list->models[0].speed, 1) << "a P100 is slower than a T4";
}

TEST(NodeList, RefusesWhatItCannotUse) {
  EXPECT_EQ(ParseNodeList("sn,gpu\n", "n.csv").error().message,
            "n.csv:1: expected a column \"cpu_milli\" in the first line");
  EXPECT_THAT(ParseNodeList("sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,17,T4\n", "n.csv").error().message,
              HasSubstr("n.csv:2: gpu: expected a whole number from 0 to 16"));
  EXPECT_THAT(ParseNodeList("sn,cpu_milli,memory_mib,gpu,model\n", "n.csv").error().message,
              HasSubstr("expected one node at least"));
  EXPECT_EQ(ParseNodeList("sn,cpu_milli,memory_mib,gpu,model\nn0,1,1,0,\n", "n.csv").error().message,
            "n.csv:2: gpu: expected one GPU at least, on any node");
  EXPECT_THAT(ParseNodeList("", "n.csv").error().message, HasSubstr("n.csv:1: expected a column"));
  EXPECT_EQ(LoadNodeList("/nowhere.csv").error().code, ErrorCode::kBadInput);
}

TEST(JobList, ReadsJobsTimesAndModels) {
  const auto list = ParseJobList(kJobs, "lists/j.csv", Models());
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(list->name, "j");
  EXPECT_TRUE(list->timed);
  ASSERT_EQ(list->jobs.size(), 3u);
  EXPECT_TRUE(list->jobs[0].job.Fractional());
  EXPECT_EQ(list->jobs[0].leaves_s, 20);
  EXPECT_EQ(list->jobs[1].job.TotalMilli(), 0);
  EXPECT_EQ(list->jobs[2].job.TotalMilli(), 2000);
  EXPECT_TRUE(list->jobs[2].job.Accepts(1));
  EXPECT_FALSE(list->jobs[2].job.Accepts(0));
}

TEST(JobList, AModelThatNobodyHasIsNoModelAtAll) {
  const auto list = ParseJobList("name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\np,1,1,1,1000,H100\n",
                                 "j.csv", Models());
  ASSERT_TRUE(list);
  EXPECT_FALSE(list->timed);
  for (const int model : {0, 1}) EXPECT_FALSE(list->jobs[0].job.Accepts(model));
  EXPECT_EQ(list->absent_models, (std::map<std::string, int>{{"H100", 1}}));
}

// Not every experiment wants times.
TEST(JobList, ACellWithoutATimeMakesTheListUntimed) {
  const std::string head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\n";
  const auto list = ParseJobList(head + "p,1,1,1,1,1,2\np,1,1,1,1,,2\np,1,1,1,1,3,\n", "j.csv", Models());
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_FALSE(list->timed);
  EXPECT_EQ(list->untimed_line, 3);
  EXPECT_THAT(JobsError(head + "p,1,1,1,1,x,2\n"), HasSubstr("j.csv:2: creation_time: expected"));
}

TEST(JobList, ErrorsNameFileLineColumnAndWhatWasExpected) {
  const std::string head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  EXPECT_EQ(JobsError(head + "p,1,1,1,1001\n"),
            "j.csv:2: gpu_milli: expected a whole number from 1 to 1000, got \"1001\"");
  EXPECT_EQ(JobsError(head + "p,1,1,1,0\n"),
            "j.csv:2: gpu_milli: expected a whole number from 1 to 1000, got \"0\"");
  EXPECT_THAT(JobsError(head + "p,1,1,1,100\np,x,1,1,100\n"), HasSubstr("j.csv:3: cpu_milli: expected"));
  EXPECT_EQ(JobsError(head + "p,1,1\n"), "j.csv:2: expected 5 columns, got 3");
  EXPECT_EQ(JobsError(head + "p,1,1,2,500\n"),
            "j.csv:2: gpu_milli: expected 1000 of a job of 2 GPUs, got 500");
  EXPECT_THAT(JobsError(head), HasSubstr("expected one job at least"));
  EXPECT_EQ(
      JobsError("name,cpu_milli,memory_mib,num_gpu,gpu_milli,creation_time,deletion_time\np,1,1,1,1,9,8\n"),
      "j.csv:2: deletion_time: expected 9 (creation_time) or later, got 8");
  EXPECT_EQ(JobsError("name\n"), "j.csv:1: expected a column \"cpu_milli\" in the first line");
  EXPECT_EQ(JobsError("name,cpu_milli,memory_mib,num_gpu,gpu_milli,cpu_milli\np,1,1,1,100,2\n"),
            "j.csv:1: duplicate column \"cpu_milli\"");
  EXPECT_EQ(JobsError("name,cpu_milli,memory_mib,num_gpu,gpu_milli,,\np,1,1,1,100,,\n"), "accepted")
      << "columns that a spreadsheet left empty";
}

TEST(JobList, GpuMilliOfAJobWithoutGpusIsANumberOrNothing) {
  const std::string head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli\n";
  EXPECT_EQ(JobsError(head + "p,1,1,0,0\np,1,1,0,\np,1,1,0,1000\n"), "accepted");
  for (const char* bad : {"nan", "-1", "x"})
    EXPECT_THAT(JobsError(head + "p,1,1,0," + bad + "\n"), HasSubstr("j.csv:2: gpu_milli: expected")) << bad;
}

TEST(JobList, AModelIsCountedOnceAJobAndNoneIsWithoutAName) {
  const std::string head = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec\n";
  const auto list = ParseJobList(head + "p,1,1,1,1000,H100|H100\n", "j.csv", Models());
  ASSERT_TRUE(list);
  EXPECT_EQ(list->absent_models, (std::map<std::string, int>{{"H100", 1}}));
  for (const char* bad : {"G2|", "|G2", "G2||P100", "|"})
    EXPECT_EQ(JobsError(head + "p,1,1,1,1000," + bad + "\n"),
              "j.csv:2: gpu_spec: expected models separated by |, got \"" + std::string(bad) + "\"");
}

TEST(JobList, AFileOfASpreadsheetMayBeginWithAByteOrderMark) {
  const std::string path = ::testing::TempDir() + "/spillway-bom.csv";
  std::ofstream(path) << "\xef\xbb\xbf" << kJobs;
  const auto list = LoadJobList(path, Models());
  std::remove(path.c_str());
  ASSERT_TRUE(list) << list.error().message;
  EXPECT_EQ(list->jobs.size(), 3u);
}

const std::string kCluster =
    "cluster:\n"
    "  isolation: fraction\n"
    "  models:\n"
    "    - {name: G2, speed: 2, mig: true}\n"
    "  nodes:\n"
    "    - {name: a, count: 2, model: G2, gpus: 2, cpu_milli: 8000}\n"
    "    - {name: b, model: T4}\n"
    "  jobs:\n"
    "    - {name: j, node: a-2, gpu: 1, start: 4, milli: 400, tenant: red}\n";

std::string ClusterError(const std::string& text) {
  const auto file = ParseClusterFile(text, "c.yaml");
  return file ? "accepted" : file.error().message;
}

std::string Replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

TEST(ClusterFile, IsTheClusterWithItsJobs) {
  const auto file = ParseClusterFile(kCluster, "c.yaml");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->cluster.nodes().size(), 3u);
  EXPECT_EQ(file->cluster.gpus(), 5);
  EXPECT_EQ(file->cluster.gpus_on(), 1);
  EXPECT_EQ(file->cluster.SpotOf(0), (Spot{1, 1, 4}));
  EXPECT_EQ(file->cluster.models()[0].speed, 2);
  EXPECT_NE(file->TenantOf("red"), file->TenantOf(""));
  EXPECT_NE(file->TenantOf("red"), file->TenantOf("blue"));
  EXPECT_EQ(file->cluster.Check(), "");
}

TEST(ClusterFile, ErrorsNameFileLineKeyAndWhatWasExpected) {
  EXPECT_THAT(ClusterError("x: 1\n"), HasSubstr("c.yaml:1: unknown key \"x\""));
  EXPECT_THAT(ClusterError(""), HasSubstr("c.yaml:1: "));
  EXPECT_THAT(ClusterError("cluster: {nodes: []}\n"), HasSubstr("expected at least one node"));
  EXPECT_THAT(ClusterError(Replaced(kCluster, "fraction", "some")),
              HasSubstr("c.yaml:2: cluster.isolation: expected"));
  EXPECT_THAT(ClusterError(Replaced(kCluster, "a-2", "c")),
              HasSubstr("expected a node of this file, got \"c\""));
  EXPECT_THAT(
      ClusterError(Replaced(kCluster, "start: 4", "start: 2")),
      HasSubstr("expected a job that fits a-2 beside those above it: its slice, a 3g, may begin at 0, 4"));
  EXPECT_THAT(ClusterError(Replaced(kCluster, "gpu: 1", "gpu: 2")),
              HasSubstr("it has 2 GPUs, the first is 0"));
  EXPECT_THAT(ClusterError(Replaced(kCluster, "milli: 400", "milli: 400, cpu_milli: 9000")),
              HasSubstr("it has 8000 cpu_milli left, asked for: 9000"));
  EXPECT_THAT(ClusterError(Replaced(kCluster, "name: b", "name: a-1")), HasSubstr("duplicate name"));
  EXPECT_THAT(ClusterError(kCluster + "    - {name: k, node: a-2, gpu: 1, start: 4, milli: 400}\n"),
              HasSubstr("c.yaml:10: "));
  EXPECT_THAT(ClusterError("cluster: [\n"), HasSubstr("expected YAML"));
}

TEST(ClusterFile, AWholeGpuIsTheOneThatIsNamed) {
  const std::string nodes = "cluster:\n  nodes:\n    - {name: n, model: T4, gpus: 4}\n  jobs:\n";
  const auto file = ParseClusterFile(nodes + "    - {name: j, node: n, gpu: 3}\n    - {node: n}\n", "c.yaml");
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->cluster.WholeGpusOf(0), 1u << 3);
  EXPECT_EQ(file->cluster.WholeGpusOf(1), 1u << 0);
  EXPECT_EQ(file->job_names, (std::vector<std::string>{"j", ""}));
  EXPECT_THAT(ClusterError(nodes + "    - {node: n, gpu: 4}\n"), HasSubstr("it has 4 GPUs, the first is 0"));
  EXPECT_THAT(
      ClusterError(nodes + "    - {node: n, gpu: 1}\n    - {node: n, gpu: 1}\n"),
      HasSubstr(
          "c.yaml:6: cluster.jobs[#2]: expected a job that fits n beside those above it: GPU 1 is taken"));
  EXPECT_THAT(ClusterError(nodes + "    - {node: n, gpus: 2, gpu: 1}\n"),
              HasSubstr(".gpu: expected none of a job of 2 GPUs, got 1"));
}

TEST(ClusterFile, TellsAllProblemsAtOnceAndOfNoneTwice) {
  const std::string error = ClusterError(
      "cluster:\n"
      "  isolation: some\n"
      "  models:\n"
      "    - {name: G2}\n"
      "    - {name: G2}\n"
      "  nodes:\n"
      "    - {name: a, gpus: 99}\n"
      "    - {name: b, gpus: 1}\n"
      "    - {name: b}\n"
      "  jobs:\n"
      "    - {name: j, node: a, gpu: 5}\n"
      "    - {name: j, node: b, milli: 2000}\n"
      "    - {name: k, node: b, gpus: 3}\n"
      "    - {name: l, node: c}\n");
  EXPECT_EQ(std::count(error.begin(), error.end(), '\n'), 7) << error;
  for (const char* line :
       {"c.yaml:2: cluster.isolation", "c.yaml:5: cluster.models[G2].name: expected each model once",
        "c.yaml:7: cluster.nodes[a].gpus", "c.yaml:9: cluster.nodes[b].name",
        "c.yaml:12: cluster.jobs[j].name: duplicate name", "c.yaml:12: cluster.jobs[j].milli",
        "c.yaml:13: cluster.jobs[k]: expected a job that fits b beside those above it: "
        "1 of its 1 GPUs are idle, asked for: 3",
        "c.yaml:14: cluster.jobs[l].node"})
    EXPECT_THAT(error, HasSubstr(line));
}

TEST(Models, AreNamedByTheCluster) {
  const std::vector<GpuModel> models = Models();
  EXPECT_EQ(*ParseModels("G2", models), 2u);
  EXPECT_EQ(*ParseModels("P100|G2", models), 3u);
  EXPECT_EQ(*ParseModels("", models), 0u);
  EXPECT_EQ(*ParseModels("T4|G2", models), kAbsentModel | 2u) << "known, but not here";
  EXPECT_EQ(ParseModels("T5", models).error().message, "--model T5: expected one of P100, G2");
}

}  // namespace
}  // namespace spillway::scheduler
