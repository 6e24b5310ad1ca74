// SPDX-License-Identifier: Apache-2.0
#include "gateway/metrics.h"

#include <prometheus/text_serializer.h>

#include <cmath>
#include <map>
#include <set>

#include "scheduler/controller/fleet_view.h"

namespace spillway::gateway {
namespace {

using prometheus::ClientMetric;
using prometheus::MetricFamily;
using prometheus::MetricType;
using Labels = std::vector<ClientMetric::Label>;

class Families {
 public:
  void Gauge(const char* name, const char* help, double value, Labels labels = {}) {
    Add(name, help, MetricType::Gauge, std::move(labels)).gauge.value = value;
  }
  void Counter(const char* name, const char* help, double value, Labels labels = {}) {
    Add(name, help, MetricType::Counter, std::move(labels)).counter.value = value;
  }
  void Histogram(const char* name, const char* help, const LatencyHistogram& latencies, Labels labels) {
    ClientMetric::Histogram& out = Add(name, help, MetricType::Histogram, std::move(labels)).histogram;
    uint64_t below = 0;
    for (size_t i = 0; i < latencies.counts().size(); i++) {
      below += latencies.counts()[i];
      const bool has_bound = i < LatencyHistogram::kBounds.size();
      out.bucket.push_back({below, has_bound ? LatencyHistogram::kBounds[i] : INFINITY});
    }
    out.sample_count = below;
    out.sample_sum = std::chrono::duration<double>(latencies.sum()).count();
  }
  std::string Text() const { return prometheus::TextSerializer().Serialize(families_); }

 private:
  // Metrics of one name follow one another.
  ClientMetric& Add(const char* name, const char* help, MetricType type, Labels labels) {
    if (families_.empty() || families_.back().name != name) {
      MetricFamily& family = families_.emplace_back();
      family.name = name;
      family.help = help;
      family.type = type;
    }
    ClientMetric& metric = families_.back().metric.emplace_back();
    metric.label = std::move(labels);
    return metric;
  }

