// SPDX-License-Identifier: Apache-2.0
#include "node/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/machine_boot.h"
#include "base/system_error.h"

namespace spillway::node {
namespace {

// Field 22 of /proc/PID/stat, which stands behind the name's last parenthesis; 0: there is none.
uint64_t StartOf(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream rest(line.substr(name_end + 1));
  std::string word;
  for (int field = 3; field < 22; field++) rest >> word;
  uint64_t start = 0;
  rest >> start;
  return start;
}

base::Fd HandleOf(int pid) { return base::Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

// In the child: nothing but system calls.
[[noreturn]] void Become(char* const* words, int log, int go) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  setsid();  // Ctrl-C is the agent's
  char byte = 0;
  ssize_t got = 0;
  do got = read(go, &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) _exit(126);  // whoever was to remember this one is gone
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(words[0], words);
  for (const char* part :
       {const_cast<const char*>(words[0]), ": cannot be executed: ", strerrordesc_np(errno), "\n"})
    (void)!write(STDERR_FILENO, part, strlen(part));
  _exit(127);
}

}  // namespace

Result<Child> Child::Start(const std::vector<std::string>& words, const std::string& log,
                           const std::function<Result<void>(const ProcessId&)>& remember) {
  int go[2];
  if (pipe2(go, O_CLOEXEC) != 0) return FailSystem("pipe");
  const base::Fd reader(go[0]), writer(go[1]);
  const base::Fd output(open(log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!output) return FailSystem("open " + log);
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const int pid = fork();
  if (pid < 0) return FailSystem("fork");
  if (pid == 0) {
    close(writer.get());  // else it would wait for itself
    Become(arguments.data(), output.get(), reader.get());
  }
  Child child({pid, StartOf(pid), base::BootId()}, HandleOf(pid), true);
  Result<void> ready = child.handle_ ? remember(child.id_) : FailSystem("pidfd_open");
  const char byte = 1;
  if (ready) {
    if (write(writer.get(), &byte, 1) == 1) return child;
    ready = FailSystem("write");
  }
  kill(pid, SIGKILL);
  waitpid(pid, nullptr, 0);
  return Fail(ready.error().code, fmt::format("begin {}: {}", words[0], ready.error().message));
}

std::optional<Child> Child::Find(const ProcessId& id) {
  if (id.pid <= 0 || id.boot != base::BootId()) return std::nullopt;
  base::Fd handle = HandleOf(id.pid);
  // Compared with the handle in hand: the number cannot become another's in between.
  if (!handle || StartOf(id.pid) != id.start) return std::nullopt;
  Child child(id, std::move(handle), false);
  if (child.Ended()) return std::nullopt;
  return child;
}

ProcessId Child::IdOf(const std::vector<std::string>& words) {
  std::string end(1, '\0');
  for (const std::string& word : words) end += word + '\0';
  std::error_code failed;
  for (std::filesystem::directory_iterator at("/proc", failed), last; !failed && at != last;
       at.increment(failed)) {
    const std::string name = at->path().filename();
    int pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    struct stat status {};
    if (stat(at->path().c_str(), &status) != 0 || status.st_uid != geteuid()) continue;
    std::ifstream file(at->path() / "cmdline", std::ios::binary);
    const std::string line{std::istreambuf_iterator<char>(file), {}};
    if (line.ends_with(end)) return {pid, StartOf(pid), base::BootId()};
  }
  return {};
}

std::optional<std::string> Child::Ended() {
  pollfd wait{handle_.get(), POLLIN, 0};
  if (poll(&wait, 1, 0) == 0) return std::nullopt;
  if (!is_ours_) return "it ended";
  int status = 0;
  if (waitpid(id_.pid, &status, WNOHANG) != id_.pid) return "it ended";
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

void Child::Signal(int number) const { syscall(SYS_pidfd_send_signal, handle_.get(), number, nullptr, 0); }

}  // namespace spillway::node
