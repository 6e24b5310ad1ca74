// SPDX-License-Identifier: Apache-2.0
#include "reachability.h"

namespace spillway::switching {

void Reachability::Look(Hop hop, Time now) {
  if (hop == Hop::kUnknown && hop_ == Hop::kKnown) lost_at_ = now;
  hop_ = hop;
  if (hop != Hop::kUnknown) forwards_ = hop == Hop::kKnown;
  const bool takes = forwards_ && (hop == Hop::kKnown || now - lost_at_ < kGrace);
  if (takes != takes_new_flows_) changed_at_ = now;
  takes_new_flows_ = takes;
  if (now - changed_at_ >= kSettle) in_ring_ = takes;
}

}  // namespace spillway::switching
