/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Which moderation of calls suits what goes on: a search among five profiles, from none to much.
 * The idea is that of dynamic interrupt moderation in Linux: every 64 events the rates since the
 * last decision are compared with those before it.
 *
 *	going right, to more moderation: on while it makes things better, else turn
 *	going left, to less: on while it makes nothing worse, else turn
 *	parked on top: several steps there and one back, or an end; stays until the load changes
 *	parked tired: went back and forth without finding a top; rests for 10 decisions
 *
 * Better is more bytes a millisecond, else more packets, else fewer events; a difference counts
 * above 10 %. Four things are our own. A profile that waits for less than the time between two
 * events can merge none of them, and is passed over; on the way back it is the time between two
 * packets. A search that ends where it began was set off by noise: each time the load must seem
 * changed for twice as many decisions in a row. After a pause all begins anew without moderation,
 * so that the first frame on an idle link waits for nothing; shorter silences are left out of the
 * rates, in which they would look like a load that went down and up again.
 *
 * Pure: the clock is an argument. One thread at a time per struct (under the lock of its ring).
 * Either side: the event is a call that was really made, or an interrupt that was taken.
 */
#ifndef VQ_ADAPT_H
#define VQ_ADAPT_H

#include <stdbool.h>
#include <stdint.h>

#define VQ_ADAPT_PROFILES 5
#define VQ_ADAPT_EVENTS   64  /**< between two decisions */
#define VQ_ADAPT_IDLE_MS  100 /**< a pause */
#define VQ_ADAPT_GAP_MS   10  /**< a silence; so many in a row as below are a pause too */
#define VQ_ADAPT_GAPS     8

/** As struct vq_coalesce_params, in units that do not depend on a clock. */
struct vq_adapt_profile {
	uint32_t frames;
	uint32_t usecs;
};

/** From no moderation (0) to the most. A ring may be too short for the count: see the function. */
extern const struct vq_adapt_profile vq_adapt_profiles[VQ_ADAPT_PROFILES];

enum vq_adapt_state {
	VQ_ADAPT_RIGHT,
	VQ_ADAPT_LEFT,
	VQ_ADAPT_TOP,
	VQ_ADAPT_TIRED,
};

/** A millisecond. */
struct vq_adapt_rates {
	double bytes, packets, events;
};

struct vq_adapt {
	uint8_t profile;  /**< in force */
	uint8_t state;    /**< enum vq_adapt_state */
	uint8_t steps;    /**< in the present direction since it turned */
	uint8_t before;   /**< in the other direction, before that */
	uint8_t tired;    /**< steps since it was parked; while it rests: decisions to go */
	uint8_t top;      /**< profile that it was parked on last */
	uint8_t changes;  /**< parked on top: decisions in a row that found another load */
	uint8_t patience; /**< as many of them are needed */
	uint8_t gaps;     /**< bursts in a row that came after a silence */
	uint32_t events;  /**< since `begin` */
	uint64_t ticks_per_ms;
	uint64_t begin; /**< time of the event that the rates count from */
	uint64_t seen;  /**< time of the last burst */
	uint64_t packets, bytes;
	bool measuring; /**< `begin` is set */
	struct vq_adapt_rates last;
};

/** Begin with no moderation. @param ticks_per_ms of the clock, at least 1 */
void vq_adapt_init(struct vq_adapt *a, uint64_t ticks_per_ms);

/**
 * Note a burst, before it is decided whether a call is due for it.
 * @return true: the profile in force is another one, since this burst ends a pause
 */
bool vq_adapt_note(struct vq_adapt *a, uint32_t packets, uint64_t bytes, uint64_t now);

/** Note an event. @return true: the profile in force is another one */
bool vq_adapt_event(struct vq_adapt *a, uint64_t now);

/**
 * Frames of a profile for a ring: at most half of it, so that the peer is called while there is
 * still something left for it to work on.
 */
static inline uint32_t
vq_adapt_frames(const struct vq_adapt_profile *p, uint32_t size)
{
	uint32_t most = size / 2 > 1 ? size / 2 : 1;

	return p->frames < most ? p->frames : most;
}

#endif
