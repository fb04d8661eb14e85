/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include "histogram.h"

void
histogram_init(struct histogram *h)
{
	memset(h, 0, sizeof(*h));
	h->min = UINT64_MAX;
}

uint64_t
histogram_lowest(uint32_t bucket)
{
	uint32_t shift;

	if (bucket < 2 * HISTOGRAM_PARTS)
		return bucket;
	shift = (bucket >> HISTOGRAM_BITS) - 1;
	return (uint64_t)(bucket - (shift << HISTOGRAM_BITS)) << shift;
}

static uint64_t
middle(uint32_t bucket)
{
	uint32_t shift = bucket < 2 * HISTOGRAM_PARTS ? 0 : (bucket >> HISTOGRAM_BITS) - 1;

	return histogram_lowest(bucket) + ((UINT64_C(1) << shift) - 1) / 2;
}

uint64_t
histogram_percentile(const struct histogram *h, uint32_t permille)
{
	/* Rounded up, without an overflow of count * permille. */
	uint64_t rank = h->count / 1000 * permille + (h->count % 1000 * permille + 999) / 1000;
	uint64_t seen = 0, value;
	uint32_t i;

	if (h->count == 0)
		return 0;
	if (rank <= 1)
		return h->min;
	if (rank >= h->count)
		return h->max;
	for (i = 0; i < HISTOGRAM_BUCKETS - 1; i++) {
		seen += h->buckets[i];
		if (seen >= rank)
			break;
	}
	value = middle(i);
	if (value < h->min)
		return h->min;
	return value > h->max ? h->max : value;
}
