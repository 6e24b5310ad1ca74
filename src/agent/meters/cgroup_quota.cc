// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/cgroup_quota.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <string_view>

#include "base/file.h"
#include "base/printable.h"

namespace spillway::agent {
namespace {

constexpr std::chrono::seconds kLimitsAgain{1}, kSearchAgain{1}, kSearchAtLast{60};

// The number behind `key`, or the first of the text where that is empty.
std::optional<uint64_t> NumberIn(std::string_view text, std::string_view key) {
  size_t at = 0;
  if (!key.empty()) {
    at = text.starts_with(key) ? 0 : text.find(std::string("\n").append(key));
    if (at == std::string_view::npos) return std::nullopt;
    at = text.find(' ', at);
    if (at == std::string_view::npos) return std::nullopt;
    at++;
  }
  uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
  return error == std::errc() ? std::optional(number) : std::nullopt;
}

// The files of control groups are short; each read renders them anew.
std::optional<std::string_view> ReadAgain(const base::Fd& file, std::array<char, 2048>& into) {
  const ssize_t got = pread(file.get(), into.data(), into.size(), 0);
  if (got <= 0) return std::nullopt;
  return std::string_view(into.data(), static_cast<size_t>(got));
}

Result<base::Fd> OpenToRead(const std::string& path) {
  base::Fd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file) return Fail(ErrorCode::kSystem, fmt::format("{}: {}", path, strerror(errno)));
  return file;
}

}  // namespace

Result<std::unique_ptr<CgroupQuota>> CgroupQuota::Open(const std::string& group, const std::string& root) {
  std::unique_ptr<CgroupQuota> quota(new CgroupQuota(group, root));
  if (auto opened = quota->OpenFiles(); !opened) return tl::make_unexpected(opened.error());
  return quota;
}

std::unique_ptr<CgroupQuota> CgroupQuota::OfService(ServiceCgroup service, const std::string& root) {
  std::unique_ptr<CgroupQuota> quota(new CgroupQuota("", root));
  quota->service_ = std::move(service);
  return quota;
}

Result<void> CgroupQuota::OpenFiles() {
  auto files = FindCgroup(group_, root_);
  if (!files) return tl::make_unexpected(files.error());
  auto usage = OpenToRead(files->usage);
  if (!usage) return tl::make_unexpected(usage.error());
  base::Fd periods;
  if (!files->v2 && !files->quota.empty()) {
    auto opened = OpenToRead(std::filesystem::path(files->quota).replace_filename("cpu.stat"));
    if (!opened) return tl::make_unexpected(opened.error());
    periods = std::move(*opened);
  }
  files_ = std::move(*files);
  usage_ = std::move(*usage);
  periods_ = std::move(periods);
  open_ = true;
  opened_++;
  return {};
}

bool CgroupQuota::ReadLimits() {
  quota_ns_ = 0;
  if (files_.quota.empty()) return false;  // the controller may be turned on for it later
  const auto limit = ReadLimit(files_);
  if (!limit) return false;
  if (!*limit) return true;
  // What lapsed may be used later then: what is left of a period's budget does not say when the unit stops.
  const auto burst = base::ReadFile(
      std::filesystem::path(files_.quota).replace_filename(files_.v2 ? "cpu.max.burst" : "cpu.cfs_burst_us"));
  if (burst && NumberIn(*burst, "").value_or(0) > 0) return true;
  quota_ns_ = (*limit)->quota_us * 1000;
  period_ns_ = (*limit)->period_us * 1000;
  return true;
}

// The search takes its time, and there may be no such group ever.
bool CgroupQuota::FindGroup(std::chrono::nanoseconds now) {
  if (!group_.empty() || !service_) return true;
  if (now < search_at_) return false;
  search_again_ = std::clamp<std::chrono::nanoseconds>(2 * search_again_, kSearchAgain, kSearchAtLast);
  search_at_ = now + search_again_;
  auto group = service_->Find();
  if (!group) return false;
  group_ = std::move(*group);
  search_again_ = {};
  return true;
}

bool CgroupQuota::FindLimits(std::chrono::nanoseconds now) {
  if (!FindGroup(now)) return false;
  if (open_ && ReadLimits()) return true;
  open_ = false;
  if (OpenFiles()) return ReadLimits();
  if (service_) group_.clear();
  return false;
}

std::optional<QuotaReading> CgroupQuota::Read(std::chrono::nanoseconds now) {
  if (!limits_read_ || now - *limits_read_ >= kLimitsAgain) {
    limits_read_ = now;
    const double before_ns = quota_ns_;
    if (!FindLimits(now)) quota_ns_ = 0;
    if (quota_ns_ != before_ns && quota_ns_ > 0)
      spdlog::info("cgroup {}: {:g} ms of CPU time in each {:g} ms", base::Printable(group_), quota_ns_ / 1e6,
                   period_ns_ / 1e6);
  }
  if (quota_ns_ == 0) return std::nullopt;
  std::array<char, 2048> buffer;
  QuotaReading reading{.quota_ns = quota_ns_, .period_ns = period_ns_};
  const auto text = ReadAgain(usage_, buffer);
  const auto used = text ? NumberIn(*text, files_.v2 ? "usage_usec" : "") : std::nullopt;
  if (!used) {
    open_ = false;
    quota_ns_ = 0;  // until the next look at the limits, which finds the group again
    return std::nullopt;
  }
  reading.used_ns = static_cast<double>(*used) * (files_.v2 ? 1000 : 1);
  const auto counts = files_.v2 ? text : ReadAgain(periods_, buffer);
  const auto periods = counts ? NumberIn(*counts, "nr_periods") : std::nullopt,
             throttled = counts ? NumberIn(*counts, "nr_throttled") : std::nullopt;
  if (!periods || !throttled) {
    open_ = false;
    quota_ns_ = 0;
    return std::nullopt;
  }
  reading.periods = *periods;
  reading.throttled = *throttled;
  reading.group = opened_;
  return reading;
}

}  // namespace spillway::agent
