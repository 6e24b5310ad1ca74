// SPDX-License-Identifier: Apache-2.0
// Many flows at once to spillway-unit, each asking a question every few milliseconds for as long as it
// lives; the answers name the unit. Counts what per-connection consistency forbids: flows whose unit
// changed, connections that broke.
//
// Threading: a thread of its own, inside the client's namespace, does all the traffic; every method may be
// called from one other thread.
#pragma once

#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "model/pool.h"

namespace spillway::e2e {

struct FlowTally {
  size_t flows = 0;    // alive and not excepted
  size_t unheard = 0;  // of these, without an answer yet
  size_t moved = 0;    // flows that got answers from two units
  size_t broken = 0;   // connections refused, reset or closed
  uint64_t answers = 0;
  uint64_t lost = 0;    // datagrams unanswered for a second
  std::string example;  // of a moved or broken flow
};

class FlowSet {
 public:
  explicit FlowSet(std::string netns);
  ~FlowSet();
  FlowSet(const FlowSet&) = delete;
  FlowSet& operator=(const FlowSet&) = delete;

  void Open(model::Protocol protocol, const model::Address& address, uint16_t port, size_t count);
  // Flows on this unit are no longer watched. How many there were.
  size_t Except(const std::string& unit);

  // Every watched flow gets `answers` more. False if some do not in time; see Stuck().
  [[nodiscard]] bool AwaitProgress(uint64_t answers,
                                   std::chrono::seconds limit = std::chrono::seconds(30)) const;
  std::string Stuck() const;  // flows the last AwaitProgress gave up on, a few by name

  FlowTally Tally() const;
  std::map<std::string, size_t> PerUnit() const;  // watched flows by unit

 private:
  struct Flow;

  void Loop();
  void Start(Flow& flow);
  void Ask(Flow& flow);
  void Hear(Flow& flow);
  void Break(Flow& flow, const std::string& why);
  std::string Describe(const Flow& flow) const;

  const std::string netns_;
  mutable std::mutex mutex_;  // guards flows_ and what is in them, and tally_
  std::vector<std::unique_ptr<Flow>> flows_;
  FlowTally tally_;
  mutable std::string stuck_;
  int epoll_ = -1;
  std::atomic<bool> stop_ = false;
  std::thread thread_;
};

}  // namespace spillway::e2e
