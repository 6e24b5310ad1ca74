// SPDX-License-Identifier: Apache-2.0
#include "base/signals.h"

#include <signal.h>

#include <atomic>
#include <thread>

namespace spillway::base {

namespace {

std::atomic<bool> g_interrupted{false};
constexpr int kSignals[] = {SIGINT, SIGTERM, SIGHUP, SIGPIPE};
struct sigaction g_before[4];

void OnSignal(int signal) {
  if (signal != SIGPIPE) g_interrupted = true;
}

}  // namespace

InterruptGuard::InterruptGuard() {
  g_interrupted = false;
  for (int i = 0; i < 4; i++) {
    struct sigaction action {};
    action.sa_handler = OnSignal;
    sigaction(kSignals[i], &action, &g_before[i]);
  }
}

InterruptGuard::~InterruptGuard() {
  for (int i = 0; i < 4; i++) sigaction(kSignals[i], &g_before[i], nullptr);
}

bool Interrupted() { return g_interrupted; }

bool SleepUnlessInterrupted(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (!g_interrupted) {
    const auto left = end - std::chrono::steady_clock::now();
    if (left <= left.zero()) return true;
    std::this_thread::sleep_for(std::min<std::chrono::nanoseconds>(left, std::chrono::milliseconds(20)));
  }
  return false;
}

}  // namespace spillway::base
