// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/listener.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <rdma/rdma_cma.h>
#include <spdlog/spdlog.h>

#include <bit>
#include <future>
#include <map>
#include <nlohmann/json.hpp>
#include <thread>

#include "base/fd.h"
#include "gateway/protocol/token.h"
#include "gateway/transport/rdma/bell.h"
#include "gateway/transport/rdma/link.h"
#include "gateway/transport/rdma/messages.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

constexpr int kBacklog = 64;
constexpr int kMaxEvents = 64;  // of a turn: clients wait meanwhile

class Listener;

// A link whose slices may connect; the listener knows it while it lives.
struct ExpectedLink : public RdmaLink {
  ExpectedLink(const KeyedOffer& offer, uint64_t number, Listener& host)
      : RdmaLink(offer), ticket(number), listener(host) {}
  ~ExpectedLink() override;

  const uint64_t ticket;
  Listener& listener;
  bool is_ready = false;                            // its memory is there
  std::future<Result<std::vector<Pages>>> pages{};  // until then
  std::jthread maker{};
};

class Arrival : public ExecutorArrival {
 public:
  Arrival(int socket, uint64_t number, Listener& listener)
      : socket_(socket), number_(number), listener_(listener) {}

  [[nodiscard]] Result<Step> Read() override;
  [[nodiscard]] bool IsTrusted() const override { return is_trusted_; }
  [[nodiscard]] const ExecutorOffer& offer() const override { return offer_.offer; }
  [[nodiscard]] Result<std::unique_ptr<ExecutorLink>> TakeLink() override { return std::move(link_); }
  [[nodiscard]] Result<void> Answer(const std::string& refusal) override {
    return SendMessage(socket_, AnswerText(refusal));
  }

 private:
  [[nodiscard]] Result<void> Take(const std::string& message);

  int socket_;
  uint64_t number_;
  Listener& listener_;
  MessageReader reader_;
  bool is_trusted_ = false, is_told_ = false;  // where to connect
  KeyedOffer offer_;
  std::unique_ptr<ExecutorLink> link_;
  const ExpectedLink* expected_ = nullptr;  // link_, until it is taken
};

class Listener : public RdmaListener {
 public:
  Listener(base::Fd tcp, std::string token, uint64_t most_memory, rdma::Owned<rdma_event_channel> channel,
           rdma::Owned<rdma_cm_id> id, Bell bell)
      : tcp_(std::move(tcp)),
        token_(std::move(token)),
        most_memory_(most_memory),
        channel_(std::move(channel)),
        id_(std::move(id)),
        bell_(std::move(bell)) {}

  [[nodiscard]] int tcp() const override { return tcp_.get(); }
  [[nodiscard]] int events() const override { return bell_.fd(); }
  [[nodiscard]] std::vector<uint64_t> Serve() override;
  [[nodiscard]] std::unique_ptr<ExecutorArrival> Meet(int socket, uint64_t number) override {
    KeepAlive(socket);
    return std::make_unique<Arrival>(socket, number, *this);
  }

  [[nodiscard]] const std::string& token() const { return token_; }
  [[nodiscard]] uint16_t Port() const { return ntohs(rdma_get_src_port(id_.get())); }

  // Its memory is made meanwhile. kConflict: it needs too much; kSystem: there is no device any more.
  [[nodiscard]] Result<std::unique_ptr<ExpectedLink>> Expect(const KeyedOffer& offer, uint64_t number);
  void Forget(uint64_t ticket);

 private:
  struct Party {
    ExpectedLink* link;
    uint64_t number;  // of the executor
    uint64_t bytes;   // that it pins
  };
  void TakePages(std::vector<uint64_t>& news);
  void Handle(const rdma::Event& event, std::vector<uint64_t>& news);
  void Admit(rdma::Owned<rdma_cm_id> id, const SliceHello& hello, std::vector<uint64_t>& news);

  base::Fd tcp_;
  std::string token_;
  uint64_t most_memory_, memory_ = 0;
  rdma::Owned<rdma_event_channel> channel_;
  rdma::Owned<rdma_cm_id> id_;
  Bell bell_;
  bool is_lost_ = false;  // the device
  uint64_t unauthenticated_ = 0;
  std::map<uint64_t, Party> parties_;  // by ticket
};

ExpectedLink::~ExpectedLink() { listener.Forget(ticket); }

Result<std::unique_ptr<ExpectedLink>> Listener::Expect(const KeyedOffer& offer, uint64_t number) {
  if (is_lost_) return Fail(ErrorCode::kSystem, "the gateway's RDMA device has gone");
  const uint64_t bytes = RdmaLink::PinnedBytes(offer.offer);
  if (bytes > most_memory_ - memory_)
    return Fail(ErrorCode::kConflict,
                fmt::format("its cells need {} bytes of buffers; {} of the {} of rdma.memory are free", bytes,
                            most_memory_ - memory_, most_memory_));
  uint64_t ticket = RandomKey();
  while (parties_.contains(ticket)) ticket = RandomKey();
  auto link = std::make_unique<ExpectedLink>(offer, ticket, *this);
  memory_ += bytes;
  parties_[ticket] = {link.get(), number, bytes};
  std::promise<Result<std::vector<Pages>>> pages;
  link->pages = pages.get_future();
  link->maker = std::jthread([this, slices = offer.offer, pages = std::move(pages)]() mutable {
    pages.set_value(RdmaLink::MakePages(slices));
    bell_.Ring();
  });
  return link;
}

