// SPDX-License-Identifier: Apache-2.0
// spillway-compute's command line. Pure but for CLI11's own help text.
#pragma once

#include <variant>

#include "knn.h"
#include "lab/unit/server.h"
#include "synthetic.h"
#include "vgg16.h"
#include "worker_pool.h"

namespace CLI {
class App;
}

namespace spillway::compute {

struct Settings : unit::ServerSettings, PoolSettings {
  std::uint64_t seed = 1;
  std::variant<SyntheticSettings, Vgg16Settings, KnnSettings> what;
};

// Declares spillway-compute's options and subcommands on `app`; `settings` is filled when it parses and
// outlives it.
void AddOptions(CLI::App& app, Settings& settings);

}  // namespace spillway::compute
