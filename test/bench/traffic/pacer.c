/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "pacer.h"

void
pacer_init(
	struct pacer *p, const struct pacer_shape *shape, uint64_t hz, uint64_t start, uint64_t end)
{
	/* Below 2^64: a group is at most 2^32 frames, a clock has some 2^32 ticks a second. */
	uint64_t ticks = hz * shape->group;

	*p = (struct pacer){
		.next = start,
		.end = end,
		.whole = ticks / shape->rate,
		.part = ticks % shape->rate,
		.rate = shape->rate,
		.group = shape->group,
		.left = shape->group,
		.cycle = start,
		.on = hz * shape->on_us / 1000000,
		.off = hz * shape->off_us / 1000000,
	};
}

void
pacer_advance(struct pacer *p)
{
	p->left = p->group;
	p->next += p->whole;
	p->error += p->part;
	if (p->error >= p->rate) {
		p->error -= p->rate;
		p->next++;
	}
	if (p->off != 0 && p->next >= p->cycle + p->on) {
		p->cycle += p->on + p->off;
		p->next = p->cycle;
		p->error = 0;
	}
}

void
pacer_shift(struct pacer *p, uint64_t now)
{
	uint64_t by = now - p->next;

	p->next += by;
	p->cycle += by;
	p->shifted += by;
}
