// SPDX-License-Identifier: Apache-2.0
#include "sim/worker_cores.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <deque>
#include <functional>
#include <queue>
#include <vector>

#include "sim/random.h"

namespace spillway::sim {
namespace {

class ServiceDraw {
 public:
  explicit ServiceDraw(const CoreService& service) : service_(service) {
    if (service.scan_share > 0) {
      short_us_ = service.mean_us / (1 - service.scan_share + service.scan_share * service.scan_ratio);
    } else {
      sigma_ = std::sqrt(std::log1p(service.scv));
    }
  }
  double operator()(Random& random) const {
    if (service_.scan_share > 0)
      return random.Uniform() <= service_.scan_share ? short_us_ * service_.scan_ratio : short_us_;
    if (sigma_ == 0) return service_.mean_us;
    // The logarithm of a lognormal of mean 1 has mean -sigma^2 / 2.
    return service_.mean_us * std::exp(sigma_ * random.Normal() - sigma_ * sigma_ / 2);
  }

 private:
  const CoreService service_;
  double sigma_ = 0, short_us_ = 0;
};

struct Request {
  double arrival, service;
};

// Cores with a queue each, of which idle ones steal.
class StealingCores {
 public:
  StealingCores(const CoreSetup& setup, std::vector<double>& latencies)
      : costs_(setup.costs), queues_(setup.cores), busy_(setup.cores), latencies_(latencies) {}

  void Arrive(const Request& request, uint32_t core, Random& random) {
    FinishUntil(request.arrival, random);
    if (!busy_[core]) return Start(core, request, request.arrival, 0);
    // A core that has nothing to do looks around all the time.
    for (uint32_t i = 1; i < queues_.size() && idle_ > 0; i++) {
      const auto other = static_cast<uint32_t>((core + i) % queues_.size());
      if (!busy_[other]) return Steal(other, request, request.arrival);
    }
    queues_[core].push_back(request);
    waiting_++;
  }
  void FinishUntil(double time, Random& random) {
    while (!finishing_.empty() && finishing_.top().first <= time) {
      const auto [now, core] = finishing_.top();
      finishing_.pop();
      busy_[core] = false;
      idle_++;
      if (!queues_[core].empty()) {
        const Request next = queues_[core].front();
        queues_[core].pop_front();
        waiting_--;
        Start(core, next, now, 0);
      } else if (waiting_ > 0) {
        auto victim = static_cast<uint32_t>(random.Bits() % queues_.size());
        while (queues_[victim].empty()) victim = static_cast<uint32_t>((victim + 1) % queues_.size());
        const Request next = queues_[victim].front();
        queues_[victim].pop_front();
        waiting_--;
        Steal(core, next, now);
      }
    }
  }
  uint64_t stolen() const { return stolen_; }
  void CountAllIdle() { idle_ = queues_.size(); }

 private:
  void Steal(uint32_t core, const Request& request, double now) {
    stolen_++;
    Start(core, request, now, costs_.steal_us);
  }
  void Start(uint32_t core, const Request& request, double now, double cost) {
    busy_[core] = true;
    idle_--;
    const double end = now + cost + request.service;
    finishing_.emplace(end, core);
    latencies_.push_back(end - request.arrival);
  }

  const CoreCosts costs_;
  std::vector<std::deque<Request>> queues_;
  std::vector<char> busy_;
  std::priority_queue<std::pair<double, uint32_t>, std::vector<std::pair<double, uint32_t>>, std::greater<>>
      finishing_;
  std::vector<double>& latencies_;
  size_t idle_ = 0, waiting_ = 0;
  uint64_t stolen_ = 0;
};

}  // namespace

std::string_view ToString(CoreFrontEnd front_end) {
  switch (front_end) {
    case CoreFrontEnd::kRss:
      return "rss";
    case CoreFrontEnd::kSteal:
      return "steal";
    case CoreFrontEnd::kDispatch:
      return "dispatch";
    case CoreFrontEnd::kIdeal:
      return "ideal";
  }
  return "unknown";
}

CoreResult SimulateCores(const CoreSetup& setup) {
  // Each kind of draw has a stream of its own, so front ends meet the same requests.
  Random arrivals(setup.seed * 3), services(setup.seed * 3 + 1), hashes(setup.seed * 3 + 2);
  const ServiceDraw draw(setup.service);
  const double gap = setup.service.mean_us / (setup.load * setup.cores);
  const uint64_t warm = setup.requests / 10;
  std::vector<double> latencies;
  latencies.reserve(setup.requests + warm);

  std::vector<double> free_at(setup.cores, 0.0);  // by core; of one queue: a heap, earliest first
  StealingCores stealing(setup, latencies);
  stealing.CountAllIdle();
  Random victims(setup.seed * 3 + 7);
  double now = 0;
  for (uint64_t i = 0; i < setup.requests + warm; i++) {
    now += gap * arrivals.Exponential();
    const double service = draw(services);
    const auto core = static_cast<uint32_t>(hashes.Bits() % setup.cores);
    switch (setup.front_end) {
      case CoreFrontEnd::kRss: {
        double& free = free_at[core];
        free = std::max(free, now) + service;
        latencies.push_back(free - now);
        break;
      }
      case CoreFrontEnd::kSteal:
        stealing.Arrive({now, service}, core, victims);
        break;
      case CoreFrontEnd::kDispatch:
      case CoreFrontEnd::kIdeal: {
        const double cost = setup.front_end == CoreFrontEnd::kDispatch ? setup.costs.dispatch_us : 0;
        std::pop_heap(free_at.begin(), free_at.end(), std::greater<>());
        double& free = free_at.back();
        free = std::max(free, now) + cost + service;
        latencies.push_back(free - now);
        std::push_heap(free_at.begin(), free_at.end(), std::greater<>());
        break;
      }
    }
  }
  stealing.FinishUntil(INFINITY, victims);

  latencies.erase(latencies.begin(), latencies.begin() + static_cast<std::ptrdiff_t>(warm));
  CoreResult result;
  for (double latency : latencies) result.mean_us += latency / static_cast<double>(latencies.size());
  std::sort(latencies.begin(), latencies.end());
  result.p50_us = latencies[latencies.size() / 2];
  result.p99_us = latencies[std::min(latencies.size() - 1, latencies.size() * 99 / 100)];
  result.stolen_share = static_cast<double>(stealing.stolen()) / static_cast<double>(setup.requests + warm);
  return result;
}

double ServiceP99(const CoreService& service) {
  if (service.scan_share > 0) {
    const double short_us =
        service.mean_us / (1 - service.scan_share + service.scan_share * service.scan_ratio);
    return service.scan_share > 0.01 ? short_us * service.scan_ratio : short_us;
  }
  constexpr double kNormal99 = 2.3263;
  const double sigma = std::sqrt(std::log1p(service.scv));
  return service.mean_us * std::exp(kNormal99 * sigma - sigma * sigma / 2);
}

double SustainedLoad(CoreSetup setup, double times_mean) {
  const double limit_us = std::max(times_mean * setup.service.mean_us, 2 * ServiceP99(setup.service));
  int low = 0, high = 256;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    setup.load = middle / 256.0;
    (SimulateCores(setup).p99_us <= limit_us ? low : high) = middle;
  }
  return low / 256.0;
}

}  // namespace spillway::sim
