// SPDX-License-Identifier: Apache-2.0
// The file of the last sequence number heard from each unit under each of its last few keys. It outlives the
// maps, so a report recorded before a reboot stays stale after it. A number holds for
// the key under which it was heard: a recording under another key is refused by its tag anyway, and whoever
// stole a key could otherwise silence an agent permanently by a report of the highest numbers. The last few
// keys' are kept, so that a key which comes back finds its recordings stale.
//
//   {"POOL/SERVER/UNIT": [[boot id, sequence, key tag], ...]}   the key in use first
//
// A report itself names its unit by the server's code and the unit's index, so what was heard is also kept
// by these, as "#CODE/INDEX": recordings of a server that comes back under another name, with its code and
// its key, are stale.
//
// Earlier versions wrote one key's alone, or (boot id, sequence) without saying which key's: both are read.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/error.h"
#include "core/report.h"
#include "model/pool.h"

namespace spillway::switching {

// Tells one key from another without holding either: the SipHash of a fixed text that is no report's.
uint64_t KeyTag(const spw_siphash_key& key);

constexpr uint64_t kUnknownKey = 0;  // a tag in files of versions that kept none
constexpr size_t kHeardKeys = 4;     // of each unit; those of the keys before are forgotten

struct HeardReport {
  uint64_t key_tag = kUnknownKey;  // KeyTag of the server's key then
  spw_report_seen last{};
};

// Of one unit, by key; the one heard last comes first.
class HeardUnit {
 public:
  // Unless it is older than what is kept of that key. A tag other than kUnknownKey.
  void Note(const HeardReport& report);
  // Nothing heard under this key: zeros. What was heard under an unknown one is taken for this one's.
  spw_report_seen LastUnder(uint64_t key_tag);
  void Forget(uint64_t key_tag);

  const std::vector<HeardReport>& reports() const { return reports_; }
  // As read; beyond kHeardKeys they are dropped.
  void Append(const HeardReport& report);

 private:
  std::vector<HeardReport> reports_;
};
using HeardReports = std::map<std::string, HeardUnit>;  // by UnitName, and by WireName

// No unit's name begins so. id: server code * 8 + index.
std::string WireName(uint16_t id);

// On disk, mode 0600, before it returns. Errors: kSystem, kConflict.
[[nodiscard]] Result<void> SaveHeard(const HeardReports& heard, const std::string& path);

// Empty if the file is not there or holds something else.
HeardReports LoadHeard(const std::string& path);

// Whether `a` is later than `b`: the order of boot ids, then of sequence numbers (RFC 1982).
bool IsLater(const spw_report_seen& a, const spw_report_seen& b);

}  // namespace spillway::switching
