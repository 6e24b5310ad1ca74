// SPDX-License-Identifier: Apache-2.0
#include "checker.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>
#include <utility>

#include "base/fd.h"

namespace spillway::health {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;
using std::chrono::steady_clock;

// The first checks of a configuration are spread over so long, or over the interval if that is shorter.
constexpr milliseconds kFirstWithin{1000};
constexpr milliseconds kLongestWait{1000};
// When many units change at once, as in a fault of the network, changes are reported together: a call of
// on_change is followed by a pause of so many times what it took.
constexpr int kReportShare = 4;
// While checks are skipped, that is reported so often.
constexpr std::chrono::seconds kReportSkips{10};
// A longer time without a look at events is a stall of this thread. Shorter ones are its usual work.
constexpr milliseconds kStall{100};
// A turn is this part of the shortest interval or timeout: what it adds to either is of no weight. Longer
// ones spare little more.
constexpr uint32_t kTurnShare = 50;
constexpr milliseconds kMinTurn{1}, kMaxTurn{10};
// Timers that are run until events are looked at again, so that many at once are no stall.
constexpr size_t kMaxTimersAtOnce = 512;

double Seconds(steady_clock::duration d) { return duration<double>(d).count(); }

TrackRules RulesOf(const model::HealthCheck& check) {
  return {check.rise, check.fall, milliseconds(check.dampening_ms), milliseconds(check.dampening_limit_ms)};
}

// Whether they differ in nothing but when they ask and what results in a row decide.
bool AskTheSame(model::HealthCheck one, const model::HealthCheck& other) {
  one.interval_ms = other.interval_ms;
  one.timeout_ms = other.timeout_ms;
  one.rise = other.rise;
  one.fall = other.fall;
  one.jitter = other.jitter;
  one.dampening_ms = other.dampening_ms;
  one.dampening_limit_ms = other.dampening_limit_ms;
  one.on_fail = other.on_fail;
  return one == other;
}

// Whether a pass shows that the service answers. For `tcp` the kernel answers, and after it `tls` needs no
// more of a server than a process in front of it.
bool CanWitness(const model::Service& service) {
  if (!service.health) return false;
  const model::HealthCheck& check = *service.health;
  if (check.kind == model::CheckKind::kTcp || check.kind == model::CheckKind::kTls) return false;
  return std::all_of(service.ports.begin(), service.ports.end(),
                     [&](const model::ServicePort& port) { return port.port == check.port; });
}

}  // namespace

std::string Describe(const model::HealthCheck& check, const model::Address& address) {
  if (check.kind == model::CheckKind::kExec) return fmt::format("exec {}", fmt::join(check.command, " "));
  std::string text = fmt::format(fmt::runtime(address.family == 4 ? "{} {}:{}" : "{} [{}]:{}"),
                                 ToString(check.kind), address.ToString(), check.port);
  if (check.kind == model::CheckKind::kHttp || check.kind == model::CheckKind::kHttps) text += check.path;
  if (check.kind == model::CheckKind::kDns) text += fmt::format(" {} {}", check.query, check.type);
  return text;
}

// There may be so many that most are found in memory, not in a cache: what each check needs comes first.
struct Checker::Target {
  Target(Subject of, std::shared_ptr<const model::HealthCheck> how, TimePoint now)
      : check(std::move(how)), track(RulesOf(*check), now), subject(std::move(of)) {}
  ~Target() { probe.reset(); }  // before what it refers to

