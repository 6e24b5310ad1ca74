// SPDX-License-Identifier: Apache-2.0
// A session's window (memory that gateway and client both write to) and the requests that arrive in it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <nlohmann/json.hpp>

#include "gateway/session.h"
#include "gateway/transport/shm/window.h"

namespace spillway::gateway {
namespace {

constexpr uint32_t kMaxWindowSlots = 1024;

}  // namespace

void Session::HandleOpenWindow() {
  WindowMeta asked;
  const auto refuse = [&](const std::string& text) { SendError(header_.id, Status::kBadRequest, text); };
  if (!is_unix_ && host_.remote_windows == nullptr)
    return refuse(
        "windows are for clients of this host: expected a UNIX socket, or rdma.clients at the gateway");
  if (window_) return refuse("there is a window already");
  if (!ReadMeta(std::as_bytes(std::span(meta_)), asked) || asked.bytes == 0 || asked.bytes > kMaxWindow ||
      !std::has_single_bit(asked.slots) || asked.slots > kMaxWindowSlots)
    return refuse(fmt::format("expected a window of 1 to {} bytes with a power of two up to {} slots",
                              kMaxWindow, kMaxWindowSlots));
  OpenWindow({header_.id, (asked.bytes + 4095) & ~uint64_t{4095}, asked.slots}, /*has_waited=*/false);
}

void Session::OpenWindow(const AskedWindow& asked, bool has_waited) {
  // Nobody is refused for what is not free yet: who starts again has ended a window just now.
  if (!has_waited && host_.windows.IsBehind()) return AwaitRoom(asked);
  auto held =
      host_.windows.Hold(asked.bytes + (is_unix_ ? 0 : RemoteWindow::Overhead(asked.slots)), *tenant_);
  const bool is_full = !held && held.error().code == ErrorCode::kConflict;
  if (is_full && !has_waited) return AwaitRoom(asked);
  if (!held) return SendError(asked.id, is_full ? Status::kBusy : Status::kTooLarge, held.error().message);
  window_held_ = std::move(*held);
  if (is_unix_)
    OpenSharedWindow(asked);
  else
    OpenRemoteWindow(asked);
  if (!window_) EndWindow();
}

// Until all is free of which windows have ended by now.
void Session::AwaitRoom(const AskedWindow& asked) {
  awaits_room_ = true;
  host_.windows.WhenFreed([self = self_, asked] {
    if (*self == nullptr) return;
    Session& session = **self;
    session.awaits_room_ = false;
    if (session.over_ || session.closing_) return;
    session.OpenWindow(asked, /*has_waited=*/true);
    session.TakeFrames();
    session.host_.changed(session.number_);
  });
}

void Session::OpenSharedWindow(const AskedWindow& asked) {
  // The descriptors do not wait behind them. Some may have come while there was no room.
  if (unsent() > 0)
    return SendError(asked.id, Status::kBadRequest, "expected all earlier answers to be read first");
  auto window = ShmServedWindow::Create(asked.bytes, asked.slots);
  if (!window) return SendError(asked.id, Status::kBusy, "no memory for a window: " + window.error().message);
  window_key_ = host_.regions.Register(number_, (*window)->bytes());
  WindowMeta meta;
  meta.bytes = asked.bytes;
  meta.key = window_key_;
  meta.slots = asked.slots;
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kWindow);
  header.id = asked.id;
  const std::string frame = EncodeFrame(header, MetaBytes(meta));
  if (auto sent =
          SendWithDescriptors(socket_.get(), std::as_bytes(std::span(frame)), (*window)->descriptors());
      !sent)
    Fault(sent.error().message);
  (*window)->DropClientsEnd();
  window_ = std::move(*window);
  host_.changed(number_);
}

void Session::OpenRemoteWindow(const AskedWindow& asked) {
  auto window = host_.remote_windows->Expect(number_, asked.bytes, asked.slots, window_held_);
  if (!window) return SendError(asked.id, Status::kBusy, window.error().message);
  awaited_ = {window->get(), asked.id, false, host_.now()};
  window_ = std::move(*window);
}

