// SPDX-License-Identifier: Apache-2.0
#include "program.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace spillway::testing {
namespace {

pid_t Spawn(const std::vector<std::string>& argv, const std::string& out, const std::string& err,
            const std::vector<std::string>& environment) {
  std::vector<char*> words;
  for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  const pid_t child = fork();
  if (child < 0) throw std::runtime_error("fork");
  if (child > 0) return child;
  const int flags = O_WRONLY | O_CREAT | O_APPEND;
  dup2(open("/dev/null", O_RDONLY), 0);
  dup2(open(out.c_str(), flags, 0600), 1);
  dup2(open(err.c_str(), flags, 0600), 2);
  for (const std::string& setting : environment) putenv(const_cast<char*>(setting.c_str()));
  execv(words[0], words.data());
  _exit(127);
}

int Reap(pid_t pid) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::string ReadAll(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

}  // namespace

Outcome RunProgram(const std::vector<std::string>& argv) {
  const Folder folder;
  Outcome outcome;
  outcome.exit_code = Reap(Spawn(argv, folder.File("out"), folder.File("err"), {}));
  outcome.out = folder.Read("out");
  outcome.err = folder.Read("err");
  return outcome;
}

Running::Running(const std::vector<std::string>& argv, const std::string& log,
                 const std::vector<std::string>& environment)
    : pid_(Spawn(argv, log, log, environment)) {}

Running::~Running() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  Reap(pid_);
}

void Running::Signal(int signal) const { kill(pid_, signal); }

int Running::Wait() {
  const int code = Reap(pid_);
  pid_ = 0;
  return code;
}

NotifySocket::NotifySocket(const std::string& path)
    : path_(path), fd_(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  if (bind(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
    throw std::runtime_error("bind");
}

NotifySocket::~NotifySocket() { close(fd_); }

std::string NotifySocket::WaitFor(const std::string& word) const {
  pollfd readable{.fd = fd_, .events = POLLIN, .revents = 0};
  while (poll(&readable, 1, 20000) == 1) {
    char buffer[4096];
    const ssize_t size = recv(fd_, buffer, sizeof(buffer), 0);
    const std::string said(buffer, size > 0 ? static_cast<size_t>(size) : 0);
    if (said.find(word) != std::string::npos) return said;
  }
  return "";
}

Folder::Folder() {
  char name[] = "/tmp/spillway-test-XXXXXX";
  if (mkdtemp(name) == nullptr) throw std::runtime_error("mkdtemp");
  path_ = name;
}

Folder::~Folder() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

void Folder::Write(const std::string& name, const std::string& text) const {
  std::ofstream(File(name)) << text;
}

std::string Folder::Read(const std::string& name) const { return ReadAll(File(name)); }

}  // namespace spillway::testing
