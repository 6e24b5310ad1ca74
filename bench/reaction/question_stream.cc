// SPDX-License-Identifier: Apache-2.0
#include "bench/reaction/question_stream.h"

#include <poll.h>
#include <time.h>

#include <algorithm>

#include "lab/testbed/netns.h"

namespace spillway::bench {
namespace {

constexpr size_t kMaxQuestions = 65'536;

}  // namespace

Moment Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::chrono::seconds(now.tv_sec) + std::chrono::nanoseconds(now.tv_nsec);
}

QuestionStream::QuestionStream(std::string netns, std::unique_ptr<Asker> asker, uint32_t per_second)
    : netns_(std::move(netns)), asker_(std::move(asker)), gap_(1'000'000'000 / per_second) {
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
  if (auto opened = asker_->Open(); !opened) return opened;
  questions_.reserve(kMaxQuestions);
  const auto on_answer = [this](size_t id, bool good) {
    if (id >= questions_.size() || questions_[id].answered.count() != 0) return;
    questions_[id].answered = Now();
    questions_[id].error = !good;
  };

  Moment next = Now(), last{0};
  size_t oldest = 0;  // all before it are answered or given up
  for (;;) {
    const bool asking = !stop_ && questions_.size() < kMaxQuestions;
    const Moment now = Now();
    if (asking && now >= next) {
      questions_.push_back({now, Moment{0}, false});
      asker_->Ask(questions_.size() - 1);
      last = now;
      next = std::max(next + gap_, now - 20 * gap_);  // late by more: skipped, not made up
    }
    for (; oldest < questions_.size() && now - questions_[oldest].sent > kPatience; oldest++)
      asker_->GiveUp(oldest);
    if (!asking && now - last > kPatience) break;
    const Moment wait = asking ? std::max(next - now, Moment{0}) : Moment(std::chrono::milliseconds(10));
    const timespec timeout{0, wait.count()};
    pollfd readable{asker_->fd(), POLLIN, 0};
    if (ppoll(&readable, 1, &timeout, nullptr) > 0) asker_->Read(on_answer);
  }
  return {};
}

}  // namespace spillway::bench
