// SPDX-License-Identifier: Apache-2.0
#include "extender.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "api/listen.h"
#include "model/problems.h"
#include "scheduler/extender/kube_json.h"
#include "scheduler/extender/wire.h"

namespace spillway::extender {
namespace {

using api::Request;
using api::Responder;
using api::Response;
using scheduler::Books;
using std::chrono::duration;
using std::chrono::steady_clock;

constexpr int kAnswerers = 3;  // of which one at most waits for the API server
constexpr int kBinders = 4;
constexpr size_t kMostWaiting = 256;  // in each lane
constexpr size_t kMostAsks = 20'000;
constexpr std::chrono::seconds kRetry{1};
constexpr std::chrono::seconds kLearnPause{1};  // between two looks whether there is something to learn
constexpr int kClaimAttempts = 8;               // others may write the node's claims in between
constexpr size_t kMostLooksAtClaims = 256;      // of a look at everything
// A refusal is not given on news older than this, where asking anew is quick.
constexpr std::chrono::milliseconds kFreshEnough{500}, kQuick{500};

std::string NodeTarget(const std::string& node) { return "/api/v1/nodes/" + api::Client::Encode(node); }

int64_t SecondsNow() {
  return std::chrono::duration_cast<std::chrono::seconds>(std::chrono::system_clock::now().time_since_epoch())
      .count();
}

std::string NewId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

bool IsOver(const scheduler::Claim& claim) {
  return SecondsNow() - claim.at > scheduler::kClaimLasts.count();
}

Response Json(std::string body) { return {.body = std::move(body)}; }

Response Failed(bool& failed, const std::string& message) {
  failed = true;
  return Json(scheduler::ErrorReply("spillway: " + message));
}

// 200 alone may be the page of a proxy between us.
bool SaysBound(const api::Reply& reply) {
  if (reply.status == 201) return true;
  if (reply.status < 200 || reply.status > 299) return false;
  const auto status = scheduler::ParseKubeJson(reply.body);
  return status && scheduler::TextAt(*status, "kind") == "Status" &&
         scheduler::TextAt(*status, "status") == "Success";
}

}  // namespace

Result<scheduler::ClusterFile> LoadCluster(const model::ExtenderConfig& config) {
  if (config.cluster.empty())
    return scheduler::ClusterFile{scheduler::Cluster({}, {}, {}), {}, {}, {{"", 0}}};
  return scheduler::LoadClusterFile(config.cluster, !config.api_server.empty());
}

Result<std::unique_ptr<Extender>> Extender::Start(const model::ExtenderConfig& config,
                                                  std::unique_ptr<KubeClient> kube) {
  const auto file = LoadCluster(config);
  if (!file) return tl::make_unexpected(file.error());
  const auto fd = api::ListenTcp(config.listen);
  if (!fd) return tl::make_unexpected(fd.error());
  if (kube == nullptr) kube = std::make_unique<KubeClient>(config);
  std::unique_ptr<Extender> extender(new Extender(config, *file, std::move(kube)));
  extender->port_ = api::PortOf(*fd);
  api::HttpLimits limits;
  limits.body = 16 << 20;  // whole nodes of about a thousand
  limits.all_bodies = 64 << 20;
  limits.idle_seconds = 90;  // a scheduler keeps its connection
  auto http = api::HttpServer::StartAsync(
      *fd,
      [self = extender.get()](Request request, Responder respond) {
        self->Accept(std::move(request), std::move(respond));
      },
      limits);
  if (!http) return tl::make_unexpected(http.error());
  extender->http_ = std::move(*http);
  for (int i = 0; i < kAnswerers + kBinders; ++i)
    extender->threads_.emplace_back(
        [self = extender.get(), i] { self->Work(i < kAnswerers ? self->answers_ : self->binds_); });
  if (!config.api_server.empty())
    extender->threads_.emplace_back([self = extender.get()] { self->KeepInStep(); });
  extender->threads_.emplace_back([self = extender.get()] { self->KeepLearning(); });
  return extender;
}

Extender::Extender(const model::ExtenderConfig& config, const scheduler::ClusterFile& file,
                   std::unique_ptr<KubeClient> kube)
    : config_(config),
      id_(NewId()),
      kube_(std::move(kube)),
      books_(file),
      in_step_(config.api_server.empty()) {}

Extender::~Extender() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  for (Lane* lane : {&answers_, &binds_}) lane->work.notify_all();
  stop_.notify_all();
  http_.reset();
  for (std::thread& thread : threads_) thread.join();
}

