// SPDX-License-Identifier: Apache-2.0
#include "scheduler/cluster_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/print.h"
#include "base/yaml/documents.h"
#include "base/yaml/reader.h"
#include "base/yaml/scalars.h"

namespace spillway::scheduler {
namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;
using yaml::Take;

constexpr uint64_t kMaxNodes = 100'000;
constexpr uint64_t kMaxMilli = 100'000'000;

// "did you mean x?" is a sentence, "known are x, y" becomes one.
std::string WithStop(std::string text) { return text.ends_with('?') ? text : text + "."; }

struct Resident {
  Job job;
  Spot spot;
  Field field;
  std::string name = {};
};

class Reader {
 public:
  Reader(Problems& problems, bool nodes_elsewhere) : problems_(problems), nodes_elsewhere_(nodes_elsewhere) {}

  std::optional<ClusterFile> Read(const Field& root) {
    MapReader top(problems_, root, {"cluster"});
    const Field* field = top.Need("cluster", "a map");
    if (field == nullptr) return std::nullopt;
    MapReader map(problems_, *field, {"isolation", "slices", "models", "nodes", "jobs"});
    Rules rules;
    Take(rules.isolation, map.Find("isolation"), [&](const Field& f) {
      return yaml::ReadChoice(problems_, f, {"none", "fraction", "gpu"});
    });
    Take(rules.slice_rule, map.Find("slices"), [&](const Field& f) {
      return yaml::ReadChoice(problems_, f, {"compute", "memory"});
    });
    if (const Field* f = map.Find("models"))
      for (const Field& entry : yaml::ReadList(problems_, *f, "a list of GPU models")) ReadModel(entry);
    const Field* nodes = nodes_elsewhere_ ? map.Find("nodes") : map.Need("nodes", "a list of nodes");
    if (const Field* f = nodes)
      for (const Field& entry : yaml::ReadList(problems_, *f, "a list of nodes")) ReadNode(entry);
    if (nodes_.empty() && problems_.none() && !nodes_elsewhere_)
      problems_.Add(field->line, "cluster.nodes", "expected at least one node");
    if (const Field* f = map.Find("jobs"))
      for (const Field& entry : yaml::ReadList(problems_, *f, "a list of jobs that run")) ReadJob(entry);
    auto file = Put(rules);
    if (problems_.none()) return file;
    // What is wrong may come from these.
    for (const Note& note : notes_) problems_.Add(note.line, note.path, note.text);
    return std::nullopt;
  }

 private:
  std::optional<size_t> Integer(const Field& f, uint64_t least, uint64_t most) {
    return yaml::ReadInteger(problems_, f, least, most);
  }

  int ModelIndex(const std::string& name) {
    const auto at =
        std::find_if(models_.begin(), models_.end(), [&](const GpuModel& m) { return m.name == name; });
    if (at != models_.end()) return static_cast<int>(at - models_.begin());
    models_.push_back(ModelByName(name));
    return static_cast<int>(models_.size()) - 1;
  }

