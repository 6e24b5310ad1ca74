// SPDX-License-Identifier: Apache-2.0
// meter_cost: nanoseconds that the request meter spends per request, arrival and answer together, by
// BPF_PROG_TEST_RUN; one JSON document. Needs root. The hook's own dispatch is not in it.
#include <bpf/bpf.h>
#include <fmt/format.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cstring>
#include <vector>

#include "agent/meters/meter_memory.h"
#include "meter_cost.skel.h"
#include "packet.h"

namespace {

using namespace spillway::agent;

constexpr int kRounds = 21;
constexpr uint32_t kRepeat = 200'000;

double Run(const bpf_program* program, const std::vector<uint8_t>& packet) {
  LIBBPF_OPTS(bpf_test_run_opts, options, .data_in = packet.data(),
              .data_size_in = static_cast<uint32_t>(packet.size()), .repeat = kRepeat);
  if (bpf_prog_test_run_opts(bpf_program__fd(program), &options) != 0 || options.retval != 0) return -1;
  return options.duration;
}

double Median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

}  // namespace

int main() {
  AgentConfig config;
  config.services = {{false, 53}, {true, 80}};
  config.meter.dns = true;
  config.trigger.threshold = 1e9;
  meter_cost_bpf* skeleton = meter_cost_bpf__open();
  if (!skeleton) return fmt::print(stderr, "meter_cost: open: {}\n", strerror(errno)), 1;
  const uint32_t buckets = BucketCount(config.meter);
  bpf_map__set_max_entries(skeleton->maps.pending, buckets);
  bpf_map__set_max_entries(skeleton->maps.counts, static_cast<uint32_t>(libbpf_num_possible_cpus()));
  Configure(config, RandomSeed(), buckets, &skeleton->bss->meter_config);
  if (meter_cost_bpf__load(skeleton)) return fmt::print(stderr, "meter_cost: load: {}\n", strerror(errno)), 1;

  const struct {
    const char* name;
    std::vector<uint8_t> packet;
    const bpf_program *floor, *metered;
  } services[] = {
      {"dns", test::Packet().Ip4("10.0.0.1", "10.0.0.1").Udp(40000, 53).Dns(1, false).Build(),
       skeleton->progs.floor_run, skeleton->progs.metered_run},
      {"http", test::Packet().Ip4("10.0.0.1", "10.0.0.1").Tcp(40000, 80, "A").Text("HTTP/1.1 200 OK").Build(),
       skeleton->progs.floor_http_run, skeleton->progs.metered_http_run}};
  utsname machine{};
  uname(&machine);
  std::string rows;
  for (const auto& service : services)
    for (uint32_t one_in : {1u, 8u, 16u}) {
      skeleton->bss->meter_config.sample_mask = one_in - 1;
      std::vector<double> floors, costs;
      for (int round = 0; round < kRounds; round++) {  // interleaved: drift meets both alike
        const double floor = Run(service.floor, service.packet);
        const double metered = Run(service.metered, service.packet);
        if (floor < 0 || metered < 0) return fmt::print(stderr, "meter_cost: run: {}\n", strerror(errno)), 1;
        floors.push_back(floor);
        costs.push_back(metered - floor);
      }
      rows += fmt::format(
          "{}{{\"service\": \"{}\", \"timed_one_in\": {}, \"floor_ns\": {:.0f}, \"request_ns\": {:.0f}, "
          "\"request_ns_median\": "
          "{:.0f}}}",
          rows.empty() ? "" : ", ", service.name, one_in, Median(floors),
          *std::min_element(costs.begin(), costs.end()), Median(costs));
    }
  // The floor's turns are answers that never meet a request: only the metered turns count here.
  const auto& shared = skeleton->bss->meter_shared;
  fmt::print(
      "{{\"bench\": \"meter\", \"machine\": {{\"kernel\": \"{}\"}}, \"rounds\": {}, \"rows\": [{}], "
      "\"pending\": {}}}\n",
      machine.release, kRounds, rows, static_cast<int>(shared.pending));
  meter_cost_bpf__destroy(skeleton);
  return 0;
}
