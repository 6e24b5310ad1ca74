// SPDX-License-Identifier: Apache-2.0
#include "node/instance_book.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <vector>

#include "base/file.h"
#include "base/print.h"
#include "base/system_error.h"
#include "base/yaml/scalars.h"
#include "scheduler/controller/host_message.h"

namespace spillway::node {
namespace {

using nlohmann::json;
using scheduler::HostPhase;

// Of a log, where its last line is looked for.
constexpr size_t kLastBytes = 4096;

constexpr std::pair<HostPhase, const char*> kPhases[] = {{HostPhase::kSlice, "slice"},
                                                         {HostPhase::kRunning, "running"},
                                                         {HostPhase::kEnding, "ending"},
                                                         {HostPhase::kFailed, "failed"}};

std::string TextOf(const Record& record) {
  json text{{"wanted", json::parse(ToText(record.has.wanted))},
            {"pid", record.process.pid},
            {"start", record.process.start},
            {"boot", record.process.boot},
            {"slice_refused", record.slice_refused},
            {"why", record.why},
            {"mark", record.mark}};
  for (const auto& [phase, word] : kPhases)
    if (phase == record.has.phase) text["phase"] = word;
  return text.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

Result<Record> RecordOf(const std::string& text) {
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return Fail(ErrorCode::kBadInput, "expected a JSON object");
  try {
    Record record;
    const auto wanted = scheduler::ParseWantedInstance(parsed.at("wanted").dump());
    if (!wanted) return tl::make_unexpected(wanted.error());
    record.has.wanted = *wanted;
    const std::string phase = parsed.at("phase");
    for (const auto& [value, word] : kPhases)
      if (phase == word) record.has.phase = value;
    record.process = {parsed.at("pid"), parsed.at("start"), parsed.at("boot")};
    record.slice_refused = parsed.at("slice_refused");
    record.why = parsed.at("why");
    record.mark = parsed.value("mark", "");
    return record;
  } catch (const std::exception& error) {
    return Fail(ErrorCode::kBadInput, error.what());
  }
}

// Of a file that is no record, the instance that its name says: it has failed, so that the controller lets it
// go, or, where its executor runs, is ending and will have failed. nullopt: the name is no instance's.
std::optional<Record> LostOf(const InstanceBook& book, const std::filesystem::path& file,
                             const std::string& why) {
  const std::string name = file.stem();
  uint64_t id = 0;
  const char* end = name.data() + name.size();
  const auto [rest, error] = std::from_chars(name.data(), end, id);
  if (error != std::errc() || rest != end) return std::nullopt;
  Record record;
  record.has.wanted.instance = id;
  if (const auto there = Child::Marked(book.MarkOf(id)); !there.empty()) record.process = there.front().id();
  record.has.phase = record.process.pid == 0 ? HostPhase::kFailed : HostPhase::kEnding;
  record.why = why;
  return record;
}

bool IsIdentity(const std::string& text) {
  return text.size() == 16 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

// The last so many bytes of a file, or all of it; nullopt: it cannot be read.
std::optional<std::string> EndOf(const std::string& path, size_t most) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return std::nullopt;
  const auto size = static_cast<size_t>(file.tellg());
  std::string text(std::min(size, most), '\0');
  file.seekg(static_cast<std::streamoff>(size - text.size()));
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(file.gcount()));
  return text;
}

// What FOLDER/identity says; of a file that is damaged or not there, a new one. A secret: processes are taken
// for this agent's by it (Child::Marked).
Result<std::string> IdentityOf(const std::string& folder) {
  const std::string path = folder + "/identity";
  std::random_device device;
  const std::string fresh = fmt::format("{:08x}{:08x}", device(), device());
  if (const auto made = base::CreateFile(path, fresh, {.mode = 0600}); !made)
    return tl::make_unexpected(made.error());
  if (chmod(path.c_str(), 0600) != 0)
    return FailSystem("chmod " + path);  // one of an older agent may be readable
  auto identity = base::ReadFile(path);
  if (!identity || IsIdentity(*identity)) return identity;
  spdlog::warn("{}: invalid identity file replaced with a new identity", path);
  if (const auto wrote = base::WriteFile(path, fresh, {.mode = 0600}); !wrote)
    return tl::make_unexpected(wrote.error());
  return fresh;
}

}  // namespace

Result<InstanceBook> InstanceBook::Open(const std::string& folder) {
  std::error_code failed;
  std::filesystem::create_directory(folder, failed);
  if (failed || !std::filesystem::is_directory(folder, failed))
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected a folder, or one above in which to make it", folder));
  const std::string path = folder + "/lock";
  base::Fd lock(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
  if (!lock) return FailSystem("open " + path);
  if (flock(lock.get(), LOCK_EX | LOCK_NB) != 0)
    return Fail(ErrorCode::kConflict,
                fmt::format("{}: state directory in use by another node agent", folder));
  auto identity = IdentityOf(folder);
  if (!identity) return tl::make_unexpected(identity.error());
  return InstanceBook(folder, std::move(lock), std::move(*identity));
}

std::string InstanceBook::PathOf(uint64_t instance, const char* kind) const {
  return fmt::format("{}/{}.{}", folder_, instance, kind);
}

Result<std::map<uint64_t, Record>> InstanceBook::Read() const {
  std::vector<std::filesystem::path> files;  // as renames below change what is listed
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder_, failed), last; !failed && at != last;
       at.increment(failed))
    if (at->path().extension() == ".json") files.push_back(at->path());
  if (failed) return Fail(ErrorCode::kSystem, fmt::format("{}: read folder: {}", folder_, failed.message()));
  std::map<uint64_t, Record> records;
  for (const std::filesystem::path& file : files) {
    const auto text = base::ReadFile(file);
    if (!text) return tl::make_unexpected(text.error());
    auto record = RecordOf(*text);
    if (record) {
      records[record->has.wanted.instance] = std::move(*record);
      continue;
    }
    const std::string why = fmt::format("{}: {}; set aside as {}.bad", file.string(), record.error().message,
                                        file.filename().string());
    spdlog::warn("{}", why);
    if (rename(file.c_str(), (file.string() + ".bad").c_str()) != 0)
      return FailSystem("rename " + file.string());
    if (auto lost = LostOf(*this, file, why)) records.emplace(lost->has.wanted.instance, std::move(*lost));
  }
  return records;
}

