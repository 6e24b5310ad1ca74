// SPDX-License-Identifier: Apache-2.0
// SipHash-2-4 against the paper's example and test vectors and against a slow byte-wise reference.
#include "core/siphash.h"

#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "siphash_reference.h"

namespace spillway {
namespace {

std::array<uint8_t, 16> CountingKey() {
  std::array<uint8_t, 16> key;
  for (size_t i = 0; i < key.size(); i++) key[i] = static_cast<uint8_t>(i);
  return key;
}

std::vector<uint8_t> CountingMessage(size_t bytes) {
  std::vector<uint8_t> message(bytes);
  for (size_t i = 0; i < bytes; i++) message[i] = static_cast<uint8_t>(i);
  return message;
}

uint64_t Fast(const std::array<uint8_t, 16>& key, const std::vector<uint8_t>& message) {
  spw_siphash_key words;
  std::memcpy(&words, key.data(), sizeof(words));  // this test runs on a little-endian machine
  std::vector<__u64> m(message.size() / 8 + 1);
  if (!message.empty()) std::memcpy(m.data(), message.data(), message.size());
  return spw_siphash24(&words, m.data(), static_cast<uint32_t>(message.size() / 8));
}

// "SipHash: a fast short-input PRF", appendix A: key 00..0f, message 00..0e (15 bytes).
TEST(SipHash, ReferenceMeetsThePapersExample) {
  EXPECT_EQ(SlowSipHash::Hash(CountingKey(), CountingMessage(15)), 0xa129ca6149be45e5ULL);
}

// The authors' published vectors for key 00..0f and messages 00, 00 01, ...: lengths 0 and 8.
TEST(SipHash, MeetsThePublishedVectors) {
  EXPECT_EQ(SlowSipHash::Hash(CountingKey(), {}), 0x726fdb47dd0e0e31ULL);
  EXPECT_EQ(Fast(CountingKey(), {}), 0x726fdb47dd0e0e31ULL);
  EXPECT_EQ(Fast(CountingKey(), CountingMessage(8)), 0x93f5f5799a932462ULL);
}

TEST(SipHash, AgreesWithTheSlowReferenceOnRandomMessages) {
  std::mt19937_64 random(2);
  for (int i = 0; i < 500; i++) {
    std::array<uint8_t, 16> key;
    for (auto& b : key) b = static_cast<uint8_t>(random());
    std::vector<uint8_t> message(8 * (random() % 9));
    for (auto& b : message) b = static_cast<uint8_t>(random());
    ASSERT_EQ(Fast(key, message), SlowSipHash::Hash(key, message)) << message.size();
  }
}

}  // namespace
}  // namespace spillway
