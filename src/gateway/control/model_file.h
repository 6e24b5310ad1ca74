// SPDX-License-Identifier: Apache-2.0
// A model as `spillway model add` takes it (docs/models.md has every key). Pure.
#pragma once

#include <string>

#include "base/error.h"
#include "scheduler/controller/fleet.h"

namespace spillway::gateway {

// What its executors are to run, ServedModel::program, in words of executor.yaml: an object of `cell`,
// `cells` and `models`, in JSON. Errors: kBadInput, a line per problem.
[[nodiscard]] Result<scheduler::ServedModel> ParseModelFile(const std::string& yaml,
                                                            const std::string& file_name);

}  // namespace spillway::gateway
