/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The workers' end of learning: an address and its port, packed into a pointer, go to the control
 * thread through a ring. It is woken at most once a millisecond by each worker.
 */

#include <unistd.h>

#include <rte_cycles.h>

#include "flow.h"
#include "vswitch.h"
#include "worker.h"

/* The same message is not sent twice within this time: long enough to be learned meanwhile. */
#define FILTER_MS 10
/*
 * Messages of one port within it, so that a guest that invents addresses leaves room for others: at
 * least so many, and as many as fill its share of a large table in five seconds.
 */
#define PORT_MESSAGES 128
#define PORT_SHARE    1024

void
learn_init(struct worker *w)
{
	w->learner.most =
		(uint16_t)RTE_MAX(w->sw->config.addresses / PORT_SHARE, (uint32_t)PORT_MESSAGES);
}

void
learn(struct worker *w, uint64_t mac, uint32_t port)
{
	struct learner *l = &w->learner;
	/* No port is 0 here, so that no message looks like an empty place in the filter. */
	uint64_t message = mac | (uint64_t)(port + 1) << 48;
	uint64_t *place = &l->filter[mix64(message) % LEARN_FILTER];

	if (w->now >= l->filter_until) {
		memset(l->filter, 0, sizeof(l->filter));
		memset(l->sent, 0, sizeof(l->sent));
		l->filter_until = w->now + rte_get_tsc_hz() / 1000 * FILTER_MS;
	}
	if (*place == message)
		return;
	if (l->sent[port] == l->most ||
		rte_ring_enqueue(w->sw->learning, (void *)(uintptr_t)message) != 0) {
		atomic_fetch_add_explicit(&w->sw->learning_lost, 1, memory_order_relaxed);
		return;
	}
	l->sent[port]++;
	*place = message;
	l->waiting = true;
}

void
learn_announce(struct worker *w)
{
	struct learner *l = &w->learner;
	const uint64_t one = 1;

	if (likely(!l->waiting) || w->now - l->announced < rte_get_tsc_hz() / 1000)
		return;
	l->announced = w->now;
	l->waiting = false;
	/* Never fails: the counter of an eventfd does not run full one by one. */
	if (write(w->sw->learning_event, &one, sizeof(one)) < 0)
		l->waiting = true;
}
