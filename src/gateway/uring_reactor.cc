// SPDX-License-Identifier: Apache-2.0
// io_uring: what is to be read, sent and watched goes to the kernel in one system call, the one that waits.
// Bytes go from the socket to where they are wanted, and from where they are to the socket; a stream has at
// most one transfer of each direction on its way.
#include "gateway/reactor.h"

#ifdef SPILLWAY_URING

#include <fmt/format.h>
#include <liburing.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <unordered_map>
#include <vector>

namespace spillway::gateway {
namespace {

constexpr unsigned kEntries = 256;
constexpr uint64_t kNobody = UINT64_MAX;  // completions that nobody is told of

class UringReactor : public Reactor {
 public:
  ~UringReactor() override {
    if (made_) io_uring_queue_exit(&ring_);
  }

  Result<void> Make() {
    // One thread submits, and hears of completions when it asks; disabled until that thread shows itself. Of
    // 6.1, and so is the way to end all transfers before their memory goes.
    const unsigned flags = IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_R_DISABLED;
    const int failed = io_uring_queue_init(kEntries, &ring_, flags);
    if (failed == -EINVAL) return Fail(ErrorCode::kUnavailable, "io_uring: the kernel's is older than 6.1's");
    if (failed != 0)
      return Fail(ErrorCode::kUnavailable, fmt::format("io_uring: {}", std::strerror(-failed)));
    made_ = disabled_ = true;
    return {};
  }

  bool Watch(int fd, uint64_t tag) override {
    const uint64_t op = NewOp({Op::Kind::kWatch, tag, fd, nullptr});
    watches_[tag] = op;
    PostWatch(fd, op);
    return true;
  }

  void Unwatch(int, uint64_t tag) override {
    const auto found = watches_.find(tag);
    if (found == watches_.end()) return;
    ops_[found->second].tag = kNobody;
    Cancel(found->second);
    watches_.erase(found);
    Submit();
  }

  bool Add(Stream& stream, int fd, uint64_t tag) override {
    streams_[tag] = {&stream, fd, kNone, kNone};
    Update(tag);
    return true;
  }

  void Update(uint64_t tag) override {
    const auto found = streams_.find(tag);
    if (found == streams_.end()) return;
    Moving& moving = found->second;
    if (moving.reading == kNone) {
      Stream::Piece into = moving.stream->NextRead();
      if (!into.bytes.empty()) {
        io_uring_sqe* sqe = NextEntry();
        io_uring_prep_recv(sqe, moving.fd, into.bytes.data(), into.bytes.size(), 0);
        moving.reading = NewOp({Op::Kind::kRead, tag, moving.fd, std::move(into.keeper)});
        io_uring_sqe_set_data64(sqe, moving.reading);
      }
    }
    if (moving.writing == kNone) {
      Stream::Piece from = moving.stream->NextWrite();
      if (!from.bytes.empty()) {
        io_uring_sqe* sqe = NextEntry();
        // The whole piece, or why not.
        io_uring_prep_send(sqe, moving.fd, from.bytes.data(), from.bytes.size(), MSG_NOSIGNAL | MSG_WAITALL);
        moving.writing = NewOp({Op::Kind::kWrite, tag, moving.fd, std::move(from.keeper)});
        io_uring_sqe_set_data64(sqe, moving.writing);
      }
    }
  }

  void Remove(uint64_t tag) override {
    const auto found = streams_.find(tag);
    if (found == streams_.end()) return;
    // Their buffers stay until the kernel lets go of them; the connection ends now.
    shutdown(found->second.fd, SHUT_RDWR);
    for (const uint64_t op : {found->second.reading, found->second.writing}) {
      if (op == kNone) continue;
      ops_[op].tag = kNobody;
      Cancel(op);
    }
    streams_.erase(found);
    Submit();
  }

  bool Wishes() const override { return io_uring_sq_ready(&ring_) > 0; }

  void Wait(int timeout_ms, Listener& listener) override {
    Enable();
    if (timeout_ms == 0) {
      io_uring_submit_and_get_events(&ring_);
    } else {
      io_uring_cqe* first = nullptr;
      __kernel_timespec time{timeout_ms / 1000, (timeout_ms % 1000) * 1'000'000};
      io_uring_submit_and_wait_timeout(&ring_, &first, 1, &time, nullptr);
    }
    // Copied out first: what follows may submit, and more may come.
    done_.clear();
    unsigned head, count = 0;
    io_uring_cqe* cqe = nullptr;
    io_uring_for_each_cqe(&ring_, head, cqe) {
      done_.push_back({cqe->user_data, cqe->res, (cqe->flags & IORING_CQE_F_MORE) != 0});
      count++;
    }
    io_uring_cq_advance(&ring_, count);
    for (const Done& done : done_)
      if (done.op != kNobody) Tell(done, listener);
  }

