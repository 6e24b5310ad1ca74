// SPDX-License-Identifier: Apache-2.0
// The TCP side of a unit: listening sockets and their connections, each carrying requests one
// after the other, several at a time if the peer likes (answers then leave as they are done). A
// connection that holds more than kHeldLimit bytes of answers is not read from until it has drained; of
// requests that come in parts, all connections together hold 64 MiB, and who brings more is closed.
// Belongs to the server's thread.
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/error.h"
#include "udp_listener.h"

namespace spillway::unit {

class TcpListener {
 public:
  static constexpr std::size_t kHeldLimit = 8 << 20;

  explicit TcpListener(int epoll_fd);
  ~TcpListener();
  TcpListener(const TcpListener&) = delete;
  TcpListener& operator=(const TcpListener&) = delete;

  // Errors: kConflict when the address is taken, kSystem otherwise; both name the address.
  [[nodiscard]] Result<base::SocketAddress> Listen(const base::SocketAddress& address);

  // An event of epoll data `key`, as this class registered it (keys from kFirstKey on are its own).
  static constexpr std::uint64_t kFirstKey = 1 << 20;
  void OnEvent(std::uint64_t key, std::uint32_t events, Statistics& statistics, const OnRequest& on_request);

  // False: the connection has gone.
  [[nodiscard]] bool Send(Job job);

 private:
  struct Connection {
    int fd = -1;
    std::uint32_t watched = 0;
    std::string in;
    std::string out;
    std::size_t out_done = 0;
    std::size_t unfinished = 0;  // of `in`, as counted in unfinished_
    std::size_t held = 0;        // bytes of answers owed and not yet handed to the kernel
    bool ended = false;          // the peer will send no more; answers owed still go out
  };

  void Accept(int fd, Statistics& statistics);
  void Read(std::uint64_t key, Connection& connection, Statistics& statistics, const OnRequest& on_request);
  // False: closed.
  bool Flush(std::uint64_t key, Connection& connection);
  void Watch(std::uint64_t key, Connection& connection);
  void Close(std::uint64_t key);

  int epoll_fd_;
  int spare_fd_;  // given up for a moment to refuse connections when descriptors have run out
  std::vector<int> listeners_;
  std::uint64_t next_key_;
  std::unordered_map<std::uint64_t, Connection> connections_;
  std::size_t unfinished_ = 0;  // bytes of requests that have not come whole
};

}  // namespace spillway::unit
