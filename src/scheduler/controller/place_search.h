// SPDX-License-Identifier: Apache-2.0
// A look for places on a fleet, and what it goes by: the view, what is asked for in all, and the placer. To
// make one takes time that grows with the fleet. So one serves for many replicas: each that is started is
// added to it, and the next is decided as on one that is made anew. Pure.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "scheduler/controller/fleet_view.h"
#include "scheduler/placer.h"

namespace spillway::scheduler {

class PlaceSearch {
 public:
  // `avoid`: as of FleetView.
  PlaceSearch(const Fleet& fleet, const FleetRules& rules, Policy policy, const std::string& avoid = {});
  PlaceSearch(const PlaceSearch&) = delete;
  PlaceSearch& operator=(const PlaceSearch&) = delete;

  [[nodiscard]] FleetView& view() { return view_; }
  [[nodiscard]] Placer& placer() { return placer_; }

  struct Found {
    Job job;
    Spot spot;
  };
  // Where a new instance should go now. Of the shares that it may ask for, one that finds a place where no
  // GPU is switched on for it comes first, then the smallest.
  [[nodiscard]] std::optional<Found> Find(const ServedModel& model);
  // On that node alone: the smallest share that has room there.
  [[nodiscard]] std::optional<Found> FindOn(const ServedModel& model, int node);

 private:
  FleetView view_;
  JobMix mix_;
  Placer placer_;
};

// Those of one pass over a fleet of which nothing changes meanwhile, but for what Started and Clear are told:
// one that avoids nothing, and the last that avoided a GPU. They are made when they are asked for.
class PlaceSearches {
 public:
  PlaceSearches(const Fleet& fleet, const FleetRules& rules, Policy policy)
      : fleet_(fleet), rules_(rules), policy_(policy) {}

  // Until the next call of any function.
  [[nodiscard]] PlaceSearch& Avoiding(const std::string& gpu_key);  // empty: none
  // The fleet has it by now: its youngest, which takes no other's place.
  void Started(const Instance& one);
  void Clear();

 private:
  const Fleet& fleet_;
  const FleetRules& rules_;
  const Policy policy_;
  std::optional<PlaceSearch> anywhere_, elsewhere_;
  std::string avoided_;  // by elsewhere_
};

}  // namespace spillway::scheduler
