// SPDX-License-Identifier: Apache-2.0
#include "socket_probes.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <random>

#include "dns_message.h"

namespace spillway::health {
namespace {

constexpr size_t kLongestDatagram = 65536;

// Read from a unit per check. One that sends more has its socket closed: reading on would give it as much of
// the checker's thread as it likes.
constexpr int kMaxDatagrams = 32;

class SocketProbe : public Probe, protected EventHandler {
 public:
  SocketProbe(const Subject& subject, const model::HealthCheck& check, Reactor& reactor,
              std::function<void(Outcome)> finish)
      : Probe(std::move(finish)), reactor_(reactor), to_(subject.address, check.port) {}
  ~SocketProbe() override { Close(); }

 protected:
  bool Open(int type, int protocol) {
    fd_ = socket(to_.storage.ss_family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol);
    if (fd_ < 0) Skip(fmt::format("socket: {}", std::strerror(errno)));
    return fd_ >= 0;
  }
  bool Watch(uint32_t events) {
    const int error = reactor_.Add(fd_, events, this);
    if (error == 0) return true;
    Close();
    Skip(fmt::format("epoll_ctl: {}", std::strerror(error)));
    return false;
  }
  void Close() {
    if (fd_ < 0) return;
    reactor_.Forget(fd_);
    close(fd_);
    fd_ = -1;
  }

  Reactor& reactor_;
  const SocketAddress to_;
  int fd_ = -1;
};

class TcpProbe : public SocketProbe {
 public:
  using SocketProbe::SocketProbe;

  void Start() override {
    if (!Open(SOCK_STREAM, IPPROTO_TCP)) return;
    // The server's SYN-ACK is answered by the reset that closes: no accept() wakes for a check, nothing stays
    // in TIME_WAIT.
    const linger reset{.l_onoff = 1, .l_linger = 0};
    const int off = 0;
    (void)setsockopt(fd_, SOL_SOCKET, SO_LINGER, &reset, sizeof(reset));
    (void)setsockopt(fd_, IPPROTO_TCP, TCP_QUICKACK, &off, sizeof(off));
    if (connect(fd_, to_.get(), to_.length) == 0) return End(0);
    if (errno != EINPROGRESS) return End(errno);
    (void)Watch(EPOLLOUT);
  }

  Outcome Stop() override {
    Close();
    return {Outcome::Kind::kFailed, "no connection"};
  }

 private:
  void OnEvents(int, uint32_t) override {
    int error = 0;
    socklen_t length = sizeof(error);
    if (getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length) != 0) error = errno;
    End(error);
  }

  void End(int error) {
    Close();
    if (error == 0)
      Pass();
    else if (IsOwnShortage(error))
      Skip(fmt::format("connect: {}", std::strerror(error)));
    else
      Fail(fmt::format("connect: {}", std::strerror(error)));
  }
};

// Keeps its socket while checks pass: a check is then one datagram each way and two system calls. After a
// failure it takes a new one, so that an answer that comes too late never meets the next question.
class DatagramProbe : public SocketProbe {
 public:
  DatagramProbe(const Subject& subject, const model::HealthCheck& check, Reactor& reactor,
                std::function<void(Outcome)> finish)
      : SocketProbe(subject, check, reactor, std::move(finish)), check_(check) {}

  void Start() override {
    if (fd_ < 0 && !Connect()) return;
    read_ = 0;
    if (check_.kind == model::CheckKind::kDns)
      query_ = DnsQuery(static_cast<uint16_t>(random_()), check_.query, *model::DnsTypeNumber(check_.type));
    const std::string& payload = check_.kind == model::CheckKind::kDns ? query_ : check_.payload;
    if (send(fd_, payload.data(), payload.size(), MSG_NOSIGNAL) < 0) return EndWith("send", errno);
    running_ = true;
  }

  Outcome Stop() override {
    Drop();
    return {Outcome::Kind::kFailed, "no answer"};
  }

