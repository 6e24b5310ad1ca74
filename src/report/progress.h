// SPDX-License-Identifier: Apache-2.0
// A long run's progress on stderr: one line redrawn in place on a terminal, a plain line now and then
// otherwise (a log file, CI). Update, Tick and Finish may be called from any thread.
#pragma once

#include <chrono>
#include <functional>
#include <string>
#include <string_view>

#include "base/mutex.h"

namespace spillway::report {

// "label  42% [#####.......] 0:31 elapsed, 0:43 left  message", cut to `width` columns (0: uncut).
// fraction in [0, 1]; time left is linear extrapolation, and left out where there is nothing to go by and
// where it is `over`.
[[nodiscard]] std::string ProgressLine(std::string_view label, double fraction, std::chrono::seconds elapsed,
                                       std::string_view message, int width, bool over = false);

// Silent start of commands that mostly end soon.
inline constexpr std::chrono::seconds kQuietStart{2};

class Progress {
 public:
  struct Terminal {
    std::function<void(std::string_view)> write;
    std::function<std::chrono::nanoseconds()> now;  // monotonic, since any epoch
    bool live = false;                              // redraw in place
    int width = 0;                                  // columns; 0: do not cut
    std::chrono::nanoseconds plain_period = std::chrono::seconds(10);
    std::chrono::nanoseconds silent_for{0};  // nothing is drawn before
  };

  // On this process's stderr, live when that is a terminal. silent_for: of what ends sooner, nothing is
  // shown.
  explicit Progress(std::string label, std::chrono::nanoseconds silent_for = {});
  Progress(std::string label, Terminal terminal);
  ~Progress();  // ends a live line that was never finished, so that what follows starts on its own line
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // A new state. The bar never goes back: where there turns out to be more work, it waits. Drawn at most ten
  // times a second when live, else once per plain_period; a changed message is drawn at once in both.
  void Update(double fraction, std::string_view message);
  // The same state at a later time, for loops that only wait.
  void Tick();
  // Draws the last line with the total time and ends it; later calls do nothing.
  void Finish(std::string_view message);
  // The same of what ended early: it shows how far it came.
  void Stop(std::string_view message);
  // Takes a live line away, lets `print` write to the terminal, and draws the line again.
  void Around(const std::function<void()>& print);

 private:
  void Draw(bool at_once) SPILLWAY_REQUIRES(mutex_);
  void End(double fraction, std::string_view message) SPILLWAY_REQUIRES(mutex_);

  base::Mutex mutex_;
  const std::string label_;
  const Terminal terminal_;
  const std::chrono::nanoseconds started_;
  std::chrono::nanoseconds drawn_at_ SPILLWAY_GUARDED_BY(mutex_){};
  bool drawn_ SPILLWAY_GUARDED_BY(mutex_) = false;    // something was written
  bool on_line_ SPILLWAY_GUARDED_BY(mutex_) = false;  // the cursor stands behind a live line
  bool over_ SPILLWAY_GUARDED_BY(mutex_) = false;     // what is drawn is the last line
  bool finished_ SPILLWAY_GUARDED_BY(mutex_) = false;
  double fraction_ SPILLWAY_GUARDED_BY(mutex_) = 0;
  std::string message_ SPILLWAY_GUARDED_BY(mutex_);
};

}  // namespace spillway::report
