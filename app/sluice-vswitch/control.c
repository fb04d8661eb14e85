/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The control thread: one epoll loop. No source gets more than a share, and nothing in it waits for
 * a peer longer than the milliseconds after which call_guard.h ends it.
 */

#include <errno.h>
#include <sys/epoll.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rte_cycles.h>

#include "call_guard.h"
#include "control.h"
#include "log.h"
#include "worker.h"

#define TICK_MS 100
_Static_assert(TICK_MS *FDB_AGE_STEPS == 1000, "addresses are looked at once a second");
/* How often a full table is mentioned. */
#define FULL_SECONDS 60

/* Sources that are not ports, behind the ports' numbers. */
enum { SOURCE_SIGNAL = PORTS_MAX, SOURCE_TIMER, SOURCE_LEARNING };

struct control {
	struct vswitch *sw;
	int epoll;
	int signal;
	int timer;
	bool stop;
	uint32_t full_looked_at; /* second */
	uint32_t full_told_at;
	uint64_t full_told;
};

static uint32_t
this_second(void)
{
	return (uint32_t)(rte_rdtsc() / rte_get_tsc_hz());
}

static void
learn_some(struct control *c)
{
	struct learning *l = &c->sw->learning;
	const uint64_t one = 1;
	uint64_t events;

	if (read(l->event, &events, sizeof(events)) < 0)
		return;
	/* The others get their turn before the rest. */
	if (learning_take(l, c->sw->fdb, this_second()) && write(l->event, &one, sizeof(one)) < 0)
		LOG(DEBUG, "addresses wait for the next one");
}

static void
tell_full(struct control *c, uint32_t now)
{
	uint64_t full = atomic_load(&fdb_counters(c->sw->fdb)->full);

	if (full == c->full_told || (c->full_told != 0 && now - c->full_told_at < FULL_SECONDS))
		return;
	c->full_told = full;
	c->full_told_at = now;
	LOG(WARNING,
		"the forwarding table is full (%u addresses, %u of one port): others are flooded: "
		"give --addresses more",
		fdb_size(c->sw->fdb), fdb_port_max(c->sw->fdb));
}

static void
tick(struct control *c)
{
	uint64_t expirations, now = port_clock();
	uint32_t second = this_second();
	uint32_t i;

	if (read(c->timer, &expirations, sizeof(expirations)) < 0)
		return;
	call_guard_look(c->sw);
	sleep_tell_trouble(c->sw);
	for (i = 0; i < c->sw->config.nports; i++)
		if (c->sw->ports[i].ops->tick != NULL)
			c->sw->ports[i].ops->tick(&c->sw->ports[i], now);
	/* All of the table once a second. */
	if (c->sw->config.ageing != 0)
		fdb_age(c->sw->fdb, second, c->sw->config.ageing);
	if (second == c->full_looked_at)
		return;
	c->full_looked_at = second;
	tell_full(c, second);
}

static void
take_signal(struct control *c)
{
	struct signalfd_siginfo info;

	if (read(c->signal, &info, sizeof(info)) != sizeof(info))
		return;
	LOG(NOTICE, "signal %u: stopping", info.ssi_signo);
	c->stop = true;
}

static void
serve(struct control *c, uint32_t source)
{
	if (source == SOURCE_SIGNAL)
		take_signal(c);
	else if (source == SOURCE_TIMER)
		tick(c);
	else if (source == SOURCE_LEARNING)
		learn_some(c);
	else
		c->sw->ports[source].ops->process(&c->sw->ports[source]);
}

static int
watch(struct control *c, int fd, uint32_t source)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = source};

	return epoll_ctl(c->epoll, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

static int
begin(struct control *c, const sigset_t *signals)
{
	const struct itimerspec period = {
		.it_interval = {.tv_nsec = TICK_MS * 1000000},
		.it_value = {.tv_nsec = TICK_MS * 1000000},
	};
	uint32_t i;
	int ret;

	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	c->signal = signalfd(-1, signals, SFD_NONBLOCK | SFD_CLOEXEC);
	c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (c->epoll < 0 || c->signal < 0 || c->timer < 0 ||
		timerfd_settime(c->timer, 0, &period, NULL) < 0)
		return -errno;
	ret = watch(c, c->signal, SOURCE_SIGNAL);
	if (ret == 0)
		ret = watch(c, c->timer, SOURCE_TIMER);
	if (ret == 0)
		ret = watch(c, c->sw->learning.event, SOURCE_LEARNING);
	for (i = 0; ret == 0 && i < c->sw->config.nports; i++) {
		const struct port *p = &c->sw->ports[i];

		if (p->ops->fd != NULL)
			ret = watch(c, p->ops->fd(p), i);
	}
	return ret;
}

static void
end(struct control *c)
{
	if (c->epoll >= 0)
		close(c->epoll);
	if (c->signal >= 0)
		close(c->signal);
	if (c->timer >= 0)
		close(c->timer);
}

int
control_run(struct vswitch *sw, const sigset_t *signals)
{
	struct control c = {.sw = sw, .epoll = -1, .signal = -1, .timer = -1};
	struct epoll_event events[16];
	int ret = begin(&c, signals);

	if (ret < 0) {
		end(&c);
		return ret;
	}
	printf("sluice-vswitch: ready\n");
	fflush(stdout);
	while (!c.stop) {
		int n = epoll_wait(c.epoll, events, RTE_DIM(events), -1);
		int i;

		for (i = 0; i < n; i++)
			serve(&c, events[i].data.u32);
	}
	end(&c);
	return 0;
}