// On HTTP's thread: never waits.
void Extender::Accept(Request request, Responder respond) {
  const bool verb = request.path == "/filter" || request.path == "/prioritize" || request.path == "/bind";
  const bool page = request.path == "/bookings" || request.path == "/metrics" || request.path == "/healthz";
  std::optional<Response> now;
  if (!verb && !page)
    now = api::ErrorResponse(404, "not_found",
                             "expected /filter, /prioritize, /bind, /bookings, /metrics or /healthz");
  else if (request.method != (verb ? "POST" : "GET"))
    now = api::ErrorResponse(405, "bad_input", verb ? "expected POST" : "expected GET");
  Lane& lane = request.path == "/bind" ? binds_ : answers_;
  if (!now) {
    const std::lock_guard lock(mutex_);
    if (lane.tasks.size() >= kMostWaiting)
      now = api::ErrorResponse(503, "unavailable", "too many requests wait");
    else
      lane.tasks.push_back({std::move(request), respond});
  }
  if (now) return respond([response = std::move(*now)] { return response; });
  lane.work.notify_one();
}

void Extender::Work(Lane& lane) {
  while (true) {
    Task task;
    {
      std::unique_lock lock(mutex_);
      lane.work.wait(lock, [&] { return stopping_ || !lane.tasks.empty(); });
      if (stopping_) return;
      task = std::move(lane.tasks.front());
      lane.tasks.pop_front();
    }
    const auto began = steady_clock::now();
    bool failed = false;
    Response response;
    try {
      response = Answer(task.request, failed);
    } catch (const std::exception& e) {  // such as no memory: this request's trouble, nobody else's
      spdlog::error("extender: {}: {}", task.request.path, e.what());
      failed = true;
      response = api::ErrorResponse(500, "system", e.what());
    }
    if (task.request.method == "POST") {
      const std::lock_guard lock(books_mutex_);
      Verb& verb = verbs_[task.request.path.substr(1)];
      ++(failed ? verb.failed : verb.ok);
      verb.seconds += duration<double>(steady_clock::now() - began).count();
    }
    task.respond([response = std::move(response)] { return response; });
  }
}

Response Extender::Answer(const Request& request, bool& failed) {
  if (request.path == "/filter") return Filter(request.body, failed);
  if (request.path == "/prioritize") return Prioritize(request.body, failed);
  if (request.path == "/bind") return Bind(request.body, failed);
  if (request.path == "/bookings") return Bookings();
  if (request.path == "/metrics")
    return {.body = MetricsText(), .content_type = "text/plain; version=0.0.4; charset=utf-8"};
  const auto ready = InStep();
  return ready ? Json("{\"ok\":true}") : api::ErrorResponse(503, "unavailable", ready.error().message);
}

Result<void> Extender::InStep() {
  const std::lock_guard lock(books_mutex_);
  if (in_step_) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("not in step with the API server: {}", sync_error_));
}

// So that bind, which is told names only, knows what the pod asks for.
void Extender::Remember(const scheduler::PodAsk& ask) {
  if (ask.uid.empty()) return;
  if (asks_.insert_or_assign(ask.uid, ask).second) asks_order_.push_back(ask.uid);
  while (asks_order_.size() > kMostAsks) {
    asks_.erase(asks_order_.front());
    asks_order_.pop_front();
  }
}

