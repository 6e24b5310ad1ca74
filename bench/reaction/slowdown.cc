// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/slowdown.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>

#include <chrono>

namespace spillway::bench {
namespace {

using namespace std::chrono_literals;

// Pauses shorter than 20 ms, below which no agent takes a unit for dead: it is slow, and answers.
constexpr auto kCycle = 20ms, kRuns = 2ms;

}  // namespace

Slowdown::Slowdown(std::vector<lab::ProcessId> processes)
    : processes_(std::move(processes)), thread_([this] { Loop(); }) {}

Slowdown::~Slowdown() {
  stop_ = true;
  thread_.join();
}

void Slowdown::Loop() {
  // Else a busy machine would make the pauses longer. Not permitted: then they are.
  const sched_param first{.sched_priority = 1};
  (void)pthread_setschedparam(pthread_self(), SCHED_FIFO, &first);
  const auto signal_all = [this](int signal) {
    for (const lab::ProcessId& id : processes_)
      if (lab::IsAlive(id)) kill(id.pid, signal);
  };
  for (auto next = std::chrono::steady_clock::now(); !stop_; next += kCycle) {
    signal_all(SIGSTOP);
    std::this_thread::sleep_until(next + kCycle - kRuns);
    signal_all(SIGCONT);
    std::this_thread::sleep_until(next + kCycle);
  }
}

}  // namespace spillway::bench
