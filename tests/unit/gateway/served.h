// SPDX-License-Identifier: Apache-2.0
// What tests of a gateway in this process serve and ask.
#pragma once

#include <vector>

#include "gateway_bed.h"
#include "model_specs.h"

namespace spillway::gateway {

inline std::unique_ptr<Engine> EchoEngine() { return std::move(*MakeEmulatedEngine({Echo(64, 2048)})); }

inline std::vector<std::byte> Pattern(size_t bytes, int seed = 0) {
  std::vector<std::byte> pattern(bytes);
  for (size_t i = 0; i < bytes; i++) pattern[i] = static_cast<std::byte>(i * 7 + static_cast<size_t>(seed));
  return pattern;
}

inline ModelCard ProgramModel() {
  ModelCard card;
  card.name = "program";
  card.inputs = {{"x", DataType::kU8, {-1, 8}}};
  card.outputs = {{"y", DataType::kU8, {-1, 8}}};
  card.most_rows = 4;
  return card;
}

struct Served {
  GatewayBed bed;
  std::unique_ptr<Engine> engine = EchoEngine();
  Executor executor;
  explicit Served(GatewayConfig config = GatewayBed::Config())
      : bed(std::move(config)), executor(bed.Executor("host"), *engine) {
    const auto joined = executor.Join();
    EXPECT_TRUE(joined) << joined.error().message;
    bed.UntilReady();
  }
};

}  // namespace spillway::gateway
