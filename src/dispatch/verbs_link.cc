// SPDX-License-Identifier: Apache-2.0
#include "dispatch/verbs_link.h"

#include <fmt/format.h>
#include <poll.h>
#include <rdma/rdma_cma.h>
#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>
#include <utility>

namespace spillway::dispatch {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kPage = 4096;

std::string Reason(const rdma_cm_event& event) {
  VerbsRefusal why{};
  if (event.event == RDMA_CM_EVENT_REJECTED && event.param.conn.private_data_len >= sizeof(why))
    std::memcpy(&why, event.param.conn.private_data, sizeof(why));
  switch (why) {
    case VerbsRefusal::kVersion:
      return fmt::format("the host does not speak version {}", kWindowVersion);
    case VerbsRefusal::kFull:
      return "the host takes no more producers";
    case VerbsRefusal::kFailed:
      return "the host could not make a window";
  }
  switch (event.event) {
    case RDMA_CM_EVENT_REJECTED:
      return "nobody listens there";
    case RDMA_CM_EVENT_DISCONNECTED:
      return "the host closed the connection";
    default:
      return fmt::format("{} ({})", rdma_event_str(event.event), event.status);
  }
}

}  // namespace

Result<std::unique_ptr<VerbsLink>> VerbsLink::Connect(const std::string& address, uint16_t port,
                                                      std::chrono::milliseconds patience) {
  const auto where = VerbsAddress(address, port);
  if (!where) return tl::make_unexpected(where.error());
  auto channel = OpenVerbsChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel->get(), &id, nullptr, RDMA_PS_TCP) != 0) return FailVerbs("connection");
  std::unique_ptr<VerbsLink> link(new VerbsLink(std::move(*channel), Verbs<rdma_cm_id>(id)));
  const auto open = link->Open(*where, patience);
  if (!open)
    return Fail(open.error().code,
                fmt::format("RDMA host {} port {}: {}", address, port, open.error().message));
  return link;
}

VerbsLink::VerbsLink(Verbs<rdma_event_channel> channel, Verbs<rdma_cm_id> id)
    : channel_(std::move(channel)), id_(std::move(id)) {}

VerbsLink::~VerbsLink() {
  if (id_->qp != nullptr) {
    rdma_disconnect(id_.get());
    rdma_destroy_qp(id_.get());
  }
  registered_.reset();
  if (memory_ != nullptr) munmap(memory_, memory_bytes_);
}

