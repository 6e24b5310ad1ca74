// SPDX-License-Identifier: Apache-2.0
#include "gateway/metrics.h"

#include <gmock/gmock.h>

#include "broker_bed.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::Not;

TEST(Metrics, SayWhatMemoryASlicesInputsAreDeliveredTo) {
  BrokerBed bed;
  ExecutorOffer offer = SmallOffer("one", 2);
  offer.slices[1].memory = "pinned-host";
  const auto joined = bed.broker.AddExecutor(offer, bed.now);
  ASSERT_TRUE(joined);
  const std::string text = MetricsText(bed.broker, {});
  EXPECT_THAT(text, HasSubstr("spillway_gateway_slice_info{executor=\"one\",gpu=\"gpu0\",gpu_id=\"/gpu0\","
                              "slice=\"s0\",memory=\"host\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("slice=\"s1\",memory=\"pinned-host\"} 1\n"));
  bed.broker.RemoveExecutor(joined->executor, bed.now);
  EXPECT_THAT(MetricsText(bed.broker, {}), Not(HasSubstr("slice_info{")));
}

TEST(Metrics, SayWhatRequestsOfAModelAreExpectedToTakeOnceThatIsLearnt) {
  BrokerBed bed;
  ASSERT_TRUE(bed.broker.AddExecutor(SmallOffer("one", 2), bed.now));
  EXPECT_THAT(MetricsText(bed.broker, {}), Not(HasSubstr("slice_service_seconds{")));
  bed.Ask();
  bed.now += 250ms;
  ASSERT_TRUE(bed.broker.Complete(bed.delivered[0].slice, bed.delivered[0].id, Status::kOk,
                                  BrokerBed::kOutputs, 250ms, bed.now));
  const std::string text = MetricsText(bed.broker, {});
  EXPECT_THAT(text,
              HasSubstr("spillway_gateway_slice_service_seconds{executor=\"one\",gpu=\"gpu0\",gpu_id=\"/"
                        "gpu0\",slice=\"s0\",model=\"m\"} 0.25\n"));
  EXPECT_THAT(text, Not(HasSubstr("slice=\"s1\",model=\"m\"}"))) << "nothing was learnt of it";
}

TEST(Metrics, SayHowLongRequestsTookAndHowLongTheyWaitedForASlice) {
  BrokerBed bed;
  bed.Join("one", 1, 1);
  bed.Ask();
  bed.Ask();  // waits for the first
  bed.now += 4ms;
  bed.Done(0);
  bed.now += 4ms;
  bed.Done(1);
  bed.Ask();
  bed.Done(2, Status::kFailed);
  const std::string text = MetricsText(bed.broker, {});
  for (const char* line :
       {"seconds_bucket{tenant=\"alice\",le=\"0.002\"} 0\n",
        "seconds_bucket{tenant=\"alice\",le=\"0.005\"} 1\n",
        "seconds_bucket{tenant=\"alice\",le=\"0.01\"} 2\n",
        "seconds_bucket{tenant=\"alice\",le=\"+Inf\"} 2\n", "seconds_sum{tenant=\"alice\"} 0.012\n",
        "seconds_count{tenant=\"alice\"} 2\n", "seconds_count{tenant=\"bob\"} 0\n"})
    EXPECT_THAT(text, HasSubstr(std::string("spillway_gateway_request_") + line));
  EXPECT_THAT(text, HasSubstr("request_wait_seconds_sum{tenant=\"alice\"} 0.004\n"));
}

TEST(Metrics, OfAControllerSayWhatServesAndWhatIsLost) {
  using namespace scheduler;
  Fleet fleet;
  fleet.models["m"] = {.name = "m", .tenant = "t", .replicas = 2};
  fleet.hosts["h"] = {.gpus = {{.id = "g0"}, {.id = "g1", .lost = "fell off the bus"}}, .is_up = true};
  fleet.instances[1] = {
      .id = 1, .model = fleet.models["m"], .place = {.host = "h", .gpu = "g0"}, .phase = Phase::kReady};
  fleet.instances[2] = fleet.instances[1];
  fleet.instances[2].is_unseen = true;
  fleet.gpu_ms = 1500;
  fleet.moves_failed = 3;
  const std::string text = FleetMetricsText(fleet, {{409, 2}});
  for (const char* line :
       {"model_replicas{model=\"m\",tenant=\"t\"} 2\n", "model_ready_replicas{model=\"m\",tenant=\"t\"} 1\n",
        "host_up{host=\"h\"} 1\n", "gpu_on{host=\"h\",gpu=\"g0\"} 1\n", "gpu_on{host=\"h\",gpu=\"g1\"} 0\n",
        "gpu_lost{host=\"h\",gpu=\"g1\"} 1\n", "gpu_on_seconds_total 1.5\n",
        "moves_total{result=\"failed\"} 3\n", "model_changes_refused_total{status=\"409\"} 2\n",
        "model_changes_refused_total{status=\"400\"} 0\n"})
    EXPECT_THAT(text, HasSubstr(std::string("spillway_gateway_") + line));
}

}  // namespace
}  // namespace spillway::gateway
