// SPDX-License-Identifier: Apache-2.0
// A card in the host's memory. What is asked of a queue happens at Wait and not before, in its order, so that
// whoever forgets to wait, or copies from memory that may be gone by then, sees wrong results. It fails on
// demand.
#pragma once

#include <atomic>
#include <functional>
#include <limits>
#include <map>
#include <memory>

#include "gateway/executor/cuda_driver.h"

namespace spillway::gateway {

struct FakeCard {
  std::vector<CudaDevice> devices;
  uint64_t memory = uint64_t{1} << 30;  // that is left
  std::vector<std::string> used;        // Use's, by uuid
  std::map<std::string, int> opened;    // by uuid: sm_percent of the last
  std::atomic<uint64_t> uploads_unpinned{0}, copies{0}, products{0}, allocations{0};
  std::atomic<int> queues{0};
  // Each counts down; at 0 that call fails, and for `lose_after` all calls after it.
  static constexpr int kNever = std::numeric_limits<int>::max();
  std::atomic<int> fail_product_after{kNever}, lose_after{kNever};
};

class FakeQueue : public CudaQueue {
 public:
  explicit FakeQueue(FakeCard& card) : card_(card) { card_.queues++; }
  ~FakeQueue() override {
    card_.queues--;
    for (const auto& memory : allocated_) card_.memory += memory->size();
  }

  Result<void> Pin(std::span<std::byte> memory) override {
    pinned_ = memory;
    return Alive();
  }
  Result<std::byte*> Allocate(uint64_t bytes) override {
    if (bytes > card_.memory) return Fail(ErrorCode::kSystem, "out of memory");
    card_.memory -= bytes;
    card_.allocations++;
    allocated_.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    return allocated_.back()->data();
  }
  Result<void> CopyIn(std::byte* to, std::span<const std::byte> from) override {
    if (from.data() < pinned_.data() || from.data() + from.size() > pinned_.data() + pinned_.size())
      card_.uploads_unpinned++;
    return Begin([this, to, from] {
      card_.copies++;
      std::memcpy(to, from.data(), from.size());
    });
  }
  Result<void> CopyOut(std::span<std::byte> to, const std::byte* from) override {
    return Begin([this, to, from] {
      card_.copies++;
      std::memcpy(to.data(), from, to.size());
    });
  }
  Result<void> Multiply(const float* a, const float* b, float* c, int64_t m, int64_t k, int64_t n,
                        bool relu) override {
    if (card_.fail_product_after.load() != FakeCard::kNever && card_.fail_product_after-- == 0)
      return Fail(ErrorCode::kSystem, "launch: too many resources requested");
    return Begin([=, this] {
      card_.products++;
      for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
          double sum = 0;
          for (int64_t l = 0; l < k; l++) sum += double{a[i * k + l]} * double{b[l * n + j]};
          c[i * n + j] = relu && sum < 0 ? 0.0f : static_cast<float>(sum);
        }
    });
  }
  Result<void> Wait() override {
    for (const auto& piece : begun_) piece();
    begun_.clear();
    return Alive();
  }

 private:
  Result<void> Alive() {
    if (card_.lose_after.load() != FakeCard::kNever && card_.lose_after.load() <= 0)
      return Fail(ErrorCode::kUnavailable, "wait: the device is lost");
    return {};
  }
  Result<void> Begin(std::function<void()> piece) {
    if (card_.lose_after.load() != FakeCard::kNever) card_.lose_after--;
    if (auto alive = Alive(); !alive) return alive;
    begun_.push_back(std::move(piece));
    return {};
  }

  FakeCard& card_;
  std::span<std::byte> pinned_;
  std::vector<std::unique_ptr<std::vector<std::byte>>> allocated_;
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
