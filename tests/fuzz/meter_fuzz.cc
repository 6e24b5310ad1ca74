// SPDX-License-Identifier: Apache-2.0
// Frames of any bytes on a metered unit's interface, one after another, as the agent's meter takes them:
// nothing behind what was captured is read, a payload lies in its frame, and the books agree: no request is
// answered, given up, or lost that did not come. Each frame has 4 bytes before it: what it is, how much
// longer it was on the wire, how much of it was captured, and how long after the last.
#include <sys/mman.h>

#include <cstdlib>
#include <cstring>

#include "agent/meters/packet_accounting.h"

using namespace spillway::agent;

namespace {

constexpr size_t kPage = 4096, kHead = 4, kMostFrames = 256;

AgentConfig ConfigOf(bool dns, bool gauge) {
  AgentConfig config;
  config.services = {{false, 53}, {true, 53}, {false, 80}, {true, 80}};
  config.meter.dns = dns;
  config.meter.pending = 16;  // two buckets
  config.meter.timeout = std::chrono::milliseconds(100);
  config.trigger.threshold = 1e6;
  config.trigger.queue_high = gauge ? 4 : 0;
  return config;
}

// Bytes before an end behind which nothing is mapped.
uint8_t* PageEnd() {
  static uint8_t* const end = [] {
    void* at = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (at == MAP_FAILED || mprotect(static_cast<char*>(at) + kPage, kPage, PROT_NONE) != 0) std::abort();
    return static_cast<uint8_t*>(at) + kPage;
  }();
  return end;
}

void CheckParse(const MeterMemory& memory, const uint8_t* frame, size_t bytes, uint32_t on_wire,
                spw_meter_direction direction) {
  spw_meter_packet packet{};
  const auto parsed = spw_meter_parse(memory.config, frame, frame + bytes, on_wire, direction, &packet);
  if (parsed == SPW_METER_SHORT && on_wire <= bytes) std::abort();
  if (parsed != SPW_METER_OURS || packet.refuses || !packet.tcp) return;
  if (packet.payload_at > on_wire || packet.payload_bytes > on_wire - packet.payload_at) std::abort();
}

void CheckBooks(const MeterMemory& memory) {
  const spw_meter_counts& counts = memory.counts[0];
  uint64_t pending = 0;
  for (const spw_meter_bucket& bucket : memory.buckets)
    for (const uint64_t entry : bucket.entry) pending += entry != 0;
  const uint64_t ended = counts.completed + counts.timed_out + counts.abandoned + counts.overwritten;
  if (counts.arrivals != ended + pending || counts.errors > counts.completed ||
      counts.timed > counts.completed)
    std::abort();
  if (memory.config->gauge != 0 && memory.shared->pending != static_cast<int32_t>(pending)) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* bytes, size_t size) {
  if (size < 1) return 0;
  static const spw_seed kSeed{};
  PacketAccounting accounting(ConfigOf(bytes[0] & 1, bytes[0] & 2), kSeed);
  const MeterMemory memory = accounting.memory();
  Time now{1'000'000'000};
  bytes++, size--;
  for (size_t frames = 0; size > kHead && frames < kMostFrames; frames++) {
    const uint8_t kind = bytes[0], longer = bytes[1], pause = bytes[3];
    const size_t length = std::min<size_t>(bytes[2], size - kHead);
    uint8_t* const frame = PageEnd() - length;
    std::memcpy(frame, bytes + kHead, length);
    const auto on_wire = static_cast<uint32_t>(length + longer * ((kind & 2) != 0 ? 1u : 255u));
    const auto direction = (kind & 1) != 0 ? SPW_METER_EGRESS : SPW_METER_INGRESS;
    CheckParse(memory, frame, length, on_wire, direction);
    (void)accounting.OnFrame({frame, length}, on_wire, direction, now);
    CheckBooks(memory);
    now += std::chrono::microseconds(int64_t{pause} * pause * 4);
    bytes += kHead + length, size -= kHead + length;
  }
  return 0;
}
