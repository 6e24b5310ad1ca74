// SPDX-License-Identifier: Apache-2.0
// An executor joins its gateway (a socket's path, or an address): makes its slices' memory, connects, tells
// what it offers, and waits until the gateway has taken it.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "base/fd.h"
#include "gateway/transport/executor_offer.h"
#include "gateway/transport/slice_inlet.h"

namespace spillway::gateway {

// Where the gateway is.
struct GatewayAddress {
  std::string address;     // path of its UNIX socket for executors, or rdma:ADDRESS:PORT of another machine's
  std::string token = {};  // of executors.token_file or rdma.token_file; empty: shows none
};

inline constexpr std::string_view kRdmaPrefix = "rdma:";

inline constexpr std::chrono::seconds kGatewayPatience{10};  // for its answers

struct Joined {
  // Says, by closing, that a side is gone; see Beat. Outlives the slices.
  base::Fd socket;
  // Their offers say in which memory their inputs are.
  std::vector<std::unique_ptr<SliceInlet>> slices;
  // Where `inputs` were asked for: why a slice's are not in better memory, the first such slice's; else
  // empty.
  std::string why_not_better = {};
};
// kUnavailable: nobody listens there, or RDMA is not to be had here. kConflict, kBadInput: the gateway's
// refusal. kSystem: also where `inputs` are required and a slice's cannot be on its GPU.
[[nodiscard]] Result<Joined> JoinGateway(const GatewayAddress& gateway, const ExecutorOffer& offer,
                                         const DeviceInputs& inputs = {});

// Over Joined::socket: the slices' engines are made. Once, by who offered is_starting. Any thread.
void SayReady(int socket);

// Over Joined::socket: the executor is at work on what it has in hand, however long that takes. Never blocks;
// any thread.
void Beat(int socket);

}  // namespace spillway::gateway
