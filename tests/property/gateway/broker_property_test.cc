// SPDX-License-Identifier: Apache-2.0
// What must hold whatever clients, slices and fate do: random histories of a broker, watched from outside.
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "broker_bed.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using scheduler::Isolation;

// Keeps its own books of which request lies where.
class Watched : public SlicePort {
 public:
  struct Place {
    uint64_t id;
    uint32_t tenant;
  };

  explicit Watched(Isolation isolation, uint32_t tenants)
      : isolation_(isolation), broker(Options(isolation, tenants), *this) {}

  static BrokerOptions Options(Isolation isolation, uint32_t tenants) {
    BrokerOptions options;
    options.isolation = isolation;
    options.stuck_after = 10s;
    for (uint32_t i = 0; i < tenants; i++) options.tenants.push_back({"t" + std::to_string(i), 20});
    return options;
  }

  bool Deliver(const Delivery& delivery) override {
    const uint32_t tenant = delivering_tenant(delivery.id);
    EXPECT_TRUE(alive.contains(delivery.slice)) << "to a dead slice";
    EXPECT_FALSE(starting.contains(delivery.slice)) << "to one that is not ready";
    auto& cells = held[delivery.slice];
    EXPECT_FALSE(cells.contains(delivery.cell)) << "two requests in one cell";
    EXPECT_LT(delivery.cell, 2u);
    for (const auto& [slice, others] : held)
      for (const auto& [cell, place] : others) {
        if (place.tenant == tenant || !alive.contains(slice)) continue;
        if (isolation_ == Isolation::kFraction) {
          EXPECT_NE(slice, delivery.slice) << "a slice has two tenants";
        }
        if (isolation_ == Isolation::kGpu) {
          EXPECT_NE(alive[slice], alive[delivery.slice]) << "a GPU has two tenants";
        }
      }
    const auto last = last_tenant.find(delivery.slice);
    if (isolation_ != Isolation::kNone) {
      EXPECT_EQ(delivery.wipe, last != last_tenant.end() && last->second != tenant);
    }
    last_tenant[delivery.slice] = tenant;
    cells[delivery.cell] = {delivery.id, tenant};
    return true;
  }
  void Abandon(uint32_t) override { ADD_FAILURE() << "nobody is stuck here"; }
  void GiveUp(uint32_t, uint32_t, uint64_t) override {}

  // The broker numbers requests from 1 on, in the order of admission.
  uint32_t delivering_tenant(uint64_t id) { return tenant_of.at(id); }

  Isolation isolation_;
  std::map<uint32_t, std::map<uint32_t, Place>> held;  // slice -> cell -> request
  std::map<uint32_t, uint32_t> alive;                  // slice -> GPU
  std::set<uint32_t> starting;                         // slices that take nothing yet
  std::map<uint32_t, uint32_t> last_tenant;
  std::map<uint64_t, uint32_t> tenant_of;
  Broker broker;
};

class History {
 public:
  History(Isolation isolation, uint32_t seed) : random_(seed), port_(isolation, kTenants) {}

  void Run(int steps) {
    for (int i = 0; i < steps; i++) Step();
    // All that is left is done, or meets its deadline.
    for (int i = 0; i < 1000 && (port_.broker.queued() > 0 || port_.broker.running() > 0); i++) {
      now_ += 100ms;
      while (Finish()) {
      }
      port_.broker.Tick(now_);
    }
    for (size_t i = 0; i < answers_.size(); i++) EXPECT_EQ(answers_[i], 1) << "request " << i;
    EXPECT_EQ(port_.broker.memory_held(), 0u);
    EXPECT_EQ(port_.broker.running(), 0u);
  }

 private:
  static constexpr uint32_t kTenants = 3, kExecutors = 3;
  uint32_t Dice(uint32_t sides) { return static_cast<uint32_t>(random_() % sides); }

  void Step() {
    now_ += Duration(Dice(2'000'000));
    switch (Dice(20)) {
      case 0:
        Join();
        break;
      case 1:
        if (Dice(4) == 0)
          Die();
        else
          BecomeReady();
        break;
      case 2:
        port_.broker.Tick(now_);
        break;
      case 3:
        if (last_id_ > 0) port_.broker.Cancel(1 + Dice(static_cast<uint32_t>(last_id_)), now_);
        break;
      case 4:
      case 5:
      case 6:
      case 7:
      case 8:
      case 9:
      case 10:
        Finish();
        break;
      default:
        Ask();
    }
  }

