// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/shared_memory.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/magic.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace spillway::gateway {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kMaxDescriptors = 8;
// A copy that met a hole counts as many as whole ones take back: at most kMaxHoles are remembered.
constexpr uint32_t kHoleCounts = 8, kManyHoles = 256, kMaxHoles = 1024;

tl::unexpected<Error> SystemError(const char* what) {
  return Fail(ErrorCode::kSystem, fmt::format("{}: {}", what, std::strerror(errno)));
}

}  // namespace

SharedMemory::~SharedMemory() {
  if (bytes_.data() != nullptr) munmap(bytes_.data(), bytes_.size());
}

Result<SharedMemory> SharedMemory::Create(const char* name, uint64_t bytes) {
  base::Fd fd(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) return SystemError("memfd_create");
  if (ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0 || fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return SystemError("shared memory");
  return Map(std::move(fd), bytes);
}

Result<SharedMemory> SharedMemory::Map(base::Fd fd, uint64_t bytes) {
  struct stat status {};
  struct statfs system {};
  const int seals = fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || fstat(fd.get(), &status) != 0 ||
      // Of huge pages a hole could be made in it, and none be left when it is touched: SIGBUS.
      fstatfs(fd.get(), &system) != 0 || system.f_type != TMPFS_MAGIC ||
      static_cast<uint64_t>(status.st_size) != bytes || bytes == 0)
    return Fail(ErrorCode::kBadInput,
                fmt::format("expected sealed shared memory of {} bytes, got something else", bytes));
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  if (memory == MAP_FAILED) return SystemError("mmap of shared memory");
  SharedMemory mapped;
  mapped.fd_ = std::move(fd);
  mapped.bytes_ = {static_cast<std::byte*>(memory), bytes};
  return mapped;
}

bool SharedMemory::IsByFile(std::span<const std::byte> range) const {
  static const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::array<unsigned char, 256> is_there;
  const size_t before = reinterpret_cast<uintptr_t>(range.data()) % page, bytes = before + range.size();
  auto* const first = const_cast<std::byte*>(range.data()) - before;
  bool whole = true;
  for (size_t done = 0; done < bytes && whole; done += is_there.size() * page) {
    const size_t pages = std::min((bytes - done + page - 1) / page, is_there.size());
    whole = mincore(first + done, pages * page, is_there.data()) == 0 &&
            std::all_of(is_there.begin(), is_there.begin() + pages,
                        [](unsigned char one) { return (one & 1) != 0; });
  }
  // A window that was never touched begins as one hole, so a few are no sign of anything.
  holes_ = whole ? holes_ - (holes_ > 0 ? 1 : 0) : std::min(holes_ + kHoleCounts, kMaxHoles);
  return !whole || holes_ > kManyHoles;
}

void SharedMemory::Read(std::span<const std::byte> from, std::byte* into) const {
  if (!IsByFile(from)) {
    std::memcpy(into, from.data(), from.size());
    return;
  }
  const auto offset = from.data() - bytes_.data();
  for (size_t done = 0; done < from.size();) {
    const ssize_t got = pread(fd_.get(), into + done, from.size() - done, offset + static_cast<off_t>(done));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) {
      std::memset(into + done, 0, from.size() - done);
      return;
    }
    done += static_cast<size_t>(got);
  }
}

bool SharedMemory::Write(std::span<std::byte> to, std::span<const std::byte> from) const {
  if (!IsByFile(to)) {
    std::memcpy(to.data(), from.data(), from.size());
    return true;
  }
  const auto offset = to.data() - bytes_.data();
  for (size_t done = 0; done < from.size();) {
    const ssize_t put =
        pwrite(fd_.get(), from.data() + done, from.size() - done, offset + static_cast<off_t>(done));
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    done += static_cast<size_t>(put);
  }
  return true;
}

void FreePages(int fd) {
  struct stat status {};
  if (fstat(fd, &status) == 0 && status.st_size > 0)
    (void)fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0, status.st_size);
}

Result<void> SendWithDescriptors(int socket, std::span<const std::byte> message, std::span<const int> fds) {
  iovec piece{const_cast<std::byte*>(message.data()), message.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)] = {};
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  if (!fds.empty()) {
    header.msg_control = control;
    header.msg_controllen = CMSG_SPACE(fds.size_bytes());
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(fds.size_bytes());
    std::memcpy(CMSG_DATA(rights), fds.data(), fds.size_bytes());
  }
  ssize_t sent;
  do {
    sent = sendmsg(socket, &header, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return SystemError("sendmsg");
  if (static_cast<size_t>(sent) != message.size())
    return Fail(ErrorCode::kSystem, "sendmsg: a message was cut short");
  return {};
}

Result<Received> ReceiveWithDescriptors(int socket, std::span<std::byte> into) {
  iovec piece{into.data(), into.size()};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
  msghdr header{};
  header.msg_iov = &piece;
  header.msg_iovlen = 1;
  header.msg_control = control;
  header.msg_controllen = sizeof(control);
  ssize_t got;
  do {
    got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC);
  } while (got < 0 && errno == EINTR);
  Received received;
  if (got < 0) {
    if (errno == EAGAIN) {
      received.would_block = true;
      return received;
    }
    if (errno == ECONNRESET) return received;
    return SystemError("recvmsg");
  }
  received.bytes = static_cast<size_t>(got);
  for (cmsghdr* part = CMSG_FIRSTHDR(&header); part != nullptr; part = CMSG_NXTHDR(&header, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; i++) {
      int fd;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      received.fds.emplace_back(fd);
    }
  }
  if ((header.msg_flags & (MSG_TRUNC | MSG_CTRUNC)) != 0)
    return Fail(ErrorCode::kBadInput, "a message is too long or carries too many descriptors");
  return received;
}

Result<base::Fd> MakeEventFd() {
  base::Fd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd) return SystemError("eventfd");
  return fd;
}

uint64_t RandomKey() {
  uint64_t key = 0;
  // Without randomness keys could be guessed, and no tenant is safe from another.
  if (getrandom(&key, sizeof(key), 0) != sizeof(key)) std::abort();
  return key == 0 ? 1 : key;
}

}  // namespace spillway::gateway
