// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/host_message.h"

#include <set>

#include "scheduler/controller/fleet_json.h"

namespace spillway::scheduler {
namespace {

using nlohmann::json;

json Of(const WantedInstance& one) {
  return {{"instance", one.instance}, {"model", ToJson(one.model)}, {"place", ToJson(one.place)}};
}

WantedInstance WantedOf(const json& text) {
  return {text.at("instance"), ModelOf(text.at("model")), PlaceOf(text.at("place"))};
}

template <class Message, class Read>
Result<Message> Parse(std::string_view text, Read read) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return Fail(ErrorCode::kBadInput, "expected a JSON object");
  try {
    return read(parsed);
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kBadInput, error.what());
  }
}

// Whatever an executor's last words were.
std::string Dump(const json& text) { return text.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string ToText(const HostReport& report) {
  json gpus = json::array(), held = json::array();
  for (const Gpu& gpu : report.gpus) gpus.push_back(ToJson(gpu));
  for (const Held& one : report.held) {
    held.push_back({{"instance", one.instance}});
    if (one.has_failed) held.back().update({{"failed", one.why}, {"slice_refused", one.slice_refused}});
  }
  return Dump({{"agent", report.agent},
               {"gpus", gpus},
               {"held", held},
               {"revision", report.revision},
               {"wait_ms", report.wait_ms}});
}

std::string ToText(const HostOrders& orders) {
  json wanted = json::array();
  for (const WantedInstance& one : orders.wanted) wanted.push_back(Of(one));
  return Dump({{"revision", orders.revision}, {"instances", wanted}});
}

std::string ToText(const WantedInstance& instance) { return Dump(Of(instance)); }

Result<HostReport> ParseHostReport(std::string_view text) {
  return Parse<HostReport>(text, [](const json& parsed) {
    HostReport report;
    report.agent = parsed.at("agent");
    for (const json& gpu : parsed.at("gpus")) report.gpus.push_back(GpuOf(gpu));
    for (const json& entry : parsed.at("held")) {
      Held held{entry.at("instance")};
      held.has_failed = entry.contains("failed");
      if (held.has_failed) {
        held.why = entry["failed"];
        held.slice_refused = entry.at("slice_refused");
      }
      report.held.push_back(held);
    }
    report.revision = parsed.at("revision");
    report.wait_ms = parsed.at("wait_ms");
    return report;
  });
}

Result<HostOrders> ParseHostOrders(std::string_view text) {
  return Parse<HostOrders>(text, [](const json& parsed) {
    HostOrders orders{parsed.at("revision"), {}};
    std::set<uint64_t> named;
    for (const json& one : parsed.at("instances")) {
      WantedInstance wanted = WantedOf(one);
      if (named.insert(wanted.instance).second) orders.wanted.push_back(std::move(wanted));
    }
    return orders;
  });
}

Result<WantedInstance> ParseWantedInstance(std::string_view text) {
  return Parse<WantedInstance>(text, [](const json& parsed) { return WantedOf(parsed); });
}

}  // namespace spillway::scheduler
