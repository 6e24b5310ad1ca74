// SPDX-License-Identifier: Apache-2.0
// Whose a pod is: its namespace's label, as the API server lists it, and nothing that the pod says.
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "extender_bed.h"

namespace spillway::kubernetes {
namespace {

class TenantsTest : public ExtenderTest {
 protected:
  TenantsTest() : rules_(::testing::TempDir() + "/spillway-rules-" + std::to_string(getpid()) + ".yaml") {
    std::ofstream(rules_) << "cluster: {isolation: gpu}\n";
  }
  ~TenantsTest() override { std::filesystem::remove(rules_); }
  void StartApart(uint32_t resync_ms = 3'600'000) {
    ExtenderConfig config = Config(5000, resync_ms);
    config.cluster = rules_;
    Start(config, nullptr);
  }
  static json From(const std::string& space, const std::string& name, const std::string& milli) {
    json pod = PodOf(name, milli);
    pod["metadata"]["namespace"] = space;
    return pod;
  }

  const std::string rules_;
};

TEST_F(TenantsTest, NamespacesWithOneLabelShareAGpuAndOthersDoNot) {
  server_.SetTenant("ml", "red");
  server_.SetTenant("vision", "red");
  server_.SetTenant("speech", "blue");
  StartApart();
  const json first = From("ml", "p", "600");
  Filter(first);
  ASSERT_EQ(Bind(first, "a"), "");
  EXPECT_EQ(Filter(From("vision", "q", "100"))["NodeNames"], json({"a", "b"}));
  for (const char* space : {"speech", "without-label"}) {
    const json other = Filter(From(space, "r", "100"));
    EXPECT_EQ(other["NodeNames"], json({"b"})) << space;
    EXPECT_EQ(other["FailedNodes"]["a"], "it has room on GPUs of another tenant only") << space;
  }
}

TEST_F(TenantsTest, ALabelThatIsNewCountsFromTheNextLookOn) {
  server_.SetTenant("ml", "red");
  StartApart(20);
  const json first = From("ml", "p", "600");
  Filter(first);
  ASSERT_EQ(Bind(first, "a"), "");
  ASSERT_EQ(Filter(From("vision", "q", "100"))["NodeNames"], json({"b"}));
  server_.SetTenant("vision", "red");
  EXPECT_TRUE(Eventually([&] {
    return Filter(From("vision", "q", "100"))["NodeNames"] == json({"a", "b"});
  }));
}

}  // namespace
}  // namespace spillway::kubernetes
