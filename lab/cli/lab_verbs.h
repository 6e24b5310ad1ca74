// SPDX-License-Identifier: Apache-2.0
// The verbs of spillway lab.
#pragma once

#include <string>

#include "command/context.h"

namespace CLI {
class App;
}

namespace spillway::command {

// up, down, list, exec, run.
void AddLabVerbs(CLI::App& app, Context& context);

// spillway lab kvs: a key-value server behind four front ends, measured and modelled; needs no privileges.
void AddKvsVerb(CLI::App& lab, Context& context);

struct GpusOptions {
  std::string file, out, folder;  // empty: the example's; none; one in /tmp
  bool quick = false;
  bool loopback = false;  // no network namespaces, though they may be had
};
// The exit code. `lab run gpus` is the same.
int RunGpus(const GpusOptions& options, bool as_json);
// spillway lab gpus: jobs on GPU hosts under three policies; root's hosts have network namespaces, others'
// need none.
void AddGpusVerb(CLI::App& lab, Context& context);

// spillway lab paper: P4Mite's claims beside what the simulator and the lab find.
void AddPaperVerb(CLI::App& lab, Context& context);

}  // namespace spillway::command
