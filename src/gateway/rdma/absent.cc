// SPDX-License-Identifier: Apache-2.0
// Of a build without the RDMA libraries.
#include "gateway/rdma/join.h"

namespace spillway::gateway {

Result<Joined> JoinOverRdma(const std::string&, const std::string&, const ExecutorOffer&) {
  return Fail(ErrorCode::kUnavailable, "this build has no RDMA: librdmacm was missing");
}

}  // namespace spillway::gateway