void Session::HandleWindowNews() {
  if (!awaited_) return;  // what there is to hear is heard when submissions are taken
  RemoteWindow& window = *awaited_->window;
  if (window.state() == RemoteWindow::State::kConnected) {
    awaited_.reset();
    return host_.changed(number_);
  }
  if (const std::string fault = window.Fault(); !fault.empty()) {
    // Requests may go on in frames.
    if (awaited_->is_told)
      host_.tell_fault(number_, "its window over RDMA was not connected: " + fault);
    else
      SendError(awaited_->id, Status::kBusy, fault);
    return EndWindow();
  }
  if (window.state() != RemoteWindow::State::kReady || std::exchange(awaited_->is_told, true)) return;
  awaited_->since = host_.now();
  window_key_ = host_.regions.Register(number_, window.bytes());
  const base::SocketAddress where = host_.remote_windows->address();
  nlohmann::json place = {{"bytes", window.bytes().size()},
                          {"slots", window.slots()},
                          {"key", window_key_},
                          {"ticket", window.ticket()},
                          {"port", where.port()}};
  if (!where.IsWildcard()) place["address"] = where.Host();
  SendFrame(FrameType::kRemoteWindow, awaited_->id, place.dump());
}

void Session::EndLateWindow(Time now, Duration most) {
  if (!awaited_ || !awaited_->is_told || now - awaited_->since <= most) return;
  host_.tell_fault(number_, "did not connect its window over RDMA within limits.receive");
  EndWindow();
}

void Session::EndWindow() {
  // First nobody here reads or writes there any more, then the memory is given back.
  awaited_.reset();
  if (window_key_ != 0) host_.regions.ForgetAllOf(number_);
  window_key_ = 0;
  std::shared_ptr<void> memory = window_ ? window_->TakeMemory() : nullptr;
  window_.reset();
  if (window_held_) host_.windows.Free(std::move(memory), std::move(window_held_));
}

bool Session::TakeSubmissions() {
  if (!takes_submissions()) return false;
  bool any = false;
  Submission submission;
  for (int left = kMaxOfATurn; left > 0 && !closing_ && window_->TakeSubmission(submission); left--) {
    any = true;
    // One completion for each, and none may be lost: who asks for more than the ring holds breaks the rules.
    if (window_asked_ + window_->AnswersWaiting() >= window_->slots()) {
      Fault("the window has more requests than slots");
      break;
    }
    window_asked_++;
    SubmitFromWindow(submission);
  }
  if (const std::string fault = window_->Fault(); !fault.empty() && !closing_ && !awaited_) Fault(fault);
  if (any) last_heard_ = host_.now();
  return any;
}

void Session::SubmitFromWindow(const Submission& asked) {
  const auto outputs = host_.regions.Find(number_, asked.key, asked.output_offset, asked.output_bytes);
  const std::span<std::byte> room = outputs ? *outputs : std::span<std::byte>();
  const auto refuse = [&](Status status, std::string_view text) {
    host_.refused(status);
    AnswerWindow(asked, room, {.status = status, .message = text});
  };
  const auto inputs = host_.regions.Find(number_, asked.key, asked.input_offset, asked.input_bytes);
  if (!inputs) return refuse(Status::kDenied, inputs.error().message);
  if (!outputs) return refuse(Status::kDenied, outputs.error().message);
  if (window_ids_.contains(asked.id))
    return refuse(Status::kBadRequest, "a request with that id is still in progress");
  Request request;
  request.tenant = *tenant_;
  request.front = Front::kFrames;
  request.model = asked.model;
  request.rows = asked.rows;
  request.inputs = *inputs;
  request.keeper = window_->keeper();
  request.peer = window_->peer_memory();
  request.most_output = asked.output_bytes;
  request.deadline = DeadlineOf(asked.deadline_us);
  request.reply = [self = self_, asked, room](const Answer& answer) {
    if (*self == nullptr) return;
    (*self)->window_ids_.erase(asked.id);
    (*self)->AnswerWindow(asked, room, answer);
  };
  const uint64_t id = host_.broker.Submit(std::move(request), host_.now());
  if (id != 0) window_ids_[asked.id] = id;
}

void Session::AnswerWindow(const Submission& asked, std::span<std::byte> outputs, const Answer& answer) {
  window_asked_--;
  Completion completion;
  completion.id = asked.id;
  completion.status = static_cast<uint32_t>(answer.status);
  completion.retry_after_ms = static_cast<uint32_t>(answer.retry_after.count());
  completion.busy_ns = static_cast<uint64_t>(answer.busy.count());
  std::span<const std::byte> bytes = answer.outputs;
  if (answer.status != Status::kOk) bytes = std::as_bytes(std::span(answer.message));
  completion.output_bytes = std::min(bytes.size(), outputs.size());
  if (completion.output_bytes > 0 &&
      !window_->Write(outputs.first(completion.output_bytes), bytes.first(completion.output_bytes))) {
    completion.status = static_cast<uint32_t>(Status::kBusy);
    completion.output_bytes = 0;
  }
  window_->Complete(completion, asked.output_offset);
}

}  // namespace spillway::gateway
