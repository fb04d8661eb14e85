/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * How long each call of rx_burst takes, in TSC ticks.
 */
#ifndef CALLS_H
#define CALLS_H

#include "histogram.h"
#include "longest.h"

/* Enough of them to fill any ring in pieces of 16. */
#define CALLS_AFTER_DRY 64

struct calls {
	struct histogram gave;  /**< calls that gave frames */
	struct histogram empty; /**< calls that gave none */
	struct longest longest; /**< of both */
	/** The longest of the first calls after the pool was dry, of each time that it was. */
	struct histogram after_dry;
	uint32_t left; /* calls that are still such */
	uint64_t longest_left;
};

void calls_init(struct calls *c);

/** The pool was dry, and is not any more. */
void calls_after_dry(struct calls *c);

/** A call that began at `begin` took so long and gave so many frames. */
void calls_note(struct calls *c, uint64_t begin, uint64_t ticks, uint32_t frames);

#endif
