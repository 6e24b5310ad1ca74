// SPDX-License-Identifier: Apache-2.0
#include "bench/gateway/gateway_bench.h"

#include <fmt/format.h>
#include <sched.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <map>
#include <optional>
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
constexpr int kLoads[] = {0, 80};

struct Mode {
  const char* name;
  std::function<Result<std::unique_ptr<Rig>>(const Work&, const Layout&)> make;
};
constexpr size_t kHostMemory = 2, kConspirator = 3, kFramesEpoll = 5, kFramesUring = 6;

std::vector<Mode> Modes(std::chrono::microseconds spin) {
  const auto gateway = [](GatewayUse use) {
    return [use](const Work& work, const Layout& layout) { return MakeConspiratorRig(work, layout, use); };
  };
  return {{"tcp-host", MakeTcpHostRig},
          {"direct", MakeDirectRig},
          {"host-memory", MakeHostMemoryRig},
          {"conspirator", gateway({spin})},
          {"conspirator-asleep", gateway({})},
          {"frames-epoll", gateway({spin, true, gateway::Io::kEpoll})},
          {"frames-uring", gateway({spin, true, gateway::Io::kUring})}};
}

struct Row {
  std::vector<double> p50, p99, host_us, nic_us, gateway_p50, gateway_p99;
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
  return Layout{usable[0], usable[1]};
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
  auto slice = engine.MakeSlice({BenchSlice(0), kBenchGpu, 1e6, 1, input.size(), output_bytes}, memory);
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
Result<std::unique_ptr<gateway::Engine>> MakeCudaEngineThatTakes(const GatewayBenchOptions& options,
                                                                 std::span<const std::byte> input) {
  constexpr int64_t kHidden = 4096;  // 64 MiB of weights a layer: more than a GPU's caches hold
  constexpr int64_t kTried = 4, kMostLayers = 256;
  constexpr int kTimes = 200;
  const auto width = static_cast<int64_t>(options.bytes / 4);
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
  const double missing = 1 + (options.kernel_us - us[0]) / layer_us;
  return with(std::clamp(std::llround(missing), 0LL, static_cast<long long>(kMostLayers)));
}

Result<Bed> MakeBed(const GatewayBenchOptions& options, std::span<const std::byte> input) {
  auto engine =
      options.cuda
          ? MakeCudaEngineThatTakes(options, input)
          : gateway::MakeEmulatedEngine({ModelOf({static_cast<int64_t>(options.bytes / 4), kOutputs})});
  if (!engine) return tl::make_unexpected(engine.error());
  Bed bed;
  bed.engine = std::move(*engine);
  bed.work.engine = bed.engine.get();
  bed.work.emulated = !options.cuda;
  const gateway::ModelCard& card = bed.engine->models()[0];
  bed.work.model = card.name;
  bed.work.input_bytes = options.bytes;
  bed.work.output_bytes = kOutputs * sizeof(float);
  bed.work.gflop_per_s = card.GflopFor(1) / (options.kernel_us * 1e-6);
  // An engine says the same of the same input, to the bit.
  auto trial = Try(*bed.engine, input, options.cuda ? 200 : 1);
  if (!trial) return tl::make_unexpected(trial.error());
  bed.expected = std::move(trial->output);
  if (options.cuda) bed.cuda_slice_us = trial->us;
  return bed;
}

Result<void> Measure(Rig& rig, const std::vector<std::byte>& input, const std::vector<std::byte>& expected,
                     std::chrono::milliseconds duration, Row& row) {
  std::vector<double> us;
  std::vector<std::byte> output(expected.size());
  for (int i = 0; i < 20; i++)
    if (auto asked = rig.Ask(input, output); !asked) return asked;
  rig.TakeGatewayTimes();
  const RigCosts before = rig.Costs();
  const auto end = Clock::now() + duration;
  for (auto now = Clock::now(); now < end;) {
    std::fill(output.begin(), output.end(), std::byte{0xFF});
    const auto begun = Clock::now();
    if (auto asked = rig.Ask(input, output); !asked) return asked;
    now = Clock::now();
    us.push_back(std::chrono::duration<double, std::micro>(now - begun).count());
    if (output != expected) return Fail(ErrorCode::kSystem, "an answer was wrong");
  }
  const RigCosts after = rig.Costs();
  const auto count = static_cast<double>(us.size());
  row.requests += us.size();
  row.host_us.push_back(static_cast<double>(after.host_ns - before.host_ns) / 1e3 / count);
  row.nic_us.push_back(static_cast<double>(after.nic_ns - before.nic_ns) / 1e3 / count);
  row.p50.push_back(report::PercentileOf(us, 50));
  row.p99.push_back(report::PercentileOf(std::move(us), 99));
  if (const auto times = rig.TakeGatewayTimes(); !times.empty()) {
    row.gateway_p50.push_back(report::PercentileOf(times, 50));
    row.gateway_p99.push_back(report::PercentileOf(times, 99));
  }
  return {};
}

ordered_json ToJson(const char* mode, int load, const Row& row) {
  ordered_json json;
  json["mode"] = mode;
  json["load_pct"] = load;
  json["requests"] = row.requests;
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

}  // namespace

Result<report::Document> RunGatewayBench(const GatewayBenchOptions& asked,
                                         const OnGatewayProgress& on_progress) {
  GatewayBenchOptions options = asked;
  if (options.quick) {
    options.rounds = std::min(options.rounds, 2);
    options.duration /= 3;
  }
  const auto layout = FindLayout();
  if (!layout) return tl::make_unexpected(layout.error());
  std::vector<float> numbers(options.bytes / 4);
  for (size_t i = 0; i < numbers.size(); i++) numbers[i] = static_cast<float>(i % 17) - 8;
  std::vector<std::byte> input(options.bytes);
  std::memcpy(input.data(), numbers.data(), input.size());

  // The client is this thread; where it may run is given back at the end.
  struct Affinity {
    cpu_set_t cpus;
    Affinity() { sched_getaffinity(0, sizeof(cpus), &cpus); }
    ~Affinity() { sched_setaffinity(0, sizeof(cpus), &cpus); }
  } affinity;
  const auto bed = MakeBed(options, input);
  if (!bed) return tl::make_unexpected(bed.error());
  const Work& work = bed->work;
  std::vector<std::unique_ptr<Rig>> rigs;
  std::vector<Mode> modes = Modes(options.spin);
  if (!options.variants) modes.resize(kConspirator + 1);
  for (const Mode& mode : modes) {
    auto rig = mode.make(work, *layout);
    if (!rig && rigs.size() == kFramesUring && rig.error().code == ErrorCode::kUnavailable) break;
    if (!rig) return Fail(rig.error().code, fmt::format("{}: {}", mode.name, rig.error().message));
    rigs.push_back(std::move(*rig));
  }
  modes.resize(rigs.size());
  PinTo(layout->nic_cpu);
  std::map<std::pair<size_t, int>, Row> rows;
  const double steps = static_cast<double>(options.rounds) * std::size(kLoads) * modes.size();
  double step = 0;
  for (int round = 0; round < options.rounds; round++) {
    for (const int load : kLoads) {
      const BackgroundLoad background(layout->host_cpu, load / 100.0);
      // Another is first each round: what others do to the host repeats.
      for (size_t k = 0; k < modes.size(); k++) {
        const size_t i = (k + static_cast<size_t>(round)) % modes.size();
        on_progress(step++ / steps, fmt::format("{} at {} %", modes[i].name, load));
        if (auto measured = Measure(*rigs[i], input, bed->expected, options.duration, rows[{i, load}]);
            !measured)
          return Fail(measured.error().code, fmt::format("{}: {}", modes[i].name, measured.error().message));
      }
    }
  }
  report::Document document("gateway");
  document.SetRounds(options.rounds);
  for (size_t i = 0; i < modes.size(); i++)
    for (const int load : kLoads) document.AddRow(ToJson(modes[i].name, load, rows[{i, load}]));
  for (const int load : kLoads) {
    const auto p50 = [&](size_t mode) { return report::Median(rows[{mode, load}].p50); };
    const auto p99 = [&](size_t mode) { return report::Median(rows[{mode, load}].p99); };
    for (size_t i = 0; i < kConspirator; i++) {
      std::string name = modes[i].name;
      std::replace(name.begin(), name.end(), '-', '_');
      document.SetRatio(fmt::format("conspirator_over_{}_p50_{}", name, load), p50(kConspirator) / p50(i));
      document.SetRatio(fmt::format("conspirator_over_{}_p99_{}", name, load), p99(kConspirator) / p99(i));
    }
    document.SetRatio(fmt::format("host_memory_minus_conspirator_p50_us_{}", load),
                      p50(kHostMemory) - p50(kConspirator));
    if (modes.size() > kFramesUring) {
      document.SetRatio(fmt::format("uring_over_epoll_p50_{}", load), p50(kFramesUring) / p50(kFramesEpoll));
      document.SetRatio(fmt::format("uring_over_epoll_p99_{}", load), p99(kFramesUring) / p99(kFramesEpoll));
    }
    document.SetRatio(fmt::format("host_memory_minus_conspirator_p99_us_{}", load),
                      p99(kHostMemory) - p99(kConspirator));
  }
  if (bed->cuda_slice_us) document.SetRatio("cuda_slice_us", *bed->cuda_slice_us);
  return document;
}

std::string GatewayText(const report::Document& document) {
  std::string text = fmt::format("{:<18} {:>5} {:>9} {:>9} {:>9} {:>9} {:>12}\n", "mode", "load", "p50 us",
                                 "p99 us", "host us", "NIC us", "gateway us");
  for (const auto& row : document.rows())
    text += fmt::format(
        "{:<18} {:>4}% {:>9.1f} {:>9.1f} {:>9.1f} {:>9.1f} {:>12}\n", row["mode"].get<std::string>(),
        row["load_pct"].get<int>(), row["p50_us"].get<double>(), row["p99_us"].get<double>(),
        row["host_cpu_us"].get<double>(), row["nic_cpu_us"].get<double>(),
        row.contains("gateway_p50_us") ? fmt::format("{:.1f}", row["gateway_p50_us"].get<double>()) : "");
  if (const auto& ratios = document.Json()["ratios"]; ratios.contains("cuda_slice_us"))
    text += fmt::format("a slice on the GPU alone takes {:.0f} us a request\n",
                        ratios["cuda_slice_us"].get<double>());
  return text;
}

}  // namespace spillway::bench
