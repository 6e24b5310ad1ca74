// SPDX-License-Identifier: Apache-2.0
#include "extender_check.h"

#include "api/listen.h"
#include "extender/extender.h"
#include "model/documents.h"

namespace spillway::cmd {

Result<void> CheckExtender(const model::Config& config) {
  if (!config.extender) return {};
  if (const auto good = api::CheckEndpoint(config.extender->listen); !good)
    return Fail(ErrorCode::kBadInput, "extender.listen: " + good.error().message);
  for (const std::string& path : {config.extender->token_file, config.extender->ca_file})
    if (!path.empty())
      if (const auto text = model::ReadInputFile(path); !text) return tl::make_unexpected(text.error());
  return extender::LoadCluster(*config.extender).map([](const scheduler::ClusterFile&) {});
}

}  // namespace spillway::cmd
