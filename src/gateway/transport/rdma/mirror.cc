// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/mirror.h"

#include <fmt/format.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spillway::gateway {
namespace {

// Beside those of requests under way: an end that breaks the rules is heard, too.
constexpr uint32_t kMirrorSpareMessages = 2;
constexpr uint64_t kMessageBytes = sizeof(Mirror::Message);
// Of work requests' numbers: what came is a buffer's; what went out is how many work requests that was, and
// whether a message was among them.
constexpr uint64_t kCame = uint64_t{1} << 32, kMessage = uint64_t{1} << 33;

}  // namespace

Mirror::Mirror(rdma::Owned<rdma_cm_id> id, std::shared_ptr<const Pages> pages, uint32_t slots)
    : pages_(std::move(pages)), id_(std::move(id)), depth_(2 * (slots + kMirrorSpareMessages)) {}

Mirror::~Mirror() {
  if (id_->qp != nullptr) rdma_disconnect(id_.get());
}

Result<std::unique_ptr<Mirror>> Mirror::Make(rdma::Owned<rdma_cm_id> id, std::shared_ptr<const Pages> pages,
                                             uint32_t slots) {
  std::unique_ptr<Mirror> mirror(new Mirror(std::move(id), std::move(pages), slots));
  if (auto opened = mirror->Open(slots); !opened) return tl::make_unexpected(opened.error());
  return mirror;
}

Result<void> Mirror::Open(uint32_t slots) {
  ibv_port_attr port{};
  errno = ibv_query_port(id_->verbs, id_->port_num, &port);
  if (errno != 0) return rdma::FailRdma("port");
  // A work request counts bytes in 32 bits.
  most_at_once_ = std::min<uint64_t>(port.max_msg_sz, uint64_t{1} << 30);
  const uint32_t buffers = slots + kMirrorSpareMessages;
  domain_.reset(ibv_alloc_pd(id_->verbs));
  if (domain_ == nullptr) return rdma::FailRdma("protection domain");
  auto completions = Completions::Make(id_->verbs, depth_ + buffers);
  if (!completions) return tl::make_unexpected(completions.error());
  completions_ = std::move(*completions);
  ibv_qp_init_attr queues{};
  queues.qp_type = IBV_QPT_RC;
  queues.send_cq = queues.recv_cq = completions_.queue();
  queues.cap.max_send_wr = depth_;
  queues.cap.max_recv_wr = buffers;
  queues.cap.max_send_sge = queues.cap.max_recv_sge = 1;
  if (rdma_create_qp(id_.get(), domain_.get(), &queues) != 0) return rdma::FailRdma("queue pair");
  const auto bytes = pages_->bytes();
  auto memory = rdma::Register(domain_.get(), bytes.data(), bytes.size(),
                               IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!memory) return tl::make_unexpected(memory.error());
  memory_ = std::move(*memory);
  auto pages = Pages::Make((depth_ + buffers) * kMessageBytes);
  if (!pages) return tl::make_unexpected(pages.error());
  auto messages = PinnedMemory::Make(domain_.get(), std::move(*pages), IBV_ACCESS_LOCAL_WRITE);
  if (!messages) return tl::make_unexpected(messages.error());
  messages_ = std::move(*messages);
  for (uint32_t i = 0; i < buffers; i++)
    if (!Listen(i)) return rdma::FailRdma("posting");
  return {};
}

uint64_t Mirror::address() const { return reinterpret_cast<uint64_t>(pages_->bytes().data()); }
uint32_t Mirror::key() const { return memory_->rkey; }

void Mirror::SetPeer(uint64_t address, uint32_t key) {
  peer_address_ = address;
  peer_key_ = key;
}

void Mirror::Break(const std::string& why) {
  if (fault_.empty()) fault_ = why;
}

bool Mirror::Listen(uint32_t buffer) {
  ibv_sge into{messages_.Address((depth_ + buffer) * kMessageBytes), kMessageBytes, messages_.local_key()};
  ibv_recv_wr work{};
  work.wr_id = kCame | buffer;
  work.sg_list = &into;
  work.num_sge = 1;
  ibv_recv_wr* bad = nullptr;
  errno = ibv_post_recv(id_->qp, &work, &bad);
  return errno == 0;
}