 private:
  bool Connect() {
    if (!Open(SOCK_DGRAM, IPPROTO_UDP)) return false;
    if (connect(fd_, to_.get(), to_.length) == 0) return Watch(EPOLLIN | EPOLLET);
    EndWith("connect", errno);
    return false;
  }

  // Edge-triggered, so all of it is read. While no check runs, what comes is late, and of no use.
  void OnEvents(int, uint32_t) override {
    static thread_local std::string buffer(kLongestDatagram, '\0');
    while (fd_ >= 0) {
      const ssize_t got = recv(fd_, buffer.data(), buffer.size(), 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got < 0) {  // an ICMP error has come
        if (running_) return EndWith("answer", errno);
        Close();
        return;
      }
      if (++read_ > kMaxDatagrams) {
        if (running_) return End(fmt::format("flooded: more than {} datagrams, no answer", kMaxDatagrams));
        Close();
        return;
      }
      if (running_) Judge(std::string_view(buffer.data(), static_cast<size_t>(got)));
    }
  }

  void Judge(std::string_view answer) {
    if (check_.kind == model::CheckKind::kDns) {
      const auto rcode = DnsRcode(query_, answer);
      if (!rcode) return;  // not to this question
      if (*rcode != model::DnsRcodeNumber(check_.rcode))
        return End(fmt::format("rcode {}, expected {}", RcodeWord(*rcode), check_.rcode));
    } else if (answer.find(check_.expect) == answer.npos) {
      return End(fmt::format("an answer of {} bytes without what was expected", answer.size()));
    }
    running_ = false;
    Pass();
  }

  static std::string RcodeWord(uint8_t rcode) {
    for (const std::string& word : model::DnsRcodes())
      if (model::DnsRcodeNumber(word) == rcode) return word;
    return fmt::format("{}", rcode);
  }

  void End(std::string reason) {
    Drop();
    Fail(std::move(reason));
  }

  void EndWith(const char* step, int error) {
    Drop();
    const bool own = IsOwnShortage(error);
    const std::string reason = error == ECONNREFUSED ? "nobody listens (ICMP port unreachable)"
                                                     : fmt::format("{}: {}", step, std::strerror(error));
    if (own)
      Skip(reason);
    else
      Fail(reason);
  }

  void Drop() {
    running_ = false;
    Close();
  }

  const model::HealthCheck check_;
  std::string query_;
  std::minstd_rand random_{std::random_device{}()};  // ids; whoever must not guess them is not on the way
  bool running_ = false;
  int read_ = 0;  // datagrams since the last check began
};

}  // namespace

SocketAddress::SocketAddress(const model::Address& address, uint16_t port) {
  if (address.family == 4) {
    auto* v4 = reinterpret_cast<sockaddr_in*>(&storage);
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    std::memcpy(&v4->sin_addr, address.bytes.data(), 4);
    length = sizeof(*v4);
  } else {
    auto* v6 = reinterpret_cast<sockaddr_in6*>(&storage);
    v6->sin6_family = AF_INET6;
    v6->sin6_port = htons(port);
    std::memcpy(&v6->sin6_addr, address.bytes.data(), 16);
    length = sizeof(*v6);
  }
}

bool IsOwnShortage(int error) {
  switch (error) {
    case EMFILE:
    case ENFILE:
    case ENOMEM:
    case ENOBUFS:
    case EAGAIN:
    case EADDRNOTAVAIL:  // no local port, or no address yet
    case EPERM:          // our own firewall
      return true;
    default:
      return false;
  }
}

std::unique_ptr<Probe> MakeTcpProbe(const Subject& subject, const model::HealthCheck& check, Reactor& reactor,
                                    std::function<void(Outcome)> finish) {
  return std::make_unique<TcpProbe>(subject, check, reactor, std::move(finish));
}

std::unique_ptr<Probe> MakeDatagramProbe(const Subject& subject, const model::HealthCheck& check,
                                         Reactor& reactor, std::function<void(Outcome)> finish) {
  return std::make_unique<DatagramProbe>(subject, check, reactor, std::move(finish));
}

}  // namespace spillway::health
