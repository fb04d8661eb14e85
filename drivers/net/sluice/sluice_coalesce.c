/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <sys/timerfd.h>
#include <time.h>

#include "sluice.h"
#include "sluice_control.h"
#include "sluice_ctrlq.h"

#define NS_PER_MS UINT64_C(1000000)
#define NS_PER_US UINT64_C(1000)

/* No profile: what a device has that was just reset is its own affair. */
#define UNKNOWN UINT8_MAX

/* A device that has taken so long gets its next commands at the next turn: there may be many
 * queues, and others want the lock, too. */
#define TELL_NS NS_PER_S

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

void
sluice_coalesce_init(struct sluice_rxq *q)
{
	struct sluice_coalesce *c = &q->coalesce;

	c->timer = -1;
	c->sleep = -1;
	vq_adapt_init(&c->adapt, NS_PER_MS);
}

static const struct vq_adapt_profile *
profile_of(const struct sluice_dev *dev, uint8_t profile)
{
	return dev->args.coalesce == SLUICE_COALESCE_STATIC ? &dev->args.coalesce_static
							    : &vq_adapt_profiles[profile];
}

/* The policy has another profile. */
static void
change(struct sluice_rxq *q)
{
	struct sluice_coalesce *c = &q->coalesce;

	atomic_store_explicit(&c->profile, c->adapt.profile, memory_order_relaxed);
	q->stats.coalesce_profile = c->adapt.profile;
	q->stats.coalesce_changes++;
	if (sluice_coalesce_by_device(q->ring.dev))
		sluice_control_wake(q->ring.dev);
}

/* The application comes to sleep again, `packets` later, and `woken`: was it asleep? */
static void
note(struct sluice_rxq *q, uint64_t packets, bool woken, uint64_t now)
{
	struct sluice_coalesce *c = &q->coalesce;

	if (packets != 0)
		(void)vq_adapt_note(&c->adapt, (uint32_t)packets, q->stats.bytes - c->bytes, now);
	/* A wake for nothing is one of those that are to be few, too. */
	if (woken)
		(void)vq_adapt_event(&c->adapt, now);
	if (c->adapt.profile != atomic_load_explicit(&c->profile, memory_order_relaxed))
		change(q);
}

/*
 * How long may the application sleep, whatever comes? No longer than it takes so many frames to
 * come, where the device cannot count them for us; and not at all where at the rate since the last
 * event none would come in that time: the timer would wake it for nothing, and the frame again.
 */
static uint64_t
hold_ns(const struct sluice_rxq *q, uint64_t packets, uint64_t elapsed, uint32_t frames)
{
	uint64_t ns = profile_of(q->ring.dev, q->coalesce.adapt.profile)->usecs * NS_PER_US;

	if (packets == 0 || frames < 2)
		return 0;
	packets = RTE_MIN(packets, (uint64_t)UINT32_MAX);
	elapsed = RTE_MIN(elapsed, NS_PER_S);
	if (!q->ring.vq.event_idx)
		ns = RTE_MIN(ns, frames * elapsed / packets);
	return packets * ns >= elapsed ? ns : 0;
}

/* As it was asked for; off where nobody can. */
static enum sluice_coalesce_mode
mode_of(const struct sluice_rxq *q)
{
	return q->coalesce.timer >= 0 || sluice_coalesce_by_device(q->ring.dev)
		       ? q->ring.dev->args.coalesce
		       : SLUICE_COALESCE_OFF;
}

bool
sluice_coalesce_arm(struct sluice_rxq *q, bool called, uint64_t *ns)
{
	const enum sluice_coalesce_mode mode = mode_of(q);
	struct sluice_coalesce *c = &q->coalesce;
	const uint64_t packets = q->stats.packets - c->packets;
	const uint64_t now = mode == SLUICE_COALESCE_OFF ? 0 : now_ns();
	const bool over = c->until_ns != 0 && now >= c->until_ns;
	/* An eventfd that the application or EAL has read tells nothing any more. */
	const bool woken = c->timer < 0 ? packets != 0 : called || over;
	uint32_t frames;

	*ns = 0;
	q->stats.intr_events += woken && packets != 0;
	if (mode == SLUICE_COALESCE_ADAPTIVE)
		note(q, packets, woken, now);
	/* Half of the buffers at most: the rest is for what comes until they are posted again. */
	frames = RTE_MIN(profile_of(q->ring.dev, c->adapt.profile)->frames,
		vq_driver_inflight(&q->ring.vq) / 2);
	if (c->timer >= 0 && packets != 0)
		*ns = hold_ns(q, packets, now - c->event_ns, frames);
	else if (c->timer >= 0 && now < c->until_ns)
		*ns = c->until_ns - now;
	if (packets != 0) {
		c->packets = q->stats.packets;
		c->bytes = q->stats.bytes;
		c->event_ns = now;
	}
	c->until_ns = *ns == 0 ? 0 : now + *ns;
	if (*ns == 0)
		return vq_driver_arm(&q->ring.vq);
	q->stats.intr_held++;
	if (q->ring.vq.event_idx)
		return vq_driver_arm_nth(&q->ring.vq, (uint16_t)RTE_MAX(frames, 1));
	vq_driver_disarm(&q->ring.vq);
	return vq_driver_pending(&q->ring.vq) >= frames;
}

