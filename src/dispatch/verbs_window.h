// SPDX-License-Identifier: Apache-2.0
// The consumer's side of windows over RDMA verbs: producers on other machines or NICs connect, and each gets
// a window (window.h) of its own, with one ring, which it fills by RDMA WRITE and whose credits it reads by
// RDMA READ. The host's processors have no part in either; they come in when a producer connects or leaves.
//
// What a producer's keys let it reach: write its ring, read the words. What it writes is checked as in every
// window. Whatever it does, or when it dies, others do not notice.
//
// A process that forks must not have opened one before: RDMA's memory does not survive that. Fork and exec.
#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "dispatch/domain.h"
#include "dispatch/verbs_hello.h"
#include "dispatch/window.h"
#include "rdma/connection.h"

namespace spillway::dispatch {

struct VerbsHostOptions {
  std::string address = "0.0.0.0";  // numeric, where to listen
  uint16_t port = 0;                // 0: any
  size_t producers = 64;            // at once
  WindowOptions window;             // of each producer; one ring
  // What producers must show, at most 32 bytes; empty: whoever reaches the port may connect.
  std::string token = {};
};

struct VerbsHostStatistics {
  uint64_t accepted = 0, refused = 0;  // requests to connect
  uint64_t left = 0;                   // producers that disconnected or died
  uint64_t cut = 0;                    // producers whose window was closed, for what `last_closed` says
  WindowClosed last_closed = WindowClosed::kOpen;
  uint64_t connected = 0, windows = 0;  // now; windows of producers that left stay until they are empty
  uint64_t events = 0, bad_events = 0;  // of all windows ever
};

// One thread at a time.
class VerbsHost {
 public:
  // The domain outlives the host. Errors: kBadInput, kUnavailable on a machine without RDMA or with an engine
  // that has no windows, kSystem.
  [[nodiscard]] static Result<std::unique_ptr<VerbsHost>> Listen(Domain& domain,
                                                                 const VerbsHostOptions& options);
  ~VerbsHost();  // disconnects all; what their windows still hold is lost
  VerbsHost(const VerbsHost&) = delete;
  VerbsHost& operator=(const VerbsHost&) = delete;

  [[nodiscard]] uint16_t Port() const;
  // Readable when somebody connects or leaves.
  [[nodiscard]] int Fd() const;

  // Admits who connects and clears up after who has left or sent rubbish; waits up to `patience` for
  // something to do. To be called when Fd is readable, and every second or so. Errors: kSystem.
  [[nodiscard]] Result<void> Serve(std::chrono::milliseconds patience);

  [[nodiscard]] VerbsHostStatistics Statistics() const;

 private:
  struct Producer;

  VerbsHost(Domain& domain, VerbsHostOptions options, rdma::Owned<rdma_event_channel> channel,
            rdma::Owned<rdma_cm_id> listener);
  void Handle(const rdma::Event& event);
  void Admit(rdma::Owned<rdma_cm_id> id, const VerbsHello& hello);
  Result<void> Accept(Producer& producer, rdma::Owned<rdma_cm_id>& id);
  void ClearUp();

  Domain& domain_;
  const VerbsHostOptions options_;
  const rdma::Owned<rdma_event_channel> channel_;
  const rdma::Owned<rdma_cm_id> listener_;
  std::list<Producer> producers_;
  VerbsHostStatistics ended_;  // the part of producers that are no more
};

}  // namespace spillway::dispatch
