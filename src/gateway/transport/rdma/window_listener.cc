// SPDX-License-Identifier: Apache-2.0
#include "gateway/transport/rdma/window_listener.h"

#include <rdma/rdma_cma.h>
#include <spdlog/spdlog.h>

#include <bit>
#include <deque>
#include <functional>
#include <map>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "gateway/transport/rdma/bell.h"
#include "gateway/transport/rdma/hello.h"
#include "gateway/transport/rdma/mirror.h"

namespace spillway::gateway {
namespace {

constexpr int kWindowBacklog = 64;
constexpr int kMaxWindowEvents = 64;  // of a turn: clients wait meanwhile

// Makes windows' memory one after the other in a thread of its own, since that takes long: a gigabyte a
// quarter of a second. What nobody wants any more is not begun.
class PageMaker {
 public:
  struct Made {
    uint64_t ticket;
    Result<Pages> pages;
  };

  // `made`: called in that thread.
  explicit PageMaker(std::function<void()> made) : made_(std::move(made)), thread_([this] { Work(); }) {}
  ~PageMaker() {
    {
      const base::MutexLock lock(mutex_);
      stop_ = true;
    }
    changed_.NotifyAll();
    thread_.join();
  }

  void Ask(uint64_t ticket, uint64_t bytes) {
    {
      const base::MutexLock lock(mutex_);
      asked_.push_back({ticket, bytes});
    }
    changed_.NotifyAll();
  }
  void Forget(uint64_t ticket) {
    const base::MutexLock lock(mutex_);
    std::erase_if(asked_, [&](const auto& one) { return one.first == ticket; });
  }
  std::vector<Made> Take() {
    const base::MutexLock lock(mutex_);
    return std::exchange(done_, {});
  }

 private:
  void Work() {
    for (;;) {
      std::pair<uint64_t, uint64_t> next;
      {
        const base::MutexLock lock(mutex_);
        changed_.Wait(mutex_, [this]() SPILLWAY_REQUIRES(mutex_) { return stop_ || !asked_.empty(); });
        if (stop_) return;
        next = asked_.front();
        asked_.pop_front();
      }
      auto pages = Pages::Make(next.second);
      {
        const base::MutexLock lock(mutex_);
        done_.push_back({next.first, std::move(pages)});
      }
      made_();
    }
  }

  std::function<void()> made_;
  base::Mutex mutex_;
  base::Condition changed_;
  bool stop_ SPILLWAY_GUARDED_BY(mutex_) = false;
  std::deque<std::pair<uint64_t, uint64_t>> asked_ SPILLWAY_GUARDED_BY(mutex_);  // ticket, bytes
  std::vector<Made> done_ SPILLWAY_GUARDED_BY(mutex_);
  std::thread thread_;  // last: it uses the others
};

class WindowListenerOverRdma;

class ExpectedWindow : public RemoteWindow {
 public:
  ExpectedWindow(WindowListenerOverRdma& listener, uint64_t ticket, uint32_t slots)
      : listener_(listener), ticket_(ticket), slots_(slots) {}
  ~ExpectedWindow() override;

  // -- the listener's
  void Hold(Result<Pages> pages);
  // Errors: it cannot be connected, by whosever fault.
  [[nodiscard]] Result<void> Connect(rdma::Owned<rdma_cm_id> id, const WindowHello& hello);
  [[nodiscard]] bool Has(const rdma_cm_id* id) const { return mirror_ != nullptr && mirror_->id() == id; }
  void Break(const std::string& why);

  [[nodiscard]] State state() const override {
    if (mirror_ != nullptr) return State::kConnected;
    return pages_ != nullptr ? State::kReady : State::kMaking;
  }
  [[nodiscard]] uint64_t ticket() const override { return ticket_; }

  [[nodiscard]] std::span<std::byte> bytes() const override {
    return pages_ != nullptr ? pages_->bytes() : std::span<std::byte>();
  }
  [[nodiscard]] std::shared_ptr<const void> keeper() const override { return pages_; }
  [[nodiscard]] uint32_t slots() const override { return slots_; }
  bool TakeSubmission(Submission& into) override;
  // A client that asks again has its answer, whether or not the device here knows it yet.
  [[nodiscard]] uint64_t AnswersWaiting() const override { return 0; }
  void Complete(const Completion& completion, uint64_t offset) override;
  [[nodiscard]] std::string Fault() const override { return mirror_ != nullptr ? mirror_->fault() : fault_; }
  [[nodiscard]] int bell() const override { return mirror_ != nullptr ? mirror_->bell() : -1; }
  bool PrepareToWait() override {
    if (mirror_ == nullptr) return true;
    const bool is_quiet = mirror_->PrepareToWait() || !HasRoom();
    return is_quiet && Fault().empty();
  }
  void DoneWaiting() override {}

 private:
  // For one more answer. A client whose device does not say that answers arrive gets no further ones.
  [[nodiscard]] bool HasRoom() const { return in_hand_ + mirror_->waiting() < 2 * uint64_t{slots_}; }

  WindowListenerOverRdma& listener_;
  const uint64_t ticket_;
  const uint32_t slots_;
  uint64_t in_hand_ = 0;  // submissions that are not answered
  std::string fault_;
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
        maker_([this] { bell_.Ring(); }) {}