  uint64_t round = 0;  // timers set so far
  std::unique_ptr<Probe> probe;
  bool running = false;
  TimePoint started;
  steady_clock::duration stalled{};                 // of the checker, in all, when it started
  std::shared_ptr<const model::HealthCheck> check;  // its service's
  std::optional<double> last_ms SPILLWAY_GUARDED_BY(&Checker::mutex_);
  uint64_t passed SPILLWAY_GUARDED_BY(&Checker::mutex_) = 0;
  CheckTrack track SPILLWAY_GUARDED_BY(&Checker::mutex_);
  uint64_t failed SPILLWAY_GUARDED_BY(&Checker::mutex_) = 0;
  uint64_t skipped SPILLWAY_GUARDED_BY(&Checker::mutex_) = 0;
  uint64_t changes SPILLWAY_GUARDED_BY(&Checker::mutex_) = 0;
  std::string skip_reason SPILLWAY_GUARDED_BY(&Checker::mutex_);
  Subject subject;
};

Checker::Checker(std::unique_ptr<Reactor> at_once, std::unique_ptr<Reactor> each_turn, OnChange on_change)
    : at_once_(std::move(at_once)), each_turn_(std::move(each_turn)), on_change_(std::move(on_change)) {
  web_ = std::make_unique<WebSessions>(*at_once_);
}

Result<std::unique_ptr<Checker>> Checker::Start(const model::Config& config, OnChange on_change) {
  auto at_once = Reactor::Create(), each_turn = Reactor::Create();
  for (const auto* reactor : {&at_once, &each_turn})
    if (!*reactor) return tl::make_unexpected(reactor->error());
  base::RaiseDescriptorLimit();  // every check that waits holds one
  std::unique_ptr<Checker> checker(
      new Checker(std::move(*at_once), std::move(*each_turn), std::move(on_change)));
  checker->SetConfig(config);
  checker->thread_ = std::thread([self = checker.get()] { self->Loop(); });
  return checker;
}

Checker::~Checker() {
  stop_ = true;
  at_once_->Wake();
  if (thread_.joinable()) thread_.join();
  targets_.clear();
  retired_.clear();
  web_.reset();  // before the reactors
}

void Checker::SetConfig(const model::Config& config) {
  {
    const base::MutexLock lock(wanted_mutex_);
    wanted_ = config;
  }
  at_once_->Wake();
}

void Checker::Loop() {
  fetched_ = steady_clock::now();
  while (!stop_) {
    HandOut(*at_once_, UntilNext(steady_clock::now()));
    const TimePoint now = steady_clock::now();
    TakeConfig(now);
    if (now >= next_turn_) Turn(now);
    std::erase_if(retired_, [](const auto& probe) { return probe->settled(); });
    if (!changed_ || now < report_from_) continue;
    changed_ = false;
    const TimePoint began = steady_clock::now();
    on_change_(std::exchange(changes_, {}), Failing());
    const TimePoint ended = steady_clock::now();
    report_from_ = ended + (ended - began) * kReportShare;
  }
}

// All that has come by now, however much: a timer must not fail a check whose answer is here. It ends all the
// same where units send without a pause: each has one socket, so after so many events all have had their
// turn.
void Checker::HandOut(Reactor& reactor, milliseconds wait) {
  bool more = Fetch(reactor, wait);
  for (size_t events = 0; !stop_; events += Reactor::kMaxEventsAtOnce) {
    reactor.Dispatch();
    if (&reactor == at_once_.get()) web_->transfers().OnDeadline(steady_clock::now());
    if (!more || events > CountTargets()) return;
    more = Fetch(reactor, milliseconds(0));
  }
}

bool Checker::Fetch(Reactor& reactor, milliseconds wait) {
  const TimePoint before = steady_clock::now();
  const bool more = reactor.Wait(wait);
  const TimePoint after = steady_clock::now();
  // The thread's own work, and what it slept longer than it wanted, as when the whole machine stood still.
  const auto stall = before - fetched_ + std::max<steady_clock::duration>(after - before - wait, {});
  if (stall > kStall) stalled_ += stall;
  fetched_ = after;
  return more;
}

