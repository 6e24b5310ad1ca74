// SPDX-License-Identifier: Apache-2.0
#include "gateway/executor_protocol.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cmath>
#include <cstring>

namespace spillway::gateway {
namespace {

using nlohmann::json;

constexpr std::chrono::seconds kGatewayPatience{10};

std::span<const std::byte> BytesOf(const std::string& text) { return std::as_bytes(std::span(text)); }

std::string Text(const json& message) { return message.dump(-1, ' ', false, json::error_handler_t::replace); }

// A copy of the descriptor, for a second owner.
Descriptor Copy(const Descriptor& fd) { return Descriptor(fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

template <class T>
bool TakeNumber(const json& from, const char* key, T least, T most, T& into) {
  if (!from.contains(key) || !from[key].is_number()) return false;
  const auto value = from[key].get<double>();
  if (!(value >= static_cast<double>(least) && value <= static_cast<double>(most))) return false;
  into = from[key].get<T>();
  return true;
}

bool TakeName(const json& from, const char* key, std::string& into) {
  if (!from.contains(key) || !from[key].is_string()) return false;
  into = from[key];
  return IsTensorName(into);
}

Result<Descriptor> Connect(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path))
    return Fail(ErrorCode::kBadInput,
                fmt::format("{}: expected a path of less than {} bytes", path, sizeof(address.sun_path)));
  std::memcpy(address.sun_path, path.c_str(), path.size());
  Descriptor socket(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!socket) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", std::strerror(errno)));
  // A gateway that hangs must not hang us, who would hear no signal meanwhile.
  const timeval patience{kGatewayPatience.count(), 0};
  setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0)
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", path, std::strerror(errno)));
  return socket;
}

Result<SliceLine> MakeLine(const SliceOffer& offer, const Descriptor& completions) {
  SliceLine line;
  line.offer = offer;
  line.key = RandomKey();
  auto bell = MakeEventFd();
  if (!bell) return tl::make_unexpected(bell.error());
  auto channel = Channel::Create(ChannelSlots(offer.cells), {std::move(*bell), Copy(completions)});
  if (!channel) return tl::make_unexpected(channel.error());
  auto memory = SharedMemory::Create("spillway-slice", CellLayout(offer).Bytes());
  if (!memory) return tl::make_unexpected(memory.error());
  line.channel = std::move(*channel);
  line.memory = std::move(*memory);
  return line;
}

}  // namespace

uint32_t ChannelSlots(uint32_t cells) { return std::bit_ceil(std::max(cells, 8U)); }

std::optional<CellViews> CheckSubmission(const SliceLine& line, const std::vector<ModelCard>& models,
                                         const Submission& submission) {
  const CellLayout layout(line.offer);
  if (submission.key != line.key || submission.model >= models.size()) return std::nullopt;
  const uint64_t cell = submission.input_offset / layout.Stride();
  if (cell >= layout.cells || submission.input_offset != layout.Input(static_cast<uint32_t>(cell)) ||
      submission.output_offset != layout.Output(static_cast<uint32_t>(cell)))
    return std::nullopt;
  const ModelCard& card = models[submission.model];
  if (submission.rows < 1 || submission.rows > card.most_rows ||
      submission.input_bytes != card.InputBytes(submission.rows) ||
      submission.output_bytes != card.OutputBytes(submission.rows) ||
      submission.input_bytes > layout.input_bytes || submission.output_bytes > layout.output_bytes)
    return std::nullopt;
  return CellViews{line.memory.bytes().subspan(submission.input_offset, submission.input_bytes),
                   line.memory.bytes().subspan(submission.output_offset, submission.output_bytes)};
}

Result<Joined> JoinGateway(const std::string& socket_path, const ExecutorOffer& offer) {
  auto socket = Connect(socket_path);
  if (!socket) return tl::make_unexpected(socket.error());
  auto completions = MakeEventFd();
  if (!completions) return tl::make_unexpected(completions.error());
  Joined joined;
  json hello = {{"spillway_executor", 1}, {"name", offer.name}};
  for (const ModelCard& card : offer.models) hello["models"].push_back(ToJson(card));
  for (const SliceOffer& slice : offer.slices) {
    auto line = MakeLine(slice, *completions);
    if (!line) return tl::make_unexpected(line.error());
    hello["slices"].push_back({{"name", slice.name},
                               {"gpu", slice.gpu},
                               {"gflop_per_s", slice.gflop_per_s},
                               {"cells", slice.cells},
                               {"input_bytes", slice.input_bytes},
                               {"output_bytes", slice.output_bytes},
                               {"key", line->key}});
    joined.slices.push_back(std::move(*line));
  }
  const int bell = completions->get();
  if (auto sent = SendWithDescriptors(socket->get(), BytesOf(Text(hello)), std::span(&bell, 1)); !sent)
    return tl::make_unexpected(sent.error());
  for (size_t i = 0; i < joined.slices.size(); i++) {
    const SliceLine& line = joined.slices[i];
    const int fds[] = {line.channel.fd(), line.memory.fd(), line.channel.bells().submissions.get()};
    if (auto sent = SendWithDescriptors(socket->get(), BytesOf(Text({{"slice", i}})), fds); !sent) break;
  }
  // Also when a message could not be sent: the gateway may have refused and closed, and its word is here.
  std::string reply(4096, '\0');
  auto received = ReceiveWithDescriptors(socket->get(), std::as_writable_bytes(std::span(reply)));
  if (!received) return tl::make_unexpected(received.error());
  if (received->would_block)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("{}: no answer within {} s", socket_path, kGatewayPatience.count()));
  if (received->bytes == 0) return Fail(ErrorCode::kUnavailable, socket_path + ": the gateway closed");
  const json word = json::parse(reply.substr(0, received->bytes), nullptr, false);
  if (word.is_object() && word.contains("error") && word["error"].is_string())
    return Fail(ErrorCode::kConflict,
                fmt::format("{}: the gateway refused: {}", socket_path, word["error"].get<std::string>()));
  if (!word.is_object() || !word.contains("ok"))
    return Fail(ErrorCode::kConflict, socket_path + ": expected a gateway, got another answer");
  joined.socket = std::move(*socket);
  return joined;
}

