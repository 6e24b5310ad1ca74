// SPDX-License-Identifier: Apache-2.0
#include "gateway/server.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <spdlog/spdlog.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/fd.h"
#include "gateway/alertness.h"

namespace spillway::gateway {
namespace {

using namespace std::chrono_literals;

constexpr Duration kArrivalTime = 5s;  // an executor that has not said all by then is let go
constexpr Duration kCleanUpEvery = 500ms;
constexpr Duration kDrainLooksEvery = 10ms;  // whether all is sent

constexpr uint64_t kNumbers = (uint64_t{1} << 56) - 1;  // of a tag
uint64_t Tag(int kind, uint64_t number) { return (static_cast<uint64_t>(kind) << 56) | number; }

}  // namespace

Time Server::OwnTime() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return std::chrono::seconds(now.tv_sec) + Duration(now.tv_nsec);
}

Time Server::Now() { return std::chrono::steady_clock::now().time_since_epoch(); }

Server::Server(GatewayConfig config, Listeners listeners)
    : config_(std::move(config)),
      listeners_(std::move(listeners)),
      broker_(config_.broker, *this),
      windows_(std::make_unique<WindowMemory>(broker_, config_.connections,
                                              [this](std::function<void()> work) { Post(std::move(work)); })),
      host_{config_,
            broker_,
            regions_,
            Now,
            [this](uint64_t session) { changed_.push_back(session); },
            [this](uint64_t session, std::string_view fault) { TellFault(session, fault); },
            [this](uint32_t tenant) { return TakesAnother(tenant); },
            *windows_,
            listeners_.windows.get(),
            [this](Status status) { CountRefused(Front::kFrames, status); }} {}

Server::~Server() {
  // Sessions ask the broker to cancel and have their windows freed, which over RDMA were made by what listens
  // for them, which may still hold some; executors' memory goes last.
  sessions_.clear();
  windows_.reset();
  listeners_.windows.reset();
}

Result<std::unique_ptr<Server>> Server::Create(GatewayConfig config, Listeners listeners) {
  std::unique_ptr<Server> server(new Server(std::move(config), std::move(listeners)));
  if (auto opened = server->Open(); !opened) return tl::make_unexpected(opened.error());
  return server;
}

Result<void> Server::Open() {
  auto reactor = Reactor::Create();
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
  if (listeners_.windows != nullptr)
    watched = watched && Watch(listeners_.windows->events(), SourceKind::kWindows, 0);
  for (size_t i = 0; i < listeners_.frames.size(); i++)
    watched = watched && Watch(listeners_.frames[i].fd.get(), SourceKind::kFrames, i);
  if (!watched) return Fail(ErrorCode::kSystem, fmt::format("epoll: {}", std::strerror(errno)));
  return {};
}

bool Server::Watch(int fd, SourceKind kind, uint64_t number) {
  return reactor_->Watch(fd, Tag(static_cast<int>(kind), number));
}

// ---- the loop

void Server::Post(std::function<void()> work) {
  {
    const base::MutexLock lock(mutex_);
    posted_.push_back(std::move(work));
  }
  const uint64_t one = 1;
  [[maybe_unused]] const ssize_t wrote = write(posts_.get(), &one, sizeof(one));
}

