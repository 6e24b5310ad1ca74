// SPDX-License-Identifier: Apache-2.0
// A unit: sockets in front of its workers. One thread: everything is called from the thread that calls
// Run. Order of calls: Open, then Run once; Summary at any time from the same thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "statistics.h"
#include "tcp_listener.h"
#include "udp_listener.h"
#include "workers.h"

namespace spillway::unit {

struct ServerSettings {
  std::vector<base::SocketAddress>
      listen;  // at least one; port 0: given by the kernel, the same for UDP and TCP
  bool udp = true, tcp = true;
  std::string name = "unit";  // goes into every answer; at most kNameBytes
};

class Server {
 public:
  // Errors: kConflict (address taken), kSystem; they name the address.
  [[nodiscard]] static Result<std::unique_ptr<Server>> Open(const ServerSettings& settings,
                                                            std::unique_ptr<Workers> workers);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // One per listen address, ports filled in.
  [[nodiscard]] const std::vector<base::SocketAddress>& addresses() const { return addresses_; }

  // Serves until on_wake, called whenever wake_fd is readable, returns false. Answers that still wait
  // are then forgotten. Errors: kSystem.
  [[nodiscard]] Result<void> Run(int wake_fd, const std::function<bool()>& on_wake);

  [[nodiscard]] nlohmann::ordered_json Summary();

 private:
  Server(const ServerSettings& settings, std::unique_ptr<Workers> workers, int epoll_fd, int timer_fd);
  [[nodiscard]] Result<void> Listen(base::SocketAddress address);
  void Admit(const Request& request, std::string_view payload, std::int64_t arrived_ns,
             const ReturnPath& path);
  void SendDone();
  void ArmTimer();

  const ServerSettings settings_;
  int epoll_fd_, timer_fd_;
  const std::int64_t started_ns_;
  std::int64_t armed_ns_ = 0;
  const std::unique_ptr<Workers> workers_;
  Statistics statistics_;
  std::vector<base::SocketAddress> addresses_;
  std::vector<UdpListener> udp_;
  TcpListener tcp_;
};

}  // namespace spillway::unit
