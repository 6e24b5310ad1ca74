// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <curl/curl.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace spillway::api {
namespace {

constexpr long kConnectSeconds = 5;

struct Body {
  std::string text;
  size_t max;
  bool is_too_large = false;
};

size_t Collect(char* data, size_t size, size_t count, void* into) {
  auto& body = *static_cast<Body*>(into);
  body.is_too_large = size * count > body.max - body.text.size();
  if (body.is_too_large) return 0;
  body.text.append(data, size * count);
  return size * count;
}

ErrorCode CodeOf(const std::string& word) {
  if (word == "bad_input" || word == "not_found") return ErrorCode::kBadInput;
  if (word == "conflict") return ErrorCode::kConflict;
  if (word == "unavailable") return ErrorCode::kUnavailable;
  return ErrorCode::kSystem;
}

std::string NobodyAnswers(const Service& service) {
  if (service.is_tcp)
    return fmt::format("{}: no {} answers; {}", service.address, service.program, service.hint);
  std::error_code error;
  const auto status = std::filesystem::status(service.address, error);
  const char* why = "it refuses connections";
  if (status.type() == std::filesystem::file_type::not_found)
    why = "no such socket";
  else if (error)
    why = "no permission";
  else if (status.type() != std::filesystem::file_type::socket)
    why = "not a socket";
  return fmt::format("{}: no {} answers: {}; {}", service.address, service.program, why, service.hint);
}

}  // namespace

Client::Client(Service service) : service_(std::move(service)), curl_(curl_easy_init()) {}

Client::Client(std::string socket_path) : Client(Service{std::move(socket_path)}) {}

Client::~Client() {
  if (curl_ != nullptr) curl_easy_cleanup(curl_);
}

Result<Reply> Client::Get(const std::string& target) { return Perform(target, nullptr); }

Result<Reply> Client::Post(const std::string& target, const std::string& body) {
  return Perform(target, &body);
}

Result<Reply> Client::Perform(const std::string& target, const std::string* body) {
  if (curl_ == nullptr) return Fail(ErrorCode::kSystem, "cannot start libcurl");
  Body answer{{}, service_.max_reply};
  char detail[CURL_ERROR_SIZE] = "";
  const std::string url = "http://" + (service_.is_tcp ? service_.address : "spillway") + target;
  curl_easy_reset(curl_);
  if (!service_.is_tcp) curl_easy_setopt(curl_, CURLOPT_UNIX_SOCKET_PATH, service_.address.c_str());
  curl_easy_setopt(curl_, CURLOPT_PROXY, "");  // whatever the environment says
  curl_easy_setopt(curl_, CURLOPT_URL, url.c_str());
  curl_easy_setopt(curl_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(curl_, CURLOPT_CONNECTTIMEOUT, kConnectSeconds);
  curl_easy_setopt(curl_, CURLOPT_TIMEOUT, static_cast<long>(service_.patience.count()));
  curl_easy_setopt(curl_, CURLOPT_ERRORBUFFER, detail);
  curl_easy_setopt(curl_, CURLOPT_WRITEFUNCTION, Collect);
  curl_easy_setopt(curl_, CURLOPT_WRITEDATA, &answer);
  curl_slist* headers = nullptr;
  if (!service_.token.empty())
    headers = curl_slist_append(headers, ("Authorization: Bearer " + service_.token).c_str());
  if (body != nullptr) {
    headers = curl_slist_append(headers, "Content-Type: application/octet-stream");
    headers = curl_slist_append(headers, "Expect:");  // no round trip to ask first
    curl_easy_setopt(curl_, CURLOPT_POST, 1L);
    curl_easy_setopt(curl_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body->size()));
    curl_easy_setopt(curl_, CURLOPT_POSTFIELDS, body->data());
  }
  curl_easy_setopt(curl_, CURLOPT_HTTPHEADER, headers);
  const CURLcode code = curl_easy_perform(curl_);
  curl_slist_free_all(headers);
  if (code == CURLE_COULDNT_CONNECT) return Fail(ErrorCode::kUnavailable, NobodyAnswers(service_));
  if (answer.is_too_large)
    return Fail(ErrorCode::kSystem, fmt::format("{}: expected an answer of at most {} bytes",
                                                service_.address, service_.max_reply));
  if (code != CURLE_OK)
    return Fail(ErrorCode::kSystem,
                fmt::format("{}: {}", service_.address, *detail ? detail : curl_easy_strerror(code)));
  long status = 0;
  curl_easy_getinfo(curl_, CURLINFO_RESPONSE_CODE, &status);
  return Reply{static_cast<int>(status), std::move(answer.text)};
}

Result<std::string> Client::Accept(const Result<Reply>& reply, const std::string& program) {
  if (!reply) return tl::make_unexpected(reply.error());
  if (reply->status >= 200 && reply->status < 300) return reply->body;
  const auto body = nlohmann::json::parse(reply->body, nullptr, false);
  if (body.is_object() && body.contains("error") && body["error"].is_string())
    return Fail(
        CodeOf(body.contains("code") && body["code"].is_string() ? body["code"].get<std::string>() : ""),
        body["error"].get<std::string>());
  return Fail(ErrorCode::kSystem, fmt::format("{} answered with status {}", program, reply->status));
}

std::string Client::Encode(const std::string& text) {
  std::string out;
  for (const unsigned char c : text) {
    if (std::isalnum(c) || c == '-' || c == '_' || c == '.' || c == '~')
      out += static_cast<char>(c);
    else
      out += fmt::format("%{:02X}", c);
  }
  return out;
}

}  // namespace spillway::api
