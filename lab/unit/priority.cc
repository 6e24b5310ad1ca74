// SPDX-License-Identifier: Apache-2.0
#include "priority.h"

#include <sched.h>

namespace spillway::unit {

bool TakeRealtimePriority() {
  sched_param priority{};
  priority.sched_priority = 5;
  return ::sched_setscheduler(0, SCHED_FIFO | SCHED_RESET_ON_FORK, &priority) == 0;
}

}  // namespace spillway::unit
