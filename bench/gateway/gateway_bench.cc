// SPDX-License-Identifier: Apache-2.0
#include "bench/gateway/gateway_bench.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <vector>

#include "bench/gateway/background_load.h"
#include "bench/gateway/rig.h"
#include "gateway/executor/cuda_engine.h"
#include "report/percentile.h"

namespace spillway::bench {
namespace {

using nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

constexpr int64_t kOutputs = 4;
constexpr uint32_t kWarmUp = 20;  // requests before each measurement, of all clients together

struct Mode {
  const char* name;
  std::function<Result<std::unique_ptr<Rig>>(const Work&, const Layout&)> make;
};
constexpr size_t kHostMemory = 2, kConspirator = 3;

std::vector<Mode> Modes(std::chrono::microseconds spin) {
  const auto gateway = [](GatewayUse use) {
    return [use](const Work& work, const Layout& layout) { return MakeConspiratorRig(work, layout, use); };
  };
  return {{"tcp-host", MakeTcpHostRig},        {"direct", MakeDirectRig},
          {"host-memory", MakeHostMemoryRig},  {"conspirator", gateway({spin})},
          {"conspirator-asleep", gateway({})}, {"frames", gateway({spin, true})}};
}

// What a table of modes and loads is measured for.
struct Point {
  size_t bytes = 0;
  double kernel_us = 0;
  uint32_t clients = 1;
};

struct Row {
  std::vector<double> p50, p99, per_s, host_us, nic_us, gateway_p50, gateway_p99;
  uint64_t requests = 0;
};

// CPUs that this process may use.
Result<Layout> FindLayout() {
  cpu_set_t cpus;
  sched_getaffinity(0, sizeof(cpus), &cpus);
  std::vector<int> usable;
  for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
    if (CPU_ISSET(static_cast<size_t>(cpu), &cpus)) usable.push_back(cpu);
  if (usable.size() < 2)
    return Fail(ErrorCode::kUnavailable,
                "bench gateway: needs two CPUs, one for the host and one for the NIC");
  return Layout{usable[0], usable[1], nullptr};
}

lab::HostNetwork NetworkFor(const GatewayBenchOptions& options, const OnGatewayProgress& on_progress) {
  if (!options.namespaces) return lab::HostNetwork::Loopback();
  auto network = lab::HostNetwork::Namespaces();
  if (network) return std::move(*network);
  on_progress(0, fmt::format("on loopback: {}", network.error().message));
  return lab::HostNetwork::Loopback();
}

// The engine that all rigs share, so that a model's weights are made once.
struct Bed {
  std::unique_ptr<gateway::Engine> engine;
  Work work;
  std::vector<std::byte> expected;  // what the model says of the input
  std::optional<double> cuda_slice_us;
};

gateway::ModelSpec ModelOf(std::vector<int64_t> layers) {
  gateway::ModelSpec spec;
  spec.name = "bench";
  spec.layers = std::move(layers);
  spec.most_rows = 1;
  return spec;
}

// A slice outside of any rig, asked by hand: of its first model, what it says and how long it takes.
struct Trial {
  std::vector<std::byte> output;
  double us = 0;
};
Result<Trial> Try(gateway::Engine& engine, std::span<const std::byte> input, int times) {
  const size_t output_bytes = kOutputs * sizeof(float), output_at = gateway::Aligned(input.size());
  std::vector<std::byte> memory(output_at + output_bytes);
  std::copy(input.begin(), input.end(), memory.begin());
  auto slice = engine.MakeSlice({BenchSlice(0), kBenchGpu, 1e6, 1, input.size(), output_bytes}, {memory});
  if (!slice) return tl::make_unexpected(slice.error());
  const auto inputs = std::span(memory).first(input.size());
  const auto outputs = std::span(memory).subspan(output_at);
  std::vector<double> us;
  for (int i = 0; i < times; i++) {
    const auto begun = Clock::now();
    if (auto ran = (*slice)->Run(0, 1, inputs, outputs); !ran) return tl::make_unexpected(ran.error());
    us.push_back(std::chrono::duration<double, std::micro>(Clock::now() - begun).count());
  }
  return Trial{{outputs.begin(), outputs.end()}, report::PercentileOf(std::move(us), 50)};
}

Result<std::unique_ptr<gateway::Engine>> MakeCudaEngineOf(const gateway::ModelSpec& spec) {
  auto driver = gateway::MakeCudaDriver();
  if (!driver) return tl::make_unexpected(driver.error());
  std::vector<gateway::CudaPlace> places;
  for (uint32_t i = 0; i < Work().slices; i++) places.push_back({kBenchGpu, BenchSlice(i), "0"});
  return gateway::MakeCudaEngine({spec}, std::move(places), std::move(*driver));
}

// On a GPU a model takes what it takes: layers are added until it is about kernel_us.
Result<std::unique_ptr<gateway::Engine>> MakeCudaEngineThatTakes(double kernel_us,
                                                                 std::span<const std::byte> input) {
  constexpr int64_t kHidden = 4096;  // 64 MiB of weights a layer: more than a GPU's caches hold
  constexpr int64_t kTried = 4, kMaxLayers = 256;
  constexpr int kTimes = 200;
  const auto width = static_cast<int64_t>(input.size() / 4);
  const auto with = [&](int64_t hidden) {
    std::vector<int64_t> layers = {width, kOutputs};
    layers.insert(layers.end(), static_cast<size_t>(hidden), kHidden);
    if (hidden > 0) layers.push_back(kOutputs);
    return MakeCudaEngineOf(ModelOf(std::move(layers)));
  };
  double us[2] = {};
  for (int i = 0; i < 2; i++) {
    auto engine = with(1 + i * kTried);
    if (!engine) return engine;
    const auto trial = Try(**engine, input, kTimes);
    if (!trial) return tl::make_unexpected(trial.error());
    us[i] = trial->us;
  }
  const double layer_us = std::max((us[1] - us[0]) / kTried, 1.0);
  const double missing = 1 + (kernel_us - us[0]) / layer_us;
  return with(std::clamp(std::llround(missing), 0LL, static_cast<long long>(kMaxLayers)));
}

Result<Bed> MakeBed(const GatewayBenchOptions& options, const Point& point,
                    std::span<const std::byte> input) {
  auto engine =
      options.cuda
          ? MakeCudaEngineThatTakes(point.kernel_us, input)
          : gateway::MakeEmulatedEngine({ModelOf({static_cast<int64_t>(point.bytes / 4), kOutputs})});
  if (!engine) return tl::make_unexpected(engine.error());
  Bed bed;
  bed.engine = std::move(*engine);
  bed.work.engine = bed.engine.get();
  bed.work.emulated = !options.cuda;
  const gateway::ModelCard& card = bed.engine->models()[0];
  bed.work.model = card.name;
  bed.work.input_bytes = point.bytes;
  bed.work.output_bytes = kOutputs * sizeof(float);
  bed.work.gflop_per_s = card.GflopFor(1) / (point.kernel_us * 1e-6);
  bed.work.clients = point.clients;
  if (options.awake == Awake::kAll) bed.work.host_spin = options.spin;
  // An engine says the same of the same input, to the bit.
  auto trial = Try(*bed.engine, input, options.cuda ? 200 : 1);
  if (!trial) return tl::make_unexpected(trial.error());
  bed.expected = std::move(trial->output);
  if (options.cuda) bed.cuda_slice_us = trial->us;
  return bed;
}

// What one client saw.
struct Seen {
  std::vector<double> us;
  std::optional<Error> error;
};

Seen AskUntil(Rig& rig, const Bed& bed, std::span<const std::byte> input, uint32_t client, size_t most,
              Clock::time_point end) {
  Seen seen;
  std::vector<std::byte> output(bed.expected.size());
  auto now = Clock::now();
  do {
    std::fill(output.begin(), output.end(), std::byte{0xFF});
    const auto begun = Clock::now();
    if (auto asked = rig.Ask(client, input, output); !asked) {
      seen.error = asked.error();
      return seen;
    }
    now = Clock::now();
    seen.us.push_back(std::chrono::duration<double, std::micro>(now - begun).count());
    if (output != bed.expected) {
      seen.error = Error{ErrorCode::kSystem, "an answer was wrong"};
      return seen;
    }
  } while (now < end && seen.us.size() < most);
  return seen;
}

// All clients at a time, on the CPU that they share; each asks once at least, then until `end`, `most` times.
Result<std::vector<double>> AskAtOnce(Rig& rig, const Bed& bed, std::span<const std::byte> input, int cpu,
                                      size_t most, Clock::time_point end) {
  std::vector<Seen> seen(bed.work.clients);
  std::vector<std::thread> others;
  for (uint32_t i = 1; i < bed.work.clients; i++)
    others.emplace_back([&, i] {
      PinTo(cpu);
      seen[i] = AskUntil(rig, bed, input, i, most, end);
    });
  seen[0] = AskUntil(rig, bed, input, 0, most, end);
  for (std::thread& other : others) other.join();
  std::vector<double> us;
  for (const Seen& one : seen) {
    if (one.error) return tl::make_unexpected(*one.error);
    us.insert(us.end(), one.us.begin(), one.us.end());
  }
  return us;
}

Result<void> Measure(Rig& rig, const Bed& bed, std::span<const std::byte> input, int cpu,
                     std::chrono::milliseconds duration, Row& row) {
  const size_t warm_up = kWarmUp / bed.work.clients + 1;
  if (auto asked = AskAtOnce(rig, bed, input, cpu, warm_up, Clock::time_point::max()); !asked)
    return tl::make_unexpected(asked.error());
  rig.TakeGatewayTimes();
  const RigCosts before = rig.Costs();
  const auto begun = Clock::now();
  auto us = AskAtOnce(rig, bed, input, cpu, SIZE_MAX, begun + duration);
  const std::chrono::duration<double> took = Clock::now() - begun;
  if (!us) return tl::make_unexpected(us.error());
  const RigCosts after = rig.Costs();
  const auto count = static_cast<double>(us->size());
  row.requests += us->size();
  row.per_s.push_back(count / took.count());
  row.host_us.push_back(static_cast<double>(after.host_ns - before.host_ns) / 1e3 / count);
  row.nic_us.push_back(static_cast<double>(after.nic_ns - before.nic_ns) / 1e3 / count);
  row.p50.push_back(report::PercentileOf(*us, 50));
  row.p99.push_back(report::PercentileOf(std::move(*us), 99));
  if (const auto times = rig.TakeGatewayTimes(); !times.empty()) {
    row.gateway_p50.push_back(report::PercentileOf(times, 50));
    row.gateway_p99.push_back(report::PercentileOf(times, 99));
  }
  return {};
}

const char* WordOf(Awake awake) {
  switch (awake) {
    case Awake::kAll:
      return "all";
    case Awake::kNic:
      return "nic";
    case Awake::kNone:
      return "none";
  }
  return "?";
}

ordered_json ToJson(const GatewayBenchOptions& options, const Point& point, const char* network,
                    const char* mode, int load, const Row& row) {
  ordered_json json;
  json["mode"] = mode;
  json["bytes"] = point.bytes;
  json["kernel_us"] = point.kernel_us;
  json["concurrency"] = point.clients;
  json["load_pct"] = load;
  json["awake"] = WordOf(options.awake);
  json["network"] = network;
  json["requests"] = row.requests;
  json["requests_per_s"] = report::Median(row.per_s);
  const auto spread = [&](const std::string& name, const std::vector<double>& samples) {
    const report::Spread s = report::SpreadOf(samples);
    json[name + "_us"] = s.median;
    json[name + "_min_us"] = s.min;
    json[name + "_max_us"] = s.max;
  };
  spread("p50", row.p50);
  spread("p99", row.p99);
  json["host_cpu_us"] = report::Median(row.host_us);
  json["nic_cpu_us"] = report::Median(row.nic_us);
  if (!row.gateway_p50.empty()) {
    json["gateway_p50_us"] = report::Median(row.gateway_p50);
    json["gateway_p99_us"] = report::Median(row.gateway_p99);
  }
  return json;
}

using Rows = std::map<std::pair<size_t, int>, Row>;  // by mode and load

void AddRatios(report::Document& document, const std::vector<Mode>& modes, const std::vector<int>& loads,
               Rows& rows, const std::string& suffix) {
  const auto ratios = [&](const char* percentile, std::vector<double> Row::*samples) {
    const auto at = [&](size_t mode, int load) { return report::Median(rows[{mode, load}].*samples); };
    const auto set = [&](const std::string& name, double value) { document.SetRatio(name + suffix, value); };
    for (const int load : loads) {
      for (size_t i = 0; i < kConspirator; i++) {
        std::string name = modes[i].name;
        std::replace(name.begin(), name.end(), '-', '_');
        set(fmt::format("conspirator_over_{}_{}_{}", name, percentile, load),
            at(kConspirator, load) / at(i, load));
      }
      set(fmt::format("host_memory_minus_conspirator_{}_us_{}", percentile, load),
          at(kHostMemory, load) - at(kConspirator, load));
    }
    const auto gap = [&](int load) { return at(kHostMemory, load) - at(kConspirator, load); };
    if (loads.size() > 1 && gap(loads.front()) > 0 && gap(loads.back()) > 0)
      set(fmt::format("gap_growth_{}", percentile), gap(loads.back()) / gap(loads.front()));
  };
  ratios("p50", &Row::p50);
  ratios("p99", &Row::p99);
}

// A table of modes and loads, rounds over all of it.
Result<void> RunPoint(const GatewayBenchOptions& options, const Layout& layout, const Point& point,
                      const std::string& suffix, const OnGatewayProgress& on_progress,
                      report::Document& document) {
  std::vector<float> numbers(point.bytes / 4);
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<float>(i % 17) - 8;
  std::vector<std::byte> input(point.bytes);
  std::memcpy(input.data(), numbers.data(), input.size());
  const auto bed = MakeBed(options, point, input);
  if (!bed) return tl::make_unexpected(bed.error());
  std::vector<std::unique_ptr<Rig>> rigs;
  std::vector<Mode> modes =
      Modes(options.awake == Awake::kNone ? std::chrono::microseconds(0) : options.spin);
  if (!options.variants) modes.resize(kConspirator + 1);
  for (const Mode& mode : modes) {
    auto rig = mode.make(bed->work, layout);
    if (!rig) return Fail(rig.error().code, fmt::format("{}: {}", mode.name, rig.error().message));
    rigs.push_back(std::move(*rig));
  }
  // What the rigs have started may run elsewhere; the clients may not.
  PinTo(layout.nic_cpu);
  Rows rows;
  const double steps = static_cast<double>(options.rounds) * options.loads.size() * modes.size();
  double step = 0;
  for (int round = 0; round < options.rounds; round++) {
    for (const int load : options.loads) {
      const BackgroundLoad background(layout.host_cpu, load / 100.0);
      // Another is first each round: what others do to the host repeats.
      for (size_t k = 0; k < modes.size(); k++) {
        const size_t i = (k + static_cast<size_t>(round)) % modes.size();
        on_progress(step++ / steps, fmt::format("{} at {} %", modes[i].name, load));
        if (auto measured = Measure(*rigs[i], *bed, input, layout.nic_cpu, options.duration, rows[{i, load}]);
            !measured)
          return Fail(measured.error().code, fmt::format("{}: {}", modes[i].name, measured.error().message));
      }
    }
  }
  for (size_t i = 0; i < modes.size(); i++)
    for (const int load : options.loads)
      document.AddRow(ToJson(options, point, layout.network->word(), modes[i].name, load, rows[{i, load}]));
  AddRatios(document, modes, options.loads, rows, suffix);
  if (bed->cuda_slice_us) document.SetRatio("cuda_slice_us" + suffix, *bed->cuda_slice_us);
  return {};
}

}  // namespace

Result<report::Document> RunGatewayBench(const GatewayBenchOptions& asked,
                                         const OnGatewayProgress& on_progress) {
  GatewayBenchOptions options = asked;
  if (options.quick) {
    options.rounds = std::min(options.rounds, 2);
    options.duration /= 3;
  }
  auto layout = FindLayout();
  if (!layout) return tl::make_unexpected(layout.error());
  const lab::HostNetwork network = NetworkFor(options, on_progress);
  layout->network = &network;
  // A client is this thread; where it may run is given back at the end.
  struct Affinity {
    cpu_set_t cpus;
    Affinity() { sched_getaffinity(0, sizeof(cpus), &cpus); }
    ~Affinity() { sched_setaffinity(0, sizeof(cpus), &cpus); }
  } affinity;
  std::vector<Point> points;
  for (const size_t bytes : options.bytes)
    for (const double kernel_us : options.kernel_us)
      for (const uint32_t clients : options.concurrency) points.push_back({bytes, kernel_us, clients});
  report::Document document("gateway");
  document.SetRounds(options.rounds);
  for (size_t i = 0; i < points.size(); i++) {
    const Point& point = points[i];
    const std::string suffix =
        points.size() == 1 ? "" : fmt::format("_{}_{:g}_{}", point.bytes, point.kernel_us, point.clients);
    const auto progress = [&](double fraction, const std::string& message) {
      on_progress((static_cast<double>(i) + fraction) / static_cast<double>(points.size()), message);
    };
    auto ran = RunPoint(options, *layout, point, suffix, progress, document);
    sched_setaffinity(0, sizeof(affinity.cpus), &affinity.cpus);  // what the next rigs start goes anywhere
    if (!ran) return tl::make_unexpected(ran.error());
  }
  return document;
}

}  // namespace spillway::bench
