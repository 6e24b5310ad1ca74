// SPDX-License-Identifier: Apache-2.0
// An extender in this process between a scheduler, which the test is, and an API server (api_server.h).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "api_server.h"
#include "kube.h"
#include "kubernetes/extender.h"

namespace spillway::kubernetes {

using nlohmann::json;

inline json PodOf(const std::string& name, const std::string& milli) {
  return testing::KubePod(name, "spillway.io/gpu-milli", milli);
}

// Until it holds; false: not for long enough.
template <typename Condition>
bool Eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

class ExtenderTest : public ::testing::Test {
 protected:
  ExtenderConfig Config(uint32_t timeout_ms = 5000, uint32_t resync_ms = 3'600'000) const {
    ExtenderConfig config = server_.Config();
    config.resync_ms = resync_ms;  // by itself only where a test asks for it
    config.timeout_ms = timeout_ms;
    return config;
  }
  void Start(uint32_t timeout_ms = 5000, uint32_t resync_ms = 3'600'000) {
    Start(Config(timeout_ms, resync_ms), nullptr);
  }
  void Start(const ExtenderConfig& config, std::unique_ptr<KubeClient> kube) {
    StartOutOfStep(config, std::move(kube));
    // The first look at the API server.
    ASSERT_TRUE(Eventually([&] { return client_->Get("/healthz")->status == 200; }));
  }
  void StartOutOfStep(const ExtenderConfig& config, std::unique_ptr<KubeClient> kube = nullptr) {
    auto started = Extender::Start(config, std::move(kube));
    ASSERT_TRUE(started) << started.error().message;
    extender_ = std::move(*started);
    ExtenderConfig self;
    self.api_server = "http://127.0.0.1:" + std::to_string(extender_->port());
    self.timeout_ms = 30'000;
    client_.emplace(self);
  }
  // Looks are repeated only where they are quick, which on a busy machine the first one may not be.
  void StartQuick() {
    ASSERT_TRUE(Eventually([&] {
      Start();
      return Metric("sync_seconds") < 0.4;
    }));
  }
  json Post(const std::string& verb, const json& body) {
    const auto reply = client_->Post("/" + verb, body.dump());
    EXPECT_TRUE(reply) << reply.error().message;
    EXPECT_EQ(reply->status, 200) << reply->body;
    return json::parse(reply->body);
  }
  json Filter(const json& pod) {
    server_.Put(pod);
    return Post("filter", {{"Pod", pod}, {"Nodes", nullptr}, {"NodeNames", {"a", "b"}}});
  }
  std::string Bind(const json& pod, const std::string& node) {
    return Post("bind", {{"PodName", pod["metadata"]["name"]},
                         {"PodNamespace", "ml"},
                         {"PodUID", pod["metadata"]["uid"]},
                         {"Node", node}})["Error"];
  }
  json Bookings() { return json::parse(client_->Get("/bookings")->body); }
  double Metric(const std::string& name) {
    const std::string text = extender_->MetricsText();
    const size_t at = text.find("\nspillway_extender_" + name + " ");
    EXPECT_NE(at, std::string::npos) << name << " in " << text;
    return at == std::string::npos ? -1 : std::stod(text.substr(at + 20 + name.size()));
  }

  FakeApiServer server_;
  std::unique_ptr<Extender> extender_;
  std::optional<KubeClient> client_;
};

}  // namespace spillway::kubernetes
