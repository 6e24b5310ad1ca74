// SPDX-License-Identifier: Apache-2.0
// The station against a slow model that steps through every event, and what an agent sees of it.
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "sim/event_queue.h"
#include "sim/station.h"

namespace spillway::sim {
namespace {

struct Request {
  Time placed, service;
};

// One step a nanosecond: who waits, who is served. Latencies in the order of placing.
std::vector<Time> StepByStep(const std::vector<Request>& requests, uint32_t workers, Time fixed) {
  std::vector<Time> latency(requests.size(), -1), left(requests.size());
  std::vector<size_t> waiting, served;
  size_t arrived = 0, answered = 0;
  for (Time now = 0; answered < requests.size(); now++) {
    std::erase_if(served, [&](size_t i) {
      if (--left[i] > 0) return false;
      latency[i] = now - requests[i].placed;
      answered++;
      return true;
    });
    while (arrived < requests.size() && requests[arrived].placed + fixed <= now) waiting.push_back(arrived++);
    while (served.size() < workers && !waiting.empty()) {
      left[waiting.front()] = requests[waiting.front()].service;
      served.push_back(waiting.front());
      waiting.erase(waiting.begin());
    }
  }
  return latency;
}

TEST(StationModel, LatenciesAreThoseOfAQueueSteppedThrough) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 200; round++) {
    UnitProfile profile;
    profile.workers = 1 + static_cast<uint32_t>(random() % 5);
    profile.service = Duration(100);
    profile.fixed = Duration(random() % 50);
    Station station(profile, 1, Duration(std::min<int64_t>(5, profile.fixed.count())));
    std::vector<Request> requests;
    std::vector<Time> got;
    Time now = 0;
    for (int i = 0; i < 60; i++) {
      now += static_cast<Time>(random() % (220 / profile.workers));
      const double multiplier = static_cast<double>(1 + random() % 300) / 100;
      requests.push_back({now, static_cast<Time>(multiplier * 100 + 0.5)});
      got.push_back(*station.Place(now, multiplier));
    }
    ASSERT_EQ(got, StepByStep(requests, profile.workers, profile.fixed.count())) << "round " << round;
  }
}

TEST(StationModel, AnAgentSeesEveryRequestComeAndLeaveInOrder) {
  std::mt19937_64 random(6);
  UnitProfile profile;
  profile.workers = 3;
  profile.service = Duration(1000);
  profile.fixed = Duration(400);
  Station station(profile, 1, Duration(50));
  std::vector<Time> leaves, seen_leaves;
  Time now = 0, last = 0;
  uint32_t came = 0;
  Station::Sight sight;
  auto look = [&](Time until) {
    while (station.Next(until, sight)) {
      ASSERT_GE(sight.at, last);
      ASSERT_LE(sight.at, until);
      last = sight.at;
      sight.answered ? seen_leaves.push_back(sight.at) : void(came++);
      ASSERT_EQ(station.queue(), came - seen_leaves.size());
      ASSERT_EQ(station.completed(), seen_leaves.size());
    }
  };
  for (int i = 0; i < 5000; i++) {
    now += static_cast<Time>(random() % 700);
    look(now);
    leaves.push_back(now + *station.Place(now, static_cast<double>(random() % 2000) / 1000));
  }
  look(kNever - 1);
  std::sort(leaves.begin(), leaves.end());
  EXPECT_EQ(seen_leaves, leaves);
  EXPECT_EQ(came, 5000u);
}

TEST(StationModel, AFailureLosesWhatTheUnitHoldsAndNothingElse) {
  UnitProfile profile;
  profile.service = Duration(100);
  Station station(profile, 1, Duration(0));
  station.FailDuring(250, 1000);
  EXPECT_EQ(station.Place(0, 1), 100);
  EXPECT_EQ(station.Place(0, 1), 200);
  EXPECT_EQ(station.Place(0, 1), std::nullopt) << "would be answered at 300";
  EXPECT_EQ(station.Place(600, 1), std::nullopt);
  EXPECT_TRUE(station.FailedAt(250));
  EXPECT_FALSE(station.FailedAt(1000));
  EXPECT_EQ(station.Place(1000, 1), 100) << "starts empty";
}

TEST(EventQueue, SortsLateEventsAndKeepsTheOrderOfEqualOnes) {
  struct Event {
    int at, number;
  };
  std::mt19937_64 random(7);
  EventQueue<Event> queue;
  std::vector<Event> model;
  int clock = 0, number = 0;
  for (int step = 0; step < 20'000; step++) {
    if (random() % 2 || model.empty()) {
      clock += static_cast<int>(random() % 3);
      const Event event{clock + static_cast<int>(random() % 9), number++};
      queue.Push(event);
      model.insert(std::upper_bound(model.begin(), model.end(), event,
                                    [](const Event& a, const Event& b) { return a.at < b.at; }),
                   event);
    } else {
      ASSERT_EQ(queue.front().number, model.front().number);
      queue.Pop();
      model.erase(model.begin());
    }
    ASSERT_EQ(queue.size(), model.size());
  }
}

}  // namespace
}  // namespace spillway::sim
