// SPDX-License-Identifier: Apache-2.0
#include "samples.h"

#include <fmt/format.h>

#include <iterator>

namespace spillway::load {

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
