// SPDX-License-Identifier: Apache-2.0
#include "cases.h"

#include <unistd.h>

#include <cstdlib>
#include <sstream>

#include "base/signals.h"

namespace spillway::e2e {
namespace {

bool IsInPath(const std::string& program) {
  std::istringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');)
    if (access((folder + "/" + program).c_str(), X_OK) == 0) return true;
  return false;
}

}  // namespace

bool Eventually(const std::function<bool()>& condition, std::chrono::seconds limit) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    if (!base::SleepUnlessInterrupted(std::chrono::milliseconds(10))) return false;
  }
  return true;
}

std::string WhyNot(const std::vector<std::string>& programs) {
  if (base::Interrupted()) return "interrupted";
  if (geteuid() != 0) return "needs root: it makes network namespaces and loads BPF programs";
  if (!IsInPath("ip")) return "needs ip (package iproute2)";
  for (const std::string& program : programs)
    if (!IsInPath(program)) return "needs " + program + ", which is not installed";
  return {};
}

std::string FamilyName(const testing::TestParamInfo<int>& info) { return "V" + std::to_string(info.param); }

}  // namespace spillway::e2e
