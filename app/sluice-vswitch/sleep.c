/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rte_cycles.h>
#include <rte_epoll.h>
#include <rte_ethdev.h>

#include "log.h"
#include "sleep.h"
#include "vswitch.h"
#include "worker.h"

/* Taken in one go; what is left wakes us again. */
#define EVENTS 64

/* In an event, besides the number of an inlet. */
#define EVENT_WAKE UINT32_MAX
#define EVENT_ETH  (UINT32_MAX - 1)

static int
watch(int set, int fd, uint32_t what)
{
	struct epoll_event event = {.events = EPOLLIN, .data.u32 = what};

	return epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0 ? 0 : -errno;
}

int
sleep_init(struct worker *w)
{
	const struct idle_config *idle = &w->sw->config.idle;
	struct sleeper *s = &w->sleeper;

	s->event = s->set = s->eth_set = -1;
	s->on = idle->sleep;
	s->asks = !w->sw->config.suppress_kicks;
	if (!s->on)
		return 0;
	s->ticks = rte_get_tsc_hz() / 1000000 * idle->usecs;
	s->event = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	s->eth_set = epoll_create1(EPOLL_CLOEXEC);
	return s->event < 0 || s->eth_set < 0 ? -errno : 0;
}

static void
put_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void
sleep_end(struct worker *w)
{
	put_fd(&w->sleeper.set);
	put_fd(&w->sleeper.eth_set);
	put_fd(&w->sleeper.event);
}

void
sleep_wake_all(struct vswitch *sw)
{
	const uint64_t one = 1;
	uint32_t i;

	for (i = 0; i < sw->nworkers; i++)
		if (sw->workers[i]->sleeper.on &&
			write(sw->workers[i]->sleeper.event, &one, sizeof(one)) < 0)
			LOG(ERR, "worker %u cannot be woken: %s", i, strerror(errno));
}

static void
on_published(void *priv)
{
	sleep_wake_all(priv);
}

void
sleep_follow_views(struct vswitch *sw)
{
	sw->views.published = on_published;
	sw->views.published_priv = sw;
}

void
sleep_tell_trouble(struct vswitch *sw)
{
	uint32_t i;

	for (i = 0; i < sw->nworkers; i++) {
		struct sleeper *s = &sw->workers[i]->sleeper;
		int err = atomic_load(&s->trouble);

		if (err == s->trouble_told)
			continue;
		s->trouble_told = err;
		LOG(WARNING,
			"worker %u polls, its queues cannot be waited for: %s: are there limits on "
			"open files, or fs.epoll.max_user_watches?",
			i, strerror(err));
	}
}

bool
sleep_is_eventfd(int fd)
{
	static const char kind[] = "anon_inode:[eventfd]";
	char name[32], found[sizeof(kind)];

	snprintf(name, sizeof(name), "/proc/self/fd/%d", fd);
	return readlink(name, found, sizeof(found)) == sizeof(kind) - 1 &&
	       memcmp(found, kind, sizeof(kind) - 1) == 0;
}

/* Of some it is always on. */
static int
enable_eth(uint16_t dev, uint16_t queue)
{
	int ret = rte_eth_dev_rx_intr_enable(dev, queue);

	return ret == -ENOTSUP ? 0 : ret;
}

int
sleep_check_eth(uint16_t dev, uint16_t queue)
{
	int set = epoll_create1(EPOLL_CLOEXEC);
	int ret = set < 0 ? -errno : 0;

	if (ret == 0)
		ret = rte_eth_dev_rx_intr_ctl_q(dev, queue, set, RTE_INTR_EVENT_ADD, NULL);
	if (ret == 0)
		ret = rte_eth_dev_rx_intr_ctl_q(dev, queue, set, RTE_INTR_EVENT_DEL, NULL);
	if (ret == 0)
		ret = enable_eth(dev, queue);
	if (ret == 0)
		(void)rte_eth_dev_rx_intr_disable(dev, queue);
	put_fd(&set);
	return ret;
}

uint64_t
sleep_take_kicks(int fd)
{
	uint64_t kicks = 0;
	const struct iovec into = {.iov_base = &kicks, .iov_len = sizeof(kicks)};

	/* Whatever the guest made of the descriptor: this does not wait. */
	if (fd < 0 || preadv2(fd, &into, 1, -1, RWF_NOWAIT) != sizeof(kicks))
		return 0;
	return kicks;
}

