// SPDX-License-Identifier: Apache-2.0
// spillwayd: the daemon over the kernel's switch. See daemon.h.
#include "daemon/daemon.h"

int main(int argc, char** argv) {
  using spillway::switching::Switch;
  return spillway::command::RunSpillwayd(argc, argv, {Switch::Start, Switch::RemoveLeftovers});
}
