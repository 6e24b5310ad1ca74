// SPDX-License-Identifier: Apache-2.0
#include "gateway/rdma/listener.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <spdlog/spdlog.h>

#include <cerrno>
#include <map>
#include <nlohmann/json.hpp>

#include "gateway/rdma/link.h"
#include "gateway/rdma/messages.h"
#include "gateway/token.h"

namespace spillway::gateway {
namespace {

constexpr int kBacklog = 64;

class Listener;

// An executor of another machine comes: its token and offer over TCP, then a connection of each slice.
class Arrival : public ExecutorArrival {
 public:
  Arrival(int socket, uint64_t number, Listener& listener)
      : socket_(socket), number_(number), listener_(listener) {}

  [[nodiscard]] Result<Step> Read() override;
  [[nodiscard]] const ExecutorOffer& offer() const override { return offer_.offer; }
  [[nodiscard]] Result<std::unique_ptr<ExecutorLink>> TakeLink() override { return std::move(link_); }
  [[nodiscard]] Result<void> Answer(const std::string& refusal) override {
    return SendMessage(socket_, AnswerText(refusal));
  }

 private:
  [[nodiscard]] Result<void> TakeOffer(const std::string& text);

  int socket_;
  uint64_t number_;
  Listener& listener_;
  MessageReader reader_;
  KeyedOffer offer_;
  std::unique_ptr<ExecutorLink> link_;
  const RdmaLink* connecting_ = nullptr;  // link_, until it is taken
};

class Listener : public RdmaListener {
 public:
  Listener(Descriptor tcp, std::string token, uint64_t most_memory, rdma::Owned<rdma_event_channel> channel,
           rdma::Owned<rdma_cm_id> id)
      : tcp_(std::move(tcp)),
        token_(std::move(token)),
        most_memory_(most_memory),
        channel_(std::move(channel)),
        id_(std::move(id)) {}

  [[nodiscard]] int tcp() const override { return tcp_.get(); }
  [[nodiscard]] int events() const override { return channel_->fd; }
  [[nodiscard]] std::vector<uint64_t> Serve() override;
  [[nodiscard]] std::unique_ptr<ExecutorArrival> Meet(int socket, uint64_t number) override {
    KeepAlive(socket);
    return std::make_unique<Arrival>(socket, number, *this);
  }

  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] uint16_t Port() const { return ntohs(rdma_get_src_port(id_.get())); }

  // A link whose slices may connect with the ticket; forgotten when it goes. kConflict: it needs too much.
  struct Expected;
  [[nodiscard]] Result<std::unique_ptr<Expected>> Expect(const KeyedOffer& offer, uint64_t number);
  void Forget(uint64_t ticket);

 private:
  struct Party {
    RdmaLink* link;
    uint64_t number;  // of the executor
    uint64_t bytes;   // that it pins
  };
  void Handle(const rdma::Event& event, std::vector<uint64_t>& news);
  void Admit(rdma::Owned<rdma_cm_id> id, const SliceHello& hello, std::vector<uint64_t>& news);

  Descriptor tcp_;
  std::string token_;
  uint64_t most_memory_, memory_ = 0;
  rdma::Owned<rdma_event_channel> channel_;
  rdma::Owned<rdma_cm_id> id_;
  std::map<uint64_t, Party> parties_;  // by ticket
};

// A link that the listener knows of.
struct Listener::Expected : public RdmaLink {
  Expected(const KeyedOffer& offer, uint64_t number, Listener& host)
      : RdmaLink(offer), ticket(number), listener(host) {}
  ~Expected() override { listener.Forget(ticket); }
  uint64_t ticket;
  Listener& listener;
};

Result<std::unique_ptr<Listener::Expected>> Listener::Expect(const KeyedOffer& offer, uint64_t number) {
  const uint64_t bytes = RdmaLink::PinnedBytes(offer.offer);
  if (bytes > most_memory_ - memory_)
    return Fail(ErrorCode::kConflict,
                fmt::format("executor: its cells need {} bytes of buffers, of rdma.memory {} of {} are free",
                            bytes, most_memory_ - memory_, most_memory_));
  uint64_t ticket = RandomKey();
  while (parties_.contains(ticket)) ticket = RandomKey();
  auto link = std::make_unique<Expected>(offer, ticket, *this);
  memory_ += bytes;
  parties_[ticket] = {link.get(), number, bytes};
  return link;
}

void Listener::Forget(uint64_t ticket) {
  const auto found = parties_.find(ticket);
  memory_ -= found->second.bytes;
  parties_.erase(found);
}

std::vector<uint64_t> Listener::Serve() {
  std::vector<uint64_t> news;
  for (;;) {
    const auto event = rdma::NextEvent(channel_.get());
    if (!event) spdlog::warn("{}", event.error().message);
    if (!event || !*event) return news;
    Handle(**event, news);
  }
}

void Listener::Handle(const rdma::Event& event, std::vector<uint64_t>& news) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
    return Admit(rdma::Owned<rdma_cm_id>(event.id), event.As<SliceHello>().value_or(SliceHello{0, 0}), news);
  // Long after the end.
  if (event.type == RDMA_CM_EVENT_TIMEWAIT_EXIT) return;
  for (auto& [ticket, party] : parties_) {
    if (!party.link->Has(event.id)) continue;
    if (event.type == RDMA_CM_EVENT_ESTABLISHED)
      party.link->Established(event.id);
    else
      party.link->Break("RDMA: " + event.Text());
    news.push_back(party.number);
    return;
  }
}