bool
sleep_possible(void)
{
	int fd = eventfd(1, EFD_CLOEXEC);
	bool possible = sleep_take_kicks(fd) == 1;

	put_fd(&fd);
	return possible;
}

/* Put all that may wake the worker under its view into a set. */
static int
fill_set(const struct worker *w, int set)
{
	const struct view_worker *mine = &w->view->workers[w->id];
	bool eth = false;
	uint32_t i;
	int ret = watch(set, w->sleeper.event, EVENT_WAKE);

	for (i = 0; i < mine->ninlets && ret == 0; i++) {
		const struct inlet *in = &mine->inlets[i];

		if (in->ring != NULL)
			ret = watch(set, in->ring->kick, i);
		else
			eth = true;
	}
	return ret == 0 && eth ? watch(set, w->sleeper.eth_set, EVENT_ETH) : ret;
}

/* Have the set of this view. @return false: there is none, poll */
static bool
have_set(struct worker *w)
{
	struct sleeper *s = &w->sleeper;
	int ret;

	/* One that could not be made is tried again every second. */
	if (likely(s->serial == w->view->serial) && (s->set >= 0 || s->tried == w->second))
		return s->set >= 0;
	s->tried = w->second;
	/* What it holds may be closed already, so it cannot be taken out piece by piece. */
	put_fd(&s->set);
	s->serial = w->view->serial;
	s->set = epoll_create1(EPOLL_CLOEXEC);
	ret = s->set < 0 ? -errno : fill_set(w, s->set);
	if (ret < 0) {
		put_fd(&s->set);
		atomic_store(&s->trouble, -ret);
	}
	return ret == 0;
}

/*
 * Some drivers (net_virtio_user) leave their eventfds as they are, and DPDK does for them: the next
 * sleep would end at once, for ever. What else there is (net_tap) has frames in it, not wakes.
 */
static void
take_interrupts(const struct sleeper *s)
{
	struct rte_epoll_event events[EVENTS];
	int n = rte_epoll_wait(s->eth_set, events, EVENTS, 0);
	int i;

	for (i = 0; i < n; i++)
		if (sleep_is_eventfd(events[i].fd))
			(void)sleep_take_kicks(events[i].fd);
}

/*
 * Take what woke us, or would. Numbers of inlets mean something under the set's own view only.
 * @return true if it was somebody of the switch
 */
static bool
take_events(struct worker *w, const struct epoll_event *events, int n)
{
	const struct view_worker *mine = &w->view->workers[w->id];
	struct sleeper *s = &w->sleeper;
	bool woken = false;
	uint64_t ignored;
	int i;

	for (i = 0; i < n; i++) {
		uint32_t what = events[i].data.u32;

		if (what == EVENT_WAKE) {
			woken = read(s->event, &ignored, sizeof(ignored)) > 0;
		} else if (what == EVENT_ETH) {
			take_interrupts(s);
		} else if (s->serial == w->view->serial) {
			const struct inlet *in = &mine->inlets[what];

			count(&w->counters[in->port], COUNT_KICKS,
				sleep_take_kicks(in->ring->kick));
		}
	}
	return woken;
}

/*
 * Ask an ethdev queue to wake us. It is put into the set anew each time, for DPDK has it there
 * edge-triggered: so what is readable by now is an event. net_tap needs that: it is told of frames
 * by a signal, to any thread, maybe later than we are.
 */
static void
arm_eth(struct worker *w, const struct inlet *in)
{
	struct sleeper *s = &w->sleeper;
	uint16_t dev = w->view->ports[in->port].dev;
	int ret = enable_eth(dev, in->queue);

	if (ret == 0 && s->eth_added)
		ret = rte_eth_dev_rx_intr_ctl_q(
			dev, in->queue, s->eth_set, RTE_INTR_EVENT_DEL, NULL);
	if (ret == 0)
		ret = rte_eth_dev_rx_intr_ctl_q(
			dev, in->queue, s->eth_set, RTE_INTR_EVENT_ADD, NULL);
	if (ret < 0) {
		s->eth_broken = true;
		atomic_store(&s->trouble, -ret);
	}
}

/*
 * Ask all queues to wake us, then look again, which not every ethdev does by itself.
 * @return true if there is something, or if one of them cannot
 */
