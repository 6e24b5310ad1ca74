// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/shm/arrival.h"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "gateway/protocol/token.h"
#include "gateway/transport/shm/inlet.h"

namespace spillway::gateway {

using nlohmann::json;

namespace {

constexpr size_t kMaxUnauthenticatedMessage = 512;  // a token's

}  // namespace

ShmArrival::ShmArrival(int socket, RegionTable& regions, uint64_t first_holder, const ExecutorTrust& trust)
    : socket_(socket), regions_(regions), first_holder_(first_holder), trust_(trust) {
  // Of the moment when it connected: whoever it has become since, or has handed the socket to.
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (getsockopt(socket_, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return;
  user_ = peer.uid;
  is_trusted_ = std::find(trust_.users.begin(), trust_.users.end(), user_) != trust_.users.end();
}

Result<void> ShmArrival::TakeToken(const json& message) {
  const bool good = !trust_.token.empty() && message["token"].is_string() &&
                    SameToken(message["token"].get_ref<const std::string&>(), trust_.token);
  has_shown_ = true;
  is_trusted_ = is_trusted_ || good;
  if (good || trust_.token.empty()) return {};
  return Fail(ErrorCode::kBadInput, "expected the token of executors.token_file");
}

Result<ExecutorArrival::Step> ShmArrival::Read() {
  static thread_local std::vector<std::byte> buffer(kMaxExecutorMessage);
  for (;;) {
    auto received = ReceiveWithDescriptors(socket_, buffer);
    if (!received) return tl::make_unexpected(received.error());
    if (received->would_block) return Step::kMore;
    if (received->bytes == 0) return Step::kGone;
    const auto complete = Take(std::span(buffer).first(received->bytes), std::move(received->fds));
    if (!complete) return tl::make_unexpected(complete.error());
    if (*complete) return Step::kComplete;
  }
}

Result<bool> ShmArrival::Take(std::span<const std::byte> message, std::vector<base::Fd> fds) {
  const std::string_view text(reinterpret_cast<const char*>(message.data()), message.size());
  const auto unauthenticated = [&] {
    return Fail(ErrorCode::kBadInput,
                fmt::format("user {} may not offer slices: expected one of executors.users{}", user_,
                            trust_.token.empty() ? "" : ", or the token of executors.token_file"));
  };
  if (!is_trusted_ && text.size() > kMaxUnauthenticatedMessage) return unauthenticated();
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return Fail(ErrorCode::kBadInput, "expected a JSON object");
  if (!has_shown_ && parsed.contains("token") && parsed.size() == 1)
    if (const auto taken = TakeToken(parsed); !taken) return tl::make_unexpected(taken.error());
  if (!is_trusted_) return unauthenticated();
  if (parsed.contains("token")) {
    if (std::exchange(has_sent_token_, true))
      return Fail(ErrorCode::kBadInput, "expected one token, got another");
    return false;
  }
  if (!offer_.keys.empty()) return TakeSlice(parsed, std::move(fds));
  if (fds.size() != 1) return Fail(ErrorCode::kBadInput, "expected one descriptor with the offer");
  auto offer = ParseOffer(parsed);
  if (!offer) return tl::make_unexpected(offer.error());
  if (const auto good = CheckEventFd(fds[0]); !good) return tl::make_unexpected(good.error());
  offer_ = std::move(*offer);
  completions_ = std::move(fds[0]);
  return false;
}

Result<bool> ShmArrival::TakeSlice(const json& message, std::vector<base::Fd> fds) {
  const auto& offered = offer_.offer.slices;
  if (slices_.size() == offered.size() || !message.contains("slice") ||
      message["slice"] != json(slices_.size()) || fds.size() != 3)
    return Fail(ErrorCode::kBadInput, "expected the next slice, with three descriptors");
  if (const auto good = CheckRinger(fds[2]); !good) return tl::make_unexpected(good.error());
  SharedSlice slice;
  slice.offer = offered[slices_.size()];
  slice.key = offer_.keys[slices_.size()];
  auto channel = Channel::Map(std::move(fds[0]), ChannelSlots(slice.offer.cells),
                              {std::move(fds[2]), CopyOf(completions_)});
  if (!channel) return tl::make_unexpected(channel.error());
  auto memory = SharedMemory::Map(std::move(fds[1]), CellLayout(slice.offer).Bytes());
  if (!memory) return tl::make_unexpected(memory.error());
  slice.channel = std::move(*channel);
  slice.memory = std::move(*memory);
  slices_.push_back(std::move(slice));
  return slices_.size() == offered.size();
}

Result<std::unique_ptr<ExecutorLink>> ShmArrival::TakeLink() {
  auto link = std::make_unique<ShmLink>(std::move(slices_), regions_, first_holder_);
  if (!link->keys_are_good()) return Fail(ErrorCode::kConflict, "its keys are in use");
  return link;
}

Result<void> ShmArrival::Answer(const std::string& refusal) {
  const std::string text = AnswerText(refusal);
  return SendWithDescriptors(socket_, std::as_bytes(std::span(text)), {});
}

}  // namespace spillway::gateway
