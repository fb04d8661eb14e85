/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* When the guest of a ring is called. */

#include <errno.h>
#include <unistd.h>

#include "fault.h"
#include "worker.h"

/* Moderate by the profile that was found. */
static void
take_profile(struct worker *w, struct vring *ring)
{
	const uint8_t profile = ring->adapt.profile;
	const struct vq_adapt_profile *p = &vq_adapt_profiles[profile];
	const struct vq_coalesce_params params = {
		.frames = vq_adapt_frames(p, ring->vq->size),
		.ticks = ring->adapt.ticks_per_ms * p->usecs / 1000,
	};

	vq_coalesce_set(&ring->vq->coalesce, &params);
	atomic_store_explicit(&ring->profile, profile, memory_order_relaxed);
	count(&w->counters[ring->port], COUNT_PROFILE_CHANGES, 1);
}

/* A call that is really made is what adaptive coalescing goes by. */
static enum vq_call
note_call(struct worker *w, struct vring *ring, enum vq_call decision)
{
	if (ring->adaptive && decision == VQ_CALL_MAKE && vq_adapt_event(&ring->adapt, w->now))
		take_profile(w, ring);
	return decision;
}

enum vq_call
decide_call(struct worker *w, struct vring *ring, uint32_t published, uint64_t bytes)
{
	if (ring->adaptive && published != 0 &&
		vq_adapt_note(&ring->adapt, published, bytes, w->now))
		take_profile(w, ring);
	return note_call(w, ring, vq_device_call(ring->vq, published, w->now));
}

/*
 * The guest shares the descriptor, and may have made it one that waits when its counter is full.
 * Whoever finds us there (call_guard.h) ends the write: that is the last we do for this guest.
 */
static void
make_call(struct worker *w, const struct vring *ring, int fd)
{
	const uint64_t one = 1;
	ssize_t ret;

	atomic_store_explicit(&w->calling, true, memory_order_relaxed);
	ret = write(fd, &one, sizeof(one));
	atomic_store_explicit(&w->calling, false, memory_order_relaxed);
	/* Any other error, of a full counter above all: a call is pending already. */
	if (unlikely(ret < 0 && errno == EINTR))
		fault_mark_port(w, ring->port, PORT_FAULT_CALL);
}

void
call_ring(struct worker *w, struct vring *ring, enum vq_call decision, uint32_t published)
{
	struct port_counters *c = &w->counters[ring->port];
	int fd;

	switch (decision) {
	case VQ_CALL_NONE:
		break;
	case VQ_CALL_DEFERRED:
		if (published != 0)
			count(c, COUNT_CALLS_DEFERRED, 1);
		atomic_store_explicit(&ring->deferred, w->id + 1, memory_order_relaxed);
		w->deferred |= UINT64_C(1) << ring->port;
		break;
	case VQ_CALL_SUPPRESSED:
		count(c, COUNT_CALLS_SUPPRESSED, 1);
		break;
	case VQ_CALL_MAKE:
		/* The control thread may put another in its place at any time. */
		fd = atomic_load_explicit(&ring->call, memory_order_relaxed);
		if (fd < 0 || atomic_load_explicit(&ring->dead, memory_order_relaxed))
			break;
		count(c, COUNT_CALLS, 1);
		make_call(w, ring, fd);
		break;
	}
}

/* Coalescing held a call back: make it, if it is due or is to be flushed. */
static void
serve_ring(struct worker *w, struct vring *ring, bool flush)
{
	enum vq_call decision;

	/* Whoever deferred it after us looks after it. */
	if (atomic_load_explicit(&ring->deferred, memory_order_relaxed) != w->id + 1)
		return;
	rte_spinlock_lock(&ring->lock);
	if (atomic_load_explicit(&ring->dead, memory_order_relaxed)) {
		rte_spinlock_unlock(&ring->lock);
		return;
	}
	w->delivery.n = 0;
	w->delivery.to = ring->port;
	w->delivery.copied = (struct vq_net_copied){0};
	w->delivery.ring = ring;
	atomic_store_explicit(&ring->deferred, 0, memory_order_relaxed);
	decision = note_call(w, ring,
		flush ? vq_device_call_flush(ring->vq) : vq_device_call(ring->vq, 0, w->now));
	w->delivery.ring = NULL;
	rte_spinlock_unlock(&ring->lock);
	call_ring(w, ring, decision, 0);
}

void
serve_deferred(struct worker *w, bool flush)
{
	uint64_t ports = w->deferred;
	uint32_t i;

	for (; ports != 0; ports &= ports - 1) {
		const uint32_t port = (uint32_t)__builtin_ctzll(ports);
		const struct view_port *p = &w->view->ports[port];

		/* One by one: a fault in one leaves the others to be served. */
		w->deferred &= ~(UINT64_C(1) << port);
		for (i = 0; i < p->nheld; i++)
			serve_ring(w, p->held[i], flush);
	}
}