static bool
arm(struct worker *w)
{
	const struct view_worker *mine = &w->view->workers[w->id];
	struct sleeper *s = &w->sleeper;
	bool eth = false, found = false;
	uint32_t packets = 0;
	uint32_t i;

	s->armed = true;
	/* First what cannot fault, so that it is done for all of them or for none. */
	for (i = 0; i < mine->ninlets; i++) {
		if (mine->inlets[i].ring != NULL)
			continue;
		arm_eth(w, &mine->inlets[i]);
		eth = true;
	}
	s->eth_added = eth;
	for (i = 0; i < mine->ninlets; i++) {
		const struct inlet *in = &mine->inlets[i];

		if (in->ring == NULL)
			packets += poll_eth(w, in);
		else if (!atomic_load_explicit(&in->ring->dead, memory_order_relaxed))
			found |= vq_device_arm(in->ring->vq);
	}
	add_own(&w->packets, packets);
	return found || packets != 0 || s->eth_broken;
}

static void
disarm(struct worker *w)
{
	const struct view_worker *mine = &w->view->workers[w->id];
	uint32_t i;

	for (i = 0; i < mine->ninlets; i++) {
		const struct inlet *in = &mine->inlets[i];

		if (in->ring == NULL)
			(void)rte_eth_dev_rx_intr_disable(w->view->ports[in->port].dev, in->queue);
		else if (!w->sleeper.asks &&
			 !atomic_load_explicit(&in->ring->dead, memory_order_relaxed))
			vq_device_disarm(in->ring->vq);
	}
	w->sleeper.armed = false;
}

static void
wait_for_work(struct worker *w)
{
	struct sleeper *s = &w->sleeper;
	struct epoll_event events[EVENTS];
	int n;

	if (s->by_peer)
		add_own(&s->spurious_wakes, 1);
	add_own(&s->sleeps, 1);
	w->view = NULL;
	rte_rcu_qsbr_thread_offline(w->sw->views.readers, w->id);
	/* A signal ends it as well: looking once too often does no harm. */
	n = epoll_wait(s->set, events, EVENTS, -1);
	rte_rcu_qsbr_thread_online(w->sw->views.readers, w->id);
	w->view = view_current(&w->sw->views);
	add_own(&s->wakes, 1);
	w->now = rte_rdtsc();
	s->idle_since = w->now;
	s->by_peer = !take_events(w, events, n);
}

void
sleep_if_idle(struct worker *w)
{
	uint64_t packets = atomic_load_explicit(&w->packets, memory_order_relaxed);
	struct sleeper *s = &w->sleeper;
	struct epoll_event events[EVENTS];
	const struct view_worker *mine;
	bool due;

	if (packets != s->packets) {
		s->packets = packets;
		s->idle_since = w->now;
		s->by_peer = false;
	}
	/* Addresses that were heard have to be announced first. */
	due = w->now - s->idle_since >= s->ticks && !w->learner.waiting;
	/* And kicks that nobody asked for are counted now and then. */
	if (!due && w->second == s->second)
		return;
	s->second = w->second;
	w->view = view_current(&w->sw->views);
	mine = &w->view->workers[w->id];
	if (mine->polls || s->eth_broken || !have_set(w))
		return;
	/* What was kicked for before this is seen when the queues are armed. */
	if (take_events(w, events, epoll_wait(s->set, events, EVENTS, 0)) || !due)
		return;
	if (!arm(w)) {
		serve_deferred(w, true);
		wait_for_work(w);
	}
	disarm(w);
}

void
sleep_ask(struct worker *w)
{
	struct sleeper *s = &w->sleeper;
	const bool look = w->second != s->second;
	const struct view_worker *mine;
	uint32_t i;

	s->second = w->second;
	w->view = view_current(&w->sw->views);
	mine = &w->view->workers[w->id];
	for (i = 0; i < mine->ninlets; i++) {
		const struct inlet *in = &mine->inlets[i];

		if (in->ring == NULL || atomic_load_explicit(&in->ring->dead, memory_order_relaxed))
			continue;
		vq_device_ask(in->ring->vq);
		/* Under load there may be no empty turn in which they are taken. */
		if (look)
			count(&w->counters[in->port], COUNT_KICKS,
				sleep_take_kicks(in->ring->kick));
	}
}

void
sleep_recover(struct worker *w)
{
	/* A fault in here is of another port, and comes here again. */
	if (w->sleeper.armed)
		disarm(w);
}
