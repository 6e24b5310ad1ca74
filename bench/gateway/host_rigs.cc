// SPDX-License-Identifier: Apache-2.0
// The two designs whose host CPU decides, and the one where nobody does. tcp-host: the client's data comes
// over TCP, the host's CPU receives, decides and copies it into the slice's memory. host-memory: the client
// writes into the host's memory one-sidedly, the host's CPU decides and copies. direct: the client writes the
// slice's memory itself; nobody decides.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "base/fd.h"
#include "base/system_error.h"
#include "bench/gateway/background_load.h"
#include "bench/gateway/slice_bed.h"

namespace spillway::bench {
namespace {

using base::Fd;
using gateway::Channel;

// Each client has a cell of its own.
class DirectRig : public Rig {
 public:
  DirectRig(std::unique_ptr<SliceBed> bed, uint32_t clients) : bed_(std::move(bed)) {
    for (uint32_t i = 0; i < clients; i++) cells_.push_back(bed_->Place());
  }
  Result<void> Ask(uint32_t client, std::span<const std::byte> input, std::span<std::byte> output) override {
    const SliceBed::Cell& cell = cells_[client];
    std::memcpy(bed_->Input(cell).data(), input.data(), input.size());
    const auto outputs = bed_->Run(cell);
    if (!outputs) return tl::make_unexpected(outputs.error());
    std::memcpy(output.data(), outputs->data(), output.size());
    return {};
  }
  RigCosts Costs() const override { return {bed_->HostNs(), 0}; }

 private:
  std::unique_ptr<SliceBed> bed_;
  std::vector<SliceBed::Cell> cells_;
};

// On the host, for one client at a time: decides, has `fill` put the inputs into the slice's memory, runs it
// and hands its outputs to `take`.
template <class Fill, class Take>
Result<void> RunOnHost(SliceBed& bed, Fill fill, Take take) {
  const SliceBed::Cell cell = bed.Place();
  fill(bed.Input(cell));
  const auto outputs = bed.Run(cell);
  if (outputs) take(*outputs);
  bed.Free(cell);
  return outputs ? Result<void>() : tl::make_unexpected(outputs.error());
}

bool SendAll(int socket, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t sent = send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(sent));
  }
  return true;
}
bool ReceiveAll(int socket, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t got = recv(socket, bytes.data(), bytes.size(), 0);
    if (got <= 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(got));
  }
  return true;
}

// A connection and a thread of the host for each client.
class TcpHostRig : public Rig {
 public:
  explicit TcpHostRig(std::unique_ptr<SliceBed> bed) : bed_(std::move(bed)) {}
  ~TcpHostRig() override {
    for (const auto& client : clients_) shutdown(client->near.get(), SHUT_RDWR);
    for (const auto& client : clients_) client->thread.join();
  }
  void Add(const Work& work, const Layout& layout, base::Fd near, base::Fd far) {
    clients_.push_back(std::make_unique<Client>());
    Client& client = *clients_.back();
    client.near = std::move(near);
    client.far = std::move(far);
    client.thread = std::thread([this, work, layout, &client] { Serve(work, layout, client); });
  }
  Result<void> Ask(uint32_t number, std::span<const std::byte> input, std::span<std::byte> output) override {
    const int socket = clients_[number]->near.get();
    if (!SendAll(socket, input) || !ReceiveAll(socket, output))
      return Fail(ErrorCode::kSystem, "tcp-host: the connection broke");
    return {};
  }
  RigCosts Costs() const override {
    RigCosts costs{bed_->HostNs(), 0};
    for (const auto& client : clients_) costs.host_ns += client->cpu_ns.load();
    return costs;
  }

 private:
  struct Client {
    base::Fd near, far;
    std::atomic<uint64_t> cpu_ns{0};
    std::thread thread;
  };

  void Serve(const Work& work, const Layout& layout, Client& client) {
    PinTo(layout.host_cpu);
    std::vector<std::byte> buffer(work.input_bytes), answer(work.output_bytes);
    for (;;) {
      pollfd wait{client.far.get(), POLLIN, 0};
      SpinFor(work.host_spin, [&] { return poll(&wait, 1, 0) > 0; });
      if (!ReceiveAll(client.far.get(), buffer)) break;
      const auto ran = RunOnHost(
          *bed_, [&](std::span<std::byte> to) { std::memcpy(to.data(), buffer.data(), buffer.size()); },
          [&](std::span<const std::byte> from) { std::memcpy(answer.data(), from.data(), from.size()); });
      if (!ran) break;
      client.cpu_ns.store(ThreadCpuNs(), std::memory_order_relaxed);
      if (!SendAll(client.far.get(), answer)) break;
    }
    shutdown(client.far.get(), SHUT_RDWR);
  }

  std::unique_ptr<SliceBed> bed_;
  std::vector<std::unique_ptr<Client>> clients_;
};

