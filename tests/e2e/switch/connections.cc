// SPDX-License-Identifier: Apache-2.0
#include "connections.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <regex>
#include <string_view>

#include "health/probe_kinds.h"
#include "lab/testbed/netns.h"

namespace spillway::e2e {
namespace {

// "h1.example.org A", behind its length.
constexpr char kQuery[] =
    "\x00\x20\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02h1\x07"
    "example\x03org\x00\x00\x01\x00\x01";
constexpr std::string_view kDnsQuestion(kQuery, sizeof(kQuery) - 1);
constexpr std::string_view kHttpQuestion = "GET /unit HTTP/1.1\r\nHost: unit\r\n\r\n";

bool ReadsDnsAnswer(int fd) {
  uint8_t answer[4096];
  return recv(fd, answer, 2, MSG_WAITALL) == 2 &&
         recv(fd, answer, static_cast<size_t>(answer[0] << 8 | answer[1]), MSG_WAITALL) > 12;
}

bool ReadsHttpAnswer(int fd) {
  std::string answer;
  std::smatch length;
  for (;;) {
    char buffer[4096];
    const ssize_t got = recv(fd, buffer, sizeof(buffer), 0);
    if (got <= 0) return false;
    answer.append(buffer, static_cast<size_t>(got));
    const size_t end = answer.find("\r\n\r\n");
    if (end == answer.npos) continue;
    if (!std::regex_search(answer, length, std::regex("Content-Length: ([0-9]+)"))) return false;
    if (answer.size() >= end + 4 + std::stoul(length[1])) return answer.starts_with("HTTP/1.1 200");
  }
}

}  // namespace

Connections::Connections(const std::string& netns, const model::Address& vip, uint16_t port, size_t count)
    : vip_(vip), port_(port) {
  const auto opened = lab::Inside(netns, [&]() -> Result<void> {
    const health::SocketAddress to(vip, port);
    model::Address any;
    any.family = vip.family;
    for (uint16_t own = 600; connections_.size() < count && own < 1024; own++) {
      const int fd = socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
      connections_.push_back({fd, own});
      const timeval patience{.tv_sec = 5, .tv_usec = 0};
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
      // Closed by a reset: the same ports are free for the next test.
      const linger reset{.l_onoff = 1, .l_linger = 0};
      setsockopt(fd, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
      const health::SocketAddress from(any, own);
      if (bind(fd, from.get(), from.length) != 0 || connect(fd, to.get(), to.length) != 0)
        return Fail(ErrorCode::kSystem, fmt::format("connect from port {}: {}", own, strerror(errno)));
    }
    return {};
  });
  if (!opened) why_not_ = opened.error().message;
}

Connections::~Connections() {
  Stop();
  for (const Connection& connection : connections_) close(connection.fd);
}

bool Connections::AskOn(int fd) const {
  const std::string_view question = port_ == 53 ? kDnsQuestion : kHttpQuestion;
  if (send(fd, question.data(), question.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(question.size()))
    return false;
  return port_ == 53 ? ReadsDnsAnswer(fd) : ReadsHttpAnswer(fd);
}

size_t Connections::Ask() {
  std::erase_if(connections_, [this](const Connection& connection) {
    const bool answers = AskOn(connection.fd);
    if (!answers) close(connection.fd);
    return !answers;
  });
  return connections_.size();
}

size_t Connections::CloseThoseOf(const lab::ProcessId& server) {
  std::set<uint16_t> there;
  std::ifstream table(fmt::format("/proc/{}/net/{}", server.pid, vip_.family == 4 ? "tcp" : "tcp6"));
  const std::regex established(fmt::format(": [0-9A-F]+:{:04X} [0-9A-F]+:([0-9A-F]{{4}}) 01 ", port_));
  std::smatch found;
  for (std::string line; std::getline(table, line);)
    if (std::regex_search(line, found, established))
      there.insert(static_cast<uint16_t>(std::stoul(found[1], nullptr, 16)));
  return std::erase_if(connections_, [&](const Connection& connection) {
    if (!there.contains(connection.port)) return false;
    close(connection.fd);
    return true;
  });
}

void Connections::AskAllTheTime() {
  stop_ = false;
  thread_ = std::thread([this] {
    while (!stop_ && Ask() > 0) std::this_thread::sleep_for(std::chrono::milliseconds(10));  // the pace
  });
}

void Connections::Stop() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

}  // namespace spillway::e2e