Response Extender::Filter(const std::string& body, bool& failed) {
  auto args = scheduler::ParseExtenderArgs(body);
  if (!args) return Failed(failed, args.error().message);
  const auto ask = scheduler::ReadPodAsk(args->pod);
  if (!ask) return Failed(failed, ask.error().message);
  if (ask->giver != scheduler::Giver::kNobody)
    if (const auto ready = InStep(); !ready) return Failed(failed, ready.error().message);
  std::vector<scheduler::KubeNode> nodes;
  for (const auto& node : args->nodes)
    if (auto read = scheduler::ReadKubeNode(node)) nodes.push_back(std::move(*read));

  std::vector<scheduler::FilterVerdict> verdicts;
  const auto judge = [&] {
    const std::lock_guard lock(books_mutex_);
    Remember(*ask);
    books_.Learn(nodes);
    verdicts.clear();
    bool busy = false;
    for (const std::string& name : args->names) {
      verdicts.push_back(books_.Judge(*ask, name));
      busy |= !verdicts.back().why.empty() && !verdicts.back().for_good;
    }
    const auto now = steady_clock::now();
    // Where a bind of this pod was left in doubt, the last look is older than that: it would be decided.
    const bool stale = now - synced_ > kFreshEnough || books_.InDoubt(ask->uid);
    return busy && !config_.api_server.empty() && sync_error_.empty() && stale && sync_took_ < kQuick;
  };
  // A pod that just went is why the scheduler tries again: it would try in vain until our next look.
  // Where somebody looks already, what is known has to do: a look that hangs holds up one request at most.
  if (judge()) {
    if (const std::unique_lock lock(sync_mutex_, std::try_to_lock); lock && Sync()) judge();
  }
  {
    const std::lock_guard lock(books_mutex_);
    if (!verdicts.empty() && std::all_of(verdicts.begin(), verdicts.end(),
                                         [](const auto& verdict) { return !verdict.why.empty(); }))
      books_.Waits(*ask);
    for (const auto& verdict : verdicts)
      if (!verdict.why.empty()) ++refused_nodes_[verdict.for_good ? "unfit" : "busy"];
  }
  return Json(scheduler::FilterReply(std::move(*args), verdicts));
}

Response Extender::Prioritize(const std::string& body, bool& failed) {
  // This reply has no field for an error: a status says it, and the scheduler goes on without our word.
  const auto args = scheduler::ParseExtenderArgs(body);
  const auto ask = args ? scheduler::ReadPodAsk(args->pod) : tl::make_unexpected(args.error());
  if (!ask) {
    failed = true;
    return api::ErrorResponse(400, "bad_input", ask.error().message);
  }
  const std::lock_guard lock(books_mutex_);
  Remember(*ask);
  return Json(scheduler::PriorityReply(args->names, books_.Score(*ask, args->names)));
}

Result<scheduler::PodAsk> Extender::AskOf(const scheduler::BindingArgs& args) {
  {
    const std::lock_guard lock(books_mutex_);
    if (const auto known = asks_.find(args.uid); known != asks_.end()) return known->second;
  }
  const auto reply = kube_->Get(fmt::format("/api/v1/namespaces/{}/pods/{}", api::Client::Encode(args.space),
                                            api::Client::Encode(args.pod)));
  if (!reply) return tl::make_unexpected(reply.error());
  if (reply->status != 200) return Fail(ErrorCode::kUnavailable, KubeClient::Explain(*reply));
  const auto pod = scheduler::ParseKubeJson(reply->body);
  auto ask = pod ? scheduler::ReadPodAsk(*pod) : tl::make_unexpected(pod.error());
  if (ask && ask->uid != args.uid)
    return Fail(ErrorCode::kConflict, fmt::format("{}/{} is another pod by now", args.space, args.pod));
  return ask;
}

// What became of a binding whose answer says it did not, or that had none; `refused`: the answer was a word
// of the API server that it will not be done later either.
Extender::Fate Extender::FateOf(const scheduler::BindingArgs& args, const Books::Place& place, bool refused,
                                std::optional<scheduler::BoundPod>& elsewhere) {
  const auto reply = kube_->Get(fmt::format("/api/v1/namespaces/{}/pods/{}", api::Client::Encode(args.space),
                                            api::Client::Encode(args.pod)));
  if (!reply) return Fate::kUnknown;
  if (reply->status == 404) return Fate::kNotBound;
  if (reply->status != 200) return Fate::kUnknown;
  const auto pod = scheduler::ParseKubeJson(reply->body);
  const auto bound = pod ? scheduler::ReadBoundPod(*pod) : tl::make_unexpected(pod.error());
  if (!bound) return Fate::kUnknown;
  if (bound->ask.uid != args.uid) return Fate::kNotBound;
  // On no node yet: a request that was not answered may still be on its way.
  if (bound->node.empty()) return refused ? Fate::kNotBound : Fate::kUnknown;
  if (bound->node == args.node && bound->gpu == place.gpu && bound->slice == place.slice) return Fate::kBound;
  elsewhere = *bound;
  return Fate::kNotBound;
}

