// SPDX-License-Identifier: Apache-2.0
// CPU control groups, version 1 or 2, whichever carries the cpu controller here. A testbed's groups are
// ROOT/spillway-lab-NAME/LABEL. Not thread-safe.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "spec.h"

namespace spillway::lab {

struct CgroupRoot {
  std::string path;
  int version = 1;
};

// From the text of /proc/mounts; `v2_controllers` answers what a v2 mount point offers. Pure.
std::optional<CgroupRoot> FindCpuController(
    const std::string& mounts, const std::function<std::string(const std::string&)>& v2_controllers);

// Where CPU time is accounted for, if that is a hierarchy of its own (v1's cpuacct); empty: with the
// controller.
std::string FindCpuAccounts(const std::string& mounts, const CgroupRoot& controller);

class Cgroups {
 public:
  // kUnavailable: no cpu controller is mounted.
  [[nodiscard]] static Result<Cgroups> Open(const std::string& testbed);

  // The group's folder, with its quota, if any, set; and with a quota, if they are elsewhere, that of its
  // accounts, which agents read. The testbed as a whole goes before whatever else the
  // machine runs: a unit that waits for a CPU would look like one that is overloaded.
  [[nodiscard]] Result<std::vector<std::string>> Make(const std::string& label,
                                                      const std::optional<CpuQuota>& quota);
  const std::string& folder() const { return folder_; }
  // Moves nothing: the groups must be empty of processes. No error if there are none.
  static void Remove(const std::string& folder);

 private:
  Cgroups(CgroupRoot root, std::string folder, std::string accounts)
      : root_(std::move(root)), folder_(std::move(folder)), accounts_(std::move(accounts)) {}

  CgroupRoot root_;
  std::string folder_, accounts_;  // accounts_: the testbed's there, or empty
};

}  // namespace spillway::lab
