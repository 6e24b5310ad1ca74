// SPDX-License-Identifier: Apache-2.0
// Memory that a peer can punch holes in: copies neither wait for it nor take its pages upon themselves.
#include "gateway/transport/shared_memory.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include <algorithm>
#include <string_view>
#include <vector>

#include "gateway/transport/shm/window.h"

namespace spillway::gateway {
namespace {

constexpr size_t kPage = 4096, kMemoryBytes = 64 * kPage;

int64_t Blocks(int fd) {
  struct stat status {};
  EXPECT_EQ(fstat(fd, &status), 0);
  return status.st_blocks;
}

void Punch(int fd, size_t offset, size_t bytes) {
  ASSERT_EQ(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, static_cast<off_t>(offset),
                      static_cast<off_t>(bytes)),
            0);
}

std::vector<std::byte> Pattern(size_t bytes) {
  std::vector<std::byte> pattern(bytes);
  for (size_t i = 0; i < bytes; i++) pattern[i] = static_cast<std::byte>(i * 7 + 1);
  return pattern;
}

TEST(SharedMemoryCopies, WhatIsMissingReadsAsZerosAndTakesNoPage) {
  const SharedMemory memory = *SharedMemory::Create("test", kMemoryBytes);
  std::vector<std::byte> read(kMemoryBytes, std::byte{9});
  memory.Read(memory.bytes(), read.data());
  EXPECT_TRUE(std::all_of(read.begin(), read.end(), [](std::byte one) { return one == std::byte{0}; }));
  EXPECT_EQ(Blocks(memory.fd()), 0) << "a copy through the mapping would have made the pages";
}

TEST(SharedMemoryCopies, CarryRangesThatBeginAnywhereWithAndWithoutHoles) {
  const SharedMemory memory = *SharedMemory::Create("test", kMemoryBytes);
  const std::vector<std::byte> pattern = Pattern(5 * kPage + 33);
  const auto range = memory.bytes().subspan(kPage - 5, pattern.size());
  for (const size_t hole : {size_t{0}, kPage, 3 * kPage, 6 * kPage}) {
    ASSERT_TRUE(memory.Write(range, pattern));
    EXPECT_TRUE(std::equal(pattern.begin(), pattern.end(), range.begin())) << hole;
    std::vector<std::byte> expected = pattern, read(pattern.size());
    memory.Read(range, read.data());
    EXPECT_EQ(read, expected) << hole;
    Punch(memory.fd(), hole, kPage);
    for (size_t i = 0; i < expected.size(); i++)
      if (const size_t at = kPage - 5 + i; at >= hole && at < hole + kPage) expected[i] = std::byte{0};
    memory.Read(range, read.data());
    EXPECT_EQ(read, expected) << hole;
  }
}

TEST(SharedMemoryCopies, StayRightWhereHolesWereSeenAllTheTime) {
  const SharedMemory memory = *SharedMemory::Create("test", kMemoryBytes);
  const std::vector<std::byte> pattern = Pattern(2 * kPage);
  const auto range = memory.bytes().first(pattern.size());
  std::vector<std::byte> read(pattern.size());
  for (int i = 0; i < 300; i++) {
    Punch(memory.fd(), 0, kPage);
    ASSERT_TRUE(memory.Write(range, pattern));
    memory.Read(range, read.data());
    ASSERT_EQ(read, pattern) << i;
  }
}

TEST(SharedMemoryCopies, AWindowThatEndsGivesItsPagesBackWhoeverKeepsADescriptor) {
  auto window = *ShmServedWindow::Create(kMemoryBytes, 16);
  const auto given = window->descriptors();
  const base::Fd channel(fcntl(given[0], F_DUPFD_CLOEXEC, 0)), memory(fcntl(given[1], F_DUPFD_CLOEXEC, 0));
  ASSERT_TRUE(window->Write(window->bytes(), Pattern(kMemoryBytes)));
  ASSERT_GT(Blocks(memory.get()), 0);
  std::shared_ptr<void> remains = window->TakeMemory();
  window.reset();
  EXPECT_GT(Blocks(memory.get()), 0) << "which takes long for much memory";
  remains.reset();
  EXPECT_EQ(Blocks(memory.get()), 0);
  EXPECT_EQ(Blocks(channel.get()), 0);
}

}  // namespace
}  // namespace spillway::gateway