Result<bool> Arrival::Take(std::span<const std::byte> message, std::vector<Descriptor> fds) {
  const std::string_view text(reinterpret_cast<const char*>(message.data()), message.size());
  const json parsed = json::parse(text, nullptr, false);
  if (!parsed.is_object()) return Fail(ErrorCode::kBadInput, "executor: expected a JSON object");
  return has_offer_ ? TakeSlice(parsed, std::move(fds)) : TakeOffer(parsed, std::move(fds));
}

Result<bool> Arrival::TakeOffer(const json& hello, std::vector<Descriptor> fds) {
  const auto wrong = [](const std::string& text) { return Fail(ErrorCode::kBadInput, "executor: " + text); };
  int version = 0;
  if (!TakeNumber(hello, "spillway_executor", 0, 1000, version) || version != 1)
    return wrong("expected spillway_executor: 1");
  if (!TakeName(hello, "name", offer_.name)) return wrong("expected a name");
  if (fds.size() != 1) return wrong("expected one descriptor with the offer");
  if (!hello.contains("models") || !hello["models"].is_array() || hello["models"].size() > 256)
    return wrong("expected a list of up to 256 models");
  for (const json& entry : hello["models"]) {
    auto card = ParseModelCard(entry);
    if (!card) return tl::make_unexpected(card.error());
    for (const ModelCard& other : offer_.models)
      if (other.name == card->name) return wrong("model " + card->name + " twice");
    offer_.models.push_back(std::move(*card));
  }
  if (!hello.contains("slices") || !hello["slices"].is_array() || hello["slices"].empty() ||
      hello["slices"].size() > kMostSlicesPerExecutor)
    return wrong(fmt::format("expected a list of 1 to {} slices", kMostSlicesPerExecutor));
  for (const json& entry : hello["slices"]) {
    SliceOffer slice;
    uint64_t key = 0;
    if (!entry.is_object() || !TakeName(entry, "name", slice.name) || !TakeName(entry, "gpu", slice.gpu) ||
        !TakeNumber(entry, "gflop_per_s", 1e-6, 1e9, slice.gflop_per_s) ||
        !TakeNumber(entry, "cells", 1U, kMostCells, slice.cells) ||
        !TakeNumber(entry, "input_bytes", uint64_t{1}, kMostCellBytes, slice.input_bytes) ||
        !TakeNumber(entry, "output_bytes", uint64_t{1}, kMostCellBytes, slice.output_bytes) ||
        !TakeNumber(entry, "key", uint64_t{1}, UINT64_MAX, key))
      return wrong("expected of a slice name, gpu, gflop_per_s, cells, input_bytes, output_bytes and key");
    offer_.slices.push_back(std::move(slice));
    keys_.push_back(key);
  }
  completions_ = std::move(fds[0]);
  has_offer_ = true;
  return false;
}

Result<bool> Arrival::TakeSlice(const json& message, std::vector<Descriptor> fds) {
  size_t index = 0;
  if (lines_.size() == offer_.slices.size() ||
      !TakeNumber(message, "slice", size_t{0}, offer_.slices.size() - 1, index) || index != lines_.size() ||
      fds.size() != 3)
    return Fail(ErrorCode::kBadInput, "executor: expected the next slice, with three descriptors");
  SliceLine line;
  line.offer = offer_.slices[index];
  line.key = keys_[index];
  auto channel = Channel::Map(std::move(fds[0]), ChannelSlots(line.offer.cells),
                              {std::move(fds[2]), Copy(completions_)});
  if (!channel) return tl::make_unexpected(channel.error());
  auto memory = SharedMemory::Map(std::move(fds[1]), CellLayout(line.offer).Bytes());
  if (!memory) return tl::make_unexpected(memory.error());
  line.channel = std::move(*channel);
  line.memory = std::move(*memory);
  lines_.push_back(std::move(line));
  return lines_.size() == offer_.slices.size();
}

Result<void> AnswerArrival(int socket, const std::string& refusal) {
  const std::string text = refusal.empty() ? Text({{"ok", true}}) : Text({{"error", refusal}});
  return SendWithDescriptors(socket, BytesOf(text), {});
}

}  // namespace spillway::gateway
