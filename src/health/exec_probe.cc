// SPDX-License-Identifier: Apache-2.0
// Checks by a command.
#include "probe_kinds.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "launch.h"

extern char** environ;

namespace spillway::health {
namespace {

class ExecProbe : public Probe, private EventHandler {
 public:
  ExecProbe(const Subject& subject, const model::HealthCheck& check, Reactor& reactor,
            std::function<void(Outcome)> finish)
      : Probe(std::move(finish)),
        reactor_(reactor),
        argv_(check.command),
        exit_status_(check.exit_status),
        environment_{"SPILLWAY_SERVICE=" + subject.service,
                     "SPILLWAY_POOL=" + subject.pool,
                     "SPILLWAY_SERVER=" + subject.server,
                     "SPILLWAY_UNIT=" + subject.unit,
                     "SPILLWAY_ADDRESS=" + subject.address.ToString(),
                     fmt::format("SPILLWAY_PORT={}", check.port)} {
    for (char** entry = environ; *entry != nullptr; entry++) environment_.emplace_back(*entry);
  }
  ~ExecProbe() override {
    if (launch_) reactor_.Forget(launch_->fd());
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    waitpid(pid_, nullptr, WNOHANG);
    Unwatch();
  }

  void Start() override {
    if (!settled()) {
      Kill();
      // What outlives SIGKILL waits for something of this host.
      return Skip(launch_ || is_late_ ? kNotStarted : "the command that was killed has not exited yet");
    }
    auto launch = Launch::Begin(argv_, environment_);
    if (!launch) return Skip(launch.error().message);
    if (const int error = reactor_.Add((*launch)->fd(), EPOLLIN, this); error != 0)
      return Skip(fmt::format("epoll_ctl: {}", std::strerror(error)));
    launch_ = std::move(*launch);
    running_ = true;
  }

  // The group is killed; that it has ended is seen later.
  Outcome Stop() override {
    running_ = false;
    Kill();
    if (launch_) return {Outcome::Kind::kSkipped, kNotStarted};
    return {Outcome::Kind::kFailed, "command did not finish"};
  }

  bool settled() override {
    if (pid_ > 0 && pidfd_ < 0) Reap();
    return !launch_ && pid_ == 0;
  }

 private:
  static constexpr const char* kNotStarted = "the command's program could not be read";

  void OnEvents(int fd, uint32_t) override {
    if (launch_ && fd == launch_->fd())
      OnLaunched();
    else
      OnEnd();
  }

  void OnLaunched() {
    reactor_.Forget(launch_->fd());
    const Launch::Ended launched = launch_->Take();
    launch_.reset();
    if (launched.error != 0) {
      if (std::exchange(running_, false))
        Skip(fmt::format("{}: {}", argv_[0], std::strerror(launched.error)));
      return;
    }
    pid_ = launched.pid;
    pidfd_ = launched.pidfd;
    is_late_ = !running_;
    if (is_late_) Kill();
    const int error = reactor_.Add(pidfd_, EPOLLIN, this);
    if (error == 0) return;
    close(std::exchange(pidfd_, -1));
    Kill();
    if (std::exchange(running_, false)) Skip(fmt::format("epoll_ctl: {}", std::strerror(error)));
  }

  void OnEnd() {
    siginfo_t info{};
    if (waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
      // Where SIGCHLD is ignored the kernel reaps: how it ended is lost, and its number may be another's now.
      if (errno != ECHILD) return;
      Forgo();
      if (std::exchange(running_, false)) Skip("waitid: the command's exit status was lost");
      return;
    }
    if (info.si_pid == 0) return;
    // What it left running goes as well. The leader, not reaped yet, still holds the group's number.
    kill(-pid_, SIGKILL);
    Reap();
    if (!std::exchange(running_, false)) return;
    if (info.si_code != CLD_EXITED)
      return Fail(fmt::format("the command was killed by signal {}", info.si_status));
    if (info.si_status == exit_status_) return Pass();
    Fail(fmt::format("exit status {}", info.si_status));
  }

  void Kill() {
    if (launch_) launch_->GiveUp();
    if (pid_ > 0) kill(-pid_, SIGKILL);
  }

  // If it has ended.
  void Reap() {
    const pid_t reaped = waitpid(pid_, nullptr, WNOHANG);
    if (reaped == pid_ || (reaped < 0 && errno == ECHILD)) Forgo();
  }
  void Forgo() {
    pid_ = 0;
    Unwatch();
  }
  void Unwatch() {
    if (pidfd_ < 0) return;
    reactor_.Forget(pidfd_);
    close(std::exchange(pidfd_, -1));
  }

  Reactor& reactor_;
  const std::vector<std::string> argv_;
  const int exit_status_;
  std::vector<std::string> environment_;
  std::unique_ptr<Launch> launch_;  // until the program runs
  pid_t pid_ = 0;                   // from then until it is reaped
  int pidfd_ = -1;                  // of pid_; -1: could not be watched
  bool is_late_ = false;            // its time was over before it ran
  bool running_ = false;            // a check, whose end is awaited
};

}  // namespace

std::unique_ptr<Probe> MakeExecProbe(const Subject& subject, const model::HealthCheck& check,
                                     Reactor& reactor, std::function<void(Outcome)> finish) {
  return std::make_unique<ExecProbe>(subject, check, reactor, std::move(finish));
}

}  // namespace spillway::health
