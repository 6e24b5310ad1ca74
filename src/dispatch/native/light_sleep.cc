// SPDX-License-Identifier: Apache-2.0
#include "dispatch/native/light_sleep.h"

#include "base/relax.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

namespace spillway::dispatch {

bool HaveLightSleep() {
  static const bool have = [] {
    unsigned a = 0, b = 0, c = 0, d = 0;
    return __get_cpuid_count(7, 0, &a, &b, &c, &d) && (c & 1u << 5);  // waitpkg
  }();
  return have;
}

__attribute__((target("waitpkg"))) static void Watch(const void* line) { _umonitor(const_cast<void*>(line)); }
__attribute__((target("waitpkg"))) static void SleepUntil(unsigned long long tsc) {
  _umwait(1, tsc);  // 1: the shallower of the two states, which wakes sooner
}

void LightSleep(const void* line, const std::function<bool()>& ready) {
  Watch(line);
  if (!ready()) SleepUntil(__rdtsc() + 100'000);
}

}  // namespace spillway::dispatch
#else
namespace spillway::dispatch {

bool HaveLightSleep() { return false; }
void LightSleep(const void*, const std::function<bool()>&) { base::Relax(); }

}  // namespace spillway::dispatch
#endif
