// SPDX-License-Identifier: Apache-2.0
#include "base/machine_boot.h"

#include <fstream>

namespace spillway::base {

std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace spillway::base
