// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/window_listener.h"

#include <rdma/rdma_cma.h>
#include <spdlog/spdlog.h>

#include <bit>
#include <functional>
#include <map>
#include <utility>

#include "gateway/transport/aside.h"
#include "gateway/transport/rdma/bell.h"
#include "gateway/transport/rdma/hello.h"
#include "gateway/transport/rdma/mirror.h"

namespace spillway::gateway {
namespace {

constexpr int kWindowBacklog = 64;
constexpr int kMaxWindowEvents = 8;  // of a turn: clients wait meanwhile
constexpr size_t kConnectors = 4;    // threads: a peer that is not there holds one for a second

// A window's memory, and its part of a limit, which is given back behind it.
struct HeldPages {
  std::shared_ptr<const void> held;
  Pages pages;
};

// Errors: it cannot be connected, by whosever fault.
Result<std::unique_ptr<Mirror>> Accept(rdma::Owned<rdma_cm_id> id, const WindowHello& hello,
                                       std::shared_ptr<const Pages> pages, uint32_t slots) {
  auto mirror = Mirror::Make(std::move(id), std::move(pages), slots);
  if (!mirror) return mirror;
  (*mirror)->SetPeer(hello.address, hello.key);
  WindowWelcome welcome;
  welcome.key = (*mirror)->key();
  welcome.address = (*mirror)->address();
  rdma_conn_param answer{};
  answer.private_data = &welcome;
  answer.private_data_len = sizeof(welcome);
  answer.rnr_retry_count = kRetries;
  if (rdma_accept((*mirror)->id(), &answer) != 0) return rdma::FailRdma("accepting");
  return mirror;
}

class WindowListenerOverRdma;

class ExpectedWindow : public RemoteWindow {
 public:
  ExpectedWindow(WindowListenerOverRdma& listener, uint64_t ticket, uint32_t slots)
      : listener_(listener), ticket_(ticket), slots_(slots) {}
  ~ExpectedWindow() override;

  // -- the listener's
  void Hold(Result<std::shared_ptr<const Pages>> pages);
  [[nodiscard]] const std::shared_ptr<const Pages>& pages() const { return pages_; }
  // Its client asks for it with that connection, which is being accepted from here on.
  void BeginConnecting(const rdma_cm_id* id) { connection_ = id; }
  void EndConnecting(Result<std::unique_ptr<Mirror>> mirror);
  void Establish() { is_established_ = true; }
  [[nodiscard]] bool Has(const rdma_cm_id* id) const { return connection_ == id; }
  void Break(const std::string& why);

  // Connected once the client says so: till then it may give up and go on in frames.
  [[nodiscard]] State state() const override {
    if (is_connected()) return State::kConnected;
    if (connection_ != nullptr) return State::kConnecting;
    return pages_ != nullptr ? State::kReady : State::kMaking;
  }
  [[nodiscard]] uint64_t ticket() const override { return ticket_; }

  [[nodiscard]] std::span<std::byte> bytes() const override {
    return pages_ != nullptr ? pages_->bytes() : std::span<std::byte>();
  }
  [[nodiscard]] std::shared_ptr<const void> keeper() const override { return pages_; }
  [[nodiscard]] std::shared_ptr<void> TakeMemory() override;
  [[nodiscard]] uint32_t slots() const override { return slots_; }
  bool TakeSubmission(Submission& into) override;
  // A client that asks again has its answer, whether or not the device here knows it yet.
  [[nodiscard]] uint64_t AnswersWaiting() const override { return 0; }
  void Complete(const Completion& completion, uint64_t offset) override;
  [[nodiscard]] std::string Fault() const override {
    return fault_.empty() && mirror_ != nullptr ? mirror_->fault() : fault_;
  }
  [[nodiscard]] bool HasSentAll() override {
    if (mirror_ == nullptr || !mirror_->fault().empty()) return true;
    mirror_->Refresh();
    return mirror_->waiting() == 0 || !mirror_->fault().empty();
  }
  [[nodiscard]] int bell() const override { return is_connected() ? mirror_->bell() : -1; }
  bool PrepareToWait() override {
    if (!is_connected()) return true;
    const bool is_quiet = mirror_->PrepareToWait() || !HasRoom();
    return is_quiet && Fault().empty();
  }
  void DoneWaiting() override {}

 private:
  [[nodiscard]] bool is_connected() const { return mirror_ != nullptr && is_established_; }
  // For one more answer. A client whose device does not say that answers arrive gets no further ones.
  [[nodiscard]] bool HasRoom() const { return in_hand_ + mirror_->waiting() < 2 * uint64_t{slots_}; }

