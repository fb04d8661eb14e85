/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * When each frame is due, in TSC ticks: exact integer arithmetic, so that no rate drifts. A
 * schedule does not wait for its sender: frames that were missed stay due. The clock is the
 * caller's.
 */
#ifndef PACER_H
#define PACER_H

#include <stdbool.h>
#include <stdint.h>

struct pacer {
	uint64_t next; /**< deadline of the next frame */
	uint64_t end;  /**< no deadline at or after it */
	/* From one group of frames to the next: whole + part / rate ticks. */
	uint64_t whole, part, rate, error;
	uint32_t group, left; /* frames due at the same time; those that are still to be taken */
	/* On-off: deadlines fall into [cycle, cycle + on). `off` is 0: always on. */
	uint64_t cycle, on, off;
	uint64_t shifted; /**< ticks by which pacer_shift() has moved the schedule */
};

struct pacer_shape {
	uint64_t rate;   /* frames a second, over the ON time */
	uint32_t group;  /* frames due together; at least 1 */
	uint64_t on_us;  /* with off_us: the ON and OFF times */
	uint64_t off_us; /* 0: always on */
};

/** @param hz ticks a second @param end UINT64_MAX for no end */
void pacer_init(struct pacer *p, const struct pacer_shape *shape, uint64_t hz, uint64_t start,
	uint64_t end);

/** To the deadline of the next group. */
void pacer_advance(struct pacer *p);

/** Is a frame due at this time? */
static inline bool
pacer_due(const struct pacer *p, uint64_t now)
{
	return p->next <= now && p->next < p->end;
}

/** No frame will be due any more. */
static inline bool
pacer_over(const struct pacer *p)
{
	return p->next >= p->end;
}

/** Take a frame that is due. @return by how many ticks it is late */
static inline uint64_t
pacer_take(struct pacer *p, uint64_t now)
{
	uint64_t late = now - p->next;

	if (--p->left == 0)
		pacer_advance(p);
	return late;
}

/** The missed deadlines were not to be: what is due next is due now, and all later ones follow. */
void pacer_shift(struct pacer *p, uint64_t now);

#endif
