// SPDX-License-Identifier: Apache-2.0
// The designs without a gateway. tcp-host: the client's data comes over TCP, the host's CPU receives, decides
// and copies it into the slice's memory. host-memory: the client writes into the host's memory one-sidedly,
// the host's CPU decides and copies. direct: the client writes the slice's memory itself; nobody decides.
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <thread>

#include "base/fd.h"
#include "bench/gateway/background_load.h"
#include "bench/gateway/slice_bed.h"

namespace spillway::bench {
namespace {

using base::Fd;
using gateway::Channel;

class DirectRig : public Rig {
 public:
  explicit DirectRig(std::unique_ptr<SliceBed> bed) : bed_(std::move(bed)) {}
  Result<void> Ask(std::span<const std::byte> input, std::span<std::byte> output) override {
    std::memcpy(bed_->Input(0).data(), input.data(), input.size());
    const auto outputs = bed_->Run(0);
    if (!outputs) return tl::make_unexpected(outputs.error());
    std::memcpy(output.data(), outputs->data(), output.size());
    return {};
  }
  RigCosts Costs() const override { return {bed_->HostNs(), 0}; }

 private:
  std::unique_ptr<SliceBed> bed_;
};

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

class TcpHostRig : public Rig {
 public:
  TcpHostRig(const Work& work, const Layout& layout, std::unique_ptr<SliceBed> bed, base::Fd client,
             base::Fd server)
      : bed_(std::move(bed)), client_(std::move(client)), server_(std::move(server)) {
    thread_ = std::thread([this, work, layout] {
      PinTo(layout.host_cpu);
      std::vector<std::byte> buffer(work.input_bytes);
      while (ReceiveAll(server_.get(), buffer)) {
        const uint32_t slice = bed_->Place();
        std::memcpy(bed_->Input(slice).data(), buffer.data(), buffer.size());
        const auto outputs = bed_->Run(slice);
        if (!outputs) break;
        cpu_ns_.store(ThreadCpuNs(), std::memory_order_relaxed);
        if (!SendAll(server_.get(), *outputs)) break;
      }
      shutdown(server_.get(), SHUT_RDWR);
    });
  }
  ~TcpHostRig() override {
    shutdown(client_.get(), SHUT_RDWR);
    thread_.join();
  }
  Result<void> Ask(std::span<const std::byte> input, std::span<std::byte> output) override {
    if (!SendAll(client_.get(), input) || !ReceiveAll(client_.get(), output))
      return Fail(ErrorCode::kSystem, "tcp-host: the connection broke");
    return {};
  }
  RigCosts Costs() const override { return {cpu_ns_.load() + bed_->HostNs(), 0}; }

 private:
  std::unique_ptr<SliceBed> bed_;
  base::Fd client_, server_;
  std::atomic<uint64_t> cpu_ns_{0};
  std::thread thread_;
};

class HostMemoryRig : public Rig {
 public:
  HostMemoryRig(const Work& work, const Layout& layout, std::unique_ptr<SliceBed> bed, Channel near,
                Channel far, gateway::SharedMemory memory)
      : bed_(std::move(bed)), near_(std::move(near)), far_(std::move(far)), memory_(std::move(memory)) {
    output_at_ = gateway::Aligned(work.input_bytes);
    thread_ = std::thread([this, work, layout] {
      PinTo(layout.host_cpu);
      while (!stop_.load()) {
        gateway::Submission asked;
        if (!far_.TakeSubmission(asked)) {
          far_.WaitForSubmissions(-1);
          continue;
        }
        const uint32_t slice = bed_->Place();
        std::memcpy(bed_->Input(slice).data(), memory_.bytes().data(), work.input_bytes);
        const auto outputs = bed_->Run(slice);
        gateway::Completion done;
        done.id = asked.id;
        done.status = outputs ? 0 : 1;
        if (outputs) std::memcpy(memory_.bytes().data() + output_at_, outputs->data(), outputs->size());
        cpu_ns_.store(ThreadCpuNs(), std::memory_order_relaxed);
        far_.Complete(done);
      }
    });
  }
  ~HostMemoryRig() override {
    stop_.store(true);
    near_.RingSubmissions();
    thread_.join();
  }
  Result<void> Ask(std::span<const std::byte> input, std::span<std::byte> output) override {
    std::memcpy(memory_.bytes().data(), input.data(), input.size());
    gateway::Submission asked;
    asked.id = ++last_id_;
    near_.Submit(asked);
    gateway::Completion done;
    while (!near_.TakeCompletion(done)) near_.WaitForCompletions(-1);
    if (done.id != last_id_ || done.status != 0) return Fail(ErrorCode::kSystem, "host-memory: it failed");
    std::memcpy(output.data(), memory_.bytes().data() + output_at_, output.size());
    return {};
  }
  RigCosts Costs() const override { return {cpu_ns_.load() + bed_->HostNs(), 0}; }

 private:
  std::unique_ptr<SliceBed> bed_;
  Channel near_, far_;
  gateway::SharedMemory memory_;
  uint64_t output_at_ = 0, last_id_ = 0;
  std::atomic<bool> stop_{false};
  std::atomic<uint64_t> cpu_ns_{0};
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<Rig>> MakeDirectRig(const Work& work, const Layout& layout) {
  auto bed = SliceBed::Make(work, layout);
  if (!bed) return tl::make_unexpected(bed.error());
  return std::make_unique<DirectRig>(std::move(*bed));
}

Result<std::unique_ptr<Rig>> MakeTcpHostRig(const Work& work, const Layout& layout) {
  auto bed = SliceBed::Make(work, layout);
  if (!bed) return tl::make_unexpected(bed.error());
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  const base::Fd listener(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  base::Fd client(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  auto* generic = reinterpret_cast<sockaddr*>(&address);
  if (bind(listener.get(), generic, length) != 0 || listen(listener.get(), 1) != 0 ||
      getsockname(listener.get(), generic, &length) != 0 || connect(client.get(), generic, length) != 0)
    return Fail(ErrorCode::kSystem, "tcp-host: no connection on the loopback");
  base::Fd server(accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
  const int on = 1;
  for (const int fd : {client.get(), server.get()}) setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return std::make_unique<TcpHostRig>(work, layout, std::move(*bed), std::move(client), std::move(server));
}

Result<std::unique_ptr<Rig>> MakeHostMemoryRig(const Work& work, const Layout& layout) {
  auto bed = SliceBed::Make(work, layout);
  if (!bed) return tl::make_unexpected(bed.error());
  auto submissions = gateway::MakeEventFd(), completions = gateway::MakeEventFd();
  if (!submissions || !completions) return Fail(ErrorCode::kSystem, "eventfd");
  const auto copy = [](const base::Fd& fd) { return base::Fd(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); };
  Channel::Doorbells far_bells{copy(*submissions), copy(*completions)};
  auto near = Channel::Create(8, {std::move(*submissions), std::move(*completions)});
  if (!near) return tl::make_unexpected(near.error());
  auto far = Channel::Map(base::Fd(fcntl(near->fd(), F_DUPFD_CLOEXEC, 0)), 8, std::move(far_bells));
  if (!far) return tl::make_unexpected(far.error());
  auto memory =
      gateway::SharedMemory::Create("bench-host", gateway::Aligned(work.input_bytes) + work.output_bytes);
  if (!memory) return tl::make_unexpected(memory.error());
  return std::make_unique<HostMemoryRig>(work, layout, std::move(*bed), std::move(*near), std::move(*far),
                                         std::move(*memory));
}

}  // namespace spillway::bench
