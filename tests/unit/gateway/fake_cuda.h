// SPDX-License-Identifier: Apache-2.0
// A card in the host's memory. What is asked of a queue happens at Wait and not before, in its order, so that
// whoever forgets to wait, or copies from memory that may be gone by then, sees wrong results. Its memory is
// mapped twice: where it is told to be the CPU may not touch it, as of a real card. It fails on demand.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <thread>

#include "gateway/executor/cuda_driver.h"

namespace spillway::gateway {

// A piece of the card's memory.
class FakeMemory {
 public:
  // `is_open`: the CPU may touch it until Close, as a kernel with nvidia-peermem can pin a card's memory.
  FakeMemory(uint64_t bytes, bool is_open)
      : size_((bytes + 4095) & ~uint64_t{4095}), fd_(memfd_create("card", MFD_CLOEXEC)) {
    if (ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0) std::abort();
    told_ = Map(is_open ? PROT_READ | PROT_WRITE : PROT_NONE);
    real_ = Map(PROT_READ | PROT_WRITE);
  }
  ~FakeMemory() {
    munmap(told_, size_);
    munmap(real_, size_);
  }
  FakeMemory(const FakeMemory&) = delete;
  FakeMemory& operator=(const FakeMemory&) = delete;

  void Close() { mprotect(told_, size_, PROT_NONE); }
  [[nodiscard]] std::span<std::byte> told() const { return {told_, size_}; }
  [[nodiscard]] std::span<std::byte> real() const { return {real_, size_}; }
  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  std::byte* Map(int protection) const {
    void* const at = mmap(nullptr, size_, protection, MAP_SHARED, fd_.get(), 0);
    if (at == MAP_FAILED) std::abort();
    return static_cast<std::byte*>(at);
  }
  size_t size_;
  base::Fd fd_;
  std::byte *told_, *real_;
};

struct FakeCard {
  std::vector<CudaDevice> devices;
  std::atomic<uint64_t> memory{uint64_t{1} << 30};  // that is left
  std::vector<std::string> used;                    // Use's, by uuid
  std::map<std::string, int> opened;                // by uuid: sm_percent of the last
  std::atomic<uint64_t> uploads_unpinned{0}, copies{0}, products{0}, allocations{0}, strangers{0};
  std::atomic<int> queues{0}, pinned{0};
  std::atomic<size_t> pending{0};  // pieces that were begun and not waited for
  // Each counts down; at 0 that call fails, and for `lose_after` all calls after it.
  static constexpr int kNever = std::numeric_limits<int>::max();
  std::atomic<int> fail_product_after{kNever}, lose_after{kNever};

  // -- of memory that other devices write
  std::string no_shared, no_dmabuf;  // why, if not
  bool has_peermem = false;   // the CPU, as the kernel for an RDMA device, can reach it until a slice is made
  bool is_unordered = false;  // what is written is seen after Acquire alone

  // As an RDMA device does.
  void Write(std::byte* told, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex);
    if (is_unordered)
      written.emplace_back(told, std::vector(bytes.begin(), bytes.end()));
    else
      std::memcpy(Find(told), bytes.data(), bytes.size());
  }
  // What the card itself sees of what it is told. In none of its pieces: as told, the host's.
  template <class T>
  T* Real(T* told) {
    const std::lock_guard lock(mutex);
    return reinterpret_cast<T*>(
        Find(reinterpret_cast<std::byte*>(const_cast<std::remove_const_t<T>*>(told))));
  }
  [[nodiscard]] bool SharedHas(std::byte value) {
    const std::lock_guard lock(mutex);
    return std::any_of(shared.begin(), shared.end(), [&](const FakeMemory* piece) {
      return std::find(piece->real().begin(), piece->real().end(), value) != piece->real().end();
    });
  }

  std::mutex mutex;
  std::set<const FakeMemory*> pieces, shared;
  std::vector<std::pair<std::byte*, std::vector<std::byte>>> written;  // and not seen yet

  std::byte* Find(std::byte* told) const {
    for (const FakeMemory* piece : pieces)
      if (told >= piece->told().data() && told < piece->told().data() + piece->told().size())
        return piece->real().data() + (told - piece->told().data());
    return told;
  }
};

class FakeQueue : public CudaQueue {
 public:
  explicit FakeQueue(FakeCard& card) : card_(card) { card_.queues++; }
  ~FakeQueue() override {
    const std::lock_guard lock(card_.mutex);
    for (const auto& [memory, bytes] : allocated_) {
      card_.memory += bytes;
      card_.pieces.erase(memory.get());
      card_.shared.erase(memory.get());
    }
    card_.pinned -= static_cast<int>(pinned_.size());
    card_.queues--;
  }