void Mirror::Poll() {
  const bool good = completions_.Poll([this](const ibv_wc& done) {
    has_heard_ = true;
    if (done.status != IBV_WC_SUCCESS) return Break(fmt::format("RDMA: {}", ibv_wc_status_str(done.status)));
    if ((done.wr_id & kCame) == 0) {
      under_way_ -= static_cast<uint32_t>(done.wr_id);
      if ((done.wr_id & kMessage) != 0) messages_under_way_--;
    } else if (done.byte_len != kMessageBytes) {
      Break(fmt::format("a message of {} bytes, expected {}", done.byte_len, kMessageBytes));
    } else {
      came_.push_back(static_cast<uint32_t>(done.wr_id));
    }
  });
  if (!good) Break("RDMA: completions cannot be read");
  Pump();
}

void Mirror::Put(uint64_t offset, uint64_t bytes, const Message& message) {
  out_.push_back({offset, bytes, message});
  Pump();
  if (!out_.empty()) Poll();
}

void Mirror::Pump() {
  while (!out_.empty() && fault_.empty()) {
    Out& next = out_.front();
    // What is longer than the device writes at once goes in pieces.
    if (next.bytes > most_at_once_) {
      if (under_way_ == depth_) return;
      Post(next.offset, most_at_once_, nullptr);
      next.offset += most_at_once_;
      next.bytes -= most_at_once_;
      continue;
    }
    if (under_way_ + 2 > depth_) return;
    Post(next.offset, next.bytes, &next.message);
    out_.pop_front();
  }
}

void Mirror::Post(uint64_t offset, uint64_t bytes, const Message* message) {
  ibv_sge range{address() + offset, static_cast<uint32_t>(bytes), memory_->lkey};
  ibv_send_wr write{};
  write.opcode = IBV_WR_RDMA_WRITE;
  write.sg_list = &range;
  write.num_sge = 1;
  write.wr.rdma.remote_addr = peer_address_ + offset;
  write.wr.rdma.rkey = peer_key_;
  ibv_sge text{};
  ibv_send_wr send{};
  send.opcode = IBV_WR_SEND;
  send.sg_list = &text;
  send.num_sge = 1;
  ibv_send_wr* const first = bytes > 0 ? &write : &send;
  ibv_send_wr* const last = message != nullptr ? &send : &write;
  const uint32_t count = first == last ? 1 : 2;
  if (message != nullptr) {
    // As many messages at most as work requests are under way: the place of one that has not left is not
    // taken.
    const uint64_t at = (messages_sent_++ % depth_) * kMessageBytes;
    std::memcpy(messages_.bytes().data() + at, message->data(), kMessageBytes);
    text = {messages_.Address(at), kMessageBytes, messages_.local_key()};
    messages_under_way_++;
  }
  if (first != last) first->next = last;
  last->send_flags = IBV_SEND_SIGNALED;
  last->wr_id = count | (message != nullptr ? kMessage : 0);
  ibv_send_wr* bad = nullptr;
  if (ibv_post_send(id_->qp, first, &bad) != 0) return Break("its connection accepts no more work");
  under_way_ += count;
}

bool Mirror::HasMessage() {
  if (came_.empty() && fault_.empty()) Poll();
  return !came_.empty();
}

bool Mirror::Take(Message& into) {
  if (!HasMessage()) return false;
  const uint32_t buffer = came_.front();
  came_.pop_front();
  std::memcpy(into.data(), messages_.bytes().data() + (depth_ + buffer) * kMessageBytes, kMessageBytes);
  if (fault_.empty() && !Listen(buffer)) Break("its connection accepts no more work");
  return true;
}

bool Mirror::PrepareToWait() {
  // Once it is broken nothing more is heard.
  if (!fault_.empty()) return came_.empty();
  // What was heard has used the bell up.
  if (has_heard_) DoneWaiting();
  if (!is_armed_) completions_.Arm();
  is_armed_ = true;
  has_heard_ = false;
  Poll();
  return came_.empty();
}

void Mirror::DoneWaiting() {
  is_armed_ = false;
  completions_.Disarm();
}

}  // namespace spillway::gateway
