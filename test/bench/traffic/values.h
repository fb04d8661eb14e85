/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Option values from text. Each returns 0, or -EINVAL with the option named in the problem.
 */
#ifndef VALUES_H
#define VALUES_H

#include <stdint.h>

#include "options.h"

/** A whole decimal number. */
int value_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out,
	struct problem *p);
int value_number32(const char *option, const char *text, uint32_t min, uint32_t max, uint32_t *out,
	struct problem *p);

/** A decimal number, k or M behind it for thousands and millions; what comes out is whole. */
int value_scaled(
	const char *option, const char *text, uint64_t max, uint64_t *out, struct problem *p);

/** Seconds with at most six decimals, in microseconds. */
int value_seconds(const char *option, const char *text, uint64_t *out, struct problem *p);

/** N, A-B, imix, or a list of numbers. */
int value_sizes(const char *option, const char *text, struct options *o, struct problem *p);

/** even, bursts:N, on-off:MS:MS */
int value_shape(const char *option, const char *text, struct options *o, struct problem *p);

int value_mac(const char *option, const char *text, struct mac *out, struct problem *p);

#endif
