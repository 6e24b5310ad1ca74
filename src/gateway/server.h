// SPDX-License-Identifier: Apache-2.0
// The gateway's loop, from start to drained: one thread with all clients of the framed protocol, all
// executors and the broker. Other threads, such as HTTP's, reach it by Post alone.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/log_allowance.h"
#include "base/mutex.h"
#include "gateway/broker/broker.h"
#include "gateway/config.h"
#include "gateway/reactor.h"
#include "gateway/session.h"
#include "gateway/transport/executor_arrival.h"
#include "gateway/transport/rdma/listener.h"
#include "gateway/transport/rdma/window_listener.h"
#include "gateway/transport/region_table.h"
#include "gateway/window_memory.h"

namespace spillway::gateway {

// Listening sockets, non-blocking; the server owns them.
struct Listeners {
  struct Frames {
    base::Fd fd;
    bool is_unix = false;
  };
  std::vector<Frames> frames;
  base::Fd executors;                       // SOCK_SEQPACKET; may be none
  std::unique_ptr<RdmaListener> rdma;       // may be none
  std::unique_ptr<WindowListener> windows;  // of clients over RDMA; may be none
};

// What the gateway does to a request, for those who measure: when it was seen, delivered, heard of again, and
// answered; in CPU time of its thread, wake-ups of others and system calls included.
struct RequestTimes {
  Time seen{0}, delivered{0}, heard{0}, answered{0};
};

struct ServerCounts {
  uint64_t sessions = 0, sessions_ever = 0, sessions_refused = 0, faults = 0;
  uint64_t executors = 0, executors_refused = 0, beats = 0;
  // Requests refused before they reached a tenant's queue, by Front and Status.
  std::array<std::array<uint64_t, kStatuses>, kFronts> refused{};
};

// Whoever connects without pause keeps those that are connected waiting for no longer than these.
inline constexpr int kAcceptsPerTurn = 64;

class Server : private SlicePort, private Reactor::Listener {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Server>> Create(GatewayConfig config, Listeners listeners);
  ~Server() override;

  // Until Stop.
  void Run();
  // -- from any thread
  void Stop();
  // Runs `work` on the server's thread, in the order of calls; before Run returns at the latest, or never if
  // it has returned.
  void Post(std::function<void()> work);
  // A request of that front's that the broker never saw.
  void CountRefused(Front front, Status status) {
    refused_[static_cast<size_t>(front)][static_cast<size_t>(status)]++;
  }
  // What a front keeps from when a request comes until its answer is sent: Drain waits until all of these are
  // gone. nullptr once nothing new is taken.
  [[nodiscard]] std::shared_ptr<const void> Unfinished() const;
  // The models that have been heard of and not replaced, with the broker's numbers of them.
  std::shared_ptr<const std::vector<Broker::NumberedCard>> Models();
  // Goes on serving for drain.serve, not ready any more, then takes nothing new, and stops when all that it
  // has is answered and sent, after drain.finish at the latest.
  void Drain();

  // -- on the server's thread, or while it does not run
  Broker& broker() { return broker_; }
  WindowMemory& windows() { return *windows_; }
  const GatewayConfig& config() const { return config_; }
  // Some slice lives, and it does not end.
  bool IsReady();
  ServerCounts counts() const;
  static Time Now();
  // Called with each executor's name when it has joined and is ready, and when it has gone: on the server's
  // thread, from before Run on.
  void OnExecutors(std::function<void(const std::string& name, bool is_here)> call) {
    on_executor_ = std::move(call);
  }
  // What the controller adds to the metrics, as text; empty: there is none.
  void SetFleetMetrics(std::string text) { fleet_metrics_ = std::move(text); }
  [[nodiscard]] const std::string& fleet_metrics() const { return fleet_metrics_; }
  // Every request's times from now on; for benchmarks.
  void Trace(std::function<void(const RequestTimes&)> on_request) { on_request_ = std::move(on_request); }

