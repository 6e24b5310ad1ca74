// SPDX-License-Identifier: Apache-2.0
// Windows over RDMA verbs on a machine that has none: both sides say so, in one line. With a device, or in
// the guest, tests/guest/verbs has the rest.
#include <gmock/gmock.h>

#include "dispatch/verbs_producer.h"
#include "dispatch/verbs_window.h"
#include "domain_bed.h"

namespace spillway::dispatch {
namespace {

using testing::HasSubstr;
using testing::Not;

class VerbsWithoutDevice : public DomainBed {
 protected:
  void SetUp() override {
    if (rdma::OpenEventChannel()) GTEST_SKIP() << "this machine has an RDMA device";
    Open();
    options_.window.queue = AddQueue(Kind::kAtomic);
  }
  static void ExpectNoDevice(const Error& error) {
    EXPECT_EQ(error.code, ErrorCode::kUnavailable);
    EXPECT_THAT(error.message, HasSubstr("no RDMA device here"));
    EXPECT_THAT(error.message, Not(HasSubstr("\n")));
  }
  VerbsHostOptions options_;
};

TEST_F(VerbsWithoutDevice, TheHostSaysSo) {
  const auto host = VerbsHost::Listen(*domain_, options_);
  ASSERT_FALSE(host);
  ExpectNoDevice(host.error());
}

TEST_F(VerbsWithoutDevice, TheProducerSaysSo) {
  const auto producer = VerbsProducer::Connect("192.0.2.1", 4711);
  ASSERT_FALSE(producer);
  ExpectNoDevice(producer.error());
}

TEST_F(VerbsWithoutDevice, BadOptionsAreRefusedFirst) {
  const auto refused = [&](const VerbsHostOptions& options) {
    const auto host = VerbsHost::Listen(*domain_, options);
    EXPECT_EQ(host.error().code, ErrorCode::kBadInput);
    return host.error().message;
  };
  VerbsHostOptions options = options_;
  options.window.rings = 2;
  EXPECT_EQ(refused(options), "window over verbs: 2 rings, expected 1");
  options = options_;
  options.address = "nowhere.example";
  EXPECT_EQ(refused(options), "address nowhere.example: expected a numeric IPv4 or IPv6 address");
  options = options_;
  options.token = std::string(33, 't');
  EXPECT_EQ(refused(options), "token: expected at most 32 bytes, none of them 0");
  options = options_;
  options.window.queue = 77;
  EXPECT_EQ(refused(options), "window: no such queue: 77");
  EXPECT_EQ(VerbsProducer::Connect("nowhere.example", 1).error().code, ErrorCode::kBadInput);
}

}  // namespace
}  // namespace spillway::dispatch
