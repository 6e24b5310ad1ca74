// SPDX-License-Identifier: Apache-2.0
// conspirator: the client writes into the gateway's memory, or sends it frames over TCP; the gateway, on the
// NIC's CPU, decides and puts the data into the slice's memory; the host's CPU launches. The gateway and the
// executor are those that users run, in this process.
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <thread>

#include "api/listen.h"
#include "base/fd.h"
#include "base/mutex.h"
#include "base/paths.h"
#include "bench/gateway/background_load.h"
#include "bench/gateway/rig.h"
#include "gateway/client.h"
#include "gateway/executor/executor.h"
#include "gateway/server.h"

namespace spillway::bench {
namespace {

class ConspiratorRig : public Rig {
 public:
  ~ConspiratorRig() override {
    clients_.clear();
    if (thread_.joinable()) {
      server_->Stop();
      thread_.join();
    }
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
  }

  Result<void> Start(const Work& work, const Layout& layout, const GatewayUse& use) {
    window_ = !use.frames;
    const auto folder = base::MakeTemporaryFolder("spillway-bench-");
    if (!folder) return tl::make_unexpected(folder.error());
    folder_ = *folder;
    auto frames = api::ListenUnix((folder_ / "frames").string());
    if (!frames) return tl::make_unexpected(frames.error());
    auto executors = api::ListenUnix((folder_ / "executors").string(), SOCK_SEQPACKET);
    if (!executors) return tl::make_unexpected(executors.error());
    gateway::Listeners listeners;
    listeners.frames.push_back({base::Fd(frames->fd), true});
    const std::string nic = layout.network->AddressText(lab::HostNetwork::Place::kNic);
    base::Fd tcp;
    const auto listened = layout.network->At(lab::HostNetwork::Place::kNic, [&]() -> Result<void> {
      const auto listener = api::ListenTcp(nic + ":0");
      if (!listener) return tl::make_unexpected(listener.error());
      tcp = base::Fd(*listener);
      return {};
    });
    if (!listened) return listened;
    const std::string tcp_address = fmt::format("{}:{}", nic, api::PortOf(tcp.get()));
    listeners.frames.push_back({std::move(tcp), false});
    listeners.executors = base::Fd(executors->fd);
    gateway::GatewayConfig config;
    config.broker.tenants = {{"bench"}};
    config.tokens = {""};
    config.spin = use.spin;
    auto server = gateway::Server::Create(std::move(config), std::move(listeners));
    if (!server) return tl::make_unexpected(server.error());
    server_ = std::move(*server);
    server_->Trace([this](const gateway::RequestTimes& times) {
      const base::MutexLock lock(mutex_);
      gateway_us_.push_back(
          static_cast<double>(((times.delivered - times.seen) + (times.answered - times.heard)).count()) /
          1e3);
      nic_ns_ = ThreadCpuNs();
    });
    thread_ = std::thread([this, layout] {
      PinTo(layout.nic_cpu);
      server_->Run();
    });
    work_ = work;
    gateway::ExecutorOptions options;
    options.gateway.address = (folder_ / "executors").string();
    options.name = "bench";
    for (uint32_t i = 0; i < work.slices; i++) {
      options.slices.push_back({BenchSlice(i), kBenchGpu, work.gflop_per_s, work.cells(), work.input_bytes,
                                std::max<uint64_t>(work.output_bytes, gateway::kMaxMessage)});
      options.cpus.push_back(layout.host_cpu);
    }
    executor_ = std::make_unique<gateway::Executor>(options, *work.engine);
    if (auto joined = executor_->Join(); !joined) return joined;
    const std::string address = use.frames ? tcp_address : "unix:" + (folder_ / "frames").string();
    const auto connected = layout.network->At(lab::HostNetwork::Place::kClient, [&]() -> Result<void> {
      for (uint32_t i = 0; i < work.clients; i++) {
        auto client = gateway::Client::Connect(address, {"bench", ""});
        if (!client) return tl::make_unexpected(client.error());
        clients_.push_back(std::move(*client));
      }
      return {};
    });
    if (!connected) return connected;
    // Whoever had to come is there: a run that is killed leaves nothing in the folder for temporary files.
    std::error_code ignored;
    std::filesystem::remove_all(folder_, ignored);
    output_at_ = gateway::Aligned(work.input_bytes);
    for (gateway::Client& client : clients_) {
      const auto model = client.Describe(work.model);
      if (!model) return tl::make_unexpected(model.error());
      model_ = model->index;
      if (use.frames) continue;
      const uint64_t bytes = output_at_ + std::max<uint64_t>(work.output_bytes, gateway::kMaxMessage);
      if (auto opened = client.OpenWindow(bytes, 8); !opened) return opened;
    }
    return {};
  }

  Result<void> Ask(uint32_t number, std::span<const std::byte> input, std::span<std::byte> output) override {
    gateway::Client& client = clients_[number];
    if (!window_) return AskByFrame(client, input, output);
    std::memcpy(client.window().data(), input.data(), input.size());
    const auto result = client.InferInWindow(model_, 1, 0, input.size(), output_at_,
                                             std::max<uint64_t>(output.size(), gateway::kMaxMessage));
    if (!result) return tl::make_unexpected(result.error());
    if (result->status != gateway::Status::kOk)
      return Fail(ErrorCode::kSystem, "conspirator: " + result->message);
    std::memcpy(output.data(), client.window().data() + output_at_, output.size());
    return {};
  }

  Result<void> AskByFrame(gateway::Client& client, std::span<const std::byte> input,
                          std::span<std::byte> output) const {
    const auto result = client.Infer(model_, 1, input);
    if (!result) return tl::make_unexpected(result.error());
    if (result->status != gateway::Status::kOk || result->outputs.size() != output.size())
      return Fail(ErrorCode::kSystem, "frames: " + result->message);
    std::memcpy(output.data(), result->outputs.data(), output.size());
    return {};
  }

  RigCosts Costs() const override {
    RigCosts costs;
    for (const gateway::SliceCosts& slice : executor_->Costs()) costs.host_ns += HostNsOf(work_, slice);
    const base::MutexLock lock(mutex_);
    costs.nic_ns = nic_ns_;
    return costs;
  }

  std::vector<double> TakeGatewayTimes() override {
    const base::MutexLock lock(mutex_);
    return std::exchange(gateway_us_, {});
  }

 private:
  std::filesystem::path folder_;
  std::unique_ptr<gateway::Server> server_;
  Work work_;
  std::unique_ptr<gateway::Executor> executor_;
  std::vector<gateway::Client> clients_;
  bool window_ = true;
  uint32_t model_ = 0;
  uint64_t output_at_ = 0;
  mutable base::Mutex mutex_;
  std::vector<double> gateway_us_ SPILLWAY_GUARDED_BY(mutex_);
  uint64_t nic_ns_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Rig>> MakeConspiratorRig(const Work& work, const Layout& layout,
                                                const GatewayUse& use) {
  auto rig = std::make_unique<ConspiratorRig>();
  if (auto started = rig->Start(work, layout, use); !started) return tl::make_unexpected(started.error());
  return rig;
}

}  // namespace spillway::bench
