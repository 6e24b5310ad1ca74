// SPDX-License-Identifier: Apache-2.0
#include "lab/kvs/kv_server.h"

#include <arpa/inet.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "base/system_error.h"
#include "dispatch/remote_producer.h"

namespace spillway::lab {
namespace {

using dispatch::Event;

constexpr uint64_t kSlots = 1 << 14;
constexpr uint32_t kCredits = 4096, kWindowSlots = 1024;
static_assert(kSlots > kCredits + kWindowSlots + 64);
constexpr int kIdleMs = 2;  // how long a worker with nothing to do sleeps, at most

uint32_t FlowOf(uint64_t key) { return static_cast<uint32_t>(key ^ key >> 32); }

}  // namespace

struct KvServer::PendingSlots {
  std::atomic<uint64_t> next;
  Pending slots[kSlots];
};

std::string_view ToString(KvFrontEnd front_end) {
  switch (front_end) {
    case KvFrontEnd::kRss:
      return "rss";
    case KvFrontEnd::kSteal:
      return "steal";
    case KvFrontEnd::kDispatch:
      return "dispatch";
    case KvFrontEnd::kRemote:
      return "remote";
  }
  return "unknown";
}

KvServer::KvServer(const KvServerSetup& setup, OrderedStore& store)
    : setup_(setup),
      network_(setup.network != nullptr ? *setup.network : loopback_),
      place_(setup.front_end == KvFrontEnd::kRemote ? HostNetwork::Place::kNic : HostNetwork::Place::kHost),
      store_(store) {}

Result<std::unique_ptr<KvServer>> KvServer::Start(const KvServerSetup& setup, OrderedStore& store) {
  std::unique_ptr<KvServer> server(new KvServer(setup, store));
  auto ready = server->OpenSockets();
  const bool dispatched = setup.front_end == KvFrontEnd::kDispatch || setup.front_end == KvFrontEnd::kRemote;
  if (dispatched) ready = ready.and_then([&] { return server->OpenDomain(); });
  if (setup.front_end == KvFrontEnd::kRemote) ready = ready.and_then([&] { return server->StartNic(); });
  if (!ready) return tl::make_unexpected(ready.error());
  for (int worker = 0; worker < setup.workers; worker++) {
    server->threads_.emplace_back([server = server.get(), worker, dispatched] {
      server->TakeCore(worker);
      dispatched ? server->RunDispatched(worker) : server->RunOwnSocket(worker);
    });
  }
  return server;
}

KvServer::~KvServer() {
  Stop();
  for (int socket : sockets_) close(socket);
  if (slots_ != nullptr) munmap(slots_, sizeof(PendingSlots));
}

void KvServer::Stop() {
  stopping_ = true;
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
  if (nic_ > 0) {
    kill(nic_, SIGTERM);
    rusage used{};
    wait4(nic_, nullptr, 0, &used);
    nic_cpu_s_ = static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
                 static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec) / 1e6;
    nic_ = -1;
  }
}

