// SPDX-License-Identifier: Apache-2.0
#include "lab/kvs/kv_client.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lab/kvs/kv_wire.h"
#include "report/percentile.h"
#include "sim/random.h"

namespace spillway::lab {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

struct Sent {
  Clock::time_point due;
  KvOp op;
  uint64_t expected;
  bool answered = false;
};

class Client {
 public:
  Client(const KvLoad& load, const HostNetwork& network)
      : load_(load), network_(network), random_(load.seed) {}
  ~Client() {
    for (int socket : sockets_) close(socket);
    if (epoll_ >= 0) close(epoll_);
  }

  Result<void> Open() {
    epoll_ = epoll_create1(EPOLL_CLOEXEC);
    for (int i = 0; i < load_.flows; i++) {
      const auto opened = network_.UdpSocket(HostNetwork::Place::kClient);
      if (!opened) return tl::make_unexpected(opened.error());
      const int made = *opened;
      sockets_.push_back(made);
      sockaddr_in address{};
      address.sin_family = AF_INET;
      address.sin_addr.s_addr = load_.address;
      address.sin_port = htons(load_.port);
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = made;
      if (connect(made, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0 ||
          epoll_ctl(epoll_, EPOLL_CTL_ADD, made, &event) != 0)
        return Fail(ErrorCode::kSystem,
                    fmt::format("connect to port {}: {}", load_.port, std::strerror(errno)));
    }
    return {};
  }

  KvOutcome Run() {
    const auto start = Clock::now(), end = start + load_.duration;
    auto due = start;
    while (due < end) {
      Receive(due);
      Send(due);
      due += std::chrono::nanoseconds(static_cast<int64_t>(random_.Exponential() / load_.rate_rps * 1e9));
    }
    outcome_.answered_by_end = outcome_.answered;
    // Stragglers count; what takes as long as the run is lost.
    const auto last = Clock::now() + std::min<std::chrono::nanoseconds>(load_.duration, 500ms);
    while (outcome_.answered < outcome_.sent && Clock::now() < last)
      Receive(std::min(last, Clock::now() + 1ms));
    outcome_.p50_us = report::PercentileOf(latencies_us_, 50);
    outcome_.p99_us = report::PercentileOf(latencies_us_, 99);
    outcome_.behind_us = report::PercentileOf(behind_us_, 99);
    return outcome_;
  }

 private:
  void Send(Clock::time_point due) {
    KvRequest request;
    const double kind = random_.Uniform();
    request.op = kind <= load_.scan_share                     ? KvOp::kScan
                 : kind <= load_.scan_share + load_.put_share ? KvOp::kPut
                                                              : KvOp::kGet;
    request.id = sent_.size();
    request.key = random_.Bits() % load_.keys;
    // A PUT writes what is there, so that every answer can be checked.
    request.value = request.op == KvOp::kScan ? load_.scan_keys : request.key;
    sent_.push_back({due, request.op, request.key});
    behind_us_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - due).count());
    outcome_.sent++;
    (void)!send(sockets_[random_.Bits() % sockets_.size()], &request, sizeof(request), MSG_NOSIGNAL);
  }

  // Answers until `until`.
  void Receive(Clock::time_point until) {
    for (;;) {
      const auto left = until - Clock::now();
      timespec timeout{};
      if (left > 0ns)
        timeout.tv_nsec = std::min<int64_t>(std::chrono::nanoseconds(left).count(), 999'999'999);
      epoll_event events[32];
      const int ready = epoll_pwait2(epoll_, events, 32, &timeout, nullptr);
      for (int i = 0; i < ready; i++) Drain(events[i].data.fd);
      if (left <= 0ns) return;
    }
  }

  void Drain(int socket) {
    KvReply reply;
    while (recv(socket, &reply, sizeof(reply), 0) == sizeof(reply)) {
      if (reply.magic != kKvMagic || reply.id >= sent_.size() || sent_[reply.id].answered) {
        outcome_.wrong++;
        continue;
      }
      Sent& sent = sent_[reply.id];
      sent.answered = true;
      outcome_.answered++;
      if (!reply.found || (sent.op == KvOp::kGet && reply.value != sent.expected)) outcome_.wrong++;
      latencies_us_.push_back(std::chrono::duration<double, std::micro>(Clock::now() - sent.due).count());
    }
  }

  const KvLoad load_;
  const HostNetwork& network_;
  sim::Random random_;
  int epoll_ = -1;
  std::vector<int> sockets_;
  std::vector<Sent> sent_;
  std::vector<double> latencies_us_, behind_us_;
  KvOutcome outcome_;
};

}  // namespace

Result<KvOutcome> RunKvLoad(const KvLoad& load, const HostNetwork& network) {
  Client client(load, network);
  return client.Open().map([&] { return client.Run(); });
}

}  // namespace spillway::lab
