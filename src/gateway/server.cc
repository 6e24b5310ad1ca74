// SPDX-License-Identifier: Apache-2.0
#include "gateway/server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

// Holders in the region table: sessions have their numbers, slices those from here on.
constexpr uint64_t kSliceHolders = uint64_t{1} << 63;
constexpr uint32_t kMostExecutors = 256;
constexpr Duration kArrivalTime = 5s;  // an executor that has not said all by then is let go
constexpr Duration kCleanUpEvery = 500ms;

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
  epoll_ = Descriptor(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return Fail(ErrorCode::kSystem, fmt::format("epoll_create1: {}", std::strerror(errno)));
  auto posts = MakeEventFd();
  if (!posts) return tl::make_unexpected(posts.error());
  posts_ = std::move(*posts);
  bool watched = Watch(posts_.get(), SourceKind::kPosts, 0, EPOLLIN);
  watched = watched && Watch(listeners_.executors.get(), SourceKind::kExecutors, 0, EPOLLIN);
  for (size_t i = 0; i < listeners_.frames.size(); i++)
    watched = watched && Watch(listeners_.frames[i].fd.get(), SourceKind::kFrames, i, EPOLLIN);
  if (!watched) return Fail(ErrorCode::kSystem, fmt::format("epoll_ctl: {}", std::strerror(errno)));
  return {};
}

bool Server::Watch(int fd, SourceKind kind, uint64_t number, uint32_t events) {
  epoll_event event{};
  event.events = events;
  event.data.u64 = Tag(static_cast<int>(kind), number);
  return epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ||
         (errno == EEXIST && epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event) == 0);
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

std::shared_ptr<const std::vector<ModelCard>> Server::Models() {
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
    if (any) active = now;
    // Awake only for slices' sake: they are about to answer, and the host's CPU need not wake anybody. With
    // nothing running, clients may want this CPU.
    if (any || (broker_.running() > 0 && now - active < config_.spin)) {
      // Rings are looked at each turn, sockets now and then.
      if (turn % 8 == 0) HandleEvents(0);
      if (!any) sched_yield();
      continue;
    }
    if (!PrepareToWait()) continue;
    HandleEvents(SleepTime(now));
    DoneWaiting();
    active = Now() - config_.spin;
  }
  RunPosts();
}

int Server::SleepTime(Time now) const {
  Duration most = kCleanUpEvery;
  if (const auto next = broker_.NextTick()) most = std::min(most, std::max(*next - now, Duration(0)));
  return static_cast<int>((most + 999us) / 1ms);
}

void Server::HandleEvents(int timeout_ms) {
  epoll_event events[64];
  const int count = epoll_wait(epoll_.get(), events, 64, timeout_ms);
  if (on_request_) woken_ = OwnTime();
  for (int i = 0; i < count; i++) {
    const auto kind = static_cast<SourceKind>(events[i].data.u64 >> 56);
    const uint64_t number = events[i].data.u64 & ((uint64_t{1} << 56) - 1);
    switch (kind) {
      case SourceKind::kFrames:
        Accept(listeners_.frames[number]);
        break;
      case SourceKind::kExecutors:
        AcceptExecutor();
        break;
      case SourceKind::kPosts:
        RunPosts();
        break;
      case SourceKind::kSession:
        HandleSession(number, events[i].events);
        break;
      case SourceKind::kExecutor:
        HandleExecutor(number);
        break;
      case SourceKind::kBell:
        break;  // edge-triggered: it has done its work by waking us
    }
  }
}

bool Server::PollRings() {
  bool any = false;
  std::vector<uint64_t> broken;
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
    if (!good) broken.push_back(number);
  }
  for (const uint64_t number : broken) EndExecutor(number, "it breaks the rules of its channel");
  for (auto& [number, session] : sessions_)
    if (session->TakeSubmissions()) any = true;
  return any;
}

bool Server::PrepareToWait() {
  bool quiet = true;
  for (auto& [number, connection] : executors_)
    if (connection->link && !connection->link->PrepareToWait()) quiet = false;
  for (auto& [number, session] : sessions_)
    if (Channel* window = session->window(); window != nullptr && !window->PrepareToWaitForSubmissions())
      quiet = false;
  if (!quiet) DoneWaiting();
  return quiet;
}

void Server::DoneWaiting() {
  for (auto& [number, connection] : executors_)
    if (connection->link) connection->link->DoneWaiting();
  for (auto& [number, session] : sessions_)
    if (Channel* window = session->window()) window->DoneWaitingForSubmissions();
}

void Server::CleanUp(Time now) {
  for (size_t i = 0; i < changed_.size(); i++) {
    const auto found = sessions_.find(changed_[i]);
    if (found == sessions_.end()) continue;
    Session& session = *found->second;
    if (session.over()) {
      EndSession(changed_[i]);
      continue;
    }
    const uint32_t events =
        (session.wants_to_read() ? EPOLLIN : 0U) | (session.wants_to_write() ? EPOLLOUT : 0U);
    epoll_event event{};
    event.events = events;
    event.data.u64 = Tag(static_cast<int>(SourceKind::kSession), session.number());
    epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, session.socket(), &event);
    if (Channel* window = session.window())
      Watch(window->bells().submissions.get(), SourceKind::kBell, session.number(), EPOLLIN | EPOLLET);
  }
  changed_.clear();
  for (const uint64_t number : std::exchange(abandoned_, {}))
    EndExecutor(number, "it neither answers nor dies");
  if (now < next_cleanup_) return;
  next_cleanup_ = now + kCleanUpEvery;
  std::vector<uint64_t> quiet;
  for (const auto& [number, session] : sessions_)
    if (session->idle() && now - session->last_heard() > config_.idle) quiet.push_back(number);
  for (const uint64_t number : quiet) EndSession(number);
  std::vector<uint64_t> late;
  for (const auto& [number, connection] : executors_)
    if (!connection->link && now - connection->since > kArrivalTime) late.push_back(number);
  for (const uint64_t number : late) EndExecutor(number, "it did not say what it offers");
}

