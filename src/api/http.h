// SPDX-License-Identifier: Apache-2.0
// A small HTTP server over libmicrohttpd: requests and responses as values, one handler for all, errors by
// status and code (400 bad_input, 409 conflict ...).
//
// Threading: one thread of its own calls the handler, one request at a time; the destructor waits for
// it. A handler that answers later gives the thread back meanwhile. A peer can be slow, rude or malicious:
// its body is limited, and so are all bodies together, its silence times out, a request that trickles in or
// an answer that is taken byte by byte is cut, and an exception from the handler becomes a 500. Who may ask
// is looked at before the body is; the body of a request that is refused is dropped, not kept.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "base/mutex.h"

struct MHD_Daemon;

namespace spillway::api {

struct Request {
  std::string method;  // GET, POST, ...; HEAD arrives as GET
  std::string path;    // percent-decoded, without the query
  std::map<std::string, std::string> query;
  std::string body;
  std::map<std::string, std::string> headers = {};  // names in lower case
};

// "/a/b" -> a, b.
[[nodiscard]] std::vector<std::string> PathParts(const std::string& path);

struct Response {
  int status = 200;
  std::string body;
  std::string content_type = "application/json";
  std::string allow = {};                                         // of a 405: the methods that exist
  std::vector<std::pair<std::string, std::string>> headers = {};  // further ones
  std::shared_ptr<const void> keeper = {};                        // let go once all is sent, or never will be
};

using Handler = std::function<Response(const Request&)>;

// Answers one request, once, from any thread; what makes the response is called on the server's own.
using Responder = std::function<void(std::function<Response()>)>;
using AsyncHandler = std::function<void(Request, Responder)>;

// {"error": message, "code": word}; words: bad_input, not_found, conflict, unavailable, system.
Response ErrorResponse(int status, const std::string& code, const std::string& message);
// With the status and word of its code.
Response ResponseTo(const Error& error);

// Whose memory bodies take, where some of it is reserved: of requests that are read or not answered yet.
class BodyMemory {
 public:
  virtual ~BodyMemory() = default;
  // -- on the server's thread
  [[nodiscard]] virtual uint32_t OwnerOf(const Request& head) = 0;
  [[nodiscard]] virtual bool HasRoom(uint32_t owner, uint64_t bytes) = 0;
  virtual void Hold(uint32_t owner, uint64_t bytes) = 0;
  // -- on any
  virtual void Release(uint32_t owner, uint64_t bytes) = 0;
};

struct HttpLimits {
  static constexpr size_t kBody = 1 << 20;
  size_t body = kBody;
  size_t all_bodies = 64 << 20;             // together
  std::shared_ptr<BodyMemory> bodies = {};  // in place of all_bodies
  unsigned connections = 64;
  // Of one address, of IPv6 of one /64; those beyond are closed. 0: no limit. `per_address_key`: what sets
  // it, for the log.
  unsigned connections_per_address = 0;
  std::string per_address_key = {};
  unsigned idle_seconds = 10;
  // A request's head, its body, and an answer each take no longer; 0: no limit. A connection's next request
  // may come idle_seconds later.
  std::chrono::milliseconds whole{0};
  // Called with all but the body, of so many announced bytes, before it is read: what it answers with ends
  // the request, of whose body no byte is kept. On the server's thread.
  std::function<std::optional<Response>(const Request& head, uint64_t announced)> admit = {};
  // Connections of which `admit` has let no request through yet: at most so many, the oldest is cut for a new
  // one, and each after the timeout, whatever it sends. 0: no limit. Applies only where `whole` is set.
  unsigned max_unauthenticated = 0;
  std::chrono::milliseconds unauthenticated_timeout{5000};
  // How the server words what it refuses itself.
  std::function<Response(int status, const std::string& code, const std::string& message)> error =
      ErrorResponse;
};

class HttpPeers;
class HttpTimes;

class HttpServer {
 public:
  static constexpr size_t kMaxBody = HttpLimits::kBody;
  static constexpr std::chrono::seconds kWhole{30};  // HttpLimits::whole of Start

  // Serves on `listen_fd`, which it owns from here on, error or not.
  // `body`: of a request, in bytes at most.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> Start(
      int listen_fd, Handler handler, size_t body = kMaxBody,
      unsigned connections = HttpLimits().connections);
  // The destructor answers what nobody has answered by then with a 503; responders may outlive it.
  [[nodiscard]] static Result<std::unique_ptr<HttpServer>> StartAsync(int listen_fd, AsyncHandler handler,
                                                                      const HttpLimits& limits);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  struct Exchange;  // one request; http.cc
  // For http.cc alone: what its callbacks share.
  struct Core {
    Core();
    ~Core();
    AsyncHandler handler;
    HttpLimits limits;
    base::Mutex mutex;
    std::set<std::shared_ptr<Exchange>> suspended SPILLWAY_GUARDED_BY(mutex);
    std::unique_ptr<HttpTimes> times;  // none where there is no limit
    std::unique_ptr<HttpPeers> peers;  // none where there is none for an address
    bool stopping SPILLWAY_GUARDED_BY(mutex) = false;
  };

 private:
  HttpServer() = default;

  std::shared_ptr<Core> core_;
  MHD_Daemon* daemon_ = nullptr;
};

}  // namespace spillway::api
