// SPDX-License-Identifier: Apache-2.0
#include "scheduler/controller/host_message.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "base/yaml/scalars.h"
#include "scheduler/controller/fleet_json.h"

namespace spillway::scheduler {
namespace {

using nlohmann::json;

json Of(const WantedInstance& one) {
  return {{"instance", one.instance}, {"model", ToJson(one.model)}, {"place", ToJson(one.place)}};
}

// A list of at most so many.
const json& Instances(const json& text, const char* key) {
  const json& list = text.at(key);
  if (!list.is_array() || list.size() > kMaxInstancesOfHost)
    throw std::invalid_argument(fmt::format("{}: expected a list of at most {}", key, kMaxInstancesOfHost));
  return list;
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

// json takes 1e300 for an int, and -1 for a number without a sign.
template <class Number>
Number WholeNumber(const json& text, const char* key) {
  const json& number = text.at(key);
  constexpr auto kMost = static_cast<uint64_t>(std::numeric_limits<Number>::max());
  if (!number.is_number_unsigned() || number.get<uint64_t>() > kMost)
    throw std::invalid_argument(fmt::format("{}: expected a whole number from 0 to {}", key, kMost));
  return number.get<Number>();
}

// Names come to logs, and into files' names.
void CheckName(const std::string& name, const char* key) {
  if (!yaml::IsName(name)) throw std::invalid_argument(fmt::format("{}: expected a name", key));
}

WantedInstance WantedOf(const json& text) {
  WantedInstance one{WholeNumber<uint64_t>(text, "instance"), ModelOf(text.at("model")),
                     PlaceOf(text.at("place"))};
  CheckName(one.model.name, "model.name");
  CheckName(one.place.gpu, "place.gpu");
  if (!one.model.host_program.empty()) CheckName(one.model.host_program, "model.host_program");
  return one;
}

// An executor's last words come to an operator's terminal: bytes below a space, DEL, and U+0080 to U+009F,
// which in UTF-8 are 0xC2 and one of 0x80 to 0x9F, are spaces there.
std::string Printable(std::string text) {
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte < ' ' || byte == 0x7f) text[i] = ' ';
    if (byte == 0xc2 && i + 1 < text.size() && static_cast<unsigned char>(text[i + 1]) < 0xa0)
      text[i] = text[i + 1] = ' ';
  }
  return text;
}

// Text that was read as JSON, so it is UTF-8: of which no character is cut in two.
std::string Beginning(const std::string& text, size_t most) {
  size_t end = std::min(text.size(), most);
  if (end < text.size())
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;
  return text.substr(0, end);
}

std::vector<Gpu> GpusOf(const json& text) {
  if (!text.is_array() || text.size() > kMaxGpusOfHost)
    throw std::invalid_argument(fmt::format("gpus: expected a list of at most {}", kMaxGpusOfHost));
  std::vector<Gpu> gpus;
  std::set<std::string> names;
  for (const json& entry : text) {
    (void)WholeNumber<int>(entry, "memory_mib");
    Gpu gpu = GpuOf(entry);
    gpu.lost = Printable(Beginning(gpu.lost, kMaxGpuWords));
    if (!yaml::IsName(gpu.id) || gpu.id.size() > kMaxGpuName)
      throw std::invalid_argument(fmt::format(
          "gpus[{}].id: expected 1 to {} letters, digits, '.', '_' or '-'", gpus.size(), kMaxGpuName));
    if (!names.insert(gpu.id).second)
      throw std::invalid_argument(fmt::format("gpus[{}].id: duplicate name", gpus.size()));
    if (!yaml::IsName(gpu.model))
      throw std::invalid_argument(
          fmt::format("gpus[{}].model: expected 1 to 64 letters, digits, '.', '_' or '-'", gpus.size()));
    gpus.push_back(std::move(gpu));
  }
  return gpus;
}

// Of a node agent of before there were any: none.
std::set<std::string> ProgramsOf(const json& report) {
  std::set<std::string> programs;
  if (!report.contains("programs")) return programs;
  const json& text = report["programs"];
  if (!text.is_array() || text.size() > kMaxProgramsOfHost)
    throw std::invalid_argument(fmt::format("programs: expected a list of at most {}", kMaxProgramsOfHost));
  for (const json& entry : text) {
    if (!entry.is_string() || !yaml::IsName(entry.get<std::string>()))
      throw std::invalid_argument("programs: expected names of 1 to 64 letters, digits, '.', '_' or '-'");
    programs.insert(entry.get<std::string>());
  }
  return programs;
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
               {"wait_ms", report.wait_ms},
               {"programs", report.programs}});
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
    report.gpus = GpusOf(parsed.at("gpus"));
    for (const json& entry : Instances(parsed, "held")) {
      Held held{WholeNumber<uint64_t>(entry, "instance")};
      held.has_failed = entry.contains("failed");
      if (held.has_failed) {
        held.why = Printable(Beginning(entry["failed"].get<std::string>(), kMaxLastWords));
        held.slice_refused = entry.at("slice_refused");
      }
      report.held.push_back(held);
    }
    report.revision = WholeNumber<uint64_t>(parsed, "revision");
    report.wait_ms = WholeNumber<Millis>(parsed, "wait_ms");
    report.programs = ProgramsOf(parsed);
    return report;
  });
}

Result<HostOrders> ParseHostOrders(std::string_view text) {
  return Parse<HostOrders>(text, [](const json& parsed) {
    HostOrders orders{WholeNumber<uint64_t>(parsed, "revision"), {}};
    std::set<uint64_t> named;
    for (const json& one : Instances(parsed, "instances")) {
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
