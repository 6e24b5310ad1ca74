// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/cgroup_quota.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <sstream>
#include <string_view>

#include "base/file.h"

namespace spillway::agent {
namespace {

constexpr std::chrono::seconds kLimitsAgain{1};

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
  return {};
}

// v2 says "max" for no quota, v1 says -1.
bool CgroupQuota::ReadLimits() {
  quota_ns_ = 0;
  if (files_.quota.empty()) return true;
  auto text = base::ReadFile(files_.quota);
  if (text && !files_.v2) {
    const auto period = base::ReadFile(files_.period);
    if (!period) return false;
    text = fmt::format("{} {}", *text, *period);
  }
  if (!text) return false;
  std::istringstream in(*text);
  double quota_us = 0, period_us = 0;
  if (!(in >> quota_us >> period_us) || quota_us <= 0 || period_us <= 0) return true;
  quota_ns_ = quota_us * 1000;
  period_ns_ = period_us * 1000;
  return true;
}

bool CgroupQuota::FindLimits() {
  if (service_) {
    if (auto group = service_->FindAnew()) {
      group_ = std::move(*group);
      if (!OpenFiles()) group_.clear();
    }
    if (group_.empty()) return false;
  }
  if (open_ && ReadLimits()) return true;
  open_ = false;
  return OpenFiles() && ReadLimits();
}

std::optional<QuotaReading> CgroupQuota::Read(std::chrono::nanoseconds now) {
  if (!limits_read_ || now - *limits_read_ >= kLimitsAgain) {
    limits_read_ = now;
    const double before_ns = quota_ns_;
    if (!FindLimits()) quota_ns_ = 0;
    if (quota_ns_ != before_ns && quota_ns_ > 0)
      spdlog::info("cgroup {}: {:g} ms of CPU time in each {:g} ms", group_, quota_ns_ / 1e6,
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
  const auto periods = counts ? NumberIn(*counts, "nr_periods") : std::nullopt;
  if (!periods) return std::nullopt;
  reading.periods = *periods;
  return reading;
}

}  // namespace spillway::agent
