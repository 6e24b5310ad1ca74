// SPDX-License-Identifier: Apache-2.0
#include "scheduler/extender/pod.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <tuple>

#include "base/yaml/problems.h"
#include "scheduler/cluster.h"
#include "scheduler/extender/kube_json.h"
#include "scheduler/gpu_model.h"

namespace spillway::scheduler {
namespace {

using nlohmann::json;

constexpr std::string_view kMigPrefix = "nvidia.com/mig-";
constexpr double kMaxMilli = 100'000'000;
constexpr size_t kMaxModelsText = 4096;  // bytes; the API server takes 256 KiB

using Amounts = std::map<std::string, double>;

bool Counts(std::string_view resource) {
  return resource == "cpu" || resource == "memory" || resource == kMilliResource ||
         resource == kPluginResource || resource.starts_with(kMigPrefix);
}

Amounts ReadAmounts(const json* resources) {
  Amounts amounts;
  if (resources == nullptr || !resources->is_object()) return amounts;
  for (const auto& item : resources->items())
    if (Counts(item.key())) amounts[item.key()] = ParseQuantity(item.value()).value_or(0);
  return amounts;
}

// A container's requests; a limit without a request is one.
Amounts OfContainer(const json& container) {
  const json* resources = Find(container, "resources");
  if (resources == nullptr) return {};
  Amounts amounts = ReadAmounts(Find(*resources, "requests"));
  amounts.merge(ReadAmounts(Find(*resources, "limits")));
  return amounts;
}

void Add(Amounts& to, const Amounts& more) {
  for (const auto& [name, amount] : more) to[name] += amount;
}

// As Kubernetes sums them: containers and side cars run together, the other init containers one by one,
// beside the side cars before them.
Amounts OfPod(const json& spec) {
  Amounts together, most;
  const auto at_least = [&](const Amounts& amounts) {
    for (const auto& [name, amount] : amounts) most[name] = std::max(most[name], amount);
  };
  if (const json* list = Find(spec, "initContainers"); list != nullptr && list->is_array())
    for (const json& container : *list) {
      if (TextAt(container, "restartPolicy") == "Always") {
        Add(together, OfContainer(container));
        continue;
      }
      Amounts now = together;
      Add(now, OfContainer(container));
      at_least(now);
    }
  if (const json* list = Find(spec, "containers"); list != nullptr && list->is_array())
    for (const json& container : *list) Add(together, OfContainer(container));
  at_least(together);
  Add(most, ReadAmounts(Find(spec, "overhead")));
  return most;
}

tl::unexpected<Error> Refuse(std::string_view key, std::string_view expected, const std::string& got) {
  return Fail(ErrorCode::kBadInput, fmt::format("{}: expected {}, got {}", key, expected, got));
}

std::string Number(double value) { return fmt::format("{:.15g}", value); }

struct MigName {
  int compute = 0, gb = 0;
};

std::optional<MigName> ParseMig(std::string_view text) {
  MigName mig;
  const char* end = text.data() + text.size();
  const auto [g, bad] = std::from_chars(text.data(), end, mig.compute);
  if (bad != std::errc() || end - g < 3 || g[0] != 'g' || g[1] != '.') return std::nullopt;
  const auto [gb, worse] = std::from_chars(g + 2, end, mig.gb);
  if (worse != std::errc() || std::string_view(gb, static_cast<size_t>(end - gb)) != "gb" ||
      mig.compute < 1 || mig.gb < 1)
    return std::nullopt;
  return mig;
}

// Thousandths of GPUs as a job: a part of one, or so many whole ones.
Result<void> TakeMilli(double milli, PodAsk& ask) {
  const bool whole = std::fmod(milli, kWholeGpu) == 0;
  if (std::floor(milli) != milli || milli < 1 || milli > kMaxGpus * kWholeGpu ||
      (milli > kWholeGpu && !whole))
    return Refuse(kMilliResource,
                  fmt::format("1 to {}, or whole GPUs as {}, {}, ... up to {}", kWholeGpu, 2 * kWholeGpu,
                              3 * kWholeGpu, kMaxGpus * kWholeGpu),
                  Number(milli));
  ask.giver = Giver::kSpillway;
  ask.job.gpus = whole ? static_cast<int>(milli) / kWholeGpu : 1;
  ask.job.milli = whole ? kWholeGpu : static_cast<int>(milli);
  return {};
}

Result<void> TakeResources(const Amounts& amounts, PodAsk& ask) {
  const auto amount = [&](const char* name) {
    const auto at = amounts.find(name);
    return at == amounts.end() ? 0.0 : at->second;
  };
  ask.job.gpus = 0;
  ask.job.milli = 0;
  ask.job.cpu_milli = static_cast<int>(std::min(std::ceil(amount("cpu") * 1000), kMaxMilli));
  ask.job.memory_mib = static_cast<int>(std::min(std::ceil(amount("memory") / (1 << 20)), kMaxMilli));
  int kinds = 0;
  for (const auto& [name, count] : amounts) {
    if (name == "cpu" || name == "memory" || count == 0) continue;
    if (++kinds > 1) return Refuse(name, "a pod that asks for GPUs in one way", "a second one");
    if (name == kMilliResource) {
      if (auto taken = TakeMilli(count, ask); !taken) return taken;
      continue;
    }
    ask.giver = Giver::kDevicePlugin;
    if (name == kPluginResource) {
      if (std::floor(count) != count || count > kMaxGpus)
        return Refuse(name, fmt::format("a whole number up to {}", kMaxGpus), Number(count));
      ask.job.gpus = static_cast<int>(count);
      ask.job.milli = kWholeGpu;
      continue;
    }
    ask.mig = name.substr(kMigPrefix.size());
    const auto mig = ParseMig(ask.mig);
    if (!mig) return Refuse(name, "nvidia.com/mig-Cg.Mgb, such as nvidia.com/mig-3g.40gb", ask.mig);
    if (count != 1) return Refuse(name, "one slice", Number(count));
    ask.job.gpus = 1;
    ask.job.milli = std::min(mig->compute, 7) * kWholeGpu / 7;
  }
  return {};
}

}  // namespace

std::optional<Profile> ProfileOn(const GpuModel& model, const std::string& text) {
  const auto mig = ParseMig(text);
  if (!mig || !model.mig || model.slice_memory_gb <= 0) return std::nullopt;
  constexpr double kRounding = 0.05;  // an H200's slices of 18 GB make a 3g.71gb
  for (int p = 0; p < kProfiles; ++p) {
    const ProfileShape& shape = ShapeOf(static_cast<Profile>(p));
    const double gb = shape.memory * model.slice_memory_gb;
    if (shape.compute == mig->compute && std::abs(mig->gb - gb) <= kRounding * gb)
      return static_cast<Profile>(p);
  }
  return std::nullopt;
}

namespace {

Result<PodAsk> ReadAsk(const json& pod) {
  const json* meta = Find(pod, "metadata");
  const json* spec = Find(pod, "spec");
  if (meta == nullptr || spec == nullptr || TextAt(*meta, "name").empty())
    return Fail(ErrorCode::kBadInput, "Pod: expected a pod with metadata.name and spec");
  PodAsk ask;
  ask.name = TextAt(*meta, "name");
  ask.space = TextAt(*meta, "namespace");
  ask.uid = TextAt(*meta, "uid");
  // As Kubernetes has them; they are kept for thousands of pods.
  for (const auto& [key, text, most] : {std::tuple("name", &ask.name, kMaxName),
                                        {"namespace", &ask.space, kMaxLabel},
                                        {"uid", &ask.uid, size_t{128}}})
    if (text->size() > most)
      return Fail(ErrorCode::kBadInput, fmt::format("Pod: metadata.{}: expected at most {} bytes, got {}",
                                                    key, most, text->size()));
  if (ask.space.empty()) ask.space = "default";
  const json none = json::object();
  const json* notes = Find(*meta, "annotations");
  if (notes == nullptr) notes = &none;
  if (auto taken = TakeResources(OfPod(*spec), ask); !taken) return tl::make_unexpected(taken.error());
  const std::string models = TextAt(*notes, kModelsAnnotation).substr(0, kMaxModelsText);
  for (size_t from = 0; from < models.size();) {
    const size_t end = std::min(models.find('|', from), models.size());
    const std::string model = models.substr(from, end - from);
    if (!model.empty() && std::find(ask.models.begin(), ask.models.end(), model) == ask.models.end())
      ask.models.push_back(model);
    if (ask.models.size() > size_t{kMaxModels}) break;  // nobody has so many; ReadPodAsk refuses them
    from = end + 1;
  }
  return ask;
}

}  // namespace

Result<PodAsk> ReadPodAsk(const json& pod) {
  auto ask = ReadAsk(pod);
  if (!ask) return ask;
  const json* notes = Find(*Find(pod, "metadata"), "annotations");
  if (notes == nullptr) return ask;
  if (const size_t bytes = TextAt(*notes, kModelsAnnotation).size(); bytes > kMaxModelsText)
    return Refuse(kModelsAnnotation, fmt::format("at most {} bytes", kMaxModelsText),
                  fmt::format("{}", bytes));
  if (ask->models.size() > size_t{kMaxModels})
    return Refuse(kModelsAnnotation, fmt::format("at most {} models", kMaxModels), "more");
  // kube-scheduler does not show such a pod to an extender with managedResources: it would run on a guess.
  if (ask->giver == Giver::kNobody && Find(*notes, kMilliResource) != nullptr)
    return Refuse(kMilliResource, "as a resource in limits", "an annotation");
  return ask;
}

Result<BoundPod> ReadBoundPod(const json& pod) {
  auto ask = ReadAsk(pod);
  if (!ask) return tl::make_unexpected(ask.error());
  BoundPod bound;
  bound.ask = std::move(*ask);
  bound.node = TextAt(*Find(pod, "spec"), "nodeName");
  if (const json* notes = Find(*Find(pod, "metadata"), "annotations")) {
    bound.gpu = TextAt(*notes, kGpuAnnotation);
    bound.slice = TextAt(*notes, kSliceAnnotation);
  }
  if (const json* status = Find(pod, "status")) {
    const std::string phase = TextAt(*status, "phase");
    bound.finished = phase == "Succeeded" || phase == "Failed";
  }
  return bound;
}

UnreadablePod ReadUnreadablePod(const json& pod) {
  UnreadablePod unreadable;
  const json* spec = Find(pod, "spec");
  const json* status = Find(pod, "status");
  const std::string phase = status == nullptr ? "" : TextAt(*status, "phase");
  if (spec == nullptr || phase == "Succeeded" || phase == "Failed") return unreadable;
  unreadable.node = TextAt(*spec, "nodeName");
  bool spillway = false, plugin = false;
  for (const auto& [name, amount] : OfPod(*spec)) {
    spillway |= name == kMilliResource && amount != 0;
    plugin |= (name == kPluginResource || name.starts_with(kMigPrefix)) && amount != 0;
  }
  if (spillway) unreadable.givers.push_back(Giver::kSpillway);
  if (plugin) unreadable.givers.push_back(Giver::kDevicePlugin);
  return unreadable;
}

}  // namespace spillway::scheduler
