// SPDX-License-Identifier: Apache-2.0
#include "agent/reporter.h"

#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>

namespace spillway::agent {

namespace {

// A refused datagram shows at a later send, and hosts limit how often they refuse: most of those that
// nobody takes seem to go out.
constexpr Duration kWellAfter = std::chrono::seconds(5);

uint32_t Microseconds(Duration time) {
  return static_cast<uint32_t>(std::clamp<int64_t>(time.count() / 1000, 0, 4294967295));
}

}  // namespace

Reporter::Reporter(const AgentConfig& config, uint64_t boot_id, uint32_t sequence)
    : key_(spw_siphash_key_of(config.key.data())),
      server_(config.server_code),
      unit_(config.unit),
      boot_id_(boot_id),
      period_(config.report.mode == ReportMode::kPeriodic ? config.report.period : config.report.heartbeat),
      sequence_(sequence) {
  for (const Endpoint& endpoint : config.switches) peers_.push_back({endpoint});
}

Reporter::~Reporter() {
  for (const Peer& peer : peers_)
    if (peer.fd >= 0) close(peer.fd);
}

spw_report_wire Reporter::Encode(Time now, const Verdict& verdict, const Reading& reading) {
  spw_report report{};
  if (++sequence_ == 0) {  // all used up: go on as an agent that was started a microsecond later
    boot_id_++;
    sequence_++;
  }
  report.boot_id = boot_id_;
  report.sequence = sequence_;
  report.server = server_;
  report.unit = unit_;
  report.level = verdict.level;
  if (verdict.busy) report.flags |= SPW_REPORT_BUSY;
  if (reading.learnt.slot_guessed) report.flags |= SPW_REPORT_GUESSED;
  if (verdict.failure != Failure::kNone) report.flags |= SPW_REPORT_FAILING;
  if (verdict.failure == Failure::kRefused) report.flags |= SPW_REPORT_REFUSED;
  if (verdict.failure == Failure::kErrors) report.flags |= SPW_REPORT_ERRORS;
  report.queue = static_cast<uint16_t>(std::min<uint32_t>(reading.queue.value_or(0), 65535));
  report.latency_us = reading.latency_us;
  report.completed = static_cast<uint32_t>(reading.completed);
  report.base_us = reading.learnt.base_us + reading.learnt.price_us;  // what a request costs, others included
  report.slot_ns = reading.learnt.slot_ns;
  report.knee_us = reading.learnt.knee_us;
  report.tail_us = reading.learnt.tail_us;
  report.backlog_us = reading.learnt.backlog_us;
  report.age_us = Microseconds(now - reading.at);
  report.period_us = Microseconds(period_);
  spw_report_wire wire;
  spw_report_encode(&wire, &report, &key_);
  return wire;
}

// Connected, so that the kernel routes once and an ICMP error comes back as errno. A socket that
// failed is made anew at the next attempt: addresses and routes may have changed.
int Reporter::TrySend(Peer& peer, const spw_report_wire& wire) {
  if (peer.fd < 0) {
    peer.fd = socket(peer.endpoint.address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (peer.fd < 0) return errno;
    if (connect(peer.fd, reinterpret_cast<const sockaddr*>(&peer.endpoint.address), peer.endpoint.length) !=
        0)
      return errno;
  }
  return send(peer.fd, &wire, sizeof(wire), MSG_NOSIGNAL) == sizeof(wire) ? 0 : errno;
}

void Reporter::Send(Time now, const Verdict& verdict, const Reading& reading) {
  const spw_report_wire wire = Encode(now, verdict, reading);
  for (Peer& peer : peers_) {
    const int error = TrySend(peer, wire);
    if (error) {
      failed_++;
      peer.last_failure = now;
      if (error != peer.said)
        spdlog::warn("switch {}: cannot send reports: {}", peer.endpoint.text, strerror(error));
      peer.said = error;
      if (error != ECONNREFUSED && error != EAGAIN && peer.fd >= 0) {
        close(peer.fd);
        peer.fd = -1;
      }
      continue;
    }
    sent_++;
    if (peer.said && now - peer.last_failure >= kWellAfter) {
      spdlog::info("switch {}: sending reports again", peer.endpoint.text);
      peer.said = 0;
    }
  }
}

}  // namespace spillway::agent
