// SPDX-License-Identifier: Apache-2.0
#include "dispatch/verbs_window.h"

#include <fmt/format.h>
#include <poll.h>
#include <rdma/rdma_cma.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <utility>

namespace spillway::dispatch {
namespace {

using Clock = std::chrono::steady_clock;

// A producer whose window was closed may read why for so long before it is disconnected.
constexpr std::chrono::seconds kGrace{1};
constexpr int kBacklog = 64;
// A producer reads its words, one read at a time.
constexpr uint8_t kReadsAtOnce = 4;

// Of what is not there, zeros.
VerbsHello HelloOf(const rdma::Event& event) {
  VerbsHello hello{0, 0, 0, {}};
  std::memcpy(&hello, event.data.data(), std::min(event.bytes, sizeof(hello)));
  return hello;
}

}  // namespace

// Of its members, the window's memory goes last and the connection before it: nothing is written to memory
// that is gone.
struct VerbsHost::Producer {
  std::shared_ptr<Window> window;
  rdma::Owned<rdma_cm_id> id;  // null: has left
  rdma::Owned<ibv_mr> words, ring;
  std::optional<Clock::time_point> cut;

  void Leave() {
    if (id != nullptr && id->qp != nullptr) rdma_destroy_qp(id.get());
    words.reset();
    ring.reset();
    id.reset();
  }
};

Result<std::unique_ptr<VerbsHost>> VerbsHost::Listen(Domain& domain, const VerbsHostOptions& options) {
  if (options.window.rings != 1)
    return Fail(ErrorCode::kBadInput,
                fmt::format("window over verbs: {} rings, expected 1", options.window.rings));
  if (!IsVerbsToken(options.token)) return Fail(ErrorCode::kBadInput, kExpectedVerbsToken);
  const auto address = rdma::ParseAddress(options.address, options.port);
  if (!address) return tl::make_unexpected(address.error());
  // So that a wrong queue or size is heard of here, and not by the first who connects.
  const auto trial = domain.OpenWindow(options.window);
  if (!trial) return tl::make_unexpected(trial.error());
  domain.CloseWindow(**trial);

  auto channel = rdma::OpenEventChannel();
  if (!channel) return tl::make_unexpected(channel.error());
  auto listener = rdma::MakeId(channel->get());
  if (!listener) return tl::make_unexpected(listener.error());
  if (const auto listens = rdma::ListenOn(listener->get(), *address, kBacklog); !listens)
    return Fail(listens.error().code,
                fmt::format("{} port {}: {}", options.address, options.port, listens.error().message));
  return std::unique_ptr<VerbsHost>(
      new VerbsHost(domain, options, std::move(*channel), std::move(*listener)));
}

VerbsHost::VerbsHost(Domain& domain, VerbsHostOptions options, rdma::Owned<rdma_event_channel> channel,
                     rdma::Owned<rdma_cm_id> listener)
    : domain_(domain),
      options_(std::move(options)),
      channel_(std::move(channel)),
      listener_(std::move(listener)) {}

VerbsHost::~VerbsHost() {
  for (Producer& producer : producers_) {
    producer.window->Close(WindowClosed::kLeft);
    if (producer.id != nullptr) rdma_disconnect(producer.id.get());
    producer.Leave();
    domain_.CloseWindow(*producer.window);
  }
}

uint16_t VerbsHost::Port() const { return ntohs(rdma_get_src_port(listener_.get())); }
int VerbsHost::Fd() const { return channel_->fd; }

Result<void> VerbsHost::Serve(std::chrono::milliseconds patience) {
  pollfd wait = {channel_->fd, POLLIN, 0};
  if (poll(&wait, 1, static_cast<int>(patience.count())) < 0 && errno != EINTR) return rdma::FailRdma("poll");
  for (;;) {
    const auto event = rdma::NextEvent(channel_.get());
    if (!event) return tl::make_unexpected(event.error());
    if (!*event) break;
    Handle(**event);
  }
  ClearUp();
  return {};
}

void VerbsHost::Handle(const rdma::Event& event) {
  rdma_cm_id* const id = event.id;
  if (event.type == RDMA_CM_EVENT_CONNECT_REQUEST) return Admit(rdma::Owned<rdma_cm_id>(id), HelloOf(event));
  if (event.type == RDMA_CM_EVENT_ESTABLISHED || id == listener_.get()) return;
  // Whatever else is said of a connection is its end.
  for (Producer& producer : producers_) {
    if (producer.id.get() != id) continue;
    rdma_disconnect(id);
    producer.Leave();
    ended_.left++;
  }
}

void VerbsHost::Admit(rdma::Owned<rdma_cm_id> id, const VerbsHello& hello) {
  const auto refuse = [&](VerbsRefusal why) {
    ended_.refused++;
    rdma_reject(id.get(), &why, sizeof(why));
  };
  if (!IsUnderstood(hello)) return refuse(VerbsRefusal::kVersion);
  if (!options_.token.empty() && !AreSame(hello.token, VerbsTokenOf(options_.token)))
    return refuse(VerbsRefusal::kDenied);
  const auto connected = std::count_if(producers_.begin(), producers_.end(),
                                       [](const Producer& producer) { return producer.id != nullptr; });
  // Those that come and go fast leave windows that are not empty yet: some, not any number.
  if (static_cast<size_t>(connected) >= options_.producers || producers_.size() >= 2 * options_.producers)
    return refuse(VerbsRefusal::kFull);
  auto window = domain_.OpenWindow(options_.window);
  if (!window) return refuse(VerbsRefusal::kFailed);
  Producer producer;
  producer.window = *window;
  if (!Accept(producer, id)) {
    producer.Leave();
    domain_.CloseWindow(**window);
    if (id != nullptr) refuse(VerbsRefusal::kFailed);
    return;
  }
  ended_.accepted++;
  producers_.push_back(std::move(producer));
}

Result<void> VerbsHost::Accept(Producer& producer, rdma::Owned<rdma_cm_id>& id) {
  const Window& window = *producer.window;
  char* const base = static_cast<char*>(window.memory());
  const uint64_t ring_bytes = uint64_t{window.header().slots} * sizeof(Slot);
  auto words =
      rdma::Register(id->pd, base, kWindowWordsBytes, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_READ);
  auto ring = rdma::Register(id->pd, base + kWindowRingsOffset, ring_bytes,
                             IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  if (!words || !ring) return rdma::FailRdma("window");
  ibv_qp_init_attr queues{};
  queues.qp_type = IBV_QPT_RC;
  queues.cap.max_send_wr = queues.cap.max_recv_wr = 1;  // none is ever posted
  queues.cap.max_send_sge = queues.cap.max_recv_sge = 1;
  if (rdma_create_qp(id.get(), nullptr, &queues) != 0) return rdma::FailRdma("queue pair");
  VerbsWelcome welcome;
  welcome.slots = window.header().slots;
  welcome.address = reinterpret_cast<uint64_t>(base);
  welcome.words_key = (*words)->rkey;
  welcome.ring_key = (*ring)->rkey;
  rdma_conn_param answer{};
  answer.private_data = &welcome;
  answer.private_data_len = sizeof(welcome);
  answer.responder_resources = kReadsAtOnce;
  answer.initiator_depth = 1;
  answer.rnr_retry_count = 7;
  if (rdma_accept(id.get(), &answer) != 0) {
    words->reset();
    ring->reset();
    id.reset();  // has been used up
    return rdma::FailRdma("accepting");
  }
  producer.words = std::move(*words);
  producer.ring = std::move(*ring);
  producer.id = std::move(id);
  return {};
}

void VerbsHost::ClearUp() {
  for (auto at = producers_.begin(); at != producers_.end();) {
    Producer& producer = *at;
    const WindowStatistics seen = producer.window->Statistics();
    if (seen.closed != WindowClosed::kOpen && !producer.cut) {
      producer.cut = Clock::now();
      ended_.cut++;
      ended_.last_closed = seen.closed;
    }
    if (producer.id != nullptr && producer.cut && Clock::now() - *producer.cut >= kGrace) {
      rdma_disconnect(producer.id.get());
      producer.Leave();
      ended_.left++;
    }
    // What was written before its producer left is served.
    if (producer.id != nullptr || producer.window->Ready()) {
      at++;
      continue;
    }
    domain_.CloseWindow(*producer.window);
    const WindowStatistics last = producer.window->Statistics();
    ended_.events += last.events;
    ended_.bad_events += last.bad_events;
    at = producers_.erase(at);
  }
}

VerbsHostStatistics VerbsHost::Statistics() const {
  VerbsHostStatistics now = ended_;
  for (const Producer& producer : producers_) {
    const WindowStatistics seen = producer.window->Statistics();
    now.events += seen.events;
    now.bad_events += seen.bad_events;
    now.connected += producer.id != nullptr ? 1 : 0;
    now.windows++;
  }
  return now;
}

}  // namespace spillway::dispatch