  WindowListenerOverRdma& listener_;
  const uint64_t ticket_;
  const uint32_t slots_;
  uint64_t in_hand_ = 0;  // submissions that are not answered
  std::string fault_;
  const rdma_cm_id* connection_ = nullptr;  // only ever compared: another thread may have ended it
  bool is_established_ = false;
  std::shared_ptr<const Pages> pages_;
  std::unique_ptr<Mirror> mirror_;  // goes first
};

class WindowListenerOverRdma : public WindowListener {
 public:
  WindowListenerOverRdma(rdma::Owned<rdma_event_channel> channel, rdma::Owned<rdma_cm_id> id, Bell bell,
                         base::SocketAddress address)
      : channel_(std::move(channel)),
        id_(std::move(id)),
        bell_(std::move(bell)),
        address_(address),
        maker_(1, [this] { bell_.Ring(); }),
        connectors_(kConnectors, [this] { bell_.Ring(); }) {}

  [[nodiscard]] base::SocketAddress address() const override { return address_; }
  [[nodiscard]] int events() const override { return bell_.fd(); }
  [[nodiscard]] std::vector<uint64_t> Serve() override;
  [[nodiscard]] Result<std::unique_ptr<RemoteWindow>> Expect(uint64_t session, uint64_t bytes, uint32_t slots,
                                                             std::shared_ptr<const void> held) override;
  void Forget(uint64_t ticket) {
    windows_.erase(ticket);
    maker_.Forget(ticket);
    connectors_.Forget(ticket);
  }

 private:
  struct Entry {
    ExpectedWindow* window;
    uint64_t session;
  };
  void Handle(const rdma::Event& event, std::vector<uint64_t>& news);
  void Admit(rdma::Owned<rdma_cm_id> id, const WindowHello& hello);
  // Gives it to the window, if it is still there, and its session hears of it. What nobody wants any more is
  // freed where it takes nobody's time.
  template <class Made>
  void Give(uint64_t ticket, std::shared_ptr<Result<Made>> made,
            void (ExpectedWindow::*take)(Result<Made> made)) {
    const auto found = windows_.find(ticket);
    if (found == windows_.end())
      return maker_.Ask(0, [made = std::move(made)]() -> Aside::Then { return {}; });
    (found->second.window->*take)(std::move(*made));
    told_.push_back(found->second.session);
  }

