/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Into the receive queues of a guest: one copy, one lock and one call decision a queue and burst.
 */

#include "flow.h"
#include "worker.h"

/* A status that vq_net_put() does not give: it never came to this frame. */
#define NOT_PUT UINT8_MAX

static const enum drop drop_of_status[] = {
	[VQ_NET_BAD_CHAIN] = DROP_BAD_CHAIN,
	[VQ_NET_RUNT] = DROP_RUNT,
	[VQ_NET_NO_BUFFERS] = DROP_NO_BUFFERS,
	[VQ_NET_TOO_BIG] = DROP_TOO_BIG,
	[VQ_NET_BROKEN] = DROP_BROKEN,
};

/* What became of the frames of a delivery. */
static void
account(struct worker *w, const struct delivery *d)
{
	struct port_counters *to = &w->counters[d->to];
	uint64_t bytes = 0, other = 0;
	uint32_t good = 0, i;

	count(to, COUNT_BYTES_DELIVERED, d->copied.delivered);
	count(to, COUNT_BYTES_COPIED, d->copied.copied);
	for (i = 0; i < (d->n + 7) / 8; i++)
		other |= d->statuses[i];
	if (likely(other == 0)) {
		delivered_frames(w, d->to, d->n, d->copied.delivered);
		return;
	}
	for (i = 0; i < d->n; i++) {
		if (likely(d->status[i] == VQ_NET_OK)) {
			bytes += d->frames[i]->len;
			good++;
		} else if (d->status[i] == NOT_PUT) {
			drop_frame(w, DROP_BROKEN, d->to, 1);
		} else {
			drop_frame(w, drop_of_status[d->status[i]], d->to, 1);
		}
	}
	delivered_frames(w, d->to, good, bytes);
}

void
deliver_ring(struct worker *w, uint32_t to, struct vring *ring, const struct vq_frame *const *list,
	uint32_t n)
{
	const struct view_port *p = &w->view->ports[to];
	struct delivery *d = &w->delivery;
	enum vq_call decision;
	uint32_t published;

	d->to = to;
	d->n = n;
	d->frames = list;
	d->copied = (struct vq_net_copied){0};
	d->statuses[(n - 1) / 8] = 0;
	memset(d->status, NOT_PUT, n);

	rte_spinlock_lock(&ring->lock);
	if (unlikely(atomic_load_explicit(&ring->dead, memory_order_relaxed))) {
		rte_spinlock_unlock(&ring->lock);
		drop_frame(w, DROP_LINK_DOWN, to, n);
		return;
	}
	d->ring = ring;
	published = vq_net_put(
		ring->vq, w->put, d->frames, n, p->hdr_len, p->mergeable, d->status, &d->copied);
	decision = decide_call(w, ring, published, d->copied.delivered);
	d->ring = NULL;
	rte_spinlock_unlock(&ring->lock);

	call_ring(w, ring, decision, published);
	account(w, d);
}

void
deliver_ring_recover(struct worker *w)
{
	struct delivery *d = &w->delivery;
	struct vring *ring = d->ring;
	enum vq_call decision = VQ_CALL_NONE;
	uint32_t published = 0;

	/* A second fault, in what follows, must not come here again: the lock is given back then.
	 */
	if (!atomic_load_explicit(&ring->dead, memory_order_relaxed)) {
		/* The sender's memory went away: the receiver keeps what was whole. */
		vq_device_rewind(ring->vq, ring->vq->outstanding);
		published = vq_device_publish(ring->vq);
		decision = decide_call(w, ring, published, d->copied.delivered);
	}
	d->ring = NULL;
	rte_spinlock_unlock(&ring->lock);
	call_ring(w, ring, decision, published);
	account(w, d);
}

/* Spread the frames over the receive queues by flow, so that the order within a flow stays. */
static void
deliver_spread(struct worker *w, uint32_t to, const struct vq_frame *const *list, uint32_t n)
{
	const struct view_port *p = &w->view->ports[to];
	uint8_t queue[BURST];
	uint32_t used = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		const struct vq_frame *f = list[i];
		uint32_t looked_at = f->len < VQ_NET_HEAD ? f->len : VQ_NET_HEAD;

		queue[i] = (uint8_t)(flow_hash(f->head, looked_at) % p->nrx);
		used |= UINT32_C(1) << queue[i];
	}
	for (; used != 0; used &= used - 1) {
		uint32_t q = (uint32_t)__builtin_ctz(used);
		uint32_t m = 0;

		for (i = 0; i < n; i++)
			if (queue[i] == q)
				w->spread[m++] = list[i];
		deliver_ring(w, to, p->rx[q], w->spread, m);
	}
}

void
deliver_vhost(struct worker *w, uint32_t to, const struct vq_frame *const *list, uint32_t n)
{
	const struct view_port *p = &w->view->ports[to];

	if (likely(p->nrx == 1))
		deliver_ring(w, to, p->rx[0], list, n);
	else
		deliver_spread(w, to, list, n);
}
