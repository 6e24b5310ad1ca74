// SPDX-License-Identifier: Apache-2.0
#include "progress.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <utility>

#include "base/print.h"

namespace spillway::report {

namespace {

constexpr int kBarCells = 20;
constexpr std::chrono::milliseconds kRedrawPeriod{100};
// Below this the extrapolation is mostly noise.
constexpr double kLeastFractionForEta = 0.02;

std::string Clock(std::chrono::seconds time) {
  const long long s = std::max<long long>(time.count(), 0);
  if (s >= 3600) return fmt::format("{}:{:02}:{:02}", s / 3600, s / 60 % 60, s % 60);
  return fmt::format("{}:{:02}", s / 60, s % 60);
}

// The first `width` code points.
std::string Cut(std::string text, int width) {
  if (width <= 0) return text;
  int points = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((text[i] & 0xC0) == 0x80) continue;
    if (++points > width) {
      text.resize(i);
      break;
    }
  }
  return text;
}

Progress::Terminal Stderr(std::chrono::nanoseconds silent_for) {
  Progress::Terminal terminal;
  terminal.silent_for = silent_for;
  terminal.write = [](std::string_view text) {
    while (!text.empty()) {
      const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
      if (n <= 0) return;  // progress is not worth failing for
      text.remove_prefix(static_cast<std::size_t>(n));
    }
  };
  terminal.now = [] { return std::chrono::steady_clock::now().time_since_epoch(); };
  const char* kind = std::getenv("TERM");
  terminal.live = ::isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view(kind) != "dumb";
  winsize size{};
  if (terminal.live && ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1)
    terminal.width = size.ws_col - 1;  // a line that fills the last column wraps on some terminals
  return terminal;
}

}  // namespace

std::string ProgressLine(std::string_view label, double fraction, std::chrono::seconds elapsed,
                         std::string_view message, int width, bool over) {
  fraction = std::clamp(fraction, 0.0, 1.0);
  const int full = static_cast<int>(fraction * kBarCells);
  std::string line =
      fmt::format("{} {:3.0f}% [{}{}] {} elapsed", label, fraction * 100,
                  std::string(static_cast<std::size_t>(full), '#'),
                  std::string(static_cast<std::size_t>(kBarCells - full), '.'), Clock(elapsed));
  if (fraction >= kLeastFractionForEta && fraction < 1 && !over) {
    const double left = static_cast<double>(elapsed.count()) * (1 - fraction) / fraction;
    line += fmt::format(", {} left", Clock(std::chrono::seconds(static_cast<long long>(left + 0.5))));
  }
  if (!message.empty()) line += fmt::format("  {}", message);
  return Cut(std::move(line), width);
}

Progress::Progress(std::string label, std::chrono::nanoseconds silent_for)
    : Progress(std::move(label), Stderr(silent_for)) {}

Progress::Progress(std::string label, Terminal terminal)
    : label_(base::Printable(label)), terminal_(std::move(terminal)), started_(terminal_.now()) {}

Progress::~Progress() {
  if (on_line_) terminal_.write("\n");
}

void Progress::Update(double fraction, std::string_view message) {
  const base::MutexLock lock(mutex_);
  const bool changed = message != message_;
  fraction_ = std::max(fraction_, fraction);
  message_ = message;
  Draw(changed);
}

void Progress::Tick() {
  const base::MutexLock lock(mutex_);
  Draw(false);
}

void Progress::Finish(std::string_view message) {
  const base::MutexLock lock(mutex_);
  End(1, message);
}

void Progress::Stop(std::string_view message) {
  const base::MutexLock lock(mutex_);
  End(fraction_, message);
}

void Progress::End(double fraction, std::string_view message) {
  if (finished_) return;
  fraction_ = fraction;
  message_ = message;
  over_ = true;
  Draw(true);
  if (on_line_) terminal_.write("\n");
  on_line_ = false;
  finished_ = true;
}

void Progress::Around(const std::function<void()>& print) {
  const base::MutexLock lock(mutex_);
  const bool redraw = on_line_;
  if (redraw) terminal_.write("\r\033[K");
  on_line_ = false;
  print();
  if (redraw) Draw(true);
}

void Progress::Draw(bool at_once) {
  if (finished_) return;
  const std::chrono::nanoseconds now = terminal_.now();
  if (now - started_ < terminal_.silent_for) return;
  const std::chrono::nanoseconds period = terminal_.live ? kRedrawPeriod : terminal_.plain_period;
  if (drawn_ && !at_once && now - drawn_at_ < period) return;
  const auto elapsed = std::chrono::duration_cast<std::chrono::seconds>(now - started_);
  const std::string line = ProgressLine(label_, fraction_, elapsed, message_, terminal_.width, over_);
  terminal_.write(terminal_.live ? "\r" + line + "\033[K" : line + "\n");
  drawn_ = true;
  on_line_ = terminal_.live;
  drawn_at_ = now;
}

}  // namespace spillway::report
