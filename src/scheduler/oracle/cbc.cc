// SPDX-License-Identifier: Apache-2.0
#include "scheduler/oracle/cbc.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <utility>

#include "base/paths.h"

extern char** environ;

namespace spillway::scheduler {
namespace {

// A folder of our own that goes with us.
class Scratch {
 public:
  static Result<Scratch> Make() {
    return base::MakeTemporaryFolder("spillway-cbc-").map([](std::string path) {
      return Scratch(std::move(path));
    });
  }
  ~Scratch() {
    std::error_code ignored;
    if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
  }
  Scratch(Scratch&& other) noexcept : path_(std::exchange(other.path_, {})) {}
  Scratch& operator=(Scratch&&) = delete;
  const std::string& path() const { return path_; }

 private:
  explicit Scratch(std::string path) : path_(std::move(path)) {}

  std::string path_;
};

Result<void> Run(std::vector<std::string> words) {
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0);
  posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int failed = posix_spawnp(&pid, arguments[0], &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failed == ENOENT)
    return Fail(ErrorCode::kUnavailable,
                "the exact solver cbc is not installed (Debian: apt install coinor-cbc)");
  if (failed != 0) return Fail(ErrorCode::kSystem, fmt::format("start cbc: {}", std::strerror(failed)));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFSIGNALED(status))
    return Fail(ErrorCode::kSystem, fmt::format("cbc was killed by signal {}", WTERMSIG(status)));
  if (WEXITSTATUS(status) != 0)
    return Fail(ErrorCode::kSystem, fmt::format("cbc failed with exit code {}", WEXITSTATUS(status)));
  return {};
}

}  // namespace

Result<CbcSolution> SolveWithCbc(const std::string& lp, int seconds) {
  const auto scratch = Scratch::Make();
  if (!scratch) return tl::make_unexpected(scratch.error());
  const std::string problem = scratch->path() + "/p.lp", solution = scratch->path() + "/s.txt";
  if (!(std::ofstream(problem) << lp).flush())
    return Fail(ErrorCode::kSystem, fmt::format("write a problem for cbc: {}", std::strerror(errno)));
  if (auto ran = Run({"cbc", problem, "sec", std::to_string(seconds), "ratioGap", "0", "allowableGap", "0",
                      "solve", "solu", solution});
      !ran)
    return tl::make_unexpected(ran.error());
  std::ifstream in(solution);
  std::string first;
  if (!std::getline(in, first)) return Fail(ErrorCode::kSystem, "cbc wrote no solution");
  CbcSolution answer;
  if (first.starts_with("Stopped on time")) {
    answer.in_time = false;
    return answer;
  }
  if (first.starts_with("Infeasible") || first.starts_with("Integer infeasible")) return answer;
  if (!first.starts_with("Optimal"))
    return Fail(ErrorCode::kSystem, fmt::format("cbc found no proven optimum: {}", first));
  answer.feasible = true;
  answer.objective = std::stod(first.substr(first.find_last_of(' ') + 1));
  for (std::string line; std::getline(in, line);) {
    std::istringstream words(line);
    std::string index, name;
    double value = 0;
    if (words >> index >> name >> value && value > 0.5) answer.ones.push_back(name);
  }
  return answer;
}

}  // namespace spillway::scheduler