void Listener::Forget(uint64_t ticket) {
  const auto found = parties_.find(ticket);
  memory_ -= found->second.bytes;
  parties_.erase(found);
}

std::vector<uint64_t> Listener::Serve() {
  std::vector<uint64_t> news;
  bell_.Hush();
  TakePages(news);
  for (int i = 0; i < kMaxEvents; i++) {
    const auto event = rdma::NextEvent(channel_.get());
    if (!event) spdlog::warn("{}", event.error().message);
    if (!event || !*event) return news;
    Handle(**event, news);
  }
  bell_.Ring();
  return news;
}

void Listener::TakePages(std::vector<uint64_t>& news) {
  for (auto& [ticket, party] : parties_) {
    ExpectedLink& link = *party.link;
    if (!link.pages.valid() || link.pages.wait_for(0s) != std::future_status::ready) continue;
    auto pages = link.pages.get();
    if (pages)
      link.Hold(std::move(*pages));
    else
      link.Break(pages.error().message);
    link.is_ready = pages.has_value();
    news.push_back(party.number);
  }
}

void Listener::Handle(const rdma::Event& event, std::vector<uint64_t>& news) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
    return Admit(rdma::Owned<rdma_cm_id>(event.id), event.As<SliceHello>().value_or(SliceHello{0, 0}), news);
  if (event.id == id_.get()) {
    spdlog::error("RDMA: {}: remote executors cannot connect until restart", event.Text());
    is_lost_ = true;
    return;
  }
  // Long after the end.
  if (event.type == RDMA_CM_EVENT_TIMEWAIT_EXIT) return;
  for (auto& [ticket, party] : parties_) {
    if (!party.link->Has(event.id)) continue;
    if (event.type == RDMA_CM_EVENT_ESTABLISHED)
      party.link->Established(event.id);
    else
      party.link->Break(event.type == RDMA_CM_EVENT_DISCONNECTED ? "it has disconnected"
                                                                 : "RDMA: " + event.Text());
    news.push_back(party.number);
    return;
  }
}

void Listener::Admit(rdma::Owned<rdma_cm_id> id, const SliceHello& hello, std::vector<uint64_t>& news) {
  const auto found = IsUnderstood(hello) ? parties_.find(hello.ticket) : parties_.end();
  if (found == parties_.end()) {
    // Few lines, however many come.
    if (std::has_single_bit(++unauthenticated_))
      spdlog::warn("RDMA: {} connections refused so far: missing ticket or wrong version", unauthenticated_);
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
  while (const auto message = reader_.Next())
    if (auto taken = Take(*message); !taken) return tl::make_unexpected(taken.error());
  if (!*open) return Step::kGone;
  if (expected_ == nullptr) return Step::kMore;
  if (expected_->broken()) return Fail(ErrorCode::kSystem, expected_->Fault());
  if (expected_->is_ready && !std::exchange(is_told_, true)) {
    const nlohmann::json place = {{"ticket", expected_->ticket}, {"rdma_port", listener_.Port()}};
    if (auto told = SendMessage(socket_, place.dump()); !told) return tl::make_unexpected(told.error());
  }
  return expected_->complete() ? Step::kComplete : Step::kMore;
}

// The token first: before it nothing that a peer sends is looked into.
Result<void> Arrival::Take(const std::string& message) {
  if (!is_trusted_) {
    is_trusted_ = SameToken(message, listener_.token());
    if (is_trusted_) return {};
    return Fail(ErrorCode::kBadInput, "expected the token of rdma.token_file");
  }
  if (expected_ != nullptr) return Fail(ErrorCode::kBadInput, "it sent a message before it had joined");
  auto offer = ParseOffer(nlohmann::json::parse(message, nullptr, false));
  if (!offer) return tl::make_unexpected(offer.error());
  offer_ = std::move(*offer);
  auto link = listener_.Expect(offer_, number_);
  if (!link) return tl::make_unexpected(link.error());
  expected_ = link->get();
  link_ = std::move(*link);
  return {};
}

}  // namespace

Result<std::unique_ptr<RdmaListener>> RdmaListener::Listen(base::Fd tcp, const std::string& token,
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
  if (auto listens = rdma::ListenOn(id->get(), where, kBacklog); !listens)
    return tl::make_unexpected(listens.error());
  auto bell = Bell::Make((*channel)->fd);
  if (!bell) return tl::make_unexpected(bell.error());
  return std::make_unique<Listener>(std::move(tcp), token, most_memory, std::move(*channel), std::move(*id),
                                    std::move(*bell));
}

}  // namespace spillway::gateway
