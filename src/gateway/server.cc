// SPDX-License-Identifier: Apache-2.0
#include "gateway/server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "base/socket_address.h"
#include "gateway/shm_arrival.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

// Holders in the region table: sessions have their numbers, slices those from here on.
constexpr uint64_t kSliceHolders = uint64_t{1} << 63;
constexpr uint32_t kMaxExecutors = 256;
constexpr uint32_t kMaxUnauthenticated = 32;  // of each listener, without a token as yet
constexpr Duration kArrivalTime = 5s;         // an executor that has not said all by then is let go
constexpr Duration kCleanUpEvery = 500ms;
constexpr Duration kDrainLooksEvery = 10ms;  // whether all is sent
constexpr Duration kLongTurn = 100us;
constexpr int kMaxBeats = 64;   // at once
constexpr int kAsleepFor = 50;  // times as long as others had the CPU

constexpr uint64_t kNumbers = (uint64_t{1} << 56) - 1;  // of a tag
uint64_t Tag(int kind, uint64_t number) { return (static_cast<uint64_t>(kind) << 56) | number; }

}  // namespace

// The CPU time of the gateway's own thread: whoever shares its CPU does not count.
static Time OwnTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec);
}

Time Server::Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

Server::Server(GatewayConfig config, Listeners listeners)
    : config_(std::move(config)),
      listeners_(std::move(listeners)),
      broker_(config_.broker, *this),
      host_{config_, broker_, regions_, Now, [this](uint64_t session) { changed_.push_back(session); }} {}

Server::~Server() {
  // Sessions ask the broker to cancel, executors' memory goes last.
  sessions_.clear();
}

Result<std::unique_ptr<Server>> Server::Create(GatewayConfig config, Listeners listeners) {
  std::unique_ptr<Server> server(new Server(std::move(config), std::move(listeners)));
  if (auto opened = server->Open(); !opened) return tl::make_unexpected(opened.error());
  return server;
}

Result<void> Server::Open() {
  auto reactor = MakeReactor(config_.io);
  if (!reactor) return tl::make_unexpected(reactor.error());
  reactor_ = std::move(*reactor);
  auto posts = MakeEventFd();
  if (!posts) return tl::make_unexpected(posts.error());
  posts_ = std::move(*posts);
  bool watched = Watch(posts_.get(), SourceKind::kPosts, 0);
  if (listeners_.executors) watched = watched && Watch(listeners_.executors.get(), SourceKind::kExecutors, 0);
  if (listeners_.rdma != nullptr)
    watched = watched && Watch(listeners_.rdma->tcp(), SourceKind::kRdmaExecutors, 0) &&
              Watch(listeners_.rdma->events(), SourceKind::kRdma, 0);
  for (size_t i = 0; i < listeners_.frames.size(); i++)
    watched = watched && Watch(listeners_.frames[i].fd.get(), SourceKind::kFrames, i);
  if (!watched)
    return Fail(ErrorCode::kSystem, fmt::format("{}: {}", reactor_->name(), std::strerror(errno)));
  return {};
}

bool Server::Watch(int fd, SourceKind kind, uint64_t number) {
  return reactor_->Watch(fd, Tag(static_cast<int>(kind), number));
}

void Server::Unwatch(int fd, SourceKind kind, uint64_t number) {
  reactor_->Unwatch(fd, Tag(static_cast<int>(kind), number));
}

// ---- the loop

void Server::Post(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    posted_.push_back(std::move(work));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(posts_.get(), &one, sizeof(one));
}

void Server::Stop() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  Post([] {});
}

void Server::Drain() {
  Post([this] {
    if (!draining_since_) draining_since_ = Now();
  });
}

bool Server::IsReady() {
  const auto slices = broker_.Slices();
  return !draining_since_ &&
         std::any_of(slices.begin(), slices.end(), [](const auto& slice) { return slice.alive; });
}

bool Server::Drained(Time now) {
  if (!draining_since_) return false;
  const Time closes = *draining_since_ + config_.drain_serve;
  if (now < closes) return false;
  broker_.Close();
  return broker_.memory_held() == 0 && broker_.queued() == 0 && broker_.running() == 0
             ? true
             : now >= closes + config_.drain_finish;
}

