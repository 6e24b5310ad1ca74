// SPDX-License-Identifier: Apache-2.0
#include "exec_probe.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <vector>

extern char** environ;

namespace spillway::health {
namespace {

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

// In a group of its own, without our signals' masks, with no descriptor but three of /dev/null.
int Spawn(std::vector<std::string> argv, std::vector<std::string> environment, pid_t* pid) {
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDWR, 0);
  posix_spawn_file_actions_adddup2(&files, 0, 1);
  posix_spawn_file_actions_adddup2(&files, 0, 2);
  posix_spawn_file_actions_addclosefrom_np(&files, 3);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none, all;
  sigemptyset(&none);
  sigfillset(&all);
  posix_spawnattr_setsigmask(&attributes, &none);
  posix_spawnattr_setsigdefault(&attributes, &all);
  posix_spawnattr_setpgroup(&attributes, 0);
  posix_spawnattr_setflags(&attributes,
                           POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
  for (char** entry = environ; *entry != nullptr; entry++) environment.emplace_back(*entry);
  const int error = posix_spawn(pid, argv[0].c_str(), &files, &attributes, Pointers(argv).data(),
                                Pointers(environment).data());
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&files);
  return error;
}

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
                     fmt::format("SPILLWAY_PORT={}", check.port)} {}
  ~ExecProbe() override {
    if (pid_ <= 0) return;
    kill(-pid_, SIGKILL);
    Reap(WNOHANG);
  }

  void Start() override {
    if (pid_ > 0) return Fail("the command that was killed has not ended yet");
    if (const int error = Spawn(argv_, environment_, &pid_); error != 0) {
      pid_ = 0;
      const std::string reason = fmt::format("{}: {}", argv_[0], std::strerror(error));
      return error == EAGAIN || error == ENOMEM ? Skip(reason) : Fail(reason);
    }
    running_ = true;
    pidfd_ = static_cast<int>(syscall(SYS_pidfd_open, pid_, 0));
    if (pidfd_ >= 0) (void)fcntl(pidfd_, F_SETFD, FD_CLOEXEC);
    if (pidfd_ < 0 || reactor_.Add(pidfd_, EPOLLIN, this) != 0) {
      const std::string reason = fmt::format("pidfd_open: {}", std::strerror(errno));
      kill(-pid_, SIGKILL);
      Reap(0);
      running_ = false;
      Skip(reason);
    }
  }

  // The group is killed; that it has ended is seen later.
  std::string Stop() override {
    running_ = false;
    kill(-pid_, SIGKILL);
    return "no end of the command";
  }

  bool settled() const override { return pid_ == 0; }

 private:
  void OnEvents(int, uint32_t) override {
    // What it left running goes as well. The leader, not reaped yet, still holds the group's number.
    kill(-pid_, SIGKILL);
    const int status = Reap(WNOHANG);
    if (!std::exchange(running_, false)) return;
    if (WIFSIGNALED(status)) return Fail(fmt::format("the command ended by signal {}", WTERMSIG(status)));
    if (WEXITSTATUS(status) == exit_status_) return Pass();
    Fail(fmt::format("exit status {}", WEXITSTATUS(status)));
  }

  int Reap(int options) {
    int status = 0;
    while (waitpid(pid_, &status, options) < 0 && errno == EINTR) {
    }
    pid_ = 0;
    if (pidfd_ >= 0) {
      reactor_.Forget(pidfd_);
      close(pidfd_);
    }
    pidfd_ = -1;
    return status;
  }

  Reactor& reactor_;
  const std::vector<std::string> argv_;
  const int exit_status_;
  const std::vector<std::string> environment_;
  pid_t pid_ = 0;  // until it is reaped
  int pidfd_ = -1;
  bool running_ = false;  // and its end is awaited
};

}  // namespace

std::unique_ptr<Probe> MakeExecProbe(const Subject& subject, const model::HealthCheck& check,
                                     Reactor& reactor, std::function<void(Outcome)> finish) {
  return std::make_unique<ExecProbe>(subject, check, reactor, std::move(finish));
}

}  // namespace spillway::health
