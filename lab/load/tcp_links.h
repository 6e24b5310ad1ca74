// SPDX-License-Identifier: Apache-2.0
// TCP connections to the target: a fixed number that persist, used in turn and reopened when they break,
// or one for each request. Connecting never blocks; what is sent meanwhile goes out once it is done.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "options.h"
#include "transport.h"

namespace spillway::load {

class TcpLinks : public Transport {
 public:
  TcpLinks(const Settings& settings, Ledger& ledger);
  ~TcpLinks() override;
  TcpLinks(const TcpLinks&) = delete;
  TcpLinks& operator=(const TcpLinks&) = delete;

  // Persistent connections are established here; errors: kSystem when none can be.
  [[nodiscard]] Result<void> Open(int epoll_fd) override;
  void Start(std::int64_t start_ns) override { start_ns_ = start_ns; }
  void Send(std::uint32_t id) override;
  void OnEvent(std::uint64_t key, std::uint32_t events) override;
  void Expire(std::int64_t now_ns) override;
  [[nodiscard]] std::size_t flows() const override { return settings_.flow_per_request ? 0 : links_.size(); }

 private:
  struct Link {
    int fd = -1;               // -1: closed
    std::uint32_t serial = 0;  // of this slot's connection; outdated events carry another
    std::uint32_t id = 0;      // the request (one per connection)
    bool connected = false;
    bool writing = false;  // EPOLLOUT is asked for
    std::string out;
    std::size_t out_done = 0;
    std::string head;  // of the answer that is being read, up to kAnswerBytes
    std::size_t payload_left = 0;
  };

  // A socket that is connecting; -1 with last_error_ set.
  int BeginConnect(const std::optional<base::SocketAddress>& source);
  // Starts connecting. False: refused at once; counted.
  bool Connect(std::uint32_t slot);
  void Append(Link& link, std::uint32_t id);
  // These two return false when the connection ended.
  bool Flush(std::uint32_t slot);
  bool Read(std::uint32_t slot);
  // Takes the answers out of `bytes`; false: not the protocol.
  bool Parse(std::uint32_t slot, std::string_view bytes, std::int64_t at_ns, bool& complete);
  // Ended by the other side or by a fault.
  void Lose(std::uint32_t slot);
  void Close(std::uint32_t slot, bool reset);
  [[nodiscard]] std::uint32_t FlowOf(std::uint32_t slot) const;

  const Settings& settings_;
  Ledger& ledger_;
  int epoll_fd_ = -1;
  std::int64_t start_ns_ = 0;
  std::vector<Link> links_;
  std::size_t next_ = 0;  // persistent: whose turn it is
  std::size_t sources_used_ = 0;
  std::vector<std::uint32_t> free_;                           // per request: unused slots
  std::deque<std::pair<std::uint32_t, std::uint32_t>> open_;  // per request: slot and serial, oldest first
  std::vector<char> buffer_;
  int last_error_ = 0;  // why the latest connection could not be had
};

}  // namespace spillway::load
