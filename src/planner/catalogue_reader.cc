// SPDX-License-Identifier: Apache-2.0
#include "planner/catalogue_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "base/print.h"
#include "base/yaml/documents.h"
#include "planner/file_parts.h"
#include "shipped_catalogue.inc"

namespace spillway::planner {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

// Every figure of an entry must say where it is from.
Sources ReadSources(Problems& problems, const MapReader& map, const std::vector<std::string>& figures) {
  Sources sources;
  const Field* field = map.Need("sources", "a map from figures, or rest, to where they are from");
  if (field == nullptr) return sources;
  for (const auto& [key, entry] : ReadEntries(problems, *field, "a map from figures, or rest, to texts")) {
    if (key != "rest" && std::find(figures.begin(), figures.end(), key) == figures.end())
      problems.Add(entry.line, entry.path, "expected a figure of this entry, or rest");
    if (auto text = yaml::ReadText(problems, entry, "where the figure is from")) sources[key] = *text;
  }
  if (sources.contains("rest")) return sources;
  for (const std::string& figure : figures)
    if (map.Find(figure) != nullptr && !sources.contains(figure))
      problems.Add(field->line, field->path,
                   fmt::format("expected where {} is from, under {} or rest, got nothing", figure, figure));
  return sources;
}

// `least` 0 admits free things.
void NeedNumber(Problems& problems, const MapReader& map, const char* key, const char* expected, double least,
                double& into) {
  TakeNumber(problems, into, map.Need(key, expected), least, kMaxQuantity);
}

void ReadKinds(Problems& problems, const Field& field, Node& node) {
  node.serves = {};
  const auto entries = yaml::ReadList(problems, field, "a list of node kinds");
  std::vector<std::string> words;
  for (NodeKind kind : kNodeKinds) words.push_back(ToString(kind));
  for (const Field& entry : entries)
    if (auto kind = ReadChoice(problems, entry, words)) node.serves[*kind] = true;
}

Dram ReadDram(Problems& problems, const Field& field) {
  MapReader map(problems, field, {"channels", "mega_transfers_per_s"});
  Dram dram;
  TakeInteger(problems, dram.channels, map.Need("channels", "how many memory channels"), 1, 1024);
  NeedNumber(problems, map, "mega_transfers_per_s", "transfers of a channel", kMinPositive,
             dram.mega_transfers_per_s);
  return dram;
}

CoreRate ReadCoreRate(Problems& problems, const Field& field) {
  MapReader map(problems, field, {"unit", "alone", "loaded"});
  CoreRate rate;
  Take(rate.unit, map.Need("unit", "the rate's unit"),
       [&](const Field& f) { return yaml::ReadText(problems, f, "the rate's unit"); });
  NeedNumber(problems, map, "alone", "a core's rate by itself", kMinPositive, rate.alone);
  NeedNumber(problems, map, "loaded", "a core's rate with all cores busy", kMinPositive, rate.loaded);
  return rate;
}

Node ReadNode(Problems& problems, const Field& field) {
  MapReader map(problems, field,
                {"name", "platform", "kinds", "cores", "network_gbps", "dram", "memory_gb", "device_slots",
                 "price_usd", "power_w", "throughput", "contention", "sources"});
  Node node;
  Take(node.name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
  if (const Field* f = map.Need("platform", "one of server, smartnic"))
    if (auto word = ReadChoice(problems, *f, {"server", "smartnic"}))
      node.platform = *word == 0 ? Platform::kServer : Platform::kSmartNic;
  if (const Field* f = map.Find("kinds")) ReadKinds(problems, *f, node);
  TakeInteger(problems, node.cores, map.Need("cores", "how many cores"), 1, 100'000);
  NeedNumber(problems, map, "network_gbps", "Gb/s of its network", kMinPositive, node.network_gbps);
  if (const Field* f = map.Need("dram", "a map of channels and mega_transfers_per_s"))
    node.dram = ReadDram(problems, *f);
  NeedNumber(problems, map, "memory_gb", "GB of memory", kMinPositive, node.memory_gb);
  TakeInteger(problems, node.device_slots, map.Find("device_slots"), 0, 1024);
  NeedNumber(problems, map, "price_usd", "a price in USD", 0, node.price_usd);
  NeedNumber(problems, map, "power_w", "a power in W", 0, node.power_w);
  if (const Field* f = map.Need("throughput", "a map from yardsticks to rates"))
    for (const auto& [yardstick, entry] : ReadEntries(problems, *f, "a map from yardsticks to rates"))
      TakeNumber(problems, node.throughput[yardstick], &entry, kMinPositive, kMaxQuantity);
  if (const Field* f = map.Find("contention"))
    for (const auto& [kernel, entry] : ReadEntries(problems, *f, "a map from kernels to rates"))
      node.contention[kernel] = ReadCoreRate(problems, entry);
  node.sources = ReadSources(problems, map,
                             {"cores", "network_gbps", "dram", "memory_gb", "device_slots", "price_usd",
                              "power_w", "throughput", "contention"});
  return node;
}

Device ReadDevice(Problems& problems, const Field& field) {
  MapReader map(problems, field,
                {"name", "class", "price_usd", "power_w", "capacity_tb", "gb_per_s", "sources"});
  Device device;
  Take(device.name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
  if (const Field* f = map.Need("class", "one of accelerator, drive"))
    if (auto word = ReadChoice(problems, *f, {"accelerator", "drive"}))
      device.device_class = *word == 0 ? DeviceClass::kAccelerator : DeviceClass::kDrive;
  NeedNumber(problems, map, "price_usd", "a price in USD", 0, device.price_usd);
  NeedNumber(problems, map, "power_w", "a power in W", 0, device.power_w);
  if (device.device_class == DeviceClass::kDrive) {
    NeedNumber(problems, map, "capacity_tb", "TB that it holds", kMinPositive, device.capacity_tb);
    NeedNumber(problems, map, "gb_per_s", "GB/s that it serves", kMinPositive, device.gb_per_s);
  }
  device.sources = ReadSources(problems, map, {"price_usd", "power_w", "capacity_tb", "gb_per_s"});
  return device;
}

FabricPrices ReadFabric(Problems& problems, const Field& field) {
  MapReader map(
      problems, field,
      {"edge_usd_per_gbps", "spine_usd_per_gbps", "edge_w_per_gbps", "spine_w_per_gbps", "sources"});
  FabricPrices prices;
  NeedNumber(problems, map, "edge_usd_per_gbps", "a price in USD", 0, prices.edge_usd_per_gbps);
  NeedNumber(problems, map, "spine_usd_per_gbps", "a price in USD", 0, prices.spine_usd_per_gbps);
  NeedNumber(problems, map, "edge_w_per_gbps", "a power in W", 0, prices.edge_w_per_gbps);
  NeedNumber(problems, map, "spine_w_per_gbps", "a power in W", 0, prices.spine_w_per_gbps);
  prices.sources = ReadSources(
      problems, map, {"edge_usd_per_gbps", "spine_usd_per_gbps", "edge_w_per_gbps", "spine_w_per_gbps"});
  return prices;
}

template <class Entry>
void AddEntry(Problems& problems, const Field& field, std::vector<Entry>& entries, Entry entry) {
  for (const Entry& other : entries)
    if (other.name == entry.name && !entry.name.empty())
      problems.Add(field.line, field.path, fmt::format("duplicate name \"{}\"", entry.name));
  entries.push_back(std::move(entry));
}

Catalogue ReadCatalogue(Problems& problems, const Field& root) {
  // The other keys are the probe's results, for people and plots.
  MapReader top(problems, root, {"catalogue", "bench", "commit", "machine", "rounds", "rows", "ratios"});
  Catalogue catalogue;
  const Field* field = top.Need("catalogue", "a map of nodes, devices and fabric");
  if (field == nullptr) return catalogue;
  MapReader map(problems, *field, {"nodes", "devices", "fabric"});
  if (const Field* f = map.Find("nodes"))
    for (const Field& entry : yaml::ReadList(problems, *f, "a list of nodes"))
      AddEntry(problems, entry, catalogue.nodes, ReadNode(problems, entry));
  if (const Field* f = map.Find("devices"))
    for (const Field& entry : yaml::ReadList(problems, *f, "a list of devices"))
      AddEntry(problems, entry, catalogue.devices, ReadDevice(problems, entry));
  if (const Field* f = map.Find("fabric")) catalogue.fabric = ReadFabric(problems, *f);
  return catalogue;
}

template <class Entry>
void MergeNamed(std::vector<Entry>& into, const std::vector<Entry>& more) {
  for (const Entry& entry : more) {
    const auto same =
        std::find_if(into.begin(), into.end(), [&](const Entry& e) { return e.name == entry.name; });
    if (same != into.end())
      *same = entry;
    else
      into.push_back(entry);
  }
}

}  // namespace

Result<Catalogue> ParseCatalogue(const std::string& text, const std::string& file_name) {
  Catalogue catalogue;
  const auto read = yaml::ReadDocument(text, file_name, [&](Problems& problems, const Field& root) {
    catalogue = ReadCatalogue(problems, root);
  });
  if (!read) return tl::make_unexpected(read.error());
  return catalogue;
}

Result<Catalogue> LoadCatalogue(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseCatalogue(*text, path);
}

const Catalogue& ShippedCatalogue() {
  static const Catalogue catalogue = [] {
    auto parsed = ParseCatalogue(kShippedCatalogue, "catalogue.yaml");
    if (!parsed) {  // the build's own file: a broken invariant
      base::PrintError("spillway: the shipped catalogue is wrong\n{}\n", parsed.error().message);
      std::abort();
    }
    return *parsed;
  }();
  return catalogue;
}

void Merge(Catalogue& into, const Catalogue& more) {
  MergeNamed(into.nodes, more.nodes);
  MergeNamed(into.devices, more.devices);
  if (!more.fabric.sources.empty()) into.fabric = more.fabric;
}

}  // namespace spillway::planner
