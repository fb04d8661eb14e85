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

struct calls {
	struct histogram gave;  /**< calls that gave frames */
	struct histogram empty; /**< calls that gave none */
	struct longest longest; /**< of both */
};

void calls_init(struct calls *c);

/** A call that began at `begin` took so long and gave so many frames. */
void calls_note(struct calls *c, uint64_t begin, uint64_t ticks, uint32_t frames);

#endif
