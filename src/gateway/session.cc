// SPDX-License-Identifier: Apache-2.0
#include "gateway/session.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/fd.h"

namespace spillway::gateway {

std::optional<Duration> Session::DeadlineOf(uint32_t us) {
  return us == 0 ? std::nullopt : std::optional<Duration>(std::chrono::microseconds(us));
}

Session::Session(SessionHost& host, uint64_t number, base::Fd socket, bool is_unix)
    : host_(host),
      number_(number),
      socket_(std::move(socket)),
      is_unix_(is_unix),
      last_heard_(host.now()),
      owes_since_(last_heard_),
      self_(std::make_shared<Session*>(this)) {}

Session::~Session() {
  *self_ = nullptr;
  const Time now = host_.now();
  for (const auto& [client_id, id] : asked_) host_.broker.Cancel(id, now);
  for (const auto& [client_id, id] : window_ids_) host_.broker.Cancel(id, now);
  DropData();
  host_.broker.Release(unsent(), account());
  EndWindow();
}

void Session::DropData() {
  host_.broker.Release(std::exchange(held_, 0), account());
  data_.reset();
}

// ---- reading

uint64_t Session::PartBytes() const {
  switch (part_) {
    case Part::kHeader:
      return sizeof(header_);
    case Part::kMeta:
      return header_.meta_bytes;
    case Part::kData:
      return header_.data_bytes;
    case Part::kDiscard:
      return discard_;
  }
  return 0;
}

bool Session::HasTooMuchUnread() const {
  return unsent() >= kMaxUnreadWhenFull && !host_.broker.HasMemory(account(), kMaxUnreadWhenFull);
}

std::span<std::byte> Session::NextRead() {
  if (over_ || closing_ || awaits_room_ || unsent() >= kMaxUnread) return {};
  // What is being read of a request has its memory already.
  if (part_ != Part::kData && HasTooMuchUnread()) return {};
  // Between headers nothing of the frame is left ahead: Advance took it.
  const uint64_t left = PartBytes() - got_;
  switch (part_) {
    case Part::kMeta:
      return std::as_writable_bytes(std::span(meta_)).subspan(got_);
    case Part::kData:
      return {data_.get() + got_, left};
    case Part::kDiscard:
      return std::span(ahead_).first(std::min<uint64_t>(left, ahead_.size()));
    case Part::kHeader:
      return std::span(ahead_).subspan(ahead_end_);
  }
  return {};
}

void Session::Got(int64_t result) {
  if (result <= 0) {
    if (result < 0) fault_ = fmt::format("recv: {}", std::strerror(static_cast<int>(-result)));
    if (result == 0 && (part_ != Part::kHeader || ahead_end_ > ahead_begin_))
      fault_ = "the connection ended within a frame";
    over_ = true;
    return;
  }
  last_heard_ = host_.now();
  if (part_ == Part::kHeader)
    ahead_end_ += static_cast<size_t>(result);
  else
    got_ += static_cast<uint64_t>(result);
  TakeFrames();
}

// As far as they have come.
void Session::TakeFrames() {
  const uint64_t frames = frames_;
  while (!over_ && !closing_ && !awaits_room_ && Advance()) {
  }
  // A header that has begun stays, at the front.
  if (ahead_begin_ > 0) {
    ahead_end_ -= ahead_begin_;
    std::memmove(ahead_.data(), ahead_.data() + ahead_begin_, ahead_end_);
    ahead_begin_ = 0;
  }
  const bool owes = !tenant_ || part_ != Part::kHeader || ahead_end_ > 0;
  if (!owes)
    owes_since_.reset();
  else if (!owes_since_ || frames_ != frames)
    owes_since_ = last_heard_;
}

bool Session::IsLate(Time now, Duration most) {
  if (over_) return false;
  if (unread_since_ && now - *unread_since_ > most + std::chrono::seconds(sent_ / kSlowestReader)) {
    fault_ = "its answers were not read within limits.receive";
    return true;
  }
  if (!owes_since_) return false;
  // It is not asked to send while its answers pile up.
  if (NextRead().empty()) owes_since_ = now;
  if (now - *owes_since_ <= most) return false;
  fault_ = "a frame, or the hello, did not come within limits.receive";
  return true;
}

size_t Session::FreeIdleBuffers() {
  const size_t within = std::string().capacity();
  if (unsent() > 0 || !idle()) return 0;
  size_t freed = 0;
  for (std::string* buffer : {&out_, &sending_}) {
    if (buffer->capacity() <= within) continue;
    freed += buffer->capacity();
    buffer->shrink_to_fit();  // both are empty
  }
  return freed;
}

size_t Session::TakeAhead(std::byte* into, size_t most) {
  const size_t bytes = std::min(most, ahead_end_ - ahead_begin_);
  if (into != nullptr && bytes > 0) std::memcpy(into, ahead_.data() + ahead_begin_, bytes);
  ahead_begin_ += bytes;
  return bytes;
}

// Takes what there is of the part at hand. False: more has to come first.
bool Session::Advance() {
  const uint64_t whole = PartBytes();
  switch (part_) {
    case Part::kHeader:
      if (ahead_end_ - ahead_begin_ < whole) return false;
      TakeAhead(reinterpret_cast<std::byte*>(&header_), whole);
      HeaderDone();
      return true;
    case Part::kMeta:
      got_ += TakeAhead(reinterpret_cast<std::byte*>(meta_.data()) + got_, whole - got_);
      if (got_ < whole) return false;
      MetaDone();
      return true;
    case Part::kData:
      got_ += TakeAhead(data_.get() + got_, whole - got_);
      if (got_ < whole) return false;
      DataDone();
      return true;
    case Part::kDiscard:
      got_ += TakeAhead(nullptr, whole - got_);
      if (got_ < whole) return false;
      part_ = Part::kHeader;
      got_ = 0;
      return true;
  }
  return false;
}

void Session::HeaderDone() {
  got_ = 0;
  frames_++;
  const HeaderFault fault = CheckClientHeader(header_, host_.config.most_request);
  if (!fault.text.empty()) {
    SendError(header_.id, fault.status, fault.text);
    if (fault.fatal || !tenant_) return Fault(fault.text);
    discard_ = header_.meta_bytes + header_.data_bytes;
    if (discard_ > 0) part_ = Part::kDiscard;
    return;
  }
  meta_.assign(header_.meta_bytes, '\0');
  part_ = Part::kMeta;
}

void Session::MetaDone() {
  got_ = 0;
  part_ = Part::kHeader;
  if (header_.data_bytes == 0) return Handle();
  // Before the data is read: whether there is room for it.
  if (!tenant_) {
    SendError(header_.id, Status::kDenied, "expected a hello first");
    return Fault("expected a hello first");
  }
  const uint64_t outputs = OutputBytes();
  if (const auto fits = host_.broker.CanFit(header_.data_bytes, outputs, account()); !fits) {
    SendError(header_.id, Status::kTooLarge, fits.error().message);
    discard_ = header_.data_bytes;
    part_ = Part::kDiscard;
    return;
  }
  const uint64_t bytes = header_.data_bytes + outputs;
  if (asked_.size() >= kMaxAsked || host_.broker.Full(account(), bytes)) {
    SendError(header_.id, Status::kBusy, "the queue or the memory for requests is full", 1000);
    discard_ = header_.data_bytes;
    part_ = Part::kDiscard;
    return;
  }
  held_ = bytes;
  host_.broker.Hold(held_, account());
  data_ = std::make_shared_for_overwrite<std::byte[]>(header_.data_bytes);
  part_ = Part::kData;
}

void Session::DataDone() {
  got_ = 0;
  part_ = Part::kHeader;
  Handle();
  DropData();
}

// ---- what frames ask

void Session::Handle() {
  const auto type = static_cast<FrameType>(header_.type);
  if (!tenant_ && type != FrameType::kHello) {
    SendError(header_.id, Status::kDenied, "expected a hello first");
    Fault("expected a hello first");
    return;
  }
  switch (type) {
    case FrameType::kHello:
      return HandleHello();
    case FrameType::kDescribe:
      return HandleDescribe();
    case FrameType::kInfer:
      return HandleInfer();
    case FrameType::kCancel:
      return HandleCancel();
    case FrameType::kOpenWindow:
      return HandleOpenWindow();
    default:
      return;
  }
}

void Session::HandleHello() {
  const std::string_view meta = meta_;
  const size_t line = meta.find('\n');
  const auto tenant = Authenticate(host_.config, meta.substr(0, line),
                                   line == std::string::npos ? std::string_view() : meta.substr(line + 1));
  if (tenant_ || !tenant) {
    SendError(header_.id, Status::kDenied, tenant_ ? "a second hello" : "no such tenant, or wrong token");
    Fault(tenant_ ? "a second hello" : "no such tenant, or wrong token");
    return;
  }
  if (!host_.takes_another(*tenant)) {
    SendError(header_.id, Status::kBusy,
              fmt::format("tenant {} has all connections that others leave it (limits.connections)",
                          host_.config.broker.tenants[*tenant].name),
              1000);
    closing_ = true;
    return;
  }
  // What was to be told before was nobody's, and is the tenant's from now on.
  host_.broker.Release(unsent(), account());
  tenant_ = tenant;
  host_.broker.Hold(unsent(), account());
  const nlohmann::json welcome = {{"gateway", "spillway"},
                                  {"tenant", host_.config.broker.tenants[*tenant].name},
                                  {"most_request_bytes", host_.config.most_request},
                                  {"most_requests", kMaxAsked},
                                  {"window", is_unix_},
                                  {"rdma_window", !is_unix_ && host_.remote_windows != nullptr}};
  SendFrame(FrameType::kWelcome, header_.id, welcome.dump());
}

void Session::HandleDescribe() {
  if (HasTooMuchUnread()) return SendError(header_.id, Status::kBusy, "the memory for answers is full", 1000);
  const auto model = host_.broker.FindModel(meta_);
  if (!model) {
    SendError(header_.id, Status::kNoModel,
              IsTensorName(meta_)
                  ? fmt::format("no executor has a model {}", meta_)
                  : std::string("expected a model's name: 1 to 64 letters, digits, '.', '_' or '-'"));
    return;
  }
  nlohmann::json json = ToJson(*host_.broker.model(*model));
  json["index"] = *model;
  json["ready"] = host_.broker.ModelReady(*model);
  SendFrame(FrameType::kModel, header_.id, json.dump());
}

// That the request which is being read will have, as far as its meta makes sense.
uint64_t Session::OutputBytes() const {
  InferMeta infer;
  if (header_.type != static_cast<uint8_t>(FrameType::kInfer) ||
      !ReadMeta(std::as_bytes(std::span(meta_)), infer))
    return 0;
  const ModelCard* card = host_.broker.model(infer.model);
  return card != nullptr && infer.rows >= 1 && infer.rows <= card->most_rows ? card->OutputBytes(infer.rows)
                                                                             : 0;
}

void Session::HandleInfer() {
  InferMeta infer;
  if (!ReadMeta(std::as_bytes(std::span(meta_)), infer))
    return SendError(header_.id, Status::kBadRequest,
                     fmt::format("{} bytes of meta, expected {}", meta_.size(), sizeof(infer)));
  if (asked_.contains(header_.id))
    return SendError(header_.id, Status::kBadRequest, "a request with that id is still in progress");
  Request request;
  request.tenant = *tenant_;
  request.front = Front::kFrames;
  request.model = infer.model;
  request.rows = infer.rows;
  if (data_) request.inputs = {data_.get(), header_.data_bytes};
  request.keeper = data_;
  request.deadline = DeadlineOf(infer.deadline_us);
  // From the session's account to the request's.
  host_.broker.Release(std::exchange(held_, 0), account());
  request.held_bytes = header_.data_bytes + OutputBytes();
  const uint64_t client_id = header_.id;
  request.reply = [self = self_, client_id](const Answer& answer) {
    if (*self != nullptr) (*self)->AnswerFrame(client_id, answer);
  };
  const uint64_t id = host_.broker.Submit(std::move(request), host_.now());
  if (id != 0) asked_[client_id] = id;
}

void Session::HandleCancel() {
  // A window that its client cannot connect.
  if (awaited_ && awaited_->id == header_.id) return EndWindow();
  const auto found = asked_.find(header_.id);
  // An answer that is on its way already is no error.
  if (found != asked_.end()) host_.broker.Cancel(found->second, host_.now());
}

void Session::AnswerFrame(uint64_t id, const Answer& answer) {
  asked_.erase(id);
  if (answer.status != Status::kOk) {
    SendAnswer(id, answer.status, answer.message, static_cast<uint32_t>(answer.retry_after.count()));
  } else {
    ResultMeta meta;
    meta.rows = static_cast<uint32_t>(answer.rows);
    meta.busy_ns = static_cast<uint64_t>(answer.busy.count());
    SendFrame(FrameType::kResult, id, MetaBytes(meta), answer.outputs);
  }
}

// ---- writing

void Session::SendFrame(FrameType type, uint64_t id, std::string_view meta, std::span<const std::byte> data) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(type);
  header.id = id;
  header.data_bytes = data.size();
  Append(header, meta, data);
}

