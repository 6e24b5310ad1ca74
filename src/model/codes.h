// SPDX-License-Identifier: Apache-2.0
// Codes: the small integers by which the data plane knows services, servers and units. A name keeps
// its code across configurations, so that established flows, pinned maps and agents stay valid; a
// freed code is reused last-freed-last, so that stale entries have time to end.
#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "pool.h"

namespace spillway::model {

// Name -> code for one kind of thing. Names: "pool/server" for servers, "pool/server/unit" for units,
// the service's name for services.
class CodeBook {
 public:
  explicit CodeBook(uint32_t capacity) : capacity_(capacity) {}

  // The name's code, assigned now if it has none. nullopt: all codes are in use.
  std::optional<uint32_t> Assign(const std::string& name);
  std::optional<uint32_t> Find(const std::string& name) const;
  void Release(const std::string& name);
  // Takes a (name, code) pair as it was saved. False: out of range, or either is taken.
  [[nodiscard]] bool Restore(const std::string& name, uint32_t code);
  // Codes that were given out and are free again, the longest free first; RestoreFreed after all Restore.
  const std::deque<uint32_t>& freed() const { return freed_; }
  void RestoreFreed(const std::vector<uint32_t>& freed);
  const std::map<std::string, uint32_t>& entries() const { return codes_; }

 private:
  uint32_t capacity_;
  uint32_t next_ = 0;  // codes below were given out at least once
  std::deque<uint32_t> freed_;
  std::map<std::string, uint32_t> codes_;
};

}  // namespace spillway::model
