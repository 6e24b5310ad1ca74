// SPDX-License-Identifier: Apache-2.0
#include "bench/flood/attack.h"

#include <gtest/gtest.h>

#include <set>
#include <utility>

namespace spillway::bench {
namespace {

const std::vector<Flood::Victim> kVictims = {{0xc6336401, 10'000}, {0xc6336401, 10'001}};

TEST(Flood, OfOneSeedIsTheSamePacketByPacket) {
  Flood one(Attack::kForgedSyn, 7, kVictims), same(Attack::kForgedSyn, 7, kVictims);
  for (int i = 0; i < 1000; i++) {
    const FloodPacket a = one.Next(), b = same.Next();
    ASSERT_EQ(a.source, b.source);
    ASSERT_EQ(a.sequence, b.sequence);
  }
}

TEST(Flood, TriplesAreAHandshakeAndAnotherAckOfTheSameNumbers) {
  Flood flood(Attack::kSynAckTriples, 1, kVictims);
  std::set<std::pair<uint32_t, uint16_t>> flows;
  for (int i = 0; i < 1000; i++) {
    const FloodPacket syn = flood.Next(), ack = flood.Next(), again = flood.Next();
    EXPECT_EQ(syn.flags, kSyn);
    flows.emplace(syn.source, syn.port);
    for (const FloodPacket& later : {ack, again}) {
      EXPECT_EQ(later.flags, kAck);
      EXPECT_EQ(later.sequence, syn.sequence + 1);
      EXPECT_EQ(later.source, syn.source);
      EXPECT_EQ(later.port, syn.port);
    }
  }
  EXPECT_EQ(flows.size(), 1000u) << "each of a flow of its own";
}

TEST(Flood, EveryEighthPacketIsAVictimsWhereThatMovesNothingByRight) {
  for (const Attack attack : kAttacks) {
    Flood flood(attack, 1, kVictims);
    std::set<std::pair<uint32_t, uint16_t>> flows;
    int aimed = 0;
    for (int i = 0; i < 8000; i++) {
      const FloodPacket packet = flood.Next();
      EXPECT_EQ(packet.is_udp, attack == Attack::kSpoofedUdp);
      if (packet.source == kVictims[0].address)
        aimed++;
      else
        flows.emplace(packet.source, packet.port);
      EXPECT_TRUE(packet.source >> 17 == 0xc6120000u >> 17 || packet.source == kVictims[0].address);
    }
    const bool aims = attack != Attack::kSynAckTriples && attack != Attack::kSpoofedUdp;
    EXPECT_EQ(aimed, aims ? 1000 : 0) << Word(attack);
    EXPECT_EQ(flows.size(), attack == Attack::kSynAckTriples ? 2667u : 8000u - static_cast<size_t>(aimed))
        << Word(attack);
  }
}

}  // namespace
}  // namespace spillway::bench