// ---- clients

void Server::Accept(const Listeners::Frames& listener) {
  for (;;) {
    Descriptor socket(accept4(listener.fd.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
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
    if (!Watch(socket.get(), SourceKind::kSession, number, EPOLLIN)) continue;
    sessions_[number] = std::make_unique<Session>(host_, number, std::move(socket), listener.is_unix);
    counts_.sessions_ever++;
  }
}

void Server::HandleSession(uint64_t number, uint32_t events) {
  const auto found = sessions_.find(number);
  if (found == sessions_.end()) return;
  Session& session = *found->second;
  bool lives = true;
  if ((events & EPOLLOUT) != 0) lives = session.Writable();
  if (lives && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) lives = session.Readable();
  // Both directions are shut: nobody is there to answer.
  if (!lives || session.over() || (events & (EPOLLHUP | EPOLLERR)) != 0) {
    EndSession(number);
    return;
  }
  if ((events & EPOLLOUT) != 0 || session.wants_to_write()) changed_.push_back(number);
}

void Server::EndSession(uint64_t number) {
  const auto found = sessions_.find(number);
  if (!found->second->fault().empty()) {
    counts_.faults++;
    spdlog::warn("client {}: {}", number, found->second->fault());
  }
  // Out of the map first: its end cancels requests, and what follows from that must not find it.
  const std::unique_ptr<Session> session = std::move(found->second);
  sessions_.erase(found);
}

// ---- executors

void Server::AcceptExecutor() {
  for (;;) {
    Descriptor socket(accept4(listeners_.executors.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket) return;
    if (executors_.size() >= kMostExecutors) continue;
    const uint64_t number = ++last_number_;
    if (!Watch(socket.get(), SourceKind::kExecutor, number, EPOLLIN)) continue;
    auto connection = std::make_unique<ExecutorConnection>();
    connection->socket = std::move(socket);
    connection->since = Now();
    executors_[number] = std::move(connection);
  }
}

void Server::HandleExecutor(uint64_t number) {
  for (;;) {
    const auto found = executors_.find(number);
    if (found == executors_.end()) return;
    ExecutorConnection& connection = *found->second;
    static std::vector<std::byte> buffer(kMostExecutorMessage);
    auto received = ReceiveWithDescriptors(connection.socket.get(), buffer);
    if (!received) return EndExecutor(number, received.error().message);
    if (received->would_block) return;
    if (received->bytes == 0) return EndExecutor(number, "");
    if (connection.link) return EndExecutor(number, "it talks after it has joined");
    const auto complete =
        connection.arrival.Take(std::span(buffer).first(received->bytes), std::move(received->fds));
    const auto joined = complete && *complete ? TakeArrival(connection, number) : complete;
    if (joined) continue;
    counts_.executors_refused++;
    if (auto told = AnswerArrival(connection.socket.get(), joined.error().message); !told)
      spdlog::warn("executor: {}", told.error().message);
    return EndExecutor(number, joined.error().message);
  }
}

Result<bool> Server::TakeArrival(ExecutorConnection& connection, uint64_t number) {
  connection.name = connection.arrival.offer().name;
  auto link = std::make_unique<ExecutorLink>(connection.arrival.TakeSlices(), regions_,
                                             kSliceHolders + number * kMostSlicesPerExecutor);
  if (!link->keys_are_good()) return Fail(ErrorCode::kConflict, "executor: its keys are in use");
  const auto joined = broker_.AddExecutor(connection.arrival.offer(), Now());
  if (!joined) return tl::make_unexpected(joined.error());
  connection.number = joined->executor;
  connection.first_slice = joined->first_slice;
  connection.link = std::move(link);
  const size_t slices = connection.arrival.offer().slices.size();
  slice_owner_.resize(std::max(slice_owner_.size(), joined->first_slice + slices));
  std::fill_n(slice_owner_.begin() + joined->first_slice, slices, number);
  spdlog::info("executor {}: joined with {} slices", connection.name, slices);
  Watch(connection.link->bell(), SourceKind::kBell, number, EPOLLIN | EPOLLET);
  if (auto told = AnswerArrival(connection.socket.get(), ""); !told) return tl::make_unexpected(told.error());
  auto models = std::make_shared<std::vector<ModelCard>>();
  for (uint32_t i = 0; i < broker_.model_count(); i++) models->push_back(broker_.model(i));
  {
    const std::lock_guard lock(mutex_);
    models_ = std::move(models);
  }
  broker_.Retry(Now());
  return true;
}

void Server::EndExecutor(uint64_t number, const std::string& why) {
  const auto found = executors_.find(number);
  if (found == executors_.end()) return;
  const std::unique_ptr<ExecutorConnection> connection = std::move(found->second);
  executors_.erase(found);
  if (connection->link) {
    // What it had done before it died counts: its results lie in memory that is still here.
    [[maybe_unused]] const bool good = connection->link->TakeCompletions(
        [&](uint32_t slice, const Completion& completion, std::span<const std::byte> outputs) {
          broker_.Complete(connection->first_slice + slice, completion.id,
                           static_cast<Status>(completion.status), outputs, Duration(completion.busy_ns),
                           Now());
        });
    spdlog::warn("executor {}: gone{}{}", connection->name, why.empty() ? "" : ": ", why);
    broker_.RemoveExecutor(connection->number, Now());
  } else if (!why.empty()) {
    spdlog::warn("executor {}: refused: {}", connection->name, why);
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
