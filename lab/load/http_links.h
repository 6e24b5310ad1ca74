// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 or HTTPS requests, each over a connection of its own (libcurl): GET of one path. An answer counts
// when it is a 200 and complete; its latency includes connecting and, with TLS, the handshake. The
// certificate is not checked, and no session is resumed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/http/transfers.h"
#include "options.h"
#include "transport.h"

namespace spillway::load {

class HttpLinks : public Transport, private http::Watcher {
 public:
  HttpLinks(const Settings& settings, Ledger& ledger);
  ~HttpLinks() override;
  HttpLinks(const HttpLinks&) = delete;
  HttpLinks& operator=(const HttpLinks&) = delete;

  [[nodiscard]] Result<void> Open(int epoll_fd) override;
  void Start(std::int64_t start_ns) override { start_ns_ = start_ns; }
  void Send(std::uint32_t id) override;
  void OnEvent(std::uint64_t key, std::uint32_t events) override;
  void Expire(std::int64_t now_ns) override;
  [[nodiscard]] std::size_t flows() const override { return 0; }

 private:
  // A request, and again the next that is free of those that ended.
  class Exchange;

  int Watch(int fd, std::uint32_t events) override;
  int Change(int fd, std::uint32_t events) override;
  void Unwatch(int fd) override;

  [[nodiscard]] Exchange* Take();

  const Settings& settings_;
  Ledger& ledger_;
  std::string url_;
  int epoll_fd_ = -1;
  std::int64_t start_ns_ = 0;
  http::Transfers transfers_;
  std::vector<std::unique_ptr<Exchange>> all_;
  std::vector<Exchange*> idle_;
};

}  // namespace spillway::load
