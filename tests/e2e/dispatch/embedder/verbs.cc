// SPDX-License-Identifier: Apache-2.0
// A program that takes events over RDMA, where there is a device; elsewhere the library says that there is
// none.
#include <cstdio>

#include "dispatch/verbs_producer.h"
#include "dispatch/verbs_window.h"

int main() {
  using namespace spillway::dispatch;
  auto domain = Domain::Open("native", {});
  VerbsHostOptions options;
  options.window.queue = (*domain)->AddQueue({}).value();
  const auto host = VerbsHost::Listen(**domain, options);
  if (host || host.error().code == spillway::ErrorCode::kUnavailable) return 0;
  std::printf("%s\n", host.error().message.c_str());
  return 1;
}
