// SPDX-License-Identifier: Apache-2.0
// The TCP connection beside RDMA between an executor and a gateway of two machines: their messages (texts,
// each behind its length, u32, little endian), and the keepalive by which a dead host is noticed.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "base/error.h"

namespace spillway::gateway {

class MessageReader {
 public:
  // Takes what the socket has, without waiting. False: the other side has closed. kBadInput: a message is
  // longer than kMaxExecutorMessage.
  [[nodiscard]] Result<bool> ReadFrom(int socket);
  std::optional<std::string> Next();

 private:
  [[nodiscard]] std::optional<size_t> NextBytes() const;

  std::string bytes_;
};

// Errors: kUnavailable, the other side has closed or takes nothing.
[[nodiscard]] Result<void> SendMessage(int socket, const std::string& text);
// Errors: also kUnavailable, nothing has come by `until`.
[[nodiscard]] Result<std::string> AwaitMessage(int socket, MessageReader& reader,
                                               std::chrono::steady_clock::time_point until);

// The connection ends within some ten seconds of the other machine's.
void KeepAlive(int socket);

}  // namespace spillway::gateway
