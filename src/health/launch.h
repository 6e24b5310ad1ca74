// SPDX-License-Identifier: Apache-2.0
// Starts a program without waiting for it: exec returns only when the storage that holds the program has
// answered, so a thread of its own waits for that. Nothing here blocks the caller.
#pragma once

#include <sys/types.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"

namespace spillway::health {

class Launch {
 public:
  // argv[0] is a path. In a process group of its own, with all signals' default actions and none blocked, and
  // with no descriptor but three of /dev/null. Errors: this machine's own.
  [[nodiscard]] static Result<std::unique_ptr<Launch>> Begin(std::vector<std::string> argv,
                                                             std::vector<std::string> environment);
  // Unless it was taken: as GiveUp, and what may be started yet is killed, too.
  ~Launch();
  Launch(const Launch&) = delete;
  Launch& operator=(const Launch&) = delete;

  // Readable once it has ended; until Take.
  int fd() const;
  // Kills what has been started so far, if anything.
  void GiveUp();

  struct Ended {
    int error = 0;   // an errno: the program could not be started; else
    pid_t pid = 0;   // the child, running; the caller reaps it
    int pidfd = -1;  // of it; the caller closes it
  };
  // Once it has ended, and once.
  Ended Take();

 private:
  struct Shared;
  explicit Launch(std::shared_ptr<Shared> shared) : shared_(std::move(shared)) {}
  static void* Thread(void* shared);
  static int Child(void* shared);

  const std::shared_ptr<Shared> shared_;
};

}  // namespace spillway::health
