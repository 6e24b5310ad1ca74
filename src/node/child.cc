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

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "base/machine_boot.h"
#include "base/system_error.h"

namespace spillway::node {
namespace {

struct Stat {
  int session = 0;
  uint64_t start = 0;  // 0: there is none
};

// Fields 6 and 22 of /proc/PID/stat, which stand behind the name's last parenthesis.
Stat StatOf(int pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');
  if (name_end == std::string::npos) return {};
  std::istringstream rest(line.substr(name_end + 1));
  std::vector<std::string> words;
  for (std::string word; words.size() < 20 && rest >> word;) words.push_back(word);
  if (words.size() < 20) return {};
  return {std::atoi(words[3].c_str()), std::strtoull(words[19].c_str(), nullptr, 10)};
}

uint64_t StartOf(int pid) { return StatOf(pid).start; }

base::Fd HandleOf(int pid) { return base::Fd(static_cast<int>(syscall(SYS_pidfd_open, pid, 0))); }

// In the child: nothing but system calls.
[[noreturn]] void Become(char* const* words, char* const* environment, int log, int go) {
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  signal(SIGPIPE, SIG_DFL);  // the agent ignores it
  setsid();                  // Ctrl-C is the agent's; and what it begins is known by its session
  char byte = 0;
  ssize_t got = 0;
  do got = read(go, &byte, 1);
  while (got < 0 && errno == EINTR);
  if (got != 1) _exit(126);  // whoever was to remember this one is gone
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execve(words[0], words, environment);
  for (const char* part :
       {const_cast<const char*>(words[0]), ": cannot be executed: ", strerrordesc_np(errno), "\n"})
    (void)!write(STDERR_FILENO, part, strlen(part));
  _exit(127);
}

// As exec wants them, for as long as `texts` are.
std::vector<char*> Pointers(const std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (const std::string& text : texts) pointers.push_back(const_cast<char*>(text.c_str()));
  pointers.push_back(nullptr);
  return pointers;
}

// This program's, but for the names that `own` has.
std::vector<std::string> EnvironmentWith(const std::vector<std::string>& own) {
  std::vector<std::string> all = own;
  for (char** at = environ; *at != nullptr; ++at) {
    const std::string_view inherited(*at);
    const std::string_view name = inherited.substr(0, inherited.find('=') + 1);
    const auto is_that = [&](const std::string& one) { return one.starts_with(name); };
    if (std::none_of(own.begin(), own.end(), is_that)) all.emplace_back(inherited);
  }
  return all;
}

}  // namespace

Result<Child> Child::Start(const Command& command,
                           const std::function<Result<void>(const ProcessId&)>& remember) {
  int go[2];
  if (pipe2(go, O_CLOEXEC) != 0) return FailSystem("pipe");
  const base::Fd reader(go[0]), writer(go[1]);
  const base::Fd output(open(command.log.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!output) return FailSystem("open " + command.log);
  const std::vector<std::string> variables = EnvironmentWith(command.environment);
  const std::vector<char*> arguments = Pointers(command.words), environment = Pointers(variables);
  const int pid = fork();
  if (pid < 0) return FailSystem("fork");
  if (pid == 0) {
    close(writer.get());  // else it would wait for itself
    Become(arguments.data(), environment.data(), output.get(), reader.get());
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
  return Fail(ready.error().code, fmt::format("start {}: {}", command.words[0], ready.error().message));
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

std::vector<Child> Child::Marked(const std::string& variable, int session) {
  const std::string entry = '\0' + variable + '\0';
  std::vector<Child> marked;
  size_t leaders = 0;
  std::error_code failed;
  // While that runs it is no session that was left behind: the number is another's by now.
  if (session != 0 && std::filesystem::exists(fmt::format("/proc/{}", session), failed)) session = 0;
  for (std::filesystem::directory_iterator at("/proc", failed), last; !failed && at != last;
       at.increment(failed)) {
    const std::string name = at->path().filename();
    int pid = 0;
    if (std::from_chars(name.data(), name.data() + name.size(), pid).ec != std::errc()) continue;
    struct stat status {};
    if (stat(at->path().c_str(), &status) != 0 || (geteuid() != 0 && status.st_uid != geteuid())) continue;
    // Before it is read: if that one still lives afterwards, it was read of that one.
    base::Fd handle = HandleOf(pid);
    if (!handle) continue;
    const Stat stat = StatOf(pid);
    std::ifstream file(at->path() / "environ", std::ios::binary);
    const std::string environment = '\0' + std::string{std::istreambuf_iterator<char>(file), {}};
    if (environment.find(entry) == std::string::npos && (session == 0 || stat.session != session)) continue;
    Child child({pid, stat.start, base::BootId()}, std::move(handle), false);
    if (child.Ended()) continue;
    const bool is_leader = stat.session == pid;
    marked.insert(is_leader ? marked.begin() + static_cast<long>(leaders) : marked.end(), std::move(child));
    leaders += is_leader;
  }
  return marked;
}

size_t Child::KillMarked(const std::string& variable, int session) {
  const std::vector<Child> there = Marked(variable, session);
  for (const Child& one : there) one.Signal(SIGKILL);
  const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  for (const Child& one : there) {
    const auto left = until - std::chrono::steady_clock::now();
    pollfd gone{one.fd(), POLLIN, 0};
    poll(&gone, 1, static_cast<int>(std::max<int64_t>(left / std::chrono::milliseconds(1), 0)));
  }
  // What these began meanwhile, and who hangs in the kernel.
  return there.empty() ? 0 : Marked(variable, session).size();
}

std::optional<std::string> Child::Ended() {
  pollfd wait{handle_.get(), POLLIN, 0};
  if (poll(&wait, 1, 0) == 0) return std::nullopt;
  if (!is_ours_) return "it exited";
  int status = 0;
  if (waitpid(id_.pid, &status, WNOHANG) != id_.pid) return "it exited";
  if (WIFSIGNALED(status)) return fmt::format("signal {}", WTERMSIG(status));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

void Child::Signal(int number) const { syscall(SYS_pidfd_send_signal, handle_.get(), number, nullptr, 0); }

}  // namespace spillway::node
