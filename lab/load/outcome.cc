// SPDX-License-Identifier: Apache-2.0
#include "lab/load/outcome.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "report/percentile.h"

namespace spillway::load {

namespace {

using nlohmann::ordered_json;
using report::Percentile;

constexpr int kBucketsPerDecade = 20;  // bounds 12.2 % apart

// Rounded to `decimals`, so that JSON is readable; NaN stays null.
ordered_json Number(double value, int decimals) {
  if (!std::isfinite(value)) return nullptr;
  const double factor = std::pow(10, decimals);
  return std::round(value * factor) / factor;
}

const char* Word(Process arrivals) {
  return arrivals == Process::kPoisson ? "poisson" : arrivals == Process::kConstant ? "constant" : "bursty";
}

const char* Word(Protocol protocol) {
  constexpr const char* kWords[] = {"udp", "tcp", "http", "https"};
  return kWords[static_cast<int>(protocol)];
}

double Mean(const std::vector<double>& values) {
  if (values.empty()) return std::nan("");
  return std::accumulate(values.begin(), values.end(), 0.0) / static_cast<double>(values.size());
}

// Requests of some span of time, and what became of them.
struct Tally {
  std::uint64_t offered = 0, sent = 0;
  std::vector<double> latencies_ms, from_sent_ms, errors_us;

