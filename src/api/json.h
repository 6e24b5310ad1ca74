// SPDX-License-Identifier: Apache-2.0
// The switch's views as JSON, as docs/cli.md describes them. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "health/checker.h"
#include "switch/switch.h"

namespace spillway::api {

// "unanswered", "refused" or "errors".
const char* Word(switching::FailingReason reason);

nlohmann::json ToJson(const switching::InterfaceView& interface);
nlohmann::json ToJson(const switching::UnitView& unit);
nlohmann::json ToJson(const switching::ServiceView& service);
nlohmann::json ToJson(const switching::FlowTableView& table);
nlohmann::json ToJson(const switching::ApplyReport& report);
nlohmann::json ToJson(const health::CheckView& check);
nlohmann::json ToJson(const spw_counters& counters);

// Units as above, each with `ejected` and `health`: what its checks say, the worst first; null without a
// check.
nlohmann::json UnitsWithHealth(const std::vector<switching::UnitView>& units,
                               const std::vector<health::CheckView>& checks);

template <class View>
nlohmann::json ToJson(const std::vector<View>& views) {
  nlohmann::json array = nlohmann::json::array();
  for (const View& view : views) array.push_back(ToJson(view));
  return array;
}

// Text of `json`; bytes that are not UTF-8 are replaced, never thrown over.
std::string Dump(const nlohmann::json& json);

}  // namespace spillway::api
