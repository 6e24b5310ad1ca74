// SPDX-License-Identifier: Apache-2.0
// A checker with checks of this machine's own sockets.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <condition_variable>
#include <cstring>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "health/checker.h"

namespace spillway::health {

constexpr const char* kAddress = "127.0.0.1";

// A socket of this machine with a port of its own.
class Socket {
 public:
  explicit Socket(int type) : fd_(socket(AF_INET, type | SOCK_CLOEXEC, 0)) { BindTo(0); }
  ~Socket() { Close(); }
  void BindTo(uint16_t port) {
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_port = htons(port);
    inet_pton(AF_INET, kAddress, &at.sin_addr);
    EXPECT_EQ(bind(fd_, reinterpret_cast<const sockaddr*>(&at), sizeof(at)), 0) << std::strerror(errno);
    socklen_t length = sizeof(at);
    getsockname(fd_, reinterpret_cast<sockaddr*>(&at), &length);
    port_ = ntohs(at.sin_port);
  }
  void Listen() { EXPECT_EQ(listen(fd_, 64), 0); }
  void Close() {
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }
  int Release() { return std::exchange(fd_, -1); }
  int fd() const { return fd_; }
  uint16_t port() const { return port_; }

 private:
  int fd_;
  uint16_t port_ = 0;
};

// Answers each datagram with what `answer` makes of it; an empty one is not sent.
class UdpServer {
 public:
  explicit UdpServer(std::function<std::string(const std::string&)> answer)
      : answer_(std::move(answer)), thread_([this] { Serve(); }) {}
  ~UdpServer() {
    stop_ = true;
    thread_.join();
  }
  uint16_t port() const { return socket_.port(); }

 private:
  void Serve() {
    while (!stop_) {
      pollfd waiting{socket_.fd(), POLLIN, 0};
      if (poll(&waiting, 1, 20) <= 0) continue;
      char buffer[1500];
      sockaddr_storage from{};
      socklen_t length = sizeof(from);
      const ssize_t got =
          recvfrom(socket_.fd(), buffer, sizeof(buffer), 0, reinterpret_cast<sockaddr*>(&from), &length);
      if (got < 0) continue;
      const std::string answer = answer_(std::string(buffer, static_cast<size_t>(got)));
      if (!answer.empty())
        sendto(socket_.fd(), answer.data(), answer.size(), 0, reinterpret_cast<sockaddr*>(&from), length);
    }
  }

  Socket socket_{SOCK_DGRAM};
  const std::function<std::string(const std::string&)> answer_;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

inline model::HealthCheck QuickCheck(model::CheckKind kind, uint16_t port) {
  model::HealthCheck check;
  check.kind = kind;
  check.port = port;
  check.interval_ms = 20;
  check.timeout_ms = 400;
  check.rise = check.fall = 2;
  check.dampening_ms = 0;
  return check;
}

class CheckerTest : public ::testing::Test {
 protected:
  // One service per check, each on a pool of its own with one unit.
  static model::Config ConfigOf(const std::vector<model::HealthCheck>& checks) {
    model::Config config;
    config.data_plane.interfaces = {"eth0"};
    for (size_t i = 0; i < checks.size(); i++) {
      const std::string name = "v" + std::to_string(i);
      model::Unit unit;
      unit.name = "cpu";
      unit.address = *model::Address::Parse(kAddress);
      config.pools.push_back({name, {{"s1", "", std::nullopt, std::nullopt, {unit}}}, 0});
      model::Service service;
      service.name = service.pool = name;
      service.health = checks[i];
      config.services.push_back(service);
    }
    return config;
  }
  void Check(const std::vector<model::HealthCheck>& checks) {
    auto started = Checker::Start(ConfigOf(checks), [this](const auto& changes, const auto& failing) {
      std::unique_lock lock(mutex_);
      changes_.insert(changes_.end(), changes.begin(), changes.end());
      failing_ = failing;
      held_ = hold_;
      changed_.notify_all();
      changed_.wait(lock, [this] { return !hold_; });
      held_ = false;
    });
    ASSERT_TRUE(started) << started.error().message;
    checker_ = std::move(*started);
  }
  // The checker's thread stands still from its next report on, until released.
  void HoldReports(bool hold) {
    const std::lock_guard lock(mutex_);
    hold_ = hold;
    changed_.notify_all();
  }
  void TearDown() override { HoldReports(false); }
  CheckView View(size_t index = 0) const {
    const auto views = checker_->Views();
    return views.size() > index ? views[index] : CheckView{};
  }
  template <class Condition>
  bool Eventually(Condition condition) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    std::unique_lock lock(mutex_);
    while (!condition()) {
      if (std::chrono::steady_clock::now() > end) return false;
      changed_.wait_for(lock, std::chrono::milliseconds(5));
    }
    return true;
  }
  bool Becomes(CheckState state, size_t index = 0) {
    return Eventually([&] { return View(index).state == state; });
  }
  // The outcome of a check as one that failed says it.
  std::string ReasonOf(const model::HealthCheck& check) {
    Check({check});
    EXPECT_TRUE(Becomes(CheckState::kFailing));
    return View().reason;
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<CheckChange> changes_;
  std::vector<FailingUnit> failing_;
  bool hold_ = false, held_ = false;
  std::unique_ptr<Checker> checker_;
};

}  // namespace spillway::health
