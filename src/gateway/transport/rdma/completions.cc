// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/completions.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <infiniband/verbs.h>

namespace spillway::gateway {

Result<Completions> Completions::Make(ibv_context* device, uint32_t entries) {
  ibv_device_attr limits{};
  if (ibv_query_device(device, &limits) == 0 && entries > static_cast<uint32_t>(limits.max_cqe))
    return Fail(
        ErrorCode::kBadInput,
        fmt::format(
            "too many cells or slots: they need {} completions at once, and the RDMA device supports {}",
            entries, limits.max_cqe));
  Completions made;
  made.channel_.reset(ibv_create_comp_channel(device));
  if (made.channel_ == nullptr) return rdma::FailRdma("completion channel");
  const int fd = made.channel_->fd;
  if (fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK) != 0) return rdma::FailRdma("completion channel");
  made.queue_.reset(
      ibv_create_cq(device, static_cast<int>(entries), nullptr, made.channel_.get(), /*comp_vector=*/0));
  if (made.queue_ == nullptr) return rdma::FailRdma("completion queue");
  return made;
}

bool Completions::Poll(const std::function<void(const ibv_wc&)>& each) {
  ibv_wc done[16];
  for (;;) {
    const int got = ibv_poll_cq(queue_.get(), 16, done);
    for (int i = 0; i < got; i++) each(done[i]);
    if (got < 16) return got >= 0;
  }
}

int Completions::fd() const { return channel_->fd; }

void Completions::Arm() {
  if (ibv_req_notify_cq(queue_.get(), 0) == 0) armed_ = true;
}

void Completions::Disarm() {
  if (!armed_) return;
  armed_ = false;
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(channel_.get(), &queue, &context) == 0) ibv_ack_cq_events(queue, 1);
}

}  // namespace spillway::gateway
