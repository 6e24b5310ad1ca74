// SPDX-License-Identifier: Apache-2.0
// HTTP/1.1 or HTTPS requests, each over a connection of its own (libcurl): GET of one path. An answer counts
// when it is a 200 and complete; its latency includes connecting and, with TLS, the handshake. The
// certificate is not checked, and no session is resumed.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <string>
#include <vector>

#include "settings.h"
#include "transport.h"

namespace spillway::load {

class HttpLinks : public Transport {
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
  struct Request {
    CURL* easy = nullptr;
    std::uint32_t id = 0;
    std::string unit;  // as the answer's X-Unit names it
  };

  static int OnSocket(CURL* easy, curl_socket_t socket, int what, void* self, void* known);
  static int OnTimer(CURLM* multi, long timeout_ms, void* self);
  static size_t OnHeader(char* text, size_t size, size_t count, void* request);
  static size_t OnBody(char* bytes, size_t size, size_t count, void* unused);

  // The next idle request of the pool.
  [[nodiscard]] Request* Take();
  void Act(curl_socket_t socket, int what);
  // Takes what is done out.
  void Collect();

  const Settings& settings_;
  Ledger& ledger_;
  std::string url_;
  CURLM* multi_ = nullptr;
  int epoll_fd_ = -1;
  std::int64_t start_ns_ = 0;
  std::int64_t timer_ns_ = -1;  // when libcurl wants to be called next; -1: not
  std::vector<std::unique_ptr<Request>> all_;
  std::vector<Request*> idle_;
};

}  // namespace spillway::load
