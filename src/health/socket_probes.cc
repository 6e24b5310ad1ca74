// SPDX-License-Identifier: Apache-2.0
// Checks over plain sockets: tcp, udp and dns.
#include "probe_kinds.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <time.h>
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
      : Probe(std::move(finish)), reactor_(reactor), subject_(subject), check_(check) {}
  ~SocketProbe() override { Close(); }

 protected:
  bool Open(int type, int protocol) {
    fd_ = socket(subject_.address.family == 4 ? AF_INET : AF_INET6, type | SOCK_NONBLOCK | SOCK_CLOEXEC,
                 protocol);
    if (fd_ < 0) Skip(fmt::format("socket: {}", std::strerror(errno)));
    return fd_ >= 0;
  }
  int Connect() {
    const SocketAddress to(subject_.address, check_.port);
    return connect(fd_, to.get(), to.length) == 0 ? 0 : errno;
  }
  void Close() {
    if (fd_ < 0) return;
    reactor_.Forget(fd_);
    close(fd_);
    fd_ = -1;
  }

  Reactor& reactor_;
  const Subject& subject_;
  const model::HealthCheck& check_;
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
    if (const int error = Connect(); error != EINPROGRESS) End(error);
  }

  void Look() override {
    tcp_info info{};
    socklen_t length = sizeof(info);
    if (getsockopt(fd_, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) {
      if (info.tcpi_state == TCP_SYN_SENT) return Await();
      // Of the handshake alone, as nothing else was sent.
      if (info.tcpi_state == TCP_ESTABLISHED) return End(0, std::chrono::microseconds(info.tcpi_rtt));
    }
    OnEvents(fd_, 0);
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

  void Await() {
    const int error = reactor_.Add(fd_, EPOLLOUT, this);
    if (error == 0) return;
    Close();
    Skip(fmt::format("epoll_ctl: {}", std::strerror(error)));
  }

  void End(int error, std::optional<std::chrono::nanoseconds> took = std::nullopt) {
    Close();
    if (error == 0)
      Pass(took);
    else if (IsOwnShortage(error))
      Skip(fmt::format("connect: {}", std::strerror(error)));
    else
      Fail(fmt::format("connect: {}", std::strerror(error)));
  }
};

// Keeps its socket while checks pass: a check is then one datagram each way and three system calls. After a
// failure it takes a new one, so that an answer that comes too late never meets the next question. Each unit
// has its own: connected, so that the kernel takes nothing from others and gives it ICMP errors, and with a
// port that no other unit knows.
class DatagramProbe : public SocketProbe {
 public:
  DatagramProbe(const Subject& subject, const model::HealthCheck& check, Reactor& reactor,
                std::function<void(Outcome)> finish)
      : SocketProbe(subject, check, reactor, std::move(finish)) {
    if (!IsDns()) return;
    query_ = DnsQuery(0, check.query, *model::DnsTypeNumber(check.type));
    good_rcode_ = model::DnsRcodeNumber(check.rcode);
  }

  void Start() override {
    if (fd_ >= 0) Discard();
    if (fd_ < 0 && !OpenAnew()) return;
    read_ = 0;
    if (IsDns()) SetDnsId(query_, static_cast<uint16_t>(random_()));
    const std::string& question = IsDns() ? query_ : check_.payload;
    running_ = true;
    clock_gettime(CLOCK_REALTIME, &sent_);
    if (send(fd_, question.data(), question.size(), MSG_NOSIGNAL) < 0) EndWith("send", errno);
  }

  void Look() override {
    Read();
    if (running_) Await();
  }

  Outcome Stop() override {
    Drop();
    return {Outcome::Kind::kFailed, "no answer"};
  }

 private:
  bool IsDns() const { return check_.kind == model::CheckKind::kDns; }

  bool OpenAnew() {
    watched_ = false;
    if (!Open(SOCK_DGRAM, IPPROTO_UDP)) return false;
    const int on = 1;
    (void)setsockopt(fd_, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on));
    const int error = Connect();
    if (error != 0) EndWith("connect", error);
    return error == 0;
  }

  // For one event: whoever answers by the first look costs none.
  void Await() {
    const uint32_t events = EPOLLIN | EPOLLONESHOT;
    const int error = watched_ ? reactor_.Change(fd_, events) : reactor_.Add(fd_, events, this);
    watched_ = true;
    if (error == 0) return;
    Drop();
    Skip(fmt::format("epoll_ctl: {}", std::strerror(error)));
  }

  void OnEvents(int, uint32_t) override {
    if (!running_) return;
    Read();
    if (running_) Await();
  }

  // What came between checks is late, and of no use.
  void Discard() {
    char nothing;
    for (int i = 0; i <= kMaxDatagrams; i++)
      if (recv(fd_, &nothing, sizeof(nothing), 0) < 0) {
        if (errno == EAGAIN || errno == EWOULDBLOCK) return;
        break;  // an ICMP error
      }
    Close();
  }

  void Read() {
    static thread_local std::string buffer(kLongestDatagram, '\0');
    while (running_) {
      alignas(cmsghdr) char control[CMSG_SPACE(sizeof(timespec))];
      iovec part{buffer.data(), buffer.size()};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control;
      message.msg_controllen = sizeof(control);
      const ssize_t got = recvmsg(fd_, &message, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return;
      if (got < 0) return EndWith("answer", errno);  // an ICMP error has come
      if (++read_ > kMaxDatagrams)
        return End(fmt::format("flooded: more than {} datagrams, no answer", kMaxDatagrams));
      Judge(std::string_view(buffer.data(), static_cast<size_t>(got)), message);
    }
  }

  // From the send to the arrival. nullopt: the kernel says nothing, or its clock was set in between.
  std::optional<std::chrono::nanoseconds> TimeTo(msghdr& arrived) const {
    const cmsghdr* const note = CMSG_FIRSTHDR(&arrived);
    if (note == nullptr || note->cmsg_level != SOL_SOCKET || note->cmsg_type != SCM_TIMESTAMPNS)
      return std::nullopt;
    timespec at;
    std::memcpy(&at, CMSG_DATA(note), sizeof(at));
    const auto took =
        std::chrono::seconds(at.tv_sec - sent_.tv_sec) + std::chrono::nanoseconds(at.tv_nsec - sent_.tv_nsec);
    return took.count() < 0 ? std::nullopt : std::optional(took);
  }

  void Judge(std::string_view answer, msghdr& message) {
    if (IsDns()) {
      const auto rcode = DnsRcode(query_, answer);
      if (!rcode) return;  // not to this question
      if (*rcode != good_rcode_)
        return End(fmt::format("rcode {}, expected {}", RcodeWord(*rcode), check_.rcode));
    } else if (answer.find(check_.expect) == answer.npos) {
      return End(fmt::format("an answer of {} bytes that does not contain the expected text", answer.size()));
    }
    running_ = false;
    Pass(TimeTo(message));
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

  // dns
  std::string query_;
  std::optional<uint8_t> good_rcode_;
  std::minstd_rand random_{std::random_device{}()};  // ids; whoever must not guess them is not on the way
  bool running_ = false, watched_ = false;
  timespec sent_{};
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
