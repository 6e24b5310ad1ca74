// SPDX-License-Identifier: Apache-2.0
// An API server in this process, which takes, refuses, contradicts, hangs and lies low, and a client of it
// that throws.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <vector>

#include "api/http.h"
#include "api/listen.h"
#include "kube.h"
#include "kubernetes/kube_client.h"

namespace spillway::kubernetes {

// Nodes, pods and the binding subresource, as an API server has them.
class FakeApiServer {
 public:
  enum class Binding { kTake, kForbid, kConflict, kHang, kTakeAndHang, kBreak, kPage, kOldSuccess };

  FakeApiServer() {
    const auto fd = api::ListenTcp("127.0.0.1:0");
    EXPECT_TRUE(fd);
    url = "http://127.0.0.1:" + std::to_string(api::PortOf(*fd));
    http_ = *api::HttpServer::StartAsync(
        *fd, [this](api::Request request, api::Responder respond) { Serve(request, std::move(respond)); },
        {});
  }

  // That asks it.
  [[nodiscard]] ExtenderConfig Config() const {
    ExtenderConfig config;
    config.listen = "127.0.0.1:0";
    config.api_server = url;
    return config;
  }

  void Put(const nlohmann::json& pod) {
    const std::lock_guard lock(mutex_);
    pods_[pod["metadata"]["name"]] = pod;
  }
  void SetTenant(const std::string& space, const std::string& tenant) {
    const std::lock_guard lock(mutex_);
    spaces_[space] = tenant;
  }
  // What a watch is told next.
  void Tell(const std::string& type, const nlohmann::json& object) {
    const std::lock_guard lock(mutex_);
    events_.push_back({{"type", type}, {"object", object}});
    TellWatchers();
  }
  std::string ClaimsAt(const std::string& node) {
    const std::lock_guard lock(mutex_);
    return nodes_.at(node)["metadata"]
        .value("annotations", nlohmann::json::object())
        .value("spillway.io/claims", "");
  }
  void PatchNode(const std::string& node, const nlohmann::json& patch) {
    const std::lock_guard lock(mutex_);
    nodes_.at(node).merge_patch(patch);
  }
  void Delete(const std::string& name) {
    const std::lock_guard lock(mutex_);
    pods_.erase(name);
  }
  nlohmann::json Get(const std::string& name) {
    const std::lock_guard lock(mutex_);
    return pods_.at(name);
  }

  std::string url;
  std::atomic<Binding> binding{Binding::kTake};
  std::atomic<bool> pods_hang{false};  // GET of one pod
  std::atomic<bool> pods_break{false};
  std::atomic<bool> lists_fail{false};
  std::atomic<bool> watches_fail{false};
  std::atomic<bool> endless{false};  // the list of nodes
  std::atomic<int> node_pages{0};    // of that list, ever asked for
  std::atomic<int> hanging{0};       // binds
  std::atomic<int> claim_races{0};   // patches of nodes before which another's comes
  std::string authorization() {      // of the last who asked for nodes
    const std::lock_guard lock(mutex_);
    return authorization_;
  }
  // Those that hang are refused, and all that come.
  void LetGo() {
    std::vector<api::Responder> left;
    {
      const std::lock_guard lock(mutex_);
      binding = Binding::kForbid;
      left.swap(left_hanging_);
    }
    for (const api::Responder& respond : left)
      respond([] { return api::Response{.status = 403, .body = "{}"}; });
  }

