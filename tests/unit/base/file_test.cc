// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/file.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "base/fd.h"

namespace spillway::base {
namespace {

using testing::HasSubstr;

// From here on this process's calls of `number` end like this.
void Meet(long number, uint32_t action) {
  prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0);
  sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1),
      BPF_STMT(BPF_RET | BPF_K, action),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(code), code};
  ASSERT_EQ(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program), 0);
}

// They fail with `error`, as on a file system that lacks them.
void Forbid(std::initializer_list<std::pair<long, int>> calls) {
  for (const auto& [number, error] : calls) Meet(number, SECCOMP_RET_ERRNO | static_cast<uint32_t>(error));
}

class FileTest : public testing::Test {
 protected:
  FileTest() {
    std::string name = testing::TempDir() + "/spillway-file-XXXXXX";
    folder_ = mkdtemp(name.data());
    path_ = folder_ + "/state";
  }
  ~FileTest() override { std::filesystem::remove_all(folder_); }

  std::string Text() const { return ReadFile(path_).value_or("unreadable"); }
  static mode_t ModeOf(const std::string& path) {
    struct stat status {};
    return stat(path.c_str(), &status) == 0 ? status.st_mode & 07777 : 0;
  }
  size_t Files() const {
    return static_cast<size_t>(std::distance(std::filesystem::directory_iterator(folder_), {}));
  }

  std::string folder_, path_;
};

