// SPDX-License-Identifier: Apache-2.0
#include "dispatch/verbs_link.h"

#include <fmt/format.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace spillway::dispatch {
namespace {

using Clock = std::chrono::steady_clock;

std::string Reason(const rdma::Event& event) {
  const auto why = event.type == RDMA_CM_EVENT_REJECTED ? event.As<VerbsRefusal>() : std::nullopt;
  switch (why.value_or(VerbsRefusal{})) {
    case VerbsRefusal::kVersion:
      return fmt::format("the host does not support version {}", kWindowVersion);
    case VerbsRefusal::kFull:
      return "the host accepts no more producers";
    case VerbsRefusal::kFailed:
      return "the host could not make a window";
    case VerbsRefusal::kDenied:
      return "the host expects another token";
  }
  if (event.type == RDMA_CM_EVENT_REJECTED) return "nobody listens there";
  return event.type == RDMA_CM_EVENT_DISCONNECTED ? "the host closed the connection" : event.Text();
}

}  // namespace

Result<std::unique_ptr<VerbsLink>> VerbsLink::Connect(const std::string& address, uint16_t port,
                                                      const VerbsProducerOptions& options) {
  if (!IsVerbsToken(options.token)) return Fail(ErrorCode::kBadInput, kExpectedVerbsToken);
  const auto where = rdma::ParseAddress(address, port);
  if (!where) return tl::make_unexpected(where.error());
  auto channel = rdma::OpenEventChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  auto id = rdma::MakeId(channel->get());
  if (!id) return tl::make_unexpected(id.error());
  std::unique_ptr<VerbsLink> link(new VerbsLink(std::move(*channel), std::move(*id)));
  const auto open = link->Open(*where, options);
  if (!open)
    return Fail(open.error().code,
                fmt::format("RDMA host {} port {}: {}", address, port, open.error().message));
  return link;
}

VerbsLink::VerbsLink(rdma::Owned<rdma_event_channel> channel, rdma::Owned<rdma_cm_id> id)
    : channel_(std::move(channel)), id_(std::move(id)) {}

