// SPDX-License-Identifier: Apache-2.0
#include "gateway/client.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/fd.h"
#include "base/socket_address.h"
#include "gateway/transport/rdma/client_window.h"
#include "gateway/transport/shm/window.h"

namespace spillway::gateway {
namespace {

constexpr uint64_t kPageBytes = 4096;  // of which a window has as many as hold what was asked for

using std::chrono::milliseconds;

// Between two questions whether waiting was interrupted.
constexpr milliseconds kAsk{200};
// No gateway lets a request take longer (limits.longest_deadline).
constexpr std::chrono::hours kLongestDeadline{1};
constexpr std::string_view kInterrupted = "interrupted";
// Of an answer's data before any of it has come: a gateway must not make a client take more with a header
// alone.
constexpr uint64_t kDataAhead = 64 << 20;

constexpr int kKeepIdle = 15, kKeepInterval = 5;  // seconds

uint32_t DeadlineUs(std::chrono::microseconds deadline) {
  return static_cast<uint32_t>(std::min<int64_t>(deadline.count(), UINT32_MAX));
}

Result<base::Fd> Dial(const sockaddr* address, socklen_t length, const std::string& name) {
  base::Fd socket(::socket(address->sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!socket) return Fail(ErrorCode::kSystem, fmt::format("socket: {}", std::strerror(errno)));
  if (connect(socket.get(), address, length) != 0)
    return Fail(ErrorCode::kUnavailable, fmt::format("{}: {}", name, std::strerror(errno)));
  return socket;
}

Result<base::Fd> DialAddress(const std::string& address) {
  if (address.starts_with("unix:")) {
    sockaddr_un unix_address{};
    unix_address.sun_family = AF_UNIX;
    const std::string path = address.substr(5);
    if (path.empty() || path.size() >= sizeof(unix_address.sun_path))
      return Fail(ErrorCode::kBadInput, fmt::format("{}: expected unix:PATH", address));
    std::memcpy(unix_address.sun_path, path.data(), path.size());
    return Dial(reinterpret_cast<const sockaddr*>(&unix_address), sizeof(unix_address), address);
  }
  const auto endpoint = base::SocketAddress::Parse(address);
  if (!endpoint || endpoint->port() == 0)
    return Fail(ErrorCode::kBadInput, fmt::format("{}: expected unix:PATH or ADDRESS:PORT", address));
  auto socket = Dial(endpoint->get(), endpoint->length, address);
  const int on = 1, gone_after_ms = 30'000;
  if (socket) {
    setsockopt(socket->get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    // A machine that lost its power says nothing; without these a client would wait for it till its deadline.
    setsockopt(socket->get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
    setsockopt(socket->get(), IPPROTO_TCP, TCP_KEEPIDLE, &kKeepIdle, sizeof(kKeepIdle));
    setsockopt(socket->get(), IPPROTO_TCP, TCP_KEEPINTVL, &kKeepInterval, sizeof(kKeepInterval));
    setsockopt(socket->get(), IPPROTO_TCP, TCP_USER_TIMEOUT, &gone_after_ms, sizeof(gone_after_ms));
  }
  return socket;
}

}  // namespace

Result<Client> Client::Connect(const std::string& address, const Options& options) {
  auto socket = DialAddress(address);
  if (!socket) return tl::make_unexpected(socket.error());
  const timeval patience{options.patience.count() / 1000, (options.patience.count() % 1000) * 1000};
  setsockopt(socket->get(), SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
  Client client;
  client.socket_ = std::move(*socket);
  client.is_unix_ = address.starts_with("unix:");
  client.patience_ = options.patience;
  client.is_interrupted_ = options.is_interrupted;
  if (auto sent = client.Send(FrameType::kHello, 0, options.tenant + "\n" + options.token); !sent)
    return tl::make_unexpected(sent.error());
  const auto welcome = client.Receive(0);
  if (!welcome)
    return Fail(welcome.error().code,
                fmt::format("{}: {} (expected an address that gateway.yaml's frames names)", address,
                            welcome.error().message));
  if (welcome->header.type != static_cast<uint8_t>(FrameType::kWelcome))
    return Fail(ErrorCode::kBadInput, fmt::format("{}: {}", address, welcome->meta));
  return client;
}

Result<void> Client::Send(FrameType type, uint64_t id, std::string_view meta,
                          std::span<const std::byte> data) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.id = id;
  header.data_bytes = data.size();
  const std::string head = EncodeFrame(header, meta);
  iovec pieces[] = {{const_cast<char*>(head.data()), head.size()},
                    {const_cast<std::byte*>(data.data()), data.size()}};
  for (size_t first = 0; first < 2;) {
    msghdr message{};
    message.msg_iov = pieces + first;
    message.msg_iovlen = 2 - first;
    const ssize_t sent = sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0) return Fail(ErrorCode::kUnavailable, fmt::format("gateway: {}", std::strerror(errno)));
    auto left = static_cast<size_t>(sent);
    while (first < 2 && left >= pieces[first].iov_len) left -= pieces[first++].iov_len;
    if (first < 2) {
      pieces[first].iov_base = static_cast<char*>(pieces[first].iov_base) + left;
      pieces[first].iov_len -= left;
    }
  }
  return {};
}

Result<void> Client::Await(Instant until) const {
  for (;;) {
    auto left = std::chrono::ceil<milliseconds>(until - std::chrono::steady_clock::now());
    const bool is_last = !is_interrupted_ || left <= kAsk;
    left = std::max(milliseconds(0), is_last ? left : kAsk);
    pollfd wait{socket_.get(), POLLIN, 0};
    const int events = poll(&wait, 1, static_cast<int>(left.count()));
    if (events > 0) return {};
    if (events < 0 && errno != EINTR)
      return Fail(ErrorCode::kSystem, fmt::format("poll: {}", std::strerror(errno)));
    if (is_interrupted_ && is_interrupted_()) return Fail(ErrorCode::kUnavailable, std::string(kInterrupted));
    if (events == 0 && is_last) return Fail(ErrorCode::kUnavailable, "the gateway does not answer");
  }
}

milliseconds Client::PatienceFor(std::chrono::microseconds deadline) const {
  const bool is_set = deadline.count() > 0 && deadline < kLongestDeadline;
  return patience_ + (is_set ? std::chrono::ceil<milliseconds>(deadline) : milliseconds(kLongestDeadline));
}

Result<void> Client::ReceiveAll(std::span<std::byte> into, std::vector<base::Fd>* fds, Instant until) {
  while (!into.empty()) {
    if (auto there = Await(until); !there) return there;
    auto got = ReceiveWithDescriptors(socket_.get(), into);
    if (!got) return tl::make_unexpected(got.error());
    if (got->would_block) continue;
    if (got->bytes == 0) return Fail(ErrorCode::kUnavailable, "the gateway has closed the connection");
    if (fds != nullptr)
      for (base::Fd& fd : got->fds) fds->push_back(std::move(fd));
    into = into.subspan(got->bytes);
  }
  return {};
}

Result<Client::Frame> Client::ReceiveFrame(Instant until) {
  Frame frame;
  if (auto got = ReceiveAll(std::as_writable_bytes(std::span(&frame.header, 1)), &frame.fds, until); !got)
    return tl::make_unexpected(got.error());
  const bool has_data = frame.header.type == static_cast<uint8_t>(FrameType::kResult);
  if (frame.header.magic != kFrameMagic || frame.header.meta_bytes > kMaxMeta ||
      frame.header.data_bytes > (has_data ? uint64_t{1} << 32 : 0))
    return Fail(ErrorCode::kUnavailable, "not a Spillway gateway: invalid reply");
  frame.meta.resize(frame.header.meta_bytes);
  if (auto got = ReceiveAll(std::as_writable_bytes(std::span(frame.meta)), &frame.fds, until); !got)
    return tl::make_unexpected(got.error());
  while (frame.data.size() < frame.header.data_bytes) {
    const size_t here = frame.data.size();
    frame.data.resize(std::min<uint64_t>(frame.header.data_bytes, here + kDataAhead));
    const auto next = std::span(frame.data).subspan(here);
    if (auto got = ReceiveAll(next, nullptr, until); !got) return tl::make_unexpected(got.error());
  }
  return frame;
}

Result<Client::Frame> Client::Receive(uint64_t id, milliseconds patience) {
  const Instant until = std::chrono::steady_clock::now() + patience;
  for (;;) {
    if (auto there = Await(until); !there) return tl::make_unexpected(there.error());
    auto frame = ReceiveFrame(until);
    // Half of a frame may have been read: nothing that comes behind it would be understood.
    if (!frame) shutdown(socket_.get(), SHUT_RDWR);
    // The answer to a question before that was given up.
    if (frame && frame->header.id != 0 && frame->header.id < id) continue;
    return frame;
  }
}

Result<ClientModel> Client::Describe(const std::string& model) {
  if (auto sent = Send(FrameType::kDescribe, ++last_id_, model); !sent)
    return tl::make_unexpected(sent.error());
  const auto frame = Receive(last_id_);
  if (!frame) return tl::make_unexpected(frame.error());
  if (frame->header.type != static_cast<uint8_t>(FrameType::kModel))
    return Fail(ErrorCode::kBadInput, frame->meta);
  const auto json = nlohmann::json::parse(frame->meta, nullptr, false);
  auto card = ParseModelCard(json);
  if (!card) return tl::make_unexpected(card.error());
  const auto index = json.find("index"), ready = json.find("ready");
  if (index == json.end() || !index->is_number_unsigned() || ready == json.end() || !ready->is_boolean())
    return Fail(ErrorCode::kUnavailable, "unexpected reply from the gateway");
  return ClientModel{index->get<uint32_t>(), ready->get<bool>(), std::move(*card)};
}

Result<InferResult> Client::Infer(uint32_t model, uint32_t rows, std::span<const std::byte> inputs,
                                  std::chrono::microseconds deadline) {
  InferMeta meta;
  meta.model = model;
  meta.rows = rows;
  meta.deadline_us = DeadlineUs(deadline);
  const uint64_t id = ++last_id_;
  if (auto sent = Send(FrameType::kInfer, id, MetaBytes(meta), inputs); !sent)
    return tl::make_unexpected(sent.error());
  auto frame = Receive(id, PatienceFor(deadline));
  if (!frame) return tl::make_unexpected(frame.error());
  InferResult result;
  if (frame->header.type == static_cast<uint8_t>(FrameType::kError) && frame->header.id == id) {
    result.status = static_cast<Status>(frame->header.status);
    result.message = frame->meta;
    result.retry_after = milliseconds(frame->header.retry_after_ms);
    return result;
  }
  ResultMeta told;
  if (frame->header.type != static_cast<uint8_t>(FrameType::kResult) || frame->header.id != id ||
      !ReadMeta(std::as_bytes(std::span(frame->meta)), told))
    return Fail(ErrorCode::kUnavailable, "unexpected reply from the gateway");
  result.outputs = std::move(frame->data);
  result.output_bytes = result.outputs.size();
  result.busy = std::chrono::nanoseconds(told.busy_ns);
  return result;
}

// ---- the window

Result<void> Client::OpenWindow(uint64_t bytes, uint32_t slots) {
  if (!is_unix_)
    if (auto there = CheckRdma(); !there) return there;
  WindowMeta meta;
  meta.bytes = bytes;
  meta.slots = slots;
  if (auto sent = Send(FrameType::kOpenWindow, ++last_id_, MetaBytes(meta)); !sent)
    return tl::make_unexpected(sent.error());
  auto frame = Receive(last_id_);
  if (!frame) return tl::make_unexpected(frame.error());
  const auto type = static_cast<FrameType>(frame->header.type);
  if (type == FrameType::kError) return Fail(ErrorCode::kBadInput, frame->meta);
  Result<void> opened = Fail(ErrorCode::kUnavailable, "unexpected reply from the gateway");
  if (is_unix_ && type == FrameType::kWindow) opened = MapWindow(std::move(*frame));
  if (!is_unix_ && type == FrameType::kRemoteWindow) {
    opened = ConnectWindow(*frame, bytes, slots);
    // The gateway need not keep memory for it.
    if (!opened) (void)Send(FrameType::kCancel, frame->header.id, {});
  }
  if (!opened) return opened;
  way_ = is_unix_ ? Way::kSharedMemory : Way::kRdma;
  pieces_ = {{0, window_->bytes().size(), true}};
  return {};
}

Result<void> Client::MapWindow(Frame frame) {
  WindowMeta meta;
  if (!ReadMeta(std::as_bytes(std::span(frame.meta)), meta))
    return Fail(ErrorCode::kUnavailable, "unexpected reply from the gateway");
  auto window = ShmClientWindow::Map(std::move(frame.fds), meta.bytes, meta.slots);
  if (!window) return tl::make_unexpected(window.error());
  window_ = std::move(*window);
  key_ = meta.key;
  return {};
}

Result<void> Client::ConnectWindow(const Frame& frame, uint64_t asked_bytes, uint32_t asked_slots) {
  const auto json = nlohmann::json::parse(frame.meta, nullptr, false);
  const auto number = [&](const char* key, uint64_t most) -> std::optional<uint64_t> {
    if (!json.is_object() || !json.contains(key) || !json[key].is_number_unsigned()) return std::nullopt;
    const auto value = json[key].get<uint64_t>();
    return value <= most ? std::optional(value) : std::nullopt;
  };
  const auto bytes = number("bytes", uint64_t{1} << 40), slots = number("slots", kMaxChannelSlots),
             key = number("key", UINT64_MAX), ticket = number("ticket", UINT64_MAX),
             port = number("port", UINT16_MAX);
  if (!bytes || !slots || !key || !ticket || !port)
    return Fail(ErrorCode::kUnavailable, "unexpected reply from the gateway");
  // As much memory is taken here.
  if (*bytes < asked_bytes || *bytes - asked_bytes >= kPageBytes || *slots != asked_slots)
    return Fail(ErrorCode::kUnavailable,
                fmt::format("the gateway offers a window of {} bytes and {} slots, asked for {} and {}",
                            *bytes, *slots, asked_bytes, asked_slots));
  // Where the gateway names no address, the one by which it was found.
  RemoteWindowPlace place{base::SocketAddress::OfPeer(socket_.get()), *ticket, *bytes,
                          static_cast<uint32_t>(*slots)};
  if (json.contains("address") && json["address"].is_string()) {
    const auto named = base::SocketAddress::ParseHost(json["address"].get<std::string>());
    if (!named) return tl::make_unexpected(named.error());
    place.gateway = *named;
  }
  place.gateway.set_port(static_cast<uint16_t>(*port));
  auto window = gateway::OpenRemoteWindow(place, std::chrono::steady_clock::now() + patience_);
  if (!window) return tl::make_unexpected(window.error());
  window_ = std::move(*window);
  key_ = *key;
  return {};
}

std::optional<uint64_t> Client::Allocate(uint64_t bytes) {
  if (bytes > window().size()) return std::nullopt;
  bytes = Aligned(std::max<uint64_t>(bytes, 1));
  for (size_t i = 0; i < pieces_.size(); i++) {
    if (!pieces_[i].free || pieces_[i].bytes < bytes) continue;
    const Piece rest{pieces_[i].offset + bytes, pieces_[i].bytes - bytes, true};
    pieces_[i] = {pieces_[i].offset, bytes, false};
    const uint64_t offset = pieces_[i].offset;
    if (rest.bytes > 0) pieces_.insert(pieces_.begin() + static_cast<std::ptrdiff_t>(i) + 1, rest);
    return offset;
  }
  return std::nullopt;
}

void Client::Free(uint64_t offset) {
  for (size_t i = 0; i < pieces_.size(); i++) {
    if (pieces_[i].offset != offset) continue;
    pieces_[i].free = true;
    const auto join = [&](size_t at) {
      if (at + 1 >= pieces_.size() || !pieces_[at].free || !pieces_[at + 1].free) return;
      pieces_[at].bytes += pieces_[at + 1].bytes;
      pieces_.erase(pieces_.begin() + static_cast<std::ptrdiff_t>(at) + 1);
    };
    join(i);
    if (i > 0) join(i - 1);
    return;
  }
}

bool Client::Submit(Submission submission) {
  if (window_ == nullptr || asked_ >= window_->slots()) return false;
  submission.key = key_;
  if (!window_->Submit(submission)) return false;
  asked_++;
  return true;
}

bool Client::Gone() const {
  pollfd peer{socket_.get(), POLLIN, 0};
  char byte;
  // The gateway says nothing on the socket that was not asked for, but for its end.
  return poll(&peer, 1, 0) > 0 && recv(socket_.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 0;
}

Result<std::optional<Completion>> Client::Wait(milliseconds patience) {
  if (window_ == nullptr) return Fail(ErrorCode::kBadInput, "there is no window");
  const auto end = std::chrono::steady_clock::now() + patience;
  for (;;) {
    Completion completion;
    if (window_->TakeCompletion(completion)) {
      asked_--;
      return completion;
    }
    if (window_->broken())
      return Fail(ErrorCode::kUnavailable,
                  Gone() ? "the gateway has gone" : "the gateway has closed the window");
    if (!window_->PrepareToWait()) continue;
    const auto left = std::chrono::duration_cast<milliseconds>(end - std::chrono::steady_clock::now());
    const bool is_last = !is_interrupted_ || left <= kAsk;
    pollfd waits[] = {{window_->bell(), POLLIN, 0}, {socket_.get(), POLLIN, 0}};
    const auto wait = std::max(milliseconds(0), is_last ? left : kAsk);
    const int events = poll(waits, 2, static_cast<int>(wait.count()));
    window_->DoneWaiting(waits[0].revents != 0);
    if (waits[0].revents != 0 || window_->HasCompletion()) continue;
    if (events > 0 && waits[1].revents != 0)
      return Fail(ErrorCode::kUnavailable,
                  Gone() ? "the gateway has gone" : "the gateway has closed the window");
    if (is_interrupted_ && is_interrupted_()) return Fail(ErrorCode::kUnavailable, std::string(kInterrupted));
    if (events == 0 && is_last) return std::optional<Completion>();
  }
}

Result<InferResult> Client::InferInWindow(uint32_t model, uint32_t rows, uint64_t input_offset,
                                          uint64_t input_bytes, uint64_t output_offset, uint64_t output_bytes,
                                          std::chrono::microseconds deadline) {
  Submission submission;
  submission.id = ++last_id_;
  submission.input_offset = input_offset;
  submission.input_bytes = input_bytes;
  submission.output_offset = output_offset;
  submission.output_bytes = output_bytes;
  submission.model = model;
  submission.rows = rows;
  submission.deadline_us = DeadlineUs(deadline);
  if (window_ != nullptr && window_->broken())
    return Fail(ErrorCode::kUnavailable, "the gateway has closed the window");
  if (!Submit(submission)) return Fail(ErrorCode::kConflict, "the window's slots are all in use");
  // After those of requests that were given up.
  auto completion = Wait(PatienceFor(deadline));
  while (completion && *completion && (*completion)->id < submission.id)
    completion = Wait(PatienceFor(deadline));
  if (!completion) return tl::make_unexpected(completion.error());
  if (!*completion) return Fail(ErrorCode::kUnavailable, "the gateway does not answer");
  if ((*completion)->id != submission.id)
    return Fail(ErrorCode::kUnavailable, "unexpected reply from the gateway");
  InferResult result;
  result.status = static_cast<Status>((*completion)->status);
  result.retry_after = milliseconds((*completion)->retry_after_ms);
  result.busy = std::chrono::nanoseconds((*completion)->busy_ns);
  result.output_bytes = std::min((*completion)->output_bytes, output_bytes);
  if (result.status != Status::kOk)
    result.message.assign(reinterpret_cast<const char*>(window_->bytes().data() + output_offset),
                          result.output_bytes);
  return result;
}

}  // namespace spillway::gateway
