// SPDX-License-Identifier: Apache-2.0
#include "report_sender.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstring>

#include "lab/testbed/netns.h"
#include "model/secret_files.h"

namespace spillway::e2e {

Result<std::unique_ptr<ReportSender>> ReportSender::Open(const lab::Plan& plan, size_t server) {
  const model::Server& of = plan.config.pools.front().servers.at(server);
  const auto key = model::ReadKeyFile(of.key_file);
  if (!key) return tl::make_unexpected(key.error());
  std::unique_ptr<ReportSender> sender(new ReportSender);
  sender->key_ = spw_siphash_key_of(key->data());
  sender->server_ = static_cast<uint16_t>(*of.code);
  sender->boot_id_ = static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(
                                               std::chrono::system_clock::now().time_since_epoch())
                                               .count());
  const model::ReportAddress& report = *plan.config.data_plane.report;
  const auto opened = lab::Inside(plan.client_netns, [&]() -> Result<void> {
    sockaddr_in v4{};
    sockaddr_in6 v6{};
    v4.sin_family = AF_INET;
    v6.sin6_family = AF_INET6;
    v4.sin_port = v6.sin6_port = htons(report.port);
    memcpy(&v4.sin_addr, report.address.bytes.data(), 4);
    memcpy(&v6.sin6_addr, report.address.bytes.data(), 16);
    const bool is_v4 = report.address.family == 4;
    sender->socket_ = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    const auto* to = is_v4 ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
    if (connect(sender->socket_, to, is_v4 ? sizeof(v4) : sizeof(v6)) == 0) return {};
    return Fail(ErrorCode::kSystem, fmt::format("connect to the report address: {}", strerror(errno)));
  });
  if (!opened) return tl::make_unexpected(opened.error());
  return sender;
}

ReportSender::~ReportSender() {
  if (socket_ >= 0) close(socket_);
}

spw_report_wire ReportSender::Make(uint8_t unit, bool busy, uint8_t level, uint16_t queue) {
  return Sign(unit, busy ? SPW_REPORT_BUSY : 0, level, queue);
}

spw_report_wire ReportSender::MakeFailing(uint8_t unit, uint8_t why) {
  return Sign(unit, SPW_REPORT_FAILING | why, 0, 0);
}

spw_report_wire ReportSender::Sign(uint8_t unit, uint8_t flags, uint8_t level, uint16_t queue) {
  spw_report report{};
  report.boot_id = boot_id_;
  report.sequence = ++sequence_;
  report.server = server_;
  report.unit = unit;
  report.flags = flags;
  report.level = level;
  report.queue = queue;
  spw_report_wire wire{};
  spw_report_encode(&wire, &report, &key_);
  return wire;
}

spw_report_wire ReportSender::Forge(uint8_t unit, bool busy) {
  const spw_siphash_key own = key_;
  key_.k1 ^= 1;
  const spw_report_wire wire = Make(unit, busy);
  key_ = own;
  return wire;
}

bool ReportSender::Send(const spw_report_wire& wire, size_t bytes) {
  return send(socket_, &wire, bytes, 0) == static_cast<ssize_t>(bytes);
}

}  // namespace spillway::e2e
