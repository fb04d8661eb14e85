/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A covering array: rows of factor levels in which every pair of levels of any two factors occurs.
 */
#ifndef COVERING_H
#define COVERING_H

#include <stdint.h>

#define COVERING_FACTORS 16
#define COVERING_LEVELS  16
#define COVERING_ROWS    256

struct covering {
	uint32_t rows;
	uint8_t level[COVERING_ROWS][COVERING_FACTORS];
};

/** Build it, the same each time, for factors with so many levels each; it is checked. */
void covering_make(struct covering *c, const uint32_t *levels, uint32_t factors);

#endif
