// SPDX-License-Identifier: Apache-2.0
// The dispatcher's promises under real threads, more of them than cores, with workers that come and go.
#include <gtest/gtest.h>

#include "stream.h"

namespace spillway::dispatch {
namespace {

class Threads : public testing::TestWithParam<std::tuple<Kind, int, Wait>> {};

TEST_P(Threads, KeepWhatTheKindPromises) {
  const auto [kind, shards, wait] = GetParam();
  for (uint32_t seed = 1; seed <= 3; seed++) {
    StreamSetup setup;
    setup.kind = kind;
    setup.shards = static_cast<uint16_t>(shards);
    setup.wait = wait;
    setup.seed = seed;
    setup.flows = seed == 1 ? 1 : 50;  // one flow for everybody, too
    setup.events = 30'000;
    EXPECT_EQ(Stream(setup).Run(), "") << "seed " << seed;
  }
}

class RemoteThreads : public testing::TestWithParam<Kind> {};

TEST_P(RemoteThreads, KeepWhatTheKindPromises) {
  StreamSetup setup;
  setup.kind = GetParam();
  setup.remote = true;
  setup.events = 30'000;
  EXPECT_EQ(Stream(setup).Run(), "");
}

INSTANTIATE_TEST_SUITE_P(Kinds, RemoteThreads,
                         testing::Values(Kind::kAtomic, Kind::kOrdered, Kind::kUnordered),
                         [](const auto& param) { return std::string(ToString(param.param)); });

std::string ThreadsName(const testing::TestParamInfo<std::tuple<Kind, int, Wait>>& param) {
  const auto [kind, shards, wait] = param.param;
  return std::string(ToString(kind)) + std::to_string(shards) +
         (wait == Wait::kPoll ? "Polling" : "Sleeping");
}

INSTANTIATE_TEST_SUITE_P(Kinds, Threads,
                         testing::Combine(testing::Values(Kind::kAtomic, Kind::kOrdered, Kind::kUnordered),
                                          testing::Values(1, 4), testing::Values(Wait::kPoll, Wait::kSleep)),
                         ThreadsName);

}  // namespace
}  // namespace spillway::dispatch
