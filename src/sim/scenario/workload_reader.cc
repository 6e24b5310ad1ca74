// SPDX-License-Identifier: Apache-2.0
// A scenario file's keys of requests and reports, read, and traces of arrivals.
#include "sim/scenario/readers.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <filesystem>
#include <set>
#include <sstream>

#include "base/yaml/documents.h"
#include "base/yaml/problems.h"

namespace spillway::sim {

namespace {

using yaml::Field;
using yaml::MapReader;
using yaml::Problems;

// From an answer to the moment when the switch has the report: as P4Mite's were calibrated.
constexpr Duration kReportDelay = std::chrono::microseconds(1100);

constexpr const char* kArrivals =
    "poisson, constant, {trace: FILE}, {onoff: ...}, {jump: ...} or {overload: ...}";

std::string Milliseconds(Duration time) {
  return fmt::format("{}ms", static_cast<double>(time.count()) / 1e6);
}

void ReadTrace(Problems& problems, const Field& field, const std::string& folder, Arrivals& arrivals) {
  const auto text = yaml::ReadText(problems, field, "the path of a file with a time in seconds per line");
  if (!text) return;
  const auto path = (std::filesystem::path(folder) / *text).lexically_normal();
  arrivals.kind = ArrivalKind::kTrace;
  arrivals.name = path.stem().string();
  if (auto times = LoadTrace(path.string()))
    arrivals.at = std::move(*times);
  else
    problems.Add(field.line, field.path, "expected a trace, got " + times.error().message);
}

void ReadOnOff(Problems& problems, const Field& field, Arrivals& arrivals) {
  MapReader map(problems, field, {"on", "off"});
  arrivals.kind = ArrivalKind::kOnOff;
  const auto time = [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(1000), kMaxTime); };
  Take(arrivals.on, map.Need("on", "how long requests come, such as 20ms"), time);
  Take(arrivals.off, map.Need("off", "how long none come, such as 20ms"), time);
  arrivals.name = fmt::format("onoff-{}-{}", Milliseconds(arrivals.on), Milliseconds(arrivals.off));
}

void ReadJump(Problems& problems, const Field& field, Arrivals& arrivals) {
  MapReader map(problems, field, {"low", "every"});
  arrivals.kind = ArrivalKind::kJump;
  Take(arrivals.low, map.Need("low", "the low load's share of the rate, such as 0.3"),
       [&](const Field& f) { return yaml::ReadNumber(problems, f, 0.001, 1); });
  Take(arrivals.every, map.Need("every", "how long each load lasts, such as 3s"),
       [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(1'000'000), kMaxTime); });
  arrivals.name = fmt::format("jump-{}-{}", arrivals.low, Milliseconds(arrivals.every));
}

void ReadOverload(Problems& problems, const Field& field, Arrivals& arrivals) {
  MapReader map(problems, field, {"times", "lasts"});
  arrivals.kind = ArrivalKind::kOverload;
  Take(arrivals.times, map.Need("times", "how many times the rate comes at first, such as 4"),
       [&](const Field& f) { return yaml::ReadNumber(problems, f, 1, 1000); });
  Take(arrivals.every, map.Need("lasts", "for how long, such as 500ms"),
       [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(1'000'000), kMaxTime); });
  arrivals.name = fmt::format("overload-{}-{}", arrivals.times, Milliseconds(arrivals.every));
}

Arrivals ReadArrival(Problems& problems, const Field& field, const std::string& folder) {
  Arrivals arrivals;
  if (!field.node.IsMap()) {
    const auto word = yaml::ReadText(problems, field, kArrivals);
    if (!word) return arrivals;
    if (*word != "poisson" && *word != "constant") {
      yaml::Refuse(problems, field, kArrivals);
      return arrivals;
    }
    arrivals.kind = *word == "poisson" ? ArrivalKind::kPoisson : ArrivalKind::kConstant;
    arrivals.name = *word;
    return arrivals;
  }
  MapReader map(problems, field, {"trace", "onoff", "jump", "overload"});
  const Field *trace = map.Find("trace"), *onoff = map.Find("onoff"), *jump = map.Find("jump"),
              *overload = map.Find("overload");
  const int given = (trace != nullptr) + (onoff != nullptr) + (jump != nullptr) + (overload != nullptr);
  if (given == 0 && field.node.size() > 0) {
    // The reader of the map has told of the keys.
  } else if (given != 1) {
    problems.Add(field.line, field.path,
                 fmt::format("expected one of trace, onoff, jump and overload, got {}", given));
  } else if (trace != nullptr) {
    ReadTrace(problems, *trace, folder, arrivals);
  } else if (onoff != nullptr) {
    ReadOnOff(problems, *onoff, arrivals);
  } else if (jump != nullptr) {
    ReadJump(problems, *jump, arrivals);
  } else {
    ReadOverload(problems, *overload, arrivals);
  }
  return arrivals;
}

// What makes it differ: "answered", "every-20ms-delay-100ms-loss-20pct".
std::string NameOf(const Reports& reports) {
  std::string name = reports.period.count() == 0 ? "answered" : "every-" + Milliseconds(reports.period);
  if (reports.delay != kReportDelay) name += "-delay-" + Milliseconds(reports.delay);
  if (reports.jitter.count() > 0) name += "-jitter-" + Milliseconds(reports.jitter);
  if (reports.loss > 0) name += fmt::format("-loss-{}pct", 100 * reports.loss);
  if (reports.learned) name += "-learned";
  if (reports.check != Reports().check) name += "-check-" + Milliseconds(reports.check);
  return name;
}