VerbsLink::~VerbsLink() {
  if (id_->qp != nullptr) {
    rdma_disconnect(id_.get());
    rdma_destroy_qp(id_.get());
  }
  registered_.reset();
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

Result<void> VerbsLink::Open(const sockaddr_storage& address, const VerbsProducerOptions& options) {
  const auto until = Clock::now() + options.patience;
  if (auto done = rdma::Resolve(channel_.get(), id_.get(), address, until); !done) return done;
  ibv_qp_init_attr queues{};
  queues.qp_type = IBV_QPT_RC;
  queues.cap.max_send_wr = kDepth;
  queues.cap.max_recv_wr = 1;
  queues.cap.max_send_sge = queues.cap.max_recv_sge = 1;
  if (rdma_create_qp(id_.get(), nullptr, &queues) != 0)
    return Fail(ErrorCode::kSystem, fmt::format("queue pair: {}", std::strerror(errno)));
  VerbsHello hello;
  hello.token = VerbsTokenOf(options.token);
  rdma_conn_param request{};
  request.private_data = &hello;
  request.private_data_len = sizeof(hello);
  request.responder_resources = 1;
  request.initiator_depth = 4;
  request.retry_count = 7;
  request.rnr_retry_count = 7;
  if (rdma_connect(id_.get(), &request) != 0)
    return Fail(ErrorCode::kSystem, fmt::format("connecting: {}", std::strerror(errno)));
  const auto answer = rdma::AwaitEvent(channel_.get(), until);
  if (!answer) return tl::make_unexpected(answer.error());
  if (answer->type != RDMA_CM_EVENT_ESTABLISHED)
    return Fail(answer->type == RDMA_CM_EVENT_REJECTED ? ErrorCode::kConflict : ErrorCode::kSystem,
                Reason(*answer));
  welcome_ = answer->As<VerbsWelcome>().value_or(welcome_);
  if (auto good = Check(); !good) return good;
  memory_bytes_ = WindowBytes(welcome_.rings, welcome_.slots);
  void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Fail(ErrorCode::kSystem, fmt::format("memory: {}", std::strerror(errno)));
  memory_ = static_cast<char*>(memory);
  auto registered = rdma::Register(id_->pd, memory, memory_bytes_, IBV_ACCESS_LOCAL_WRITE);
  if (!registered) return tl::make_unexpected(registered.error());
  registered_ = std::move(*registered);
  return ReadHeader(until);
}

// Of what the host said.
Result<void> VerbsLink::Check() const {
  if (!IsUnderstood(welcome_))
    return Fail(ErrorCode::kBadInput, fmt::format("answers without a window of version {}", kWindowVersion));
  if (!IsWindow(welcome_))
    return Fail(ErrorCode::kBadInput,
                fmt::format("there is no ring {} of {} rings of {} slots at address {:#x}", welcome_.ring,
                            welcome_.rings, welcome_.slots, welcome_.address));
  return {};
}

// The keys work, and the window is the one that was promised.
Result<void> VerbsLink::ReadHeader(Clock::time_point until) {
  const Transfer read = {Kind::kRead, 0, kWindowWordsBytes};
  Post({&read, 1}, 0);
  while (!Reap() && broken_.empty()) {
    if (Clock::now() > until) return Fail(ErrorCode::kSystem, "no answer to a read");
  }
  if (!broken_.empty()) return Fail(ErrorCode::kSystem, broken_);
  std::memcpy(static_cast<void*>(&header_), memory_, sizeof(header_));
  if (header_.magic != kWindowMagic || header_.version != kWindowVersion || header_.rings != welcome_.rings ||
      header_.slots != welcome_.slots)
    return Fail(ErrorCode::kBadInput, "the window is not the one that was promised");
  return {};
}

bool VerbsLink::Post(std::span<const Transfer> chain, uint64_t mark) {
  if (!broken_.empty() || chain.empty() || chain.size() > kMaxTransfers || chain.size() > Room())
    return false;
  std::array<ibv_send_wr, kMaxTransfers> work{};
  std::array<ibv_sge, kMaxTransfers> local{};
  for (size_t i = 0; i < chain.size(); i++) {
    const Transfer& transfer = chain[i];
    local[i] = {reinterpret_cast<uint64_t>(memory_) + transfer.offset, transfer.bytes, registered_->lkey};
    work[i].sg_list = &local[i];
    work[i].num_sge = 1;
    if (i + 1 < chain.size())
      work[i].next = &work[i + 1];
    else
      work[i].send_flags = IBV_SEND_SIGNALED;
    switch (transfer.kind) {
      case Kind::kWrite:
        work[i].opcode = IBV_WR_RDMA_WRITE;
        work[i].wr.rdma = {welcome_.address + transfer.offset, welcome_.ring_key};
        break;
      case Kind::kRead:
        work[i].opcode = IBV_WR_RDMA_READ;
        work[i].wr.rdma = {welcome_.address + transfer.offset, welcome_.words_key};
        break;
    }
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(id_->qp, work.data(), &bad);
  if (error != 0) {
    broken_ = fmt::format("posting: {}", std::strerror(error));
    return false;
  }
  posted_ += chain.size();
  chains_.push_back({chain.size(), mark});
  return true;
}

std::optional<uint64_t> VerbsLink::Reap() {
  if (chains_.empty()) return std::nullopt;
  ibv_wc done{};
  const int got = ibv_poll_cq(id_->send_cq, 1, &done);
  if (got == 0) return std::nullopt;
  if (got < 0 || done.status != IBV_WC_SUCCESS) {
    if (broken_.empty()) {
      broken_ = got < 0 ? "completions cannot be read" : ibv_wc_status_str(done.status);
      if (got > 0 && done.status == IBV_WC_WR_FLUSH_ERR) Look();
    }
    return std::nullopt;
  }
  const Chain chain = chains_.front();
  chains_.pop_front();
  posted_ -= chain.transfers;
  return chain.mark;
}

void VerbsLink::Look() {
  const auto event = rdma::NextEvent(channel_.get());
  if (event && *event && (*event)->type != RDMA_CM_EVENT_ESTABLISHED) broken_ = Reason(**event);
}

}  // namespace spillway::dispatch
