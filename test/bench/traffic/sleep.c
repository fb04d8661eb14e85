/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <time.h>

#include "sleep.h"
#include "ticks.h"

#define BOUND_US 100000
/* How long an interrupt may take to arrive for a frame that is there already: its sender may have
 * lost its CPU in between, or waited for more.
 */
#define GRACE_MS 1000
/* Shorter ones cost more than they save. */
#define LEAST_US 5

int
sleeper_init(struct sleeper *s, const struct options *o, const struct port *port, struct problem *p)
{
	uint16_t q;

	memset(s, 0, sizeof(*s));
	s->port = port->id;
	s->queues = port->rx_queues;
	s->keep_armed = o->keep_armed;
	s->bound = ticks_of_us(BOUND_US);
	for (q = 0; q < s->queues; q++) {
		s->fds[q].events = POLLIN;
		s->fds[q].fd = rte_eth_dev_rx_intr_ctl_q_get_fd(port->id, q);
		if (s->fds[q].fd < 0)
			return problem(p,
				"--sleep: port %s has no receive interrupts: leave it out, or "
				"give another port",
				port->name);
	}
	return 0;
}

void
sleeper_start(void)
{
	(void)prctl(PR_SET_TIMERSLACK, 1UL);
}

/* Interrupts of the past. */
static void
clear(const struct sleeper *s)
{
	uint64_t count;
	const struct iovec into = {.iov_base = &count, .iov_len = sizeof(count)};
	uint16_t q;

	/* Who calls has the descriptor, too, and may have made it one that waits. */
	for (q = 0; q < s->queues; q++)
		if (preadv2(s->fds[q].fd, &into, 1, -1, RWF_NOWAIT) < 0)
			continue;
}

static void
ask(const struct sleeper *s)
{
	uint16_t q;

	for (q = 0; q < s->queues; q++)
		(void)rte_eth_dev_rx_intr_enable(s->port, q);
}

static void
ask_no_more(const struct sleeper *s)
{
	uint16_t q;

	for (q = 0; q < s->queues && !s->keep_armed; q++)
		(void)rte_eth_dev_rx_intr_disable(s->port, q);
}

static struct timespec
time_of(uint64_t ticks)
{
	const uint64_t hz = rte_get_tsc_hz();

	return (struct timespec){
		.tv_sec = (time_t)(ticks / hz),
		.tv_nsec = (long)(ticks % hz * 1000000000 / hz),
	};
}

static int
wait_for(struct sleeper *s, uint64_t ticks)
{
	const struct timespec time = time_of(ticks);

	return ppoll(s->fds, s->queues, &time, NULL);
}

static bool
too_short(uint64_t now, uint64_t until)
{
	return until <= now || until - now < ticks_of_us(LEAST_US);
}

void
sleeper_wait(uint64_t until)
{
	uint64_t now = rte_rdtsc();
	struct timespec time;

	if (too_short(now, until))
		return;
	time = time_of(RTE_MIN(until - now, ticks_of_us(BOUND_US)));
	nanosleep(&time, NULL);
}

void
sleeper_sleep(struct sleeper *s, struct receiver *r, struct stalls *stalls, uint64_t until)
{
	uint64_t now = rte_rdtsc(), longest;
	int ready;

	if (too_short(now, until))
		return;
	longest = RTE_MIN(until - now, s->bound);
	clear(s);
	ask(s);
	if (receiver_turn(r) != 0) {
		s->caught++;
		ask_no_more(s);
		return;
	}
	s->sleeps++;
	ready = wait_for(s, longest);
	/* To sleep is not to stall. */
	stalls->last = rte_rdtsc();
	s->asleep += stalls->last - now;
	ask_no_more(s);
	if (ready > 0) {
		s->wakes++;
		s->spurious += receiver_turn(r) == 0;
	} else if (ready == 0 && longest < s->bound) {
		s->deadlines++;
	} else if (ready == 0) {
		s->timeouts++;
		if (receiver_turn(r) != 0)
			s->missed += poll(s->fds, s->queues, GRACE_MS) == 0;
	}
}
