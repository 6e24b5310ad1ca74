// SPDX-License-Identifier: Apache-2.0
// Programs under test, run as a user runs them; and a folder that goes when the test ends.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

namespace spillway::testing {

struct Outcome {
  int exit_code = -1;  // -1: ended by a signal
  std::string out, err;
};

// Runs argv[0] to its end.
Outcome RunProgram(const std::vector<std::string>& argv);

// The same, still running; killed and reaped at the end of its life.
class Running {
 public:
  // `environment`: "NAME=value", in addition. Its stdout and stderr go to `log`.
  Running(const std::vector<std::string>& argv, const std::string& log,
          const std::vector<std::string>& environment = {});
  ~Running();
  pid_t pid() const { return pid_; }
  void Signal(int signal) const;
  int Wait();  // its exit code; -1: ended by a signal

 private:
  pid_t pid_;
};

// What systemd is to a daemon: a socket for NOTIFY_SOCKET, and waiting for what is said there.
class NotifySocket {
 public:
  explicit NotifySocket(const std::string& path);
  ~NotifySocket();
  std::string environment() const { return "NOTIFY_SOCKET=" + path_; }
  // The next datagram that contains `word`, or "" after 20 s.
  std::string WaitFor(const std::string& word) const;

 private:
  std::string path_;
  int fd_;
};

class Folder {
 public:
  Folder();
  ~Folder();
  std::string File(const std::string& name) const { return path_ + "/" + name; }
  void Write(const std::string& name, const std::string& text) const;
  std::string Read(const std::string& name) const;

 private:
  std::string path_;
};

}  // namespace spillway::testing
