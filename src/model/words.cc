// SPDX-License-Identifier: Apache-2.0
// The words for the enums of core/: one table each, read in both directions. Pure.
#include <array>
#include <utility>

#include "health.h"
#include "pool.h"

namespace spillway::model {

namespace {

template <class Enum, size_t kCount>
using Words = std::array<std::pair<Enum, const char*>, kCount>;

constexpr Words<spw_unit_kind, 6> kKinds{{{SPW_KIND_CPU, "cpu"},
                                          {SPW_KIND_SMARTNIC, "smartnic"},
                                          {SPW_KIND_GPU, "gpu"},
                                          {SPW_KIND_FPGA, "fpga"},
                                          {SPW_KIND_SSD, "ssd"},
                                          {SPW_KIND_OTHER, "other"}}};
constexpr Words<spw_mode, 2> kModes{{{SPW_MODE_NAT, "nat"}, {SPW_MODE_DSR_L2, "dsr-l2"}}};
constexpr Words<spw_affinity, 2> kAffinities{
    {{SPW_AFFINITY_CONNECTION, "connection"}, {SPW_AFFINITY_NONE, "none"}}};
constexpr Words<spw_server_policy, SPW_SERVER_POLICIES> kServerPolicies{{{SPW_SERVER_MAGLEV, "maglev"},
                                                                         {SPW_SERVER_ECMP, "ecmp"},
                                                                         {SPW_SERVER_WCMP, "wcmp"},
                                                                         {SPW_SERVER_P2C, "p2c"}}};
constexpr Words<spw_unit_policy, SPW_UNIT_POLICIES> kUnitPolicies{{{SPW_UNIT_P4MITE, "p4mite"},
                                                                   {SPW_UNIT_WRR, "wrr"},
                                                                   {SPW_UNIT_ECMP, "ecmp"},
                                                                   {SPW_UNIT_HOST_ONLY, "host-only"},
                                                                   {SPW_UNIT_LEAST_LOADED, "least-loaded"},
                                                                   {SPW_UNIT_HEADROOM, "headroom"},
                                                                   {SPW_UNIT_JSQ, "jsq"}}};
constexpr Words<spw_unit_status, 4> kStatuses{{{SPW_UNIT_ABSENT, "absent"},
                                               {SPW_UNIT_UP, "up"},
                                               {SPW_UNIT_DRAINING, "draining"},
                                               {SPW_UNIT_DOWN, "down"}}};
constexpr Words<CheckKind, kCheckKinds> kCheckKindWords{{{CheckKind::kTcp, "tcp"},
                                                         {CheckKind::kTls, "tls"},
                                                         {CheckKind::kHttp, "http"},
                                                         {CheckKind::kHttps, "https"},
                                                         {CheckKind::kDns, "dns"},
                                                         {CheckKind::kUdp, "udp"},
                                                         {CheckKind::kExec, "exec"}}};
constexpr Words<OnFail, 2> kOnFails{{{OnFail::kKeep, "keep"}, {OnFail::kMove, "move"}}};
constexpr Words<uint16_t, 9> kDnsTypes{{{1, "A"},
                                        {2, "NS"},
                                        {5, "CNAME"},
                                        {6, "SOA"},
                                        {12, "PTR"},
                                        {15, "MX"},
                                        {16, "TXT"},
                                        {28, "AAAA"},
                                        {33, "SRV"}}};
constexpr Words<uint8_t, 6> kDnsRcodes{
    {{0, "noerror"}, {1, "formerr"}, {2, "servfail"}, {3, "nxdomain"}, {4, "notimp"}, {5, "refused"}}};
constexpr Words<AttachMode, 3> kAttachModes{
    {{AttachMode::kAuto, "auto"}, {AttachMode::kNative, "native"}, {AttachMode::kGeneric, "generic"}}};

template <class Enum, size_t kCount>
std::string Word(const Words<Enum, kCount>& words, Enum value) {
  for (const auto& [candidate, word] : words)
    if (candidate == value) return word;
  return "unknown";
}

template <class Enum, size_t kCount>
std::optional<Enum> Value(const Words<Enum, kCount>& words, const std::string& word) {
  for (const auto& [value, candidate] : words)
    if (word == candidate) return value;
  return std::nullopt;
}

template <class Enum, size_t kCount>
std::vector<std::string> All(const Words<Enum, kCount>& words) {
  std::vector<std::string> all;
  for (const auto& [value, word] : words) all.push_back(word);
  return all;
}

}  // namespace

std::string ToString(spw_unit_kind kind) { return Word(kKinds, kind); }
std::string ToString(spw_mode mode) { return Word(kModes, mode); }
std::string ToString(spw_affinity affinity) { return Word(kAffinities, affinity); }
std::string ToString(spw_server_policy policy) { return Word(kServerPolicies, policy); }
std::string ToString(spw_unit_policy policy) { return Word(kUnitPolicies, policy); }
std::string ToString(spw_unit_status status) { return Word(kStatuses, status); }
std::string ToString(Protocol protocol) { return protocol == Protocol::kTcp ? "tcp" : "udp"; }
std::string ToString(AttachMode attach) { return Word(kAttachModes, attach); }
std::string ToString(const ServicePort& port) {
  return ToString(port.protocol) + "/" + std::to_string(port.port);
}

std::optional<spw_unit_kind> ParseUnitKind(const std::string& word) { return Value(kKinds, word); }
std::optional<spw_mode> ParseMode(const std::string& word) { return Value(kModes, word); }
std::optional<spw_affinity> ParseAffinity(const std::string& word) { return Value(kAffinities, word); }
std::optional<spw_server_policy> ParseServerPolicy(const std::string& word) {
  return Value(kServerPolicies, word);
}
std::optional<spw_unit_policy> ParseUnitPolicy(const std::string& word) { return Value(kUnitPolicies, word); }
std::optional<AttachMode> ParseAttachMode(const std::string& word) { return Value(kAttachModes, word); }

std::string ToString(CheckKind kind) { return Word(kCheckKindWords, kind); }
std::string ToString(OnFail on_fail) { return Word(kOnFails, on_fail); }
std::optional<CheckKind> ParseCheckKind(const std::string& word) { return Value(kCheckKindWords, word); }
std::optional<OnFail> ParseOnFail(const std::string& word) { return Value(kOnFails, word); }
std::optional<uint16_t> DnsTypeNumber(const std::string& type) { return Value(kDnsTypes, type); }
std::optional<uint8_t> DnsRcodeNumber(const std::string& rcode) { return Value(kDnsRcodes, rcode); }
std::vector<std::string> DnsTypes() { return All(kDnsTypes); }
std::vector<std::string> DnsRcodes() { return All(kDnsRcodes); }

}  // namespace spillway::model
