/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Moderation of receive interrupts: an application that sleeps is woken for several frames at a
 * time, by a fixed setting or by one that follows the load (vq_adapt.h). An event is a wake: an
 * application that comes to sleep again and has received frames since, or was called.
 *
 * Who moderates? A PCI device that can (VQ_NOTF_COAL, NOTF_COAL): the control thread tells it. In
 * container mode, where no device can be told, the driver: a queue that frames come to faster than
 * the application is to be woken is not armed, but has a timer end the sleep. It is armed when a
 * time was over and there was nothing, so the first frame after a pause waits for no timer.
 */
#ifndef SLUICE_COALESCE_H
#define SLUICE_COALESCE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "vq_adapt.h"
#include "vq_wire.h"

/** Features of a device that moderates: a queue at a time, or all together. */
#define SLUICE_COALESCE_BITS (VQ_FEATURE(VQ_NOTF_COAL) | VQ_FEATURE(NOTF_COAL))

struct sluice_dev;
struct sluice_rxq;

/** Of a receive queue. */
struct sluice_coalesce {
	/* Of the lcore that polls it. */
	struct vq_adapt adapt;
	uint64_t packets, bytes; /* received, at the last event */
	uint64_t event_ns;       /* its time */
	uint64_t until_ns;       /* a sleep that is limited is over; 0: there is none */
	bool ticking;            /* the timer is set */
	/* Container mode; -1: the driver does not moderate. */
	int timer; /* timerfd */
	int sleep; /* epoll of the timer and ring.call: what the application sleeps on */

	_Atomic(uint8_t) profile; /* of `adapt`, for control */

	/* Of control, under dev->lock. */
	uint8_t told;  /* profile that the device has */
	bool idle;     /* nothing came between its last two looks */
	uint64_t seen; /* packets at the last one */
};

/** What a device was told that moderates; under dev->lock. */
struct sluice_coalesce_told {
	uint8_t all;  /* profile of all receive queues */
	bool refused; /* it does not take what it offers */
};

/** A queue that has just been made. */
void sluice_coalesce_init(struct sluice_rxq *q);

/**
 * From rx_intr_enable(), gate entered: ask for the wake that the application is to have.
 * @param called was ring.call written to, since it was armed last?
 * @param ns set to how long it may sleep on all the same, for sluice_coalesce_set_timer(); 0: until
 *   it is called
 * @return true: there is work, it must not sleep
 */
bool sluice_coalesce_arm(struct sluice_rxq *q, bool called, uint64_t *ns);

/** End a sleep after so long; 0: the timer ends none. @return 0 or errno: there is no timer */
int sluice_coalesce_set_timer(struct sluice_coalesce *c, uint64_t ns);

/** From rx_intr_disable(): the timer ends no sleep any more. */
void sluice_coalesce_disarm(struct sluice_coalesce *c);

/** Is there a device that moderates? Under the lock, or with a gate entered. */
bool sluice_coalesce_by_device(const struct sluice_dev *dev);
/**
 * Control, under the lock. begin(): the device has come up, and takes commands; look(): every so
 * often; tell(): after changes.
 * @return 0 or -ETIMEDOUT; a device that refuses is left alone, and that is logged
 */
int sluice_coalesce_begin(struct sluice_dev *dev);
void sluice_coalesce_look(struct sluice_dev *dev);
int sluice_coalesce_tell(struct sluice_dev *dev);

#endif
