// SPDX-License-Identifier: Apache-2.0
#include "launch.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/mutex.h"
#include "base/signals.h"

// glibc's own name of clone: the thread sanitizer takes what is called clone for a fork, after which it ends
// the program that starts a thread.
extern "C" int __clone(int (*run)(void*), void* stack, int flags, void* argument, ...) noexcept;

namespace spillway::health {
namespace {

// Many may hang at a time.
constexpr size_t kThreadStack = 256 << 10, kChildStack = 32 << 10;

std::vector<char*> Pointers(std::vector<std::string>& words) {
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  return pointers;
}

void Kill(pid_t pid) {
  kill(-pid, SIGKILL);
  kill(pid, SIGKILL);  // it may not have its group yet
}

// Its number stays its own until it is reaped.
void AwaitEnd(pid_t pid) {
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOWAIT) < 0 && errno == EINTR) {
  }
}

}  // namespace

struct Launch::Shared {
  Shared(std::vector<std::string> words, std::vector<std::string> variables, int event)
      : argv(std::move(words)), environment(std::move(variables)), done(event) {}
  ~Shared() {
    if (done >= 0) close(done);
  }

  std::vector<std::string> argv, environment;
  std::vector<char*> argv_pointers = Pointers(argv), environment_pointers = Pointers(environment);
  pid_t pid = 0;  // by the kernel, before the child runs; 0 again, under mutex, once it is reaped
  volatile int exec_error = 0;  // by the child

  base::Mutex mutex;
  int done SPILLWAY_GUARDED_BY(mutex);  // -1: nobody asks any more
  Ended ended SPILLWAY_GUARDED_BY(mutex);
};

Result<std::unique_ptr<Launch>> Launch::Begin(std::vector<std::string> argv,
                                              std::vector<std::string> environment) {
  const int done = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
  if (done < 0) return Fail(ErrorCode::kSystem, fmt::format("eventfd: {}", std::strerror(errno)));
  auto shared = std::make_shared<Shared>(std::move(argv), std::move(environment), done);
  auto* const handed = new std::shared_ptr<Shared>(shared);

  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kThreadStack);
  // The child shares this process's memory until it runs the program: no handler may run in it.
  pthread_t thread;
  const int error = [&] {
    const base::SignalsHeld held;
    return pthread_create(&thread, &attributes, &Launch::Thread, handed);
  }();
  pthread_attr_destroy(&attributes);
  if (error != 0) {
    delete handed;
    return Fail(ErrorCode::kSystem, fmt::format("pthread_create: {}", std::strerror(error)));
  }
  return std::unique_ptr<Launch>(new Launch(std::move(shared)));
}

void* Launch::Thread(void* argument) {
  const std::unique_ptr<std::shared_ptr<Shared>> handed(static_cast<std::shared_ptr<Shared>*>(argument));
  Shared& shared = **handed;
  alignas(64) char stack[kChildStack];
  Ended ended;
  // CLONE_VFORK: this thread sleeps until the child has run the program or has ended.
  ended.pid = __clone(&Launch::Child, stack + sizeof(stack),
                      CLONE_VM | CLONE_VFORK | CLONE_PARENT_SETTID | SIGCHLD, &shared, &shared.pid);
  if (ended.pid < 0)
    ended.error = errno;
  else if (shared.exec_error != 0)
    ended.error = shared.exec_error;

  base::MutexLock lock(shared.mutex);
  bool is_wanted = ended.error == 0 && shared.done >= 0;
  if (is_wanted) {  // else no descriptor is opened that nobody would expect any more
    ended.pidfd = static_cast<int>(syscall(SYS_pidfd_open, ended.pid, 0));
    if (ended.pidfd < 0)
      ended.error = errno;
    else
      (void)fcntl(ended.pidfd, F_SETFD, FD_CLOEXEC);
    is_wanted = ended.error == 0;
  }
  if (ended.pid > 0 && !is_wanted) {
    Kill(ended.pid);
    lock.Unlock();
    AwaitEnd(ended.pid);
    lock.Lock();
    waitpid(ended.pid, nullptr, 0);
    shared.pid = 0;
  }
  if (!is_wanted) ended.pid = 0;
  shared.ended = ended;
  const uint64_t one = 1;
  if (shared.done >= 0) (void)!write(shared.done, &one, sizeof(one));
  return nullptr;
}

// System calls alone: what libc keeps belongs to threads that run meanwhile.
int Launch::Child(void* argument) {
  auto& shared = *static_cast<Shared*>(argument);
  constexpr long kSignalSet = 8;  // bytes
  constexpr int kSignals = 64;
  const unsigned long no_action[8] = {}, no_signals[1] = {};
  syscall(SYS_setpgid, 0, 0);
  for (int signal = 1; signal <= kSignals; signal++)
    syscall(SYS_rt_sigaction, signal, no_action, nullptr, kSignalSet);
  // 0 first: its number is free then, however few descriptors this process may have.
  syscall(SYS_close_range, 3u, ~0u, 0u);
  syscall(SYS_close, 0);
  bool ready = syscall(SYS_openat, AT_FDCWD, "/dev/null", O_RDWR, 0) == 0;
  for (const int fd : {1, 2}) ready = ready && syscall(SYS_dup3, 0, fd, 0) == fd;
  syscall(SYS_rt_sigprocmask, SIG_SETMASK, no_signals, nullptr, kSignalSet);
  if (ready)
    syscall(SYS_execve, shared.argv_pointers[0], shared.argv_pointers.data(),
            shared.environment_pointers.data());
  shared.exec_error = errno;
  syscall(SYS_exit, 127);
  return 127;
}

Launch::~Launch() {
  GiveUp();
  const base::MutexLock lock(shared_->mutex);
  if (shared_->done < 0) return;  // taken
  close(std::exchange(shared_->done, -1));
  if (shared_->ended.pid <= 0) return;
  close(shared_->ended.pidfd);
  waitpid(shared_->ended.pid, nullptr, WNOHANG);
}

// Without the mutex: it is changed only on this thread, by Take, which clang cannot know.
int Launch::fd() const SPILLWAY_NO_THREAD_SAFETY_ANALYSIS { return shared_->done; }

void Launch::GiveUp() {
  const base::MutexLock lock(shared_->mutex);
  if (shared_->done < 0) return;  // taken
  if (const pid_t pid = __atomic_load_n(&shared_->pid, __ATOMIC_RELAXED); pid > 0) Kill(pid);
}

Launch::Ended Launch::Take() {
  const base::MutexLock lock(shared_->mutex);
  close(std::exchange(shared_->done, -1));
  return shared_->ended;
}

}  // namespace spillway::health
