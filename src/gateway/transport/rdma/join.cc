// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/join.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/socket_address.h"
#include "gateway/transport/rdma/inlet.h"
#include "gateway/transport/rdma/messages.h"

namespace spillway::gateway {
namespace {

using nlohmann::json;

Result<base::Fd> Dial(const base::SocketAddress& endpoint) {
  base::Fd socket(::socket(endpoint.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", std::strerror(errno)));
  const timeval patience{kGatewayPatience.count(), 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  if (connect(socket.get(), endpoint.get(), endpoint.length) != 0)
    return Fail(ErrorCode::kUnavailable, std::strerror(errno == EINPROGRESS ? ETIMEDOUT : errno));
  KeepAlive(socket.get());
  return socket;
}

// Where the gateway listens for queue pairs, and the ticket to be shown there.
Result<RdmaInlet::Place> ParsePlace(const std::string& text, const base::SocketAddress& endpoint) {
  const json word = json::parse(text, nullptr, false);
  const bool is_place = word.is_object() && word.contains("ticket") && word["ticket"].is_number_unsigned() &&
                        word.contains("rdma_port") && word["rdma_port"].is_number_unsigned() &&
                        word["rdma_port"].get<uint64_t>() <= UINT16_MAX;
  if (!is_place) {
    const auto answer = ParseAnswer(text);
    return Fail(ErrorCode::kConflict,
                answer ? "expected a ticket, got another answer" : answer.error().message);
  }
  RdmaInlet::Place place{endpoint.storage, word["ticket"].get<uint64_t>(), 0};
  const uint16_t port = htons(word["rdma_port"].get<uint16_t>());
  if (endpoint.storage.ss_family == AF_INET6)
    reinterpret_cast<sockaddr_in6*>(&place.gateway)->sin6_port = port;
  else
    reinterpret_cast<sockaddr_in*>(&place.gateway)->sin_port = port;
  return place;
}

using Clock = std::chrono::steady_clock;

// Of each slice; nullptr: in the host's memory.
using AllInputs = std::vector<std::unique_ptr<RdmaDeviceInputs>>;

Result<std::unique_ptr<RdmaDeviceInputs>> MakeInputs(const DeviceInputs& wanted, const SliceOffer& slice,
                                                     const base::SocketAddress& gateway) {
  auto memory = wanted.make(slice, CellLayout(slice).HostPart());
  // kUnavailable would say that the gateway is; a GPU that is lost is noticed by whoever has to run on it.
  if (!memory) return Fail(ErrorCode::kSystem, memory.error().message);
  if (*memory == nullptr) return Fail(ErrorCode::kSystem, "its engine has no GPU");
  return RegisterInputs(std::move(*memory), gateway.storage, Clock::now() + kGatewayPatience);
}

// The offers are told what became of it.
Result<AllInputs> MakeAllInputs(const DeviceInputs& wanted, const base::SocketAddress& gateway,
                                ExecutorOffer& offer, std::string& why_not_better) {
  AllInputs all(offer.slices.size());
  for (size_t i = 0; wanted.make && i < all.size(); i++) {
    SliceOffer& slice = offer.slices[i];
    auto inputs = MakeInputs(wanted, slice, gateway);
    if (!inputs && inputs.error().code == ErrorCode::kUnavailable)
      return Fail(inputs.error().code, fmt::format("slice {}: {}", slice.name, inputs.error().message));
    if (!inputs && wanted.is_required)
      return Fail(inputs.error().code, fmt::format("slice {}/{}: inputs in its GPU's memory: {}", slice.gpu,
                                                   slice.name, inputs.error().message));
    const std::string& why = inputs ? (*inputs)->registered.why_not_better : inputs.error().message;
    if (why_not_better.empty()) why_not_better = why;
    if (!inputs) continue;
    slice.memory = (*inputs)->registered.kind;
    all[i] = std::move(*inputs);
  }
  return all;
}

}  // namespace

Result<Joined> JoinOverRdma(const std::string& address, const std::string& token, const ExecutorOffer& asked,
                            const DeviceInputs& wanted) {
  const auto endpoint = base::SocketAddress::Parse(address);
  if (!endpoint || endpoint->port() == 0)
    return Fail(ErrorCode::kBadInput, "expected rdma:ADDRESS:PORT, numeric");
  auto socket = Dial(*endpoint);
  if (!socket) return tl::make_unexpected(socket.error());
  Joined joined;
  ExecutorOffer offer = asked;
  // There is a gateway, and so a reason to take a GPU's memory. That may take seconds, in which a gateway
  // does not wait for a token: it is dialled anew.
  if (wanted.make) socket = base::Fd();
  auto inputs = MakeAllInputs(wanted, *endpoint, offer, joined.why_not_better);
  if (!inputs) return tl::make_unexpected(inputs.error());
  if (wanted.make) socket = Dial(*endpoint);
  if (!socket) return tl::make_unexpected(socket.error());
  // For each step: many slices take long.
  const auto until = [] { return Clock::now() + kGatewayPatience; };
  KeyedOffer keyed{offer, {}};
  for (size_t i = 0; i < offer.slices.size(); i++) keyed.keys.push_back(RandomKey());
  MessageReader reader;
  // Where it cannot be sent, the gateway may have refused and closed, and its word is here.
  if (SendMessage(socket->get(), token)) (void)SendMessage(socket->get(), ToJson(keyed).dump());
  const auto ticket = AwaitMessage(socket->get(), reader, until());
  if (!ticket) return tl::make_unexpected(ticket.error());
  auto place = ParsePlace(*ticket, *endpoint);
  if (!place) return tl::make_unexpected(place.error());
  joined.socket = std::move(*socket);
  const int fd = joined.socket.get();
  for (uint32_t i = 0; i < offer.slices.size(); i++) {
    place->slice = i;
    // Who waits for the gateway's end sees it then.
    auto inlet = RdmaInlet::Connect(
        offer.slices[i], keyed.keys[i], *place, until(), [fd] { shutdown(fd, SHUT_RDWR); },
        std::move((*inputs)[i]));
    if (inlet) {
      joined.slices.push_back(std::move(*inlet));
      continue;
    }
    // The gateway's own word on it says more.
    const auto word = AwaitMessage(fd, reader, Clock::now() + std::chrono::seconds(1));
    const auto answer = word ? ParseAnswer(*word) : Result<void>();
    return tl::make_unexpected(answer ? inlet.error() : answer.error());
  }
  const auto word = AwaitMessage(fd, reader, until());
  if (!word) return tl::make_unexpected(word.error());
  if (const auto answer = ParseAnswer(*word); !answer) return tl::make_unexpected(answer.error());
  return joined;
}

}  // namespace spillway::gateway
