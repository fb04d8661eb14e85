/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* A vhost-user port: the control side of its socket, and when workers may use its rings. */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <numaif.h>

#include <rte_cycles.h>

#include "call_guard.h"
#include "fault.h"
#include "feature_bits.h"
#include "log.h"
#include "sleep.h"
#include "vswitch.h"
#include "vq_net.h"
#include "vu_backend.h"

/* A guest brings its rings up one by one; it is told about when they have come to rest. */
#define SETTLE_MS 30

static const char *const fault_reasons[] = {
	[PORT_FAULT_MEMORY] = "its memory went away (SIGBUS: the file behind it was truncated)",
	[PORT_FAULT_CALL] = "its call descriptor blocks (not O_NONBLOCK, and its counter is full)",
};

struct vhost_port {
	struct port *port;
	struct vu_backend *backend;
	struct vring rings[VU_RINGS_MAX];
	bool withdrawn; /* between quiesce and update */
	bool in_view;   /* workers may reach a ring */
	bool told_up;
	uint64_t up_at; /* when it is due to be told; 0: not */
	bool was_up;    /* this guest, so that it was told */
	uint64_t gone;  /* guests that have been seen to be gone */
	struct log_budget budget;
	bool told_broken[VU_RINGS_MAX];
	bool told_polls;
};

/* Queue pairs that can be used in both directions. */
static uint32_t
pairs_in_use(const struct vhost_port *v)
{
	uint32_t pairs = 0, i;

	for (i = 0; i + 1 < vu_backend_rings(v->backend); i += 2) {
		const struct vu_ring *rx = vu_backend_ring(v->backend, i);
		const struct vu_ring *tx = vu_backend_ring(v->backend, i + 1);

		pairs += rx->ready && rx->enabled && tx->ready && tx->enabled;
	}
	return pairs;
}

/* What it was when it was last up: it may be gone by now. */
static void
tell_up(struct vhost_port *v)
{
	const struct port *p = v->port;
	const uint64_t features = atomic_load(&p->features);
	const uint32_t pairs = atomic_load(&p->queue_pairs);
	char names[256];

	v->up_at = 0;
	v->told_up = v->was_up = true;
	if (!log_budget_take(&v->budget))
		return;
	feature_names(features, names, sizeof(names));
	LOG(NOTICE,
		"port %s: up, features 0x%" PRIx64 " [%s] protocol 0x%" PRIx64 ", %u queue pair%s",
		p->config->name, features, names, (uint64_t)atomic_load(&p->protocol), pairs,
		pairs == 1 ? "" : "s");
}

static void
tell_down(struct vhost_port *v, enum vu_backend_state state)
{
	const char *reason = "the guest stopped its rings";

	v->told_up = false;
	if (state == VU_BACKEND_DOWN)
		reason = vu_backend_reason(v->backend);
	if (log_budget_take(&v->budget))
		LOG(NOTICE, "port %s: down: %s", v->port->config->name,
			reason[0] != '\0' ? reason : "the guest is gone");
}

/* Else nothing would say why it never came up. */
static void
tell_gone(struct vhost_port *v)
{
	if (!v->was_up && log_budget_take(&v->budget))
		LOG(NOTICE, "port %s: a guest went before it was up: %s", v->port->config->name,
			vu_backend_reason(v->backend));
	v->was_up = false;
}

static void
follow_state(struct vhost_port *v)
{
	static const enum port_state states[] = {
		[VU_BACKEND_DOWN] = PORT_DOWN,
		[VU_BACKEND_CONNECTED] = PORT_CONNECTED,
		[VU_BACKEND_UP] = PORT_UP,
	};
	enum vu_backend_state state = vu_backend_state(v->backend);
	const struct vu_backend_stats *stats = vu_backend_stats(v->backend);
	struct port *p = v->port;

	/* Up for a moment only: both lines all the same. */
	if (state != VU_BACKEND_UP && v->up_at != 0)
		tell_up(v);
	atomic_store(&p->features, vu_backend_features(v->backend));
	atomic_store(&p->protocol, vu_backend_protocol_features(v->backend));
	atomic_store(&p->queue_pairs, pairs_in_use(v));
	atomic_store(&p->connects, stats->connects);
	atomic_store(&p->bad_messages, stats->bad_messages);
	atomic_store(&p->state, states[state]);
	if (state == VU_BACKEND_UP) {
		if (!v->told_up && v->up_at == 0)
			v->up_at = port_clock() + SETTLE_MS;
		return;
	}
	if (v->told_up)
		tell_down(v, state);
	if (stats->disconnects != v->gone)
		tell_gone(v);
	v->gone = stats->disconnects;
}

