/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Both ends of learning: an address and its port, packed into a pointer, go to the control thread
 * through a ring. It is woken at most once a millisecond by each worker.
 */

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "flow.h"
#include "vswitch.h"
#include "worker.h"

/* The same message is not sent twice within this time: long enough to be learned meanwhile. */
#define FILTER_MS 10
/*
 * A port's share of what waits: at least so many messages, and of a large table one in so many
 * addresses. No worker sends more of a port within FILTER_MS either, so that a guest that invents
 * addresses leaves the control thread time for others; it fills its half of a large table in five
 * seconds all the same.
 */
#define SHARE_MIN 128
#define SHARE_OF  1024
_Static_assert(ADDRESSES_MAX / SHARE_OF <= UINT16_MAX, "workers count them in 16 bits");
/* Written into the table in one go. */
#define TAKE 256

#define MAC_BITS UINT64_C(0xffffffffffff)

int
learning_init(struct learning *l, const struct switch_config *config)
{
	l->share = RTE_MAX(config->addresses / SHARE_OF, (uint32_t)SHARE_MIN);
	l->ring = rte_ring_create("sluice_learning", RTE_MAX(config->nports, 1u) * l->share,
		SOCKET_ID_ANY, RING_F_SC_DEQ | RING_F_EXACT_SZ);
	if (l->ring == NULL)
		return -ENOMEM;
	l->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	return l->event >= 0 ? 0 : -errno;
}

void
learning_end(struct learning *l)
{
	rte_ring_free(l->ring);
	if (l->event > 0)
		close(l->event);
}

bool
learning_take(struct learning *l, struct fdb *f, uint32_t second)
{
	void *messages[TAKE];
	uint32_t n, i, left = 0;

	n = rte_ring_dequeue_burst(l->ring, messages, TAKE, &left);
	for (i = 0; i < n; i++) {
		const uint64_t message = (uint64_t)(uintptr_t)messages[i];
		const uint32_t port = (uint32_t)(message >> 48) - 1;

		/* Its place in the ring first: who reads that there is room finds it. */
		atomic_fetch_sub_explicit(&l->waiting[port], 1, memory_order_release);
		(void)fdb_learn(f, message & MAC_BITS, (uint8_t)port, second);
	}
	return left != 0;
}

/* Within the port's share there is room in the ring. */
static bool
post(struct learning *l, uint64_t message, uint32_t port)
{
	if (atomic_fetch_add_explicit(&l->waiting[port], 1, memory_order_acquire) < l->share &&
		rte_ring_enqueue(l->ring, (void *)(uintptr_t)message) == 0)
		return true;
	atomic_fetch_sub_explicit(&l->waiting[port], 1, memory_order_relaxed);
	return false;
}

void
learn(struct worker *w, uint64_t mac, uint32_t port)
{
	struct learner *l = &w->learner;
	struct learning *to = &w->sw->learning;
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
	if (l->sent[port] == to->share || !post(to, message, port)) {
		atomic_fetch_add_explicit(&to->lost, 1, memory_order_relaxed);
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
	if (write(w->sw->learning.event, &one, sizeof(one)) < 0)
		l->waiting = true;
}
