// SPDX-License-Identifier: Apache-2.0
#include "process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include "base/file.h"
#include "base/signals.h"

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

// {state, start time} from /proc/PID/stat; the command name in it may hold spaces and parentheses.
std::pair<char, uint64_t> ReadStat(pid_t pid) {
  const std::string text = base::ReadFile(fmt::format("/proc/{}/stat", pid)).value_or("");
  const size_t end = text.rfind(')');
  if (end == std::string::npos) return {'?', 0};
  std::istringstream rest(text.substr(end + 1));
  char state = '?';
  rest >> state;
  std::string skip;
  for (int field = 4; field < 22; field++) rest >> skip;
  uint64_t start = 0;
  rest >> start;
  return {state, start};
}

// What happens in the child before exec. Async-signal-safe calls only, apart from the strings made ready.
[[noreturn]] void BecomeChild(const StartOptions& o, char* const* argv, int netns_fd, int out_fd, int err_fd,
                              int complain_fd, pid_t parent) {
  auto complain = [&](const char* what) {
    const int error = errno;
    [[maybe_unused]] ssize_t n = write(complain_fd, &error, sizeof(error));
    n = write(complain_fd, what, strlen(what));
    _exit(127);
  };
  setpgid(0, 0);  // Ctrl-C at the terminal is ours to pass on, in order
  if (o.tied) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
  }
  for (const std::string& procs : o.cgroup_procs) {
    const int fd = open(procs.c_str(), O_WRONLY | O_CLOEXEC);
    if (fd < 0 || write(fd, "0", 1) != 1) complain("join the control group");
    close(fd);
  }
  if (!o.cpus.empty()) {
    cpu_set_t set;
    CPU_ZERO(&set);
    for (int cpu : o.cpus) CPU_SET(static_cast<size_t>(cpu), &set);
    if (sched_setaffinity(0, sizeof(set), &set) != 0) complain("set the CPUs");
  }
  if (netns_fd >= 0 && setns(netns_fd, CLONE_NEWNET) != 0) complain("enter the namespace");
  dup2(out_fd, STDOUT_FILENO);
  dup2(err_fd, STDERR_FILENO);
  const int null = open("/dev/null", O_RDONLY);
  dup2(null, STDIN_FILENO);
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) ::signal(signal, SIG_DFL);
  execvp(argv[0], argv);
  complain("run it");
  _exit(127);
}

int OpenOutput(const std::string& path) {
  return open(path.empty() ? "/dev/null" : path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC | O_APPEND,
              0644);
}

}  // namespace

ProcessId Identify(pid_t pid) {
  const auto [state, start] = ReadStat(pid);
  return start == 0 ? ProcessId{} : ProcessId{pid, start};
}

bool IsAlive(const ProcessId& id) {
  if (id.pid <= 0) return false;
  const auto [state, start] = ReadStat(id.pid);
  return start == id.start && state != 'Z' && state != 'X';
}

void Stop(const std::vector<ProcessId>& ids, milliseconds patience) {
  auto any_alive = [&] {
    bool any = false;
    for (const ProcessId& id : ids) {
      if (id.pid > 0) waitpid(id.pid, nullptr, WNOHANG);  // only our own children are reaped
      any = any || IsAlive(id);
    }
    return any;
  };
  for (const ProcessId& id : ids)
    if (IsAlive(id)) kill(id.pid, SIGTERM);
  const auto end = std::chrono::steady_clock::now() + patience;
  while (any_alive() && std::chrono::steady_clock::now() < end) std::this_thread::sleep_for(milliseconds(5));
  for (const ProcessId& id : ids)
    if (IsAlive(id)) kill(id.pid, SIGKILL);
  for (int i = 0; i < 200 && any_alive(); i++) std::this_thread::sleep_for(milliseconds(5));
}

