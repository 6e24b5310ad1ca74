// SPDX-License-Identifier: Apache-2.0
#include "gateway/control/fleet_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>

#include <cerrno>
#include <filesystem>

#include "base/file.h"
#include "base/system_error.h"

namespace spillway::gateway {
namespace {

using scheduler::Fleet;

// Though nothing but the clock, the books and what requests take went on.
constexpr scheduler::Millis kSaveEvery = 10'000;

Fleet WithoutClock(Fleet fleet) {
  fleet.now = 0;
  fleet.gpu_ms = 0;
  fleet.moves_left = 0;
  fleet.considered = 0;
  fleet.service_times.clear();
  return fleet;
}

}  // namespace

Result<FleetFile> FleetFile::Open(const std::string& given) {
  // The file itself, so that nobody else has it by another name, and a link to it stays one.
  std::error_code unknown;
  const auto resolved = std::filesystem::weakly_canonical(given, unknown);
  const std::string path = unknown ? given : resolved.string();
  const std::string lock_path = path + ".lock";
  base::Fd lock(open(lock_path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return FailSystem("open " + lock_path, errno);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return Fail(ErrorCode::kConflict, fmt::format("{}: in use by another spillway-gateway: stop that one, or "
                                                  "give controller.state another path",
                                                  given));
  return FleetFile(path, std::move(lock));
}

Result<std::optional<Fleet>> FleetFile::Read() const {
  std::error_code unknown;
  const std::filesystem::file_status status = std::filesystem::status(path_, unknown);
  if (!std::filesystem::status_known(status))
    return Fail(ErrorCode::kSystem, fmt::format("{}: {}", path_, unknown.message()));
  if (!std::filesystem::exists(status)) return std::nullopt;
  // To open a FIFO would wait for its writer.
  if (!std::filesystem::is_regular_file(status))
    return Fail(ErrorCode::kBadInput, path_ + ": expected a regular file");
  const auto text = base::ReadFile(path_);
  if (!text) return tl::make_unexpected(text.error());
  auto read = scheduler::ParseFleet(*text);
  if (!read)
    return Fail(
        ErrorCode::kBadInput,
        fmt::format("{}: expected a state file as this version writes it ({}); restore it, or move it away "
                    "to start without models",
                    path_, read.error().message));
  return std::move(*read);
}

void FleetFile::Save(const Fleet& fleet) {
  if (is_saved_ && fleet.now - saved_.now < kSaveEvery && WithoutClock(fleet) == WithoutClock(saved_)) return;
  const auto written = base::WriteFile(path_, ToText(fleet), {.mode = 0600});
  if (!written && is_saved_)
    spdlog::error("{}; instances are not started or stopped until the state file is writable",
                  written.error().message);
  if (!written && saved_.revision == 0) spdlog::error("{}", written.error().message);
  is_saved_ = written.has_value();
  if (is_saved_) saved_ = fleet;
}

}  // namespace spillway::gateway
