// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/channel.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <thread>

#include "base/fd.h"
#include "gateway/transport/region_table.h"

namespace spillway::gateway {
namespace {

using testing::HasSubstr;

base::Fd Copy(int fd) { return base::Fd(fcntl(fd, F_DUPFD_CLOEXEC, 0)); }

// Both ends of one channel, each with its own mapping, as in two processes.
struct Pair {
  Channel near, far;
  explicit Pair(uint32_t slots) {
    Doorbell submissions = *MakeDoorbell(), completions = *MakeDoorbell();
    near = *Channel::Create(slots, {std::move(submissions.ringer), std::move(completions.sleeper)});
    far = *Channel::Map(Copy(near.fd()), slots,
                        {std::move(submissions.sleeper), std::move(completions.ringer)});
  }
};

Submission Numbered(uint64_t id) {
  Submission submission;
  submission.id = id;
  return submission;
}

TEST(Channel, HoldsAsManyAsItHasSlotsInOrder) {
  Pair pair(4);
  for (uint64_t i = 0; i < 4; i++) EXPECT_TRUE(pair.near.Submit(Numbered(i)));
  EXPECT_FALSE(pair.near.Submit(Numbered(4)));
  Submission got;
  for (uint64_t i = 0; i < 4; i++) {
    ASSERT_TRUE(pair.far.TakeSubmission(got));
    EXPECT_EQ(got.id, i);
  }
  EXPECT_FALSE(pair.far.TakeSubmission(got));
  EXPECT_TRUE(pair.near.Submit(Numbered(4)));
}

TEST(Channel, NothingIsLostBetweenAThreadThatSleepsAndOneThatRings) {
  constexpr uint64_t kCount = 20'000;
  Pair pair(8);
  std::thread worker([&] {
    for (uint64_t done = 0; done < kCount;) {
      Submission got;
      if (!pair.far.TakeSubmission(got)) {
        pair.far.WaitForSubmissions(-1);
        continue;
      }
      Completion completion;
      completion.id = got.id;
      while (!pair.far.Complete(completion)) std::this_thread::yield();
      done++;
    }
  });
  uint64_t submitted = 0, completed = 0;
  while (completed < kCount) {
    Completion got;
    if (pair.near.TakeCompletion(got)) {
      ASSERT_EQ(got.id, completed++);
    } else if (submitted < kCount && submitted - completed < 3 && pair.near.Submit(Numbered(submitted))) {
      submitted++;
    } else {
      pair.near.WaitForCompletions(-1);
    }
  }
  worker.join();
}

bool IsRinging(const base::Fd& sleeper) {
  pollfd wait{sleeper.get(), POLLIN, 0};
  return poll(&wait, 1, 0) == 1;
}

void MakeBlocking(const base::Fd& fd) {
  ASSERT_EQ(fcntl(fd.get(), F_SETFL, fcntl(fd.get(), F_GETFL) & ~O_NONBLOCK), 0);
}

TEST(Doorbell, NeverWaitsWhateverAPeerDidToItsEnd) {
  const Doorbell bell = MakeDoorbell().value();
  MakeBlocking(bell.ringer);
  MakeBlocking(bell.sleeper);
  HushBell(bell.sleeper);
  for (int i = 0; i < 10'000; i++) RingBell(bell.ringer);
  EXPECT_TRUE(IsRinging(bell.sleeper));
  HushBell(bell.sleeper);
  EXPECT_FALSE(IsRinging(bell.sleeper));
  RingBell(bell.ringer);
  EXPECT_TRUE(IsRinging(bell.sleeper));
}

TEST(Doorbell, AnEndThatAPeerClosesOrShutsIsSilent) {
  Doorbell bell = MakeDoorbell().value();
  shutdown(bell.ringer.get(), SHUT_RDWR);
  EXPECT_FALSE(IsRinging(bell.sleeper));
  bell.ringer = base::Fd();
  EXPECT_FALSE(IsRinging(bell.sleeper));
  bell = MakeDoorbell().value();
  bell.sleeper = base::Fd();
  RingBell(bell.ringer);
}

TEST(Doorbell, NothingComesBackByTheRingersEnd) {
  const Doorbell bell = MakeDoorbell().value();
  EXPECT_LT(send(bell.sleeper.get(), "x", 1, MSG_DONTWAIT | MSG_NOSIGNAL), 0);
  EXPECT_EQ(errno, EPIPE);
}

TEST(Doorbell, AGatewayRingsAndSleepsOnNothingElse) {
  const Doorbell bell = MakeDoorbell().value();
  EXPECT_TRUE(CheckRinger(bell.sleeper));
  EXPECT_TRUE(CheckRinger(bell.ringer));
  EXPECT_FALSE(CheckEventFd(bell.sleeper));
  const base::Fd event = MakeEventFd().value();
  EXPECT_TRUE(CheckEventFd(event));
  EXPECT_FALSE(CheckRinger(event));
  int ends[2];
  ASSERT_EQ(pipe2(ends, O_CLOEXEC), 0);
  const base::Fd out(ends[0]), in(ends[1]);
  EXPECT_FALSE(CheckRinger(in));
  EXPECT_FALSE(CheckEventFd(out));
  EXPECT_FALSE(CheckRinger(base::Fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0))));
  EXPECT_FALSE(CheckRinger(base::Fd(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0))));
}

