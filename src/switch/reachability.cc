// SPDX-License-Identifier: Apache-2.0
#include "reachability.h"

namespace spillway::switching {

void Reachability::Look(Hop hop, Time now) {
  const bool was_known = hop_ == Hop::kKnown || hop_ == Hop::kForgotten;
  if (hop == Hop::kForgotten && !was_known) hop = Hop::kUnknown;
  if (hop == Hop::kUnknown && was_known) lost_at_ = now;
  hop_ = hop;
  if (hop == Hop::kNone || hop == Hop::kKnown) forwards_ = hop == Hop::kKnown;
  const bool takes = forwards_ && (hop != Hop::kUnknown || now - lost_at_ < kGrace);
  if (takes != takes_new_flows_) changed_at_ = now;
  takes_new_flows_ = takes;
  if (now - changed_at_ >= kSettle) in_ring_ = takes;
}

}  // namespace spillway::switching
