// SPDX-License-Identifier: Apache-2.0
#include "planner/workload_reader.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>

#include "base/yaml/documents.h"
#include "planner/catalogue_reader.h"
#include "planner/file_parts.h"

namespace spillway::planner {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

constexpr int kMaxNodes = 100'000;
constexpr double kSumMayMissBy = 1e-6;

class Reader {
 public:
  Reader(Problems& problems, PlanInput& input, std::string folder)
      : problems_(problems), catalogue_(input.catalogue), w_(input.workload), folder_(std::move(folder)) {}

  void Read(const Field& root) {
    MapReader top(problems_, root, {"plan"});
    const Field* field = top.Need("plan", "a map");
    if (field == nullptr) return;
    MapReader map(problems_, *field,
                  {"name", "catalogues", "time", "overlap", "all_reduce", "cpu", "baseline", "memory",
                   "checkpoint", "host", "models", "model", "compare", "limits", "search", "requests"});
    Take(w_.name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems_, f); });
    if (const Field* f = map.Find("catalogues")) {
      ReadCatalogues(*f);
      if (!problems_.none()) return;  // what it would have had is unknown to the rest
    }
    if (const Field* f = map.Need("time", "a map of shares that sum to 1")) ReadTime(*f);
    Take(w_.overlap, map.Find("overlap"), [&](const Field& f) { return yaml::ReadBool(problems_, f); });
    TakeNumber(problems_, w_.all_reduce, map.Find("all_reduce"), 0, 1);
    if (const Field* f = map.Need("baseline", "a map of fabric and node kinds")) ReadBaseline(*f);
    if (const Field* f = map.Find("cpu")) ReadCpu(*f);
    if (const Field* f = map.Find("memory")) ReadMemory(*f);
    if (const Field* f = map.Find("checkpoint")) ReadCheckpoint(*f);
    if (const Field* f = map.Find("host")) ReadHost(*f);
    if (const Field* f = map.Find("models")) ReadModels(*f);
    ReadModelInForce(*field, map);
    if (const Field* f = map.Find("compare")) ReadCompare(*f);
    if (const Field* f = map.Find("limits")) ReadLimits(*f);
    ReadSearch(map.Find("search"));
    if (const Field* f = map.Find("requests")) ReadRequests(*f);
    Check(*field, map);
  }

 private:
  void ReadCatalogues(const Field& field) {
    for (const Field& entry : yaml::ReadList(problems_, field, "a list of catalogue files")) {
      const auto text = yaml::ReadText(problems_, entry, "the path of a catalogue file");
      if (!text) continue;
      const auto path = (std::filesystem::path(folder_) / *text).lexically_normal().string();
      if (auto more = LoadCatalogue(path))
        Merge(catalogue_, *more);
      else
        problems_.Add(entry.line, entry.path, "expected a catalogue, got " + more.error().message);
    }
  }

  void ReadTime(const Field& field) {
    MapReader map(problems_, field, {"cpu", "shuffle", "storage", "accelerator", "stall"});
    bool sound = map.is_map();
    const auto take = [&](const char* key, double& into) {
      const Field* f = map.Find(key);
      TakeNumber(problems_, into, f, 0, 1);
      sound = sound && (f == nullptr || problems_.Sound(f->path));
    };
    take("cpu", w_.time.cpu);
    take("shuffle", w_.time.shuffle);
    take("storage", w_.time.storage);
    take("accelerator", w_.time.accelerator);
    take("stall", w_.time.stall);
    if (sound && std::abs(w_.time.Sum() - 1) > kSumMayMissBy)
      problems_.Add(field.line, field.path,
                    fmt::format("expected shares that sum to 1, got {:g}", w_.time.Sum()));
  }

  std::optional<size_t> ReadNode(const Field& field) {
    const auto name = yaml::ReadText(problems_, field, "a node of the catalogue");
    if (!name) return std::nullopt;
    if (const Node* node = catalogue_.FindNode(*name))
      return static_cast<size_t>(node - catalogue_.nodes.data());
    std::vector<std::string_view> known;
    for (const Node& node : catalogue_.nodes) known.push_back(node.name);
    problems_.Add(field.line, field.path,
                  fmt::format("expected a node of the catalogue, got {} ({})", yaml::Describe(field.node),
                              yaml::Suggest(*name, known)));
    return std::nullopt;
  }

  std::optional<size_t> ReadDevice(const Field& field, DeviceClass wanted) {
    const char* expected =
        wanted == DeviceClass::kAccelerator ? "an accelerator of the catalogue" : "a drive of the catalogue";
    const auto name = yaml::ReadText(problems_, field, expected);
    if (!name) return std::nullopt;
    const Device* device = catalogue_.FindDevice(*name);
    if (device != nullptr && device->device_class == wanted)
      return static_cast<size_t>(device - catalogue_.devices.data());
    problems_.Add(field.line, field.path,
                  fmt::format("expected {}, got {}", expected, yaml::Describe(field.node)));
    return std::nullopt;
  }

  void ReadGroup(const Field& field, NodeKind kind) {
    const bool lite = kind == NodeKind::kLiteCompute;
    MapReader map(problems_, field, {"node", "nodes", "device", "devices_per_node"});
    Group group;
    group.kind = kind;
    if (const Field* f = map.Need("node", "a node of the catalogue")) {
      Take(group.node, f, [&](const Field& g) { return ReadNode(g); });
      if (problems_.Sound(f->path) && !catalogue_.nodes[group.node].Serves(kind))
        problems_.Add(f->line, f->path,
                      fmt::format("expected a node that may be of kind {}, got {}", ToString(kind),
                                  catalogue_.nodes[group.node].name));
    }
    group.nodes = 1;
    TakeInteger(problems_, group.nodes, map.Need("nodes", "how many nodes"), 1, kMaxNodes);
    if (lite) {
      map.Refuse({"device", "devices_per_node"}, "allowed only for accelerator and storage nodes");
    } else {
      Take(group.device, map.Need("device", "a device of the catalogue"), [&](const Field& f) {
        return ReadDevice(f,
                          kind == NodeKind::kAccelerator ? DeviceClass::kAccelerator : DeviceClass::kDrive);
      });
      int per_node = 1;
      TakeInteger(problems_, per_node, map.Need("devices_per_node", "how many devices each node carries"), 1,
                  1024);
      group.devices = per_node * group.nodes;
      const Node& node = catalogue_.nodes[group.node];
      if (const std::string path = field.path + ".node";
          problems_.Sound(path) && per_node > node.device_slots)
        problems_.Add(field.line, field.path + ".devices_per_node",
                      fmt::format("expected at most the {} device_slots of {}, got {}", node.device_slots,
                                  node.name, per_node));
    }
    w_.baseline.groups.push_back(group);
  }

  void ReadFabric(const Field& field) {
    MapReader map(problems_, field, {"port_gbps", "oversubscription"});
    TakeNumber(problems_, w_.baseline.fabric.port_gbps, map.Need("port_gbps", "Gb/s of a node's port"),
               kMinPositive, kMaxQuantity);
    TakeNumber(problems_, w_.baseline.fabric.oversubscription, map.Find("oversubscription"), 1, 1000);
  }

  void ReadBaseline(const Field& field) {
    const auto entries = ReadEntries(problems_, field, "a map of fabric and node kinds");
    bool fabric = false;
    for (const auto& [key, entry] : entries) {
      if (key == "fabric") {
        fabric = true;
        ReadFabric(entry);
      } else if (const auto kind = ParseNodeKind(key)) {
        ReadGroup(entry, *kind);
      } else {
        problems_.Add(entry.line, entry.path,
                      "expected fabric or a node kind (accelerator, storage, lite-compute), got this key");
      }
    }
    if (!field.node.IsMap()) return;
    if (!fabric)
      problems_.Add(field.line, field.path + ".fabric", "expected a map of port_gbps, got nothing");
    if (w_.Baseline(w_.Workers()) == nullptr)
      problems_.Add(field.line, field.path, "expected lite-compute or accelerator nodes, got neither");
  }

  void ReadCpu(const Field& field) {
    double sum = 0;
    bool sound = true;
    for (const auto& [yardstick, entry] : ReadEntries(problems_, field, "a map from yardsticks to shares")) {
      double share = 0;
      TakeNumber(problems_, share, &entry, kMinPositive, 1);
      sound = sound && problems_.Sound(entry.path);
      w_.cpu[yardstick] = share;
      sum += share;
      const Group* workers = w_.Baseline(w_.Workers());
      const bool is_read =
          workers != nullptr && problems_.Sound(fmt::format("plan.baseline.{}.node", ToString(w_.Workers())));
      if (is_read && !catalogue_.nodes[workers->node].throughput.contains(yardstick))
        problems_.Add(entry.line, entry.path,
                      fmt::format("expected a yardstick of the baseline's {}, got \"{}\"",
                                  catalogue_.nodes[workers->node].name, yardstick));
    }
    if (sound && field.node.IsMap() && std::abs(sum - 1) > kSumMayMissBy)
      problems_.Add(field.line, field.path, fmt::format("expected shares that sum to 1, got {:g}", sum));
  }

  void ReadMemory(const Field& field) {
    MapReader map(problems_, field, {"kernel_gb", "runtime_gb", "data_gb"});
    TakeNumber(problems_, w_.memory.kernel_gb, map.Find("kernel_gb"), 0, kMaxQuantity);
    TakeNumber(problems_, w_.memory.runtime_gb, map.Find("runtime_gb"), 0, kMaxQuantity);
    TakeNumber(problems_, w_.memory.data_gb, map.Find("data_gb"), 0, kMaxQuantity);
  }

  void ReadCheckpoint(const Field& field) {
    MapReader map(problems_, field, {"model_gb_per_accelerator", "copies", "chunk_gb", "streaming"});
    TakeNumber(problems_, w_.checkpoint.model_gb_per_accelerator, map.Find("model_gb_per_accelerator"), 0,
               kMaxQuantity);
    TakeNumber(problems_, w_.checkpoint.copies, map.Find("copies"), 0, 100);
    TakeNumber(problems_, w_.checkpoint.chunk_gb, map.Find("chunk_gb"), kMinPositive, kMaxQuantity);
    Take(w_.checkpoint.streaming, map.Find("streaming"),
         [&](const Field& f) { return yaml::ReadBool(problems_, f); });
  }

  void ReadHost(const Field& field) {
    MapReader map(problems_, field, {"yardstick", "peak_per_accelerator"});
    Take(w_.host_yardstick, map.Need("yardstick", "a yardstick"),
         [&](const Field& f) { return yaml::ReadName(problems_, f); });
    TakeNumber(problems_, w_.host_peak, map.Find("peak_per_accelerator"), 0, kMaxQuantity);
  }

  void ReadModels(const Field& field) {
    std::set<std::string> names;
    for (const Field& entry : yaml::ReadList(problems_, field, "a list of models")) {
      MapReader map(problems_, entry,
                    {"name", "gb_per_accelerator", "runtime_gb", "host_peak_per_accelerator"});
      TrainedModel trained;
      Take(trained.name, map.Need("name", "a name"),
           [&](const Field& f) { return yaml::ReadName(problems_, f); });
      TakeNumber(problems_, trained.gb_per_accelerator,
                 map.Need("gb_per_accelerator", "GB of the model that one accelerator holds"), kMinPositive,
                 kMaxQuantity);
      TakeNumber(problems_, trained.runtime_gb, map.Need("runtime_gb", "GB of memory besides checkpoints"), 0,
                 kMaxQuantity);
      TakeNumber(problems_, trained.host_peak, map.Find("host_peak_per_accelerator"), 0, kMaxQuantity);
      if (!names.insert(trained.name).second)
        problems_.Add(entry.line, entry.path, "duplicate name \"" + trained.name + "\"");
      w_.models.push_back(std::move(trained));
    }
  }

  void ReadModelInForce(const Field& field, const MapReader& map) {
    if (const Field* f = map.Find("model")) {
      const auto name = yaml::ReadText(problems_, *f, "one of models");
      if (name && !UseModel(w_, *name))
        problems_.Add(f->line, f->path,
                      fmt::format("expected one of models, got {}", yaml::Describe(f->node)));
    } else if (!w_.models.empty()) {
      problems_.Add(field.line, "plan.model", "expected one of models, got nothing");
    }
  }

  void ReadCompare(const Field& field) {
    MapReader map(problems_, field, {"node"});
    const Field* f = map.Need("node", "a node of the catalogue");
    Take(w_.compare_node, f, [&](const Field& g) { return ReadNode(g); });
    compares_ = f != nullptr && problems_.Sound(f->path);
  }

  void ReadLimits(const Field& field) {
    MapReader map(problems_, field,
                  {"slowdown", "cost_usd", "power_w", "memory_share", "memory_over_network", "storage_tb"});
    TakeNumber(problems_, w_.limits.slowdown, map.Find("slowdown"), kMinPositive, kMaxQuantity);
    const auto number = [&](const Field& f) {
      return yaml::ReadNumber(problems_, f, kMinPositive, kMaxQuantity);
    };
    Take(w_.limits.cost_usd, map.Find("cost_usd"), number);
    Take(w_.limits.power_w, map.Find("power_w"), number);
    TakeNumber(problems_, w_.limits.memory_share, map.Find("memory_share"), kMinPositive, 1);
    TakeNumber(problems_, w_.limits.memory_over_network, map.Find("memory_over_network"), 0, kMaxQuantity);
    Take(w_.limits.storage_tb, map.Find("storage_tb"), number);
  }

  // Without the key: everything that the catalogue has, up to 8 nodes per server, the baseline's fabric.
  void ReadSearch(const Field* field) {
    Space& space = w_.space;
    int most = 0, accelerators = 0;
    for (const Group& group : w_.baseline.groups) {
      most = std::max(most, group.nodes);
      if (group.kind == NodeKind::kAccelerator) accelerators = group.devices;
    }
    for (size_t n = 0; n < catalogue_.nodes.size(); n++) space.nodes.push_back(n);
    space.most_nodes = std::max(1, 8 * most);
    space.most_accelerators = 2 * accelerators;
    space.ports_gbps = {w_.baseline.fabric.port_gbps};
    if (field == nullptr) return;
    MapReader map(problems_, *field,
                  {"nodes", "most_nodes", "accelerators_per_node", "most_accelerators", "drives_per_node",
                   "ports_gbps", "oversubscriptions"});
    if (const Field* f = map.Find("nodes")) ReadSpaceNodes(*f);
    TakeInteger(problems_, space.most_nodes, map.Find("most_nodes"), 1, kMaxNodes);
    if (const Field* f = map.Find("accelerators_per_node"))
      space.accelerators_per_node = ReadAscending<int>(problems_, *f, 1, 1024);
    TakeInteger(problems_, space.most_accelerators, map.Find("most_accelerators"), 1, 1'000'000);
    if (const Field* f = map.Find("drives_per_node"))
      space.drives_per_node = ReadAscending<int>(problems_, *f, 1, 1024);
    if (const Field* f = map.Find("ports_gbps"))
      space.ports_gbps = ReadAscending<double>(problems_, *f, kMinPositive, kMaxQuantity);
    if (const Field* f = map.Find("oversubscriptions"))
      space.oversubscriptions = ReadAscending<double>(problems_, *f, 1, 1000);
  }

  void ReadSpaceNodes(const Field& field) {
    w_.space.nodes.clear();
    std::set<size_t> taken;
    for (const Field& entry : yaml::ReadList(problems_, field, "a list of nodes of the catalogue")) {
      const auto node = ReadNode(entry);
      if (!node) continue;
      if (!taken.insert(*node).second) problems_.Add(entry.line, entry.path, "duplicate node");
      w_.space.nodes.push_back(*node);
    }
    if (field.node.IsSequence() && field.node.size() == 0)
      problems_.Add(field.line, field.path, "expected at least one node, got an empty list");
  }

  void ReadRequests(const Field& field) {
    MapReader map(problems_, field, {"service_ms", "load", "cv"});
    TakeNumber(problems_, w_.requests.service_ms, map.Need("service_ms", "ms of one request"), 1e-3, 3.6e6);
    TakeNumber(problems_, w_.requests.load, map.Find("load"), 0.01, 0.99);
    TakeNumber(problems_, w_.requests.cv, map.Find("cv"), 0, 10);
  }

  // What single keys cannot tell.
  void Check(const Field& field, const MapReader& map) {
    if (!problems_.none()) return;
    const bool accelerates = w_.Baseline(NodeKind::kAccelerator) != nullptr;
    const bool stores = w_.Baseline(NodeKind::kStorage) != nullptr;
    const auto complain = [&](const char* key, const std::string& text) {
      const Field* f = map.Find(key);
      problems_.Add(f != nullptr ? f->line : field.line, std::string("plan.") + key, text);
    };
    if (w_.time.cpu > 0 && w_.cpu.empty())
      complain("cpu", "expected the yardsticks of the cpu share, got nothing");
    if (!accelerates && w_.time.accelerator + w_.time.stall > 0)
      complain("time", "expected no accelerator or stall share without accelerator nodes in the baseline");
    if (accelerates && w_.all_reduce > 0 && w_.Baseline(NodeKind::kAccelerator)->nodes < 2)
      complain("all_reduce",
               "expected at least 2 accelerator nodes in the baseline, between which to reduce");
    if (stores && w_.time.storage == 0 && !w_.limits.storage_tb)
      complain("baseline", "expected a storage share of time, or limits.storage_tb, with storage nodes");
    if (!stores && w_.limits.storage_tb)
      complain("limits", "expected storage nodes in the baseline, with storage_tb");
    if (!compares_) ChooseCompareNode(complain);
  }

  template <class Complain>
  void ChooseCompareNode(Complain complain) {
    for (size_t n = 0; n < catalogue_.nodes.size(); n++) {
      const Node& node = catalogue_.nodes[n];
      const bool comparable = std::all_of(w_.cpu.begin(), w_.cpu.end(),
                                          [&](const auto& y) { return node.throughput.contains(y.first); });
      if (node.platform != Platform::kSmartNic || !comparable) continue;
      w_.compare_node = n;
      return;
    }
    complain("compare", "expected a node to compare with: no SmartNIC of the catalogue has the yardsticks");
  }

  Problems& problems_;
  Catalogue& catalogue_;
  Workload& w_;
  std::string folder_;
  bool compares_ = false;
};

}  // namespace

Result<PlanInput> ParseWorkload(const std::string& text, const std::string& file_name,
                                const std::vector<Catalogue>& more) {
  PlanInput input;
  const auto read = yaml::ReadDocument(text, file_name, [&](Problems& problems, const Field& root) {
    input = {ShippedCatalogue(), {}};
    for (const Catalogue& one : more) Merge(input.catalogue, one);
    Reader(problems, input, std::filesystem::path(file_name).parent_path().string()).Read(root);
  });
  if (!read) return tl::make_unexpected(read.error());
  return input;
}

Result<PlanInput> LoadWorkload(const std::string& path, const std::vector<Catalogue>& more) {
  const auto text = yaml::ReadInput(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseWorkload(*text, yaml::InputName(path), more);
}

}  // namespace spillway::planner
