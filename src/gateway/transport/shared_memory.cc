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

#include <cerrno>
#include <cstdlib>
#include <cstring>

namespace spillway::gateway {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr size_t kMaxDescriptors = 8;

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