  void ReadModel(const Field& field) {
    MapReader map(problems_, field, {"name", "speed", "mig", "slice_memory_gb"});
    std::string name;
    Take(name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems_, f); });
    if (name.empty()) return;
    if (std::any_of(models_.begin(), models_.end(), [&](const GpuModel& m) { return m.name == name; })) {
      problems_.Add(field.line, field.path + ".name",
                    fmt::format("expected each model once, got {} again", yaml::Excerpt(name)));
      return;
    }
    if (models_.size() >= kMaxModels) {
      problems_.Add(field.line, field.path, fmt::format("expected at most {} models", kMaxModels));
      return;
    }
    described_.insert(name);
    GpuModel& model = models_[static_cast<size_t>(ModelIndex(name))];
    Take(model.speed, map.Find("speed"),
         [&](const Field& f) { return yaml::ReadNumber(problems_, f, 1e-3, 1e3); });
    Take(model.mig, map.Find("mig"), [&](const Field& f) { return yaml::ReadBool(problems_, f); });
    Take(model.slice_memory_gb, map.Find("slice_memory_gb"),
         [&](const Field& f) { return yaml::ReadNumber(problems_, f, 0, 1e4); });
  }

  void ReadNode(const Field& field) {
    MapReader map(problems_, field, {"name", "count", "model", "gpus", "cpu_milli", "memory_mib"});
    Node node;
    std::string model = "GPU";
    uint64_t count = 1;
    const size_t problems = problems_.count();
    Take(node.name, map.Need("name", "a name"), [&](const Field& f) { return yaml::ReadName(problems_, f); });
    Take(model, map.Find("model"), [&](const Field& f) { return yaml::ReadName(problems_, f); });
    Take(count, map.Find("count"), [&](const Field& f) { return Integer(f, 1, kMaxNodes); });
    Take(node.gpus, map.Find("gpus"), [&](const Field& f) { return Integer(f, 0, kMaxGpus); });
    Take(node.cpu_milli, map.Find("cpu_milli"), [&](const Field& f) { return Integer(f, 0, kMaxMilli); });
    Take(node.memory_mib, map.Find("memory_mib"), [&](const Field& f) { return Integer(f, 0, kMaxMilli); });
    node.model = ModelIndex(model);
    NoteUnknown(map.Find("model"), model);
    if (models_.size() > kMaxModels || nodes_.size() + count > kMaxNodes) {
      problems_.Add(field.line, field.path,
                    fmt::format("expected at most {} models and {} nodes", kMaxModels, kMaxNodes));
      return;
    }
    const std::string name = node.name;
    for (uint64_t i = 1; i <= count; ++i) {
      if (count > 1) node.name = fmt::format("{}-{}", name, i);
      if (!node_at_.emplace(node.name, static_cast<int>(nodes_.size())).second)
        problems_.Add(field.line, field.path + ".name",
                      fmt::format("duplicate name {}", yaml::Excerpt(node.name)));
      nodes_.push_back(node);
      sound_.push_back(problems_.count() == problems);
    }
  }

  // A model that neither is known nor described here is as slow as a T4, and MIG does not divide it.
  void NoteUnknown(const Field* field, const std::string& model) {
    std::vector<std::string_view> known;
    for (const GpuModel& one : KnownModels()) known.push_back(one.name);
    for (const std::string& one : described_) known.push_back(one);
    if (field == nullptr || std::find(known.begin(), known.end(), model) != known.end()) return;
    described_.insert(model);  // told once
    // H100 is an H100-80 rather than a P100.
    std::stable_partition(known.begin(), known.end(),
                          [&](std::string_view one) { return one.starts_with(model); });
    notes_.push_back({field->line, field->path,
                      fmt::format("unknown model {}, {} Taken for one of speed 1 without MIG, unless "
                                  "cluster.models says otherwise",
                                  yaml::Excerpt(model), WithStop(yaml::Suggest(model, known)))});
  }

  void ReadJob(const Field& field) {
    MapReader map(
        problems_, field,
        {"name", "node", "gpu", "start", "gpus", "milli", "cpu_milli", "memory_mib", "tenant", "move_cost"});
    Resident one{{}, {-1, 0, -1}, field};
    std::string name, node, tenant;
    const size_t problems = problems_.count();
    Take(name, map.Find("name"), [&](const Field& f) { return yaml::ReadName(problems_, f); });
    if (!name.empty() && !job_names_.insert(name).second)
      problems_.Add(field.line, field.path + ".name", fmt::format("duplicate name {}", yaml::Excerpt(name)));
    Take(node, map.Need("node", "a node's name"),
         [&](const Field& f) { return yaml::ReadName(problems_, f); });
    Take(tenant, map.Find("tenant"), [&](const Field& f) { return yaml::ReadName(problems_, f); });
    Take(one.spot.gpu, map.Find("gpu"), [&](const Field& f) { return Integer(f, 0, kMaxGpus - 1); });
    Take(one.spot.start, map.Find("start"), [&](const Field& f) { return Integer(f, 0, kSlices - 1); });
    Take(one.job.gpus, map.Find("gpus"), [&](const Field& f) { return Integer(f, 0, kMaxGpus); });
    Take(one.job.milli, map.Find("milli"), [&](const Field& f) { return Integer(f, 1, kWholeGpu); });
    Take(one.job.cpu_milli, map.Find("cpu_milli"), [&](const Field& f) { return Integer(f, 0, kMaxMilli); });
    Take(one.job.memory_mib, map.Find("memory_mib"),
         [&](const Field& f) { return Integer(f, 0, kMaxMilli); });
    Take(one.job.move_cost, map.Find("move_cost"),
         [&](const Field& f) { return yaml::ReadNumber(problems_, f, 0, 1e6); });
    one.job.tenant = TenantNumber(tenant);
    const auto at = node_at_.find(node);
    if (at == node_at_.end()) {
      if (!node.empty())
        problems_.Add(field.line, field.path + ".node",
                      fmt::format("expected a node of this file, got {}", yaml::Excerpt(node)));
      return;
    }
    one.spot.node = at->second;
    if (one.job.gpus > 1 && map.Find("milli") != nullptr && one.job.milli != kWholeGpu)
      problems_.Add(
          field.line, field.path + ".milli",
          fmt::format("expected {} of a job of {} GPUs, got {}", kWholeGpu, one.job.gpus, one.job.milli));
    if (map.Find("gpu") != nullptr && !one.job.Fractional()) {
      if (one.job.gpus != 1)
        problems_.Add(field.line, field.path + ".gpu",
                      fmt::format("expected none of a job of {} GPUs, got {}", one.job.gpus, one.spot.gpu));
      one.spot.whole = uint32_t{1} << one.spot.gpu;
    }
    if (problems_.count() != problems) return;  // whether it fits cannot be said
    one.name = name;
    residents_.push_back(std::move(one));
  }

  int TenantNumber(const std::string& name) {
    return tenants_.emplace(name, static_cast<int>(tenants_.size())).first->second;
  }

  std::optional<ClusterFile> Put(Rules rules) {
    ClusterFile file{Cluster(nodes_, models_, rules), {}, {}, tenants_};
    for (const Note& note : notes_)
      file.notes.push_back(fmt::format("{}: {}: {}", note.line, note.path, note.text));
    for (const Resident& one : residents_) {
      const Node& node = file.cluster.nodes()[static_cast<size_t>(one.spot.node)];
      if (!sound_[static_cast<size_t>(one.spot.node)]) continue;
      std::string why = file.cluster.WhyNot(one.job, one.spot);
      if (why.empty() && one.spot.start >= 0 && !one.job.Fractional())
        why = "`start` is allowed only for a share of a GPU";
      if (!why.empty()) {
        problems_.Add(one.field.line, one.field.path,
                      fmt::format("expected a job that fits {} beside those above it: {}", node.name, why));
        continue;
      }
      file.cluster.Place(static_cast<JobId>(file.jobs.size()), one.job, one.spot);
      file.jobs.push_back(one.job);
      file.job_names.push_back(one.name);
    }
    return file;
  }

  Problems& problems_;
  const bool nodes_elsewhere_;
  std::vector<GpuModel> models_;
  std::vector<Node> nodes_;
  std::vector<bool> sound_;  // nodes_ whose entries are
  std::set<std::string> job_names_;
  std::set<std::string> described_;  // models: those of cluster.models, and those that were told of
  struct Note {
    int line;
    std::string path, text;
  };
  std::vector<Note> notes_;
  std::map<std::string, int> node_at_, tenants_ = {{"", 0}};
  std::vector<Resident> residents_;
};

}  // namespace