Result<std::optional<scheduler::BoundPod>> Extender::PodOf(const std::string& uid,
                                                           const scheduler::Claim& claim) {
  const auto reply = kube_->Get(fmt::format("/api/v1/namespaces/{}/pods/{}", api::Client::Encode(claim.space),
                                            api::Client::Encode(claim.pod)));
  if (!reply) return tl::make_unexpected(reply.error());
  if (reply->status == 404) return std::optional<scheduler::BoundPod>();
  if (reply->status != 200) return Fail(ErrorCode::kUnavailable, KubeClient::Explain(*reply));
  const auto pod = scheduler::ParseKubeJson(reply->body);
  auto bound = pod ? scheduler::ReadBoundPod(*pod) : tl::make_unexpected(pod.error());
  if (!bound) return tl::make_unexpected(bound.error());
  if (bound->ask.uid != uid || bound->finished) return std::optional<scheduler::BoundPod>();
  return std::optional(std::move(*bound));
}

Result<void> Extender::Claim(const scheduler::BindingArgs& args, const scheduler::PodAsk& ask,
                             Books::Reservation& place, uint64_t& ticket) {
  for (int attempt = 0; attempt < kClaimAttempts; ++attempt) {
    const auto reply = kube_->Get(NodeTarget(args.node));
    if (!reply) return tl::make_unexpected(reply.error());
    if (reply->status != 200) return Fail(ErrorCode::kUnavailable, KubeClient::Explain(*reply));
    const auto node = scheduler::ParseKubeJson(reply->body);
    if (!node) return tl::make_unexpected(node.error());
    scheduler::Claims claims = scheduler::ReadClaims(*node);
    std::vector<scheduler::BoundPod> others;
    for (auto at = claims.begin(); at != claims.end();) {
      bool known = at->first == args.uid;
      if (!known) {
        const std::lock_guard lock(books_mutex_);
        known = books_.Knows(at->first, args.node);
      }
      if (known) {
        ++at;
        continue;
      }
      // What our own books have dropped is nobody's.
      if (at->second.by == id_) {
        at = claims.erase(at);
        continue;
      }
      auto pod = PodOf(at->first, at->second);
      if (!pod) return tl::make_unexpected(pod.error());
      // Gone, elsewhere, or never bound: the claim goes with the next write.
      if (!*pod || ((*pod)->node.empty() ? IsOver(at->second) : (*pod)->node != args.node)) {
        at = claims.erase(at);
        continue;
      }
      (*pod)->gpu = at->second.gpu;
      (*pod)->slice = at->second.slice;
      others.push_back(std::move(**pod));
      ++at;
    }
    if (!others.empty()) {
      const std::lock_guard lock(books_mutex_);
      books_.GiveBack(args.uid, ticket);
      for (scheduler::BoundPod& other : others) {
        const bool is_bound = !std::exchange(other.node, args.node).empty();
        is_bound ? books_.Adopt(other) : books_.Suppose(other);
      }
      auto again = books_.Reserve(ask, args.node);
      if (!again) return tl::make_unexpected(again.error());
      place = std::move(*again);
      ticket = place.ticket;
    }
    claims[args.uid] = {args.space, args.pod, place.gpu, place.slice, SecondsNow(), id_};
    const auto written = kube_->Patch(NodeTarget(args.node), scheduler::ClaimsPatch(*node, claims));
    if (!written) return tl::make_unexpected(written.error());
    if (written->status == 200) return {};
    if (written->status != 409)
      return Fail(ErrorCode::kUnavailable, "the claim at the node: " + KubeClient::Explain(*written));
  }
  return Fail(ErrorCode::kConflict, fmt::format("{}: others write its claims all the time", args.node));
}

