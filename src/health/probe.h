// SPDX-License-Identifier: Apache-2.0
// One unit's check, again and again: begun by Start, ended by its outcome or by Stop. All on the checker's
// thread; nothing blocks.
//
//   idle ──Start──► running ──Finish(outcome)──► idle     (of its own accord, in Start or in Look)
//                      └─────Stop──────────────► idle
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "model/health.h"
#include "model/pool.h"
#include "reactor.h"

namespace spillway::health {

// A check is skipped where this machine was at fault (no descriptors, ports or memory, a file of its own that
// cannot be read): no word on the unit.
struct Outcome {
  enum class Kind : uint8_t { kPassed, kFailed, kSkipped } kind = Kind::kPassed;
  std::string reason;  // empty when it passed
  // How long it took, by the kernel's clock. nullopt: until this was said.
  std::optional<std::chrono::nanoseconds> took{};
};

// Who a check is about: names for a command's environment and messages, and where it goes.
struct Subject {
  std::string service, pool, server, unit;
  model::Address address;
};

class Probe {
 public:
  explicit Probe(std::function<void(Outcome)> finish) : finish_(std::move(finish)) {}
  virtual ~Probe() = default;
  Probe(const Probe&) = delete;
  Probe& operator=(const Probe&) = delete;

  // The outcome may come before this returns. Not while a check runs.
  virtual void Start() = 0;
  // A turn of the checker's after Start, if the check still runs. Most answers are there by then, and need
  // not be waited for one by one: a probe of sockets watches its own from here on only.
  virtual void Look() {}
  // Ends the running check, unheard: its time is over, or nobody asks any more. What it is worth if its time
  // is over, and what it waited for.
  virtual Outcome Stop() = 0;
  // False: what Stop ended is still on its way out. A probe may be destroyed all the same, but then leaves it
  // to the end of this process.
  virtual bool settled() { return true; }

 protected:
  void Pass(std::optional<std::chrono::nanoseconds> took = std::nullopt) const {
    finish_({Outcome::Kind::kPassed, {}, took});
  }
  void Fail(std::string reason) const { finish_({Outcome::Kind::kFailed, std::move(reason)}); }
  void Skip(std::string reason) const { finish_({Outcome::Kind::kSkipped, std::move(reason)}); }

 private:
  const std::function<void(Outcome)> finish_;
};

class WebSessions;  // probe_kinds.h

// Where probes wait. They outlive them.
struct ProbePlaces {
  Reactor& at_once;    // for what has several steps, each of which the next one waits for
  Reactor& each_turn;  // for what one event ends: looked at once a turn, so that many share the way there
  WebSessions& web;
};
// `subject` and `check` outlive the probe as well, unless it is not settled.
std::unique_ptr<Probe> MakeProbe(const Subject& subject, const model::HealthCheck& check,
                                 const ProbePlaces& places, std::function<void(Outcome)> finish);

}  // namespace spillway::health
