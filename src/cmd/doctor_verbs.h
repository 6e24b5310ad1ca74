// SPDX-License-Identifier: Apache-2.0
// spillway doctor: what this machine has of what Spillway needs.
#pragma once

#include <CLI/CLI.hpp>

#include "cmd/context.h"

namespace spillway::cmd {

void AddDoctorVerbs(CLI::App& app, Context& context);

}  // namespace spillway::cmd
