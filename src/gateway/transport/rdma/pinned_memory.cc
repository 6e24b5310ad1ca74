// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/pinned_memory.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spillway::gateway {
namespace {

constexpr size_t kFreedAtOnce = 16 << 20;

}  // namespace

// In pieces: whoever else of the process wants memory mapped waits for one at most.
Pages::~Pages() {
  while (!bytes_.empty()) {
    const auto piece = bytes_.first(std::min(bytes_.size(), kFreedAtOnce));
    munmap(piece.data(), piece.size());
    bytes_ = bytes_.subspan(piece.size());
  }
}

Result<Pages> Pages::Make(uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Fail(ErrorCode::kSystem, fmt::format("{} bytes of memory: {}", bytes, std::strerror(errno)));
  Pages pages;
  pages.bytes_ = {static_cast<std::byte*>(memory), bytes};
  // Large pages where the kernel has them to give. A kernel before 5.14 makes pages when they are registered.
  madvise(memory, bytes, MADV_HUGEPAGE);
  madvise(memory, bytes, MADV_POPULATE_WRITE);
  return pages;
}

Result<PinnedMemory> PinnedMemory::Make(ibv_pd* domain, Pages pages, int access) {
  PinnedMemory memory;
  memory.pages_ = std::move(pages);
  auto registered = rdma::Register(domain, memory.bytes().data(), memory.bytes().size(), access);
  if (!registered) return tl::make_unexpected(registered.error());
  memory.registered_ = std::move(*registered);
  return memory;
}

uint32_t PinnedMemory::local_key() const { return registered_->lkey; }
uint32_t PinnedMemory::remote_key() const { return registered_->rkey; }

}  // namespace spillway::gateway