 private:
  void Serve(const api::Request& request, api::Responder respond) {
    const auto answer = [&](int status, const nlohmann::json& body) {
      respond([response = api::Response{.status = status, .body = body.dump()}] { return response; });
    };
    const std::lock_guard lock(mutex_);
    if (request.path == "/api/v1/nodes") {
      if (lists_fail) return answer(403, {{"kind", "Status"}, {"message", "nodes is forbidden"}});
      // In pages, as large clusters are listed.
      ++node_pages;
      if (endless)
        return answer(200, {{"metadata", {{"continue", "more"}}}, {"items", nlohmann::json::array()}});
      if (const auto at = request.headers.find("authorization"); at != request.headers.end())
        authorization_ = at->second;
      const bool second = request.query.contains("continue");
      nlohmann::json page = {{"metadata", {{"continue", second ? "" : "more of it"}}},
                             {"items", {nodes_[second ? "b" : "a"]}}};
      return answer(200, page);
    }
    if (request.path == "/api/v1/namespaces") {
      nlohmann::json items = nlohmann::json::array();
      for (const auto& [name, tenant] : spaces_)
        items.push_back({{"metadata", {{"name", name}, {"labels", {{"spillway.io/tenant", tenant}}}}}});
      return answer(200, {{"metadata", nlohmann::json::object()}, {"items", items}});
    }
    constexpr std::string_view kNodes = "/api/v1/nodes/";
    if (request.path.starts_with(kNodes)) {
      nlohmann::json& node = nodes_.at(request.path.substr(kNodes.size()));
      if (request.method == "GET") return answer(200, node);
      EXPECT_EQ(request.method, "PATCH");
      const nlohmann::json patch = nlohmann::json::parse(request.body);
      nlohmann::json& version = node["metadata"]["resourceVersion"];
      if (claim_races > 0 && claim_races-- > 0)
        version = std::to_string(std::stoi(version.get<std::string>()) + 1);
      if (patch["metadata"]["resourceVersion"] != version)
        return answer(409, {{"kind", "Status"}, {"message", "the object has been modified"}});
      node.merge_patch(patch);
      node["metadata"]["resourceVersion"] = std::to_string(std::stoi(version.get<std::string>()) + 1);
      return answer(200, node);
    }
    if (request.path == "/api/v1/pods") {
      const std::string wanted = request.query.at("fieldSelector");
      const bool pending = wanted == "spec.nodeName=,status.phase=Pending";
      if (!pending) {
        EXPECT_THAT(wanted, ::testing::HasSubstr("spec.nodeName!="));
      }
      if (request.query.contains("watch")) {
        if (watches_fail) return answer(403, {{"kind", "Status"}, {"message", "pods is forbidden"}});
        // One event, then it ends; until there is one it stays open.
        // Those who have gone are not heard to go.
        for (const api::Responder& old : std::exchange(watchers_, {}))
          old([] { return api::Response{.status = 200, .body = ""}; });
        watchers_.push_back(std::move(respond));
        return TellWatchers();
      }
      nlohmann::json items = nlohmann::json::array();
      for (const auto& [name, pod] : pods_)
        if (pod["spec"].contains("nodeName") != pending) items.push_back(pod);
      return answer(200, {{"metadata", {{"resourceVersion", "1"}}}, {"items", items}});
    }
    constexpr std::string_view kPods = "/api/v1/namespaces/ml/pods/";
    ASSERT_EQ(request.path.substr(0, kPods.size()), kPods);
    const std::string rest = request.path.substr(kPods.size());
    const std::string name = rest.substr(0, rest.find('/'));
    const auto pod = pods_.find(name);
    if (request.method == "GET") {
      if (pods_hang) return;
      if (pods_break) return answer(500, {{"message", "etcd is down"}});
      if (pod == pods_.end()) return answer(404, {{"message", "no such pod"}});
      return answer(200, pod->second);
    }
    switch (binding) {
      case Binding::kForbid:
        return answer(403, {{"kind", "Status"}, {"message", "pods/binding is forbidden"}});
      case Binding::kConflict:
        pod->second["spec"]["nodeName"] = "elsewhere";
        return answer(409, {{"message", "pod is already assigned to node elsewhere"}});
      case Binding::kBreak:
        return answer(500, {{"message", "etcd is tired"}});
      case Binding::kPage:
        return respond([] { return api::Response{.status = 200, .body = "<html>Welcome</html>"}; });
      case Binding::kHang:
        left_hanging_.push_back(respond);
        ++hanging;
        return;
      case Binding::kTake:
      case Binding::kTakeAndHang:
      case Binding::kOldSuccess:
        break;
    }
    const nlohmann::json body = nlohmann::json::parse(request.body);
    EXPECT_EQ(body["kind"], "Binding");
    EXPECT_EQ(body["metadata"]["uid"], pod->second["metadata"]["uid"]);
    pod->second["spec"]["nodeName"] = body["target"]["name"];
    pod->second["metadata"]["annotations"].update(
        body["metadata"].value("annotations", nlohmann::json::object()));
    if (binding == Binding::kTake) answer(201, {{"status", "Success"}});
    if (binding == Binding::kOldSuccess) answer(200, {{"kind", "Status"}, {"status", "Success"}});
  }

  std::mutex mutex_;
  static nlohmann::json NodeOf(const std::string& name) {
    nlohmann::json node = testing::KubeNodeOf(name, "Tesla-T4", 1, 15360);
    node["metadata"]["resourceVersion"] = "1";
    return node;
  }

  std::map<std::string, nlohmann::json> nodes_ = {{"a", NodeOf("a")}, {"b", NodeOf("b")}};
  void TellWatchers() {  // under mutex_
    while (!events_.empty() && !watchers_.empty()) {
      watchers_.back()(
          [event = events_.front().dump() + "\n"] { return api::Response{.status = 200, .body = event}; });
      watchers_.pop_back();
      events_.pop_front();
    }
  }

  std::deque<nlohmann::json> events_;
  std::vector<api::Responder> watchers_;
  std::map<std::string, std::string> spaces_;  // their tenants
  std::map<std::string, nlohmann::json> pods_;
  std::string authorization_;
  std::vector<api::Responder> left_hanging_;
  std::unique_ptr<api::HttpServer> http_;
};

// Throws where it is told to, as what is called may when there is no memory.
class ThrowingClient : public KubeClient {
 public:
  using KubeClient::KubeClient;
  Result<api::Reply> Get(const std::string& target) override {
    if (in_get) throw std::runtime_error("no memory to get with");
    return KubeClient::Get(target);
  }
  Result<api::Reply> Post(const std::string& target, const std::string& body) override {
    if (in_post) throw std::runtime_error("no memory to post with");
    return KubeClient::Post(target, body);
  }
  std::atomic<bool> in_get{false}, in_post{false};
};

}  // namespace spillway::kubernetes