void Listener::Admit(rdma::Owned<rdma_cm_id> id, const SliceHello& hello, std::vector<uint64_t>& news) {
  const bool known = hello.magic == kSliceMagic && hello.version == kSliceVersion;
  const auto found = known ? parties_.find(hello.ticket) : parties_.end();
  if (found == parties_.end()) {
    spdlog::warn("RDMA: a connection without a ticket is refused");
    rdma_reject(id.get(), nullptr, 0);
    return;
  }
  const Party& party = found->second;
  if (const auto admitted = party.link->Admit(id, hello); !admitted) {
    if (id != nullptr) rdma_reject(id.get(), nullptr, 0);
    party.link->Break(admitted.error().message);
    news.push_back(party.number);
  }
}

Result<ExecutorArrival::Step> Arrival::Read() {
  const auto open = reader_.ReadFrom(socket_);
  if (!open) return tl::make_unexpected(open.error());
  while (const auto text = reader_.Next()) {
    if (connecting_ != nullptr) return Fail(ErrorCode::kBadInput, "executor: it talks before it has joined");
    if (auto taken = TakeOffer(*text); !taken) return tl::make_unexpected(taken.error());
  }
  if (!*open) return Step::kGone;
  if (connecting_ == nullptr) return Step::kMore;
  if (connecting_->broken()) return Fail(ErrorCode::kSystem, connecting_->Fault());
  return connecting_->complete() ? Step::kComplete : Step::kMore;
}

Result<void> Arrival::TakeOffer(const std::string& text) {
  const auto hello = nlohmann::json::parse(text, nullptr, false);
  const bool has_token = hello.is_object() && hello.contains("token") && hello["token"].is_string();
  if (!has_token || !SameToken(hello["token"].get<std::string>(), listener_.token()))
    return Fail(ErrorCode::kBadInput, "executor: expected the token of rdma.token_file");
  auto offer = ParseOffer(hello);
  if (!offer) return tl::make_unexpected(offer.error());
  offer_ = std::move(*offer);
  auto link = listener_.Expect(offer_, number_);
  if (!link) return tl::make_unexpected(link.error());
  const nlohmann::json answer = {{"ticket", (*link)->ticket}, {"rdma_port", listener_.Port()}};
  connecting_ = link->get();
  link_ = std::move(*link);
  return SendMessage(socket_, answer.dump());
}

}  // namespace

Result<std::unique_ptr<RdmaListener>> RdmaListener::Listen(Descriptor tcp, const std::string& token,
                                                           uint64_t most_memory) {
  sockaddr_storage where{};
  socklen_t length = sizeof(where);
  if (getsockname(tcp.get(), reinterpret_cast<sockaddr*>(&where), &length) != 0)
    return rdma::FailRdma("socket");
  (where.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6*>(&where)->sin6_port
                               : reinterpret_cast<sockaddr_in*>(&where)->sin_port) = 0;
  auto channel = rdma::OpenEventChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  auto id = rdma::MakeId(channel->get());
  if (!id) return tl::make_unexpected(id.error());
  if (rdma_bind_addr(id->get(), reinterpret_cast<sockaddr*>(&where)) != 0 ||
      rdma_listen(id->get(), kBacklog) != 0)
    return rdma::FailRdma("listening");
  return std::make_unique<Listener>(std::move(tcp), token, most_memory, std::move(*channel), std::move(*id));
}

}  // namespace spillway::gateway
