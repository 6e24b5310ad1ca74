// SPDX-License-Identifier: Apache-2.0
// What a thread does between two looks at memory that another is about to change.
#pragma once

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace spillway::base {

inline void Relax() {
#if defined(__x86_64__)
  _mm_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

}  // namespace spillway::base
