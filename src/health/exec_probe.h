// SPDX-License-Identifier: Apache-2.0
// Checks by a command: it passes if the command ends in time with the wanted exit status. It runs as
// spillwayd's user in a process group of its own; the group is killed when the command ends or its time is
// over.
#pragma once

#include <functional>
#include <memory>

#include "probe.h"

namespace spillway::health {

std::unique_ptr<Probe> MakeExecProbe(const Subject& subject, const model::HealthCheck& check,
                                     Reactor& reactor, std::function<void(Outcome)> finish);

}  // namespace spillway::health
