// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/learned_speeds.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace spillway::scheduler {

void LearnedSpeeds::Learn(const std::vector<Sample>& samples, Millis now, ServiceTimes& times) {
  std::map<uint64_t, uint64_t> requests;
  std::map<std::pair<std::string, std::string>, std::vector<double>> told;
  for (const Sample& one : samples) {
    requests[one.instance] = one.requests;
    const auto before = requests_.find(one.instance);
    const bool is_news = before == requests_.end() || one.requests != before->second;
    if (is_news && one.requests >= kLeastRequests && std::isfinite(one.ms) && one.ms > 0 && !one.gpu.empty())
      told[{one.model, one.gpu}].push_back(one.ms);
  }
  requests_ = std::move(requests);
  for (auto& [key, all] : told) {
    const auto median = all.begin() + static_cast<std::ptrdiff_t>((all.size() - 1) / 2);
    std::nth_element(all.begin(), median, all.end());
    times[key.first][key.second] = {*median, now};
  }
  for (auto& [model, of_model] : times)
    std::erase_if(of_model, [&](const auto& entry) { return now - entry.second.at >= kForgotten; });
  std::erase_if(times, [](const auto& entry) { return entry.second.empty(); });
}

double LearnedSpeeds::Slowness(const ServiceTimes& times, const std::string& model, const std::string& gpu,
                               Millis now) {
  const auto of_model = times.find(model);
  if (of_model == times.end()) return 1;
  const auto is_kept = [&](const ServiceTime& figure) { return now - figure.at < kForgotten; };
  const auto here = of_model->second.find(gpu);
  if (here == of_model->second.end() || !is_kept(here->second)) return 1;
  double least = here->second.ms;
  for (const auto& [other, figure] : of_model->second)
    if (is_kept(figure)) least = std::min(least, figure.ms);
  return std::min(here->second.ms / least, kMost);
}

std::optional<double> LearnedSpeeds::ExpectedMs(const ServiceTimes& times, const std::string& model,
                                                const std::string& gpu, Millis now) {
  std::optional<double> quickest;
  const auto of_model = times.find(model);
  if (of_model == times.end()) return quickest;
  for (const auto& [name, figure] : of_model->second) {
    if (now - figure.at >= kForgotten) continue;
    if (name == gpu) return figure.ms;
    quickest = std::min(quickest.value_or(figure.ms), figure.ms);
  }
  return quickest;
}

std::map<std::string, double> LearnedSpeeds::Of(const ServiceTimes& times, const std::string& model,
                                                Millis now) {
  std::map<std::string, double> slowness;
  const auto of_model = times.find(model);
  if (of_model == times.end()) return slowness;
  for (const auto& [gpu, figure] : of_model->second)
    if (now - figure.at < kForgotten) slowness[gpu] = Slowness(times, model, gpu, now);
  return slowness;
}

}  // namespace spillway::scheduler
