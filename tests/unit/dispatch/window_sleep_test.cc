// SPDX-License-Identifier: Apache-2.0
// Workers that would sleep, and windows, whose one-sided writes wake nobody.
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include <atomic>
#include <cstddef>
#include <thread>

#include "window_bed.h"

namespace spillway::dispatch {
namespace {

using namespace std::chrono_literals;

// Long enough that a lost wake-up fails the test by its time-out.
constexpr auto kHour = 1h;

std::atomic<int> membarriers{0};

// Counts this thread's calls of membarrier, by which a worker announces that it is about to sleep.
void CountMembarriers() {
  struct sigaction counts {};
  counts.sa_handler = [](int) { membarriers++; };
  ASSERT_EQ(sigaction(SIGSYS, &counts, nullptr), 0);
  sock_filter trap[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(trap), trap};
  ASSERT_EQ(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

class WindowSleep : public WindowBed {
 protected:
  std::unique_ptr<Port> AddSleeper(uint16_t queue) {
    PortOptions options;
    options.queues = {queue};
    options.wait = Wait::kSleep;
    options.event_fd = true;
    auto added = domain_->AddPort(options);
    EXPECT_TRUE(added);
    return std::move(*added);
  }
};

TEST_F(WindowSleep, AWindowThatOpensWakesWhoSleepsAlready) {
  const auto sleeper = AddSleeper(queue_);
  Event event;
  size_t got = 0;
  std::thread asleep([&] { got = sleeper->Dequeue({&event, 1}, kHour); });
  while (sleeper->Statistics().slept == 0) std::this_thread::yield();
  const auto window = OpenWindow();
  const auto producer = Map(*window);
  EXPECT_EQ(PutRemote(*producer, 1, 7), 1u);
  asleep.join();
  EXPECT_EQ(got, 1u);
  EXPECT_EQ(event.user, 7u);
}

// Each announcement interrupts every core that runs a thread of this process.
TEST_F(WindowSleep, AWorkerThatMustPollAnnouncesNoSleep) {
  const auto sleeper = AddSleeper(queue_), other = AddSleeper(AddQueue(Kind::kUnordered));
  const auto window = OpenWindow();
  std::thread([&] {
    CountMembarriers();
    Event event;
    EXPECT_EQ(other->Dequeue({&event, 1}, 1ms), 0u);
    if (membarriers.exchange(0) == 0) GTEST_SKIP() << "this kernel or this build does without membarrier";
    EXPECT_EQ(sleeper->Dequeue({&event, 1}, 1ms), 0u);
    EXPECT_FALSE(sleeper->Arm());
    EXPECT_EQ(membarriers, 0);
  }).join();
}

}  // namespace
}  // namespace spillway::dispatch
