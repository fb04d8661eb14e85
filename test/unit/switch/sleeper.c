/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "sleeper.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_cycles.h>

int log_type = RTE_LOGTYPE_USER1;

struct fixture fix;

/* What the worker calls of the rest of the switch; there is no ethdev. */
uint32_t
poll_eth(struct worker *w, const struct inlet *in)
{
	(void)w;
	(void)in;
	abort();
}

void
serve_deferred(struct worker *w, bool flush)
{
	(void)w;
	assert_true(flush);
	atomic_fetch_add(&fix.flushes, 1);
}

void
come_online(void)
{
	assert_int_equal(rte_rcu_qsbr_thread_register(fix.sw.views.readers, 0), 0);
	rte_rcu_qsbr_thread_online(fix.sw.views.readers, 0);
}

static uint32_t
take_all(struct vq_device *q)
{
	struct vq_chain chains[8];
	struct vq_seg segs[8];
	uint32_t n = vq_device_peek(q, false, chains, COUNT_OF(chains), segs, COUNT_OF(segs), 0);

	vq_device_complete_tx(q, chains, n);
	(void)vq_device_publish(q);
	return n;
}

uint32_t
take_turn(void)
{
	struct worker *w = fix.worker;
	const struct view_worker *mine;
	uint32_t packets = 0, i;

	w->now = rte_rdtsc();
	w->view = view_current(&fix.sw.views);
	mine = &w->view->workers[0];
	for (i = 0; i < mine->ninlets; i++)
		packets += take_all(mine->inlets[i].ring->vq);
	rte_rcu_qsbr_quiescent(fix.sw.views.readers, 0);
	add_own(&w->packets, packets);
	if (w->sleeper.asks)
		sleep_ask(w);
	return packets;
}

void
publish(uint32_t set)
{
	struct view *v = view_create(1);
	uint32_t i;

	assert_non_null(v);
	for (i = 0; i < RINGS; i++) {
		struct inlet in = {.port = (uint16_t)i, .ring = &fix.rings[i], .wakes = true};

		if (!(set & UINT32_C(1) << i))
			continue;
		fix.rings[i].kick = dup(fix.kicks[i]);
		assert_true(fix.rings[i].kick >= 0);
		vq_device_disarm(fix.rings[i].vq);
		assert_int_equal(view_add_inlet(v, 0, &in), 0);
	}
	view_replace(&fix.sw.views, v);
}

void
withdraw(void)
{
	uint32_t i;

	publish(0);
	for (i = 0; i < RINGS; i++) {
		if (fix.rings[i].kick >= 0)
			close(fix.rings[i].kick);
		fix.rings[i].kick = -1;
	}
}

bool
rings_a_bell(int fd)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, 0) == 1;
}

void
post(uint32_t i)
{
	const uint64_t one = 1;

	vq_driver_add(&fix.pairs[i].driver, GUEST_BASE, 64, 0, NULL);
	vq_driver_publish(&fix.pairs[i].driver);
	if (!vq_driver_need_notify(&fix.pairs[i].driver))
		return;
	fix.sent[i]++;
	assert_int_equal(write(fix.kicks[i], &one, sizeof(one)), sizeof(one));
}

bool
given_back(uint32_t i)
{
	void *cookie;

	return vq_driver_reap(&fix.pairs[i].driver, &cookie, NULL, 1) == 1;
}

static struct worker *
make_worker(void)
{
	struct worker *w =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*w), RTE_CACHE_LINE_SIZE));

	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	w->sw = &fix.sw;
	w->counters = stats_of_thread(&fix.sw.stats, STATS_WORKER(0));
	assert_int_equal(sleep_init(w), 0);
	return w;
}

void
fixture_init(uint64_t features, bool suppress_kicks)
{
	const struct pair_config config = {.size = 8, .features = features};
	uint32_t i;

	memset(&fix, 0, sizeof(fix));
	fix.sw.config.idle.sleep = true;
	fix.sw.config.suppress_kicks = suppress_kicks;
	fix.sw.nworkers = 1;
	fix.sw.workers = fix.workers;
	assert_int_equal(stats_init(&fix.sw.stats, 2), 0);
	assert_int_equal(view_domain_init(&fix.sw.views, 1), 0);
	fix.worker = fix.workers[0] = make_worker();
	sleep_follow_views(&fix.sw);
	guest_init(&fix.memory, 1, 4096, 0);
	for (i = 0; i < RINGS; i++) {
		pair_init(&fix.pairs[i], &fix.memory, &config);
		fix.kicks[i] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
		assert_true(fix.kicks[i] >= 0);
		fix.rings[i].vq = &fix.pairs[i].device;
		fix.rings[i].kick = -1;
		fix.rings[i].port = (uint16_t)i;
	}
}

void
fixture_free(void)
{
	uint32_t i;

	withdraw();
	sleep_end(fix.worker);
	free(fix.worker);
	view_domain_free(&fix.sw.views);
	stats_free(&fix.sw.stats);
	for (i = 0; i < RINGS; i++) {
		pair_expect_level(&fix.pairs[i]);
		pair_free(&fix.pairs[i]);
		close(fix.kicks[i]);
	}
	guest_free(&fix.memory);
}
