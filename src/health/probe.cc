// SPDX-License-Identifier: Apache-2.0
#include "probe.h"

#include "probe_kinds.h"

namespace spillway::health {

std::unique_ptr<Probe> MakeProbe(const Subject& subject, const model::HealthCheck& check,
                                 const ProbePlaces& places, std::function<void(Outcome)> finish) {
  switch (check.kind) {
    case model::CheckKind::kTcp:
      return MakeTcpProbe(subject, check, places.each_turn, std::move(finish));
    case model::CheckKind::kTls:
    case model::CheckKind::kHttp:
    case model::CheckKind::kHttps:
      return MakeWebProbe(subject, check, places.web, std::move(finish));
    case model::CheckKind::kDns:
    case model::CheckKind::kUdp:
      return MakeDatagramProbe(subject, check, places.each_turn, std::move(finish));
    case model::CheckKind::kExec:
      return MakeExecProbe(subject, check, places.at_once, std::move(finish));
  }
  return nullptr;
}

}  // namespace spillway::health
