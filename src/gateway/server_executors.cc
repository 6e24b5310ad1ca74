// SPDX-License-Identifier: Apache-2.0
// The gateway's loop, its part with executors: who connects (at most so many without a token), joins, beats
// and leaves.
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <sys/socket.h>

#include <algorithm>
#include <bit>
#include <cerrno>

#include "base/socket_address.h"
#include "gateway/server.h"
#include "gateway/transport/shm/arrival.h"

namespace spillway::gateway {
namespace {

// Holders in the region table: sessions have their numbers, slices those from here on.
constexpr uint64_t kSliceHolders = uint64_t{1} << 63;
constexpr uint32_t kMaxExecutors = 256;
constexpr uint32_t kMaxUnauthenticated = 32;  // of each listener, without a token as yet
constexpr int kMaxBeats = 64;                 // at once

std::string PeerOf(int socket) {
  const base::SocketAddress peer = base::SocketAddress::OfPeer(socket);
  return peer.length == 0 ? "an unknown address" : peer.Host();
}

// "models a, b, c and 4 more"
std::string NamesOf(const std::vector<ModelCard>& models) {
  constexpr size_t kTold = 3;
  std::string text = models.size() == 1 ? "model" : "models";
  for (size_t i = 0; i < std::min(kTold, models.size()); i++) text += (i == 0 ? " " : ", ") + models[i].name;
  return models.size() > kTold ? fmt::format("{} and {} more", text, models.size() - kTold) : text;
}

}  // namespace

void Server::AcceptExecutors(SourceKind kind) {
  const bool is_remote = kind == SourceKind::kRdmaExecutors;
  for (int taken = 0;; taken++) {
    if (taken == kAcceptsPerTurn) return Post([this, kind] { AcceptExecutors(kind); });
    const int listener = is_remote ? listeners_.rdma->tcp() : listeners_.executors.get();
    base::Fd socket = AcceptNext(listener, kind, 0);
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
         "closed to make room for others: no token received yet");
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
      if (!connection.is_ready && std::find(beats, beats + got, kReadyByte) != beats + got)
        BecomeReady(connection);
      broker_.Beat(connection.number, Now());
      counts_.beats++;
    }
    return EndExecutor(number, "it keeps sending messages after it has joined");
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
  spdlog::info("executor {}: joined with {} slice{}, {}", connection.name, slices, slices == 1 ? "" : "s",
               NamesOf(offer.models));
  for (const ModelCard& card : offer.models)
    if (const auto fits = broker_.CanFit(card.InputBytes(card.most_rows), card.OutputBytes(card.most_rows));
        !fits)
      spdlog::warn("executor {}: model {}: requests with the offered maximum of {} rows will be refused: {}",
                   connection.name, card.name, card.most_rows, fits.error().message);
  Watch(connection.link->bell(), SourceKind::kBell, number);
  if (auto told = connection.arrival->Answer(""); !told) return tl::make_unexpected(told.error());
  auto models = std::make_shared<std::vector<Broker::NumberedCard>>(broker_.Cards());
  {
    const base::MutexLock lock(mutex_);
    models_ = std::move(models);
  }
  if (!offer.is_starting) BecomeReady(connection);
  return {};
}

void Server::BecomeReady(ExecutorConnection& connection) {
  connection.is_ready = true;
  spdlog::info("executor {}: ready", connection.name);
  if (on_executor_) on_executor_(connection.name, true);
  broker_.Ready(connection.number, Now());
}

void Server::EndExecutor(uint64_t number, const std::string& why) {
  const auto found = executors_.find(number);
  if (found == executors_.end()) return;
  const std::unique_ptr<ExecutorConnection> connection = std::move(found->second);
  executors_.erase(found);
  reactor_->Unwatch(connection->socket.get());
  if (connection->link) {
    reactor_->Unwatch(connection->link->bell());
    // What it had done before it died counts: its results lie in memory that is still here.
    [[maybe_unused]] const bool good = connection->link->TakeCompletions(
        [&](uint32_t slice, const Completion& completion, std::span<const std::byte> outputs) {
          broker_.Complete(connection->first_slice + slice, completion.id,
                           static_cast<Status>(completion.status), outputs, Duration(completion.busy_ns),
                           Now());
        });
    if (broker_.IsDraining(connection->name) && why.empty())
      spdlog::info("executor {}: ended after draining", connection->name);
    else
      spdlog::warn("executor {}: gone{}{}", connection->name, why.empty() ? "" : ": ", why);
    broker_.RemoveExecutor(connection->number, Now());
    if (on_executor_ && connection->is_ready) on_executor_(connection->name, false);
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

}  // namespace spillway::gateway
