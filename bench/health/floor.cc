// SPDX-License-Identifier: Apache-2.0
#include "floor.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>

namespace spillway::bench {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kTurn{10};
constexpr size_t kDatagram = 29;  // a DNS question of example.org

class Sockets {
 public:
  explicit Sockets(size_t units) : fds_(units, -1) {}
  ~Sockets() {
    for (size_t i = 0; i < fds_.size(); i++) Close(i);
  }
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  // As checks open theirs, connected; 0 or an errno.
  int Open(size_t i, int type, const sockaddr_storage& to) {
    fds_[i] = socket(AF_INET, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fds_[i] < 0) return errno;
    if (type == SOCK_STREAM) {
      const linger reset{.l_onoff = 1, .l_linger = 0};
      const int off = 0;
      (void)setsockopt(fds_[i], SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      (void)setsockopt(fds_[i], IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
    }
    if (connect(fds_[i], reinterpret_cast<const sockaddr*>(&to), sizeof(sockaddr_in)) == 0) return 0;
    return errno == EINPROGRESS ? 0 : errno;
  }
  void Close(size_t i) {
    if (fds_[i] >= 0) close(fds_[i]);
    fds_[i] = -1;
  }
  int operator[](size_t i) const { return fds_[i]; }

 private:
  std::vector<int> fds_;
};

Result<void> Ask(Sockets& sockets, const FloorLoad& load, size_t unit) {
  static constexpr char kQuestion[kDatagram] = {};
  int error = 0;
  if (load.kind == model::CheckKind::kTcp)
    error = sockets.Open(unit, SOCK_STREAM, load.units[unit]);
  else if (send(sockets[unit], kQuestion, sizeof(kQuestion), MSG_NOSIGNAL) < 0)
    error = errno;
  if (error != 0) return Fail(ErrorCode::kSystem, fmt::format("floor: {}", std::strerror(error)));
  return {};
}

void Hear(Sockets& sockets, const FloorLoad& load, size_t unit) {
  char answer[512];
  if (load.kind == model::CheckKind::kTcp)
    sockets.Close(unit);
  else
    (void)!recv(sockets[unit], answer, sizeof(answer), 0);
}

}  // namespace

double CpuSeconds() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    return static_cast<double>(time.tv_sec) + time.tv_usec / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

Result<Floor> MeasureFloor(const FloorLoad& load) {
  Sockets sockets(load.units.size());
  for (size_t i = 0; load.kind != model::CheckKind::kTcp && i < load.units.size(); i++)
    if (const int error = sockets.Open(i, SOCK_DGRAM, load.units[i]); error != 0)
      return Fail(ErrorCode::kSystem, fmt::format("floor: {}", std::strerror(error)));

  const double per_s = double(load.units.size()) / duration<double>(load.interval).count();
  const double cpu_before = CpuSeconds();
  const auto began = steady_clock::now(), end = began + load.window;
  uint64_t asked = 0, heard = 0;
  for (auto turn = began; turn < end; turn += kTurn) {
    std::this_thread::sleep_until(turn);
    for (; heard < asked; heard++) Hear(sockets, load, heard % load.units.size());
    const auto due = static_cast<uint64_t>(per_s * duration<double>(turn + kTurn - began).count());
    // No socket has two questions at a time, however late this turn is.
    for (const uint64_t to = std::min(due, asked + load.units.size()); asked < to; asked++)
      if (auto sent = Ask(sockets, load, asked % load.units.size()); !sent)
        return tl::make_unexpected(sent.error());
  }
  const double cpu_s = CpuSeconds() - cpu_before;
  const double wall_s = duration<double>(steady_clock::now() - began).count();
  return Floor{double(asked) / wall_s, 100 * cpu_s / wall_s};
}

}  // namespace spillway::bench
