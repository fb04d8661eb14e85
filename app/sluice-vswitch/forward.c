/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * From frames to lists of frames, one for each port that gets some: look up, flood, filter, learn.
 * All frames of a burst have one source port.
 */

#include "flow.h"
#include "vswitch.h"
#include "worker.h"

_Static_assert(BURST <= FDB_BULK_MAX, "one lookup has to take the addresses of a burst");
_Static_assert(PORTS_MAX == 64, "sets of ports are 64 bits");

/* Besides a port. */
#define TO_ALL    PORTS_MAX
#define TO_NOBODY (PORTS_MAX + 1)

/* The addresses of a burst, repetitions in a row left out. */
struct addresses {
	uint32_t n;
	uint64_t mac[BURST];
	struct fdb_entry *found[BURST];
	uint8_t of_frame[BURST];
};

static inline void
add_address(struct addresses *a, uint32_t frame, uint64_t mac)
{
	if (a->n == 0 || a->mac[a->n - 1] != mac)
		a->mac[a->n++] = mac;
	a->of_frame[frame] = (uint8_t)(a->n - 1);
}

void
drop_frame(struct worker *w, enum drop reason, uint32_t to, uint32_t copies)
{
	count(&w->counters[w->burst.from], COUNT_DROP + reason, copies);
	if (to < PORTS_MAX)
		count(&w->counters[to], COUNT_TODROP + reason, copies);
	w->burst.open -= copies;
}

void
delivered_frames(struct worker *w, uint32_t to, uint32_t n, uint64_t bytes)
{
	count(&w->counters[w->burst.from], COUNT_DELIVERED, n);
	count(&w->counters[to], COUNT_TX_PACKETS, n);
	count(&w->counters[to], COUNT_TX_BYTES, bytes);
	w->burst.open -= n;
}

/* A frame without an Ethernet header goes nowhere. */
static inline bool
dropped_at_once(struct worker *w, uint32_t i)
{
	uint32_t status = w->burst.frames[i]->status;

	if (likely(status == VQ_NET_OK))
		return false;
	drop_frame(w, status == VQ_NET_RUNT ? DROP_RUNT : DROP_BAD_CHAIN, PORTS_MAX, 1);
	return true;
}

static inline void
append(struct worker *w, uint32_t i, uint32_t to)
{
	const struct view_port *p = &w->view->ports[to];
	struct burst *b = &w->burst;

	if (unlikely(b->frames[i]->len > p->max_len)) {
		drop_frame(w, DROP_TOO_BIG, to, 1);
		return;
	}
	b->list[to][b->count[to]++] = (uint8_t)i;
	b->pending |= UINT64_C(1) << to;
	b->eth_copies[i] += p->kind == VIEW_ETH;
}

/* One copy for each port but the source's. */
static void
flood(struct worker *w, uint32_t i)
{
	struct burst *b = &w->burst;
	uint64_t to = w->view->members & ~(UINT64_C(1) << b->from);
	uint32_t copies = (uint32_t)__builtin_popcountll(to);

	if (copies == 0) {
		drop_frame(w, DROP_NO_RECEIVER, PORTS_MAX, 1);
		return;
	}
	count(&w->counters[b->from], COUNT_REPLICAS, copies - 1);
	b->open += copies - 1;
	for (; to != 0; to &= to - 1)
		append(w, i, (uint32_t)__builtin_ctzll(to));
}

static uint32_t
where_to(const struct worker *w, uint64_t mac, const struct fdb_entry *e)
{
	uint32_t port;

	if (mac_is_group(mac))
		return mac_is_reserved(mac) ? TO_NOBODY : TO_ALL;
	if (e == NULL)
		return TO_ALL;
	port = atomic_load_explicit(&e->port, memory_order_relaxed);
	return port == w->burst.from ? TO_NOBODY : port;
}

