// SPDX-License-Identifier: Apache-2.0
#include "gateway/rdma/pinned_memory.h"

#include <fmt/format.h>
#include <infiniband/verbs.h>
#include <sys/mman.h>

namespace spillway::gateway {

PinnedMemory::~PinnedMemory() {
  registered_.reset();
  if (bytes_.data() != nullptr) munmap(bytes_.data(), bytes_.size());
}

Result<PinnedMemory> PinnedMemory::Make(ibv_pd* domain, uint64_t bytes, int access) {
  PinnedMemory memory;
  void* pages = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return rdma::FailRdma(fmt::format("{} bytes of memory", bytes));
  memory.bytes_ = {static_cast<std::byte*>(pages), bytes};
  auto registered = rdma::Register(domain, pages, bytes, access);
  if (!registered) return tl::make_unexpected(registered.error());
  memory.registered_ = std::move(*registered);
  return memory;
}

uint32_t PinnedMemory::local_key() const { return registered_->lkey; }
uint32_t PinnedMemory::remote_key() const { return registered_->rkey; }

}  // namespace spillway::gateway