Result<void> InstanceBook::Write(const Record& record, bool is_durable) const {
  return base::WriteFile(PathOf(record.has.wanted.instance, "json"), TextOf(record),
                         {.mode = 0600, .is_durable = is_durable});
}

void InstanceBook::Erase(uint64_t instance) const {
  std::error_code ignored;
  for (const char* kind : {"yaml", "log", "json"}) std::filesystem::remove(PathOf(instance, kind), ignored);
}

std::string InstanceBook::LastWord(uint64_t instance) const {
  std::string text = EndOf(LogOf(instance), kLastBytes).value_or("");
  while (!text.empty() && text.back() == '\n') text.pop_back();
  // It goes into this program's log, and to an operator's terminal.
  return base::Printable(text.substr(text.rfind('\n') + 1).substr(0, 300));
}

void InstanceBook::KeepLog(uint64_t instance, const std::string& model) const {
  if (!yaml::IsName(model)) return;  // no path
  const auto text = EndOf(LogOf(instance), kKeptBytes);
  if (!text) return;
  const std::string prefix = "failed-";
  (void)base::WriteFile(fmt::format("{}/{}{}.log", folder_, prefix, model), *text,
                        {.mode = 0600, .is_durable = false});
  std::vector<std::filesystem::directory_entry> kept;
  std::error_code failed;
  for (std::filesystem::directory_iterator at(folder_, failed), last; !failed && at != last;
       at.increment(failed))
    if (at->path().filename().string().starts_with(prefix)) kept.push_back(*at);
  if (kept.size() <= kMostKept) return;
  std::filesystem::remove(*std::min_element(kept.begin(), kept.end(),
                                            [](const auto& a, const auto& b) {
                                              std::error_code gone;
                                              return a.last_write_time(gone) < b.last_write_time(gone);
                                            }),
                          failed);
}

void InstanceBook::BoundLog(uint64_t instance) const {
  const std::string log = LogOf(instance);
  std::error_code none;
  const auto size = std::filesystem::file_size(log, none);
  // Its writers append, and so go on at the beginning.
  if (!none && size > kMaxLogBytes) std::filesystem::resize_file(log, 0, none);
}

}  // namespace spillway::node
