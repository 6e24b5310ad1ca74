// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extender/wire.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/yaml/problems.h"
#include "scheduler/extender/kube_json.h"

namespace spillway::scheduler {
namespace {

using nlohmann::json;

// Names and reasons may quote what was sent: bytes that are not UTF-8 must not throw.
std::string Dump(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

std::string TextAnyCase(const json& object, std::string_view key) {
  const json* value = FindAnyCase(object, key);
  return value != nullptr && value->is_string() ? value->get<std::string>() : "";
}

json Move(const json* value) { return std::move(*const_cast<json*>(value)); }

// As Kubernetes names things: small letters, digits, '-' and, in names of pods, '.'; no "..", no '/'. They
// become part of a URL that is asked for with our token.
bool IsDnsName(std::string_view name, size_t longest, bool dots) {
  const auto plain = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
  if (name.empty() || name.size() > longest || !plain(name.front()) || !plain(name.back())) return false;
  for (size_t i = 1; i + 1 < name.size(); ++i) {
    if (plain(name[i]) || name[i] == '-') continue;
    if (!dots || name[i] != '.' || !plain(name[i - 1]) || !plain(name[i + 1])) return false;
  }
  return true;
}

constexpr size_t kMaxNames = 20'000;  // of nodes in one question; Kubernetes is tested with 5,000

Result<void> AddName(ExtenderArgs& args, std::string name, const char* key) {
  if (name.empty() || name.size() > kMaxName)
    return Fail(ErrorCode::kBadInput, fmt::format("{}: expected names of 1 to {} bytes", key, kMaxName));
  if (args.names.size() == kMaxNames)
    return Fail(ErrorCode::kBadInput, fmt::format("{}: expected at most {} nodes", key, kMaxNames));
  args.names.push_back(std::move(name));
  return {};
}

}  // namespace

Result<ExtenderArgs> ParseExtenderArgs(std::string_view body) {
  auto parsed = ParseKubeJson(body);
  if (!parsed) return tl::make_unexpected(parsed.error());
  ExtenderArgs args;
  const json* pod = FindAnyCase(*parsed, "Pod");
  if (pod == nullptr || !pod->is_object()) return Fail(ErrorCode::kBadInput, "Pod: expected a pod");
  args.pod = Move(pod);
  if (const json* names = FindAnyCase(*parsed, "NodeNames")) {
    if (!names->is_array()) return Fail(ErrorCode::kBadInput, "NodeNames: expected a list of names");
    for (const json& name : *names) {
      if (!name.is_string()) return Fail(ErrorCode::kBadInput, "NodeNames: expected a list of names");
      if (const auto added = AddName(args, name.get<std::string>(), "NodeNames"); !added)
        return tl::make_unexpected(added.error());
    }
    return args;
  }
  const json* nodes = FindAnyCase(*parsed, "Nodes");
  if (nodes == nullptr) return Fail(ErrorCode::kBadInput, "expected Nodes or NodeNames");
  args.whole_nodes = true;
  args.nodes = json::array();
  const json* items = FindAnyCase(*nodes, "items");  // null where there are none
  if (items == nullptr) return args;
  if (!items->is_array()) return Fail(ErrorCode::kBadInput, "Nodes.items: expected a list of nodes");
  for (const json& node : *items) {
    const json* meta = Find(node, "metadata");
    const std::string name = meta == nullptr ? "" : TextAt(*meta, "name");
    if (name.empty()) return Fail(ErrorCode::kBadInput, "Nodes.items: expected nodes with metadata.name");
    if (const auto added = AddName(args, name, "Nodes.items"); !added)
      return tl::make_unexpected(added.error());
  }
  args.nodes = Move(items);
  return args;
}

Result<BindingArgs> ParseBindingArgs(std::string_view body) {
  const auto parsed = ParseKubeJson(body);
  if (!parsed) return tl::make_unexpected(parsed.error());
  BindingArgs args{TextAnyCase(*parsed, "PodNamespace"), TextAnyCase(*parsed, "PodName"),
                   TextAnyCase(*parsed, "PodUID"), TextAnyCase(*parsed, "Node")};
  if (args.space.empty() || args.pod.empty() || args.uid.empty() || args.node.empty())
    return Fail(ErrorCode::kBadInput, "expected PodName, PodNamespace, PodUID and Node");
  if (!IsDnsName(args.space, kMaxLabel, false))
    return Fail(ErrorCode::kBadInput, "PodNamespace: expected a name of small letters, digits and '-', got " +
                                          yaml::Excerpt(args.space));
  if (!IsDnsName(args.pod, kMaxName, true))
    return Fail(ErrorCode::kBadInput, "PodName: expected a name of small letters, digits, '-' and '.', got " +
                                          yaml::Excerpt(args.pod));
  if (!IsDnsName(args.node, kMaxName, true))
    return Fail(ErrorCode::kBadInput, "Node: expected a name of small letters, digits, '-' and '.', got " +
                                          yaml::Excerpt(args.node));
  return args;
}

std::string FilterReply(ExtenderArgs args, const std::vector<FilterVerdict>& verdicts) {
  json names = json::array(), items = json::array();
  json failed = json::object(), for_good = json::object();
  for (size_t i = 0; i < args.names.size(); ++i) {
    if (!verdicts[i].why.empty()) {
      (verdicts[i].for_good ? for_good : failed)[args.names[i]] = verdicts[i].why;
    } else if (args.whole_nodes) {
      items.push_back(std::move(args.nodes[i]));
    } else {
      names.push_back(args.names[i]);
    }
  }
  json reply = {{"Nodes", nullptr},
                {"NodeNames", nullptr},
                {"FailedNodes", std::move(failed)},
                {"FailedAndUnresolvableNodes", std::move(for_good)},
                {"Error", ""}};
  if (args.whole_nodes)
    reply["Nodes"] = {{"metadata", json::object()}, {"items", std::move(items)}};
  else
    reply["NodeNames"] = std::move(names);
  return Dump(reply);
}

std::string PriorityReply(const std::vector<std::string>& names, const std::vector<int>& scores) {
  json list = json::array();
  for (size_t i = 0; i < names.size(); ++i) list.push_back({{"Host", names[i]}, {"Score", scores[i]}});
  return Dump(list);
}

std::string ErrorReply(const std::string& message) { return Dump(json{{"Error", message}}); }

std::string BindingBody(const BindingArgs& args,
                        const std::vector<std::pair<std::string, std::string>>& annotations) {
  json meta = {{"name", args.pod}, {"namespace", args.space}, {"uid", args.uid}};
  for (const auto& [key, value] : annotations) meta["annotations"][key] = value;
  return Dump({{"apiVersion", "v1"},
               {"kind", "Binding"},
               {"metadata", std::move(meta)},
               {"target", {{"apiVersion", "v1"}, {"kind", "Node"}, {"name", args.node}}}});
}

}  // namespace spillway::scheduler