  void End() override {
    Enable();
    io_uring_sync_cancel_reg all{};
    all.flags = IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL;
    all.timeout = {-1, -1};
    io_uring_submit(&ring_);
    io_uring_register_sync_cancel(&ring_, &all);
    io_uring_get_events(&ring_);
  }

  const char* name() const override { return "io_uring"; }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;
  struct Op {
    enum class Kind : uint8_t { kWatch, kRead, kWrite };
    Kind kind = Kind::kWatch;
    uint64_t tag = kNobody;
    int fd = -1;
    std::shared_ptr<void> keeper;
  };
  struct Moving {
    Stream* stream = nullptr;
    int fd = -1;
    uint64_t reading = kNone, writing = kNone;
  };
  struct Done {
    uint64_t op;
    int32_t result;
    bool more;
  };

  void Enable() {
    if (!disabled_) return;
    disabled_ = false;
    // liburing 2.3 declares io_uring_enable_rings and does not export it.
    syscall(__NR_io_uring_register, ring_.ring_fd, IORING_REGISTER_ENABLE_RINGS, nullptr, 0);
  }

  // Before a descriptor is closed: what names it must have reached the kernel, or would mean the next
  // descriptor of that number.
  void Submit() {
    Enable();
    io_uring_submit(&ring_);
  }

  io_uring_sqe* NextEntry() {
    io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
    while (sqe == nullptr) {
      Submit();
      sqe = io_uring_get_sqe(&ring_);
    }
    return sqe;
  }

  uint64_t NewOp(Op op) {
    if (free_.empty()) {
      ops_.push_back(std::move(op));
      return ops_.size() - 1;
    }
    const uint64_t index = free_.back();
    free_.pop_back();
    ops_[index] = std::move(op);
    return index;
  }

  void PostWatch(int fd, uint64_t op) {
    io_uring_sqe* sqe = NextEntry();
    io_uring_prep_poll_multishot(sqe, fd, POLLIN);
    io_uring_sqe_set_data64(sqe, op);
  }

  void Cancel(uint64_t op) {
    io_uring_sqe* sqe = NextEntry();
    io_uring_prep_cancel64(sqe, op, 0);
    io_uring_sqe_set_data64(sqe, kNobody);
  }

  void Tell(const Done& done, Listener& listener) {
    const Op::Kind kind = ops_[done.op].kind;
    const uint64_t tag = ops_[done.op].tag;
    if (kind == Op::Kind::kWatch) {
      if (done.more) {
        if (tag != kNobody) listener.Ready(tag);
        return;
      }
      if (tag != kNobody && done.result >= 0) {
        // The kernel ended it for reasons of its own, such as a full ring.
        PostWatch(ops_[done.op].fd, done.op);
        listener.Ready(tag);
        return;
      }
      if (tag != kNobody) watches_.erase(tag);
    }
    const std::shared_ptr<void> keeper = std::move(ops_[done.op].keeper);
    free_.push_back(done.op);
    const auto found = kind == Op::Kind::kWatch ? streams_.end() : streams_.find(tag);
    if (found == streams_.end()) return;
    Moving& moving = found->second;
    const bool again = done.result == -EINTR || done.result == -EAGAIN;
    if (kind == Op::Kind::kRead) {
      moving.reading = kNone;
      if (!again) moving.stream->Got(done.result);
    } else {
      moving.writing = kNone;
      if (!again) moving.stream->Sent(done.result);
    }
    Update(tag);
    listener.Moved(tag);
  }

  io_uring ring_{};
  bool made_ = false, disabled_ = false;
  std::vector<Op> ops_;
  std::vector<uint64_t> free_;
  std::vector<Done> done_;
  std::unordered_map<uint64_t, uint64_t> watches_;  // tag -> op
  std::unordered_map<uint64_t, Moving> streams_;
};

}  // namespace

Result<std::unique_ptr<Reactor>> MakeUringReactor() {
  auto reactor = std::make_unique<UringReactor>();
  if (auto made = reactor->Make(); !made) return tl::make_unexpected(made.error());
  return reactor;
}

}  // namespace spillway::gateway

#else

namespace spillway::gateway {

Result<std::unique_ptr<Reactor>> MakeUringReactor() {
  return Fail(ErrorCode::kUnavailable, "io_uring: not in this build (liburing was missing)");
}

}  // namespace spillway::gateway

#endif