// Rounded up, so that what is due is due when the wait is over.
milliseconds Checker::UntilNext(TimePoint now) const {
  TimePoint next = now + kLongestWait;
  if (!timers_.empty()) next = std::min(next, std::max(timers_.top().due, next_turn_));
  if (!looks_.empty()) next = std::min(next, std::max(looks_.front().due, next_turn_));
  if (const auto deadline = web_->transfers().deadline()) next = std::min(next, *deadline);
  if (changed_) next = std::min(next, report_from_);
  return next <= now ? milliseconds(0) : std::chrono::ceil<milliseconds>(next - now);
}

void Checker::TakeConfig(TimePoint now) {
  std::optional<model::Config> wanted;
  {
    const base::MutexLock lock(wanted_mutex_);
    wanted.swap(wanted_);
  }
  if (!wanted) return;

  const base::MutexLock lock(mutex_);
  std::map<Key, std::unique_ptr<Target>> known;
  for (std::unique_ptr<Target>& target : targets_) {
    const Subject& s = target->subject;
    known.emplace(Key(s.service, s.pool, s.server, s.unit), std::move(target));
  }
  targets_.clear();
  unwitnessed_.clear();
  std::vector<Target*> fresh;
  for (const model::Service& service : wanted->services) {
    const model::Pool* const pool = wanted->FindPool(service.pool);
    if (!CanWitness(service)) unwitnessed_.insert(service.pool);
    if (!service.health || pool == nullptr) continue;
    const auto check = std::make_shared<const model::HealthCheck>(*service.health);
    for (const model::Server& server : pool->servers)
      for (const model::Unit& unit : server.units) {
        Subject subject{service.name, pool->name, server.name, unit.name, unit.address};
        std::unique_ptr<Target> target;
        const auto found = known.find(Key(subject.service, subject.pool, subject.server, subject.unit));
        const bool is_known =
            found != known.end() && found->second && found->second->subject.address == unit.address;
        if (is_known && *found->second->check == *check) {
          target = std::move(found->second);
        } else {
          target = std::make_unique<Target>(std::move(subject), check, now);
          if (is_known) GoOn(*found->second, *target);
          fresh.push_back(target.get());
        }
        targets_.push_back(std::move(target));
      }
  }
  std::erase_if(known, [](const auto& entry) { return !entry.second; });
  if (!known.empty()) {
    std::set<const Target*> gone;
    for (auto& [key, target] : known) {
      gone.insert(target.get());
      if (target->running) target->probe->Stop();
      if (!target->probe->settled()) retired_.push_back(std::move(target->probe));
    }
    std::vector<Timer> kept;
    for (; !timers_.empty(); timers_.pop())
      if (!gone.contains(timers_.top().target)) kept.push_back(timers_.top());
    timers_ = decltype(timers_)(std::greater<>(), std::move(kept));
    std::erase_if(looks_, [&](const Timer& look) { return gone.contains(look.target); });
  }
  for (Target* const target : fresh) {
    target->probe = MakeProbe(target->subject, *target->check, {*at_once_, *each_turn_, *web_},
                              [this, target](const Outcome& outcome) { OnOutcome(*target, outcome); });
    const auto within = std::min(kFirstWithin, milliseconds(target->check->interval_ms));
    std::uniform_real_distribution<double> spread(0, 1);
    Schedule(*target, now + std::chrono::duration_cast<steady_clock::duration>(within * spread(random_)));
  }
  SetTurn();
  changed_ = true;
}

// `target` takes the place of `before`, at the same address.
void Checker::GoOn(const Target& before, Target& target) {
  const bool asks_the_same = AskTheSame(*before.check, *target.check);
  target.track.GoOnFrom(before.track, asks_the_same);
  if (!asks_the_same) return;
  target.last_ms = before.last_ms;
  target.passed = before.passed;
  target.failed = before.failed;
  target.skipped = before.skipped;
  target.changes = before.changes;
  target.skip_reason = before.skip_reason;
}

void Checker::SetTurn() {
  turn_ = kMaxTurn;
  for (const auto& target : targets_)
    turn_ = std::min(
        turn_, milliseconds(std::min(target->check->interval_ms, target->check->timeout_ms) / kTurnShare));
  turn_ = std::max(turn_, kMinTurn);
}

