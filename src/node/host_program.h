// SPDX-License-Identifier: Apache-2.0
// A program of the host's own that serves a model, in place of an executor: which one a model asks for, and
// what it is told of its instance, in its environment. The controller says a name, the host's file what that
// is: no command comes over the network. Pure, but for TakeOutMissingPrograms.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "node/node_config.h"
#include "scheduler/controller/controller.h"

namespace spillway::node {

// kBadInput: the file lists no program of that name.
[[nodiscard]] Result<std::vector<std::string>> WordsOf(const NodeConfig& config,
                                                       const scheduler::ServedModel& model);

// NAME=VALUE each: the gateway and the token's file, the name under which the instance joins, the model's
// name, and the GPU, or the part of it, that it may use (docs/models.md). Emulated GPUs: it is to use none.
[[nodiscard]] std::vector<std::string> EnvironmentOf(const NodeConfig& config,
                                                     const scheduler::WantedInstance& instance,
                                                     const std::optional<SliceDevice>& device);

// Those that are not there, or that this user cannot execute: the others are served all the same. Of each
// what is wrong.
[[nodiscard]] std::vector<Error> TakeOutMissingPrograms(NodeConfig& config);

}  // namespace spillway::node
