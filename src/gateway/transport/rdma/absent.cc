// SPDX-License-Identifier: Apache-2.0
// Stands in for this folder in a build without the RDMA libraries: each call is an error that says so.
#include "gateway/transport/rdma/client_window.h"
#include "gateway/transport/rdma/join.h"
#include "gateway/transport/rdma/listener.h"
#include "gateway/transport/rdma/window_listener.h"

#include "base/fd.h"

namespace spillway::gateway {
namespace {

tl::unexpected<Error> Absent() {
  return Fail(ErrorCode::kUnavailable, "this build has no RDMA: librdmacm was missing");
}

}  // namespace

Result<Joined> JoinOverRdma(const std::string&, const std::string&, const ExecutorOffer&,
                            const DeviceInputs&) {
  return Absent();
}

Result<std::unique_ptr<RdmaListener>> RdmaListener::Listen(base::Fd, const std::string&, uint64_t) {
  return Absent();
}

Result<std::unique_ptr<WindowListener>> WindowListener::Listen(const std::string&) { return Absent(); }

Result<void> CheckRdma() { return Absent(); }

Result<std::unique_ptr<ClientWindow>> OpenRemoteWindow(const RemoteWindowPlace&,
                                                       std::chrono::steady_clock::time_point) {
  return Absent();
}

}  // namespace spillway::gateway