void Server::Stop() {
  {
    const base::MutexLock lock(mutex_);
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
  return !draining_since_ && std::any_of(slices.begin(), slices.end(),
                                         [](const auto& slice) { return slice.alive && !slice.is_starting; });
}

bool Server::Drained(Time now) {
  if (!draining_since_) return false;
  const Time closes = *draining_since_ + config_.drain_serve;
  if (now < closes) return false;
  broker_.Close(now);
  closed_ = true;
  const bool is_sent = std::all_of(sessions_.begin(), sessions_.end(), [](const auto& entry) {
    ServedWindow* window = entry.second.session->window();
    return window == nullptr || window->HasSentAll();
  });
  const bool is_finished = unfinished_.use_count() == 1;
  return (is_sent && is_finished && broker_.memory_held() == 0 && broker_.queued() == 0 &&
          broker_.running() == 0) ||
         now >= closes + config_.drain_finish;
}

std::shared_ptr<const void> Server::Unfinished() const { return closed_ ? nullptr : unfinished_; }

std::shared_ptr<const std::vector<Broker::NumberedCard>> Server::Models() {
  const base::MutexLock lock(mutex_);
  return models_;
}

void Server::RunPosts() {
  uint64_t count;
  [[maybe_unused]] const ssize_t got = read(posts_.get(), &count, sizeof(count));
  std::vector<std::function<void()>> work;
  {
    const base::MutexLock lock(mutex_);
    work.swap(posted_);
  }
  for (const auto& piece : work) piece();
}

void Server::Run() {
  Alertness alertness(config_.spin);
  std::optional<Time> offered;       // the CPU, to others
  std::pair<uint64_t, size_t> work;  // delivered so far, running
  prctl(PR_SET_TIMERSLACK, 1000UL);  // ns: what is to be heard within microseconds is not put off for 50
  for (uint32_t turn = 0;; turn++) {
    {
      const base::MutexLock lock(mutex_);
      if (stop_) break;
    }
    if (on_request_) woken_ = OwnTime();
    const bool any = PollRings();
    const Time now = Now();
    if (const auto next = broker_.NextTick(); next && *next <= now) broker_.Tick(now);
    CleanUp(now);
    if (Drained(now)) break;
    if (const std::pair is{broker_.counts().delivered, broker_.running()};
        config_.spin > Duration(0) && (any || is != work)) {
      work = is;
      alertness.Expect(broker_.NextEnd());
    }
    if (offered) alertness.Shared(*offered, now);
    offered.reset();
    if (any || alertness.IsAwake(now)) {
      // Rings are looked at each turn, sockets now and then.
      if (turn % 8 == 0) HandleEvents(Duration(0));
      if (!any) {
        offered = now;
        sched_yield();
      }
      continue;
    }
    if (!PrepareToWait()) {
      // Something has come. Whatever it is, nobody's ring keeps sockets waiting.
      HandleEvents(Duration(0));
      continue;
    }
    HandleEvents(std::min(SleepTime(now), alertness.MaySleep(now).value_or(Duration::max())));
    DoneWaiting();
  }
  RunPosts();
}

Duration Server::SleepTime(Time now) const {
  Duration most = kCleanUpEvery;
  if (const auto next = broker_.NextTick()) most = std::min(most, std::max(*next - now, Duration(0)));
  if (draining_since_) most = std::min(most, kDrainLooksEvery);
  return most;
}

void Server::HandleEvents(Duration most) { reactor_->Wait(most, *this); }

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
    case SourceKind::kWindows:
      for (const uint64_t session : listeners_.windows->Serve())
        if (const auto found = sessions_.find(session); found != sessions_.end())
          found->second.session->HandleWindowNews();
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
    if (client.session->takes_submissions() && !client.session->window()->PrepareToWait()) quiet = false;
  if (!quiet) DoneWaiting();
  return quiet;
}

void Server::DoneWaiting() {
  for (auto& [number, connection] : executors_)
    if (connection->link) connection->link->DoneWaiting();
  for (auto& [number, client] : sessions_)
    if (ServedWindow* window = client.session->window()) window->DoneWaiting();
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
    if (ServedWindow* window = session.window();
        window != nullptr && window->bell() >= 0 && !found->second.hears_window)
      found->second.hears_window = Watch(window->bell(), SourceKind::kBell, session.number());
  }
  changed_.clear();
  for (const uint64_t number : std::exchange(abandoned_, {}))
    EndExecutor(number, "it does not answer and was dropped");
  if (now < next_cleanup_) return;
  next_cleanup_ = now + kCleanUpEvery;
  std::vector<uint64_t> quiet;
  for (const auto& [number, client] : sessions_) {
    client.session->EndLateWindow(now, config_.receive);
    client.session->FreeIdleBuffers();
    if ((client.session->idle() && now - client.session->last_heard() > config_.idle) ||
        client.session->IsLate(now, config_.receive))
      quiet.push_back(number);
  }
  for (const uint64_t number : quiet) EndSession(number);
  std::vector<uint64_t> late;
  for (const auto& [number, connection] : executors_)
    if (!connection->link && now - connection->since > kArrivalTime) late.push_back(number);
  for (const uint64_t number : late) Refuse(number, "timed out before it had sent its offer and its slices");
  std::vector<uint64_t> never_ready;
  for (const auto& [number, connection] : executors_)
    if (connection->link && !connection->is_ready && now - connection->since > config_.start)
      never_ready.push_back(number);
  for (const uint64_t number : never_ready)
    EndExecutor(number, fmt::format("it was not ready within {:g} s (limits.start)",
                                    std::chrono::duration<double>(config_.start).count()));
  for (const uint64_t tag : std::exchange(left_waiting_, {})) Ready(tag);
}