static void
learn_sources(struct worker *w, struct addresses *a)
{
	uint32_t from = w->burst.from;
	uint32_t i;

	fdb_lookup(w->sw->fdb, a->mac, a->n, a->found);
	for (i = 0; i < a->n; i++) {
		struct fdb_entry *e = a->found[i];

		if (e != NULL && atomic_load_explicit(&e->port, memory_order_relaxed) == from)
			fdb_touch(e, w->second);
		else if (!mac_is_group(a->mac[i]) && a->mac[i] != 0)
			learn(w, a->mac[i], from);
	}
}

void
forward_burst(struct worker *w)
{
	struct addresses sources;
	struct addresses targets;
	uint32_t verdict[BURST];
	struct burst *b = &w->burst;
	uint32_t i;

	/* Not all of it: there is a kilobyte of each. */
	sources.n = 0;
	targets.n = 0;
	for (i = 0; i < b->n; i++) {
		if (unlikely(b->frames[i]->status != VQ_NET_OK))
			continue;
		add_address(&targets, i, mac_at(b->heads[i]));
		add_address(&sources, i, mac_at(b->heads[i] + 6));
	}
	learn_sources(w, &sources);
	fdb_lookup(w->sw->fdb, targets.mac, targets.n, targets.found);
	for (i = 0; i < targets.n; i++)
		verdict[i] = where_to(w, targets.mac[i], targets.found[i]);

	for (i = 0; i < b->n; i++) {
		uint32_t to;

		if (dropped_at_once(w, i))
			continue;
		to = verdict[targets.of_frame[i]];
		if (to == TO_ALL)
			flood(w, i);
		else if (to == TO_NOBODY)
			drop_frame(w, DROP_FILTERED, PORTS_MAX, 1);
		else if (unlikely((w->view->members >> to & 1) == 0))
			drop_frame(w, DROP_LINK_DOWN, to, 1);
		else
			append(w, i, to);
	}
	deliver_burst(w);
}

void
reflect_burst(struct worker *w, uint32_t pair)
{
	struct burst *b = &w->burst;
	struct vring *ring = w->view->ports[b->from].rx_pair[pair];
	uint8_t list[BURST];
	uint32_t n = 0, i;

	for (i = 0; i < b->n; i++) {
		if (dropped_at_once(w, i))
			continue;
		if (unlikely(ring == NULL))
			drop_frame(w, DROP_LINK_DOWN, b->from, 1);
		else if (unlikely(b->frames[i]->len > w->view->ports[b->from].max_len))
			drop_frame(w, DROP_TOO_BIG, b->from, 1);
		else
			list[n++] = (uint8_t)i;
	}
	if (n != 0)
		deliver_ring(w, b->from, ring, list, n);
}

void
drop_burst(struct worker *w, enum drop reason)
{
	drop_frame(w, reason, PORTS_MAX, w->burst.n);
}

/* The next port of a set that has a list, taken out of the pending ones before it is served. */
static inline uint32_t
next_pending(struct burst *b, uint64_t among)
{
	uint32_t to = (uint32_t)__builtin_ctzll(b->pending & among);

	b->pending &= ~(UINT64_C(1) << to);
	return to;
}

/* Each ethdev frees a reference of its own. */
static void
share_mbufs(struct burst *b)
{
	uint32_t i;

	for (i = 0; i < b->n; i++)
		if (b->eth_copies[i] > 1)
			rte_pktmbuf_refcnt_update(b->mbufs[i], (int16_t)(b->eth_copies[i] - 1));
}

void
deliver_burst(struct worker *w)
{
	const uint64_t eth = w->view->eth;
	struct burst *b = &w->burst;
	uint32_t to, n;

	/* Rings first: they read the mbufs that an ethdev may free. */
	while ((b->pending & ~eth) != 0) {
		to = next_pending(b, ~eth);
		n = b->count[to];
		b->count[to] = 0;
		deliver_vhost(w, to, b->list[to], n);
	}
	if (likely(b->pending == 0))
		return;
	if (b->from_eth)
		share_mbufs(b);
	while (b->pending != 0) {
		to = next_pending(b, eth);
		n = b->count[to];
		b->count[to] = 0;
		deliver_eth(w, to, b->list[to], n);
	}
}
