// SPDX-License-Identifier: Apache-2.0
#include "instance_lock.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>

namespace spillway::switching {
namespace {

namespace fs = std::filesystem;

// Beside the instances' own folders, which come and go with their maps.
std::string LockParent(const Options& options) { return options.bpffs + "/spillway-lock"; }

tl::unexpected<Error> Conflict(const Options& options, const std::string& holder) {
  return Fail(ErrorCode::kConflict,
              fmt::format("instance {} is already run by another spillwayd ({})", options.instance, holder));
}

std::string PidIn(int fd) {
  char pid[32] = "?";
  const ssize_t got = pread(fd, pid, sizeof(pid) - 1, 0);
  if (got > 0) pid[got] = 0;
  return std::string("pid ") + pid;
}

// Whether `fd` is still what the path names: its last holder may have removed it.
bool IsAt(int fd, const std::string& path) {
  struct stat held {
  }, named{};
  return fstat(fd, &held) == 0 && stat(path.c_str(), &named) == 0 && held.st_ino == named.st_ino &&
         held.st_dev == named.st_dev;
}

// Whoever can open a folder can lock it: nobody else comes into the parent, also of an earlier version's.
// False, with errno: it cannot be made, or is another user's.
bool MakePrivate(const std::string& parent) {
  if (mkdir(parent.c_str(), 0700) == 0) return true;
  if (errno != EEXIST) return false;
  struct stat status {};
  if (lstat(parent.c_str(), &status) != 0)
    return errno == ENOENT;  // removed meanwhile: the next turn makes it
  if (!S_ISDIR(status.st_mode) || status.st_uid != geteuid()) {
    errno = EPERM;
    return false;
  }
  return (status.st_mode & 077) == 0 || chmod(parent.c_str(), 0700) == 0;
}

// -1 with errno EWOULDBLOCK: another has it.
int LockFolder(const std::string& path) {
  const std::string parent = fs::path(path).parent_path();
  for (;;) {
    if (!MakePrivate(parent)) return -1;
    const bool is_made = mkdir(path.c_str(), 0700) == 0 || errno == EEXIST || errno == ENOENT;
    const int fd = is_made ? open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
    if (fd < 0 && is_made && errno == ENOENT) continue;
    if (fd < 0) return -1;
    if (flock(fd, LOCK_EX | LOCK_NB) != 0) {
      const int error = errno;
      close(fd);
      errno = error;
      return -1;
    }
    if (IsAt(fd, path)) return fd;
    close(fd);
  }
}

}  // namespace

Result<std::unique_ptr<InstanceLock>> InstanceLock::Take(const Options& options) {
  std::error_code unmade;
  fs::create_directories(options.run_dir, unmade);
  if (unmade)
    return Fail(ErrorCode::kUnavailable, fmt::format("--run-dir {}: {}", options.run_dir, unmade.message()));
  const std::string path = options.run_dir + "/" + options.instance + ".lock";
  const int run_fd = open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (run_fd < 0)
    return Fail(ErrorCode::kUnavailable, fmt::format("opening {}: {}{}", path, std::strerror(errno),
                                                     errno == EACCES ? " (spillwayd runs as root)" : ""));
  if (flock(run_fd, LOCK_EX | LOCK_NB) != 0) {
    const std::string pid = PidIn(run_fd);
    close(run_fd);
    return Conflict(options, pid);
  }
  const std::string folder = LockParent(options) + "/" + options.instance;
  const int pins_fd = LockFolder(folder);
  if (pins_fd < 0) {
    const int error = errno;
    close(run_fd);
    if (error == EWOULDBLOCK)
      return Conflict(options, "of another --run-dir, with the pins in " + options.bpffs);
    return Fail(error == EACCES ? ErrorCode::kUnavailable : ErrorCode::kSystem,
                fmt::format("locking {}: {}{}", folder, std::strerror(error),
                            error == EACCES ? " (spillwayd runs as root)" : ""));
  }
  std::unique_ptr<InstanceLock> lock(new InstanceLock(folder, pins_fd, run_fd));
  const std::string pid = std::to_string(getpid());
  if (ftruncate(run_fd, 0) != 0 || pwrite(run_fd, pid.data(), pid.size(), 0) < 0)
    return Fail(ErrorCode::kSystem, "writing " + path + ": " + std::strerror(errno));
  return lock;
}

InstanceLock::~InstanceLock() {
  // While it is held, so that nobody else's is removed.
  rmdir(pin_folder_.c_str());
  rmdir(fs::path(pin_folder_).parent_path().c_str());  // of the last instance
  close(pins_fd_);
  close(run_fd_);
}

}  // namespace spillway::switching
