/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A receiver that found nothing sleeps on its receive interrupts, until one comes or something is
 * due. Not by rte_epoll_wait(), which knows only milliseconds.
 *
 * Clear, ask for interrupts, poll once more, sleep: a frame that came before its interrupt was
 * asked for is found by the poll, one that came after it ends the sleep.
 */
#ifndef SLEEP_H
#define SLEEP_H

#include <poll.h>

#include "receiver.h"

struct sleeper {
	uint16_t port;
	uint16_t queues;
	bool keep_armed; /* interrupts stay asked for while it polls */
	uint64_t bound;  /* ticks that it sleeps at most */
	struct pollfd fds[QUEUES_MAX];
	/* Results. */
	uint64_t caught;    /**< frames came while it was about to sleep, so it did not */
	uint64_t sleeps;    /**< the sum of the next three, but for signals */
	uint64_t wakes;     /**< ended by an interrupt */
	uint64_t deadlines; /**< ended because something else was due */
	uint64_t timeouts;  /**< ended by the bound */
	uint64_t spurious;  /**< of the wakes: there was no frame */
	uint64_t missed;    /**< of the time-outs: there was a frame, and no interrupt for it */
	uint64_t asleep;    /**< ticks */
};

/** @return 0, or -EINVAL if the port has no receive interrupts */
int sleeper_init(
	struct sleeper *s, const struct options *o, const struct port *port, struct problem *p);

/** Of the thread that will sleep: ends of sleeps are not put off to be taken together. */
void sleeper_start(void);

/** Sleep until a moment, whatever happens. Not if it is near. */
void sleeper_wait(uint64_t until);

/** Sleep no longer than until a moment; the frames that end it are taken. */
void sleeper_sleep(struct sleeper *s, struct receiver *r, struct stalls *stalls, uint64_t until);

#endif