void Extender::Unclaim(const scheduler::BindingArgs& args) {
  const auto reply = kube_->Get(NodeTarget(args.node));
  if (!reply || reply->status != 200) return;
  const auto node = scheduler::ParseKubeJson(reply->body);
  scheduler::Claims claims = node ? scheduler::ReadClaims(*node) : scheduler::Claims();
  // Where it fails, the claim ends by itself.
  if (claims.erase(args.uid) > 0)
    (void)kube_->Patch(NodeTarget(args.node), scheduler::ClaimsPatch(*node, claims));
}

Response Extender::Bind(const std::string& body, bool& failed) {
  const auto args = scheduler::ParseBindingArgs(body);
  if (!args) return Failed(failed, args.error().message);
  if (config_.api_server.empty())
    return Failed(failed, "there is no extender.api_server to bind at; leave bindVerb out");
  const auto undone = [&](const std::string& why) {
    const std::string message = fmt::format("bind {}/{} to {}: {}", args->space, args->pod, args->node, why);
    spdlog::warn("extender: {}", message);
    return Failed(failed, message);
  };
  const auto ask = AskOf(*args);
  if (!ask) return undone(ask.error().message);
  if (ask->giver != scheduler::Giver::kNobody)
    if (const auto ready = InStep(); !ready) return undone(ready.error().message);
  // However this ends, the reservation does not stay as one that is under way.
  struct Doubtful {
    ~Doubtful() {
      const std::lock_guard lock(self.books_mutex_);
      self.books_.Doubt(uid, ticket);  // nothing, where it was decided below
    }
    Extender& self;
    const std::string& uid;
    uint64_t ticket = 0;
  } otherwise{*this, args->uid};
  Result<Books::Reservation> place = Books::Reservation{};
  {
    const std::lock_guard lock(books_mutex_);
    place = books_.Reserve(*ask, args->node);
    if (place) otherwise.ticket = place->ticket;
  }
  if (!place) return undone(place.error().message);
  // The device plugin chooses itself, and keeps its own books.
  const bool claims = ask->giver == scheduler::Giver::kSpillway && place->ticket != 0;
  if (claims)
    if (const auto claimed = Claim(*args, *ask, *place, otherwise.ticket); !claimed) {
      const std::lock_guard lock(books_mutex_);
      if (books_.GiveBack(args->uid, otherwise.ticket)) ++given_back_;
      return undone(claimed.error().message);
    }
  std::vector<std::pair<std::string, std::string>> notes;
  if (!place->gpu.empty()) notes.emplace_back(scheduler::kGpuAnnotation, place->gpu);
  if (!place->slice.empty()) notes.emplace_back(scheduler::kSliceAnnotation, place->slice);

  std::string why;
  Fate fate = Fate::kBound;
  std::optional<scheduler::BoundPod> elsewhere;
  const auto reply =
      kube_->Post(fmt::format("/api/v1/namespaces/{}/pods/{}/binding", api::Client::Encode(args->space),
                              api::Client::Encode(args->pod)),
                  scheduler::BindingBody(*args, notes));
  if (!reply || !SaysBound(*reply)) {
    why = !reply                ? reply.error().message
          : reply->status < 400 ? "expected 201 or a Status of success, got " + KubeClient::Explain(*reply)
                                : KubeClient::Explain(*reply);
    // 409: somebody bound it, perhaps we, in an attempt whose answer was lost. No answer, trouble inside the
    // API server, or words that are not an API server's: it may have done it all the same, or yet do it. Any
    // other answer is a refusal.
    const bool conflict = reply && reply->status == 409;
    const bool ask_again = !reply || conflict || reply->status < 400 || reply->status >= 500;
    fate = ask_again ? FateOf(*args, *place, conflict, elsewhere) : Fate::kNotBound;
  }
  if (claims && fate == Fate::kNotBound) Unclaim(*args);
  const std::lock_guard lock(books_mutex_);
  if (fate == Fate::kBound) {
    books_.Confirm(args->uid, place->ticket);
    return Json(scheduler::ErrorReply(""));
  }
  if (fate == Fate::kNotBound) {
    if (books_.GiveBack(args->uid, place->ticket)) ++given_back_;
    if (elsewhere) books_.Adopt(*elsewhere);
  }
  return undone(why);
}

