// SPDX-License-Identifier: Apache-2.0
#include "base/file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/fs.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <thread>

#include "base/fd.h"
#include "base/print.h"

namespace spillway::base {
namespace {

tl::unexpected<Error> FailSystem(const char* operation, const std::string& path, int error = errno) {
  return Fail(ErrorCode::kSystem, fmt::format("{} {}: {}", operation, Printable(path), std::strerror(error)));
}

std::string FolderOf(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

// Whoever can open the file can lock it: so it is its owner's alone until it is whole, and nobody is waited
// for without an end.
constexpr mode_t kWhileWritten = 0600;
constexpr std::chrono::seconds kMaxWait{2};
constexpr std::chrono::milliseconds kLookAgain{2};

// False: somebody else has the lock. Some file systems have none: then nobody takes turns there.
bool TryLock(int fd) { return flock(fd, LOCK_EX | LOCK_NB) == 0 || (errno != EWOULDBLOCK && errno != EINTR); }

bool IsNamed(int fd, const std::string& path) {
  struct stat held {
  }, named{};
  return fstat(fd, &held) == 0 && lstat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

// Removes what has that name, unless somebody writes to it: false.
Result<bool> RemoveLeftover(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
  // ELOOP: a link, which no writer makes. EACCES: another user's, who may be writing it.
  if (!fd && errno == ENOENT) return true;
  if (!fd && errno == EACCES) return false;
  if (!fd && errno != ELOOP) return FailSystem("opening", path);
  if (fd && !TryLock(fd.get())) return false;
  if (fd && !IsNamed(fd.get(), path)) return true;
  if (unlink(path.c_str()) != 0 && errno != ENOENT) return FailSystem("removing", path);
  return true;
}

// An empty file of that name which nobody else writes to while it is open.
Result<Fd> OpenNew(const std::string& path, bool may_wait) {
  const auto give_up = std::chrono::steady_clock::now() + kMaxWait;
  while (std::chrono::steady_clock::now() < give_up) {
    Fd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, kWhileWritten));
    if (!fd && errno != EEXIST) return FailSystem("creating", path);
    if (fd) {
      // Another may have taken it for a leftover before it was locked.
      if (TryLock(fd.get()) && IsNamed(fd.get(), path)) return fd;
      continue;
    }
    const auto removed = RemoveLeftover(path);
    if (!removed) return tl::make_unexpected(removed.error());
    if (*removed) continue;
    if (!may_wait) break;
    std::this_thread::sleep_for(kLookAgain);
  }
  return Fail(ErrorCode::kConflict, fmt::format("writing {}: another process holds it", Printable(path)));
}

// What open(2) would make of it. umask(2) tells the mask only by setting another, for all threads; where
// /proc does not tell it, the file stays its owner's alone.
mode_t LessUmask(mode_t mode) {
  if ((mode & ~kWhileWritten) == 0) return mode;
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("Umask:"))
      return mode & ~static_cast<mode_t>(std::stoul(line.substr(6), nullptr, 8));
  return mode & kWhileWritten;
}

// 0, or an errno. Some file systems have no modes of their own: one that lets nobody in beside those wanted
// will do there.
int SetMode(int fd, mode_t wanted) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return errno;
  const mode_t present = status.st_mode & 07777;
  if (present == wanted || fchmod(fd, wanted) == 0) return 0;
  return errno == EPERM && (present & ~wanted) == 0 ? 0 : errno;
}

Result<void> WriteAll(int fd, const std::string& path, std::string_view text, bool is_durable) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return FailSystem("writing", path);
    text.remove_prefix(static_cast<size_t>(written));
  }
  if (is_durable && fsync(fd) != 0) return FailSystem("writing", path);
  return {};
}

// Where a folder cannot be opened or synced, there is no more that can be done for its entry.
Result<void> SyncFolder(const std::string& folder) {
  const Fd fd(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd && fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS) return FailSystem("writing", folder);
  return {};
}

