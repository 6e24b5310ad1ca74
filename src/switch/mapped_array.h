// SPDX-License-Identifier: Apache-2.0
// A BPF array map (BPF_F_MMAPABLE) as memory: reads and writes are loads and stores, and cannot fail
// once it is mapped. The data plane works on the same bytes at the same time: what both sides write
// is written with the atomic helpers below, one field at a time.
#pragma once

#include <sys/mman.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <source_location>
#include <string>
#include <utility>

#include "base/error.h"
#include "write_point.h"

namespace spillway::switching {

template <class T>
class MappedArray {
 public:
  MappedArray() = default;
  MappedArray(MappedArray&& other) noexcept { *this = std::move(other); }
  MappedArray& operator=(MappedArray&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    return *this;
  }
  ~MappedArray() {
    if (data_ != nullptr) munmap(data_, size_ * sizeof(T));
  }

  [[nodiscard]] static Result<MappedArray> Map(int fd, uint32_t entries, const char* name) {
    void* at = mmap(nullptr, entries * sizeof(T), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (at == MAP_FAILED) {
      return Fail(ErrorCode::kSystem, std::string("mmap of map ") + name + ": " + std::strerror(errno));
    }
    MappedArray array;
    array.data_ = static_cast<T*>(at);
    array.size_ = entries;
    return array;
  }

  T& operator[](uint32_t i) { return data_[i]; }
  const T& operator[](uint32_t i) const { return data_[i]; }
  uint32_t size() const { return static_cast<uint32_t>(size_); }

 private:
  T* data_ = nullptr;
  size_t size_ = 0;
};

template <class T>
T Load(const T& field) {
  return __atomic_load_n(&field, __ATOMIC_ACQUIRE);
}

template <class T>
void Store(T& field, T value, const std::source_location& where = std::source_location::current()) {
  __atomic_store_n(&field, value, __ATOMIC_RELEASE);
  Written(where);
}

// Writes only if the field still holds `seen`.
template <class T>
bool Replace(T& field, T seen, T value, const std::source_location& where = std::source_location::current()) {
  const bool replaced =
      __atomic_compare_exchange_n(&field, &seen, value, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
  if (replaced) Written(where);
  return replaced;
}

}  // namespace spillway::switching
