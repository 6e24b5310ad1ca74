// SPDX-License-Identifier: Apache-2.0
// spillway lab gpus: jobs on GPU hosts under three policies; root's hosts have network namespaces, others'
// need none.
#pragma once

#include <string>

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

struct GpusOptions {
  std::string file, out, folder;  // empty: the example's; none; one in /tmp
  bool quick = false;
  bool loopback = false;  // no network namespaces, though they may be had
};
// The exit code. `lab run gpus` is the same.
int RunGpus(const GpusOptions& options, bool as_json);
void AddGpusVerb(CLI::App& lab, Context& context);

}  // namespace spillway::command
