// SPDX-License-Identifier: Apache-2.0
#include "options.h"

#include <CLI/CLI.hpp>
#include <map>
#include <memory>

#include "lab/unit/options.h"

#include "command/option_checks.h"

namespace spillway::compute {

namespace {

// A subcommand whose options fill a T, which becomes settings.what. Options that belong to all may stand
// behind its name as well.
template <class T>
std::pair<CLI::App*, std::shared_ptr<T>> AddComputation(CLI::App& app, Settings& settings,
                                                        const std::string& name, const std::string& help) {
  CLI::App* command = app.add_subcommand(name, help);
  command->option_defaults()->always_capture_default();
  command->fallthrough();
  auto values = std::make_shared<T>();
  command->final_callback([&settings, values] { settings.what = *values; });
  return {command, values};
}

void AddVgg16(CLI::App& app, Settings& settings) {
  auto [command, values] = AddComputation<Vgg16Settings>(
      app, settings, "vgg16", "Classifies an image by a network of VGG-16's shape (oneDNN)");
  command->add_option("--size", values->size, "Side of the image: a multiple of 32")
      ->check(command::InRange(std::int64_t{32}, kMaxVgg16Size))
      ->check([](const std::string& text) {
        return text.find_first_not_of("0123456789") == std::string::npos && std::stoll(text) % 32 == 0
                   ? ""
                   : "expected a multiple of 32";
      });
  static const std::map<std::string, Precision> kNames = {{"f32", Precision::kF32},
                                                          {"bf16", Precision::kBf16}};
  command->add_option("--precision", values->precision, "Weights and activations: f32 or bf16")
      ->transform(CLI::CheckedTransformer(kNames))
      ->default_str("f32");
}

void AddKnn(CLI::App& app, Settings& settings) {
  auto [command, values] = AddComputation<KnnSettings>(app, settings, "knn",
                                                       "Finds a query's nearest neighbours, exactly (FAISS)");
  command->add_option("--vectors", values->vectors, "Vectors to search in")
      ->check(command::InRange(1u, kMaxVectors));
  command->add_option("--dimensions", values->dimensions, "Numbers in each vector")
      ->check(command::InRange(1u, kMaxDimensions));
  command->add_option("--neighbours", values->neighbours, "Neighbours to find")
      ->check(command::InRange(1u, kMaxNeighbours));
  command->final_callback([&settings, v = values] {
    if (v->neighbours > v->vectors)
      throw CLI::ValidationError("--neighbours", "expected no more than --vectors");
    if (std::uint64_t{v->vectors} * v->dimensions > kMaxKnnNumbers)
      throw CLI::ValidationError("--vectors", "expected vectors of 8 GiB together at most");
    settings.what = *v;
  });
}

}  // namespace

void AddOptions(CLI::App& app, Settings& settings) {
  app.option_defaults()->always_capture_default();
  unit::AddServerOptions(app, settings);
  app.add_option("--workers", settings.workers, "Requests worked on at a time, a thread for each")
      ->check(command::InRange(1, 1024));
  app.add_option("--queue", settings.queue_limit, "Requests that may wait; further ones are lost")
      ->check(command::InRange(0, 10'000'000));
  app.add_option("--seed", settings.seed, "Seed of what is generated: weights, vectors, queries");
  app.require_subcommand(1);
  auto [synthetic, values] =
      AddComputation<SyntheticSettings>(app, settings, "synthetic", "Computes with floating-point numbers");
  synthetic->add_option("--gflop", values->gflop, "Work per request, in GFLOP")
      ->check(command::InRange(1e-6, 1e6));
  AddVgg16(app, settings);
  AddKnn(app, settings);
}

}  // namespace spillway::compute