Result<void> Extender::Sync() {
  const auto began = steady_clock::now();
  const auto done = SyncOnce();
  const std::lock_guard books(books_mutex_);
  if (done) {
    if (!in_step_)
      spdlog::info("extender: in step with {}: {} GPUs, {} bookings", config_.api_server,
                   books_.cluster().gpus(), books_.Bookings().size());
    in_step_ = true;
    sync_error_.clear();
    synced_ = steady_clock::now();
    sync_took_ = synced_ - began;
  } else {
    ++sync_failures_;
    if (sync_error_ != done.error().message) spdlog::warn("extender: {}", done.error().message);
    sync_error_ = done.error().message;
  }
  return done;
}

Result<void> Extender::SyncOnce() {
  uint64_t started = 0;
  {
    const std::lock_guard lock(books_mutex_);
    started = books_.mark();
  }
  // Whoever may make pods in a namespace need not be allowed to say whose it is.
  std::map<std::string, std::string> tenants;
  const auto all_spaces = kube_->List("/api/v1/namespaces", [&](const nlohmann::json& space) {
    const nlohmann::json* meta = scheduler::Find(space, "metadata");
    const nlohmann::json* labels = meta == nullptr ? nullptr : scheduler::Find(*meta, "labels");
    if (labels == nullptr) return;
    if (std::string tenant = scheduler::TextAt(*labels, scheduler::kTenantLabel); !tenant.empty())
      tenants[scheduler::TextAt(*meta, "name")] = std::move(tenant);
  });
  if (!all_spaces) return tl::make_unexpected(all_spaces.error());
  std::vector<scheduler::KubeNode> nodes;
  std::map<std::string, scheduler::Claims> claims;  // by node
  const auto all_nodes = kube_->List("/api/v1/nodes", [&](const nlohmann::json& node) {
    if (nodes.size() >= scheduler::kMostNodes) return;
    auto read = scheduler::ReadKubeNode(node);
    if (!read) return;
    if (auto some = scheduler::ReadClaims(node); !some.empty()) claims[read->name] = std::move(some);
    nodes.push_back(std::move(*read));
  });
  if (!all_nodes) return tl::make_unexpected(all_nodes.error());
  std::vector<scheduler::BoundPod> pods;
  std::vector<scheduler::UnclearPod> unclear;
  // Most pods of a cluster ask for no GPU: of them, the CPU that they take of their node is all that counts.
  std::map<std::string, int64_t> other_cpu;
  const auto all_pods =
      kube_->List("/api/v1/pods?fieldSelector=" +
                      api::Client::Encode("spec.nodeName!=,status.phase!=Succeeded,status.phase!=Failed"),
                  [&](const nlohmann::json& pod) {
                    auto read = scheduler::ReadBoundPod(pod);
                    if (!read)
                      unclear.push_back(scheduler::ReadUnclearPod(pod));
                    else if (read->ask.giver != scheduler::Giver::kNobody)
                      pods.push_back(std::move(*read));
                    else if (!read->finished)
                      other_cpu[read->node] += read->ask.job.cpu_milli;
                  });
  if (!all_pods) return tl::make_unexpected(all_pods.error());
  // What was claimed for a pod is what it has, whatever its annotations say by now.
  for (scheduler::BoundPod& pod : pods) {
    const auto at = claims.find(pod.node);
    if (at == claims.end()) continue;
    if (const auto own = at->second.find(pod.ask.uid); own != at->second.end()) {
      pod.gpu = own->second.gpu;
      pod.slice = own->second.slice;
      at->second.erase(own);
    }
  }
  // The rest is of pods that went, or that another extender is about to bind.
  std::vector<scheduler::BoundPod> others;
  for (const auto& [node, left] : claims)
    for (const auto& [uid, claim] : left) {
      if (claim.by == id_ || IsOver(claim) || others.size() >= kMostLooksAtClaims) continue;
      auto pod = PodOf(uid, claim);
      if (!pod || !*pod || !(*pod)->node.empty()) continue;
      (*pod)->node = node;
      (*pod)->gpu = claim.gpu;
      (*pod)->slice = claim.slice;
      others.push_back(std::move(**pod));
    }
  const std::lock_guard lock(books_mutex_);
  books_.SetTenants(std::move(tenants));
  books_.Sync(nodes, pods, started, unclear, std::move(other_cpu));
  for (const scheduler::BoundPod& other : others) books_.Suppose(other);
  unreadable_pods_ = unclear.size();
  pods_version_ = *all_pods;
  return {};
}

