// SPDX-License-Identifier: Apache-2.0
// On which models of GPU a served model's requests were seen to take longer than on others (`slowness`). A
// preference
// for new instances, a price or a ban for moves that free a GPU, and made so that a wrong one costs little:
// it says something only of GPU models that were both tried with that model, one that was not counts as the
// quickest, and what was learnt is forgotten in time. How much longer is a reason to place otherwise:
// kClearlyLonger in controller_placement.cc.
//
// What is learnt is the fleet's (Fleet::service_times), and so outlives the program. Instances say it by what
// their requests took; the lower median over the instances of one GPU model counts, so that of three or more
// a single liar moves nothing beyond what the others say, and of two the quicker is believed. Pure; time
// comes in. A round costs as much as there are instances, a question as GPU models.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "scheduler/controller/fleet.h"

namespace spillway::scheduler {

class LearnedSpeeds {
 public:
  static constexpr uint64_t kLeastRequests = 100;      // of an instance before it counts
  static constexpr Millis kForgotten = 6 * 3'600'000;  // after the last request of which a figure tells
  static constexpr double kMost = 4;                   // times as long as on the quickest

  struct Sample {
    uint64_t instance = 0;
    std::string model, gpu;  // served; the GPU's
    double ms = 0;           // what one of its requests takes
    uint64_t requests = 0;   // of its executor so far
  };
  // All of now. Those that had no request since they were last told of say nothing.
  void Learn(const std::vector<Sample>& samples, Millis now, ServiceTimes& times);
  // How many times as long they take there as on the quickest GPU model, 1 to kMost; 1 where nothing is
  // known.
  [[nodiscard]] static double Slowness(const ServiceTimes& times, const std::string& model,
                                       const std::string& gpu, Millis now);
  // What one of its requests takes there; as on the quickest where nothing is known of that GPU model;
  // nullopt: nothing is known of any.
  [[nodiscard]] static std::optional<double> ExpectedMs(const ServiceTimes& times, const std::string& model,
                                                        const std::string& gpu, Millis now);
  // The slowness of all GPU models of which something is known.
  [[nodiscard]] static std::map<std::string, double> Of(const ServiceTimes& times, const std::string& model,
                                                        Millis now);

 private:
  std::map<uint64_t, uint64_t> requests_;  // by instance, of the last round
};

}  // namespace spillway::scheduler