  [[nodiscard]] base::SocketAddress address() const override { return address_; }
  [[nodiscard]] int events() const override { return bell_.fd(); }
  [[nodiscard]] std::vector<uint64_t> Serve() override;
  [[nodiscard]] Result<std::unique_ptr<RemoteWindow>> Expect(uint64_t session, uint64_t bytes,
                                                             uint32_t slots) override;
  void Forget(uint64_t ticket) {
    windows_.erase(ticket);
    maker_.Forget(ticket);
  }

 private:
  struct Entry {
    ExpectedWindow* window;
    uint64_t session;
  };
  void Handle(const rdma::Event& event, std::vector<uint64_t>& news);
  void Admit(rdma::Owned<rdma_cm_id> id, const WindowHello& hello, std::vector<uint64_t>& news);

  rdma::Owned<rdma_event_channel> channel_;
  rdma::Owned<rdma_cm_id> id_;
  Bell bell_;
  const base::SocketAddress address_;
  bool is_lost_ = false;  // the device
  uint64_t refused_ = 0;
  std::map<uint64_t, Entry> windows_;  // by ticket
  PageMaker maker_;
};

// ---- a window

ExpectedWindow::~ExpectedWindow() { listener_.Forget(ticket_); }

void ExpectedWindow::Hold(Result<Pages> pages) {
  if (pages)
    pages_ = std::make_shared<Pages>(std::move(*pages));
  else
    Break(pages.error().message);
}

void ExpectedWindow::Break(const std::string& why) {
  if (mirror_ != nullptr) return mirror_->Break(why);
  if (fault_.empty()) fault_ = why;
}

Result<void> ExpectedWindow::Connect(rdma::Owned<rdma_cm_id> id, const WindowHello& hello) {
  if (!HasRoomFor(hello, pages_->bytes().size())) return Fail(ErrorCode::kBadInput, "its memory is nowhere");
  auto mirror = Mirror::Make(std::move(id), pages_, slots_);
  if (!mirror) return tl::make_unexpected(mirror.error());
  (*mirror)->SetPeer(hello.address, hello.key);
  WindowWelcome welcome;
  welcome.key = (*mirror)->key();
  welcome.address = (*mirror)->address();
  rdma_conn_param answer{};
  answer.private_data = &welcome;
  answer.private_data_len = sizeof(welcome);
  answer.rnr_retry_count = kRetries;
  if (rdma_accept((*mirror)->id(), &answer) != 0) return rdma::FailRdma("accepting");
  mirror_ = std::move(*mirror);
  return {};
}

bool ExpectedWindow::TakeSubmission(Submission& into) {
  if (mirror_ == nullptr || !mirror_->HasMessage() || !HasRoom() || !Fault().empty()) return false;
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
                                                                     uint32_t slots) {
  if (is_lost_) return Fail(ErrorCode::kSystem, "the gateway's RDMA device has gone");
  uint64_t ticket = RandomKey();
  while (windows_.contains(ticket)) ticket = RandomKey();
  auto window = std::make_unique<ExpectedWindow>(*this, ticket, slots);
  windows_[ticket] = {window.get(), session};
  maker_.Ask(ticket, bytes);
  return window;
}

std::vector<uint64_t> WindowListenerOverRdma::Serve() {
  std::vector<uint64_t> news;
  bell_.Hush();
  for (PageMaker::Made& made : maker_.Take()) {
    const auto found = windows_.find(made.ticket);
    if (found == windows_.end()) continue;
    found->second.window->Hold(std::move(made.pages));
    news.push_back(found->second.session);
  }
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
    return Admit(rdma::Owned<rdma_cm_id>(event.id), event.As<WindowHello>().value_or(WindowHello{0, 0}),
                 news);
  if (event.id == id_.get()) {
    spdlog::error("RDMA: {}: clients cannot connect windows until restart", event.Text());
    is_lost_ = true;
    return;
  }
  // Long after the end.
  if (event.type == RDMA_CM_EVENT_TIMEWAIT_EXIT) return;
  for (auto& [ticket, entry] : windows_) {
    if (!entry.window->Has(event.id)) continue;
    if (event.type != RDMA_CM_EVENT_ESTABLISHED)
      entry.window->Break(event.type == RDMA_CM_EVENT_DISCONNECTED ? "the window's connection was closed"
                                                                   : "RDMA: " + event.Text());
    news.push_back(entry.session);
    return;
  }
}

void WindowListenerOverRdma::Admit(rdma::Owned<rdma_cm_id> id, const WindowHello& hello,
                                   std::vector<uint64_t>& news) {
  const auto found = IsUnderstood(hello) ? windows_.find(hello.ticket) : windows_.end();
  if (found == windows_.end() || found->second.window->state() != RemoteWindow::State::kReady) {
    // Few lines, however many come.
    if (std::has_single_bit(++refused_))
      spdlog::warn("RDMA: {} connections of clients refused so far: no ticket that is open, or wrong version",
                   refused_);
    rdma_reject(id.get(), nullptr, 0);
    return;
  }
  ExpectedWindow& window = *found->second.window;
  // An id that goes unaccepted is refused.
  if (const auto connected = window.Connect(std::move(id), hello); !connected)
    window.Break(connected.error().message);
  news.push_back(found->second.session);
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
