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

/* Found by no address. */
static struct fdb_entry nowhere;

void
forward_init(struct worker *w)
{
	uint32_t i;

	for (i = 0; i < PORTS_MAX; i++)
		w->last[i] = (struct last_found){&nowhere, &nowhere};
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
	b->list[to][b->count[to]++] = b->frames[i];
	b->pending |= UINT64_C(1) << to;
	if (b->from_eth)
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

/* @param port of the address, FDB_UNKNOWN where there is none */
static inline uint32_t
where_to(const struct worker *w, uint64_t mac, uint32_t port)
{
	if (mac_is_group(mac))
		return mac_is_reserved(mac) ? TO_NOBODY : TO_ALL;
	if (port == FDB_UNKNOWN)
		return TO_ALL;
	return port == w->burst.from ? TO_NOBODY : port;
}

static inline uint32_t
port_of(const struct fdb_entry *e, uint64_t mac)
{
	return e != NULL ? fdb_port(e, mac) : FDB_UNKNOWN;
}

static inline void
hear(struct worker *w, uint64_t mac, struct fdb_entry *e)
{
	if (likely(port_of(e, mac) == w->burst.from))
		fdb_touch(e, w->second);
	else if (!mac_is_group(mac) && mac != 0)
		learn(w, mac, w->burst.from);
}

/* Where an address is, looking first where it was. */
static inline struct fdb_entry *
look_again(const struct worker *w, uint64_t mac, struct fdb_entry **last)
{
	struct fdb_entry *e;

	if (likely(fdb_port(*last, mac) != FDB_UNKNOWN))
		return *last;
	fdb_lookup(w->sw->fdb, &mac, 1, &e);
	if (e != NULL)
		*last = e;
	return e;
}

/* All frames of the burst to one port, as they are. @return false: that is not all there is to it
 */
static inline bool
deliver_whole(struct worker *w, uint32_t to)
{
	const uint64_t others = w->view->members & ~(UINT64_C(1) << w->burst.from);
	const struct burst *b = &w->burst;
	const struct view_port *p;

	/* Flooded, with one port that gets it. */
	if (to == TO_ALL && others != 0 && (others & (others - 1)) == 0)
		to = (uint32_t)__builtin_ctzll(others);
	if (!b->good || to >= PORTS_MAX || (w->view->members >> to & 1) == 0)
		return false;
	p = &w->view->ports[to];
	if (b->longest > p->max_len)
		return false;
	if (p->kind == VIEW_VHOST)
		deliver_vhost(w, to, b->frames, b->n);
	else if (!b->from_eth)
		deliver_eth(w, to, b->frames, b->n);
	else
		return false; /* mbufs have references to be counted */
	return true;
}

/* Each frame has a verdict: to lists by port, and from these to the ports. */
static void
sort_burst(struct worker *w, const uint32_t *verdict, const uint8_t *of_frame)
{
	struct burst *b = &w->burst;
	uint32_t i;

	for (i = 0; i < b->n; i++) {
		uint32_t to;

		if (dropped_at_once(w, i))
			continue;
		to = verdict[of_frame[i]];
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

/* All frames have the addresses of the first. */
static void
forward_same(struct worker *w)
{
	static const uint8_t of_frame[BURST];
	const struct burst *b = &w->burst;
	const uint8_t *head = b->frames[0]->head;
	const uint64_t target = mac_at(head), source = mac_at(head + 6);
	struct last_found *last = &w->last[b->from];
	uint32_t to;

	hear(w, source, look_again(w, source, &last->source));
	to = where_to(w, target,
		mac_is_group(target) ? FDB_UNKNOWN
				     : port_of(look_again(w, target, &last->target), target));
	if (!deliver_whole(w, to))
		sort_burst(w, &to, of_frame);
}

static void
forward_mixed(struct worker *w)
{
	struct addresses sources;
	struct addresses targets;
	uint32_t verdict[BURST];
	struct burst *b = &w->burst;
	uint32_t others = 0, i;

	/* Not all of it: there is a kilobyte of each. */
	sources.n = 0;
	targets.n = 0;
	for (i = 0; i < b->n; i++) {
		if (unlikely(b->frames[i]->status != VQ_NET_OK))
			continue;
		add_address(&targets, i, mac_at(b->frames[i]->head));
		add_address(&sources, i, mac_at(b->frames[i]->head + 6));
	}
	fdb_lookup(w->sw->fdb, sources.mac, sources.n, sources.found);
	for (i = 0; i < sources.n; i++)
		hear(w, sources.mac[i], sources.found[i]);
	fdb_lookup(w->sw->fdb, targets.mac, targets.n, targets.found);
	for (i = 0; i < targets.n; i++) {
		verdict[i] = where_to(w, targets.mac[i], port_of(targets.found[i], targets.mac[i]));
		others |= verdict[i] ^ verdict[0];
	}
	if (targets.n == 0 || others != 0 || !deliver_whole(w, verdict[0]))
		sort_burst(w, verdict, targets.of_frame);
}

void
forward_burst(struct worker *w)
{
	if (likely(w->burst.same))
		forward_same(w);
	else
		forward_mixed(w);
}

static void
reflect(struct worker *w, struct vring *ring, const struct vq_frame *const *list, uint32_t n)
{
	const uint32_t port = w->burst.from;

	if (w->view->ports[port].loopback == LOOPBACK_MBUF)
		deliver_by_mbufs(w, port, ring, list, n);
	else
		deliver_ring(w, port, ring, list, n);
}

void
reflect_burst(struct worker *w, uint32_t pair)
{
	struct burst *b = &w->burst;
	const struct view_port *p = &w->view->ports[b->from];
	struct vring *ring = p->rx_pair[pair];
	const struct vq_frame **list = b->list[b->from];
	uint32_t n = 0, i;

	if (likely(b->good && ring != NULL && b->longest <= p->max_len)) {
		reflect(w, ring, b->frames, b->n);
		return;
	}
	for (i = 0; i < b->n; i++) {
		if (dropped_at_once(w, i))
			continue;
		if (unlikely(ring == NULL))
			drop_frame(w, DROP_LINK_DOWN, b->from, 1);
		else if (unlikely(b->frames[i]->len > p->max_len))
			drop_frame(w, DROP_TOO_BIG, b->from, 1);
		else
			list[n++] = b->frames[i];
	}
	if (n != 0)
		reflect(w, ring, list, n);
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