// What has come is looked at before timers run: a timer must not fail a check whose answer is here.
void Checker::Turn(TimePoint now) {
  next_turn_ = now + turn_;
  HandOut(*each_turn_, milliseconds(0));
  batch_.clear();
  for (; !looks_.empty() && looks_.front().due <= now; looks_.pop_front()) batch_.push_back(looks_.front());
  ForEachInBatch([this](Target& target) {
    if (!target.running) return;
    target.probe->Look();
    // Most are over by now, and never had a timer for it.
    if (target.running) Schedule(target, target.started + milliseconds(target.check->timeout_ms));
  });
  RunTimers(now);
}

// With many units neither a target nor its probe is in a cache. Asked for in advance, they come side by side.
template <class Do>
void Checker::ForEachInBatch(Do act) {
  constexpr size_t kAhead = 8;
  const auto fetch = [](const void* object) {
    for (size_t line = 0; line < 3; line++) __builtin_prefetch(static_cast<const char*>(object) + 64 * line);
  };
  for (size_t i = 0; i < batch_.size() + 2 * kAhead; i++) {
    if (i < batch_.size()) fetch(batch_[i].target);
    if (i >= kAhead && i - kAhead < batch_.size()) fetch(batch_[i - kAhead].target->probe.get());
    if (i < 2 * kAhead) continue;
    const Timer& timer = batch_[i - 2 * kAhead];
    if (timer.target->round == timer.round) act(*timer.target);
  }
}

void Checker::Schedule(Target& target, TimePoint due) { timers_.push({due, &target, ++target.round}); }

void Checker::RunTimers(TimePoint now) {
  batch_.clear();
  while (batch_.size() < kMaxTimersAtOnce && !timers_.empty() && timers_.top().due <= now) {
    batch_.push_back(timers_.top());
    timers_.pop();
  }
  ForEachInBatch([this](Target& target) { target.running ? OnTimeOut(target) : StartCheck(target); });
  if (!timers_.empty() && timers_.top().due <= now) next_turn_ = now;  // the rest, once events were looked at
}

void Checker::StartCheck(Target& target) {
  target.running = true;
  target.started = steady_clock::now();
  target.stalled = stalled_;
  looks_.push_back({target.started + turn_, &target, ++target.round});
  target.probe->Start();
}

void Checker::OnTimeOut(Target& target) {
  const milliseconds timeout(target.check->timeout_ms);
  Outcome outcome = target.probe->Stop();
  outcome.reason += fmt::format(" within {} ms", target.check->timeout_ms);
  if (stalled_ - target.stalled > timeout && ExcuseStall(target))
    outcome = {Outcome::Kind::kSkipped, "spillwayd was stalled"};
  OnOutcome(target, outcome);
}

bool Checker::ExcuseStall(Target& target) {
  const base::MutexLock lock(mutex_);
  return target.track.ExcuseStall();
}

void Checker::OnOutcome(Target& target, const Outcome& outcome) {
  const TimePoint now = steady_clock::now();
  target.running = false;
  std::uniform_real_distribution<double> jitter(-target.check->jitter, target.check->jitter);
  const auto wait = std::chrono::duration_cast<steady_clock::duration>(
      milliseconds(target.check->interval_ms) * (1 + jitter(random_)));
  Schedule(target, std::max(now, target.started + wait));
  const base::MutexLock lock(mutex_);
  target.last_ms = Seconds(std::min<steady_clock::duration>(
                       outcome.took.value_or(steady_clock::duration::max()), now - target.started)) *
                   1e3;
  if (outcome.kind == Outcome::Kind::kSkipped) {
    target.skipped++;
    target.skip_reason = outcome.reason;
    skipped_++;
    if (target.track.Skip(now)) changed_ = true;
    if (now < report_skips_from_) return;
    report_skips_from_ = now + kReportSkips;
    const Subject& s = target.subject;
    changes_.push_back({s.service, s.pool, s.server, s.unit, target.track.state(),
                        fmt::format("{}: {}", Describe(*target.check, s.address), outcome.reason), 0,
                        std::exchange(skipped_, 0)});
    changed_ = true;
    return;
  }
  const bool passed = outcome.kind == Outcome::Kind::kPassed;
  (passed ? target.passed : target.failed)++;
  const TimePoint since = target.track.since();
  const CheckState before = target.track.state();
  if (!target.track.Record(passed, outcome.reason, now)) return;
  changed_ = true;
  target.changes++;
  if (before == CheckState::kUnknown && passed) return;  // as was expected
  const Subject& s = target.subject;
  changes_.push_back(
      {s.service, s.pool, s.server, s.unit, target.track.state(),
       passed ? std::string() : fmt::format("{}: {}", Describe(*target.check, s.address), outcome.reason),
       Seconds(now - since), 0});
}