void Session::SendError(uint64_t id, Status status, std::string_view text, uint32_t retry_after_ms) {
  host_.refused(status);
  SendAnswer(id, status, text, retry_after_ms);
}

void Session::SendAnswer(uint64_t id, Status status, std::string_view text, uint32_t retry_after_ms) {
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kError);
  header.id = id;
  header.status = static_cast<uint16_t>(status);
  header.retry_after_ms = retry_after_ms;
  Append(header, text);
}

void Session::Append(const FrameHeader& header, std::string_view meta, std::span<const std::byte> data) {
  const std::string frame = EncodeFrame(header, meta);
  if (unsent() == 0) unread_since_ = host_.now();
  host_.broker.Hold(frame.size() + data.size(), account());
  out_ += frame;
  out_.append(reinterpret_cast<const char*>(data.data()), data.size());
  host_.changed(number_);
}

void Session::Fault(const std::string& text) {
  if (fault_.empty()) fault_ = text;
  closing_ = true;
  if (unsent() == 0) over_ = true;
  host_.changed(number_);
}

std::span<const std::byte> Session::NextWrite() {
  if (over_) return {};
  if (sending_.empty() && !out_.empty()) {
    std::swap(sending_, out_);
    unread_since_ = host_.now();
  }
  return std::as_bytes(std::span(sending_)).subspan(sent_);
}

void Session::Sent(int64_t result) {
  if (result < 0) {
    over_ = true;
    return;
  }
  sent_ += static_cast<size_t>(result);
  if (sent_ < sending_.size()) return;
  host_.broker.Release(sending_.size(), account());
  sending_.clear();
  if (sending_.capacity() > kMaxKept) sending_.shrink_to_fit();
  sent_ = 0;
  unread_since_.reset();
  if (!out_.empty()) unread_since_ = host_.now();
  if (closing_ && out_.empty()) over_ = true;
}

}  // namespace spillway::gateway
