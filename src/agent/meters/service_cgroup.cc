// SPDX-License-Identifier: Apache-2.0
#include "agent/meters/service_cgroup.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/printable.h"

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

}  // namespace spillway::agent