TEST(Doorbell, APeerRingsAGatewaysEventFd) {
  const base::Fd event = MakeEventFd().value();
  RingBell(event);
  EXPECT_TRUE(IsRinging(event));
}

TEST(Channel, ACounterThatCannotBeBreaksIt) {
  Pair pair(4);
  void* memory = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, pair.near.fd(), 0);
  ASSERT_NE(memory, MAP_FAILED);
  static_cast<std::atomic<uint64_t>*>(memory)[64 / 8].store(5);
  munmap(memory, 4096);
  Submission got;
  EXPECT_FALSE(pair.far.TakeSubmission(got));
  EXPECT_TRUE(pair.far.broken());
  EXPECT_FALSE(pair.far.HasSubmission());
}

TEST(Channel, MapsOnlyWhatIsAChannelOfThatSize) {
  const auto bells = [] {
    return Channel::Doorbells{MakeDoorbell().value().sleeper, MakeDoorbell().value().ringer};
  };
  auto zeros = SharedMemory::Create("zeros", ChannelBytes(8));
  EXPECT_FALSE(Channel::Map(Copy(zeros->fd()), 8, bells()));
  EXPECT_FALSE(Channel::Map(Copy(zeros->fd()), 16, bells()));
  EXPECT_FALSE(Channel::Map(Copy(zeros->fd()), 3, bells()));
  EXPECT_FALSE(Channel::Map(base::Fd(memfd_create("unsealed", MFD_CLOEXEC)), 8, bells()));
}

TEST(SharedMemory, CannotBeCutShortByAPeer) {
  auto memory = SharedMemory::Create("sealed", 8192);
  EXPECT_NE(ftruncate(memory->fd(), 0), 0);
  memory->bytes()[8191] = std::byte{1};
}

TEST(RegionTable, AKeyOpensItsHoldersRegionAlone) {
  std::vector<std::byte> alices(100), bobs(100);
  RegionTable regions;
  const uint64_t key = regions.Register(1, alices);
  regions.Register(2, bobs);
  ASSERT_TRUE(regions.Find(1, key, 90, 10));
  EXPECT_EQ(regions.Find(1, key, 90, 10)->data(), alices.data() + 90);
  EXPECT_FALSE(regions.Find(2, key, 0, 1));
  // Another's key and a wrong one look the same.
  EXPECT_EQ(regions.Find(2, key, 0, 1).error().message, regions.Find(2, key + 1, 0, 1).error().message);
}

TEST(RegionTable, NothingBeyondTheEndWhateverTheNumbers) {
  std::vector<std::byte> memory(100);
  RegionTable regions;
  const uint64_t key = regions.Register(1, memory);
  EXPECT_FALSE(regions.Find(1, key, 91, 10));
  EXPECT_FALSE(regions.Find(1, key, 101, 0));
  EXPECT_FALSE(regions.Find(1, key, UINT64_MAX, 2));
  EXPECT_FALSE(regions.Find(1, key, 2, UINT64_MAX));
  EXPECT_TRUE(regions.Find(1, key, 100, 0));
}

TEST(RegionTable, WhoLeavesLosesAll) {
  std::vector<std::byte> memory(100);
  RegionTable regions;
  const uint64_t key = regions.Register(1, memory);
  EXPECT_FALSE(regions.Adopt(key, 2, memory)) << "a key that is in use";
  regions.ForgetAllOf(1);
  EXPECT_FALSE(regions.Find(1, key, 0, 1));
  EXPECT_TRUE(regions.Adopt(key, 2, memory));
}

}  // namespace
}  // namespace spillway::gateway
