// SPDX-License-Identifier: Apache-2.0
#include "client.h"

#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

namespace spillway::api {
namespace {

ErrorCode CodeOf(const std::string& word) {
  if (word == "bad_input") return ErrorCode::kBadInput;
  if (word == "not_found") return ErrorCode::kNotFound;
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

constexpr std::chrono::seconds kReads{20};  // it tells at once what it knows, once a large apply lets it

}  // namespace

Client::Client(Service service) : service_(std::move(service)) {}

Client::Client(std::string socket_path) : Client(Service{std::move(socket_path)}) {}

Result<Reply> Client::Get(const std::string& target) { return Perform(target, nullptr); }

Result<Reply> Client::Post(const std::string& target, const std::string& body) {
  return Perform(target, &body);
}

Result<Reply> Client::Perform(const std::string& target, const std::string* body) {
  http::Request request{.url = "http://" + (service_.is_tcp ? service_.address : "spillway") + target,
                        .unix_socket = service_.is_tcp ? "" : service_.address,
                        .body = body,
                        .timeout = body == nullptr ? std::min(service_.patience, kReads) : service_.patience,
                        .max_reply = service_.max_reply};
  if (!service_.token.empty()) request.headers.push_back("Authorization: Bearer " + service_.token);
  if (body != nullptr) {
    request.method = "POST";
    request.headers.push_back("Content-Type: application/octet-stream");
  }
  http::Outcome outcome = session_.Do(request);
  switch (outcome.kind) {
    case http::Outcome::Kind::kDone:
      return Reply{outcome.status, std::move(outcome.body)};
    case http::Outcome::Kind::kNotConnected:
      return Fail(ErrorCode::kUnavailable, NobodyAnswers(service_));
    case http::Outcome::Kind::kTooLarge:
      return Fail(ErrorCode::kSystem, fmt::format("{}: expected an answer of at most {} bytes",
                                                  service_.address, service_.max_reply));
    default:
      return Fail(ErrorCode::kSystem, fmt::format("{}: {}", service_.address, outcome.error));
  }
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
