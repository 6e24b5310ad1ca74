// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/join.h"

#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/machine_boot.h"
#include "gateway/transport/rdma/join.h"
#include "gateway/transport/shm/inlet.h"

namespace spillway::gateway {
namespace {

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

Result<base::Fd> Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return Fail(ErrorCode::kBadInput,
                fmt::format("expected a path of less than {} bytes", sizeof(address.sun_path)));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  base::Fd socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", std::strerror(errno)));
  // A gateway that hangs must not hang us, who would hear no signal meanwhile.
  const timeval patience{kGatewayPatience.count(), 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Fail(ErrorCode::kUnavailable, std::strerror(errno));
  return socket;
}

Result<Joined> JoinHere(const std::string& path, const std::string& token, const ExecutorOffer& offer) {
  auto socket = Connect(path);
  if (!socket) return tl::make_unexpected(socket.error());
  if (!token.empty())
    if (auto sent = SendWithDescriptors(socket->get(), BytesOf(nlohmann::json{{"token", token}}.dump()), {});
        !sent)
      return tl::make_unexpected(sent.error());
  auto completions = MakeEventFd();
  if (!completions) return tl::make_unexpected(completions.error());
  Joined joined;
  KeyedOffer keyed{offer, {}};
  std::vector<std::array<int, 3>> descriptors;
  for (const SliceOffer& slice : offer.slices) {
    auto inlet = ShmInlet::Make(slice, *completions);
    if (!inlet) return tl::make_unexpected(inlet.error());
    keyed.keys.push_back((*inlet)->key());
    descriptors.push_back((*inlet)->Descriptors());
    joined.slices.push_back(std::move(*inlet));
  }
  const int bell = completions->get();
  auto sent = SendWithDescriptors(socket->get(), BytesOf(ToJson(keyed).dump()), std::span(&bell, 1));
  for (size_t i = 0; sent && i < descriptors.size(); i++)
    if (!SendWithDescriptors(socket->get(), BytesOf(nlohmann::json{{"slice", i}}.dump()), descriptors[i]))
      break;
  // Also when a message could not be sent: the gateway may have refused and closed, and its word is here.
  std::string reply(4096, '\0');
  const auto receive = [&] {
    return ReceiveWithDescriptors(socket->get(), std::as_writable_bytes(std::span(reply)));
  };
  auto received = receive();
  // A gateway that closes before it has read all we sent resets the socket, which is told before its word is.
  if (!received || received->bytes == 0) received = receive();
  if (!received) return tl::make_unexpected(sent ? received.error() : sent.error());
  if (received->would_block)
    return Fail(ErrorCode::kUnavailable, fmt::format("no answer within {} s", kGatewayPatience.count()));
  if (received->bytes == 0) return Fail(ErrorCode::kUnavailable, "the gateway closed");
  if (const auto taken = ParseAnswer(std::string_view(reply).substr(0, received->bytes)); !taken)
    return tl::make_unexpected(taken.error());
  joined.socket = std::move(*socket);
  return joined;
}

}  // namespace

Result<Joined> JoinGateway(const GatewayAddress& gateway, const ExecutorOffer& asked,
                           const DeviceInputs& inputs) {
  ExecutorOffer offer = asked;
  // So that containers of one host, which share its GPUs, say the same, by whichever address they come.
  if (offer.host.empty()) offer.host = base::BootId();
  const bool is_rdma = gateway.address.starts_with(kRdmaPrefix);
  // The gateway of this machine copies with its CPU, which writes the host's memory alone.
  if (!is_rdma && inputs.is_required)
    return Fail(ErrorCode::kSystem,
                fmt::format("{}: inputs in a GPU's memory: expected a gateway over RDMA", gateway.address));
  auto joined = is_rdma
                    ? JoinOverRdma(gateway.address.substr(kRdmaPrefix.size()), gateway.token, offer, inputs)
                    : JoinHere(gateway.address, gateway.token, offer);
  if (joined && !is_rdma && inputs.make) joined->why_not_better = "the gateway is on this machine";
  if (!joined) joined.error().message = fmt::format("{}: {}", gateway.address, joined.error().message);
  return joined;
}

void SayReady(int socket) {
  [[maybe_unused]] const ssize_t sent = send(socket, &kReadyByte, 1, MSG_NOSIGNAL);
}

void Beat(int socket) {
  const char beat = 0;
  [[maybe_unused]] const ssize_t sent = send(socket, &beat, 1, MSG_DONTWAIT | MSG_NOSIGNAL);
}

}  // namespace spillway::gateway
