// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/messages.h"

#include <endian.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>

#include "gateway/transport/executor_offer.h"

namespace spillway::gateway {

using Clock = std::chrono::steady_clock;

std::optional<size_t> MessageReader::NextBytes() const {
  uint32_t length = 0;
  if (bytes_.size() < sizeof(length)) return std::nullopt;
  std::memcpy(&length, bytes_.data(), sizeof(length));
  return le32toh(length);
}

Result<bool> MessageReader::ReadFrom(int socket) {
  char part[16 << 10];
  for (;;) {
    const ssize_t got = recv(socket, part, sizeof(part), MSG_DONTWAIT);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return true;
    if (got <= 0) return false;
    bytes_.append(part, static_cast<size_t>(got));
    // Of messages behind the first no more than fits beside it.
    if (NextBytes().value_or(0) > kMaxExecutorMessage || bytes_.size() > 2 * kMaxExecutorMessage)
      return Fail(ErrorCode::kBadInput,
                  fmt::format("expected messages of at most {} bytes", kMaxExecutorMessage));
  }
}

std::optional<std::string> MessageReader::Next() {
  const auto length = NextBytes();
  if (!length || bytes_.size() < sizeof(uint32_t) + *length) return std::nullopt;
  std::string text = bytes_.substr(sizeof(uint32_t), *length);
  bytes_.erase(0, sizeof(uint32_t) + *length);
  return text;
}

Result<void> SendMessage(int socket, const std::string& text) {
  std::string bytes(sizeof(uint32_t), '\0');
  const uint32_t length = htole32(static_cast<uint32_t>(text.size()));
  std::memcpy(bytes.data(), &length, sizeof(length));
  bytes += text;
  for (size_t sent = 0; sent < bytes.size();) {
    const ssize_t done = send(socket, bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
    if (done < 0 && errno == EINTR) continue;
    if (done < 0) return Fail(ErrorCode::kUnavailable, std::strerror(errno));
    sent += static_cast<size_t>(done);
  }
  return {};
}

Result<std::string> AwaitMessage(int socket, MessageReader& reader, Clock::time_point until) {
  for (bool open = true;;) {
    if (auto text = reader.Next()) return *std::move(text);
    if (!open) return Fail(ErrorCode::kUnavailable, "the gateway closed");
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return Fail(ErrorCode::kUnavailable, "no answer");
    pollfd wait{socket, POLLIN, 0};
    if (poll(&wait, 1, static_cast<int>(left)) <= 0) continue;
    const auto read = reader.ReadFrom(socket);
    if (!read) return tl::make_unexpected(read.error());
    open = *read;
  }
}

void KeepAlive(int socket) {
  const int on = 1, idle_s = 4, between_s = 2, probes = 3, patience_ms = 10'000;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  setsockopt(socket, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPINTVL, &between_s, sizeof(between_s));
  setsockopt(socket, IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof(probes));
  setsockopt(socket, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
}

}  // namespace spillway::gateway
