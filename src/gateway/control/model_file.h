// SPDX-License-Identifier: Apache-2.0
// A model as `spillway model add` takes it (docs/models.md has every key). Pure.
#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "gateway/config.h"
#include "scheduler/controller/fleet.h"

namespace spillway::gateway {

// What its executors are to run, ServedModel::program, in words of executor.yaml: an object of `cell`,
// `cells` and `models`, in JSON. `tenants`: whose it may be; none: anybody's. Errors: kBadInput, a line per
// problem.
[[nodiscard]] Result<scheduler::ServedModel> ParseModelFile(const std::string& yaml,
                                                            const std::string& file_name,
                                                            const std::vector<std::string>& tenants = {});

// Whose models may be where tenants have quotas: a mistyped one would have none. Empty: anybody's, since
// nobody has a quota, or those who are not listed share one.
[[nodiscard]] std::vector<std::string> KnownTenants(const GatewayConfig& config);

}  // namespace spillway::gateway
