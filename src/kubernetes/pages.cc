// SPDX-License-Identifier: Apache-2.0
// The extender's pages of bookings and metrics.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "kubernetes/extender.h"
#include "kubernetes/replies.h"

namespace spillway::kubernetes {
namespace {

using api::Response;
using scheduler::AllocationCache;
using std::chrono::duration;
using std::chrono::steady_clock;

}  // namespace

Response Extender::Bookings() const {
  nlohmann::json list = nlohmann::json::array();
  {
    const base::MutexLock lock(cache_mutex_);
    for (const AllocationCache::View& view : cache_.Bookings())
      list.push_back({{"pod", view.pod},
                      {"uid", view.uid},
                      {"node", view.node},
                      {"gpu", view.place.gpu},
                      {"slice", view.place.slice},
                      {"milli", view.milli},
                      {"state", ToString(view.state)},
                      {"placed", view.placed}});
  }
  return Json(list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string Extender::MetricsText() const {
  const base::MutexLock lock(cache_mutex_);
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    text +=
        fmt::format("# HELP spillway_extender_{0} {1}\n# TYPE spillway_extender_{0} {2}\n", name, help, type);
  };
  const auto one = [&](const char* name, const char* type, const char* help, double value) {
    head(name, type, help);
    text += fmt::format("spillway_extender_{} {}\n", name, value);
  };
  head("requests_total", "counter", "Requests of the scheduler, by verb and how they ended");
  for (const auto& [name, verb] : verbs_)
    for (const bool ok : {true, false})
      text += fmt::format("spillway_extender_requests_total{{verb=\"{}\",result=\"{}\"}} {}\n", name,
                          ok ? "ok" : "failed", ok ? verb.ok : verb.failed);
  head("request_seconds_total", "counter", "Time spent on the scheduler's requests");
  for (const auto& [name, verb] : verbs_)
    text += fmt::format("spillway_extender_request_seconds_total{{verb=\"{}\"}} {}\n", name, verb.seconds);
  head("refused_nodes_total", "counter", "Nodes that filter refused: busy now, or unfit for good");
  for (const auto& [reason, count] : refused_nodes_)
    text += fmt::format("spillway_extender_refused_nodes_total{{reason=\"{}\"}} {}\n", reason, count);
  std::map<std::string, int> states = {{"fixed", 0}, {"reserved", 0}, {"confirmed", 0}, {"doubtful", 0}};
  int unplaced = 0;
  for (const AllocationCache::View& view : cache_.Bookings()) {
    ++states[ToString(view.state)];
    unplaced += view.placed ? 0 : 1;
  }
  head("bookings", "gauge", "Jobs in the allocation cache, by state");
  for (const auto& [state, count] : states)
    text += fmt::format("spillway_extender_bookings{{state=\"{}\"}} {}\n", state, count);
  one("unplaced_bookings", "gauge", "Jobs that run where by the rules they do not fit", unplaced);
  one("given_back_total", "counter", "Reservations given back as the API server refused",
      static_cast<double>(given_back_));
  one("gpus", "gauge", "GPUs known", cache_.cluster().gpus());
  one("gpus_on", "gauge", "GPUs on which a job is", cache_.cluster().gpus_on());
  one("allocated_milli", "gauge", "Thousandths of GPUs booked",
      static_cast<double>(cache_.cluster().allocated_milli()));
  one("waiting_pods", "gauge", "Pods that every node refused, and that count among the expected",
      static_cast<double>(cache_.waiting()));
  one("learnt_total", "counter", "How often the expected jobs were learnt anew",
      static_cast<double>(cache_.learnt()));
  one("in_step", "gauge", "1: the allocation cache has been compared with the API server", in_step_ ? 1 : 0);
  one("sync_age_seconds", "gauge", "Time since the last comparison with the API server",
      in_step_ && !config_.api_server.empty() ? duration<double>(steady_clock::now() - synced_).count() : 0);
  one("sync_seconds", "gauge", "Duration of the last successful comparison with the API server",
      duration<double>(sync_took_).count());
  one("sync_failures_total", "counter", "Comparisons with the API server that failed",
      static_cast<double>(sync_failures_));
  one("watch_events_total", "counter", "Events that the watch of pods has received",
      static_cast<double>(watched_events_));
  one("unreadable_pods", "gauge", "Pods on nodes whose request for GPUs is not understood",
      static_cast<double>(unreadable_pods_));
  return text;
}

}  // namespace spillway::kubernetes