Reports ReadOneReports(Problems& problems, const Field& field) {
  MapReader map(problems, field, {"name", "period", "delay", "jitter", "loss_pct", "learned", "check"});
  Reports reports;
  reports.delay = kReportDelay;
  const auto time = [&](const Field& f) { return yaml::ReadTime(problems, f, Duration(0), kMaxTime); };
  Take(reports.period, map.Find("period"), time);
  Take(reports.delay, map.Find("delay"), time);
  Take(reports.jitter, map.Find("jitter"), time);
  if (const Field* f = map.Find("loss_pct"))
    if (auto pct = yaml::ReadNumber(problems, *f, 0, 100)) reports.loss = *pct / 100;
  Take(reports.learned, map.Find("learned"), [&](const Field& f) { return yaml::ReadBool(problems, f); });
  Take(reports.check, map.Find("check"), time);
  if (const Field* f = map.Find("check")) {
    if (!reports.learned || reports.period.count() == 0)
      problems.Add(f->line, f->path, "expected learned: true and a period beside it");
    else if (reports.check.count() > 0 && reports.check < std::chrono::microseconds(100))
      problems.Add(f->line, f->path, "expected 0 or 100us and more");
  }
  reports.name = NameOf(reports);
  Take(reports.name, map.Find("name"), [&](const Field& f) { return yaml::ReadName(problems, f); });
  return reports;
}

}  // namespace

std::vector<Arrivals> ReadArrivals(Problems& problems, const Field& field, const std::string& folder) {
  std::vector<Arrivals> all;
  std::set<std::string> names;
  const std::string expected = std::string("a list of ") + kArrivals;
  const auto entries = yaml::ReadList(problems, field, expected);
  if (field.node.IsSequence() && entries.empty())
    problems.Add(field.line, field.path, fmt::format("expected {}, got an empty list", expected));
  for (const Field& entry : entries) {
    all.push_back(ReadArrival(problems, entry, folder));
    if (!all.back().name.empty()) CheckOwnName(problems, entry, all.back().name, names);
  }
  return all;
}

std::vector<Reports> ReadReports(Problems& problems, const Field& field) {
  std::vector<Reports> all;
  std::set<std::string> names;
  const auto entries = yaml::ReadList(problems, field, "a list of ways to report");
  if (field.node.IsSequence() && entries.empty())
    problems.Add(field.line, field.path, "expected at least one way to report, got an empty list");
  for (const Field& entry : entries) {
    all.push_back(ReadOneReports(problems, entry));
    CheckOwnName(problems, entry, all.back().name, names);
  }
  return all;
}

Reports DefaultReports() {
  Reports reports;
  reports.delay = kReportDelay;
  reports.name = NameOf(reports);
  return reports;
}

std::optional<Duration> ReadWire(Problems& problems, const Field& field) {
  return yaml::ReadTime(problems, field, Duration(0), std::chrono::seconds(1));
}

std::optional<uint64_t> ReadRequests(Problems& problems, const Field& field) {
  return yaml::ReadInteger(problems, field, 100, 10'000'000'000);
}

std::optional<uint64_t> ReadRuns(Problems& problems, const Field& field) {
  return yaml::ReadInteger(problems, field, 1, 1000);
}

std::optional<uint64_t> ReadFlows(Problems& problems, const Field& field) {
  return yaml::ReadInteger(problems, field, 0, 1'000'000);
}

std::optional<uint64_t> ReadWarmUp(Problems& problems, const MapReader& map) {
  bool cold = false;
  Take(cold, map.Find("cold_start"), [&](const Field& f) { return yaml::ReadBool(problems, f); });
  if (cold) {
    map.Refuse({"warm_up"}, "not allowed with cold_start");
    return 0;
  }
  const Field* field = map.Find("warm_up");
  return field != nullptr ? yaml::ReadInteger(problems, *field, 0, 10'000'000'000) : std::nullopt;
}

Result<std::vector<double>> ParseTrace(const std::string& text, const std::string& file_name) {
  std::vector<double> times;
  std::istringstream lines(text);
  int number = 0;
  for (std::string line; std::getline(lines, line);) {
    number++;
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    double time = 0;
    const auto [end, error] = std::from_chars(line.data(), line.data() + line.size(), time);
    const bool understood = error == std::errc() && end == line.data() + line.size() && std::isfinite(time);
    if (!understood || time < 0 || (!times.empty() && time < times.back()))
      return Fail(
          ErrorCode::kBadInput,
          fmt::format("{}:{}: expected a time in seconds{}, got {}", file_name, number,
                      times.empty() ? "" : fmt::format(", {} or later", times.back()), yaml::Excerpt(line)));
    times.push_back(time);
  }
  if (times.size() < 2 || times.back() <= times.front())
    return Fail(ErrorCode::kBadInput, fmt::format("{}:{}: expected two different times at least, got {}",
                                                  file_name, std::max(number, 1), times.size()));
  return times;
}

Result<std::vector<double>> LoadTrace(const std::string& path) {
  const auto text = yaml::ReadInputFile(path);
  if (!text) return tl::make_unexpected(text.error());
  return ParseTrace(*text, path);
}

}  // namespace spillway::sim