// False: the watch has lost its place, and a look at everything is due.
bool Extender::Take(const nlohmann::json& event) {
  const std::string type = scheduler::TextAt(event, "type");
  const nlohmann::json* pod = scheduler::Find(event, "object");
  const nlohmann::json* meta = pod == nullptr ? nullptr : scheduler::Find(*pod, "metadata");
  if (type == "ERROR" || meta == nullptr) return false;
  const auto bound = scheduler::ReadBoundPod(*pod);
  const std::lock_guard lock(books_mutex_);
  ++watched_events_;
  if (const std::string version = scheduler::TextAt(*meta, "resourceVersion"); !version.empty())
    pods_version_ = version;
  if (type == "BOOKMARK") return true;
  if (type == "DELETED")
    books_.Forget(scheduler::TextAt(*meta, "uid"));
  else if (bound)
    books_.See(*bound);
  // What is not understood is for the next look.
  return true;
}

Result<void> Extender::Watch(steady_clock::time_point until) {
  const auto over = [&] { return StopsBefore({}) || steady_clock::now() >= until; };
  bool in_place = true;
  while (in_place && !over()) {
    const auto began = steady_clock::now();
    std::string version;
    {
      const std::lock_guard lock(books_mutex_);
      version = pods_version_;
    }
    if (version.empty()) return Fail(ErrorCode::kUnavailable, "the list of pods has no resourceVersion");
    const auto left = std::chrono::ceil<std::chrono::seconds>(until - steady_clock::now());
    const auto watched = kube_->Watch(
        fmt::format("/api/v1/pods?watch=1&allowWatchBookmarks=true&timeoutSeconds={}&resourceVersion={}"
                    "&fieldSelector={}",
                    std::max<int64_t>(left.count(), 1), api::Client::Encode(version),
                    api::Client::Encode("spec.nodeName!=")),
        [&](const nlohmann::json& event) { return in_place = Take(event); }, over);
    if (!watched) return watched;
    // Servers end watches now and then; one that does so at once is not asked again and again.
    if (in_place && StopsBefore(std::min(until, began + kRetry))) return {};
  }
  return {};
}

void Extender::KeepInStep() {
  std::string watch_error;
  while (true) {
    bool good = false;
    try {
      const std::lock_guard lock(sync_mutex_);
      good = Sync().has_value();
    } catch (const std::exception& e) {
      spdlog::error("extender: {}", e.what());
    }
    const auto pause = std::chrono::milliseconds(config_.resync_ms);
    auto next = steady_clock::now() + (good ? pause : std::min<std::chrono::milliseconds>(pause, kRetry));
    if (good) {
      Result<void> watched;
      try {
        watched = Watch(next);
      } catch (const std::exception& e) {
        watched = Fail(ErrorCode::kSystem, e.what());
      }
      if (watched) {
        next = std::min(next, steady_clock::now() + kRetry);  // it has lost its place, or the time has come
      } else if (watch_error != watched.error().message) {
        watch_error = watched.error().message;
        spdlog::warn("extender: watching pods: {}; looking every {} ms instead", watch_error, pause.count());
      }
    }
    if (StopsBefore(next)) return;
  }
}

// Prices are learnt from a copy, without the books' mutex: decisions go on by the old ones.
void Extender::KeepLearning() {
  do {
    std::optional<Books::Demand> demand;
    {
      const std::lock_guard lock(books_mutex_);
      if (in_step_) demand = books_.DemandIfOld();
    }
    if (!demand) continue;
    auto look_ahead = std::make_shared<const scheduler::LookAhead>(demand->running, demand->waiting,
                                                                   demand->nodes, demand->models);
    const std::lock_guard lock(books_mutex_);
    books_.Use(std::move(look_ahead), *demand);
  } while (!StopsBefore(steady_clock::now() + kLearnPause));
}