// One socket for all, or one per worker that the kernel spreads flows over.
Result<void> KvServer::OpenSockets() {
  const bool own = setup_.front_end == KvFrontEnd::kRss || setup_.front_end == KvFrontEnd::kSteal;
  for (int i = 0; i < (own ? setup_.workers : 1); i++) {
    const auto opened = network_.UdpSocket(place_);
    if (!opened) return tl::make_unexpected(opened.error());
    const int made = *opened;
    sockets_.push_back(made);
    const int on = 1, bytes = 4 << 20;
    setsockopt(made, SOL_SOCKET, SO_REUSEPORT, &on, sizeof(on));
    setsockopt(made, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = this->address();
    address.sin_port = htons(port_);
    if (bind(made, reinterpret_cast<sockaddr*>(&address), sizeof(address)) != 0)
      return FailSystem("bind the server's port");
    socklen_t length = sizeof(address);
    getsockname(made, reinterpret_cast<sockaddr*>(&address), &length);
    port_ = ntohs(address.sin_port);
  }
  return {};
}

Result<void> KvServer::OpenDomain() {
  void* memory =
      mmap(nullptr, sizeof(PendingSlots), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return FailSystem("mmap");
  slots_ = static_cast<PendingSlots*>(memory);
  dispatch::DomainOptions options;
  options.credits = kCredits;
  options.ports = static_cast<uint16_t>(setup_.workers + 1);
  return dispatch::Domain::Open("native", options)
      .and_then([&](std::unique_ptr<dispatch::Domain> domain) {
        domain_ = std::move(domain);
        return domain_->AddQueue({});  // atomic: requests for one key are served in turn
      })
      .map([&](uint16_t queue) { queue_ = queue; });
}

Result<void> KvServer::StartNic() {
  dispatch::WindowOptions options;
  options.queue = queue_;
  options.slots = kWindowSlots;
  auto window = domain_->OpenWindow(options);
  if (!window) return tl::make_unexpected(window.error());
  window_ = *window;
  nic_ = fork();
  if (nic_ < 0) return FailSystem("fork");
  if (nic_ == 0) RunNic(window_->Fd());
  return {};
}

// The process in the NIC's place: no more than receive and write into the window. A child of a process with
// threads: nothing here allocates or locks but what maps the window, before which no thread was started.
void KvServer::RunNic(int window_fd) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  auto producer = dispatch::RemoteProducer::Map(window_fd, 0);
  if (!producer || !network_.Enter(HostNetwork::Place::kNic)) _exit(1);
  pollfd waits = {sockets_[0], POLLIN, 0};
  for (;;) {
    const uint64_t at = slots_->next.fetch_add(1, std::memory_order_relaxed) % kSlots;
    Pending& pending = slots_->slots[at];
    socklen_t length = sizeof(pending.client);
    while (recvfrom(sockets_[0], &pending.request, sizeof(KvRequest), 0,
                    reinterpret_cast<sockaddr*>(&pending.client), &length) != sizeof(KvRequest) ||
           pending.request.magic != kKvMagic) {
      poll(&waits, 1, 1000);
      length = sizeof(pending.client);
    }
    Event event;
    event.flow = FlowOf(pending.request.key);
    event.user = at;
    while ((*producer)->Enqueue({&event, 1}) == 0) {
      if ((*producer)->Closed() != dispatch::WindowClosed::kOpen) _exit(2);
      sched_yield();
    }
  }
}

KvReply KvServer::Serve(OrderedStore& store, const KvRequest& request, uint32_t repeat) {
  KvReply reply;
  reply.id = request.id;
  switch (request.op) {
    case KvOp::kGet:
      for (uint32_t i = 0; i < repeat; i++) {
        const auto value = store.Get(request.key);
        reply.found = value.has_value();
        reply.value = value.value_or(0);
      }
      break;
    case KvOp::kPut:
      reply.found = store.Put(request.key, request.value);
      break;
    case KvOp::kScan:
      reply.found = 1;
      reply.value =
          store.Scan(request.key, static_cast<uint32_t>(std::min<uint64_t>(request.value, 1 << 24)));
      break;
  }
  return reply;
}

void KvServer::Reply(int socket, const Pending& pending, int worker) {
  KvReply reply = Serve(store_, pending.request, setup_.repeat);
  reply.worker = static_cast<uint64_t>(worker);
  sendto(socket, &reply, sizeof(reply), MSG_NOSIGNAL, reinterpret_cast<const sockaddr*>(&pending.client),
         sizeof(pending.client));
  served_.fetch_add(1, std::memory_order_relaxed);
}

bool KvServer::ServeFrom(int socket, int reply_socket, int worker) {
  Pending pending;
  socklen_t length = sizeof(pending.client);
  if (recvfrom(socket, &pending.request, sizeof(KvRequest), 0, reinterpret_cast<sockaddr*>(&pending.client),
               &length) != sizeof(KvRequest) ||
      pending.request.magic != kKvMagic)
    return false;
  Reply(reply_socket, pending, worker);
  return true;
}

// A worker is a core, as a hash over cores assumes: where each can have its own, it does.
void KvServer::TakeCore(int worker) const {
  cpu_set_t allowed, own;
  if (sched_getaffinity(0, sizeof(allowed), &allowed) == 0 && CPU_COUNT(&allowed) >= setup_.workers) {
    int cpu = 0;
    for (int left = worker; !CPU_ISSET(cpu, &allowed) || left-- > 0;) cpu++;
    CPU_ZERO(&own);
    CPU_SET(cpu, &own);
    sched_setaffinity(0, sizeof(own), &own);
  }
  const sched_param none{};
  if (setup_.workers_yield) sched_setscheduler(0, SCHED_IDLE, &none);
}

void KvServer::RunOwnSocket(int worker) {
  const auto own = static_cast<size_t>(worker);
  std::vector<pollfd> waits;
  for (size_t i = 0; i < sockets_.size(); i++) {
    if (i == own || setup_.front_end == KvFrontEnd::kSteal) waits.push_back({sockets_[i], POLLIN, 0});
  }
  while (!stopping_) {
    bool served = ServeFrom(sockets_[own], sockets_[own], worker);
    for (size_t i = 1; i < sockets_.size() && !served && setup_.front_end == KvFrontEnd::kSteal; i++)
      served = ServeFrom(sockets_[(own + i) % sockets_.size()], sockets_[own], worker);
    if (!served) poll(waits.data(), waits.size(), kIdleMs);
  }
}

// What has arrived, up to a burst, for whoever is free.
void KvServer::ReceiveIntoDomain(dispatch::Port& port, uint64_t& spare) {
  Event burst[16];
  size_t count = 0;
  // Those that are no requests count, too: a flood of them must end as well.
  for (size_t reads = 0; reads < std::size(burst); reads++) {
    // A slot that nothing was received into is the next one's.
    if (spare == kSlots) spare = slots_->next.fetch_add(1, std::memory_order_relaxed) % kSlots;
    const uint64_t at = spare;
    Pending& pending = slots_->slots[at];
    socklen_t length = sizeof(pending.client);
    if (recvfrom(sockets_[0], &pending.request, sizeof(KvRequest), 0,
                 reinterpret_cast<sockaddr*>(&pending.client), &length) != sizeof(KvRequest))
      break;
    if (pending.request.magic != kKvMagic) continue;
    spare = kSlots;
    burst[count].flow = FlowOf(pending.request.key);
    burst[count].queue = queue_;
    burst[count++].user = at;
  }
  // Without credits: the rest is dropped, as a full socket would.
  (void)port.Enqueue({burst, count});
}

void KvServer::RunDispatched(int worker) {
  dispatch::PortOptions options;
  const bool receives = setup_.front_end == KvFrontEnd::kDispatch;
  options.queues = {queue_};
  if (receives) options.wait = dispatch::Wait::kSleep;
  options.event_fd = receives;
  auto port = domain_->AddPort(options);
  if (!port) return;
  uint64_t spare = kSlots;
  // What another worker received and enqueued is no longer in the socket.
  pollfd waits[] = {{sockets_[0], POLLIN, 0}, {(*port)->EventFd(), POLLIN, 0}};
  while (!stopping_) {
    if (receives) ReceiveIntoDomain(**port, spare);
    // One at a time: what is taken ahead is what another worker could have served.
    Event event;
    if ((*port)->Dequeue({&event, 1}) == 1) {
      Reply(sockets_[0], slots_->slots[event.user % kSlots], worker);
    } else if (receives) {
      if ((*port)->Arm()) poll(waits, std::size(waits), kIdleMs);
    } else {
      sched_yield();  // a window wakes nobody
    }
  }
}

}  // namespace spillway::lab
