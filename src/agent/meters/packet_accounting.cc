// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/packet_accounting.h"

#include <cstring>

#include "bpf/meter_account.h"

namespace spillway::agent {
namespace {

// head: the answer's first bytes. What lies beyond them is not looked at.
bool IsError(const spw_meter_config& config, const spw_meter_packet& packet, std::span<const uint8_t> head) {
  if (!packet.tcp) return spw_meter_is_dns_error(&config, &packet) != 0;
  spw_meter_status_line line;
  if (!spw_meter_may_be_http(&config, &packet) || packet.payload_at + SPW_METER_STATUS_LINE > head.size())
    return false;
  std::memcpy(&line, head.data() + packet.payload_at, SPW_METER_STATUS_LINE);
  return spw_meter_is_http_error(&line) != 0;
}

bool IsAlert(const spw_meter_packet& packet, std::span<const uint8_t> head) {
  spw_meter_record record;
  if (!spw_meter_may_be_alert(&packet) || packet.payload_at + sizeof(record) > head.size()) return false;
  std::memcpy(&record, head.data() + packet.payload_at, sizeof(record));
  return spw_meter_is_alert(&record, packet.payload_bytes) != 0;
}

}  // namespace

PacketAccounting::PacketAccounting(const AgentConfig& config, const spw_seed& seed)
    : buckets_(BucketCount(config.meter)) {
  Configure(config, seed, static_cast<uint32_t>(buckets_.size()), &config_);
}

MeterMemory PacketAccounting::memory() {
  return {&config_, &shared_, &clocks_, std::span(&counts_, 1), std::span(buckets_)};
}

spw_meter_event PacketAccounting::OnFrame(std::span<const uint8_t> head, uint32_t frame_bytes,
                                          spw_meter_direction direction, Time when) {
  spw_meter_packet packet{};
  const spw_meter_parsed parsed =
      spw_meter_parse(&config_, head.data(), head.data() + head.size(), frame_bytes, direction, &packet);
  if (parsed == SPW_METER_FOREIGN || parsed == SPW_METER_SHORT) return SPW_METER_NOTHING;
  if (parsed == SPW_METER_MALFORMED) {
    counts_.malformed++;
    return SPW_METER_NOTHING;
  }
  spw_meter_bucket* bucket = &buckets_[packet.hash & config_.bucket_mask];
  if (spw_meter_note(&config_, &shared_, &counts_, bucket, &packet, direction)) return SPW_METER_NOTHING;
  __u32 marks = 0;
  const bool incoming = direction == SPW_METER_INGRESS;
  const auto now_ns = static_cast<uint64_t>(when.count());
  if (incoming) {
    spw_meter_event event = SPW_METER_NOTHING;
    if (!IsAlert(packet, head))
      event = spw_meter_request(&config_, &shared_, &clocks_, &counts_, bucket, &packet, now_ns,
                                spw_meter_samples(&config_, packet.hash, counts_.arrivals));
    if (packet.fin) spw_meter_client_closes(bucket, packet.hash);
    return event;
  }

  const uint64_t entry = spw_meter_take(&config_, &shared_, &counts_, bucket, packet.hash, &marks);
  if (entry == 0) {
    counts_.unmatched += !packet.tcp;
    return SPW_METER_NOTHING;
  }
  const spw_meter_event errors =
      spw_meter_answered(&config_, &shared_, &counts_, entry, IsError(config_, packet, head));
  spw_meter_event event = SPW_METER_NOTHING;
  if (__u64 latency_ns; entry & SPW_METER_TIMED)
    event =
        spw_meter_measure(&config_, &shared_, &counts_, entry, marks, spw_meter_step(now_ns), &latency_ns);
  const spw_meter_event drained = spw_meter_drained(&config_, &shared_);
  return event ? event : drained ? drained : errors;
}

}  // namespace spillway::agent
