// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/client_window.h"

#include <rdma/rdma_cma.h>

#include <bit>

#include "gateway/transport/rdma/hello.h"
#include "gateway/transport/rdma/mirror.h"

namespace spillway::gateway {
namespace {

class RdmaClientWindow : public ClientWindow {
 public:
  RdmaClientWindow(uint32_t slots, rdma::Owned<rdma_event_channel> channel)
      : slots_(slots), channel_(std::move(channel)) {}
  [[nodiscard]] Result<void> Connect(const RemoteWindowPlace& place,
                                     std::chrono::steady_clock::time_point until);

  [[nodiscard]] std::span<std::byte> bytes() const override { return pages_->bytes(); }
  [[nodiscard]] uint32_t slots() const override { return slots_; }
  bool Submit(const Submission& submission) override;
  bool TakeCompletion(Completion& into) override;
  [[nodiscard]] bool HasCompletion() override { return mirror_->HasMessage(); }
  [[nodiscard]] bool broken() const override { return !mirror_->fault().empty(); }
  [[nodiscard]] int bell() const override { return mirror_->bell(); }
  bool PrepareToWait() override { return mirror_->PrepareToWait(); }
  void DoneWaiting(bool) override { mirror_->DoneWaiting(); }

 private:
  uint32_t slots_;
  // Its connection goes before it.
  rdma::Owned<rdma_event_channel> channel_;
  std::shared_ptr<const Pages> pages_;
  std::unique_ptr<Mirror> mirror_;
};

Result<void> RdmaClientWindow::Connect(const RemoteWindowPlace& place,
                                       std::chrono::steady_clock::time_point until) {
  // What the network says: frames may go another way.
  const auto not_there = [](const std::string& text) { return Fail(ErrorCode::kUnavailable, text); };
  auto pages = Pages::Make(place.bytes);
  if (!pages) return tl::make_unexpected(pages.error());
  pages_ = std::make_shared<Pages>(std::move(*pages));
  auto id = rdma::MakeId(channel_.get());
  if (!id) return tl::make_unexpected(id.error());
  if (auto resolved = rdma::Resolve(channel_.get(), id->get(), place.gateway.storage, until); !resolved)
    return not_there(resolved.error().message);
  auto mirror = Mirror::Make(std::move(*id), pages_, slots_);
  if (!mirror) return tl::make_unexpected(mirror.error());
  mirror_ = std::move(*mirror);
  WindowHello hello;
  hello.key = mirror_->key();
  hello.ticket = place.ticket;
  hello.address = mirror_->address();
  rdma_conn_param request{};
  request.private_data = &hello;
  request.private_data_len = sizeof(hello);
  request.retry_count = 7;
  request.rnr_retry_count = kRetries;
  if (rdma_connect(mirror_->id(), &request) != 0) return rdma::FailRdma("connecting");
  const auto answer = rdma::AwaitEvent(channel_.get(), until);
  if (!answer) return not_there(answer.error().message);
  if (answer->type == RDMA_CM_EVENT_REJECTED) return not_there("the gateway refused the window's connection");
  if (answer->type != RDMA_CM_EVENT_ESTABLISHED) return not_there("RDMA: " + answer->Text());
  const auto welcome = answer->As<WindowWelcome>();
  if (!welcome || !IsUnderstood(*welcome) || !HasRoomFor(*welcome, place.bytes))
    return not_there("expected a Spillway gateway's answer, got something else");
  mirror_->SetPeer(welcome->address, welcome->key);
  return {};
}

bool RdmaClientWindow::Submit(const Submission& submission) {
  if (broken()) return false;
  // What is not within the window is not written, which would end the connection; the gateway says what is
  // wrong.
  const bool is_within = submission.input_offset <= bytes().size() &&
                         submission.input_bytes <= bytes().size() - submission.input_offset;
  mirror_->Put(is_within ? submission.input_offset : 0, is_within ? submission.input_bytes : 0,
               std::bit_cast<Mirror::Message>(submission));
  return true;
}

bool RdmaClientWindow::TakeCompletion(Completion& into) {
  Mirror::Message message;
  if (!mirror_->Take(message)) return false;
  into = std::bit_cast<Completion>(message);
  return true;
}

}  // namespace

Result<void> CheckRdma() {
  const auto channel = rdma::OpenEventChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  return {};
}

Result<std::unique_ptr<ClientWindow>> OpenRemoteWindow(const RemoteWindowPlace& place,
                                                       std::chrono::steady_clock::time_point until) {
  auto channel = rdma::OpenEventChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  auto window = std::make_unique<RdmaClientWindow>(place.slots, std::move(*channel));
  if (auto connected = window->Connect(place, until); !connected)
    return tl::make_unexpected(connected.error());
  return window;
}

}  // namespace spillway::gateway
