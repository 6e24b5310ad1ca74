// SPDX-License-Identifier: Apache-2.0
#include "gateway/report/gateway_report.h"

#include <future>
#include <memory>

#include "agent/boot_id.h"
#include "agent/reporter.h"
#include "agent/trigger.h"

namespace spillway::gateway {

GatewayLoad LoadOf(const Broker& broker) {
  GatewayLoad load;
  uint64_t busy = 0, cells = 0;
  for (const auto& slice : broker.Slices()) {
    if (!slice.alive || slice.is_starting) continue;
    busy += slice.busy_cells;
    cells += slice.cells;
  }
  if (cells > 0) load.share = static_cast<double>(busy) / static_cast<double>(cells);
  load.queue = static_cast<uint32_t>(broker.queued() + broker.running());
  for (const auto& answers : broker.counts().answers)
    load.completed += answers[static_cast<size_t>(Status::kOk)];
  return load;
}

GatewayReport::GatewayReport(Server& server, const agent::AgentConfig& config)
    : server_(server), thread_([this, config] { Loop(config); }) {}

GatewayReport::~GatewayReport() {
  {
    const base::MutexLock lock(mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  thread_.join();
}

void GatewayReport::Loop(agent::AgentConfig config) {
  agent::Reporter reporter(config, agent::TakeBootId(config.state_file));
  agent::Trigger trigger(config.trigger, config.meter.kind);
  for (;;) {
    {
      const base::MutexLock lock(mutex_);
      const auto stops = [this]() SPILLWAY_REQUIRES(mutex_) { return stop_; };
      if (changed_.WaitFor(mutex_, config.report.period, stops)) return;
    }
    // Shared: the server may come to it after nobody waits any more.
    auto told = std::make_shared<std::promise<GatewayLoad>>();
    auto heard = told->get_future();
    server_.Post([this, told] { told->set_value(LoadOf(server_.broker())); });
    while (heard.wait_for(std::chrono::milliseconds(100)) != std::future_status::ready) {
      const base::MutexLock lock(mutex_);
      if (stop_) return;
    }
    const GatewayLoad load = heard.get();
    const agent::Time now = std::chrono::steady_clock::now().time_since_epoch();
    agent::Reading reading;
    reading.at = now;
    reading.measure = load.share;
    reading.queue = load.queue;
    reading.completed = load.completed;
    reporter.Send(now, trigger.Update(now, reading), reading);
  }
}

}  // namespace spillway::gateway
