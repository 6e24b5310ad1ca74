// SPDX-License-Identifier: Apache-2.0
// Points of which none is both dearer and slower than another. Not thread-safe.
#pragma once

#include <iterator>
#include <map>

namespace spillway::planner {

// By cost; `slowdown` falls as cost rises. Payload: what the point stands for.
template <class Payload>
class ParetoFront {
 public:
  struct Point {
    double slowdown;
    Payload payload;
  };

  // Whether some point costs no more and is no slower.
  bool Covers(double cost, double slowdown) const {
    auto after = points_.upper_bound(cost);
    return after != points_.begin() && std::prev(after)->second.slowdown <= slowdown;
  }

  // Takes a point that is not covered; those that it covers go.
  void Insert(double cost, double slowdown, const Payload& payload) {
    auto place = points_.lower_bound(cost);
    while (place != points_.end() && place->second.slowdown >= slowdown) place = points_.erase(place);
    points_.emplace_hint(place, cost, Point{slowdown, payload});
  }

  const std::map<double, Point>& points() const { return points_; }

 private:
  std::map<double, Point> points_;
};

}  // namespace spillway::planner
