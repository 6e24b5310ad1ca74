// SPDX-License-Identifier: Apache-2.0
// The driver's management library, loaded by name when it is asked for: no build needs it. Its functions keep
// their form once released, so a name that is found can be called. Source: NVML API Reference.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "base/error.h"

namespace spillway::gateway {

struct NvmlDevice;  // nvmlDevice_t points to one

class NvmlLibrary {
 public:
  static constexpr const char* kUsual = "libnvidia-ml.so.1";
  static constexpr int kSuccess = 0;        // what its functions return
  static constexpr unsigned kMaxText = 96;  // of a name or a uuid, with its end
  // Whether it says that the GPU is of no use: no driver, fallen off the bus, or to be reset first.
  static constexpr bool IsLost(int result) { return result == 9 || result == 15 || result == 16; }
  static constexpr int kUnknown = 999;  // which it says of some that fell off, and at times of others

  // Loads and begins it. kUnavailable: there is no such library, or no driver.
  [[nodiscard]] static Result<NvmlLibrary> Load(const std::string& library);
  NvmlLibrary(NvmlLibrary&&) noexcept = default;
  NvmlLibrary& operator=(NvmlLibrary&&) = delete;
  ~NvmlLibrary();

  // False: a driver from before that function.
  template <class Function>
  [[nodiscard]] bool Find(Function*& into, const char* name) const {
    into = reinterpret_cast<Function*>(Symbol(name));
    return into != nullptr;
  }
  // The GPUs that answer, by their UUIDs. By looking at each: the library's own search fails where any is
  // lost. Comes back only when all have answered or failed.
  [[nodiscard]] Result<std::map<std::string, NvmlDevice*>> Gpus() const;
  // kUnavailable, with the library's own words, unless `result` is success.
  [[nodiscard]] Result<void> Check(int result, const std::string& what) const;

 private:
  struct Close {
    void operator()(void* library) const;
  };

  NvmlLibrary() = default;
  [[nodiscard]] void* Symbol(const char* name) const;

  std::unique_ptr<void, Close> library_;
  int (*shutdown_)() = nullptr;
  const char* (*error_string_)(int) = nullptr;
};

}  // namespace spillway::gateway
