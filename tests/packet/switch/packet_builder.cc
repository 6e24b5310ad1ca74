// SPDX-License-Identifier: Apache-2.0
#include "packet_builder.h"

#include <stdexcept>

#include "checksums.h"

namespace spillway::switching {
namespace {

constexpr uint8_t kIcmp = 1, kTcp = 6, kUdp = 17, kIcmp6 = 58, kFragment6 = 44;

model::Address Parse(const std::string& text) {
  auto address = model::Address::Parse(text);
  if (!address) throw std::invalid_argument(text);
  return *address;
}

void Put16(Bytes& out, uint32_t v) {
  out.push_back(static_cast<uint8_t>(v >> 8));
  out.push_back(static_cast<uint8_t>(v));
}
void Put32(Bytes& out, uint32_t v) {
  Put16(out, v >> 16);
  Put16(out, v);
}
void PutAddress(Bytes& out, const model::Address& a) {
  out.insert(out.end(), a.bytes.begin(), a.bytes.begin() + (a.family == 4 ? 4 : 16));
}
void Set16(Bytes& out, size_t at, uint16_t v) {
  out[at] = static_cast<uint8_t>(v >> 8);
  out[at + 1] = static_cast<uint8_t>(v);
}

}  // namespace

Eth& Eth::Vlan(uint16_t id, uint16_t ethertype) {
  vlans_.push_back({ethertype, id});
  return *this;
}
Eth& Eth::Ip4(const std::string& source, const std::string& destination) {
  family_ = 4;
  source_ = Parse(source), destination_ = Parse(destination);
  return *this;
}
Eth& Eth::Ip6(const std::string& source, const std::string& destination) {
  family_ = 6;
  source_ = Parse(source), destination_ = Parse(destination);
  return *this;
}
Eth& Eth::Ttl(uint8_t hops) {
  ttl_ = hops;
  return *this;
}
Eth& Eth::Options(int words) {
  option_words_ = words;
  return *this;
}
Eth& Eth::Extension(uint8_t kind, int words8) {
  extensions_.push_back({kind, words8});
  return *this;
}
Eth& Eth::Fragment(uint16_t offset, bool more) {
  fragment_ = static_cast<uint16_t>(offset | (more ? 0x2000 : 0));
  return *this;
}
Eth& Eth::Tcp(uint16_t source, uint16_t destination, uint8_t flags) {
  protocol_ = kTcp;
  sport_ = source, dport_ = destination, flags_ = flags;
  return *this;
}
Eth& Eth::Flags(uint8_t flags) {
  flags_ = flags;
  return *this;
}
Eth& Eth::Seq(uint32_t number) {
  sequence_ = number;
  return *this;
}
Eth& Eth::Udp(uint16_t source, uint16_t destination) {
  protocol_ = kUdp;
  sport_ = source, dport_ = destination;
  return *this;
}
Eth& Eth::NoUdpChecksum() {
  udp_checksum_ = false;
  return *this;
}
Eth& Eth::Icmp(uint8_t type, uint8_t code, uint32_t rest) {
  protocol_ = family_ == 4 ? kIcmp : kIcmp6;
  icmp_type_ = type, icmp_code_ = code, icmp_rest_ = rest;
  return *this;
}
Eth& Eth::Protocol(uint8_t protocol) {
  protocol_ = protocol;
  return *this;
}
Eth& Eth::Payload(size_t bytes) {
  payload_.resize(bytes);
  for (size_t i = 0; i < bytes; i++) payload_[i] = static_cast<uint8_t>(i * 7 + 3);
  return *this;
}
Eth& Eth::Payload(Bytes bytes) {
  payload_ = std::move(bytes);
  return *this;
}

uint32_t Eth::PseudoSum(uint8_t protocol, size_t length) const {
  Bytes pseudo;
  PutAddress(pseudo, source_);
  PutAddress(pseudo, destination_);
  Put32(pseudo, static_cast<uint32_t>(length));
  Put32(pseudo, protocol);
  return SumWords(pseudo.data(), pseudo.size());
}

Bytes Eth::Transport() const {
  Bytes out;
  size_t check_at = 0;
  if (protocol_ == kTcp) {
    Put16(out, sport_), Put16(out, dport_);
    Put32(out, sequence_), Put32(out, flags_ & kAck ? 0x05060708 : 0);
    out.push_back(5 << 4), out.push_back(flags_);
    Put16(out, 0xfaf0), Put16(out, 0), Put16(out, 0);
    check_at = 16;
  } else if (protocol_ == kUdp) {
    Put16(out, sport_), Put16(out, dport_);
    Put16(out, static_cast<uint32_t>(8 + payload_.size())), Put16(out, 0);
    check_at = 6;
  } else if (protocol_ == kIcmp || protocol_ == kIcmp6) {
    out.push_back(icmp_type_), out.push_back(icmp_code_);
    Put16(out, 0), Put32(out, icmp_rest_);
    check_at = 2;
  }
  out.insert(out.end(), payload_.begin(), payload_.end());
  if (check_at == 0 || (protocol_ == kUdp && !udp_checksum_)) return out;
  uint32_t sum = protocol_ == kIcmp ? 0 : PseudoSum(protocol_, out.size());
  uint16_t check = FoldSum(sum + SumWords(out.data(), out.size()));
  if (protocol_ == kUdp && check == 0) check = 0xffff;
  Set16(out, check_at, check);
  return out;
}

Bytes Eth::Ip() const {
  Bytes transport = Transport(), out;
  if (family_ == 4) {
    int header = 20 + 4 * option_words_;
    out.push_back(static_cast<uint8_t>(0x40 | header / 4)), out.push_back(0);
    Put16(out, static_cast<uint32_t>(header) + static_cast<uint32_t>(transport.size()));
    Put16(out, 0x1234), Put16(out, fragment_);
    out.push_back(ttl_), out.push_back(protocol_), Put16(out, 0);
    PutAddress(out, source_), PutAddress(out, destination_);
    out.insert(out.end(), static_cast<size_t>(4 * option_words_), 1);
    Set16(out, 10, FoldSum(SumWords(out.data(), out.size())));
  } else if (family_ == 6) {
    Bytes extensions;
    for (size_t i = 0; i < extensions_.size(); i++) {
      size_t start = extensions.size();
      extensions.push_back(i + 1 < extensions_.size() ? extensions_[i + 1].kind : protocol_);
      extensions.push_back(
          static_cast<uint8_t>(extensions_[i].kind == kFragment6 ? 0 : extensions_[i].words8));
      extensions.resize(start + 8 + 8 * static_cast<size_t>(extensions_[i].words8), 0);
    }
    Put32(out, 0x60000000);
    Put16(out, static_cast<uint32_t>(extensions.size() + transport.size()));
    out.push_back(extensions_.empty() ? protocol_ : extensions_[0].kind), out.push_back(ttl_);
    PutAddress(out, source_), PutAddress(out, destination_);
    out.insert(out.end(), extensions.begin(), extensions.end());
  }
  out.insert(out.end(), transport.begin(), transport.end());
  return out;
}

Bytes Eth::Build() const {
  Bytes out = {0x02, 0xaa, 0, 0, 0, 1, 0x02, 0xbb, 0, 0, 0, 2};
  for (auto [ethertype, tag] : vlans_) Put16(out, ethertype), Put16(out, tag);
  Put16(out, family_ == 4 ? 0x0800 : family_ == 6 ? 0x86dd : 0x88b5);
  Bytes ip = family_ == 0 ? payload_ : Ip();
  out.insert(out.end(), ip.begin(), ip.end());
  return out;
}

}  // namespace spillway::switching