std::shared_ptr<const std::vector<Broker::NumberedCard>> Server::Models() {
  const std::lock_guard lock(mutex_);
  return models_;
}

void Server::RunPosts() {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(posts_.get(), &count, sizeof(count));
  std::vector<std::function<void()>> work;
  {
    const std::lock_guard lock(mutex_);
    work.swap(posted_);
  }
  for (const auto& piece : work) piece();
}

void Server::Run() {
  Time active = Now();
  Time asleep_until{0}, offered_at{0};
  bool offered = false;
  uint64_t delivered = 0;
  for (uint32_t turn = 0;; turn++) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_) break;
    }
    if (on_request_) woken_ = OwnTime();
    const bool any = PollRings();
    const Time now = Now();
    if (const auto next = broker_.NextTick(); next && *next <= now) broker_.Tick(now);
    CleanUp(now);
    if (Drained(now)) break;
    const uint64_t delivered_now = broker_.counts().delivered;
    if (any || delivered_now != delivered) active = now;
    delivered = delivered_now;
    // Others had this CPU when it was offered, and for long: staying awake on it would not be for free.
    if (offered && now - offered_at > kLongTurn) asleep_until = now + kAsleepFor * (now - offered_at);
    offered = false;
    // Awake only for slices' sake: they are about to answer, and the host's CPU need not wake anybody. With
    // nothing running, clients may want this CPU.
    if (any || (broker_.running() > 0 && now - active < config_.spin && now >= asleep_until)) {
      // Rings are looked at each turn, sockets now and then.
      if (turn % 8 == 0 || reactor_->Wishes()) HandleEvents(0);
      if (!any) {
        offered = true;
        offered_at = now;
        sched_yield();
      }
      continue;
    }
    if (!PrepareToWait()) {
      // Something has come. Whatever it is, nobody's ring keeps sockets waiting.
      HandleEvents(0);
      continue;
    }
    HandleEvents(SleepTime(now));
    DoneWaiting();
    active = Now() - config_.spin;
  }
  RunPosts();
  reactor_->End();
}

int Server::SleepTime(Time now) const {
  Duration most = kCleanUpEvery;
  if (const auto next = broker_.NextTick()) most = std::min(most, std::max(*next - now, Duration(0)));
  if (draining_since_) most = std::min(most, kDrainLooksEvery);
  return static_cast<int>((most + 999us) / 1ms);
}

void Server::HandleEvents(int timeout_ms) { reactor_->Wait(timeout_ms, *this); }

void Server::Ready(uint64_t tag) {
  const uint64_t number = tag & kNumbers;
  switch (static_cast<SourceKind>(tag >> 56)) {
    case SourceKind::kFrames:
      return Accept(number);
    case SourceKind::kExecutors:
    case SourceKind::kRdmaExecutors:
      return AcceptExecutors(static_cast<SourceKind>(tag >> 56));
    case SourceKind::kRdma:
      for (const uint64_t executor : listeners_.rdma->Serve()) HandleExecutor(executor);
      return;
    case SourceKind::kPosts:
      return RunPosts();
    case SourceKind::kExecutor:
      return HandleExecutor(number);
    case SourceKind::kSession:
    case SourceKind::kBell:
      return;  // a bell has done its work by waking us
  }
}

void Server::Moved(uint64_t tag) {
  const auto found = sessions_.find(tag & kNumbers);
  if (found != sessions_.end() && found->second.session->over()) EndSession(found->first);
}

bool Server::PollRings() {
  bool any = false;
  std::vector<std::pair<uint64_t, std::string>> broken;
  for (auto& [number, connection] : executors_) {
    if (!connection->link || !connection->link->HasCompletions()) continue;
    any = true;
    const Time heard = woken_;
    const uint32_t first = connection->first_slice;
    const bool good = connection->link->TakeCompletions(
        [&](uint32_t slice, const Completion& completion, std::span<const std::byte> outputs) {
          const Time now = Now();
          broker_.Complete(first + slice, completion.id, static_cast<Status>(completion.status), outputs,
                           Duration(completion.busy_ns), now);
          if (!on_request_) return;
          const auto found = times_.find(completion.id);
          if (found == times_.end()) return;
          found->second.heard = heard;
          found->second.answered = OwnTime();
          on_request_(found->second);
          times_.erase(found);
        });
    if (!good) broken.emplace_back(number, connection->link->Fault());
  }
  for (const auto& [number, fault] : broken) EndExecutor(number, fault);
  for (auto& [number, client] : sessions_)
    if (client.session->TakeSubmissions()) any = true;
  return any;
}

