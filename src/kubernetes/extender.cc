// SPDX-License-Identifier: Apache-2.0
#include "extender.h"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <random>

#include "api/listen.h"
#include "base/yaml/problems.h"
#include "kubernetes/replies.h"
#include "scheduler/extender/kube_json.h"
#include "scheduler/extender/wire.h"

namespace spillway::kubernetes {
namespace {

using api::Request;
using api::Responder;
using api::Response;
using scheduler::AllocationCache;
using std::chrono::duration;
using std::chrono::steady_clock;

constexpr int kAnswerers = 3;  // of which one at most waits for the API server
constexpr int kBinders = 4;
constexpr size_t kMaxWaiting = 256;  // in each lane
constexpr size_t kMaxAsks = 20'000;
// A refusal is not given on news older than this, where asking anew is quick.
constexpr std::chrono::milliseconds kFreshEnough{500}, kQuick{500};

std::string NewId() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

}  // namespace

Result<std::unique_ptr<Extender>> Extender::Start(const ExtenderConfig& config,
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
  limits.whole = api::HttpServer::kWhole;
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
    extender->threads_.emplace_back([self = extender.get()] { self->ResyncLoop(); });
  extender->threads_.emplace_back([self = extender.get()] { self->KeepLearning(); });
  return extender;
}

Extender::Extender(const ExtenderConfig& config, const scheduler::ClusterFile& file,
                   std::unique_ptr<KubeClient> kube)
    : config_(config),
      id_(NewId()),
      kube_(std::move(kube)),
      cache_(file),
      in_step_(config.api_server.empty()) {}

Extender::~Extender() {
  {
    const base::MutexLock lock(mutex_);
    stopping_ = true;
  }
  kube_->End();
  for (Lane* lane : {&answers_, &binds_}) lane->work.NotifyAll();
  stop_.NotifyAll();
  learning_.request_stop();
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
    const base::MutexLock lock(mutex_);
    if (lane.tasks.size() >= kMaxWaiting)
      now = api::ErrorResponse(503, "unavailable", "too many requests waiting");
    else
      lane.tasks.push_back({std::move(request), respond});
  }
  if (now) return respond([response = std::move(*now)] { return response; });
  lane.work.NotifyOne();
}

void Extender::Work(Lane& lane) {
  while (true) {
    Task task;
    {
      const base::MutexLock lock(mutex_);
      lane.work.Wait(mutex_, [&]() SPILLWAY_REQUIRES(mutex_) { return stopping_ || !lane.tasks.empty(); });
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
      const base::MutexLock lock(cache_mutex_);
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
  const base::MutexLock lock(cache_mutex_);
  if (in_step_) return {};
  return Fail(ErrorCode::kUnavailable, fmt::format("not synchronized with the API server: {}", sync_error_));
}

// So that bind, which gets names only, knows what the pod asks for.
void Extender::Remember(const scheduler::PodAsk& ask) {
  if (ask.uid.empty()) return;
  if (asks_.insert_or_assign(ask.uid, ask).second) asks_order_.push_back(ask.uid);
  while (asks_order_.size() > kMaxAsks) {
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
    const base::MutexLock lock(cache_mutex_);
    Remember(*ask);
    cache_.Learn(nodes);
    verdicts.clear();
    bool busy = false;
    for (const std::string& name : args->names) {
      verdicts.push_back(cache_.Judge(*ask, name));
      busy |= !verdicts.back().why.empty() && !verdicts.back().for_good;
    }
    const auto now = steady_clock::now();
    // Where a bind of this pod was left in doubt, the last look is older than that: it would be decided.
    const bool stale = now - synced_ > kFreshEnough || cache_.InDoubt(ask->uid);
    return busy && !config_.api_server.empty() && sync_error_.empty() && stale && sync_took_ < kQuick;
  };
  // A pod that just went is why the scheduler tries again: it would fail until our next poll.
  // Where somebody looks already, what is known has to do: a look that hangs holds up one request at most.
  if (judge() && sync_mutex_.try_lock()) {
    const base::MutexLock lock(sync_mutex_, std::adopt_lock);
    if (Sync()) judge();
  }
  {
    const base::MutexLock lock(cache_mutex_);
    if (!verdicts.empty() && std::all_of(verdicts.begin(), verdicts.end(),
                                         [](const auto& verdict) { return !verdict.why.empty(); }))
      cache_.Waits(*ask);
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
  const base::MutexLock lock(cache_mutex_);
  Remember(*ask);
  return Json(scheduler::PriorityReply(args->names, cache_.Score(*ask, args->names)));
}

}  // namespace spillway::kubernetes
