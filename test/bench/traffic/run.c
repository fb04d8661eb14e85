/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <string.h>
#include <time.h>

#include <rte_cycles.h>
#include <rte_launch.h>
#include <rte_lcore.h>

#include "run.h"
#include "ticks.h"

/* When all have arrived: for those that come twice. */
#define SETTLE_MS 150

static const uint8_t nobody[6] = {0x02, 0, 0, 0, 0, 0x01};

int
run_init(struct run *r, const struct options *o, struct ports *ports, const atomic_bool *stop,
	struct problem *p)
{
	const uint8_t *src = ports->tx != NULL ? ports->tx->mac.addr_bytes : nobody;
	const uint8_t *dst = ports->rx != NULL ? ports->rx->mac.addr_bytes : nobody;
	uint32_t wanted = ports->tx != NULL && ports->rx != NULL ? 2 : 1;
	unsigned int lcore;

	memset(r, 0, sizeof(*r));
	r->options = o;
	r->ports = ports;
	r->stop = stop;
	memcpy(r->src, o->src.given ? o->src.bytes : src, 6);
	memcpy(r->dst, o->dst.given ? o->dst.bytes : dst, 6);
	if (sem_init(&r->ended, 0, 0) < 0)
		return problem(p, "no semaphore: %s", strerror(errno));
	RTE_LCORE_FOREACH_WORKER(lcore)
	{
		if (r->nloops == wanted)
			break;
		r->loops[r->nloops].run = r;
		r->loops[r->nloops++].lcore = lcore;
	}
	if (r->nloops == 0)
		return problem(p, "no worker lcore: give EAL two at least, such as --lcores "
				  "0@1,1@1");
	r->loops[0].receives = ports->rx != NULL;
	r->loops[r->nloops - 1].sends = ports->tx != NULL;
	return 0;
}

/* When to wait no longer, with the last frame sent. */
static uint64_t
drained_at(const struct run *r, uint64_t ended)
{
	const bool all = r->ports->tx != NULL && r->receiver.latency.count >= r->sender.sent;

	return ended + (all ? RTE_MIN(r->drain, r->settle) : r->drain);
}

/* Has all come that will? Who only receives decides for himself when to wait no longer. */
static bool
received_all(struct run *r, uint64_t now, bool stop)
{
	uint64_t ended = atomic_load_explicit(&r->sending_ended, memory_order_acquire);

	if (ended == 0 && r->ports->tx == NULL &&
		(stop || (r->count != 0 && r->receiver.latency.count >= r->count) ||
			(r->duration != 0 && now - r->receiver.start >= r->duration))) {
		ended = now;
		atomic_store_explicit(&r->sending_ended, ended, memory_order_relaxed);
	}
	if (ended == 0)
		return false;
	/* What waits in the ring is not lost. */
	receiver_calm(&r->receiver, now);
	return now >= drained_at(r, ended);
}

/* Sleep, if there is time for it. */
static void
sleep_if_idle(struct loop *l, uint64_t now, bool sending)
{
	struct run *r = l->run;
	uint64_t ended = atomic_load_explicit(&r->sending_ended, memory_order_acquire);
	uint64_t until = RTE_MIN(r->receiver.away.change, r->receiver.starve.spells.change);

	if (sending)
		until = RTE_MIN(until, sender_next(&r->sender, now));
	if (ended != 0)
		until = RTE_MIN(until, drained_at(r, ended));
	else if (r->ports->tx == NULL && r->duration != 0)
		until = RTE_MIN(until, r->receiver.start + r->duration);
	sleeper_sleep(&r->sleeper, &r->receiver, &l->stalls, until);
}

/* Who only sends has no reason to be awake before the next frame is due. */
static void
sleep_until_due(struct loop *l, uint64_t now)
{
	sleeper_wait(sender_next(&l->run->sender, now));
	l->stalls.last = rte_rdtsc();
}