bool Server::PrepareToWait() {
  bool quiet = true;
  for (auto& [number, connection] : executors_)
    if (connection->link && !connection->link->PrepareToWait()) quiet = false;
  for (auto& [number, client] : sessions_)
    if (client.session->takes_submissions() && !client.session->window()->PrepareToWaitForSubmissions())
      quiet = false;
  if (!quiet) DoneWaiting();
  return quiet;
}

void Server::DoneWaiting() {
  for (auto& [number, connection] : executors_)
    if (connection->link) connection->link->DoneWaiting();
  for (auto& [number, client] : sessions_)
    if (Channel* window = client.session->window()) window->DoneWaitingForSubmissions();
}

void Server::CleanUp(Time now) {
  for (size_t i = 0; i < changed_.size(); i++) {
    const auto found = sessions_.find(changed_[i]);
    if (found == sessions_.end()) continue;
    Session& session = *found->second.session;
    if (!session.over()) reactor_->Update(Tag(static_cast<int>(SourceKind::kSession), changed_[i]));
    if (session.over()) {
      EndSession(changed_[i]);
      continue;
    }
    if (Channel* window = session.window(); window != nullptr && !found->second.hears_window)
      found->second.hears_window =
          Watch(window->bells().submissions.get(), SourceKind::kBell, session.number());
  }
  changed_.clear();
  for (const uint64_t number : std::exchange(abandoned_, {}))
    EndExecutor(number, "it neither answers nor dies");
  if (now < next_cleanup_) return;
  next_cleanup_ = now + kCleanUpEvery;
  std::vector<uint64_t> quiet;
  for (const auto& [number, client] : sessions_)
    if ((client.session->idle() && now - client.session->last_heard() > config_.idle) ||
        client.session->IsLate(now, config_.receive))
      quiet.push_back(number);
  for (const uint64_t number : quiet) EndSession(number);
  std::vector<uint64_t> late;
  for (const auto& [number, connection] : executors_)
    if (!connection->link && now - connection->since > kArrivalTime) late.push_back(number);
  for (const uint64_t number : late)
    Refuse(number, "it did not say in time what it offers, or show its slices");
  for (const uint64_t tag : std::exchange(left_waiting_, {})) Ready(tag);
}

// ---- clients

