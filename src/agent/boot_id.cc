// SPDX-License-Identifier: Apache-2.0
#include "boot_id.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "base/file.h"

namespace spillway::agent {

namespace {

// Beyond what clocks say (the year 294,000): no boot id of ours, and the next would wrap.
constexpr uint64_t kMaxBootId = uint64_t{1} << 63;

std::optional<uint64_t> ReadLast(const std::string& path) {
  std::ifstream in(path);
  uint64_t last = 0;
  if (!(in >> last) || last >= kMaxBootId) return std::nullopt;
  return last;
}

}  // namespace

uint64_t NextBootId(std::optional<uint64_t> last, uint64_t now_us) {
  return last ? std::max(*last + 1, now_us) : now_us;
}

Result<uint64_t> TakeBootId(const std::string& path, uint64_t now_us) {
  std::error_code error;
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), error);
  const uint64_t next = NextBootId(ReadLast(path), now_us);
  // On disk before it is used: a power cut must not take it back.
  return base::WriteFile(path, fmt::format("{}\n", next), {.mode = 0600}).map([&] { return next; });
}

uint64_t TakeBootId(const std::string& path) {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const auto now_us =
      static_cast<uint64_t>(std::chrono::duration_cast<std::chrono::microseconds>(now).count());
  const auto taken = TakeBootId(path, now_us);
  if (taken) return *taken;
  spdlog::warn("state_file: {}; if this clock is set back, switches will refuse the next agent's reports",
               taken.error().message);
  return NextBootId(ReadLast(path), now_us);
}

}  // namespace spillway::agent
