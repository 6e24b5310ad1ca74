// SPDX-License-Identifier: Apache-2.0
#include "bench/flood/attack.h"

namespace spillway::bench {
namespace {

constexpr uint32_t kFirstSource = 0xc6120000, kSources = 1u << 17;
constexpr uint16_t kPortsOfSource = 50, kFirstForgedPort = 1024;
constexpr uint64_t kVictimEvery = 8;

}  // namespace

const char* Word(Attack attack) {
  static const char* const kWords[] = {"forged-syn", "syn-ack-triples", "spoofed-udp", "stray-ack", "fin",
                                       "rst"};
  return kWords[static_cast<size_t>(attack)];
}

FloodPacket Flood::Next() {
  const uint64_t number = number_++;
  if (attack_ == Attack::kSynAckTriples && number % 3 != 0) {
    last_.flags = kAck;
    if (number % 3 == 1) last_.sequence++;
    return last_;
  }
  const uint64_t flow = attack_ == Attack::kSynAckTriples ? number / 3 : number;
  const uint64_t draw = random_();
  FloodPacket packet;
  packet.source = kFirstSource + static_cast<uint32_t>(flow / kPortsOfSource % kSources);
  packet.port = static_cast<uint16_t>(kFirstForgedPort + flow % kPortsOfSource);
  packet.sequence = static_cast<uint32_t>(draw);
  const bool aims = attack_ != Attack::kSynAckTriples && attack_ != Attack::kSpoofedUdp && !victims_.empty();
  if (aims && number % kVictimEvery == 0) {
    const Victim& victim = victims_[(draw >> 32) % victims_.size()];
    packet.source = victim.address;
    packet.port = victim.port;
  }
  switch (attack_) {
    case Attack::kForgedSyn:
    case Attack::kSynAckTriples:
      packet.flags = kSyn;
      break;
    case Attack::kSpoofedUdp:
      packet.is_udp = true;
      break;
    case Attack::kStrayAck:
      packet.flags = kAck;
      break;
    case Attack::kFin:
      packet.flags = kFin | kAck;
      break;
    case Attack::kRst:
      packet.flags = kRst;
      break;
  }
  last_ = packet;
  return packet;
}

}  // namespace spillway::bench
