// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/inlet.h"

#include <fmt/format.h>
#include <rdma/rdma_cma.h>

#include <cerrno>
#include <cstring>

#include "gateway/transport/executor_offer.h"
#include "gateway/transport/rdma/hello.h"

namespace spillway::gateway {
namespace {

// Messages that may be under way each way, beside one for each cell.
constexpr uint32_t kSpareMessages = 2;
constexpr std::chrono::seconds kFarewell{1};
// Of work requests' numbers: answers, the others are submissions' buffers.
constexpr uint64_t kAnswer = uint64_t{1} << 32;

// What the network says: the gateway may be there yet.
tl::unexpected<Error> NotThere(const Error& error) { return Fail(ErrorCode::kUnavailable, error.message); }

uint32_t Messages(const SliceOffer& offer) { return offer.cells + kSpareMessages; }

}  // namespace

Result<std::unique_ptr<RdmaInlet>> RdmaInlet::Connect(const SliceOffer& offer, uint64_t key,
                                                      const Place& place,
                                                      std::chrono::steady_clock::time_point until,
                                                      std::function<void()> on_broken,
                                                      std::unique_ptr<RdmaDeviceInputs> inputs) {
  std::unique_ptr<RdmaInlet> inlet(new RdmaInlet(offer, key));
  inlet->on_broken_ = std::move(on_broken);
  inlet->inputs_ = std::move(inputs);
  if (auto open = inlet->Open(place, until); !open)
    return Fail(open.error().code, fmt::format("slice {}: {}", offer.name, open.error().message));
  return inlet;
}

RdmaInlet::~RdmaInlet() {
  if (id_ == nullptr || id_->qp == nullptr) return;
  // The last answer is to arrive.
  const auto until = std::chrono::steady_clock::now() + kFarewell;
  while (left_ != sent_ && !broken_ && std::chrono::steady_clock::now() < until) Poll();
  rdma_disconnect(id_.get());
}

Result<void> RdmaInlet::Open(const Place& place, std::chrono::steady_clock::time_point until) {
  auto channel = rdma::OpenEventChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  channel_ = std::move(*channel);
  auto id = rdma::MakeId(channel_.get());
  if (!id) return tl::make_unexpected(id.error());
  id_ = std::move(*id);
  if (auto resolved = rdma::Resolve(channel_.get(), id_.get(), place.gateway, until); !resolved)
    return NotThere(resolved.error());
  if (inputs_ == nullptr) {
    own_domain_.reset(ibv_alloc_pd(id_->verbs));
    if (own_domain_ == nullptr) return rdma::FailRdma("protection domain");
    domain_ = own_domain_.get();
  } else if (inputs_->way->verbs == id_->verbs) {
    domain_ = inputs_->domain.get();
  } else {
    return Fail(ErrorCode::kUnavailable, "RDMA: the gateway is now reached by another device");
  }
  if (auto made = MakeQueues(); !made) return made;
  if (auto made = MakeMemory(); !made) return made;
  for (uint32_t i = 0; i < Messages(offer()); i++)
    if (!Listen(i)) return rdma::FailRdma("posting");
  return Greet(place, until);
}

Result<void> RdmaInlet::MakeQueues() {
  const uint32_t messages = Messages(offer());
  auto completions = Completions::Make(id_->verbs, 2 * messages);
  if (!completions) return tl::make_unexpected(completions.error());
  completions_ = std::move(*completions);
  ibv_qp_init_attr queues{};
  queues.qp_type = IBV_QPT_RC;
  queues.send_cq = queues.recv_cq = completions_->queue();
  queues.cap.max_send_wr = queues.cap.max_recv_wr = messages;
  queues.cap.max_send_sge = 2;
  queues.cap.max_recv_sge = 1;
  if (rdma_create_qp(id_.get(), domain_, &queues) != 0) return rdma::FailRdma("queue pair");
  auto bell = Bell::Make(completions_->fd());
  if (!bell) return tl::make_unexpected(bell.error());
  bell_ = std::move(*bell);
  return {};
}

Result<void> RdmaInlet::MakeMemory() {
  const CellLayout layout(offer());
  auto memory = Pin(layout.Bytes() - (inputs_ != nullptr ? layout.HostPart() : 0),
                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!memory) return tl::make_unexpected(memory.error());
  memory_ = std::move(*memory);
  auto texts = Pin(Messages(offer()) * (sizeof(Submission) + sizeof(Completion)), IBV_ACCESS_LOCAL_WRITE);
  if (!texts) return tl::make_unexpected(texts.error());
  messages_ = std::move(*texts);
  return {};
}

Result<void> RdmaInlet::Greet(const Place& place, std::chrono::steady_clock::time_point until) {
  SliceHello hello;
  hello.slice = place.slice;
  hello.ticket = place.ticket;
  hello.host_key = memory_.remote_key();
  if (inputs_ != nullptr) {
    hello.inputs = reinterpret_cast<uint64_t>(inputs_->registered.memory->bytes().data());
    hello.inputs_key = inputs_->registered.registration->remote_key();
    hello.host = memory_.Address();
  } else {
    hello.inputs = memory_.Address();
    hello.inputs_key = hello.host_key;
    hello.host = memory_.Address(CellLayout(offer()).HostPart());
  }
  rdma_conn_param request{};
  request.private_data = &hello;
  request.private_data_len = sizeof(hello);
  request.retry_count = 7;
  request.rnr_retry_count = kRetries;
  if (rdma_connect(id_.get(), &request) != 0) return rdma::FailRdma("connecting");
  const auto answer = rdma::AwaitEvent(channel_.get(), until);
  if (!answer) return NotThere(answer.error());
  if (answer->type == RDMA_CM_EVENT_REJECTED)
    return Fail(ErrorCode::kConflict, "the gateway refused its connection");
  if (answer->type != RDMA_CM_EVENT_ESTABLISHED)
    return NotThere({ErrorCode::kSystem, "RDMA: " + answer->Text()});
  const auto welcome = answer->As<SliceWelcome>();
  if (!welcome || welcome->magic != kSliceMagic || welcome->version != kSliceVersion)
    return Fail(ErrorCode::kConflict, "expected a Spillway gateway's answer, got something else");
  return {};
}

Result<PinnedMemory> RdmaInlet::Pin(uint64_t bytes, int access) const {
  auto pages = Pages::Make(bytes);
  if (!pages) return tl::make_unexpected(pages.error());
  return PinnedMemory::Make(domain_, std::move(*pages), access);
}

bool RdmaInlet::Listen(uint32_t message) {
  ibv_sge into{messages_.Address(message * sizeof(Submission)), sizeof(Submission), messages_.local_key()};
  ibv_recv_wr work{};
  work.wr_id = message;
  work.sg_list = &into;
  work.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  errno = ibv_post_recv(id_->qp, &work, &bad);
  return errno == 0;
}

void RdmaInlet::Break() {
  if (!std::exchange(broken_, true)) on_broken_();
}

void RdmaInlet::Poll() {
  const bool good = completions_->Poll([this](const ibv_wc& done) {
    if (done.status != IBV_WC_SUCCESS) return Break();
    if (done.wr_id >= kAnswer) {
      left_++;
      return;
    }
    // More than there are cells: the gateway is faulty.
    if (done.byte_len != sizeof(Submission) || in_hand_++ == offer().cells) return Break();
    const auto message = static_cast<uint32_t>(done.wr_id);
    Submission& submission = came_.emplace_back();
    std::memcpy(&submission, messages_.bytes().data() + message * sizeof(Submission), sizeof(Submission));
    if (!Listen(message)) Break();
  });
  if (!good) Break();
}

bool RdmaInlet::TakeSubmission(Submission& into) {
  if (came_.empty() && !broken_) Poll();
  if (came_.empty() || broken_) return false;
  into = came_.front();
  came_.pop_front();
  return true;
}

void RdmaInlet::Complete(const Completion& completion, uint64_t output_offset) {
  const uint32_t messages = Messages(offer());
  // More answers than requests there are none: this waits for the device's word on old ones, not for the
  // gateway.
  while (sent_ - left_ == messages && !broken_) Poll();
  if (broken_) return;
  in_hand_--;
  const uint64_t at = messages * sizeof(Submission) + (sent_ % messages) * sizeof(Completion);
  std::memcpy(messages_.bytes().data() + at, &completion, sizeof(completion));
  // Outputs lie on the host wherever inputs do: the engine has to wait for them anyhow before it may answer,
  // texts in their place are the CPU's, and some processors limit severely how fast one device reads from
  // another ("Supported Systems" of NVIDIA's GPUDirect RDMA guide).
  const uint64_t outputs = output_offset - (inputs_ != nullptr ? CellLayout(offer()).HostPart() : 0);
  ibv_sge parts[] = {
      {messages_.Address(at), sizeof(Completion), messages_.local_key()},
      {memory_.Address(outputs), static_cast<uint32_t>(completion.output_bytes), memory_.local_key()}};
  ibv_send_wr work{};
  work.wr_id = kAnswer;
  work.opcode = IBV_WR_SEND;
  work.send_flags = IBV_SEND_SIGNALED;
  work.sg_list = parts;
  work.num_sge = completion.output_bytes > 0 ? 2 : 1;
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_->qp, &work, &bad) != 0) return Break();
  sent_++;
}

bool RdmaInlet::PrepareToWait() {
  // Once it is broken, there is nothing to hear but our own ring.
  if (broken_) return true;
  completions_->Arm();
  if (came_.empty()) Poll();
  if (came_.empty() || broken_) return true;
  completions_->Disarm();
  return false;
}

void RdmaInlet::DoneWaiting() {
  bell_.Hush();
  completions_->Disarm();
}

}  // namespace spillway::gateway
