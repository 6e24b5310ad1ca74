// SPDX-License-Identifier: Apache-2.0
// A gateway in this process, on sockets in a folder of its own, and executors that come to it.
#pragma once

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <stdexcept>
#include <thread>

#include "api/listen.h"
#include "base/fd.h"
#include "gateway/client.h"
#include "gateway/executor/executor.h"
#include "gateway/server.h"

namespace spillway::gateway {

class GatewayBed {
 public:
  // `rdma`: where a test has its own.
  explicit GatewayBed(GatewayConfig config = Config(), std::unique_ptr<RdmaListener> rdma = nullptr) {
    static int number = 0;
    folder = std::filesystem::temp_directory_path() /
             ("spillway-gw-" + std::to_string(getpid()) + "-" + std::to_string(number++));
    std::filesystem::create_directories(folder);
    auto frames = api::ListenUnix(frames_path());
    auto executors = api::ListenUnix(executors_path(), SOCK_SEQPACKET);
    auto tcp = api::ListenTcp("127.0.0.1:0");
    tcp_address = "127.0.0.1:" + std::to_string(api::PortOf(*tcp));
    Listeners listeners;
    listeners.frames.push_back({base::Fd(frames->fd), true});
    listeners.frames.push_back({base::Fd(*tcp), false});
    listeners.executors = base::Fd(executors->fd);
    listeners.rdma = std::move(rdma);
    if (!config.rdma.listen.empty()) {
      const int remote = api::ListenTcp(config.rdma.listen).value();
      const auto host = config.rdma.listen.substr(0, config.rdma.listen.rfind(':'));
      rdma_address = host + ":" + std::to_string(api::PortOf(remote));
      listeners.rdma = RdmaListener::Listen(base::Fd(remote), config.rdma.token, config.rdma.memory).value();
    }
    if (!config.rdma.clients.empty()) listeners.windows = WindowListener::Listen(config.rdma.clients).value();
    server = std::move(*Server::Create(std::move(config), std::move(listeners)));
    files_.push_back(std::move(frames->file));
    files_.push_back(std::move(executors->file));
    thread_ = std::thread([this] {
      server->Run();
      ended_ = true;
    });
  }
  ~GatewayBed() { End(); }

  // The gateway goes; what it held is freed.
  void End() {
    if (!thread_.joinable()) return;
    server->Stop();
    thread_.join();
    server.reset();
    files_.clear();
    std::filesystem::remove_all(folder);
  }

  // Of configurations to come.
  static inline Duration spin = GatewayConfig().spin;

  static GatewayConfig Config() {
    GatewayConfig config;
    config.broker.tenants = {{"alice"}, {"bob"}};
    config.tokens = {"", "bobs-token"};
    config.most_request = 1 << 20;
    config.spin = spin;
    return config;
  }

  // Runs `look` on the server's thread. Throws if the server has ended.
  template <class Look>
  auto Ask(Look look) {
    using namespace std::chrono_literals;
    const auto answer = std::make_shared<std::promise<decltype(look(*server))>>();
    auto answered = answer->get_future();
    server->Post([this, answer, look] { answer->set_value(look(*server)); });
    while (answered.wait_for(10ms) != std::future_status::ready)
      if (ended_ && answered.wait_for(0ms) != std::future_status::ready)
        throw std::runtime_error("the server has ended");
    return answered.get();
  }
  // Until `holds` of the server does, on its thread.
  template <class Holds>
  void Until(Holds holds) {
    while (!Ask([&](Server& s) { return holds(s); })) std::this_thread::yield();
  }

  // Until an executor that has joined has made its engines.
  void UntilReady() {
    Until([](Server& s) { return s.IsReady(); });
  }

  Result<Client> Dial(const std::string& tenant = "alice", const std::string& token = "", bool tcp = false) {
    return Client::Connect(tcp ? tcp_address : "unix:" + frames_path(), {tenant, token});
  }
  std::string frames_path() const { return (folder / "frames").string(); }
  std::string executors_path() const { return (folder / "executors").string(); }
  ExecutorOptions Executor(const std::string& name, uint32_t slices = 1, uint32_t cells = 2) const {
    ExecutorOptions options;
    options.gateway = {executors_path()};
    options.name = name;
    for (uint32_t i = 0; i < slices; i++)
      options.slices.push_back({"s" + std::to_string(i), "gpu0", 1000, cells, 256 << 10, 256 << 10});
    return options;
  }

  std::filesystem::path folder;
  std::string tcp_address, rdma_address;
  std::unique_ptr<Server> server;

 private:
  std::vector<api::SocketFile> files_;
  std::thread thread_;
  std::atomic<bool> ended_ = false;  // the server's thread
};

}  // namespace spillway::gateway
