// SPDX-License-Identifier: Apache-2.0
// One end of a window over RDMA, the gateway's or the client's. Both have memory of the same size, registered
// in a protection domain of this connection's own: its key opens it for writing, over this queue pair alone.
// What an end puts is written from its memory to the same place of the other's, and a message of 64 bytes
// follows; RDMA keeps that order, so who hears a message finds the bytes. Messages come into memory that the
// other end cannot reach. One thread.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "gateway/transport/rdma/completions.h"
#include "gateway/transport/rdma/pinned_memory.h"

namespace spillway::gateway {

class Mirror {
 public:
  using Message = std::array<std::byte, 64>;

  // Of a connection that is resolved or asked for; the queue pair is its own from here on. `slots`: requests
  // under way at once. Errors: kSystem, kBadInput: the device has no queues so long.
  [[nodiscard]] static Result<std::unique_ptr<Mirror>> Make(rdma::Owned<rdma_cm_id> id,
                                                            std::shared_ptr<const Pages> pages,
                                                            uint32_t slots);
  ~Mirror();
  Mirror(const Mirror&) = delete;
  Mirror& operator=(const Mirror&) = delete;

  [[nodiscard]] rdma_cm_id* id() const { return id_.get(); }
  [[nodiscard]] uint64_t address() const;  // of the memory, for the other end
  [[nodiscard]] uint32_t key() const;
  // Where the other end's memory is. Before the first Put.
  void SetPeer(uint64_t address, uint32_t key);

  // Goes out as soon as the queue pair has room.
  void Put(uint64_t offset, uint64_t bytes, const Message& message);
  // Messages that were put and of which the device has not said yet that they arrived.
  [[nodiscard]] uint64_t waiting() const { return out_.size() + messages_under_way_; }
  // Hears what the device has to say.
  void Refresh() { Poll(); }
  // One that came, before a fault, too. Its place is free for another then.
  bool Take(Message& into);
  bool HasMessage();

  void Break(const std::string& why);
  [[nodiscard]] const std::string& fault() const { return fault_; }

  // -- sleeping. False: something has come.
  [[nodiscard]] int bell() const { return completions_.fd(); }
  bool PrepareToWait();
  // Takes the ring off the bell. Only for who asks the bell whether it rings, not whether it has rung anew:
  // without it the bell stays armed as long as nothing is heard, which spares who has many two calls for
  // each.
  void DoneWaiting();

 private:
  struct Out {
    uint64_t offset, bytes;
    Message message;
  };

  Mirror(rdma::Owned<rdma_cm_id> id, std::shared_ptr<const Pages> pages, uint32_t slots);
  [[nodiscard]] Result<void> Open(uint32_t slots);
  bool Listen(uint32_t buffer);
  void Poll();
  void Pump();
  // Writes so many bytes, and, if there is one, sends the message behind them.
  void Post(uint64_t offset, uint64_t bytes, const Message* message);

  // Of its members the queue pair goes first, then the memory's registration, then the memory.
  std::shared_ptr<const Pages> pages_;
  rdma::Owned<ibv_pd> domain_;
  Completions completions_;
  rdma::Owned<ibv_mr> memory_;
  PinnedMemory messages_;  // `depth_` that go out, then those that come
  rdma::Owned<rdma_cm_id> id_;

  uint64_t most_at_once_ = 0;  // bytes of a write
  uint64_t peer_address_ = 0;
  uint32_t peer_key_ = 0;
  uint32_t depth_, under_way_ = 0;  // work requests
  uint64_t messages_sent_ = 0, messages_under_way_ = 0;
  std::deque<Out> out_;
  std::deque<uint32_t> came_;  // buffers
  bool is_armed_ = false, has_heard_ = false;
  std::string fault_;
};

}  // namespace spillway::gateway
