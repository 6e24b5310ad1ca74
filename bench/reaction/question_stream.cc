// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/question_stream.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "lab/testbed/netns.h"

namespace spillway::bench {
namespace {

constexpr size_t kMaxQuestions = 65'536;

Moment Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

// "h1.example.org A", without its id.
constexpr char kQuery[] =
    "\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00\x02h1\x07"
    "example\x03org\x00\x00\x01\x00\x01";

}  // namespace

QuestionStream::QuestionStream(std::string netns, const model::Address& to, uint32_t per_second)
    : netns_(std::move(netns)), to_(to), gap_(1'000'000'000 / per_second) {
  thread_ = std::thread([this] { ended_ = lab::Inside(netns_, [this] { return Loop(); }); });
}

QuestionStream::~QuestionStream() {
  stop_ = true;
  if (thread_.joinable()) thread_.join();
}

Result<std::vector<Question>> QuestionStream::Stop() {
  stop_ = true;
  thread_.join();
  if (!ended_) return tl::make_unexpected(ended_.error());
  return questions_;
}

Result<void> QuestionStream::Loop() {
  sockaddr_in v4{};
  sockaddr_in6 v6{};
  v4.sin_family = AF_INET;
  v6.sin6_family = AF_INET6;
  v4.sin_port = v6.sin6_port = htons(53);
  memcpy(&v4.sin_addr, to_.bytes.data(), 4);
  memcpy(&v6.sin6_addr, to_.bytes.data(), 16);
  const bool is_v4 = to_.family == 4;
  // Not connected: a refused question is no error of the next one's.
  const int fd = socket(is_v4 ? AF_INET : AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", strerror(errno)));
  const auto* to = is_v4 ? reinterpret_cast<sockaddr*>(&v4) : reinterpret_cast<sockaddr*>(&v6);
  const socklen_t to_length = is_v4 ? sizeof(v4) : sizeof(v6);
  uint8_t query[1 + sizeof(kQuery)], answer[2048];
  memcpy(query + 2, kQuery, sizeof(kQuery) - 1);
  questions_.reserve(kMaxQuestions);

  Moment next = Now(), last{0};
  for (;;) {
    const bool asking = !stop_ && questions_.size() < kMaxQuestions;
    const Moment now = Now();
    if (asking && now >= next) {
      query[0] = static_cast<uint8_t>(questions_.size() >> 8);
      query[1] = static_cast<uint8_t>(questions_.size());
      questions_.push_back({now, Moment{0}});
      (void)sendto(fd, query, 1 + sizeof(kQuery), 0, to, to_length);
      last = now;
      next = std::max(next + gap_, now - 20 * gap_);  // late by more: skipped, not made up
    }
    if (!asking && now - last > kPatience) break;
    const Moment wait = asking ? std::max(next - now, Moment{0}) : Moment(std::chrono::milliseconds(10));
    const timespec timeout{0, wait.count()};
    pollfd readable{fd, POLLIN, 0};
    if (ppoll(&readable, 1, &timeout, nullptr) <= 0) continue;
    for (ssize_t bytes; (bytes = recv(fd, answer, sizeof(answer), 0)) > 0;) {
      const size_t id = static_cast<size_t>(answer[0] << 8 | answer[1]);
      if (bytes > 12 && id < questions_.size() && questions_[id].answered.count() == 0)
        questions_[id].answered = Now();
    }
  }
  close(fd);
  return {};
}

}  // namespace spillway::bench
