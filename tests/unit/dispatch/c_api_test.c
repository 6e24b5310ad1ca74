/* SPDX-License-Identifier: Apache-2.0 */
/* A C program's way through the dispatcher; 0 when all went as it should, else the line. */
#include "dispatch/spillway_dispatch.h"

int run_as_c(void);

#define CHECK(what)                                                                                                  \
	if (!(what))                                                                                                 \
	return __LINE__

int run_as_c(void)
{
	struct spillway_event event = {.flow = 7, .user = 42}, got[4];
	struct spillway_domain *domain;
	struct spillway_port *producer, *worker;
	uint16_t queue;
	int added;

	CHECK(!spillway_domain_open("abacus", 0, 0, 0));
	CHECK(spillway_dispatch_error()[0] != 0);
	domain = spillway_domain_open("native", 0, 0, 0);
	CHECK(domain);
	added = spillway_queue_add(domain, SPILLWAY_ATOMIC, 1);
	CHECK(added >= 0);
	queue = (uint16_t)added;
	CHECK(spillway_queue_add(domain, SPILLWAY_ATOMIC, 3) == -1);
	producer = spillway_port_add(domain, 0, 0, SPILLWAY_POLL);
	worker = spillway_port_add(domain, &queue, 1, SPILLWAY_SLEEP);
	CHECK(producer && worker);
	event.queue = queue;
	CHECK(spillway_enqueue(producer, &event, 1) == 1);
	CHECK(spillway_dequeue(worker, got, 4, 1000000000) == 1);
	CHECK(got[0].user == 42 && got[0].flow == 7 && got[0].op == SPILLWAY_FORWARD);
	CHECK(spillway_release(worker, 1) == 1);
	CHECK(spillway_hand_on_hung(domain) == 0);
	spillway_port_leave(worker);
	spillway_port_leave(producer);
	spillway_domain_close(domain);
	return 0;
}
