// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "dispatch/domain.h"
#include "dispatch/remote_producer.h"

extern "C" int in_c(void);

int main() {
  using namespace spillway::dispatch;
  auto domain = Domain::Open("native", {});
  if (!domain) return 1;
  const auto queue = (*domain)->AddQueue({});
  auto producer = (*domain)->AddPort({});
  PortOptions options;
  options.queues = {*queue};
  auto worker = (*domain)->AddPort(options);
  Event event;
  event.queue = *queue;
  event.user = 42;
  if ((*producer)->Enqueue({&event, 1}) != 1) return 2;
  Event got;
  if ((*worker)->Dequeue({&got, 1}) != 1 || got.user != 42) return 3;
  return in_c();
}