/* The node that the guest's memory is on; a page that is not there yet has none. */
static int32_t
node_of(const void *address)
{
	void *page = (void *)((uintptr_t)address & ~((uintptr_t)sysconf(_SC_PAGESIZE) - 1));
	int node = -1;

	if (move_pages(0, 1, &page, NULL, &node, 0) != 0 || node < 0)
		return -1;
	return node;
}

static void
take_down(struct vhost_port *v, enum port_fault fault)
{
	vu_backend_disconnect(v->backend, fault_reasons[fault]);
}

/* Did a worker meet a fault? Then the guest goes. */
static bool
take_fault(struct vhost_port *v)
{
	enum port_fault fault =
		atomic_exchange_explicit(&v->port->fault, PORT_FAULT_NONE, memory_order_acquire);

	if (fault == PORT_FAULT_NONE)
		return false;
	take_down(v, fault);
	return true;
}

/* No worker may know of them any more. */
static void
put_fds(struct vring *ring)
{
	int call = atomic_exchange(&ring->call, -1);

	if (call >= 0)
		close(call);
	if (ring->kick >= 0)
		close(ring->kick);
	ring->kick = -1;
}

static void
quiesce(void *priv)
{
	struct vhost_port *v = priv;
	uint32_t i;

	v->withdrawn = true;
	if (v->in_view)
		vswitch_update_view(v->port->sw);
	for (i = 0; i < VU_RINGS_MAX; i++)
		put_fds(&v->rings[i]);
}

/*
 * A descriptor of our own, that stays when the guest replaces its. Its description is the guest's
 * as well: it can be made to block at any time, see call_guard.h.
 */
static int
own_call(struct vhost_port *v, const struct vu_ring *r)
{
	int fd;

	if (r->call < 0)
		return -1;
	fd = fcntl(r->call, F_DUPFD_CLOEXEC, 3);
	if (fd >= 0)
		return fd;
	/* A guest that waits for calls would wait for good. */
	if (log_budget_take(&v->budget))
		LOG(ERR, "port %s: no descriptor to call it by: %s: raise the limit of open files",
			v->port->config->name, strerror(errno));
	vu_backend_disconnect(v->backend, "there was no descriptor to call it by");
	return -1;
}

/* One to sleep on, likewise; -1 if nobody can or would sleep on it. */
static int
own_kick(struct vhost_port *v, const struct vu_ring *r)
{
	const char *why = "the guest gives none";
	int fd;

	if (!v->port->sw->config.idle.sleep)
		return -1;
	if (r->kick >= 0 && !sleep_is_eventfd(r->kick)) {
		why = "the guest's is no eventfd";
	} else if (r->kick >= 0) {
		fd = fcntl(r->kick, F_DUPFD_CLOEXEC, 3);
		if (fd >= 0)
			return fd;
		why = strerror(errno);
	}
	if (!v->told_polls)
		LOG(NOTICE, "port %s: no kick descriptor to sleep on: %s: its worker polls",
			v->port->config->name, why);
	v->told_polls = true;
	return -1;
}

static void
call_once(struct vhost_port *v, uint32_t i)
{
	int ret = call_guarded(v->rings[i].call);

	if (ret == 0)
		count(&stats_of_thread(&v->port->sw->stats, STATS_CONTROL)[v->port->id],
			COUNT_CALLS, 1);
	else if (ret == -EINTR)
		take_down(v, PORT_FAULT_CALL);
}

/* The guest's transmit rings, which workers take from. */
static bool
is_transmit(uint32_t i)
{
	return (i & 1) != 0;
}

const struct coalesce_config *
vhost_port_coalesce(const struct port *p)
{
	const struct coalesce_config *own = &p->config->coalesce;

	return own->mode == COALESCE_AS_SWITCH ? &p->sw->config.coalesce : own;
}

uint32_t
vhost_port_profile(const struct port *p, uint32_t ring)
{
	const struct vhost_port *v = p->impl;

	return atomic_load_explicit(&v->rings[ring].profile, memory_order_relaxed);
}

static void
prepare_ring(struct vhost_port *v, uint32_t i, struct vu_ring *r, bool dead)
{
	const struct coalesce_config *c = vhost_port_coalesce(v->port);
	/* Adaptive coalescing begins with none. */
	const struct vq_coalesce_params params = {
		.frames = c->frames,
		.ticks = rte_get_tsc_hz() / 1000000 * c->usecs,
	};
	struct vring *ring = &v->rings[i];

	ring->vq = &r->vq;
	ring->call = own_call(v, r);
	if (is_transmit(i))
		ring->kick = own_kick(v, r);
	/* Moved under a worker that sleeps, it may still ask to wake it, and get another one. */
	if (!dead)
		vq_device_disarm(&r->vq);
	atomic_store(&ring->dead, dead);
	atomic_store(&ring->deferred, 0);
	vq_coalesce_set(&r->vq.coalesce, &params);
	ring->adaptive = c->mode == COALESCE_ADAPTIVE;
	vq_adapt_init(&ring->adapt, rte_get_tsc_hz() / 1000);
	atomic_store(&ring->profile, 0);
	v->told_broken[i] = false;
}

