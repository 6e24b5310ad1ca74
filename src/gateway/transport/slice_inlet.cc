// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/slice_inlet.h"

#include <poll.h>

namespace spillway::gateway {

void SliceInlet::Wait(int timeout_ms) {
  if (!PrepareToWait()) return;
  pollfd wait{bell(), POLLIN, 0};
  poll(&wait, 1, timeout_ms);
  DoneWaiting();
}

}  // namespace spillway::gateway
