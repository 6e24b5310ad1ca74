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

}  // namespace
}  // namespace spillway::gateway