bool Extender::StopsBefore(steady_clock::time_point time) {
  std::unique_lock lock(mutex_);
  return stop_.wait_until(lock, time, [this] { return stopping_; });
}

Response Extender::Bookings() const {
  nlohmann::json list = nlohmann::json::array();
  {
    const std::lock_guard lock(books_mutex_);
    for (const Books::View& view : books_.Bookings())
      list.push_back({{"pod", view.pod},
                      {"uid", view.uid},
                      {"node", view.node},
                      {"gpu", view.place.gpu},
                      {"slice", view.place.slice},
                      {"milli", view.milli},
                      {"state", ToString(view.state)},
                      {"placed", view.placed}});
  }
  return Json(list.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

std::string Extender::MetricsText() const {
  const std::lock_guard lock(books_mutex_);
  std::string text;
  const auto head = [&](const char* name, const char* type, const char* help) {
    text +=
        fmt::format("# HELP spillway_extender_{0} {1}\n# TYPE spillway_extender_{0} {2}\n", name, help, type);
  };
  const auto one = [&](const char* name, const char* type, const char* help, double value) {
    head(name, type, help);
    text += fmt::format("spillway_extender_{} {}\n", name, value);
  };
  head("requests_total", "counter", "Requests of the scheduler, by verb and how they ended");
  for (const auto& [name, verb] : verbs_)
    for (const bool ok : {true, false})
      text += fmt::format("spillway_extender_requests_total{{verb=\"{}\",result=\"{}\"}} {}\n", name,
                          ok ? "ok" : "failed", ok ? verb.ok : verb.failed);
  head("request_seconds_total", "counter", "Time spent on them");
  for (const auto& [name, verb] : verbs_)
    text += fmt::format("spillway_extender_request_seconds_total{{verb=\"{}\"}} {}\n", name, verb.seconds);
  head("refused_nodes_total", "counter", "Nodes that filter refused: busy now, or unfit for good");
  for (const auto& [reason, count] : refused_nodes_)
    text += fmt::format("spillway_extender_refused_nodes_total{{reason=\"{}\"}} {}\n", reason, count);
  std::map<std::string, int> states = {{"fixed", 0}, {"reserved", 0}, {"confirmed", 0}, {"doubtful", 0}};
  int unplaced = 0;
  for (const Books::View& view : books_.Bookings()) {
    ++states[ToString(view.state)];
    unplaced += view.placed ? 0 : 1;
  }
  head("bookings", "gauge", "Jobs in the books, by state");
  for (const auto& [state, count] : states)
    text += fmt::format("spillway_extender_bookings{{state=\"{}\"}} {}\n", state, count);
  one("unplaced_bookings", "gauge", "Jobs that run where by the rules they do not fit", unplaced);
  one("given_back_total", "counter", "Reservations given back as the API server refused",
      static_cast<double>(given_back_));
  one("gpus", "gauge", "GPUs known", books_.cluster().gpus());
  one("gpus_on", "gauge", "GPUs on which a job is", books_.cluster().gpus_on());
  one("allocated_milli", "gauge", "Thousandths of GPUs booked",
      static_cast<double>(books_.cluster().allocated_milli()));
  one("learnt_total", "counter", "How often the expected jobs were learnt anew",
      static_cast<double>(books_.learnt()));
  one("in_step", "gauge", "1: the books have been compared with the API server", in_step_ ? 1 : 0);
  one("sync_age_seconds", "gauge", "Time since that was last done",
      in_step_ && !config_.api_server.empty() ? duration<double>(steady_clock::now() - synced_).count() : 0);
  one("sync_seconds", "gauge", "What the last one that succeeded took", duration<double>(sync_took_).count());
  one("sync_failures_total", "counter", "Attempts at it that failed", static_cast<double>(sync_failures_));
  one("watch_events_total", "counter", "What the watch of pods has told",
      static_cast<double>(watched_events_));
  one("unreadable_pods", "gauge", "Pods on nodes whose request for GPUs is not understood",
      static_cast<double>(unreadable_pods_));
  return text;
}

}  // namespace spillway::extender