// Memory of the host, a channel and a thread of the host for each client.
class HostMemoryRig : public Rig {
 public:
  explicit HostMemoryRig(std::unique_ptr<SliceBed> bed) : bed_(std::move(bed)) {}
  ~HostMemoryRig() override {
    stop_.store(true);
    for (const auto& client : clients_) gateway::RingBell(client->near.bells().submissions);
    for (const auto& client : clients_) client->thread.join();
  }
  Result<void> Add(const Work& work, const Layout& layout) {
    auto client = std::make_unique<Client>();
    auto submissions = gateway::MakeDoorbell(), completions = gateway::MakeDoorbell();
    if (!submissions || !completions) return Fail(ErrorCode::kSystem, "socketpair");
    Channel::Doorbells far_bells{std::move(submissions->sleeper), std::move(completions->ringer)};
    auto near = Channel::Create(8, {std::move(submissions->ringer), std::move(completions->sleeper)});
    if (!near) return tl::make_unexpected(near.error());
    auto far = Channel::Map(base::Fd(fcntl(near->fd(), F_DUPFD_CLOEXEC, 0)), 8, std::move(far_bells));
    if (!far) return tl::make_unexpected(far.error());
    output_at_ = gateway::Aligned(work.input_bytes);
    auto memory = gateway::SharedMemory::Create("bench-host", output_at_ + work.output_bytes);
    if (!memory) return tl::make_unexpected(memory.error());
    client->near = std::move(*near);
    client->far = std::move(*far);
    client->memory = std::move(*memory);
    client->thread = std::thread([this, work, layout, &client = *client] { Serve(work, layout, client); });
    clients_.push_back(std::move(client));
    return {};
  }
  Result<void> Ask(uint32_t number, std::span<const std::byte> input, std::span<std::byte> output) override {
    Client& client = *clients_[number];
    std::memcpy(client.memory.bytes().data(), input.data(), input.size());
    gateway::Submission asked;
    asked.id = ++client.last_id;
    client.near.Submit(asked);
    gateway::Completion done;
    while (!client.near.TakeCompletion(done)) client.near.WaitForCompletions(-1);
    if (done.id != client.last_id || done.status != 0)
      return Fail(ErrorCode::kSystem, "host-memory: it failed");
    std::memcpy(output.data(), client.memory.bytes().data() + output_at_, output.size());
    return {};
  }
  RigCosts Costs() const override {
    RigCosts costs{bed_->HostNs(), 0};
    for (const auto& client : clients_) costs.host_ns += client->cpu_ns.load();
    return costs;
  }

 private:
  struct Client {
    Channel near, far;
    gateway::SharedMemory memory;
    uint64_t last_id = 0;  // the client's
    std::atomic<uint64_t> cpu_ns{0};
    std::thread thread;
  };

  void Serve(const Work& work, const Layout& layout, Client& client) {
    PinTo(layout.host_cpu);
    std::byte* const memory = client.memory.bytes().data();
    while (!stop_.load()) {
      gateway::Submission asked;
      if (!client.far.TakeSubmission(asked)) {
        SpinFor(work.host_spin, [&] { return client.far.HasSubmission() || stop_.load(); });
        if (!client.far.HasSubmission()) client.far.WaitForSubmissions(-1);
        continue;
      }
      const auto ran = RunOnHost(
          *bed_, [&](std::span<std::byte> to) { std::memcpy(to.data(), memory, work.input_bytes); },
          [&](std::span<const std::byte> from) {
            std::memcpy(memory + output_at_, from.data(), from.size());
          });
      gateway::Completion done;
      done.id = asked.id;
      done.status = ran ? 0 : 1;
      client.cpu_ns.store(ThreadCpuNs(), std::memory_order_relaxed);
      client.far.Complete(done);
    }
  }

  std::unique_ptr<SliceBed> bed_;
  uint64_t output_at_ = 0;
  std::atomic<bool> stop_{false};
  std::vector<std::unique_ptr<Client>> clients_;
};

}  // namespace

Result<std::unique_ptr<Rig>> MakeDirectRig(const Work& work, const Layout& layout) {
  auto bed = SliceBed::Make(work, layout);
  if (!bed) return tl::make_unexpected(bed.error());
  return std::make_unique<DirectRig>(std::move(*bed), work.clients);
}

Result<std::unique_ptr<Rig>> MakeTcpHostRig(const Work& work, const Layout& layout) {
  auto bed = SliceBed::Make(work, layout);
  if (!bed) return tl::make_unexpected(bed.error());
  auto rig = std::make_unique<TcpHostRig>(std::move(*bed));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = layout.network->AddressOf(lab::HostNetwork::Place::kHost);
  socklen_t length = sizeof(address);
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  const auto broken = [] { return FailSystem("tcp-host: connect client and host"); };
  const auto tcp_socket = [&](lab::HostNetwork::Place place) {
    base::Fd made;
    const auto at = layout.network->At(place, [&]() -> Result<void> {
      made = base::Fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      return {};
    });
    return at ? std::move(made) : base::Fd();
  };
  const base::Fd listener = tcp_socket(lab::HostNetwork::Place::kHost);
  if (bind(listener.get(), generic, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &length) != 0)
    return broken();
  for (uint32_t i = 0; i < work.clients; i++) {
    base::Fd near = tcp_socket(lab::HostNetwork::Place::kClient);
    if (connect(near.get(), generic, length) != 0) return broken();
    base::Fd far(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    if (!far) return broken();
    const int on = 1;
    for (const int fd : {near.get(), far.get()}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    rig->Add(work, layout, std::move(near), std::move(far));
  }
  return rig;
}

Result<std::unique_ptr<Rig>> MakeHostMemoryRig(const Work& work, const Layout& layout) {
  auto bed = SliceBed::Make(work, layout);
  if (!bed) return tl::make_unexpected(bed.error());
  auto rig = std::make_unique<HostMemoryRig>(std::move(*bed));
  for (uint32_t i = 0; i < work.clients; i++)
    if (auto added = rig->Add(work, layout); !added) return tl::make_unexpected(added.error());
  return rig;
}

}  // namespace spillway::bench
