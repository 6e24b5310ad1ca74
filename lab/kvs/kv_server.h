// SPDX-License-Identifier: Apache-2.0
// A key-value server: one store, some workers, and a front end that decides who serves what.
#pragma once

#include <netinet/in.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string_view>
#include <thread>
#include <vector>

#include "base/error.h"
#include "dispatch/domain.h"
#include "lab/kvs/kv_wire.h"
#include "lab/kvs/ordered_store.h"
#include "lab/testbed/host_network.h"

namespace spillway::lab {

enum class KvFrontEnd : uint8_t { kRss, kSteal, kDispatch, kRemote };
[[nodiscard]] std::string_view ToString(KvFrontEnd front_end);

struct KvServerSetup {
  KvFrontEnd front_end = KvFrontEnd::kRss;
  int workers = 2;
  // How often each look-up is repeated: service times that two shared cores can tell from their own noise.
  uint32_t repeat = 1;
  // Workers have only what the client and the process in the NIC's place leave of their cores: where there
  // are no more cores than workers, those two would else wait for a worker's time slice to end, milliseconds.
  bool workers_yield = false;
  const HostNetwork* network = nullptr;  // loopback
};

class KvServer {
 public:
  // Errors: kSystem.
  [[nodiscard]] static Result<std::unique_ptr<KvServer>> Start(const KvServerSetup& setup,
                                                               OrderedStore& store);
  ~KvServer();  // Stop
  KvServer(const KvServer&) = delete;
  KvServer& operator=(const KvServer&) = delete;

  void Stop();
  [[nodiscard]] uint16_t port() const { return port_; }
  [[nodiscard]] uint32_t address() const { return network_.AddressOf(place_); }  // network byte order
  [[nodiscard]] uint64_t served() const { return served_; }
  // After Stop: CPU seconds of the process in the NIC's place; 0 without one.
  [[nodiscard]] double nic_cpu_s() const { return nic_cpu_s_; }

  // One request's answer; what a worker does.
  [[nodiscard]] static KvReply Serve(OrderedStore& store, const KvRequest& request, uint32_t repeat);

 private:
  struct Pending {
    KvRequest request;
    sockaddr_in client;
  };
  // Shared with the NIC's process. Slots are taken round and round; there are more than events can be on
  // their way.
  struct PendingSlots;

  explicit KvServer(const KvServerSetup& setup, OrderedStore& store);
  Result<void> OpenSockets();
  Result<void> OpenDomain();
  Result<void> StartNic();
  void TakeCore(int worker) const;
  void RunOwnSocket(int worker);   // rss, steal
  void RunDispatched(int worker);  // dispatch, remote
  bool ServeFrom(int socket, int reply_socket, int worker);
  void ReceiveIntoDomain(dispatch::Port& port, uint64_t& spare);
  void Reply(int socket, const Pending& pending, int worker);
  [[noreturn]] void RunNic(int window_fd);

  const KvServerSetup setup_;
  const HostNetwork loopback_ = HostNetwork::Loopback();
  const HostNetwork& network_;
  const HostNetwork::Place place_;  // where requests arrive
  OrderedStore& store_;
  std::vector<int> sockets_;
  uint16_t port_ = 0;
  std::unique_ptr<dispatch::Domain> domain_;
  uint16_t queue_ = 0;
  std::shared_ptr<dispatch::Window> window_;
  PendingSlots* slots_ = nullptr;
  pid_t nic_ = -1;
  double nic_cpu_s_ = 0;
  std::atomic<bool> stopping_{false};
  std::atomic<uint64_t> served_{0};
  std::vector<std::thread> threads_;
};

}  // namespace spillway::lab
