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
#include <fstream>
#include <sstream>
#include <string_view>

#include "base/file.h"
#include "base/print.h"

namespace spillway::agent {

namespace {

namespace fs = std::filesystem;

// States. Who is connected, be it over UDP, is a client, or is served.
constexpr std::string_view kListening = "0A", kUnconnected = "07";

// Of a line of /proc/net/tcp: "sl local remote state queues timer retransmits uid timeout inode ...".
struct Socket {
  uint16_t port = 0;
  bool loopback = false;  // no other machine's requests come there
  std::string state;
  uint64_t inode = 0;
};

std::optional<Socket> ReadSocket(const std::string& line) {
  std::istringstream words(line);
  std::string number, local, remote, skipped;
  Socket socket;
  words >> number >> local >> remote >> socket.state;
  for (int i = 0; i < 5; i++) words >> skipped;
  const size_t colon = local.rfind(':');
  if (!(words >> socket.inode) || colon == std::string::npos) return std::nullopt;
  const char* end = local.data() + local.size();
  if (std::from_chars(local.data() + colon + 1, end, socket.port, 16).ptr != end) return std::nullopt;
  // Words of 32 bits in the machine's own order.
  const std::string address = local.substr(0, colon);
  const std::string_view last = __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? "01000000" : "00000001";
  socket.loopback = address.size() == 8
                        ? address.substr(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__ ? 6 : 0, 2) == "7F"
                        : address == std::string(24, '0').append(last);
  return socket;
}

// Of /proc/PID/cgroup: "NUMBER:CONTROLLERS:PATH", v2 as "0::PATH".
std::optional<std::string> GroupIn(const fs::path& file) {
  std::ifstream in(file);
  std::optional<std::string> cpu, v2;
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string path = line.substr(second + 1);
    std::istringstream controllers(line.substr(first + 1, second - first - 1));
    if (second == first + 1) v2 = path;
    for (std::string controller; std::getline(controllers, controller, ',');) {
      if (controller == "cpuacct") return path;
      if (controller == "cpu") cpu = path;
    }
  }
  return cpu ? cpu : v2;
}

bool Holds(const fs::path& process, const std::set<std::string>& sockets) {
  std::error_code error;
  for (auto fd = fs::directory_iterator(process / "fd", error); !error && fd != fs::directory_iterator();
       fd.increment(error)) {
    std::error_code gone;
    if (sockets.contains(fs::read_symlink(fd->path(), gone).string())) return true;
  }
  return false;
}

bool IsNumber(const std::string& text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace

std::set<uint64_t> ServiceCgroup::BoundSockets() const {
  std::set<uint64_t> inodes;
  for (const char* table : {"tcp", "tcp6", "udp", "udp6"}) {
    const bool tcp = table[0] == 't';
    // TCP's tables have every connection in them.
    if (std::none_of(services_.begin(), services_.end(), [&](const ServicePort& s) { return s.tcp == tcp; }))
      continue;
    std::ifstream in(fmt::format("{}/net/{}", proc_, table));
    for (std::string line; std::getline(in, line);) {
      const auto socket = ReadSocket(line);
      if (!socket || socket->loopback || socket->state != (tcp ? kListening : kUnconnected)) continue;
      for (const ServicePort& service : services_)
        if (service.tcp == tcp && service.port == socket->port) inodes.insert(socket->inode);
    }
  }
  return inodes;
}

std::optional<std::string> ServiceCgroup::Find() const {
  std::set<std::string> links;
  for (const uint64_t inode : BoundSockets()) links.insert(fmt::format("socket:[{}]", inode));
  if (links.empty()) return std::nullopt;
  std::set<std::string> groups;
  std::optional<std::string> first;  // process 1's: it may keep sockets for those that it starts
  std::error_code error;
  for (auto entry = fs::directory_iterator(proc_, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    const std::string name = entry->path().filename();
    if (!IsNumber(name) || !Holds(entry->path(), links)) continue;
    auto group = GroupIn(entry->path() / "cgroup");
    if (!group) continue;
    if (name == "1")
      first = std::move(group);
    else
      groups.insert(std::move(*group));
  }
  if (groups.empty() && first && *first != "/init.scope" && *first != "/") groups.insert(*first);
  if (groups.size() > 1) {
    spdlog::warn(
        "processes of {} control groups have sockets of the services, {} and {} among them: no quota is read",
        groups.size(), base::Printable(*groups.begin()), base::Printable(*groups.rbegin()));
    return std::nullopt;
  }
  if (groups.empty()) return std::nullopt;
  if (groups.begin()->starts_with("/..")) {
    spdlog::warn("the server's control group {} is outside of the agent's cgroup namespace: no quota is read",
                 base::Printable(*groups.begin()));
    return std::nullopt;
  }
  return *groups.begin();
}

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