int ClusterFile::TenantOf(const std::string& name) const {
  const auto at = tenants.find(name);
  return at == tenants.end() ? static_cast<int>(tenants.size()) : at->second;
}

Result<ClusterFile> ParseClusterFile(const std::string& text, const std::string& file_name,
                                     bool nodes_elsewhere) {
  std::optional<ClusterFile> file;
  const auto read = yaml::ReadDocument(text, file_name, [&](Problems& problems, const Field& root) {
    file = Reader(problems, nodes_elsewhere).Read(root);
  });
  if (!read) return tl::make_unexpected(read.error());
  for (std::string& note : file->notes) note.insert(0, base::Printable(file_name) + ":");
  return std::move(*file);
}

Result<ClusterFile> LoadClusterFile(const std::string& path, bool nodes_elsewhere) {
  const auto text = yaml::ReadInput(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseClusterFile(*text, yaml::InputName(path), nodes_elsewhere);
}

Result<ModelSet> ParseModels(const std::string& text, const std::vector<GpuModel>& models) {
  ModelSet set = 0;
  for (size_t from = 0; !text.empty() && from <= text.size();) {
    const size_t end = std::min(text.find('|', from), text.size());
    const std::string name = text.substr(from, end - from);
    const auto at =
        std::find_if(models.begin(), models.end(), [&](const GpuModel& m) { return m.name == name; });
    const auto known = KnownModels();
    if (at == models.end() &&
        std::any_of(known.begin(), known.end(), [&](const GpuModel& model) { return model.name == name; })) {
      set |= kAbsentModel;  // no mistake, but nobody here has it
      from = end + 1;
      continue;
    }
    if (at == models.end()) {
      std::string names;
      for (const GpuModel& model : models) names += (names.empty() ? "" : ", ") + model.name;
      return Fail(ErrorCode::kBadInput,
                  fmt::format("--model {}: expected one of {}", base::Printable(name), names));
    }
    set |= ModelSet{1} << (at - models.begin());
    from = end + 1;
  }
  return set;
}

}  // namespace spillway::scheduler
