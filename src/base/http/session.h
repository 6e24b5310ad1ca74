// SPDX-License-Identifier: Apache-2.0
// HTTP requests, one after another, over a connection that is kept. Proxies that the environment names are
// not used.
//
// Threading: one thread at a time per Session.
#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace spillway::http {

struct Request {
  std::string url;
  std::string method = "GET";             // with a body: POST or PATCH
  std::string unix_socket = {};           // where the connection goes, whatever the URL's host
  std::vector<std::string> headers = {};  // "Name: value"
  const std::string* body = nullptr;      // outlives the call
  std::string ca_file = {};               // empty: the system's
  std::chrono::milliseconds connect{5000};
  std::chrono::milliseconds timeout{0};  // of all of it; 0: none
  size_t max_reply = 64 << 20;           // bytes of the answer's body
  // Takes the body as it comes, instead of Outcome::body. False: enough, the transfer ends.
  std::function<bool(std::string_view)> on_data = {};
  // Asked about once a second. True: the transfer ends.
  std::function<bool()> stop = {};
};

struct Outcome {
  enum class Kind { kDone, kNotConnected, kTooLarge, kStopped, kFailed };
  Kind kind = Kind::kFailed;
  int status = 0;     // 0: no answer
  std::string body;   // as far as it came
  std::string error;  // libcurl's words, unless kDone
};

class Session {
 public:
  Session();
  ~Session();
  Session(const Session&) = delete;
  Session& operator=(const Session&) = delete;

  [[nodiscard]] Outcome Do(const Request& request);

 private:
  void* curl_;  // CURL*; null: libcurl gives none
};

}  // namespace spillway::http