  rdma::Owned<rdma_event_channel> channel_;
  rdma::Owned<rdma_cm_id> id_;
  Bell bell_;
  const base::SocketAddress address_;
  bool is_lost_ = false;  // the device
  uint64_t refused_ = 0;
  std::map<uint64_t, Entry> windows_;  // by ticket
  std::vector<uint64_t> told_;         // sessions with news
  Aside maker_, connectors_;           // first to go
};

// ---- a window

ExpectedWindow::~ExpectedWindow() { listener_.Forget(ticket_); }

// First it is seen to that no connection is being made of them.
std::shared_ptr<void> ExpectedWindow::TakeMemory() {
  listener_.Forget(ticket_);
  struct Remains {
    std::shared_ptr<const Pages> pages;
    std::unique_ptr<Mirror> mirror;  // goes first
  };
  return std::shared_ptr<Remains>(new Remains{std::move(pages_), std::move(mirror_)});
}

void ExpectedWindow::Hold(Result<std::shared_ptr<const Pages>> pages) {
  if (pages)
    pages_ = std::move(*pages);
  else
    Break(pages.error().message);
}

void ExpectedWindow::Break(const std::string& why) {
  if (mirror_ != nullptr) mirror_->Break(why);
  if (fault_.empty()) fault_ = why;
}

void ExpectedWindow::EndConnecting(Result<std::unique_ptr<Mirror>> mirror) {
  if (!mirror) return Break(mirror.error().message);
  mirror_ = std::move(*mirror);
  if (!fault_.empty()) mirror_->Break(fault_);
}

bool ExpectedWindow::TakeSubmission(Submission& into) {
  if (!is_connected()) return false;
  if (!HasRoom()) mirror_->Refresh();  // its client's device may have said so by now
  if (!HasRoom() || !mirror_->HasMessage() || !Fault().empty()) return false;
  Mirror::Message message;
  if (!mirror_->Take(message)) return false;
  into = std::bit_cast<Submission>(message);
  in_hand_++;
  return true;
}

void ExpectedWindow::Complete(const Completion& completion, uint64_t offset) {
  in_hand_--;
  if (mirror_ != nullptr)
    mirror_->Put(offset, completion.output_bytes, std::bit_cast<Mirror::Message>(completion));
}

// ---- the listener

Result<std::unique_ptr<RemoteWindow>> WindowListenerOverRdma::Expect(uint64_t session, uint64_t bytes,
                                                                     uint32_t slots,
                                                                     std::shared_ptr<const void> held) {
  if (is_lost_) return Fail(ErrorCode::kSystem, "the gateway's RDMA device has gone");
  uint64_t ticket = RandomKey();
  while (windows_.contains(ticket)) ticket = RandomKey();
  auto window = std::make_unique<ExpectedWindow>(*this, ticket, slots);
  windows_[ticket] = {window.get(), session};
  maker_.Ask(ticket, [this, ticket, bytes, held = std::move(held)]() mutable -> Aside::Then {
    auto made = std::make_shared<Result<std::shared_ptr<const Pages>>>();
    if (auto pages = Pages::Make(bytes); pages) {
      auto both = std::shared_ptr<HeldPages>(new HeldPages{std::move(held), std::move(*pages)});
      *made = std::shared_ptr<const Pages>(both, &both->pages);
    } else {
      *made = tl::make_unexpected(pages.error());
    }
    return [this, ticket, made]() mutable { Give(ticket, std::move(made), &ExpectedWindow::Hold); };
  });
  return window;
}

std::vector<uint64_t> WindowListenerOverRdma::Serve() {
  std::vector<uint64_t> news;
  bell_.Hush();
  for (Aside* aside : {&maker_, &connectors_})
    for (const Aside::Then& then : aside->Take()) then();
  std::swap(news, told_);
  for (int i = 0; i < kMaxWindowEvents; i++) {
    const auto event = rdma::NextEvent(channel_.get());
    if (!event) spdlog::warn("{}", event.error().message);
    if (!event || !*event) return news;
    Handle(**event, news);
  }
  bell_.Ring();
  return news;
}

void WindowListenerOverRdma::Handle(const rdma::Event& event, std::vector<uint64_t>& news) {
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST)
    return Admit(rdma::Owned<rdma_cm_id>(event.id), event.As<WindowHello>().value_or(WindowHello{0, 0}));
  if (event.id == id_.get()) {
    spdlog::error("RDMA: {}: clients cannot connect windows until restart", event.Text());
    is_lost_ = true;
    return;
  }
  // Long after the end.
  if (event.type == RDMA_CM_EVENT_TIMEWAIT_EXIT) return;
  for (auto& [ticket, entry] : windows_) {
    if (!entry.window->Has(event.id)) continue;
    if (event.type == RDMA_CM_EVENT_ESTABLISHED)
      entry.window->Establish();
    else
      entry.window->Break(event.type == RDMA_CM_EVENT_DISCONNECTED ? "the window's connection was closed"
                                                                   : "RDMA: " + event.Text());
    news.push_back(entry.session);
    return;
  }
}

void WindowListenerOverRdma::Admit(rdma::Owned<rdma_cm_id> id, const WindowHello& hello) {
  const auto found = IsUnderstood(hello) ? windows_.find(hello.ticket) : windows_.end();
  if (found == windows_.end() || found->second.window->state() != RemoteWindow::State::kReady ||
      !HasRoomFor(hello, found->second.window->pages()->bytes().size())) {
    // Few lines, however many come.
    if (std::has_single_bit(++refused_))
      spdlog::warn("RDMA: {} connections of clients refused so far: no valid ticket, or wrong version",
                   refused_);
    rdma_reject(id.get(), nullptr, 0);
    return;
  }
  ExpectedWindow& window = *found->second.window;
  window.BeginConnecting(id.get());
  // An id that goes unaccepted is refused. (A function can be copied, a connection not.)
  auto shared = std::make_shared<rdma::Owned<rdma_cm_id>>(std::move(id));
  connectors_.Ask(hello.ticket,
                  [this, hello, shared, pages = window.pages(), slots = window.slots()]() -> Aside::Then {
                    auto mirror = std::make_shared<Result<std::unique_ptr<Mirror>>>(
                        Accept(std::move(*shared), hello, pages, slots));
                    return [this, ticket = hello.ticket, mirror]() mutable {
                      Give(ticket, std::move(mirror), &ExpectedWindow::EndConnecting);
                    };
                  });
}

}  // namespace

Result<std::unique_ptr<WindowListener>> WindowListener::Listen(const std::string& address) {
  auto where = base::SocketAddress::Parse(address);
  if (!where) return tl::make_unexpected(where.error());
  auto channel = rdma::OpenEventChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  auto id = rdma::MakeId(channel->get());
  if (!id) return tl::make_unexpected(id.error());
  if (auto listens = rdma::ListenOn(id->get(), where->storage, kWindowBacklog); !listens)
    return tl::make_unexpected(listens.error());
  where->set_port(ntohs(rdma_get_src_port(id->get())));
  auto bell = Bell::Make((*channel)->fd);
  if (!bell) return tl::make_unexpected(bell.error());
  return std::make_unique<WindowListenerOverRdma>(std::move(*channel), std::move(*id), std::move(*bell),
                                                  *where);
}

}  // namespace spillway::gateway