static void
update(void *priv)
{
	struct vhost_port *v = priv;
	const void *memory = NULL;
	bool dead;
	uint32_t i;

	v->withdrawn = false;
	/* A fault that the last tick did not see is no reason to begin anew. */
	dead = take_fault(v);
	for (i = 0; i < vu_backend_rings(v->backend); i++) {
		struct vu_ring *r = vu_backend_ring(v->backend, i);

		if (!r->ready)
			continue;
		prepare_ring(v, i, r, dead);
		memory = r->vq.desc;
	}
	atomic_store(&v->port->node, memory != NULL ? node_of(memory) : -1);
	if (memory != NULL)
		vswitch_update_view(v->port->sw);
	/* What the guest waited for may have happened while the ring was away. */
	for (i = 0; i < vu_backend_rings(v->backend) && !dead; i++)
		call_once(v, i);
	follow_state(v);
}

/* Workers go on: they see either descriptor, and the old one is closed when none can any more. */
static void
call_changed(void *priv, uint32_t i)
{
	struct vhost_port *v = priv;
	struct vring *ring = &v->rings[i];
	int old = atomic_exchange(&ring->call, own_call(v, vu_backend_ring(v->backend, i)));

	if (old >= 0) {
		view_synchronize(&v->port->sw->views);
		close(old);
	}
	/* What was called by the old one after the guest had taken it away. */
	call_once(v, i);
}

static void
mtu_changed(void *priv)
{
	const struct vhost_port *v = priv;

	if (v->in_view)
		vswitch_update_view(v->port->sw);
}

static void
backend_log(void *priv, int level, const char *text)
{
	const struct vhost_port *v = priv;

	if (level == 0)
		LOG(ERR, "port %s: %s", v->port->config->name, text);
	else if (level == 1)
		LOG(WARNING, "port %s: %s", v->port->config->name, text);
	else
		LOG(INFO, "port %s: %s", v->port->config->name, text);
}

static void
add_held(const struct vhost_port *v, struct view_port *vp, struct vring *ring)
{
	if (vhost_port_coalesce(v->port)->mode != COALESCE_OFF)
		vp->held[vp->nheld++] = ring;
}

static int
add_pair(struct vhost_port *v, struct view *view, uint32_t pair)
{
	struct vswitch *sw = v->port->sw;
	struct view_port *vp = &view->ports[v->port->id];
	const struct vu_ring *rx = vu_backend_ring(v->backend, 2 * pair);
	const struct vu_ring *tx = vu_backend_ring(v->backend, 2 * pair + 1);
	uint32_t worker = vswitch_worker_for(sw, v->port->id, pair, atomic_load(&v->port->node));
	struct inlet in = {
		.port = (uint16_t)v->port->id,
		.queue = (uint16_t)pair,
		.discard = !tx->enabled,
		.wakes = v->rings[2 * pair + 1].kick >= 0,
		.ring = &v->rings[2 * pair + 1],
	};

	if (rx->ready && rx->enabled) {
		vp->rx[vp->nrx++] = &v->rings[2 * pair];
		vp->rx_pair[pair] = &v->rings[2 * pair];
		vp->mem = rx->vq.mem;
		add_held(v, vp, &v->rings[2 * pair]);
	}
	if (!tx->ready)
		return 0;
	vp->mem = tx->vq.mem;
	add_held(v, vp, in.ring);
	return view_add_inlet(view, worker, &in);
}

static int
vhost_port_view(struct port *p, struct view *view)
{
	struct vhost_port *v = p->impl;
	struct view_port *vp = &view->ports[p->id];
	uint32_t mtu = p->config->mtu != 0 ? p->config->mtu : vu_backend_mtu(v->backend);
	uint64_t features = vu_backend_features(v->backend);
	uint32_t pair;

	v->in_view = false;
	if (v->withdrawn)
		return 0;
	vp->loopback = p->config->loopback;
	vp->max_len = longest_frame(mtu);
	vp->mergeable = (features & VQ_FEATURE(MRG_RXBUF)) != 0;
	vp->hdr_len = vq_net_hdr_len(features);
	for (pair = 0; pair < vu_backend_rings(v->backend) / 2; pair++)
		if (add_pair(v, view, pair) < 0)
			return -ENOMEM;
	if (vp->mem == NULL)
		return 0;
	vp->kind = VIEW_VHOST;
	v->in_view = true;
	if (vp->nrx != 0 && !vp->loopback)
		view->members |= UINT64_C(1) << p->id;
	return 0;
}

