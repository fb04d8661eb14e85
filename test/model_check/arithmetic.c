/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Pure functions over all their inputs: the event rule, the ring's layout, refilling and the
 * moderation of calls.
 */
#include "vq_layout.c"

#include "model.h"
#include "vq_coalesce.h"
#include "vq_order.h"
#include "vq_refill.h"

unsigned short
model_load(const unsigned short *p)
{
	return *p;
}

void
model_store(unsigned short *p, unsigned short value)
{
	*p = value;
}

/* The specification's formula (2.7.10.1), and what it means: event is one of old..now-1. */
void
prove_event(void)
{
	uint16_t event = nondet_u16(), now = nondet_u16(), old = nondet_u16();
	bool passed = vq_event_passed(event, now, old);

	PROVE(passed == ((uint16_t)(now - event - 1) < (uint16_t)(now - old)));
	PROVE(passed == ((uint16_t)(event - old) < (uint16_t)(now - old)));
	REACH_IF(passed && now < old, "passed around the wrap");
	REACH_IF(!passed && now != old, "not passed");
}

/* The three areas of every size lie apart, in the block, aligned, no line with two writers. */
void
prove_layout(void)
{
	uint32_t size = nondet_u32();
	struct vq_layout l;
	int result = vq_layout(size, &l);
	size_t avail_end, used_end;

	PROVE((result == 0) == (size != 0 && size <= 32768 && (size & (size - 1)) == 0));
	REACH_IF(result == -EINVAL, "a size that is refused");
	if (result != 0)
		return;
	avail_end = l.avail + 6 + 2 * (size_t)size;
	used_end = l.used + 6 + 8 * (size_t)size;
	PROVE(l.desc == 0 && l.avail >= 16 * (size_t)size && l.used >= avail_end);
	PROVE(used_end <= l.bytes && l.bytes % VQ_CACHE_LINE == 0);
	PROVE(l.avail % 2 == 0 && l.used % 4 == 0);
	PROVE((l.avail + 4) % VQ_CACHE_LINE == 0 && (l.used + 4) % VQ_CACHE_LINE == 0);
	PROVE((16 * (size_t)size - 1) / VQ_CACHE_LINE < l.avail / VQ_CACHE_LINE);
	PROVE((avail_end - 1) / VQ_CACHE_LINE < l.used / VQ_CACHE_LINE);
	PROVE(l.bytes <= UINT64_C(26) * size + 5 * VQ_CACHE_LINE);
	REACH_IF(size == 1, "the smallest");
	REACH_IF(size == 32768, "the largest");
}

/* The rule that vq_refill.h states, for every budget, size and count. */
void
prove_refill(void)
{
	struct vq_refill r = {.size = any_size(), .budget = nondet_u32()};
	uint32_t free = any_upto(r.size), consumed = nondet_u32();
	uint32_t level, want;

	r.mode = (enum vq_refill_mode)any_upto(VQ_REFILL_EAGER);
	ASSUME(r.budget >= 1 && r.budget <= 32768);
	level = r.budget < r.size ? r.budget : r.size;
	want = vq_refill_want(&r, free, consumed);
	PROVE(want <= free);
	if (r.mode != VQ_REFILL_BUDGET)
		return;
	PROVE(want <= r.budget || want <= consumed);
	PROVE((want != 0) == (free > (consumed != 0 ? level / 2 : 0)));
	/* Whoever consumes no faster than it refills holds the level. */
	PROVE(free <= level / 2 || want == free || want >= r.budget);
	PROVE(free - want <= level / 2 || want >= consumed);
	REACH_IF(want == consumed && consumed > r.budget, "as many as were consumed");
	REACH_IF(want == r.budget && free > want, "a partial fill");
}

/* Nothing is held without a bound, and nothing that is pending is forgotten. */
void
prove_coalesce(void)
{
	struct vq_coalesce c;
	const struct vq_coalesce_params params = {nondet_u32(), nondet_u64()};
	struct vq_coalesce before;
	uint64_t now = nondet_u64();
	uint32_t n = nondet_u32();

	ASSUME(n != 0);
	before = c;
	vq_coalesce_set(&c, &params);
	PROVE(c.pending == before.pending && c.oldest == before.oldest);
	vq_coalesce_add(&c, n, now);
	PROVE(c.pending != 0 && c.pending >= before.pending && c.pending >= n);
	PROVE(c.pending == before.pending + n || c.pending == UINT32_MAX);
	PROVE(c.oldest == (before.pending == 0 ? now : before.oldest));
	PROVE(c.pending < params.frames || vq_coalesce_due(&c, now));
	PROVE(params.ticks != 0 || vq_coalesce_due(&c, now));
	/* Whoever asks when the time is over, on a clock that is right, is told so. */
	ASSUME(params.ticks <= INT64_MAX);
	PROVE(vq_coalesce_due(&c, c.oldest + params.ticks));
	REACH_IF(!vq_coalesce_due(&c, now), "held");
	vq_coalesce_done(&c);
	PROVE(c.pending == 0 && !vq_coalesce_due(&c, nondet_u64()));
}
