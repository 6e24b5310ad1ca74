/* SPDX-License-Identifier: Apache-2.0
 * The dispatcher for C and for languages that speak C (domain.h says what each thing means; the rules on threads are
 * the same). Functions that can fail return NULL or -1, and spillway_dispatch_error() says why, of the last failure in
 * this thread. Durations are nanoseconds. */
#ifndef SPILLWAY_DISPATCH_H
#define SPILLWAY_DISPATCH_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct spillway_domain;
struct spillway_port;

enum spillway_kind { SPILLWAY_ATOMIC, SPILLWAY_ORDERED, SPILLWAY_UNORDERED, SPILLWAY_DIRECTED };
enum spillway_wait { SPILLWAY_POLL, SPILLWAY_UMWAIT, SPILLWAY_SLEEP };
enum spillway_op { SPILLWAY_NEW, SPILLWAY_FORWARD, SPILLWAY_RELEASE };

struct spillway_event {
	uint32_t flow;
	uint16_t queue;
	uint8_t priority; /* 0 (first) .. 7 */
	uint8_t op;       /* enum spillway_op; dequeued: SPILLWAY_FORWARD */
	uint64_t user;
};

/* engine: "native", "event_sw", "event_dsw", "event_dlb2". credits, ports: 0 for the defaults (4096, 16).
 * deadline_ns: 0, or after how long a worker that holds events is taken for hung. */
struct spillway_domain *spillway_domain_open(const char *engine, uint32_t credits, uint16_t ports,
					     uint64_t deadline_ns);
void spillway_domain_close(struct spillway_domain *domain); /* after all its ports */
/* The queue's number, or -1. shards: a power of two, 1 .. 64. */
int spillway_queue_add(struct spillway_domain *domain, enum spillway_kind kind, uint16_t shards);
/* queues: to dequeue from; count 0: a producer port. */
struct spillway_port *spillway_port_add(struct spillway_domain *domain, const uint16_t *queues, size_t count,
					enum spillway_wait wait);
void spillway_port_leave(struct spillway_port *port);
/* How many of the events were taken. */
size_t spillway_enqueue(struct spillway_port *port, const struct spillway_event *events, size_t count);
size_t spillway_dequeue(struct spillway_port *port, struct spillway_event *into, size_t most, uint64_t patience_ns);
size_t spillway_release(struct spillway_port *port, size_t count);
/* Events handed on from workers past the deadline. */
size_t spillway_hand_on_hung(struct spillway_domain *domain);
const char *spillway_dispatch_error(void);

#ifdef __cplusplus
}
#endif
#endif
