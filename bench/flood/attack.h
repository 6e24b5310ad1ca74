// SPDX-License-Identifier: Apache-2.0
// The packets of floods, by their numbers: what a host with a packet generator sends that can claim any
// source. Pure.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace spillway::bench {

enum class Attack : uint8_t {
  kForgedSyn,      // SYNs that no handshake follows
  kSynAckTriples,  // SYN, ACK and another ACK, as of a connection that begins and is silent
  kSpoofedUdp,     // datagrams, one of each flow
  kStrayAck,       // ACKs of connections that do not exist
  kFin,
  kRst,
};
inline constexpr Attack kAttacks[] = {Attack::kForgedSyn, Attack::kSynAckTriples, Attack::kSpoofedUdp,
                                      Attack::kStrayAck,  Attack::kFin,           Attack::kRst};
const char* Word(Attack attack);  // "forged-syn", ...

enum TcpFlag : uint8_t { kFin = 1, kSyn = 2, kRst = 4, kPsh = 8, kAck = 16 };

struct FloodPacket {
  uint32_t source = 0;  // IPv4, host order
  uint16_t port = 0;    // of the source
  bool is_udp = false;
  uint8_t flags = 0;  // TcpFlag
  uint32_t sequence = 0;
};

// Sources: 198.18.0.0/15 (RFC 2544), to which testbeds have no route, 50 ports each. Every eighth packet has
// a victim's address and port, but of triples: who knows these can forge a whole handshake with numbers of
// his own. The same seed gives the same flood.
class Flood {
 public:
  struct Victim {
    uint32_t address = 0;
    uint16_t port = 0;
  };
  Flood(Attack attack, uint64_t seed, std::vector<Victim> victims)
      : attack_(attack), victims_(std::move(victims)), random_(seed) {}

  FloodPacket Next();

 private:
  const Attack attack_;
  const std::vector<Victim> victims_;
  std::mt19937_64 random_;
  uint64_t number_ = 0;
  FloodPacket last_;
};

}  // namespace spillway::bench