// ---- clients

// The next that waits at a listener, whose source that is. Nobody: all are taken, or it is asked again when
// the time of cleaning up comes, since nothing more is told of those who wait already.
base::Fd Server::AcceptNext(int listener, SourceKind kind, uint64_t number) {
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
      const uint64_t tag = Tag(static_cast<int>(kind), number);
      if (std::find(left_waiting_.begin(), left_waiting_.end(), tag) == left_waiting_.end())
        left_waiting_.push_back(tag);
    }
    return {};
  }
}

void Server::Accept(size_t index) {
  const Listeners::Frames& listener = listeners_.frames[index];
  for (int taken = 0;; taken++) {
    if (taken == kAcceptsPerTurn) return Post([this, index] { Accept(index); });
    base::Fd socket = AcceptNext(listener.fd.get(), SourceKind::kFrames, index);
    if (!socket) return;
    if (sessions_.size() >= config_.connections) EndOldStranger(listener.is_unix);
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

// Who has said no hello keeps no tenant out: the one that came first goes, of those who came as the new one
// does if there is any.
void Server::EndOldStranger(bool is_unix) {
  std::optional<uint64_t> alike, other;
  for (const auto& [number, client] : sessions_) {
    if (client.session->tenant()) continue;
    std::optional<uint64_t>& oldest = client.session->is_unix() == is_unix ? alike : other;
    oldest = std::min(oldest.value_or(number), number);
  }
  if (!alike && !other) return;
  EndSession(alike ? *alike : *other);
  counts_.sessions_refused++;
}

// Half of the connections are kept for tenants in equal parts: a further one must leave room for what the
// others have not used of theirs.
bool Server::TakesAnother(uint32_t tenant) {
  std::vector<uint64_t> has(config_.broker.tenants.size());
  const uint64_t part = config_.connections / (2 * has.size());
  for (const auto& [number, client] : sessions_)
    if (const auto& theirs = client.session->tenant()) has[*theirs]++;
  has[tenant]++;
  uint64_t taken = 0;
  for (size_t other = 0; other < has.size(); other++)
    taken += other == tenant ? has[other] : std::max(has[other], part);
  if (taken <= config_.connections || has[tenant] <= part) return true;
  counts_.sessions_refused++;
  return false;
}

void Server::EndSession(uint64_t number) {
  const auto found = sessions_.find(number);
  // Out of the map first: its end cancels requests, and what follows from that must not find it.
  const ClientConnection client = std::move(found->second);
  sessions_.erase(found);
  if (!client.session->fault().empty()) {
    counts_.faults++;
    TellFault(number, client.session->fault());
  }
  reactor_->Remove(Tag(static_cast<int>(SourceKind::kSession), number));
  if (client.hears_window) reactor_->Unwatch(client.session->window()->bell());
}

void Server::TellFault(uint64_t session, std::string_view fault) {
  const auto kept_back = faults_told_.Ask(std::chrono::steady_clock::now());
  if (!kept_back) return;
  if (*kept_back > 0) spdlog::warn("clients: {} more faults", *kept_back);
  spdlog::warn("client {}: {}", session, fault);
}

ServerCounts Server::counts() const {
  ServerCounts counts = counts_;
  counts.sessions = sessions_.size();
  for (size_t front = 0; front < kFronts; front++)
    std::copy(refused_[front].begin(), refused_[front].end(), counts.refused[front].begin());
  for (const auto& [number, connection] : executors_) counts.executors += connection->link != nullptr;
  return counts;
}

}  // namespace spillway::gateway