/* May a worker sleep until this ring is kicked? Then kicks are its to take. */
static bool
is_waited_for(const struct vhost_port *v, uint32_t i)
{
	struct vswitch *sw = v->port->sw;
	int32_t node = atomic_load(&v->port->node);
	uint32_t worker = vswitch_worker_for(sw, v->port->id, i / 2, node);

	return sw->config.idle.sleep && is_transmit(i) &&
	       !view_current(&sw->views)->workers[worker].polls;
}

static void
look_at_ring(struct vhost_port *v, uint32_t i)
{
	struct vu_ring *r = vu_backend_ring(v->backend, i);
	struct port_counters *c = &stats_of_thread(&v->port->sw->stats, STATS_CONTROL)[v->port->id];
	uint8_t fault;

	if (!r->ready)
		return;
	/* Those that nobody waits for are counted, so that it shows when one was sent. */
	if (!is_waited_for(v, i))
		count(c, COUNT_KICKS, sleep_take_kicks(r->kick));
	/* Written by a worker, once. */
	fault = *(volatile uint8_t *)&r->vq.fault;
	if (fault == VQ_DEVICE_OK || v->told_broken[i])
		return;
	v->told_broken[i] = true;
	if (log_budget_take(&v->budget))
		LOG(WARNING, "port %s: ring %u is broken, left alone until the guest resets it: %s",
			v->port->config->name, i, vq_device_fault_name(fault));
	if (call_guarded(r->err) == -EINTR)
		take_down(v, PORT_FAULT_CALL);
}

static void
vhost_port_tick(struct port *p, uint64_t now)
{
	struct vhost_port *v = p->impl;
	uint64_t left_out = log_budget_tick(&v->budget);
	uint32_t i;

	if (left_out != 0)
		LOG(NOTICE, "port %s: %" PRIu64 " lines about it were left out", p->config->name,
			left_out);
	(void)take_fault(v);
	if (v->up_at != 0 && now >= v->up_at)
		tell_up(v);
	for (i = 0; i < vu_backend_rings(v->backend); i++)
		look_at_ring(v, i);
}

static int
vhost_port_fd(const struct port *p)
{
	const struct vhost_port *v = p->impl;

	return vu_backend_fd(v->backend);
}

static void
vhost_port_process(struct port *p)
{
	struct vhost_port *v = p->impl;
	sigjmp_buf env;

	/* Starting a ring reads it. */
	if (sigsetjmp(env, 0) == 0) {
		fault_set_guard(&env);
		vu_backend_process(v->backend);
		fault_set_guard(NULL);
	} else {
		fault_set_guard(NULL);
		take_down(v, PORT_FAULT_MEMORY);
	}
	follow_state(v);
}

static void
vhost_port_destroy(struct port *p)
{
	struct vhost_port *v = p->impl;

	vu_backend_destroy(v->backend);
	free(v);
}

static const struct port_ops vhost_port_ops = {
	.destroy = vhost_port_destroy,
	.view = vhost_port_view,
	.tick = vhost_port_tick,
	.fd = vhost_port_fd,
	.process = vhost_port_process,
};

static void
backend_config(const struct port_config *c, struct vu_backend_config *out)
{
	*out = (struct vu_backend_config){
		.socket = {.client = c->client,
			.owner = c->owner,
			.group = c->group,
			.mode = c->perm},
		.features = offered_features(c),
		.queue_pairs = c->queues != 0 ? c->queues : PAIRS_MAX,
		.mtu = (uint16_t)c->mtu,
	};
	memcpy(out->socket.path, c->path, sizeof(out->socket.path));
}

int
vhost_port_create(struct port *p, struct problem *out)
{
	static const struct vu_backend_ops ops = {
		.quiesce = quiesce,
		.update = update,
		.call_changed = call_changed,
		.mtu_changed = mtu_changed,
		.log = backend_log,
	};
	struct vhost_port *v =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*v), RTE_CACHE_LINE_SIZE));
	struct vu_backend_config config;
	char error[512];
	uint32_t i;
	int ret;

	if (v == NULL)
		return problem(out, "out of memory");
	memset(v, 0, sizeof(*v));
	v->port = p;
	v->budget.lines = LOG_BUDGET_MAX;
	for (i = 0; i < VU_RINGS_MAX; i++) {
		rte_spinlock_init(&v->rings[i].lock);
		v->rings[i].call = -1;
		v->rings[i].kick = -1;
		v->rings[i].port = (uint16_t)p->id;
	}
	backend_config(p->config, &config);
	ret = vu_backend_create(&config, &ops, v, &v->backend, error, sizeof(error));
	if (ret < 0) {
		free(v);
		problem(out, "%s", error);
		return ret;
	}
	p->impl = v;
	p->ops = &vhost_port_ops;
	return 0;
}
