// SPDX-License-Identifier: Apache-2.0
// A small HTTP server over libmicrohttpd: requests and responses as values, one handler for all.
//
// Threading: one thread of its own calls the handler, one request at a time; the destructor waits for
// it. A peer can be slow, rude or malicious: its body is limited, its silence times out, and an
// exception from the handler becomes a 500.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "model/error.h"

struct MHD_Daemon;

namespace spillway::api {

struct Request {
  std::string method;  // GET, POST, ...; HEAD arrives as GET
  std::string path;    // percent-decoded, without the query
  std::map<std::string, std::string> query;
  std::string body;
};

struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::string allow = {};  // of a 405: the methods that exist
};

using Handler = std::function<Response(const Request&)>;

// {"error": message, "code": word}; words: bad_input, not_found, conflict, unavailable, system.
Response ErrorResponse(int status, const std::string& code, const std::string& message);

class HttpServer {
 public:
  static constexpr size_t kMaxBody = 1 << 20;

  // Serves on `listen_fd`, which it owns from here on, error or not.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> Start(int listen_fd, Handler handler);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  const Handler& handler() const { return handler_; }

 private:
  explicit HttpServer(Handler handler) : handler_(std::move(handler)) {}

  Handler handler_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace spillway::api
