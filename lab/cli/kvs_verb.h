// SPDX-License-Identifier: Apache-2.0
// spillway lab kvs: a key-value server behind four front ends, measured and modelled; needs no privileges.
#pragma once

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

void AddKvsVerb(CLI::App& lab, Context& context);

}  // namespace spillway::command
