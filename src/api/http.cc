// SPDX-License-Identifier: Apache-2.0
#include "http.h"

#include <fmt/format.h>
#include <microhttpd.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <charconv>
#include <cstring>
#include <nlohmann/json.hpp>

namespace spillway::api {
namespace {

constexpr unsigned kConnections = 64;
constexpr unsigned kIdleSeconds = 10;

// What came of one request so far.
struct Upload {
  std::string body;
  size_t seen = 0;  // bytes, also those past the limit
};

MHD_Result Queue(MHD_Connection* connection, const Response& response) {
  MHD_Response* out = MHD_create_response_from_buffer(
      response.body.size(), const_cast<char*>(response.body.data()), MHD_RESPMEM_MUST_COPY);
  if (out == nullptr) return MHD_NO;
  MHD_add_response_header(out, MHD_HTTP_HEADER_CONTENT_TYPE, response.content_type.c_str());
  MHD_add_response_header(out, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
  if (!response.allow.empty()) MHD_add_response_header(out, MHD_HTTP_HEADER_ALLOW, response.allow.c_str());
  const MHD_Result queued = MHD_queue_response(connection, static_cast<unsigned>(response.status), out);
  MHD_destroy_response(out);
  return queued;
}

Response TooLarge() {
  return ErrorResponse(413, "bad_input",
                       fmt::format("the body is larger than {} bytes", HttpServer::kMaxBody));
}

bool AnnouncesTooLarge(MHD_Connection* connection) {
  const char* length =
      MHD_lookup_connection_value(connection, MHD_HEADER_KIND, MHD_HTTP_HEADER_CONTENT_LENGTH);
  if (length == nullptr) return false;
  uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(length, length + std::strlen(length), bytes);
  return error == std::errc::result_out_of_range || bytes > HttpServer::kMaxBody;
}

MHD_Result TakeArgument(void* query, MHD_ValueKind, const char* key, const char* value) {
  (*static_cast<std::map<std::string, std::string>*>(query))[key] = value ? value : "";
  return MHD_YES;
}

Response Handle(const Handler& handler, const Request& request) {
  try {
    return handler(request);
  } catch (const std::exception& e) {
    spdlog::error("api: {} {}: {}", request.method, request.path, e.what());
    return ErrorResponse(500, "system", e.what());
  }
}

// Called once with the headers, then per piece of the body, then once more at its end.
MHD_Result Access(void* self, MHD_Connection* connection, const char* url, const char* method, const char*,
                  const char* data, size_t* data_size, void** state) {
  auto* upload = static_cast<Upload*>(*state);
  if (upload == nullptr) {
    if (AnnouncesTooLarge(connection)) return Queue(connection, TooLarge());
    *state = new Upload;
    return MHD_YES;
  }
  if (*data_size != 0) {
    upload->seen += *data_size;
    if (upload->seen <= HttpServer::kMaxBody) upload->body.append(data, *data_size);
    *data_size = 0;
    // A chunked body does not say how long it will be. A little past the limit is read, so that the
    // peer sees the 413; one that never ends is cut.
    return upload->seen <= 4 * HttpServer::kMaxBody ? MHD_YES : MHD_NO;
  }
  if (upload->seen > HttpServer::kMaxBody) return Queue(connection, TooLarge());
  Request request{method, url, {}, std::move(upload->body)};
  if (request.method == MHD_HTTP_METHOD_HEAD) request.method = MHD_HTTP_METHOD_GET;
  MHD_get_connection_values(connection, MHD_GET_ARGUMENT_KIND, TakeArgument, &request.query);
  return Queue(connection, Handle(static_cast<HttpServer*>(self)->handler(), request));
}

void Completed(void*, MHD_Connection*, void** state, MHD_RequestTerminationCode) {
  delete static_cast<Upload*>(*state);
  *state = nullptr;
}

}  // namespace

Response ErrorResponse(int status, const std::string& code, const std::string& message) {
  const nlohmann::json body = {{"error", message}, {"code", code}};
  // Messages may quote what a peer sent: bytes that are not UTF-8 must not throw.
  return {.status = status, .body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

Result<std::unique_ptr<HttpServer>> HttpServer::Start(int listen_fd, Handler handler) {
  std::unique_ptr<HttpServer> server(new HttpServer(std::move(handler)));
  server->daemon_ = MHD_start_daemon(MHD_USE_AUTO_INTERNAL_THREAD, 0, nullptr, nullptr, Access, server.get(),
                                     MHD_OPTION_LISTEN_SOCKET, listen_fd, MHD_OPTION_CONNECTION_LIMIT,
                                     kConnections, MHD_OPTION_CONNECTION_TIMEOUT, kIdleSeconds,
                                     MHD_OPTION_NOTIFY_COMPLETED, Completed, nullptr, MHD_OPTION_END);
  if (server->daemon_ == nullptr) {
    const int error = errno;
    close(listen_fd);
    return Fail(ErrorCode::kSystem, fmt::format("cannot start the HTTP server: {}", std::strerror(error)));
  }
  return server;
}

HttpServer::~HttpServer() {
  if (daemon_ != nullptr) MHD_stop_daemon(daemon_);
}

}  // namespace spillway::api