// 0, or an errno; EEXIST: `path` exists and is as it was. The caller holds the lock on `fresh`.
int MoveUnlessThere(const std::string& fresh, const std::string& path) {
  if (link(fresh.c_str(), path.c_str()) == 0) {
    unlink(fresh.c_str());
    return 0;
  }
  if (errno == EEXIST) return errno;
  // No hard links there. FAT has the next, FUSE and 9p often neither.
  if (renameat2(AT_FDCWD, fresh.c_str(), AT_FDCWD, path.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno == EEXIST) return errno;
  if (struct stat there{}; lstat(path.c_str(), &there) == 0) return EEXIST;
  return std::rename(fresh.c_str(), path.c_str()) == 0 ? 0 : errno;
}

// What has that name, links not followed; S_IFREG where nothing has.
mode_t KindOf(const std::string& path) {
  struct stat there {};
  return lstat(path.c_str(), &there) == 0 ? there.st_mode & S_IFMT : S_IFREG;
}

tl::unexpected<Error> FailKind(const std::string& path, mode_t kind) {
  const char* word = kind == S_IFDIR                      ? "a folder"
                     : kind == S_IFIFO                    ? "a pipe"
                     : kind == S_IFCHR || kind == S_IFBLK ? "a device"
                                                          : "a socket";
  return Fail(ErrorCode::kBadInput,
              fmt::format("writing {}: expected a file, got {}", Printable(path), word));
}

// Whose reader is slow is waited for only where the write may wait.
Result<void> WriteInto(const std::string& path, std::string_view text, const WriteOptions& options) {
  const int flags = O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_NOCTTY;
  const Fd fd(open(path.c_str(), options.is_durable ? flags : flags | O_NONBLOCK, options.mode));
  if (!fd && errno == EISDIR) return FailKind(path, S_IFDIR);
  if (!fd) return FailSystem("opening", path);
  if (auto written = WriteAll(fd.get(), path, text, false); !written) return written;
  // Devices and pipes have no disk to wait for.
  if (options.is_durable && fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS)
    return FailSystem("writing", path);
  return {};
}

// False: `path` exists and may not be replaced.
Result<bool> WriteWhole(const std::string& path, std::string_view text, const WriteOptions& options,
                        bool may_replace) {
  const std::string fresh = path + ".new";
  auto fd = OpenNew(fresh, options.is_durable);
  if (!fd) return tl::make_unexpected(fd.error());
  if (auto written = WriteAll(fd->get(), fresh, text, options.is_durable); !written) {
    unlink(fresh.c_str());
    return tl::make_unexpected(written.error());
  }
  if (const int error = SetMode(fd->get(), LessUmask(options.mode)); error != 0) {
    unlink(fresh.c_str());
    return FailSystem("setting the mode of", fresh, error);
  }
  const int error = !may_replace                                    ? MoveUnlessThere(fresh, path)
                    : std::rename(fresh.c_str(), path.c_str()) == 0 ? 0
                                                                    : errno;
  if (error != 0) {
    unlink(fresh.c_str());
    if (error == EEXIST && !may_replace) return false;
    return FailSystem(may_replace ? "replacing" : "creating", path, error);
  }
  if (options.is_durable)
    if (auto synced = SyncFolder(FolderOf(path)); !synced) return tl::make_unexpected(synced.error());
  return true;
}

}  // namespace

Result<std::string> ReadFile(const std::string& path) {
  const auto fail = [&] {
    return Fail(ErrorCode::kSystem, fmt::format("{}: {}", Printable(path), std::strerror(errno)));
  };
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return fail();
  std::string text;
  char part[16384];
  for (;;) {
    const ssize_t got = read(fd.get(), part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail();
    if (got == 0) return text;
    text.append(part, static_cast<size_t>(got));
  }
}

Result<void> WriteFile(const std::string& path, std::string_view text, const WriteOptions& options) {
  if (const mode_t kind = KindOf(path); kind != S_IFREG && kind != S_IFLNK) return FailKind(path, kind);
  return WriteWhole(path, text, options, true).map([](bool) {});
}

Result<void> WriteOutput(const std::string& path, std::string_view text, const WriteOptions& options) {
  return KindOf(path) == S_IFREG ? WriteFile(path, text, options) : WriteInto(path, text, options);
}

Result<bool> CreateFile(const std::string& path, std::string_view text, const WriteOptions& options) {
  return WriteWhole(path, text, options, false);
}

}  // namespace spillway::base