  Result<void> Enter() override {
    user_ = std::this_thread::get_id();
    for (const auto& [memory, bytes] : allocated_) memory->Close();
    return {};
  }
  Result<void> Pin(std::span<std::byte> memory) override {
    pinned_.push_back(memory);
    card_.pinned++;
    return Alive();
  }
  void Unpin(std::span<std::byte> memory) override {
    card_.pinned -= static_cast<int>(
        std::erase_if(pinned_, [&](const auto& pinned) { return pinned.data() == memory.data(); }));
  }
  Result<std::byte*> Allocate(uint64_t bytes) override {
    auto memory = Take(bytes, false);
    if (!memory) return tl::make_unexpected(memory.error());
    return (*memory)->told().data();
  }
  Result<std::span<std::byte>> AllocateShared(uint64_t bytes) override {
    if (!card_.no_shared.empty()) return Fail(ErrorCode::kSystem, card_.no_shared);
    auto memory = Take(bytes, card_.has_peermem);
    if (!memory) return tl::make_unexpected(memory.error());
    const std::lock_guard lock(card_.mutex);
    card_.shared.insert(*memory);
    return (*memory)->told();
  }
  Result<base::Fd> Export(std::span<std::byte> shared) override {
    if (!card_.no_dmabuf.empty()) return Fail(ErrorCode::kSystem, card_.no_dmabuf);
    for (const auto& [memory, bytes] : allocated_)
      if (memory->told().data() == shared.data()) return base::Fd(dup(memory->fd()));
    return Fail(ErrorCode::kSystem, "not its memory");
  }
  Result<void> Acquire() override {
    if (auto alive = Step(); !alive) return alive;
    const std::lock_guard lock(card_.mutex);
    for (const auto& [told, bytes] : card_.written) std::memcpy(card_.Find(told), bytes.data(), bytes.size());
    card_.written.clear();
    return {};
  }
  Result<void> CopyIn(std::byte* to, std::span<const std::byte> from) override {
    const bool is_pinned = std::any_of(pinned_.begin(), pinned_.end(), [&](const auto& memory) {
      return from.data() >= memory.data() && from.data() + from.size() <= memory.data() + memory.size();
    });
    if (!is_pinned) card_.uploads_unpinned++;
    return Begin([this, to, from] {
      card_.copies++;
      std::memcpy(card_.Real(to), from.data(), from.size());
    });
  }
  Result<void> CopyOut(std::span<std::byte> to, const std::byte* from) override {
    return Begin([this, to, from] {
      card_.copies++;
      std::memcpy(to.data(), card_.Real(from), to.size());
    });
  }
  Result<void> Multiply(const float* a, const float* b, float* c, int64_t m, int64_t k, int64_t n,
                        bool relu) override {
    if (card_.fail_product_after.load() != FakeCard::kNever && card_.fail_product_after-- == 0)
      return Fail(ErrorCode::kSystem, "launch: too many resources requested");
    return Begin([=, this] {
      const float *const from = card_.Real(a), *const with = card_.Real(b);
      float* const into = card_.Real(c);
      card_.products++;
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
          double sum = 0;
          for (int64_t l = 0; l < k; l++) sum += double{from[i * k + l]} * double{with[l * n + j]};
          into[i * n + j] = relu && sum < 0 ? 0.0f : static_cast<float>(sum);
        }
    });
  }
  Result<void> Wait() override {
    for (const auto& piece : begun_) piece();
    begun_.clear();
    card_.pending = 0;
    return Alive();
  }

 private:
  Result<FakeMemory*> Take(uint64_t bytes, bool is_open) {
    CheckUser();
    if (bytes > card_.memory) return Fail(ErrorCode::kSystem, "out of memory");
    card_.memory -= bytes;
    card_.allocations++;
    allocated_.emplace_back(std::make_unique<FakeMemory>(bytes, is_open), bytes);
    const std::lock_guard lock(card_.mutex);
    card_.pieces.insert(allocated_.back().first.get());
    return allocated_.back().first.get();
  }
  Result<void> Alive() {
    if (card_.lose_after.load() != FakeCard::kNever && card_.lose_after.load() <= 0)
      return Fail(ErrorCode::kUnavailable, "wait: the device is lost");
    return {};
  }
  Result<void> Step() {
    CheckUser();
    if (card_.lose_after.load() != FakeCard::kNever) card_.lose_after--;
    return Alive();
  }
  Result<void> Begin(std::function<void()> piece) {
    if (auto alive = Step(); !alive) return alive;
    begun_.push_back(std::move(piece));
    card_.pending = begun_.size();
    return {};
  }
  void CheckUser() {
    if (std::this_thread::get_id() != user_) card_.strangers++;
  }

  FakeCard& card_;
  std::thread::id user_ = std::this_thread::get_id();
  std::vector<std::span<std::byte>> pinned_;
  std::vector<std::pair<std::unique_ptr<FakeMemory>, uint64_t>> allocated_;
  std::vector<std::function<void()>> begun_;
};

// The card outlives it.
class FakeCuda : public CudaDriver {
 public:
  explicit FakeCuda(FakeCard& card) : card_(card) {}
  Result<std::vector<CudaDevice>> Devices() override { return card_.devices; }
  Result<void> Use(const std::vector<CudaDevice>& devices) override {
    for (const CudaDevice& device : devices) card_.used.push_back(device.uuid);
    return {};
  }
  Result<std::unique_ptr<CudaQueue>> Open(const CudaDevice& device, int sm_percent) override {
    card_.opened[device.uuid] = sm_percent;
    return std::make_unique<FakeQueue>(card_);
  }

 private:
  FakeCard& card_;
};

}  // namespace spillway::gateway
