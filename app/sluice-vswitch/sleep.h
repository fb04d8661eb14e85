/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Idle by sleep: a worker that has found nothing for a while asks its queues to wake it, looks
 * again, and waits in epoll until one does. While it is awake it asks for nothing, but where the
 * operator wants to measure what that saves (suppress_kicks off).
 *
 * What keeps it from sleeping for good, or on something that is gone:
 * - It is offline for RCU while it waits, and holds no view. Whoever publishes another view, or
 *   wants it to stop, writes its event after that; what was written stays until the worker takes
 *   it, and a worker that took it looks for the view before it sleeps again.
 * - It waits on a set of its own, made anew for each view. The descriptors in it are the ports' own
 *   duplicates; a port closes one when no view names it any more and view_synchronize() has
 *   returned. So the worker uses their numbers only while it is online, and only those of the view
 *   it has then. A set that outlives its view may still hold what the guest has open behind a
 *   number that we have closed: that wakes the worker for nothing, once.
 * - The kicks of a ring are taken by nobody else while its worker may sleep: to take one that it
 *   has not seen yet is to take its wakeup.
 */
#ifndef SLEEP_H
#define SLEEP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

struct vswitch;
struct worker;

/** What a worker needs for it. Its own, but for what is said. */
struct sleeper {
	bool on;     /**< it may sleep at all */
	bool asks;   /**< guests are to kick also while it is awake */
	int event;   /**< eventfd that wakes it; any thread writes */
	int set;     /**< epoll set of the view `serial`; -1: none could be made */
	int eth_set; /**< epoll set inside it, that DPDK puts receive interrupts into; -1: none */
	uint64_t serial; /**< of the view that `set` was made for */
	uint64_t ticks;  /**< to be idle before it sleeps */
	uint64_t idle_since;
	uint64_t packets; /**< taken when that was looked at */
	uint32_t tried;   /**< second in which a set was made, or not */
	uint32_t second;  /**< when the kicks of an awake worker were looked at */
	bool armed;       /**< queues may have been asked to wake it */
	bool eth_added;   /**< its ethdev queues are in eth_set */
	bool eth_broken;  /**< an ethdev failed to give its interrupt: never again */
	bool by_peer;     /**< the last wake came from a queue, and nothing was found since */
	/* For telemetry. */
	_Atomic(uint64_t) sleeps;
	_Atomic(uint64_t) wakes;
	_Atomic(uint64_t) spurious_wakes;
	/** errno that kept it awake; the control thread tells each once. */
	_Atomic(int) trouble;
	int trouble_told;
};

/** Has the kernel what it takes: eventfds that can be read without waiting (Linux 5.8)? */
bool sleep_possible(void);

/** Before workers run. @return 0 or -errno; sleep_end() is needed either way */
int sleep_init(struct worker *w);
void sleep_end(struct worker *w);

/** A turn has found nothing: sleep, if it is time. Worker, online and without a view in hand. */
void sleep_if_idle(struct worker *w);

/** Where guests are to kick always: after each turn. Worker, as above. */
void sleep_ask(struct worker *w);

/** After a fault in guest memory, which may have been on the way to sleep. Worker. */
void sleep_recover(struct worker *w);

/** From now on a view that is published wakes every worker. */
void sleep_follow_views(struct vswitch *sw);

/** Have every worker come out of its sleep and look at what there is. Control thread. */
void sleep_wake_all(struct vswitch *sw);

/** Log what keeps a worker awake that should sleep. Control thread. */
void sleep_tell_trouble(struct vswitch *sw);

/**
 * Is this descriptor of a guest an eventfd? Nothing else is waited for: epoll asks what is behind a
 * descriptor, and a guest could be behind it itself (an epoll set of its own, with a file of its
 * own file system in it) and not answer.
 */
bool sleep_is_eventfd(int fd);

/** Can a worker wait for this queue of an ethdev, which is started? @return 0 or -errno */
int sleep_check_eth(uint16_t dev, uint16_t queue);

/** Take the kicks that are in a descriptor of a guest, without waiting, whatever it is. */
uint64_t sleep_take_kicks(int fd);

#endif