static double
cpu_seconds(void)
{
	struct timespec t = {0};

	(void)clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int
loop_main(void *arg)
{
	struct loop *l = arg;
	struct run *r = l->run;
	const bool sleeps = r->options->sleep;
	const double cpu = cpu_seconds();
	const uint64_t begin = rte_rdtsc();
	bool sending = l->sends;
	uint64_t now = begin;

	if (sleeps)
		sleeper_start();
	l->stalls.last = now;
	if (l->sends)
		sender_start(&r->sender, now);
	if (l->receives)
		receiver_start(&r->receiver, now);
	atomic_store_explicit(&l->started, true, memory_order_release);
	for (;;) {
		bool stop = atomic_load_explicit(r->stop, memory_order_relaxed);

		now = rte_rdtsc();
		stalls_turn(&l->stalls, now);
		if (sending) {
			sending = sender_turn(&r->sender, now, stop);
			if (!sending)
				atomic_store_explicit(&r->sending_ended, now, memory_order_release);
		}
		if (l->receives) {
			bool away = spells_turn(&r->receiver.away, now);
			uint32_t got;

			receiver_starve(&r->receiver, now);
			got = away ? 0 : receiver_turn(&r->receiver);
			if (received_all(r, now, stop))
				break;
			if (sleeps && got == 0 && !away)
				sleep_if_idle(l, now, sending);
		} else if (!sending) {
			break;
		} else if (sleeps) {
			sleep_until_due(l, now);
		}
	}
	l->cpu_s = cpu_seconds() - cpu;
	l->wall_s = (double)(rte_rdtsc() - begin) / (double)rte_get_tsc_hz();
	if (l->sends)
		sender_end(&r->sender);
	sem_post(&r->ended);
	return 0;
}

static void
start_loop(struct loop *l)
{
	const struct timespec pause = {.tv_nsec = 100000};

	atomic_store(&l->started, false);
	memset(&l->stalls, 0, sizeof(l->stalls));
	l->stalls.threshold = ticks_of_us(l->run->options->late_us);
	rte_eal_remote_launch(loop_main, l, l->lcore);
	while (!atomic_load_explicit(&l->started, memory_order_acquire))
		nanosleep(&pause, NULL);
}

/* The main lcore sleeps meanwhile: it may share the CPU of a loop. A signal only wakes it. */
static int
run_phase(struct run *r, bool warmup, struct problem *p)
{
	const struct options *o = r->options;
	uint64_t duration_us = warmup ? o->warmup_us : o->duration_us;
	uint32_t i;

	r->duration = ticks_of_us(duration_us);
	r->drain = ticks_of_us(o->drain_ms * UINT64_C(1000));
	r->settle = ticks_of_us(SETTLE_MS * UINT64_C(1000));
	r->count = warmup ? 0 : o->count;
	atomic_store(&r->sending_ended, 0);
	frame_maker_init(&r->maker, o, r->src, r->dst, warmup);
	if (r->ports->rx != NULL &&
		receiver_init(&r->receiver, o, r->ports, &r->maker, &r->loops[0].stalls) < 0)
		return problem(p, "no memory for %u flows: give --flows less", o->flows);
	if (o->sleep && sleeper_init(&r->sleeper, o, r->ports->rx, p) < 0)
		return -EINVAL;
	if (r->ports->rx != NULL && !warmup && receiver_disturb(&r->receiver, r->ports) < 0)
		return problem(p, "--starve: no memory for a list of all mbufs: give less");
	if (r->ports->tx != NULL) {
		sender_init(&r->sender, o, r->ports, &r->maker, duration_us, r->count);
		r->sender.arrived = &r->receiver.arrived;
	}
	ports_mark(r->ports);
	r->start = rte_rdtsc();
	for (i = 0; i < r->nloops; i++)
		start_loop(&r->loops[i]);
	if (!warmup) {
		printf("sluice-traffic: running\n");
		fflush(stdout);
	}
	for (i = 0; i < r->nloops; i++)
		while (sem_wait(&r->ended) < 0)
			;
	for (i = 0; i < r->nloops; i++)
		rte_eal_wait_lcore(r->loops[i].lcore);
	return 0;
}

int
run_all(struct run *r, struct problem *p)
{
	if (r->options->announce && ports_announce(r->ports, r->dst, p) < 0)
		return -EINVAL;
	if (r->options->warmup_us != 0 && r->ports->tx != NULL) {
		if (run_phase(r, true, p) < 0)
			return -EINVAL;
		receiver_free(&r->receiver);
	}
	return run_phase(r, false, p);
}

void
run_free(struct run *r)
{
	receiver_free(&r->receiver);
	sem_destroy(&r->ended);
}
