// SPDX-License-Identifier: Apache-2.0
#include "ledger_file.h"

#include <map>
#include <nlohmann/json.hpp>

#include "base/file.h"

namespace spillway::switching {
namespace {

using nlohmann::json;

bool RestoreBook(model::CodeBook& book, const json& saved) {
  for (const auto& [name, code] : saved.items()) {
    if (!book.Restore(name, code.get<uint32_t>())) return false;
  }
  return true;
}

}  // namespace

Result<void> SaveLedger(const Ledger& ledger, const std::string& path) {
  json saved;
  saved["layout"] = SPW_LAYOUT;
  saved["services"] = ledger.services.entries();
  saved["servers"] = ledger.servers.entries();
  saved["services_freed"] = ledger.services.freed();
  saved["servers_freed"] = ledger.servers.freed();
  saved["maps"] = ledger.maps;
  saved["unit_index"] = ledger.unit_index;
  saved["rings"] = json::object();
  for (const auto& [name, piece] : ledger.rings) saved["rings"][name] = {piece.offset, piece.slots};
  saved["status"] = json::object();
  for (const auto& [name, status] : ledger.status) saved["status"][name] = static_cast<int>(status);
  return base::WriteFile(path, saved.dump(1) + "\n");
}

std::optional<Ledger> LoadLedger(const std::string& path) {
  const auto text = base::ReadFile(path);
  if (!text) return std::nullopt;
  const json saved = json::parse(*text, nullptr, false);
  if (saved.is_discarded() || !saved.is_object()) return std::nullopt;
  Ledger ledger;
  try {
    if (saved.at("layout") != SPW_LAYOUT) return std::nullopt;
    if (!RestoreBook(ledger.services, saved.at("services"))) return std::nullopt;
    if (!RestoreBook(ledger.servers, saved.at("servers"))) return std::nullopt;
    ledger.services.RestoreFreed(saved.at("services_freed").get<std::vector<uint32_t>>());
    ledger.servers.RestoreFreed(saved.at("servers_freed").get<std::vector<uint32_t>>());
    ledger.maps = saved.at("maps").get<uint64_t>();
    ledger.unit_index = saved.at("unit_index").get<std::map<std::string, uint32_t>>();
    for (const auto& [name, index] : ledger.unit_index)
      if (index >= SPW_UNITS_PER_SERVER) return std::nullopt;
    for (const auto& [name, piece] : saved.at("rings").items()) {
      ledger.rings[name] = {piece.at(0).get<uint32_t>(), piece.at(1).get<uint32_t>()};
    }
    for (const auto& [name, status] : saved.at("status").items()) {
      const int value = status.get<int>();
      if (value < SPW_UNIT_ABSENT || value > SPW_UNIT_DOWN) return std::nullopt;
      ledger.status[name] = static_cast<spw_unit_status>(value);
    }
  } catch (const json::exception&) {
    return std::nullopt;
  }
  return ledger;
}

bool RingsFit(const Ledger& ledger, uint32_t ring_capacity) {
  std::map<uint64_t, uint64_t> pieces;  // offset -> end
  for (const auto& [name, piece] : ledger.rings) {
    const uint64_t end = uint64_t{piece.offset} + piece.slots;
    if (piece.slots == 0 || end > ring_capacity || !pieces.emplace(piece.offset, end).second) return false;
  }
  uint64_t last = 0;
  for (const auto& [offset, end] : pieces) {
    if (offset < last) return false;
    last = end;
  }
  return true;
}

}  // namespace spillway::switching
