// SPDX-License-Identifier: Apache-2.0
// The window of a session: memory that it shares with its client, and the ring of requests in it.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "gateway/session.h"

namespace spillway::gateway {
namespace {

constexpr uint32_t kMaxWindowSlots = 1024;

}  // namespace

void Session::HandleOpenWindow() {
  WindowMeta asked;
  const auto refuse = [&](const std::string& text, Status status = Status::kBadRequest) {
    SendError(header_.id, status, text);
  };
  if (!is_unix_) return refuse("windows are for clients of this host: expected a UNIX socket");
  if (window_) return refuse("there is a window already");
  if (!ReadMeta(std::as_bytes(std::span(meta_)), asked) || asked.bytes == 0 || asked.bytes > kMaxWindow ||
      !std::has_single_bit(asked.slots) || asked.slots > kMaxWindowSlots)
    return refuse(fmt::format("expected a window of 1 to {} bytes with a power of two up to {} slots",
                              kMaxWindow, kMaxWindowSlots));
  const uint64_t bytes = (asked.bytes + 4095) & ~uint64_t{4095};
  if (unsent() > 0) return refuse("expected all answers to be read first");
  auto submissions = MakeEventFd(), completions = MakeEventFd();
  auto memory = SharedMemory::Create("spillway-window", bytes);
  if (!submissions || !completions || !memory) return refuse("no memory for a window", Status::kBusy);
  auto channel = Channel::Create(asked.slots, {std::move(*submissions), std::move(*completions)});
  if (!channel) return refuse(channel.error().message, Status::kBusy);
  auto window = std::make_unique<Window>();
  window->channel = std::move(*channel);
  window->memory = std::make_shared<SharedMemory>(std::move(*memory));
  window->key = host_.regions.Register(number_, window->memory->bytes());
  WindowMeta meta;
  meta.bytes = bytes;
  meta.key = window->key;
  meta.slots = asked.slots;
  FrameHeader header;
  header.type = static_cast<uint8_t>(FrameType::kWindow);
  header.id = header_.id;
  const std::string frame = EncodeFrame(header, MetaBytes(meta));
  const int fds[] = {window->channel.fd(), window->memory->fd(), window->channel.bells().submissions.get(),
                     window->channel.bells().completions.get()};
  if (const auto held = host_.broker.HoldWindow(bytes, *tenant_); !held) {
    host_.regions.Forget(window->key);
    return refuse(held.error().message,
                  held.error().code == ErrorCode::kBadInput ? Status::kTooLarge : Status::kBusy);
  }
  window_ = std::move(window);
  if (auto sent = SendWithDescriptors(socket_.get(), std::as_bytes(std::span(frame)), fds); !sent)
    Fault(sent.error().message);
  host_.changed(number_);
}

bool Session::TakeSubmissions() {
  if (!takes_submissions()) return false;
  bool any = false;
  Submission submission;
  for (int left = kMaxOfATurn; left > 0 && !closing_ && window_->channel.TakeSubmission(submission); left--) {
    any = true;
    // One completion for each, and none may be lost: who asks for more than the ring holds breaks the rules.
    if (window_asked_ + window_->channel.CompletionsWaiting() >= window_->channel.slots()) {
      Fault("the window has more requests than slots");
      break;
    }
    window_asked_++;
    SubmitFromWindow(submission);
  }
  if (window_->channel.broken()) Fault("the window's ring is broken");
  if (any) last_heard_ = host_.now();
  return any;
}

void Session::SubmitFromWindow(const Submission& asked) {
  const auto outputs = host_.regions.Find(number_, asked.key, asked.output_offset, asked.output_bytes);
  const std::span<std::byte> room = outputs ? *outputs : std::span<std::byte>();
  const auto refuse = [&](Status status, std::string_view text) {
    AnswerWindow(asked, room, {.status = status, .message = text});
  };
  const auto inputs = host_.regions.Find(number_, asked.key, asked.input_offset, asked.input_bytes);
  if (!inputs) return refuse(Status::kDenied, inputs.error().message);
  if (!outputs) return refuse(Status::kDenied, outputs.error().message);
  if (host_.broker.model(asked.model) == nullptr)
    return refuse(Status::kNoModel, "there is no model of that number");
  if (window_ids_.contains(asked.id))
    return refuse(Status::kBadRequest, "a request of that id is not answered yet");
  Request request;
  request.tenant = *tenant_;
  request.front = Front::kFrames;
  request.model = asked.model;
  request.rows = asked.rows;
  request.inputs = *inputs;
  request.keeper = window_->memory;
  request.most_output = asked.output_bytes;
  request.deadline = DeadlineOf(asked.deadline_us);
  request.reply = [self = self_, asked, room](const Answer& answer) {
    if (*self != nullptr) (*self)->AnswerWindow(asked, room, answer);
  };
  const uint64_t id = host_.broker.Submit(std::move(request), host_.now());
  if (id != 0) window_ids_[asked.id] = id;
}

void Session::AnswerWindow(const Submission& asked, std::span<std::byte> outputs, const Answer& answer) {
  window_ids_.erase(asked.id);
  window_asked_--;
  Completion completion;
  completion.id = asked.id;
  completion.status = static_cast<uint32_t>(answer.status);
  completion.retry_after_ms = static_cast<uint32_t>(answer.retry_after.count());
  completion.busy_ns = static_cast<uint64_t>(answer.busy.count());
  std::span<const std::byte> bytes = answer.outputs;
  if (answer.status != Status::kOk) bytes = std::as_bytes(std::span(answer.message));
  completion.output_bytes = std::min(bytes.size(), outputs.size());
  if (completion.output_bytes > 0) std::memcpy(outputs.data(), bytes.data(), completion.output_bytes);
  window_->channel.Complete(completion);
}

}  // namespace spillway::gateway
