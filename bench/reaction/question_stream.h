// SPDX-License-Identifier: Apache-2.0
// Questions at an even pace, whatever becomes of them: a thread of its own in the client's namespace. Start
// and Stop from one other thread.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/error.h"
#include "bench/reaction/asker.h"
#include "bench/reaction/outcome.h"

namespace spillway::bench {

Moment Now();

class QuestionStream {
 public:
  // At most 65,536 questions in all: DNS has 16-bit ids.
  QuestionStream(std::string netns, std::unique_ptr<Asker> asker, uint32_t per_second);
  ~QuestionStream();
  QuestionStream(const QuestionStream&) = delete;
  QuestionStream& operator=(const QuestionStream&) = delete;

  // Asks no more, waits for late answers, and reports.
  [[nodiscard]] Result<std::vector<Question>> Stop();

 private:
  Result<void> Loop();

  const std::string netns_;
  const std::unique_ptr<Asker> asker_;  // the thread's
  const Moment gap_;
  std::atomic<bool> stop_ = false;
  std::vector<Question> questions_;  // the thread's until it is joined
  Result<void> ended_;               // likewise
  std::thread thread_;
};

}  // namespace spillway::bench