int
sluice_coalesce_set_timer(struct sluice_coalesce *c, uint64_t ns)
{
	const struct itimerspec at = {
		.it_value = {.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)}};

	if (ns == 0)
		c->until_ns = 0;
	/* Setting it takes away that it was over, too. */
	if (c->timer < 0 || (ns == 0 && !c->ticking))
		return 0;
	c->ticking = ns != 0;
	return timerfd_settime(c->timer, 0, &at, NULL) == 0 ? 0 : -errno;
}

void
sluice_coalesce_disarm(struct sluice_coalesce *c)
{
	const uint64_t until = c->until_ns;

	/* The time goes on: armed again before it is over, a queue without frames waits for the
	 * rest of it. */
	if (c->ticking && now_ns() < until) {
		(void)sluice_coalesce_set_timer(c, 0);
		c->until_ns = until;
	}
}

bool
sluice_coalesce_by_device(const struct sluice_dev *dev)
{
	return dev->ctrlq != NULL && (dev->features & SLUICE_COALESCE_BITS) != 0;
}

/* What a queue is to have. The first frame after a pause is to wait for nothing, and while there is
 * a pause nobody is awake who could say so. */
static uint8_t
wanted(const struct sluice_rxq *q)
{
	return q->coalesce.idle ? 0
				: atomic_load_explicit(&q->coalesce.profile, memory_order_relaxed);
}

static int
tell_each(struct sluice_dev *dev)
{
	const uint64_t end = now_ns() + TELL_NS;
	int err = 0;
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues && err == 0; i++) {
		struct sluice_rxq *q = dev->data->rx_queues[i];
		const uint8_t profile = wanted(q);
		const struct vq_adapt_profile *p = profile_of(dev, profile);

		if (profile == q->coalesce.told)
			continue;
		err = sluice_ctrlq_coalesce_vq(
			dev, q->ring.index, vq_adapt_frames(p, q->ring.vq.size), p->usecs);
		if (err == 0)
			q->coalesce.told = profile;
		if (now_ns() >= end)
			break;
	}
	return err;
}

/* One setting for all: no more than each of them allows. */
static int
tell_all(struct sluice_dev *dev)
{
	const struct vq_adapt_profile *p;
	uint8_t profile = VQ_ADAPT_PROFILES - 1;
	uint32_t size = VQ_SIZE_MAX;
	uint16_t i;
	int err;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		const struct sluice_rxq *q = dev->data->rx_queues[i];

		profile = RTE_MIN(profile, wanted(q));
		size = RTE_MIN(size, q->ring.vq.size);
	}
	if (profile == dev->told.all)
		return 0;
	p = profile_of(dev, profile);
	err = sluice_ctrlq_coalesce_rx(dev, vq_adapt_frames(p, size), p->usecs);
	if (err == 0)
		dev->told.all = profile;
	return err;
}

int
sluice_coalesce_tell(struct sluice_dev *dev)
{
	const bool fixed = dev->args.coalesce == SLUICE_COALESCE_STATIC;
	int err;

	if (!sluice_coalesce_by_device(dev) || dev->told.refused || dev->ctrlq->dead)
		return 0;
	if (!(dev->features & VQ_FEATURE(VQ_NOTF_COAL)) ||
		(fixed && (dev->features & VQ_FEATURE(NOTF_COAL))))
		err = tell_all(dev);
	else
		err = tell_each(dev);
	if (err != -EREMOTEIO)
		return err;
	dev->told.refused = true;
	SLUICE_LOG(WARNING, dev->name,
		"the device refuses to moderate its receive interrupts as coalesce= says: it is "
		"left as it is");
	return 0;
}

int
sluice_coalesce_begin(struct sluice_dev *dev)
{
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		struct sluice_rxq *q = dev->data->rx_queues[i];

		q->coalesce.told = UNKNOWN;
		q->coalesce.idle = false;
		/* The first look only begins a time. */
		q->coalesce.seen = UINT64_MAX;
	}
	dev->told = (struct sluice_coalesce_told){.all = UNKNOWN};
	return sluice_coalesce_tell(dev);
}

void
sluice_coalesce_look(struct sluice_dev *dev)
{
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		struct sluice_rxq *q = dev->data->rx_queues[i];

		q->coalesce.idle = q->stats.packets == q->coalesce.seen &&
				   dev->args.coalesce == SLUICE_COALESCE_ADAPTIVE;
		q->coalesce.seen = q->stats.packets;
	}
}
