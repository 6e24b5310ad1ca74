// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4, written again from the paper's section 2 in the slow way, byte by byte and for any
// length: the second derivation that core/siphash.h is checked against. Pure.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

namespace spillway {

class SlowSipHash {
 public:
  static uint64_t Hash(const std::array<uint8_t, 16>& key, const std::vector<uint8_t>& message) {
    SlowSipHash state(Word(key.data()), Word(key.data() + 8));
    // Section 2.2: pad with zeros, the last byte is the length modulo 256.
    std::vector<uint8_t> padded = message;
    while (padded.size() % 8 != 7) padded.push_back(0);
    padded.push_back(static_cast<uint8_t>(message.size()));
    for (size_t i = 0; i < padded.size(); i += 8) state.Compress(Word(&padded[i]));
    state.v_[2] = state.v_[2] ^ 0xff;
    for (int round = 0; round < 4; round++) state.Round();
    return state.v_[0] ^ state.v_[1] ^ state.v_[2] ^ state.v_[3];
  }

 private:
  SlowSipHash(uint64_t k0, uint64_t k1) {
    const char* constants = "somepseudorandomlygeneratedbytes";  // section 2.1, big-endian words
    for (int i = 0; i < 4; i++) {
      v_[i] = 0;
      for (int b = 0; b < 8; b++) v_[i] = v_[i] * 256 + static_cast<uint8_t>(constants[8 * i + b]);
      v_[i] ^= i % 2 == 0 ? k0 : k1;
    }
  }

  static uint64_t Word(const uint8_t* bytes) {
    uint64_t word = 0;
    for (int i = 7; i >= 0; i--) word = word * 256 + bytes[i];
    return word;
  }

  static uint64_t Rotate(uint64_t x, int bits) {
    for (int i = 0; i < bits; i++) x = x * 2 + (x >> 63);
    return x;
  }

  // Figure 2.1, half a round at a time.
  void Half(int a, int b, int c, int d, int rotate_b, int rotate_d) {
    v_[a] += v_[b];
    v_[c] += v_[d];
    v_[b] = Rotate(v_[b], rotate_b) ^ v_[a];
    v_[d] = Rotate(v_[d], rotate_d) ^ v_[c];
    v_[a] = Rotate(v_[a], 32);
  }
  void Round() {
    Half(0, 1, 2, 3, 13, 16);
    Half(2, 1, 0, 3, 17, 21);
  }

  void Compress(uint64_t word) {
    v_[3] ^= word;
    Round();
    Round();
    v_[0] ^= word;
  }

  uint64_t v_[4];
};

}  // namespace spillway
