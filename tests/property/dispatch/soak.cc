// SPDX-License-Identifier: Apache-2.0
// dispatch_soak EVENTS: so many events through each kind of queue in turn, every one
// checked (stream.h). Exit 1 at the first that is wrong.
#include <cstdio>
#include <cstdlib>

#include "stream.h"

int main(int argc, char** argv) {
  using namespace spillway::dispatch;
  const uint64_t events = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 0;
  if (events < 1000) {
    std::fprintf(stderr, "usage: dispatch_soak EVENTS, at least 1000\n");
    return 2;
  }
  uint64_t left = events;
  uint32_t seed = 1;
  for (; left > 0; seed++) {
    StreamSetup setup;
    setup.kind = seed % 3 == 0 ? Kind::kUnordered : seed % 3 == 1 ? Kind::kAtomic : Kind::kOrdered;
    setup.shards = seed % 2 == 0 ? 4 : 1;
    setup.wait = seed % 4 < 2 ? Wait::kPoll : Wait::kSleep;
    setup.flows = 1 + seed * 37 % 500;
    setup.credits = 64u << seed % 7;
    // By credits: with few of them threads mostly switch, and a stream would take all the time.
    setup.events = std::min<uint64_t>(left, std::max<uint64_t>(events / 2000 * (setup.credits / 64), 1000));
    setup.seed = seed;
    const std::string wrong = Stream(setup).Run();
    if (!wrong.empty()) {
      std::fprintf(stderr, "dispatch_soak: seed %u, %s, %u shards: %s\n", seed,
                   std::string(ToString(setup.kind)).c_str(), unsigned{setup.shards}, wrong.c_str());
      return 1;
    }
    left -= setup.events;
    std::fprintf(stderr, "dispatch_soak: %3.0f %%\n",
                 100.0 * static_cast<double>(events - left) / static_cast<double>(events));
  }
  std::printf("%llu events in %u streams: none lost, none twice, all in their order\n",
              static_cast<unsigned long long>(events), seed - 1);
  return 0;
}
