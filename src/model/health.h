// SPDX-License-Identifier: Apache-2.0
// A service's active health check as the pool file says it: plain values with their defaults. Parsing is in
// health_reader.h; what runs the checks is src/health. docs/health.md describes every key.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace spillway::model {

enum class CheckKind : uint8_t { kTcp, kTls, kHttp, kHttps, kDns, kUdp, kExec };
inline constexpr int kCheckKinds = 7;

// What becomes of established flows of a unit whose check fails.
enum class OnFail : uint8_t { kKeep, kMove };

struct HealthCheck {
  CheckKind kind = CheckKind::kTcp;
  uint16_t port = 0;  // never 0 in a Config: absent in the file, it is the service's first port that fits

  uint32_t interval_ms = 1000;  // from start to start
  uint32_t timeout_ms = 500;
  uint32_t rise = 2;    // passes in a row until a failing unit is back
  uint32_t fall = 3;    // failures in a row until a unit is failing
  double jitter = 0.1;  // each interval is longer or shorter by up to this part of itself
  // How long a unit that fails again stays out at least; doubles with each time, up to the limit. 0: off.
  uint32_t dampening_ms = 5'000, dampening_limit_ms = 300'000;
  OnFail on_fail = OnFail::kKeep;

  // tls, https: `host` is the SNI and, where there is a ca_file, the name that the certificate must have.
  // http, https: `host` is the Host header. Empty: the unit's address.
  std::string host;
  std::string ca_file;  // empty: the certificate is not verified
  // http, https
  std::string path = "/";
  std::vector<std::pair<uint16_t, uint16_t>> statuses{{200, 299}};  // first and last of each range
  std::string body;                                                 // must be in the body; empty: any body
  // dns
  std::string query;
  std::string type = "A";
  std::string rcode = "noerror";
  // udp, bytes
  std::string payload;
  std::string expect;  // must be in the answer; empty: any answer
  // exec
  std::vector<std::string> command;  // argv; the first an absolute path
  int exit_status = 0;

  bool operator==(const HealthCheck&) const = default;
};

std::string ToString(CheckKind kind);
std::string ToString(OnFail on_fail);
std::optional<CheckKind> ParseCheckKind(const std::string& word);
std::optional<OnFail> ParseOnFail(const std::string& word);

// The words and the numbers of the DNS protocol that a check may name; nullopt if unknown.
std::optional<uint16_t> DnsTypeNumber(const std::string& type);  // RFC 1035, 3596, 2782
std::optional<uint8_t> DnsRcodeNumber(const std::string& rcode);
std::vector<std::string> DnsTypes();
std::vector<std::string> DnsRcodes();

}  // namespace spillway::model
