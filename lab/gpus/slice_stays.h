// SPDX-License-Identifier: Apache-2.0
// Which instances were on which GPUs, when, and where in a picture of the GPU each is drawn, from looks at
// all of them. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace spillway::lab {

struct SliceNow {
  uint64_t id = 0;
  std::string gpu, model;
  double share = 0;
};

struct SliceStay {
  std::string gpu, model;
  double share = 0;
  double from = 0, to = 0;  // of the looks that saw it
  double low = 0;           // the part of the GPU [low, low + share) is its own in the picture
};

class SliceStays {
 public:
  // In the order of time.
  void Look(const std::vector<SliceNow>& instances, double time);
  [[nodiscard]] const std::vector<SliceStay>& all() const { return stays_; }

 private:
  [[nodiscard]] double RoomBeside(const std::map<uint64_t, size_t>& present, const SliceNow& one) const;

  std::vector<SliceStay> stays_;
  std::map<uint64_t, size_t> present_;  // at the last look: by instance, its stay
};

}  // namespace spillway::lab
