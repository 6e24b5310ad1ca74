// SPDX-License-Identifier: Apache-2.0
// Config -> text, the inverse of ParseConfig: defaults are written out, so that the text keeps its
// meaning when defaults change. Keys are not written, only the paths of their files. Pure.
#pragma once

#include <string>

#include "pool.h"

namespace spillway::model {

// For every Config that ParseConfig accepts, ParseConfig(ToYaml(config), any name) == config, as long as
// the key files stay as they are.
std::string ToYaml(const Config& config);

// A check as a flow map, "{check: tcp, port: 80, ...}": the same text exactly for the same check.
std::string ToYaml(const HealthCheck& check);

}  // namespace spillway::model
