// SPDX-License-Identifier: Apache-2.0
// Frames built by hand for the meter's tests.
#pragma once

#include <arpa/inet.h>
#include <linux/if_ether.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace spillway::agent::test {

class Packet {
 public:
  Packet() : bytes_(12, 0) {}  // both MAC addresses 0: the test device's own, so the packet is ours

  Packet& To(std::initializer_list<uint8_t> mac) {
    std::copy(mac.begin(), mac.end(), bytes_.begin());
    return *this;
  }
  Packet& Vlan(uint16_t id) {
    Put16(ETH_P_8021Q);
    Put16(id);
    return *this;
  }
  Packet& Ip4(const std::string& source, const std::string& destination, uint16_t fragment = 0) {
    Put16(ETH_P_IP);
    ip_ = bytes_.size();
    bytes_.resize(ip_ + 20, 0);
    bytes_[ip_] = 0x45;
    bytes_[ip_ + 6] = static_cast<uint8_t>(fragment >> 8);
    bytes_[ip_ + 7] = static_cast<uint8_t>(fragment);
    bytes_[ip_ + 8] = 64;
    inet_pton(AF_INET, source.c_str(), &bytes_[ip_ + 12]);
    inet_pton(AF_INET, destination.c_str(), &bytes_[ip_ + 16]);
    return *this;
  }
  Packet& Ip6(const std::string& source, const std::string& destination) {
    Put16(ETH_P_IPV6);
    ip_ = bytes_.size();
    v6_ = true;
    bytes_.resize(ip_ + 40, 0);
    bytes_[ip_] = 0x60;
    bytes_[ip_ + 7] = 64;
    inet_pton(AF_INET6, source.c_str(), &bytes_[ip_ + 8]);
    inet_pton(AF_INET6, destination.c_str(), &bytes_[ip_ + 24]);
    return *this;
  }
  Packet& Udp(uint16_t source, uint16_t destination) {
    Protocol(17);
    Put16(source);
    Put16(destination);
    Put16(0);
    Put16(0);
    return *this;
  }
  // flags: of "SARF".
  Packet& Tcp(uint16_t source, uint16_t destination, const std::string& flags, uint32_t sequence = 0) {
    Protocol(6);
    Put16(source);
    Put16(destination);
    Put16(static_cast<uint16_t>(sequence >> 16));
    Put16(static_cast<uint16_t>(sequence));
    bytes_.insert(bytes_.end(), 4, 0);
    uint8_t bits = 0;
    for (char flag : flags) bits |= flag == 'S' ? 2 : flag == 'A' ? 16 : flag == 'R' ? 4 : 1;
    bytes_.push_back(0x50);
    bytes_.push_back(bits);
    bytes_.insert(bytes_.end(), 6, 0);
    return *this;
  }
  // An error about a packet, of which it quotes so many bytes from the IP header on; after Ip6 ICMPv6.
  Packet& Icmp(uint8_t type, uint8_t code, Packet about, size_t quoted = 500) {
    Protocol(v6_ ? 58 : 1);
    bytes_.insert(bytes_.end(), {type, code, 0, 0, 0, 0, 0, 0});
    const std::vector<uint8_t> frame = about.Build();
    const auto from = frame.begin() + static_cast<long>(about.ip_);
    bytes_.insert(bytes_.end(), from, from + static_cast<long>(std::min(quoted, frame.size() - about.ip_)));
    return *this;
  }
  Packet& Dns(uint16_t id, bool response, uint8_t rcode = 0) {
    Put16(id);
    Put16((response ? 0x8180 : 0x0100) | rcode);
    bytes_.insert(bytes_.end(), {0, 1, 0, 0, 0, 0, 0, 0});  // one question
    return *this;
  }
  Packet& Payload(size_t count) {
    bytes_.insert(bytes_.end(), count, 'x');
    return *this;
  }
  Packet& Text(const std::string& text) {
    bytes_.insert(bytes_.end(), text.begin(), text.end());
    return *this;
  }
  std::vector<uint8_t> Build() {
    const uint16_t length = htons(static_cast<uint16_t>(bytes_.size() - ip_ - (v6_ ? 40 : 0)));
    std::memcpy(&bytes_[ip_ + (v6_ ? 4 : 2)], &length, 2);
    return bytes_;
  }

 private:
  void Put16(uint16_t value) {
    bytes_.push_back(static_cast<uint8_t>(value >> 8));
    bytes_.push_back(static_cast<uint8_t>(value));
  }
  void Protocol(uint8_t protocol) { bytes_[ip_ + (v6_ ? 6 : 9)] = protocol; }

  std::vector<uint8_t> bytes_;
  size_t ip_ = 0;
  bool v6_ = false;
};

}  // namespace spillway::agent::test
