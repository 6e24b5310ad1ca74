// SPDX-License-Identifier: Apache-2.0
// A producer's connection to a window over RDMA verbs: posts writes to the window and reads of it, and
// collects what became of them. Knows of no events and no credits (verbs_producer.h).
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "base/error.h"
#include "dispatch/verbs_hello.h"
#include "dispatch/window_layout.h"
#include "rdma/connection.h"

namespace spillway::dispatch {

struct VerbsProducerOptions {
  std::string token = {};  // the host's
  std::chrono::milliseconds patience{5000};
};

class VerbsLink {
 public:
  // Errors: kBadInput for a malformed address or token and for a host of another protocol, kUnavailable on
  // a machine without RDMA, kConflict when the host refuses, kSystem when it does not answer.
  [[nodiscard]] static Result<std::unique_ptr<VerbsLink>> Connect(const std::string& address, uint16_t port,
                                                                  const VerbsProducerOptions& options = {});
  ~VerbsLink();
  VerbsLink(const VerbsLink&) = delete;
  VerbsLink& operator=(const VerbsLink&) = delete;

  // As the host wrote it, and checked.
  [[nodiscard]] const WindowHeader& header() const { return header_; }
  [[nodiscard]] uint32_t ring() const { return welcome_.ring; }

  // Memory here of the window's layout: the local end of all transfers.
  [[nodiscard]] char* memory() const { return memory_; }
  [[nodiscard]] WindowWords* words() const { return reinterpret_cast<WindowWords*>(memory_); }

  enum class Kind : uint8_t { kWrite, kRead };
  // Between the window's byte `offset` and ours. kWrite: of the ring; kRead: of the words.
  struct Transfer {
    Kind kind = Kind::kWrite;
    uint64_t offset = 0;
    uint32_t bytes = 0;
  };
  static constexpr size_t kMaxTransfers = 4;  // in a chain
  static constexpr size_t kDepth = 128;       // transfers on their way

  // How many transfers Post takes now.
  [[nodiscard]] size_t Room() const { return kDepth - posted_; }
  // Executed by the host's device in order, and after all posted before. `mark` comes back from Reap.
  // False: not taken, see Broken.
  bool Post(std::span<const Transfer> chain, uint64_t mark);
  // The oldest chain that is done.
  [[nodiscard]] std::optional<uint64_t> Reap();
  [[nodiscard]] bool Idle() const { return chains_.empty(); }

  // What ended the connection, empty while it stands. Broken: as far as is known; Look asks (a system call).
  [[nodiscard]] const std::string& Broken() const { return broken_; }
  void Look();

 private:
  VerbsLink(rdma::Owned<rdma_event_channel> channel, rdma::Owned<rdma_cm_id> id);
  Result<void> Check() const;
  Result<void> Open(const sockaddr_storage& address, const VerbsProducerOptions& options);
  Result<void> ReadHeader(std::chrono::steady_clock::time_point until);

  struct Chain {
    size_t transfers;
    uint64_t mark;
  };

  const rdma::Owned<rdma_event_channel> channel_;
  VerbsWelcome welcome_{0, 0, 0, 0, 0, 0, 0, 0, 0};
  WindowHeader header_;
  char* memory_ = nullptr;
  size_t memory_bytes_ = 0;
  const rdma::Owned<rdma_cm_id> id_;
  rdma::Owned<ibv_mr> registered_;
  size_t posted_ = 0;
  std::deque<Chain> chains_;
  std::string broken_;
};

}  // namespace spillway::dispatch
