// SPDX-License-Identifier: Apache-2.0
// `spillway sched` as its users meet it, on lists of its own.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "program.h"

namespace spillway {

class SchedCli : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_.Write("openb_node_list_gpu_node.csv",
                  "sn,cpu_milli,memory_mib,gpu,model\na,64000,262144,2,T4\nb,96000,393216,8,G2\n");
    std::string jobs = "name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,creation_time,deletion_time\n";
    for (int i = 0; i < 40; ++i) {
      const std::string n = std::to_string(i);
      jobs += "p" + n + ",2000,1024,1," +
              (i % 3 == 0   ? "1000"
               : i % 3 == 1 ? "470"
                            : "230") +
              ",," + n + "00," + n + "900\n";
    }
    folder_.Write("openb_pod_list_tiny.csv", jobs);
    folder_.Write("untimed.csv", "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,1,1,1,500\n");
    folder_.Write("c.yaml",
                  "cluster:\n  isolation: gpu\n  nodes:\n    - {name: n, count: 2, model: T4}\n"
                  "  jobs:\n    - {name: j, node: n-1, milli: 300, tenant: red}\n");
  }
  testing::Outcome Run(std::vector<std::string> words) const {
    words.insert(words.begin(), {SPILLWAY, "sched"});
    return testing::RunProgram(words);
  }
  testing::Outcome Replay(std::vector<std::string> words) const {
    words.insert(words.begin(), {"replay", "--data", folder_.File("")});
    return Run(words);
  }
  void ExpectRefused(const testing::Outcome& outcome, const std::string& why) const {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_THAT(outcome.err, ::testing::HasSubstr(why));
    EXPECT_THAT(outcome.out, ::testing::IsEmpty());
  }

  testing::Folder folder_;
};

}  // namespace spillway