  std::vector<MetricFamily> families_;
};

void AddRequests(const Broker& broker, const ServerCounts& counts, Families& out) {
  const auto& tenants = broker.options().tenants;
  const BrokerCounts& told = broker.counts();
  for (uint32_t i = 0; i < tenants.size(); i++)
    for (int status = 0; status < kStatuses; status++)
      out.Counter(
          "spillway_gateway_requests_total", "requests answered",
          static_cast<double>(told.answers[i][static_cast<size_t>(status)]),
          {{"tenant", tenants[i].name}, {"status", std::string(FactsOf(static_cast<Status>(status)).word)}});
  for (uint32_t i = 0; i < tenants.size(); i++)
    out.Histogram("spillway_gateway_request_seconds", "from a request's arrival to its answer `ok`",
                  told.took[i], {{"tenant", tenants[i].name}});
  for (uint32_t i = 0; i < tenants.size(); i++)
    out.Histogram("spillway_gateway_request_wait_seconds", "part of it until a slice was given the request",
                  told.waited[i], {{"tenant", tenants[i].name}});
  for (const auto& [front, word] : {std::pair(Front::kHttp, "http"), {Front::kFrames, "frames"}})
    for (const Status why : {Status::kDenied, Status::kNoModel, Status::kBadRequest, Status::kTooLarge,
                             Status::kBusy, Status::kNoSlice})
      out.Counter("spillway_gateway_requests_refused_total",
                  "requests refused before they reached a tenant's queue",
                  static_cast<double>(counts.refused[static_cast<size_t>(front)][static_cast<size_t>(why)]),
                  {{"front", word}, {"reason", std::string(FactsOf(why).word)}});
  for (uint32_t i = 0; i < tenants.size(); i++)
    out.Gauge("spillway_gateway_queue_requests", "requests that wait for a slice",
              static_cast<double>(broker.queued(i)), {{"tenant", tenants[i].name}});
  out.Gauge("spillway_gateway_running_requests", "requests that a slice has",
            static_cast<double>(broker.running()));
}

void AddMemory(const Broker& broker, Families& out) {
  const auto gauge = [&](const char* name, const char* help, uint64_t value) {
    out.Gauge(name, help, static_cast<double>(value));
  };
  gauge("spillway_gateway_memory_bytes", "memory held for requests and answers", broker.memory_held());
  gauge("spillway_gateway_memory_limit_bytes", "configured limit of the memory", broker.options().memory);
  gauge("spillway_gateway_windows_bytes", "memory of clients' windows", broker.windows_held());
  gauge("spillway_gateway_windows_limit_bytes", "configured limit of the memory", broker.options().windows);
}

void AddCounts(const BrokerCounts& told, const ServerCounts& counts, Families& out) {
  const auto counter = [&](const char* name, const char* help, uint64_t value) {
    out.Counter(name, help, static_cast<double>(value));
  };
  counter("spillway_gateway_deliveries_total", "requests put into a slice's memory", told.delivered);
  counter("spillway_gateway_replacements_total", "requests placed again after their executor died",
          told.replaced);
  counter("spillway_gateway_executors_lost_total", "executors that left, after a planned move, too, or died",
          told.executors_lost);
  counter("spillway_gateway_scrubs_total", "slices wiped between tenants", told.wipes);
  counter("spillway_gateway_late_completions_total", "results that came after their deadline or cancellation",
          told.late_completions);
  out.Gauge("spillway_gateway_executors", "executors that have joined",
            static_cast<double>(counts.executors));
  counter("spillway_gateway_executors_refused_total", "executors that were refused",
          counts.executors_refused);
  out.Gauge("spillway_gateway_sessions", "clients of the framed protocol",
            static_cast<double>(counts.sessions));
  counter("spillway_gateway_sessions_total", "clients of the framed protocol, ever", counts.sessions_ever);
  counter("spillway_gateway_sessions_refused_total",
          "clients beyond limits.connections, and those without a hello who made room",
          counts.sessions_refused);
  counter("spillway_gateway_session_faults_total", "clients disconnected for what they sent", counts.faults);
}

Labels LabelsOf(const Broker::SliceView& slice) {
  return {{"executor", slice.executor}, {"gpu", slice.gpu}, {"gpu_id", slice.gpu_id}, {"slice", slice.name}};
}

void AddSlices(const Broker& broker, Families& out) {
  const auto slices = broker.Slices();
  for (const auto& slice : slices)
    if (slice.alive)
      out.Counter("spillway_gateway_slice_requests_total", "requests given to a slice",
                  static_cast<double>(slice.requests), LabelsOf(slice));
  for (const auto& slice : slices)
    if (slice.alive)
      out.Gauge("spillway_gateway_slice_busy_cells", "cells of a slice that are in use", slice.busy_cells,
                LabelsOf(slice));
  for (const auto& slice : slices) {
    if (!slice.alive) continue;
    Labels with_memory = LabelsOf(slice);
    with_memory.push_back({"memory", slice.memory});
    out.Gauge("spillway_gateway_slice_info", "what inputs are delivered into: memory", 1,
              std::move(with_memory));
  }
  for (const auto& service : broker.ServiceTimes()) {
    Labels of_model = LabelsOf(slices[service.slice]);
    of_model.push_back({"model", service.model});
    out.Gauge("spillway_gateway_slice_service_seconds",
              "that a request of one row is expected to take, by what was learnt",
              std::chrono::duration<double>(service.expected).count(), std::move(of_model));
  }
}

void AddGpus(const Broker& broker, Families& out) {
  const auto& tenants = broker.options().tenants;
  for (const GpuTable::Gpu& gpu : broker.gpus())
    if (gpu.slices > 0)
      out.Gauge("spillway_gateway_gpu_slices", "slices that are on a GPU, whoever offers them", gpu.slices,
                {{"gpu_id", gpu.identity}});
  for (const GpuTable::Gpu& gpu : broker.gpus())
    for (uint32_t i = 0; gpu.slices > 0 && i < tenants.size(); i++)
      out.Counter("spillway_gateway_gpu_slice_seconds_total",
                  "time that slices of a GPU worked on a tenant's requests",
                  std::chrono::duration<double>(gpu.uses[i].time).count(),
                  {{"gpu_id", gpu.identity}, {"tenant", tenants[i].name}});
}

void AddModels(const scheduler::Fleet& fleet, Families& out) {
  const auto labels = [](const scheduler::ServedModel& model) {
    return Labels{{"model", model.name}, {"tenant", model.tenant}};
  };
  std::map<std::string, int> ready;
  for (const auto& [id, one] : fleet.instances)
    if (IsServing(one)) ready[one.model.name]++;
  for (const auto& [name, model] : fleet.models)
    out.Gauge("spillway_gateway_model_replicas", "replicas that a model is to have", model.replicas,
              labels(model));
  for (const auto& [name, model] : fleet.models)
    out.Gauge("spillway_gateway_model_ready_replicas", "replicas of a model that serve", ready[name],
              labels(model));
}

void AddHosts(const scheduler::Fleet& fleet, Families& out) {
  std::set<std::string> on;
  for (const auto& [id, one] : fleet.instances) on.insert(scheduler::GpuKey(one.place.host, one.place.gpu));
  for (const auto& [name, host] : fleet.hosts)
    out.Gauge("spillway_gateway_host_up", "1: its node agent reports", host.is_up && !host.HasEnded() ? 1 : 0,
              {{"host", name}});
  for (const auto& [name, host] : fleet.hosts)
    for (const scheduler::Gpu& gpu : host.gpus)
      out.Gauge("spillway_gateway_gpu_on", "1: an instance has a part of the GPU",
                on.contains(scheduler::GpuKey(name, gpu.id)) ? 1 : 0, {{"host", name}, {"gpu", gpu.id}});
  for (const auto& [name, host] : fleet.hosts)
    for (const scheduler::Gpu& gpu : host.gpus)
      out.Gauge("spillway_gateway_gpu_lost", "1: its host says that the GPU cannot be used",
                gpu.lost.empty() ? 0 : 1, {{"host", name}, {"gpu", gpu.id}});
}

}  // namespace

std::string FleetMetricsText(const scheduler::Fleet& fleet, const std::map<int, uint64_t>& refused) {
  Families out;
  AddModels(fleet, out);
  for (const int status : {400, 404, 409}) {
    const auto count = refused.find(status);
    out.Counter("spillway_gateway_model_changes_refused_total", "changes of models that were refused",
                count == refused.end() ? 0 : static_cast<double>(count->second),
                {{"status", std::to_string(status)}});
  }
  AddHosts(fleet, out);
  out.Counter("spillway_gateway_gpu_on_seconds_total", "time that GPUs had instances",
              static_cast<double>(fleet.gpu_ms) / 1000);
  out.Counter("spillway_gateway_moves_total", "moves of instances", static_cast<double>(fleet.moves_done),
              {{"result", "done"}});
  out.Counter("spillway_gateway_moves_total", "moves of instances", static_cast<double>(fleet.moves_failed),
              {{"result", "failed"}});
  return out.Text();
}

std::string MetricsText(const Broker& broker, const ServerCounts& counts) {
  Families out;
  AddRequests(broker, counts, out);
  AddMemory(broker, out);
  AddCounts(broker.counts(), counts, out);
  AddSlices(broker, out);
  AddGpus(broker, out);
  return out.Text();
}

}  // namespace spillway::gateway
