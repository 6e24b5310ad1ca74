// SPDX-License-Identifier: Apache-2.0
// Collects the rows of paper.h. Not thread-safe.
#pragma once

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "planner/paper.h"

namespace spillway::planner {

class PaperRows {
 public:
  // `reason`: told if the value differs. `note`: told in any case.
  struct Words {
    std::string formula;
    std::string reason = {};
    std::string note = {};
    Meaning meaning = Meaning::kEqual;
  };
  void Add(std::string id, std::string claim, std::string printed, double value, Words words) {
    const bool match = Matches(printed, value, words.meaning);
    std::string reason = match ? std::string() : std::move(words.reason);
    if (!words.note.empty()) reason += (reason.empty() ? "" : "; ") + words.note;
    rows_.push_back({std::move(id), std::move(claim), std::move(printed), value, match, std::move(reason),
                     std::move(words.formula)});
  }
  // What only a measurement can say.
  void AddMeasured(std::string id, std::string claim, std::string printed, std::string reason) {
    rows_.push_back({std::move(id), std::move(claim), std::move(printed),
                     std::numeric_limits<double>::quiet_NaN(), false, std::move(reason), ""});
  }
  std::vector<PaperRow> Take() { return std::move(rows_); }

 private:
  std::vector<PaperRow> rows_;
};

}  // namespace spillway::planner