std::vector<FailingUnit> Checker::Failing() const {
  std::map<Key, FailingUnit> units;
  for (const auto& target : targets_) {
    if (target->track.state() != CheckState::kFailing) continue;
    const Subject& s = target->subject;
    const bool move = target->check->on_fail == model::OnFail::kMove;
    const auto [found, fresh] =
        units.try_emplace(Key(s.pool, s.server, s.unit, ""),
                          FailingUnit{s.pool, s.server, s.unit, target->track.since(), move});
    if (fresh) continue;
    found->second.since = std::min(found->second.since, target->track.since());
    found->second.move |= move;
  }
  std::vector<FailingUnit> failing;
  for (auto& [key, unit] : units) failing.push_back(std::move(unit));
  return failing;
}

std::vector<Witness> Checker::Witnesses(const std::set<UnitName>& units) const {
  std::map<UnitName, Witness> found;
  std::set<UnitName> doubtful;
  if (units.empty()) return {};
  const base::MutexLock lock(mutex_);
  for (const auto& target : targets_) {
    const Subject& s = target->subject;
    UnitName name(s.pool, s.server, s.unit);
    if (!units.contains(name) || unwitnessed_.contains(s.pool)) continue;
    const CheckTrack& track = target->track;
    if (track.state() != CheckState::kUp || !track.passing()) {
      doubtful.insert(std::move(name));
      continue;
    }
    const milliseconds pace(std::max(target->check->interval_ms, target->check->timeout_ms));
    const auto [known, fresh] =
        found.try_emplace(name, Witness{name, track.first_pass(), track.last_pass(), pace});
    if (fresh) continue;
    Witness& witness = known->second;
    witness.since = std::max(witness.since, track.first_pass());
    witness.last = std::min(witness.last, track.last_pass());
    witness.pace = std::max(witness.pace, pace);
  }
  std::vector<Witness> witnesses;
  for (auto& [name, witness] : found)
    if (!doubtful.contains(name)) witnesses.push_back(std::move(witness));
  return witnesses;
}

std::vector<CheckView> Checker::Views() const {
  const base::MutexLock lock(mutex_);
  const TimePoint now = steady_clock::now();
  std::vector<CheckView> views;
  for (const auto& target : targets_) {
    const Subject& s = target->subject;
    CheckView view;
    view.service = s.service;
    view.pool = s.pool;
    view.server = s.server;
    view.unit = s.unit;
    view.what = Describe(*target->check, s.address);
    view.state = target->track.state();
    view.state_s = Seconds(now - target->track.since());
    if (view.state == CheckState::kFailing)
      view.held_s = std::max(0.0, Seconds(target->track.held_until() - now));
    view.reason = target->track.reason();
    view.passed = target->passed;
    view.failed = target->failed;
    view.skipped = target->skipped;
    view.skip_reason = target->skip_reason;
    view.changes = target->changes;
    view.last_ms = target->last_ms;
    views.push_back(std::move(view));
  }
  return views;
}

}  // namespace spillway::health