// The next that waits at a listener. Nobody: all are taken, or it is asked again when the time of cleaning up
// comes, since nothing more is told of those who wait already.
base::Fd Server::AcceptNext(int listener, uint64_t tag) {
  for (;;) {
    base::Fd socket(accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (socket) return socket;
    if (errno == ECONNABORTED || errno == EINTR) continue;
    if (errno == EAGAIN) {
      accept_failed_ = false;
    } else {
      if (!accept_failed_)
        spdlog::warn("accept failed: {}; will retry pending connections", std::strerror(errno));
      accept_failed_ = true;
      if (std::find(left_waiting_.begin(), left_waiting_.end(), tag) == left_waiting_.end())
        left_waiting_.push_back(tag);
    }
    return {};
  }
}

void Server::Accept(size_t index) {
  const Listeners::Frames& listener = listeners_.frames[index];
  for (;;) {
    base::Fd socket = AcceptNext(listener.fd.get(), Tag(static_cast<int>(SourceKind::kFrames), index));
    if (!socket) return;
    if (sessions_.size() >= config_.connections) {
      counts_.sessions_refused++;
      continue;  // closed: it sees that at once
    }
    if (!listener.is_unix) {
      const int on = 1;
      setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    }
    const uint64_t number = ++last_number_;
    auto session = std::make_unique<Session>(host_, number, std::move(socket), listener.is_unix);
    if (!reactor_->Add(*session, session->socket(), Tag(static_cast<int>(SourceKind::kSession), number)))
      continue;
    sessions_[number].session = std::move(session);
    counts_.sessions_ever++;
  }
}

void Server::EndSession(uint64_t number) {
  const auto found = sessions_.find(number);
  // Out of the map first: its end cancels requests, and what follows from that must not find it.
  const ClientConnection client = std::move(found->second);
  sessions_.erase(found);
  if (!client.session->fault().empty()) {
    counts_.faults++;
    spdlog::warn("client {}: {}", number, client.session->fault());
  }
  reactor_->Remove(Tag(static_cast<int>(SourceKind::kSession), number));
  if (client.hears_window)
    Unwatch(client.session->window()->bells().submissions.get(), SourceKind::kBell, number);
}

// ---- executors

static std::string PeerOf(int socket) {
  const base::SocketAddress peer = base::SocketAddress::OfPeer(socket);
  return peer.length == 0 ? "an unknown address" : peer.Host();
}

void Server::AcceptExecutors(SourceKind kind) {
  const bool is_remote = kind == SourceKind::kRdmaExecutors;
  for (;;) {
    const int listener = is_remote ? listeners_.rdma->tcp() : listeners_.executors.get();
    base::Fd socket = AcceptNext(listener, Tag(static_cast<int>(kind), 0));
    if (!socket) return;
    EndOldUnauthenticated(is_remote);
    if (executors_.size() >= kMaxExecutors + 2 * kMaxUnauthenticated) continue;
    const uint64_t number = ++last_number_;
    if (!Watch(socket.get(), SourceKind::kExecutor, number)) continue;
    auto connection = std::make_unique<ExecutorConnection>();
    connection->socket = std::move(socket);
    connection->is_remote = is_remote;
    if (is_remote) {
      const std::string peer = PeerOf(connection->socket.get());
      connection->name = "at " + peer;
      connection->host = peer;
      connection->arrival = listeners_.rdma->Meet(connection->socket.get(), number);
    } else {
      connection->arrival = std::make_unique<ShmArrival>(connection->socket.get(), regions_,
                                                         kSliceHolders + number * kMaxSlicesPerExecutor,
                                                         config_.executor_trust);
    }
    connection->since = Now();
    executors_[number] = std::move(connection);
  }
}

// Who has not shown a token yet does not keep others out: the oldest go, of those that came by the same
// listener, so that nobody of the network sends a local one away.
void Server::EndOldUnauthenticated(bool remote) {
  std::vector<uint64_t> unauthenticated;
  for (const auto& [number, connection] : executors_)
    if (connection->is_remote == remote && !connection->link && !connection->arrival->IsTrusted())
      unauthenticated.push_back(number);
  if (unauthenticated.size() < kMaxUnauthenticated) return;
  Refuse(*std::min_element(unauthenticated.begin(), unauthenticated.end()),
         "others came, and it has shown no token");
}

void Server::HandleExecutor(uint64_t number) {
  const auto found = executors_.find(number);
  if (found == executors_.end()) return;
  ExecutorConnection& connection = *found->second;
  if (connection.link) {
    // All that came: nothing more is told of it.
    char beats[64];
    for (int i = 0; i < kMaxBeats; i++) {
      const ssize_t got = recv(connection.socket.get(), beats, sizeof(beats), MSG_DONTWAIT);
      if (got < 0 && errno == EINTR) continue;
      if (got < 0 && errno == EAGAIN) return;
      if (got <= 0) return EndExecutor(number, "");
      broker_.Beat(connection.number, Now());
      counts_.beats++;
    }
    return EndExecutor(number, "it talks on and on after it has joined");
  }
  const auto step = connection.arrival->Read();
  if (step && *step == ExecutorArrival::Step::kMore) {
    if (connection.arrival->IsTrusted()) connection.since = Now();  // it is at work on it
    return;
  }
  if (step && *step == ExecutorArrival::Step::kGone) return EndExecutor(number, "");
  const auto joined = step ? TakeArrival(connection, number) : tl::make_unexpected(step.error());
  // What came behind the offer, its end among it, has been told of already.
  if (joined) return HandleExecutor(number);
  Refuse(number, joined.error().message);
}

void Server::Refuse(uint64_t number, const std::string& why) {
  const auto found = executors_.find(number);
  if (found == executors_.end()) return;
  ExecutorConnection& connection = *found->second;
  counts_.executors_refused++;
  [[maybe_unused]] const auto told = connection.arrival->Answer(why);  // it may have gone already
  if (!connection.arrival->offer().name.empty()) connection.name = connection.arrival->offer().name;
  // Unauthenticated connections get few lines, however many come.
  if (connection.arrival->IsTrusted() || std::has_single_bit(++unauthenticated_refused_))
    spdlog::warn("executor {}: refused: {}", connection.name, why);
  EndExecutor(number, "");
}

Result<void> Server::TakeArrival(ExecutorConnection& connection, uint64_t number) {
  ExecutorOffer offer = connection.arrival->offer();
  if (offer.host.empty()) offer.host = connection.host;
  connection.name = offer.name;
  auto link = connection.arrival->TakeLink();
  if (!link) return tl::make_unexpected(link.error());
  const auto joined = broker_.AddExecutor(offer, Now());
  if (!joined) return tl::make_unexpected(joined.error());
  connection.number = joined->executor;
  connection.first_slice = joined->first_slice;
  connection.link = std::move(*link);
  const size_t slices = offer.slices.size();
  slice_owner_.resize(std::max(slice_owner_.size(), joined->first_slice + slices));
  std::fill_n(slice_owner_.begin() + joined->first_slice, slices, number);
  spdlog::info("executor {}: joined with {} slices", connection.name, slices);
  for (const ModelCard& card : offer.models)
    if (const auto fits = broker_.CanFit(card.InputBytes(card.most_rows), card.OutputBytes(card.most_rows));
        !fits)
      spdlog::warn("executor {}: model {}: requests of {} rows, which it offers, are refused: {}",
                   connection.name, card.name, card.most_rows, fits.error().message);
  Watch(connection.link->bell(), SourceKind::kBell, number);
  if (auto told = connection.arrival->Answer(""); !told) return tl::make_unexpected(told.error());
  auto models = std::make_shared<std::vector<Broker::NumberedCard>>(broker_.Cards());
  {
    const std::lock_guard lock(mutex_);
    models_ = std::move(models);
  }
  if (on_executor_) on_executor_(connection.name, true);
  broker_.Retry(Now());
  return {};
}

void Server::EndExecutor(uint64_t number, const std::string& why) {
  const auto found = executors_.find(number);
  if (found == executors_.end()) return;
  const std::unique_ptr<ExecutorConnection> connection = std::move(found->second);
  executors_.erase(found);
  Unwatch(connection->socket.get(), SourceKind::kExecutor, number);
  if (connection->link) {
    Unwatch(connection->link->bell(), SourceKind::kBell, number);
    // What it had done before it died counts: its results lie in memory that is still here.
    [[maybe_unused]] const bool good = connection->link->TakeCompletions(
        [&](uint32_t slice, const Completion& completion, std::span<const std::byte> outputs) {
          broker_.Complete(connection->first_slice + slice, completion.id,
                           static_cast<Status>(completion.status), outputs, Duration(completion.busy_ns),
                           Now());
        });
    spdlog::warn("executor {}: gone{}{}", connection->name, why.empty() ? "" : ": ", why);
    broker_.RemoveExecutor(connection->number, Now());
    if (on_executor_) on_executor_(connection->name, false);
  }
}

bool Server::Deliver(const Delivery& delivery) {
  const auto found = executors_.find(slice_owner_[delivery.slice]);
  if (found == executors_.end() || !found->second->link) return false;
  ExecutorConnection& connection = *found->second;
  if (!connection.link->Deliver(delivery, delivery.slice - connection.first_slice)) return false;
  if (on_request_) times_[delivery.id] = {woken_, OwnTime(), {}, {}};
  return true;
}

void Server::GiveUp(uint32_t slice, uint32_t cell, uint64_t id) {
  const auto found = executors_.find(slice_owner_[slice]);
  if (found == executors_.end() || !found->second->link) return;
  found->second->link->GiveUp(slice - found->second->first_slice, cell, id);
}

void Server::Abandon(uint32_t executor) {
  for (const auto& [number, connection] : executors_)
    if (connection->link && connection->number == executor) abandoned_.push_back(number);
}

ServerCounts Server::counts() const {
  ServerCounts counts = counts_;
  counts.sessions = sessions_.size();
  for (const auto& [number, connection] : executors_) counts.executors += connection->link != nullptr;
  return counts;
}

}  // namespace spillway::gateway