Result<ProcessId> Start(const StartOptions& o) {
  // One of ours: others are looked up in PATH.
  if (o.argv[0].starts_with('/') && access(o.argv[0].c_str(), X_OK) != 0)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{} does not exist: build everything (cmake --build build/release)", o.argv[0]));
  std::vector<char*> argv;
  for (const std::string& word : o.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  int netns_fd = -1;
  if (!o.netns.empty()) {
    netns_fd =
        open((o.netns.front() == '/' ? o.netns : "/run/netns/" + o.netns).c_str(), O_RDONLY | O_CLOEXEC);
    if (netns_fd < 0)
      return Fail(ErrorCode::kSystem, fmt::format("open namespace {}: {}", o.netns, strerror(errno)));
  }
  const int out_fd = OpenOutput(o.stdout_file);
  const int err_fd = o.stderr_file == o.stdout_file ? dup(out_fd) : OpenOutput(o.stderr_file);
  int complaint[2];
  if (out_fd < 0 || err_fd < 0 || pipe2(complaint, O_CLOEXEC) != 0)
    return Fail(ErrorCode::kSystem, fmt::format("start {}: {}", o.argv[0], strerror(errno)));
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid == 0) BecomeChild(o, argv.data(), netns_fd, out_fd, err_fd, complaint[1], parent);
  const int fork_error = errno;
  close(complaint[1]);
  close(out_fd);
  close(err_fd);
  if (netns_fd >= 0) close(netns_fd);
  char text[256] = {};
  const ssize_t n = pid > 0 ? read(complaint[0], text, sizeof(text) - 1) : 0;
  close(complaint[0]);
  if (pid < 0) return Fail(ErrorCode::kSystem, fmt::format("start {}: {}", o.argv[0], strerror(fork_error)));
  if (n > static_cast<ssize_t>(sizeof(int))) {
    waitpid(pid, nullptr, 0);
    int error = 0;
    memcpy(&error, text, sizeof(error));
    return Fail(error == ENOENT ? ErrorCode::kUnavailable : ErrorCode::kSystem,
                fmt::format("{}: {}: {}", o.argv[0], text + sizeof(int), strerror(error)));
  }
  return Identify(pid);
}

Result<int> Wait(const ProcessId& id, bool heed_interrupt) {
  for (;;) {
    int status = 0;
    const pid_t done = waitpid(id.pid, &status, WNOHANG);
    if (done == id.pid) return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    if (done < 0 && errno != EINTR)
      return Fail(ErrorCode::kSystem, fmt::format("wait for process {}: {}", id.pid, strerror(errno)));
    if (heed_interrupt && base::Interrupted()) {
      Stop({id}, milliseconds(500));
      return Fail(ErrorCode::kSystem, "interrupted");
    }
    std::this_thread::sleep_for(milliseconds(2));
  }
}

Result<void> Run(const std::vector<std::string>& argv, const std::string& input) {
  char in_path[] = "/tmp/spw-in-XXXXXX", err_path[] = "/tmp/spw-err-XXXXXX";
  const int in = mkstemp(in_path), err = mkstemp(err_path);
  if (in < 0 || err < 0)
    return Fail(ErrorCode::kSystem, fmt::format("create {}: {}", in_path, strerror(errno)));
  close(err);
  const ssize_t written = write(in, input.data(), input.size());
  close(in);
  StartOptions o;
  o.argv = argv;
  if (!input.empty())  // the programs we feed all take a file name where they take standard input
    for (std::string& word : o.argv)
      if (word == "-") word = in_path;
  o.stderr_file = err_path;
  Result<int> status = Fail(ErrorCode::kSystem, fmt::format("write {}", in_path));
  if (written == static_cast<ssize_t>(input.size()))
    status = Start(o).and_then([](const ProcessId& id) { return Wait(id, false); });
  std::string complaint = base::ReadFile(err_path).value_or("");
  unlink(in_path);
  unlink(err_path);
  if (!status) return tl::make_unexpected(status.error());
  if (*status == 0) return {};
  complaint.resize(std::min(complaint.find('\n'), complaint.size()));
  return Fail(ErrorCode::kSystem,
              fmt::format("{}: {}", fmt::format("{} {}", argv[0], argv.size() > 1 ? argv[1] : ""),
                          complaint.empty() ? fmt::format("exit {}", *status) : complaint));
}

std::string LastLine(const std::string& path) {
  std::ifstream in(path);
  std::string line, last;
  while (std::getline(in, line))
    if (!line.empty()) last = line;
  return last;
}

std::chrono::nanoseconds CpuTime(const std::string& cgroup_procs) {
  std::chrono::nanoseconds total{};
  std::ifstream members(cgroup_procs);
  pid_t pid = 0;
  while (members >> pid) total += CpuTime(pid);
  return total;
}

std::chrono::nanoseconds CpuTime(pid_t pid) {
  clockid_t clock{};
  timespec spent{};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &spent) != 0) return {};
  return std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

std::vector<ProcessId> ProcessesIn(const std::string& netns) {
  std::vector<ProcessId> found;
  struct stat ours {};
  if (stat(("/run/netns/" + netns).c_str(), &ours) != 0) return found;
  std::error_code ignored;
  for (const auto& entry : fs::directory_iterator("/proc", ignored)) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    struct stat theirs {};
    if (stat((entry.path() / "ns/net").c_str(), &theirs) != 0) continue;
    if (theirs.st_ino == ours.st_ino && theirs.st_dev == ours.st_dev)
      found.push_back(Identify(std::stoi(name)));
  }
  return found;
}

}  // namespace spillway::lab
