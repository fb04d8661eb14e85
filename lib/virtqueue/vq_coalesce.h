/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Moderation of calls (the interrupt), not of the publication: used entries are always published at
 * the end of a turn, a call waits until `frames` completions are pending or the oldest has waited
 * `ticks`. Pure: the clock is an argument. One thread at a time per struct (under the lock of its
 * ring). Device side.
 *
 * Who decides the parameters (a fixed setting here, an adaptive one elsewhere) is not this file's
 * business: it writes `params` between two calls of the functions below.
 */
#ifndef VQ_COALESCE_H
#define VQ_COALESCE_H

#include <stdbool.h>
#include <stdint.h>

struct vq_coalesce_params {
	uint32_t frames; /**< completions that make a call due; 0 or 1: every one does */
	uint64_t ticks;  /**< longest wait of the oldest completion, in units of `now`; 0: none */
};

struct vq_coalesce {
	struct vq_coalesce_params params;
	uint32_t pending; /**< completions published, no call decided since */
	uint64_t oldest;  /**< time of the first of them */
};

/** Moderate with these parameters from now on; what is pending stays pending. */
static inline void
vq_coalesce_set(struct vq_coalesce *c, const struct vq_coalesce_params *params)
{
	c->params = *params;
}

/** Note `n` completions that were just published at time `now`. */
static inline void
vq_coalesce_add(struct vq_coalesce *c, uint32_t n, uint64_t now)
{
	if (c->pending == 0)
		c->oldest = now;
	/* Saturate: a peer that is never called must not wrap the count to "nothing pending". */
	c->pending = c->pending + n < c->pending ? UINT32_MAX : c->pending + n;
}

/**
 * Is a call due? Ask after every turn, an empty one too.
 * When it is, decide by the peer's suppression, call or not, then vq_coalesce_done().
 */
static inline bool
vq_coalesce_due(const struct vq_coalesce *c, uint64_t now)
{
	if (c->pending == 0)
		return false;
	if (c->pending >= c->params.frames || c->params.ticks == 0)
		return true;
	/* Another thread's clock may have been read a little earlier than `oldest` was. */
	if ((int64_t)(now - c->oldest) < 0)
		return false;
	return now - c->oldest >= c->params.ticks;
}

/** The call was made or found unwanted; nothing is pending. */
static inline void
vq_coalesce_done(struct vq_coalesce *c)
{
	c->pending = 0;
}

#endif
