// SPDX-License-Identifier: Apache-2.0
// Counts the packets that the switch sent and a driver lost (bpf/redirects.bpf.c), while it lives. One
// thread.
#pragma once

#include <memory>
#include <vector>

#include "base/error.h"

struct redirects_bpf;

namespace spillway::switching {

class RedirectWatch {
 public:
  // counters_fd: the switch's map; program_fd: the switch. Errors: kUnavailable where the kernel has no type
  // information, no such tracepoints, or does not let us.
  [[nodiscard]] static Result<std::unique_ptr<RedirectWatch>> Open(int counters_fd, int program_fd);
  ~RedirectWatch();
  RedirectWatch(const RedirectWatch&) = delete;
  RedirectWatch& operator=(const RedirectWatch&) = delete;

  // The interfaces that the switch is attached to.
  void SetInterfaces(const std::vector<int>& ifindexes);

 private:
  explicit RedirectWatch(redirects_bpf* skeleton) : skeleton_(skeleton) {}
  redirects_bpf* skeleton_;
};

}  // namespace spillway::switching