  void Join() {
    const uint32_t number = Dice(kExecutors);
    if (executors_.contains(number)) return;
    ExecutorOffer offer = SmallOffer("e" + std::to_string(number), 2 + Dice(2));
    for (auto& slice : offer.slices) slice.gpu = "gpu" + std::to_string(Dice(2));
    offer.is_starting = Dice(2) == 0;
    const auto joined = port_.broker.AddExecutor(offer, now_);
    ASSERT_TRUE(joined);
    executors_[number] = joined->executor;
    for (uint32_t i = 0; i < offer.slices.size(); i++) {
      port_.alive[joined->first_slice + i] =
          number * 10 + static_cast<uint32_t>(offer.slices[i].gpu.back() - '0');
      port_.held[joined->first_slice + i].clear();
      port_.last_tenant.erase(joined->first_slice + i);
      slices_[number].insert(joined->first_slice + i);
      if (offer.is_starting) port_.starting.insert(joined->first_slice + i);
    }
    if (!offer.is_starting) port_.broker.Ready(joined->executor, now_);
  }

  void BecomeReady() {
    for (const auto& [number, executor] : executors_) {
      bool was_starting = false;
      for (const uint32_t slice : slices_[number])
        was_starting = port_.starting.erase(slice) != 0 || was_starting;
      if (was_starting) return port_.broker.Ready(executor, now_);
    }
  }

  void Die() {
    if (executors_.empty()) return;
    auto victim = executors_.begin();
    std::advance(victim, Dice(static_cast<uint32_t>(executors_.size())));
    for (const uint32_t slice : slices_[victim->first]) {
      port_.alive.erase(slice);
      port_.starting.erase(slice);
      port_.held[slice].clear();
    }
    slices_[victim->first].clear();
    const uint32_t executor = victim->second;
    executors_.erase(victim);
    port_.broker.RemoveExecutor(executor, now_);
  }

  void Ask() {
    const size_t number = answers_.size();
    answers_.push_back(0);
    Request request;
    request.tenant = Dice(kTenants);
    request.model = 0;
    request.inputs = BrokerBed::kInputs;
    request.held_bytes = Dice(100);
    request.deadline = Duration(1'000'000 + Dice(50'000'000));
    request.reply = [this, number](const Answer&) { answers_[number]++; };
    if (port_.broker.model_count() == 0) {
      answers_.pop_back();
      return;
    }
    // Admission numbers it; a refused one takes no number.
    port_.tenant_of[last_id_ + 1] = request.tenant;
    const uint64_t id = port_.broker.Submit(std::move(request), now_);
    if (id != 0) {
      EXPECT_EQ(id, last_id_ + 1);
      last_id_ = id;
    }
  }

  bool Finish() {
    std::vector<std::pair<uint32_t, uint32_t>> busy;
    for (const auto& [slice, cells] : port_.held)
      for (const auto& [cell, place] : cells) busy.emplace_back(slice, cell);
    if (busy.empty()) return false;
    const auto [slice, cell] = busy[Dice(static_cast<uint32_t>(busy.size()))];
    const uint64_t id = port_.held[slice][cell].id;
    port_.held[slice].erase(cell);
    EXPECT_TRUE(port_.broker.Complete(slice, id, Dice(10) == 0 ? Status::kFailed : Status::kOk,
                                      BrokerBed::kOutputs, Duration(1), now_));
    return true;
  }

  std::mt19937 random_;
  Watched port_;
  Time now_{1};
  uint64_t last_id_ = 0;
  std::vector<int> answers_;
  std::map<uint32_t, uint32_t> executors_;
  std::map<uint32_t, std::set<uint32_t>> slices_;
};

class BrokerProperty : public testing::TestWithParam<Isolation> {};

TEST_P(BrokerProperty, OneAnswerEachNoCellTwiceNoTenantsTogether) {
  for (uint32_t seed = 1; seed <= 40; seed++) {
    SCOPED_TRACE(seed);
    History(GetParam(), seed).Run(1500);
    if (testing::Test::HasFailure()) return;
  }
}

TEST_P(BrokerProperty, NoTenantStarvesBesideOneThatNeverPauses) {
  BrokerOptions options = Watched::Options(GetParam(), 3);
  BrokerBed bed(options);
  bed.Join("host", 2, 2);
  std::map<uint64_t, size_t> of_request;
  size_t done = 0;
  bed.Ask(1, 1h);
  bed.Ask(2, 1h);
  // Tenant 0 always has more waiting than fits; the others' single requests must come through.
  for (int i = 0; i < 40; i++) {
    for (int k = 0; k < 4; k++) bed.Ask(0, 1h);
    bed.now += 1ms;
    if (done < bed.delivered.size()) bed.Done(done++);
  }
  EXPECT_EQ(bed.answers[0], std::vector{Status::kOk});
  EXPECT_EQ(bed.answers[1], std::vector{Status::kOk});
}

INSTANTIATE_TEST_SUITE_P(Isolations, BrokerProperty,
                         testing::Values(Isolation::kNone, Isolation::kFraction, Isolation::kGpu),
                         [](const auto& isolation) { return ToString(isolation.param); });

}  // namespace
}  // namespace spillway::gateway