Result<void> VerbsLink::Open(const sockaddr_storage& address, std::chrono::milliseconds patience) {
  const auto until = Clock::now() + patience;
  const int milliseconds = static_cast<int>(patience.count());
  sockaddr_storage to = address;
  const auto step = [&](int failed, const char* what, int awaited) -> Result<void> {
    if (failed != 0) return Fail(ErrorCode::kSystem, fmt::format("{}: {}", what, std::strerror(errno)));
    return Await(awaited, until);
  };
  if (auto done = step(rdma_resolve_addr(id_.get(), nullptr, reinterpret_cast<sockaddr*>(&to), milliseconds),
                       "address", RDMA_CM_EVENT_ADDR_RESOLVED);
      !done)
    return done;
  if (auto done = step(rdma_resolve_route(id_.get(), milliseconds), "route", RDMA_CM_EVENT_ROUTE_RESOLVED);
      !done)
    return done;
  ibv_qp_init_attr queues{};
  queues.qp_type = IBV_QPT_RC;
  queues.cap.max_send_wr = kDepth;
  queues.cap.max_recv_wr = 1;
  queues.cap.max_send_sge = queues.cap.max_recv_sge = 1;
  if (rdma_create_qp(id_.get(), nullptr, &queues) != 0)
    return Fail(ErrorCode::kSystem, fmt::format("queue pair: {}", std::strerror(errno)));
  const VerbsHello hello;
  rdma_conn_param request{};
  request.private_data = &hello;
  request.private_data_len = sizeof(hello);
  request.responder_resources = 1;
  request.initiator_depth = 4;
  request.retry_count = 7;
  request.rnr_retry_count = 7;
  if (auto done = step(rdma_connect(id_.get(), &request), "connecting", RDMA_CM_EVENT_ESTABLISHED); !done)
    return done;
  if (auto good = Check(); !good) return good;
  memory_bytes_ = WindowBytes(welcome_.rings, welcome_.slots) + kPage;
  void* memory = mmap(nullptr, memory_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return Fail(ErrorCode::kSystem, fmt::format("memory: {}", std::strerror(errno)));
  memory_ = static_cast<char*>(memory);
  registered_.reset(ibv_reg_mr(id_->pd, memory, memory_bytes_, IBV_ACCESS_LOCAL_WRITE));
  if (registered_ == nullptr)
    return Fail(ErrorCode::kSystem,
                fmt::format("registering {} bytes: {}", memory_bytes_, std::strerror(errno)));
  return ReadHeader(until);
}

// Of what the host said.
Result<void> VerbsLink::Check() const {
  if (welcome_.magic != kWindowMagic || welcome_.version != kWindowVersion)
    return Fail(ErrorCode::kBadInput, fmt::format("answers without a window of version {}", kWindowVersion));
  if (welcome_.rings < 1 || welcome_.rings > kMostWindowRings || welcome_.ring >= welcome_.rings ||
      !std::has_single_bit(welcome_.slots) || welcome_.slots < 64 || welcome_.slots > 65536)
    return Fail(ErrorCode::kBadInput, fmt::format("ring {} of {} rings of {} slots is none", welcome_.ring,
                                                  welcome_.rings, welcome_.slots));
  return {};
}

// The keys work, and the window is the one that was promised.
Result<void> VerbsLink::ReadHeader(Clock::time_point until) {
  const Transfer read = {Kind::kRead, 0, kWindowWordsBytes, 0};
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

Result<void> VerbsLink::Await(int type, Clock::time_point until) {
  for (;;) {
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_.get(), &event) != 0) {
      if (errno != EAGAIN && errno != EINTR)
        return Fail(ErrorCode::kSystem, fmt::format("connection manager: {}", std::strerror(errno)));
      const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
      if (left <= 0) return Fail(ErrorCode::kSystem, "no answer");
      pollfd wait = {channel_->fd, POLLIN, 0};
      (void)poll(&wait, 1, static_cast<int>(left));
      continue;
    }
    const bool expected = event->event == type;
    const bool refused = event->event == RDMA_CM_EVENT_REJECTED;
    const std::string reason = expected ? "" : Reason(*event);
    if (type == RDMA_CM_EVENT_ESTABLISHED && event->param.conn.private_data_len >= sizeof(welcome_) &&
        expected)
      std::memcpy(&welcome_, event->param.conn.private_data, sizeof(welcome_));
    rdma_ack_cm_event(event);
    if (expected) return {};
    return Fail(refused ? ErrorCode::kConflict : ErrorCode::kSystem, reason);
  }
}

bool VerbsLink::Post(std::span<const Transfer> chain, uint64_t mark) {
  if (!broken_.empty() || chain.empty() || chain.size() > kMostTransfers || chain.size() > Room())
    return false;
  std::array<ibv_send_wr, kMostTransfers> work{};
  std::array<ibv_sge, kMostTransfers> local{};
  for (size_t i = 0; i < chain.size(); i++) {
    const Transfer& transfer = chain[i];
    const uint32_t bytes =
        transfer.kind == Kind::kFetchAdd ? static_cast<uint32_t>(sizeof(uint64_t)) : transfer.bytes;
    local[i] = {reinterpret_cast<uint64_t>(memory_) + transfer.offset, bytes, registered_->lkey};
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
      case Kind::kFetchAdd:
        work[i].opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
        work[i].wr.atomic = {welcome_.address + offsetof(WindowWords, taken), transfer.add, 0,
                             welcome_.taken_key};
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
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(channel_.get(), &event) != 0) return;
  if (event->event != RDMA_CM_EVENT_ESTABLISHED) broken_ = Reason(*event);
  rdma_ack_cm_event(event);
}

}  // namespace spillway::dispatch