TEST_F(FileTest, IsReadAsItWasWritten) {
  std::string text(100'000, 'x');
  text[50'000] = '\0';
  ASSERT_TRUE(WriteFile(path_, text));
  EXPECT_EQ(Text(), text);
  ASSERT_TRUE(WriteFile(path_, ""));
  EXPECT_EQ(Text(), "");
  EXPECT_EQ(Files(), 1u);
  const auto missing = ReadFile(folder_ + "/none");
  ASSERT_FALSE(missing);
  EXPECT_THAT(missing.error().message, HasSubstr("/none: No such file"));
  EXPECT_FALSE(ReadFile(folder_));
}

TEST_F(FileTest, HasTheModeThatWasAskedForWhateverStoodThereBefore) {
  std::ofstream(path_) << "old";
  std::ofstream(path_ + ".new") << "left by a writer that was killed";
  chmod(path_.c_str(), 0666);
  chmod((path_ + ".new").c_str(), 0666);
  ASSERT_TRUE(WriteFile(path_, "secret", {.mode = 0600}));
  EXPECT_EQ(ModeOf(path_), 0600u);
  EXPECT_EQ(Text(), "secret");
  EXPECT_EQ(Files(), 1u);
  const mode_t before = umask(077);
  EXPECT_TRUE(WriteFile(path_, "mine"));
  umask(before);
  EXPECT_EQ(ModeOf(path_), 0600u);
}

// FAT and some network file systems have no modes of their own.
TEST_F(FileTest, WhereModesCannotBeSetOneThatIsNarrowEnoughWillDo) {
  const auto write = [&](mode_t mode, bool may_ask) {
    std::filesystem::remove(path_);
    const pid_t child = fork();
    if (child == 0) {
      umask(0);
      if (may_ask)
        Forbid({{SYS_fchmod, EPERM}});
      else
        Meet(SYS_fchmod, SECCOMP_RET_KILL_PROCESS);
      _exit(WriteFile(path_, "text", {.mode = mode}) ? 0 : 1);
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return status;
  };
  EXPECT_EQ(write(0600, false), 0) << "it has that mode";
  EXPECT_EQ(write(0644, true), 0);
  EXPECT_EQ(Text(), "text");
  EXPECT_NE(write(0400, true), 0) << "0600 is wider";
  EXPECT_EQ(Files(), 0u);
}

TEST_F(FileTest, AnotherUsersLinkIsNotWrittenThrough) {
  const std::string other = folder_ + "/other";
  std::ofstream(other) << "other";
  ASSERT_EQ(symlink(other.c_str(), (path_ + ".new").c_str()), 0);
  ASSERT_TRUE(WriteFile(path_, "text"));
  EXPECT_EQ(*ReadFile(other), "other");
  EXPECT_EQ(Text(), "text");
}

TEST_F(FileTest, WhatIsNoFileIsNotReplaced) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const auto written = WriteFile(path_, "text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kBadInput);
  EXPECT_EQ(written.error().message, "writing " + path_ + ": expected a file, got a pipe");
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
  EXPECT_EQ(Files(), 1u) << "nothing beside it";
  EXPECT_THAT(WriteFile(folder_, "text").error().message, HasSubstr("expected a file, got a folder"));
  EXPECT_THAT(WriteOutput(folder_, "text").error().message, HasSubstr("expected a file, got a folder"));
}

TEST_F(FileTest, OutputGoesIntoAPipeWhichStays) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  EXPECT_FALSE(WriteOutput(path_, "text", {.is_durable = false})) << "it does not wait for a reader";
  const Fd reader(open(path_.c_str(), O_RDONLY | O_NONBLOCK));
  ASSERT_TRUE(WriteOutput(path_, "text"));
  char got[16];
  EXPECT_EQ(std::string(got, static_cast<size_t>(std::max<ssize_t>(read(reader.get(), got, 16), 0))), "text");
  EXPECT_TRUE(std::filesystem::is_fifo(path_));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(FileTest, OutputGoesIntoADeviceWhichStays) {
  if (mknod(path_.c_str(), S_IFCHR | 0600, makedev(1, 3)) != 0) GTEST_SKIP() << "no devices may be made here";
  const auto written = WriteOutput(path_, "text");
  if (!written && written.error().message.ends_with("Permission denied")) GTEST_SKIP() << "nor opened";
  EXPECT_TRUE(written) << written.error().message;
  EXPECT_TRUE(std::filesystem::is_character_file(path_));
  EXPECT_EQ(Files(), 1u);
}

TEST_F(FileTest, OutputFollowsALinkWhichStays) {
  const std::string other = folder_ + "/other";
  ASSERT_EQ(symlink("other", path_.c_str()), 0);
  for (const char* text : {"made", "new"}) {
    ASSERT_TRUE(WriteOutput(path_, text));
    EXPECT_EQ(*ReadFile(other), text);
  }
  EXPECT_TRUE(std::filesystem::is_symlink(path_));
  EXPECT_EQ(Files(), 2u);
}

TEST_F(FileTest, OfWritersAtOnceOneWinsAndNoneIsMixed) {
  std::vector<std::thread> writers;
  for (int w = 0; w < 4; w++)
    writers.emplace_back([&, w] {
      for (int i = 0; i < 50; i++) {
        const auto written =
            WriteFile(path_, std::string(static_cast<size_t>(5000 + w), 'a' + w), {0644, w > 0});
        // The first does not wait for its turn.
        EXPECT_TRUE(written || (w == 0 && written.error().code == ErrorCode::kConflict))
            << written.error().message;
      }
    });
  std::atomic<bool> done = false;
  std::thread reader([&] {
    while (!done) {
      const auto text = ReadFile(path_);
      if (!text) continue;
      ASSERT_EQ(text->size(), static_cast<size_t>(5000 + text->at(0) - 'a'));
      ASSERT_EQ(text->find_first_not_of(text->at(0)), std::string::npos);
    }
  });
  for (std::thread& writer : writers) writer.join();
  done = true;
  reader.join();
  EXPECT_EQ(Files(), 1u);
}

// Whoever can open the file that is being written can hold its lock.
TEST_F(FileTest, AStrangersLockEndsInAnErrorNotInWaitingForEver) {
  std::ofstream(path_ + ".new") << "x";
  const int held = open((path_ + ".new").c_str(), O_RDONLY);
  ASSERT_EQ(flock(held, LOCK_EX), 0);
  const auto written = WriteFile(path_, "text");
  ASSERT_FALSE(written);
  EXPECT_EQ(written.error().code, ErrorCode::kConflict);
  EXPECT_THAT(written.error().message, HasSubstr(path_ + ".new"));
  // What is not worth the disk's time is not worth a stranger's: it never sleeps.
  const pid_t child = fork();
  if (child == 0) {
    Meet(SYS_clock_nanosleep, SECCOMP_RET_KILL_PROCESS);
    const auto unwaited = WriteFile(path_, "text", {.is_durable = false});
    _exit(!unwaited && unwaited.error().code == ErrorCode::kConflict ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  close(held);
  EXPECT_TRUE(WriteFile(path_, "text"));
}

TEST_F(FileTest, NoOtherUserCanOpenItAndSoLockItBeforeItIsWhole) {
  // Killed before it is locked, and before the last of it is on disk.
  for (const long call : {SYS_flock, SYS_fsync}) {
    std::filesystem::remove(path_ + ".new");
    const pid_t child = fork();
    if (child == 0) {
      umask(0);
      Meet(call, SECCOMP_RET_KILL_PROCESS);
      (void)WriteFile(path_, "text", {.mode = 0666});
      _exit(0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    EXPECT_EQ(ModeOf(path_ + ".new"), 0600u);
  }
  const mode_t before = umask(026);
  EXPECT_TRUE(WriteFile(path_, "text", {.mode = 0666}));
  EXPECT_EQ(ModeOf(path_), 0640u);
  std::filesystem::remove(path_);
  EXPECT_TRUE(CreateFile(path_, "text", {.mode = 0666}));
  EXPECT_EQ(ModeOf(path_), 0640u);
  umask(before);
}

// Who cannot open it cannot know whether it is being written.
TEST_F(FileTest, WhatAnotherUserIsWritingIsWaitedForAndThenAConflict) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be two users";
  std::ofstream(path_ + ".new") << "x";
  ASSERT_EQ(chmod((path_ + ".new").c_str(), 0600), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (setresuid(65534, 65534, 65534) != 0) _exit(2);
    const auto written = WriteFile(path_, "text");
    _exit(!written && written.error().code == ErrorCode::kConflict ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(FileTest, ErrorsNameOperationPathAndReason) {
  const auto nowhere = WriteFile(folder_ + "/none/state", "text");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().message, "creating " + folder_ + "/none/state.new: No such file or directory");
  ASSERT_EQ(mkdir(path_.c_str(), 0700), 0);
  const auto folder = WriteFile(path_, "text");
  ASSERT_FALSE(folder);
  EXPECT_THAT(folder.error().message, HasSubstr("writing " + path_ + ": expected a file"));
  EXPECT_EQ(Files(), 1u) << "nothing is left of what failed";
}

TEST_F(FileTest, IsCreatedOnce) {
  EXPECT_EQ(CreateFile(path_, "first", {.mode = 0600}), true);
  EXPECT_EQ(CreateFile(path_, "second"), false);
  EXPECT_EQ(Text(), "first");
  EXPECT_EQ(ModeOf(path_), 0600u);
  EXPECT_EQ(Files(), 1u);
}

// Such as FAT, and what containers mount by FUSE or 9p.
TEST_F(FileTest, IsCreatedOnceWithoutHardLinksToo) {
  const std::vector<std::vector<std::pair<long, int>>> lacking = {
      {{SYS_linkat, EPERM}},
      {{SYS_linkat, EOPNOTSUPP}, {SYS_renameat2, EINVAL}},
  };
  for (const auto& calls : lacking) {
    std::filesystem::remove(path_);
    const pid_t child = fork();
    if (child == 0) {
      for (const auto& call : calls) Forbid({call});
#ifdef SYS_link
      Forbid({{SYS_link, EPERM}});
#endif
      const auto first = CreateFile(path_, "first"), second = CreateFile(path_, "second");
      _exit(!first || !second ? 1 : !*first || *second ? 2 : 0);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
    EXPECT_EQ(Text(), "first");
    EXPECT_EQ(Files(), 1u);
  }
}

}  // namespace
}  // namespace spillway::base
