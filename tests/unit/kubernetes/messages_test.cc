// SPDX-License-Identifier: Apache-2.0
// What the scheduler of Kubernetes sends, and what goes back: understood as its types define it, refused in
// words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

#include "kube.h"
#include "scheduler/extender/claims.h"
#include "scheduler/extender/kube_json.h"
#include "scheduler/extender/node.h"
#include "scheduler/extender/pod.h"
#include "scheduler/extender/wire.h"

namespace spillway::scheduler {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::KubeNodeOf;
using testing::KubePod;

std::string AskError(const json& pod) {
  const auto ask = ReadPodAsk(pod);
  return ask ? "accepted" : ask.error().message;
}

// A pod that asks by annotation alone is not shown to an extender with managedResources, and runs with a
// guess.
TEST(PodAsk, IsByResourceOnly) {
  const auto ask = ReadPodAsk(KubePod("p", "", "", {{kMilliResource, "470"}}));
  ASSERT_FALSE(ask);
  EXPECT_EQ(ask.error().message,
            "spillway.io/gpu-milli: expected as a resource in limits, got an annotation");
}

TEST(Quantity, IsReadAsKubernetesWritesIt) {
  for (const auto& [text, value] : std::vector<std::pair<std::string, double>>{{"500m", 0.5},
                                                                               {"2", 2},
                                                                               {"1.5", 1.5},
                                                                               {"1e3", 1000},
                                                                               {"2k", 2000},
                                                                               {"1Gi", 1 << 30},
                                                                               {"1E", 1e18}})
    EXPECT_DOUBLE_EQ(ParseQuantity(text).value_or(-1), value) << text;
  EXPECT_DOUBLE_EQ(ParseQuantity(json(3)).value_or(-1), 3);
  for (const char* text : {"", "m", "-1", "1x", "1 ", "1mi", "nan", "inf", "1e999"})
    EXPECT_FALSE(ParseQuantity(text)) << text;
  EXPECT_FALSE(ParseQuantity(json::array()));
}

TEST(Json, DeepNestingAndNonsenseAreRefused) {
  EXPECT_TRUE(ParseKubeJson(R"({"a":{"b":["[[[[\"]]]]"]}})"));
  EXPECT_FALSE(ParseKubeJson(std::string(1'000'000, '[')));
  std::string deep = "{\"a\":";
  for (int i = 0; i < 200; ++i) deep += "[";
  for (int i = 0; i < 200; ++i) deep += "]";
  EXPECT_THAT(ParseKubeJson(deep + "}").error().message, HasSubstr("nested 100 deep"));
  for (const char* text : {"", "null", "[]", "{", "\"x\"", "{\"a\":}", "\xff\xfe"})
    EXPECT_EQ(ParseKubeJson(text).error().message, "expected a JSON object") << text;
}

TEST(PodAsk, IsAPartOfAGpuWholeOnesOrASlice) {
  const auto part = ReadPodAsk(KubePod("p", kMilliResource, "470"));
  ASSERT_TRUE(part) << part.error().message;
  EXPECT_EQ(part->giver, Giver::kSpillway);
  EXPECT_EQ(part->job.milli, 470);
  EXPECT_EQ(part->job.cpu_milli, 2000);
  EXPECT_EQ(part->job.memory_mib, 1024);
  EXPECT_EQ(part->space, "ml") << "whose it is";
  const auto whole = ReadPodAsk(KubePod("p", kMilliResource, "2k"));
  EXPECT_EQ(whole->job.gpus, 2);
  EXPECT_EQ(whole->job.milli, 1000);
  const auto plugin = ReadPodAsk(KubePod("p", "nvidia.com/gpu", "4"));
  EXPECT_EQ(plugin->giver, Giver::kDevicePlugin);
  EXPECT_EQ(plugin->job.gpus, 4);
  const auto slice = ReadPodAsk(KubePod("p", "nvidia.com/mig-3g.40gb", "1"));
  EXPECT_EQ(slice->mig, "3g.40gb");
  EXPECT_TRUE(slice->job.Fractional());
  EXPECT_EQ(ReadPodAsk(KubePod("p", "", ""))->giver, Giver::kNobody);
  const auto noted = ReadPodAsk(KubePod("p", kMilliResource, "250", {{kModelsAnnotation, "T4|A10"}}));
  EXPECT_EQ(noted->job.milli, 250);
  EXPECT_EQ(noted->models, (std::vector<std::string>{"T4", "A10"}));
}

TEST(PodAsk, NamesModelsInBoundedLength) {
  std::string names;
  while (names.size() < 100'000) names += "a|";
  const json pod = KubePod("p", kMilliResource, "250", {{kModelsAnnotation, names}});
  const auto refused = ReadPodAsk(pod);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("expected at most 4096 bytes, got 100000"));
  // A pod that is bound is there all the same.
  const auto bound = ReadBoundPod(pod);
  ASSERT_TRUE(bound) << bound.error().message;
  EXPECT_EQ(bound->ask.models, std::vector<std::string>{"a"});
}

// They are kept for thousands of pods that came and went.
TEST(PodAsk, NamesNoMoreModelsThanThereAre) {
  std::string names = "T4";
  for (int i = 1; i < 31; i++) names += "|T4|" + std::to_string(i);
  const auto most = ReadPodAsk(KubePod("p", kMilliResource, "250", {{kModelsAnnotation, names}}));
  ASSERT_TRUE(most) << most.error().message;
  EXPECT_EQ(most->models.size(), 31u);
  const json pod = KubePod("p", kMilliResource, "250", {{kModelsAnnotation, names + "|A10|A100"}});
  const auto refused = ReadPodAsk(pod);
  ASSERT_FALSE(refused);
  EXPECT_THAT(refused.error().message, ::testing::HasSubstr("expected at most 31 models"));
  EXPECT_EQ(ReadBoundPod(pod)->ask.models.size(), 32u);
}

TEST(PodAsk, SumsContainersAsKubernetesDoes) {
  json pod = KubePod("p", kMilliResource, "300");
  pod["spec"]["containers"].push_back({{"name", "d"}, {"resources", {{"limits", {{kMilliResource, 200}}}}}});
  EXPECT_EQ(ReadPodAsk(pod)->job.milli, 500) << "a limit alone is a request";
  pod["spec"]["initContainers"] = {{{"name", "i"}, {"resources", {{"requests", {{kMilliResource, 700}}}}}}};
  EXPECT_EQ(ReadPodAsk(pod)->job.milli, 700) << "it runs before them";
  pod["spec"]["initContainers"][0]["restartPolicy"] = "Always";
  EXPECT_THAT(AskError(pod), HasSubstr("got 1200")) << "a side car runs beside them";
  pod["spec"]["initContainers"][0]["resources"]["requests"][kMilliResource] = 500;
  EXPECT_EQ(ReadPodAsk(pod)->job.gpus, 1);
}

TEST(PodAsk, RefusesWhatCannotBe) {
  EXPECT_THAT(AskError(KubePod("p", kMilliResource, "1500")),
              HasSubstr("spillway.io/gpu-milli: expected 1 to 1000, or whole GPUs as 2000, 3000"));
  EXPECT_THAT(AskError(KubePod("p", kMilliResource, "500m")), HasSubstr("got 0.5"));
  EXPECT_THAT(AskError(KubePod("p", "nvidia.com/gpu", "17")), HasSubstr("up to 16"));
  EXPECT_THAT(AskError(KubePod("p", "nvidia.com/mig-1g.5gb.me", "1")), HasSubstr("mig-Cg.Mgb"));
  EXPECT_THAT(AskError(KubePod("p", "nvidia.com/mig-1g.5gb", "2")), HasSubstr("expected one slice"));
  json both = KubePod("p", "nvidia.com/gpu", "1");
  both["spec"]["containers"][0]["resources"]["requests"][kMilliResource] = "100";
  EXPECT_THAT(AskError(both), HasSubstr("asks for GPUs in one way"));
  for (const json& pod :
       {json::object(), json{{"metadata", 1}, {"spec", 2}}, json{{"metadata", {{"name", 3}}}}})
    EXPECT_THAT(AskError(pod), HasSubstr("metadata.name")) << pod;
  json odd = KubePod("p", kMilliResource, "1");
  odd["spec"]["containers"] = "none";
  odd["metadata"]["annotations"] = json::array();
  EXPECT_EQ(AskError(odd), "accepted") << "what is of another type than it should be is not there";
}

TEST(KubeNode, IsReadFromTheLabelsOfGpuFeatureDiscovery) {
  for (const auto& [product, memory, model] :
       std::vector<std::tuple<const char*, double, const char*>>{{"NVIDIA-A100-SXM4-80GB", 81920, "A100-80"},
                                                                 {"A100-SXM4-40GB", 40960, "A100-40"},
                                                                 {"NVIDIA-A100-PCIE-40GB", 0, "A100-40"},
                                                                 {"NVIDIA-H100-80GB-HBM3", 81559, "H100-80"},
                                                                 {"NVIDIA-H100-NVL", 95830, "H100-NVL"},
                                                                 {"NVIDIA-H200", 143771, "H200"},
                                                                 {"Tesla-T4", 15360, "T4"},
                                                                 {"Tesla-V100-SXM2-32GB", 32768, "V100M32"},
                                                                 {"NVIDIA-A10-SHARED", 23028, "A10"},
                                                                 {"NVIDIA-A10G", 23028, "A10G"},
                                                                 {"", 0, "GPU"}})
    EXPECT_EQ(ModelOfProduct(product, memory), model) << product;
  const auto node = ReadKubeNode(KubeNodeOf("n", "NVIDIA-A100-SXM4-80GB", 8, 81920));
  EXPECT_EQ(*node, (KubeNode{"n", "A100-80", 8, 64000, ""}));
  json single = KubeNodeOf("n", "NVIDIA-A100-SXM4-80GB-MIG-1g.10gb", 56, 9728);
  EXPECT_THAT(ReadKubeNode(single)->problem, HasSubstr("MIG strategy single"));
  EXPECT_THAT(ReadKubeNode(KubeNodeOf("n", "Tesla-T4", 17, 1))->problem, HasSubstr("17 GPUs"));
  EXPECT_EQ(ReadKubeNode(json{{"metadata", {{"name", "cpu-only"}}}})->gpus, 0);
  EXPECT_FALSE(ReadKubeNode(json::object()));
}

TEST(Mig, AProfileIsOfAModel) {
  EXPECT_EQ(ProfileOn(ModelByName("A100-80"), "1g.10gb"), Profile::k1g);
  EXPECT_EQ(ProfileOn(ModelByName("A100-40"), "1g.10gb"), Profile::k1gMem);
  EXPECT_EQ(ProfileOn(ModelByName("H200"), "3g.71gb"), Profile::k3g);
  EXPECT_EQ(ProfileOn(ModelByName("A100-40"), "3g.40gb"), std::nullopt);
  EXPECT_EQ(ProfileOn(ModelByName("T4"), "1g.5gb"), std::nullopt);
}

TEST(Args, KeysMatterAndTheirCaseDoesNot) {
  const json pod = KubePod("p", "", "");
  for (const auto& [pod_key, names] :
       {std::pair{"Pod", "NodeNames"}, std::pair{"pod", "nodenames"}, std::pair{"POD", "nodeNames"}}) {
    const auto args = ParseExtenderArgs(json{{pod_key, pod}, {"Nodes", nullptr}, {names, {"a", "b"}}}.dump());
    ASSERT_TRUE(args) << args.error().message;
    EXPECT_EQ(args->names, (std::vector<std::string>{"a", "b"}));
    EXPECT_FALSE(args->whole_nodes);
  }
  const auto whole = ParseExtenderArgs(json{
      {"Pod", pod},
      {"Nodes", {{"items", {KubeNodeOf("a", "Tesla-T4", 1, 1)}}}},
      {"NodeNames", nullptr}}.dump());
  ASSERT_TRUE(whole);
  EXPECT_TRUE(whole->whole_nodes);
  const auto bind = ParseBindingArgs(R"({"PodName":"p","podNamespace":"ml","PodUID":"u","Node":"a"})");
  ASSERT_TRUE(bind);
  EXPECT_EQ(bind->space + bind->pod + bind->uid + bind->node, "mlpua");
}

TEST(Args, MalformedOnesAreRefusedInWords) {
  for (const char* body : {"", "{}", "[]", "{\"Pod\":7}", "{\"Pod\":{},\"NodeNames\":7}",
                           "{\"Pod\":{},\"NodeNames\":[1]}", "{\"Pod\":{},\"Nodes\":{\"items\":3}}",
                           "{\"Pod\":{},\"Nodes\":{\"items\":[{}]}}", "{\"Pod\":{},\"Nodes\":null}"})
    EXPECT_THAT(ParseExtenderArgs(body).error().message, HasSubstr("expected")) << body;
  for (const char* body : {"", "{}", R"({"PodName":"p","PodNamespace":"ml","PodUID":7,"Node":"a"})"})
    EXPECT_THAT(ParseBindingArgs(body).error().message, HasSubstr("expected")) << body;
  const auto error = [](const std::string& space, const std::string& pod) {
    const auto args = ParseBindingArgs(
        json{{"PodName", pod}, {"PodNamespace", space}, {"PodUID", "u"}, {"Node", "a"}}.dump());
    return args ? "accepted" : args.error().message;
  };
  for (const char* name : {"..", ".", "a/b", "a..b", "-a", "a.", "A", "a%2f", "a b"}) {
    EXPECT_THAT(error(name, "p"), HasSubstr("PodNamespace: expected")) << name;
    EXPECT_THAT(error("ml", name), HasSubstr("PodName: expected")) << name;
  }
  EXPECT_THAT(error(std::string(64, 'a'), "p"), HasSubstr("PodNamespace"));
  EXPECT_EQ(error("ml-1", "web.0-a"), "accepted");
}

// What a question names is kept for thousands of pods and nodes, and judged name by name under a lock.
TEST(Args, NamesAndNodesAreBounded) {
  const auto error = [](const json& question) {
    const auto args = ParseExtenderArgs(question.dump());
    return args ? "" : args.error().message;
  };
  const json pod = KubePod("p", "", "");
  EXPECT_EQ(error({{"Pod", pod}, {"NodeNames", std::vector<std::string>(20'000, "n")}}), "");
  EXPECT_EQ(error({{"Pod", pod}, {"NodeNames", std::vector<std::string>(20'001, "n")}}),
            "NodeNames: expected at most 20000 nodes");
  EXPECT_EQ(error({{"Pod", pod}, {"NodeNames", {std::string(254, 'n')}}}),
            "NodeNames: expected names of 1 to 253 bytes");
  EXPECT_EQ(error({{"Pod", pod}, {"Nodes", {{"items", {KubeNodeOf(std::string(254, 'n'), "", 1, 1)}}}}}),
            "Nodes.items: expected names of 1 to 253 bytes");
  json long_uid = pod;
  long_uid["metadata"]["uid"] = std::string(129, 'u');
  EXPECT_EQ(ReadPodAsk(long_uid).error().message, "Pod: metadata.uid: expected at most 128 bytes, got 129");
  EXPECT_LE(ReadKubeNode(KubeNodeOf("n", std::string(1000, 'X'), 1, 1))->model.size(), 63u);
  EXPECT_THAT(ParseBindingArgs(R"({"PodName":"p","PodNamespace":"ml","PodUID":"u","Node":"a\nforged"})")
                  .error()
                  .message,
              HasSubstr("Node: expected"));
}

TEST(Replies, AreWhatTheSchedulerDecodes) {
  ExtenderArgs args;
  args.names = {"a", "b", "c"};
  const std::vector<FilterVerdict> verdicts = {{"", false}, {"busy", false}, {"no GPUs", true}};
  const json by_name = json::parse(FilterReply(args, verdicts));
  EXPECT_EQ(by_name["NodeNames"], json({"a"}));
  EXPECT_EQ(by_name["Nodes"], nullptr);
  EXPECT_EQ(by_name["FailedNodes"], (json{{"b", "busy"}}));
  EXPECT_EQ(by_name["FailedAndUnresolvableNodes"], (json{{"c", "no GPUs"}}));
  EXPECT_EQ(by_name["Error"], "");
  args.whole_nodes = true;
  args.nodes = {{{"metadata", {{"name", "a"}}}, {"odd", 1}}, {{"metadata", {{"name", "b"}}}}, {}};
  const json whole = json::parse(FilterReply(args, verdicts));
  EXPECT_EQ(whole["NodeNames"], nullptr);
  EXPECT_EQ(whole["Nodes"]["items"], json::array({args.nodes[0]})) << "as it came";
  EXPECT_EQ(json::parse(PriorityReply({"a"}, {7})), json::array({{{"Host", "a"}, {"Score", 7}}}));
  EXPECT_EQ(json::parse(ErrorReply("bad \xff"))["Error"], "bad \xEF\xBF\xBD");
  const json binding = json::parse(BindingBody({"ml", "p", "u", "a"}, {{kGpuAnnotation, "2"}}));
  EXPECT_EQ(binding["target"]["name"], "a");
  EXPECT_EQ(binding["metadata"]["uid"], "u");
  EXPECT_EQ(binding["metadata"]["annotations"][kGpuAnnotation], "2");
}

// Whoever writes a node's annotations writes any number.
TEST(Claims, AreOverAMinuteAfterTheyWereWrittenAndBeforeThat) {
  constexpr int64_t kNow = 1'700'000'000, kMost = std::numeric_limits<int64_t>::max();
  const auto is_over = [](int64_t at) { return IsOver({"ml", "p", "0", "", at, "x1"}, kNow); };
  for (const int64_t at : {kNow - 60, kNow, kNow + 60}) EXPECT_FALSE(is_over(at)) << at;
  for (const int64_t at : {kNow - 61, kNow + 61, kMost, -kMost - 1}) EXPECT_TRUE(is_over(at)) << at;
}

TEST(Claims, AreReadAsTheyAreWrittenAndAgainstTheNodesVersion) {
  json node = KubeNodeOf("n", "Tesla-T4", 1, 15360);
  node["metadata"]["resourceVersion"] = "41";
  const Claims claims = {{"uid-1", {"ml", "p", "0", "3g@4", 1'700'000'000, "x1"}},
                         {"uid-2", {"ml", "q", "0,3", "", 5}}};
  const json patch = json::parse(ClaimsPatch(node, claims));
  EXPECT_EQ(patch["metadata"]["resourceVersion"], "41");
  node.merge_patch(patch);
  EXPECT_EQ(ReadClaims(node), claims);
  for (const char* odd : {"", "[]", "{", "{\"u\": 1}", "{\"u\": {\"pod\": 1}}"}) {
    node["metadata"]["annotations"][kClaimsAnnotation] = odd;
    EXPECT_TRUE(ReadClaims(node).empty()) << odd;
  }
}

}  // namespace
}  // namespace spillway::scheduler
