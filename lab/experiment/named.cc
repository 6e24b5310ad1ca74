// SPDX-License-Identifier: Apache-2.0
#include "named.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>

namespace spillway::lab {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEmulated = "-emulated";

// Of each experiment, its apps and their files; an experiment that stands alone has the app "".
using Files = std::map<std::string, std::map<std::string, std::string>>;

Files FilesIn(const std::string& folder, bool emulated) {
  Files files;
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, gone)) {
    if (entry.path().extension() != ".yaml") continue;
    std::string stem = entry.path().stem();
    if (stem.ends_with(kEmulated) != emulated) continue;
    if (emulated) stem.resize(stem.size() - kEmulated.size());
    const size_t dash = stem.find('-');
    const std::string app = dash == std::string::npos ? "" : stem.substr(dash + 1);
    files[stem.substr(0, dash)][app] = entry.path();
  }
  return files;
}

std::string AppsOf(const std::map<std::string, std::string>& apps) {
  std::vector<std::string> names;
  for (const auto& [app, path] : apps)
    if (!app.empty()) names.push_back(app);
  return fmt::format("{}", fmt::join(names, ", "));
}

std::string Known(const Files& files) {
  std::vector<std::string> words;
  for (const auto& [name, apps] : files) {
    const std::string list = AppsOf(apps);
    words.push_back(list.empty() ? name : fmt::format("{} ({})", name, list));
  }
  return fmt::format("{}", fmt::join(words, ", "));
}

// Other words are names first: where the sources are, `demo` is also a file.
bool IsPath(const std::string& text) {
  return text.find('/') != std::string::npos || text.ends_with(".yaml");
}

}  // namespace

std::vector<NamedFile> Beds(const std::string& folder) {
  std::vector<NamedFile> beds;
  std::error_code gone;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder + "/beds", gone))
    if (entry.path().extension() == ".yaml") beds.push_back({entry.path().stem(), entry.path()});
  std::sort(beds.begin(), beds.end(), [](const NamedFile& a, const NamedFile& b) { return a.app < b.app; });
  return beds;
}

Result<std::string> FindBed(const std::string& bed, const std::string& folder) {
  if (IsPath(bed)) return bed;
  std::error_code ignored;
  for (const std::string& path : {folder + "/beds/" + bed + ".yaml", folder + "/" + bed + ".yaml"})
    if (fs::is_regular_file(path, ignored)) return path;
  if (fs::is_regular_file(bed, ignored)) return bed;
  std::vector<std::string> names;
  for (const NamedFile& known : Beds(folder)) names.push_back(known.app);
  return Fail(ErrorCode::kBadInput,
              fmt::format("{}: neither a file nor a bed of {}, which has {}", bed, folder + "/beds",
                          names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
}

std::string LabFolder(const std::string& program_folder) {
  const fs::path installed = fs::path(program_folder) / "../share/spillway/lab";
  const fs::path sources = fs::path(program_folder) / "../../../examples/lab";
  std::error_code ignored;
  return (fs::is_directory(sources, ignored) && !fs::is_directory(installed, ignored) ? sources : installed)
      .lexically_normal();
}

Result<std::vector<NamedFile>> FindExperiment(const Wanted& wanted, const std::string& folder) {
  const std::string& what = wanted.experiment;
  const Files files = FilesIn(folder, wanted.emulated);
  const auto found = files.find(what);
  std::error_code ignored;
  if (IsPath(what) || (found == files.end() && fs::is_regular_file(what, ignored))) {
    if (wanted.apps.empty() && !wanted.emulated) return std::vector<NamedFile>{{"", what}};
    return Fail(
        ErrorCode::kBadInput,
        fmt::format(
            "{}: --apps and --emulated are allowed only with the name of an experiment, not with a path",
            what));
  }
  if (found == files.end())
    return Fail(ErrorCode::kBadInput, fmt::format("{}: neither a file nor {}experiment of {}, which has {}",
                                                  what, wanted.emulated ? "an emulated " : "an ", folder,
                                                  files.empty() ? "none" : Known(files)));
  const auto& apps = found->second;
  std::vector<NamedFile> chosen;
  if (wanted.apps.empty())
    for (const auto& [app, path] : apps) chosen.push_back({app, path});
  std::set<std::string> seen;
  for (const std::string& app : wanted.apps) {
    const auto file = apps.find(app);
    if (file == apps.end() || app.empty())
      return Fail(ErrorCode::kBadInput, fmt::format("--apps: {} has no app {}; it has {}", what, app,
                                                    AppsOf(apps).empty() ? "none" : AppsOf(apps)));
    if (seen.insert(app).second) chosen.push_back({app, file->second});
  }
  return chosen;
}

}  // namespace spillway::lab
