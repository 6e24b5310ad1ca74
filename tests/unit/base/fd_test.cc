// SPDX-License-Identifier: Apache-2.0
#include "base/fd.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cerrno>

namespace spillway::base {
namespace {

bool IsOpen(int fd) { return fcntl(fd, F_GETFD) >= 0; }

TEST(Fd, ClosesWhatItOwnsAndOnlyThat) {
  const int raw = open("/dev/null", O_RDONLY);
  {
    Fd fd(raw);
    Fd moved(std::move(fd));
    EXPECT_FALSE(fd);
    EXPECT_EQ(moved.get(), raw);
    EXPECT_TRUE(IsOpen(raw));
  }
  EXPECT_FALSE(IsOpen(raw));

  Fd kept(open("/dev/null", O_RDONLY));
  const int released = kept.Release();
  kept.Reset();
  EXPECT_TRUE(IsOpen(released));
  Fd other(open("/dev/null", O_RDONLY));
  const int old = other.get();
  other = Fd(released);
  EXPECT_FALSE(IsOpen(old));
  EXPECT_EQ(other.get(), released);
}

TEST(Fd, ClosingLeavesErrnoForWhoeverReportsIt) {
  Fd fd(open("/dev/null", O_RDONLY));
  close(fd.get());  // so that its own close fails
  errno = EACCES;
  fd.Reset();
  EXPECT_EQ(errno, EACCES);
}

}  // namespace
}  // namespace spillway::base