 private:
  enum class SourceKind {
    kFrames,
    kExecutors,
    kRdmaExecutors,
    kRdma,
    kWindows,
    kPosts,
    kSession,
    kExecutor,
    kBell
  };
  struct ExecutorConnection {
    base::Fd socket;
    std::unique_ptr<ExecutorArrival> arrival;
    std::unique_ptr<ExecutorLink> link;  // once it has joined
    uint32_t number = 0, first_slice = 0;
    std::string name = "without a name";
    std::string host;  // of another machine
    bool is_remote = false;
    bool is_ready = false;
    Time since{0};
  };

  struct ClientConnection {
    std::unique_ptr<Session> session;
    bool hears_window = false;
  };

  Server(GatewayConfig config, Listeners listeners);
  [[nodiscard]] Result<void> Open();
  // The CPU time of the gateway's own thread: whoever shares its CPU does not count.
  static Time OwnTime();
  bool Watch(int fd, SourceKind kind, uint64_t number);
  void Ready(uint64_t tag) override;
  void Moved(uint64_t tag) override;
  bool Deliver(const Delivery& delivery) override;
  void Abandon(uint32_t executor) override;
  void GiveUp(uint32_t slice, uint32_t cell, uint64_t id) override;

  void HandleEvents(Duration most);
  base::Fd AcceptNext(int listener, SourceKind kind, uint64_t number);
  void Accept(size_t index);
  void AcceptExecutors(SourceKind kind);
  void EndOldUnauthenticated(bool remote);
  void EndOldStranger(bool is_unix);
  void HandleExecutor(uint64_t number);
  [[nodiscard]] Result<void> TakeArrival(ExecutorConnection& connection, uint64_t number);
  void BecomeReady(ExecutorConnection& connection);
  [[nodiscard]] bool TakesAnother(uint32_t tenant);
  void EndSession(uint64_t number);
  void TellFault(uint64_t session, std::string_view fault);
  // Of one that has not joined.
  void Refuse(uint64_t number, const std::string& why);
  void EndExecutor(uint64_t number, const std::string& why);
  void RunPosts();
  bool PollRings();
  bool PrepareToWait();
  void DoneWaiting();
  void CleanUp(Time now);
  // Whether the time to stop has come.
  bool Drained(Time now);
  [[nodiscard]] Duration SleepTime(Time now) const;

  GatewayConfig config_;
  Listeners listeners_;
  RegionTable regions_;
  Broker broker_;
  std::unique_ptr<WindowMemory> windows_;
  SessionHost host_;
  base::Fd posts_;
  std::unique_ptr<Reactor> reactor_;
  std::unordered_map<uint64_t, ClientConnection> sessions_;
  base::LogAllowance faults_told_;
  std::unordered_map<uint64_t, std::unique_ptr<ExecutorConnection>> executors_;
  std::vector<uint64_t> slice_owner_;  // by the broker's slice: number of its connection
  uint64_t last_number_ = 0;
  std::vector<uint64_t> changed_, abandoned_;
  std::vector<uint64_t> left_waiting_;  // tags of listeners whose connections could not be accepted
  bool accept_failed_ = false;
  Time next_cleanup_{0};
  std::optional<Time> draining_since_;
  const std::shared_ptr<const int> unfinished_ = std::make_shared<int>(0);
  std::atomic<bool> closed_{false};  // nothing new is taken
  Time woken_{0};
  ServerCounts counts_;
  std::array<std::array<std::atomic<uint64_t>, kStatuses>, kFronts> refused_{};
  uint64_t unauthenticated_refused_ = 0;
  std::function<void(const RequestTimes&)> on_request_;
  std::function<void(const std::string&, bool)> on_executor_;
  std::string fleet_metrics_;
  std::unordered_map<uint64_t, RequestTimes> times_;

  base::Mutex mutex_;
  std::vector<std::function<void()>> posted_ SPILLWAY_GUARDED_BY(mutex_);
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::shared_ptr<const std::vector<Broker::NumberedCard>> models_ SPILLWAY_GUARDED_BY(mutex_) =
      std::make_shared<std::vector<Broker::NumberedCard>>();
};

}  // namespace spillway::gateway
