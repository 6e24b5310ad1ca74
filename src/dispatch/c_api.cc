// SPDX-License-Identifier: Apache-2.0
// The C interface of the dispatcher, spillway_dispatch.h, over domain.h.
#include <cstddef>
#include <string>

#include "dispatch/domain.h"
#include "dispatch/spillway_dispatch.h"

using spillway::Error;
namespace dispatch = spillway::dispatch;

static_assert(sizeof(spillway_event) == sizeof(dispatch::Event) &&
              offsetof(spillway_event, queue) == offsetof(dispatch::Event, queue) &&
              offsetof(spillway_event, priority) == offsetof(dispatch::Event, priority) &&
              offsetof(spillway_event, op) == offsetof(dispatch::Event, op) &&
              offsetof(spillway_event, user) == offsetof(dispatch::Event, user));

struct spillway_domain {
  std::unique_ptr<dispatch::Domain> domain;
};
struct spillway_port {
  std::unique_ptr<dispatch::Port> port;
};

namespace {

thread_local std::string last_error;

void Keep(const Error& error) { last_error = error.message; }

}  // namespace

spillway_domain* spillway_domain_open(const char* engine, uint32_t credits, uint16_t ports,
                                      uint64_t deadline_ns) {
  dispatch::DomainOptions options;
  if (credits != 0) options.credits = credits;
  if (ports != 0) options.ports = ports;
  options.deadline = std::chrono::nanoseconds(deadline_ns);
  auto opened = dispatch::Domain::Open(engine, options).map_error(Keep);
  return opened ? new spillway_domain{std::move(*opened)} : nullptr;
}

void spillway_domain_close(spillway_domain* domain) { delete domain; }

int spillway_queue_add(spillway_domain* domain, spillway_kind kind, uint16_t shards) {
  dispatch::QueueOptions options;
  options.kind = static_cast<dispatch::Kind>(kind);
  options.shards = shards;
  const auto added = domain->domain->AddQueue(options).map_error(Keep);
  return added ? *added : -1;
}

spillway_port* spillway_port_add(spillway_domain* domain, const uint16_t* queues, size_t count,
                                 spillway_wait wait) {
  dispatch::PortOptions options;
  options.queues.assign(queues, queues + count);
  options.wait = static_cast<dispatch::Wait>(wait);
  auto added = domain->domain->AddPort(options).map_error(Keep);
  return added ? new spillway_port{std::move(*added)} : nullptr;
}

void spillway_port_leave(spillway_port* port) { delete port; }

// The two event types are laid out alike, but a compiler may assume that they are not the same memory.
size_t spillway_enqueue(spillway_port* port, const spillway_event* events, size_t count) {
  constexpr size_t kPart = 64;
  size_t done = 0;
  while (done < count) {
    dispatch::Event part[kPart];
    const size_t size = count - done < kPart ? count - done : kPart;
    for (size_t i = 0; i < size; i++) {
      const spillway_event& event = events[done + i];
      part[i] = {event.flow, event.queue, event.priority, static_cast<dispatch::Op>(event.op), event.user};
    }
    const size_t taken = port->port->Enqueue({part, size});
    done += taken;
    if (taken < size) break;
  }
  return done;
}

size_t spillway_dequeue(spillway_port* port, spillway_event* into, size_t most, uint64_t patience_ns) {
  constexpr size_t kPart = 64;
  dispatch::Event part[kPart];
  const size_t got =
      port->port->Dequeue({part, most < kPart ? most : kPart}, std::chrono::nanoseconds(patience_ns));
  for (size_t i = 0; i < got; i++)
    into[i] = {part[i].flow, part[i].queue, part[i].priority, static_cast<uint8_t>(part[i].op), part[i].user};
  return got;
}

size_t spillway_release(spillway_port* port, size_t count) { return port->port->Release(count); }

size_t spillway_hand_on_hung(spillway_domain* domain) { return domain->domain->HandOnHung(); }

const char* spillway_dispatch_error(void) { return last_error.c_str(); }
