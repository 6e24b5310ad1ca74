// SPDX-License-Identifier: Apache-2.0
// spillway-compute: a processing unit that works for its answers. Statistics as one JSON line on stdout at
// SIGUSR1 and at the end; SIGINT and SIGTERM end it.
#include <CLI/CLI.hpp>

#include "base/print.h"
#include "command/output.h"
#include "command/program.h"
#include "lab/unit/program.h"
#include "options.h"

namespace spillway::compute {
namespace {

template <class T>
Result<std::unique_ptr<Computation>> Widened(Result<std::unique_ptr<T>> made) {
  return std::move(made).map(
      [](std::unique_ptr<T> value) { return std::unique_ptr<Computation>(std::move(value)); });
}

struct Maker {
  const Settings& settings;

  Result<std::unique_ptr<Computation>> operator()(const SyntheticSettings& what) const {
    return std::make_unique<Synthetic>(what, settings.seed);
  }
  Result<std::unique_ptr<Computation>> operator()(const Vgg16Settings& what) const {
    return Widened(Vgg16::Make(what, settings.workers, settings.seed));
  }
  Result<std::unique_ptr<Computation>> operator()(const KnnSettings& what) const {
    return Widened(Knn::Make(what, settings.seed));
  }
};

int Main(int argc, char** argv) {
  CLI::App app("A processing unit that computes its answers: k threads and one queue.", "spillway-compute");
  Settings settings;
  AddOptions(app, settings);
  if (const auto ended = command::ParseCommandLine(app, argc, argv)) return *ended;
  const int signal_fd = unit::TakeSignals();
  auto pool =
      std::visit(Maker{settings}, settings.what).and_then([&](std::unique_ptr<Computation> computation) {
        return WorkerPool::Start(settings, std::move(computation));
      });
  if (!pool) {
    base::PrintError("spillway-compute: {}\n", pool.error().message);
    return 1;
  }
  return unit::Serve("spillway-compute", settings, std::move(*pool), signal_fd);
}

}  // namespace
}  // namespace spillway::compute

int main(int argc, char** argv) {
  return spillway::command::EndOutput(spillway::compute::Main(argc, argv), "spillway-compute");
}