  void Add(const Record& record) {
    ++offered;
    if (record.sent_ns == kNever) return;
    ++sent;
    errors_us.push_back(static_cast<double>(record.sent_ns - record.intended_ns) / 1e3);
    if (record.received_ns == kNever) return;
    latencies_ms.push_back(static_cast<double>(record.received_ns - record.intended_ns) / 1e6);
    from_sent_ms.push_back(static_cast<double>(record.received_ns - record.sent_ns) / 1e6);
  }
  void Sort() {
    std::sort(latencies_ms.begin(), latencies_ms.end());
    std::sort(from_sent_ms.begin(), from_sent_ms.end());
    std::sort(errors_us.begin(), errors_us.end());
  }
  [[nodiscard]] ordered_json AnsweredPct() const {
    if (offered == 0) return nullptr;
    return Number(100.0 * static_cast<double>(latencies_ms.size()) / static_cast<double>(offered), 3);
  }
};

ordered_json Histogram(const std::vector<double>& sorted_ms) {
  std::map<int, std::uint64_t> buckets;
  for (double ms : sorted_ms)
    ++buckets[static_cast<int>(std::ceil(std::log10(std::max(ms, 1e-3)) * kBucketsPerDecade - 1e-9))];
  ordered_json histogram = ordered_json::array();
  for (const auto& [bucket, count] : buckets)
    histogram.push_back({{"le_ms", Number(std::pow(10, static_cast<double>(bucket) / kBucketsPerDecade), 6)},
                         {"count", count}});
  return histogram;
}

ordered_json Intervals(const Settings& settings, const Trial& run) {
  std::vector<Tally> tallies;
  const std::int64_t length = settings.interval.count(), from = settings.warmup.count();
  for (const Record& record : run.ledger.records()) {
    if (!record.measured) continue;
    const auto index = static_cast<std::size_t>((record.intended_ns - from) / length);
    if (index >= tallies.size()) tallies.resize(index + 1);
    tallies[index].Add(record);
  }
  ordered_json rows = ordered_json::array();
  for (std::size_t i = 0; i < tallies.size(); ++i) {
    Tally& tally = tallies[i];
    tally.Sort();
    rows.push_back({{"from_s", Number(static_cast<double>(i) * static_cast<double>(length) / 1e9, 6)},
                    {"offered", tally.offered},
                    {"answered", tally.latencies_ms.size()},
                    {"answered_pct", tally.AnsweredPct()},
                    {"p50_ms", Number(Percentile(tally.latencies_ms, 50), 6)},
                    {"p99_ms", Number(Percentile(tally.latencies_ms, 99), 6)}});
  }
  return rows;
}

}  // namespace

ordered_json ToJson(const Settings& settings, const Trial& run) {
  Tally tally;
  std::uint64_t warmup = 0;
  std::int64_t last_ns = settings.warmup.count();
  std::vector<std::uint64_t> by_unit(run.ledger.units().size(), 0);
  for (const Record& record : run.ledger.records()) {
    if (!record.measured) {
      ++warmup;
      continue;
    }
    tally.Add(record);
    last_ns = record.intended_ns;
    if (record.received_ns != kNever) ++by_unit[record.unit];
  }
  tally.Sort();
  // An interrupted run offered its requests in the time up to its last one.
  const double seconds = run.interrupted ? static_cast<double>(last_ns - settings.warmup.count()) / 1e9
                                         : std::chrono::duration<double>(settings.duration).count();
  const auto rate = [&](std::size_t count) { return Number(static_cast<double>(count) / seconds, 3); };
  const std::vector<double>& ms = tally.latencies_ms;
  const Counters& c = run.ledger.counters;
  ordered_json json = {{"protocol", Word(settings.protocol)},
                       {"arrivals", Word(settings.arrivals)},
                       {"rate", settings.rate},
                       {"seconds", Number(seconds, 6)},
                       {"interrupted", run.interrupted},
                       {"flow_per_request", settings.flow_per_request},
                       {"flows", run.flows == 0 ? run.ledger.records().size()
                                                : std::min(run.flows, run.ledger.records().size())},
                       {"warmup", warmup},
                       {"offered", tally.offered},
                       {"sent", tally.sent},
                       {"answered", ms.size()},
                       {"answered_pct", tally.AnsweredPct()},
                       {"offered_rps", rate(tally.offered)},
                       {"sent_rps", rate(tally.sent)},
                       {"answered_rps", rate(ms.size())},
                       {"mean_ms", Number(Mean(ms), 6)},
                       {"p50_ms", Number(Percentile(ms, 50), 6)},
                       {"p90_ms", Number(Percentile(ms, 90), 6)},
                       {"p99_ms", Number(Percentile(ms, 99), 6)},
                       {"p99_9_ms", Number(Percentile(ms, 99.9), 6)},
                       {"max_ms", Number(Percentile(ms, 100), 6)},
                       {"p50_from_sent_ms", Number(Percentile(tally.from_sent_ms, 50), 6)},
                       {"p99_from_sent_ms", Number(Percentile(tally.from_sent_ms, 99), 6)},
                       {"schedule_error_mean_us", Number(Mean(tally.errors_us), 3)},
                       {"schedule_error_p50_us", Number(Percentile(tally.errors_us, 50), 3)},
                       {"schedule_error_p99_us", Number(Percentile(tally.errors_us, 99), 3)},
                       {"schedule_error_max_us", Number(Percentile(tally.errors_us, 100), 3)},
                       {"late", c.late},
                       {"duplicates", c.duplicates},
                       {"foreign", c.foreign},
                       {"send_failed", c.send_failed},
                       {"refused", c.refused},
                       {"connections", c.connections},
                       {"connect_failed", c.connect_failed},
                       {"connections_broken", c.broken},
                       {"pcc_violations", c.pcc_violations}};
  ordered_json& units = json["units"] = ordered_json::object();
  for (std::size_t i = 0; i < by_unit.size(); ++i) units[run.ledger.units()[i]] = by_unit[i];
  json["histogram"] = Histogram(ms);
  if (settings.interval.count() > 0) json["intervals"] = Intervals(settings, run);
  return json;
}

namespace {

// Low byte first, whatever the machine's own order.
void Put(std::string& out, std::uint64_t value, int bytes) {
  for (int i = 0; i < bytes; ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

std::string Time(std::int64_t ns) { return ns == kNever ? "" : fmt::format("{}", ns); }

// Names come from the network: no separators, no quotes, no control bytes.
std::string Plain(const std::string& name) {
  std::string out = name;
  for (char& c : out) {
    if (static_cast<unsigned char>(c) < 0x20 || c == ',' || c == '"') c = '_';
  }
  return out;
}

}  // namespace

std::string SamplesCsv(const Ledger& ledger) {
  std::string out = "intended_ns,sent_ns,received_ns,flow,unit,measured\n";
  for (const Record& r : ledger.records()) {
    fmt::format_to(std::back_inserter(out), "{},{},{},{},{},{}\n", r.intended_ns, Time(r.sent_ns),
                   Time(r.received_ns), r.flow, r.unit == kNoUnit ? "" : Plain(ledger.units()[r.unit]),
                   r.measured ? 1 : 0);
  }
  return out;
}

std::string SamplesBinary(const Ledger& ledger) {
  std::string out = "SPWSMP01";
  Put(out, ledger.records().size(), 8);
  Put(out, ledger.units().size(), 4);
  for (const std::string& name : ledger.units()) {
    Put(out, name.size(), 1);
    out += name;
  }
  out.reserve(out.size() + ledger.records().size() * 32);
  for (const Record& r : ledger.records()) {
    for (std::int64_t ns : {r.intended_ns, r.sent_ns, r.received_ns})
      Put(out, static_cast<std::uint64_t>(ns), 8);
    Put(out, r.flow, 4);
    Put(out, r.unit, 2);
    Put(out, r.measured ? 1 : 0, 1);
    Put(out, 0, 1);
  }
  return out;
}

}  // namespace spillway::load
