/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "vq_adapt.h"

/* Steps without a top after which it rests, and decisions that it rests for. */
#define TIRED         (2 * VQ_ADAPT_PROFILES)
#define PATIENCE_MOST 32

const struct vq_adapt_profile vq_adapt_profiles[VQ_ADAPT_PROFILES] = {
	{.frames = 1, .usecs = 0},
	{.frames = 32, .usecs = 16},
	{.frames = 64, .usecs = 64},
	{.frames = 128, .usecs = 128},
	{.frames = 256, .usecs = 256},
};

enum verdict { SAME, BETTER, WORSE };

void
vq_adapt_init(struct vq_adapt *a, uint64_t ticks_per_ms)
{
	*a = (struct vq_adapt){
		.ticks_per_ms = ticks_per_ms,
		.state = VQ_ADAPT_RIGHT,
		.patience = 1,
	};
}

/* A clock that another thread has read may be a little behind. */
static uint64_t
since(uint64_t then, uint64_t now)
{
	return (int64_t)(now - then) < 0 ? 0 : now - then;
}

static void
measure_from(struct vq_adapt *a, uint64_t now)
{
	a->measuring = true;
	a->begin = now;
	a->events = 0;
	a->packets = 0;
	a->bytes = 0;
}

bool
vq_adapt_note(struct vq_adapt *a, uint32_t packets, uint64_t bytes, uint64_t now)
{
	const uint64_t silence = since(a->seen, now);
	const bool moderated = a->profile != 0;
	bool idle;

	a->gaps = silence < VQ_ADAPT_GAP_MS * a->ticks_per_ms ? 0 : a->gaps + 1;
	idle = silence >= VQ_ADAPT_IDLE_MS * a->ticks_per_ms || a->gaps == VQ_ADAPT_GAPS;
	if (idle)
		vq_adapt_init(a, a->ticks_per_ms);
	else if (a->gaps != 0)
		a->measuring = false;
	a->seen = now;
	a->packets += packets;
	a->bytes += bytes;
	return idle && moderated;
}

static bool
differs(double now, double before)
{
	double difference = now > before ? now - before : before - now;

	return difference * 10 > before;
}

static enum verdict
compare(const struct vq_adapt_rates *now, const struct vq_adapt_rates *before)
{
	if (differs(now->bytes, before->bytes))
		return now->bytes > before->bytes ? BETTER : WORSE;
	if (differs(now->packets, before->packets))
		return now->packets > before->packets ? BETTER : WORSE;
	if (differs(now->events, before->events))
		return now->events < before->events ? BETTER : WORSE;
	return SAME;
}

static void
park(struct vq_adapt *a, enum vq_adapt_state where)
{
	if (where == VQ_ADAPT_TOP) {
		if (a->profile != a->top)
			a->patience = 1;
		else if (a->patience < PATIENCE_MOST && a->tired != 0)
			a->patience *= 2;
		a->top = a->profile;
	}
	a->state = (uint8_t)where;
	a->changes = 0;
	a->steps = 0;
	a->before = 0;
	a->tired = where == VQ_ADAPT_TIRED ? TIRED : 0;
}

static void
turn(struct vq_adapt *a)
{
	a->state = a->state == VQ_ADAPT_RIGHT ? VQ_ADAPT_LEFT : VQ_ADAPT_RIGHT;
	a->before = a->steps;
	a->steps = 0;
}

/* Is one more to be expected while a profile waits, where so many come in a millisecond? */
static bool
merges(uint8_t profile, double rate)
{
	return rate * vq_adapt_profiles[profile].usecs >= 1000;
}

/* The next profile in the present direction; the present one if there is none of use. */
static uint8_t
next(const struct vq_adapt *a, const struct vq_adapt_rates *now)
{
	uint8_t p = a->profile;

	if (a->state == VQ_ADAPT_LEFT) {
		/* Events are as rare as the present profile makes them, so go by packets. */
		while (p > 0 && !merges(--p, now->packets))
			continue;
		return p;
	}
	while (++p < VQ_ADAPT_PROFILES)
		if (merges(p, now->events))
			return p;
	return a->profile;
}

static void
step(struct vq_adapt *a, const struct vq_adapt_rates *now)
{
	const uint8_t to = next(a, now);

	if (a->tired == TIRED) {
		park(a, VQ_ADAPT_TIRED);
	} else if (to == a->profile) {
		park(a, VQ_ADAPT_TOP);
	} else {
		a->profile = to;
		a->steps++;
		a->tired++;
	}
}

static void
set_out(struct vq_adapt *a, const struct vq_adapt_rates *now)
{
	a->state = a->profile > 0 ? VQ_ADAPT_LEFT : VQ_ADAPT_RIGHT;
	step(a, now);
}

static void
decide(struct vq_adapt *a, const struct vq_adapt_rates *now)
{
	const enum verdict verdict = compare(now, &a->last);

	switch ((enum vq_adapt_state)a->state) {
	case VQ_ADAPT_TOP:
		a->changes = verdict == SAME ? 0 : a->changes + 1;
		/* Compared with what it was when it was parked: a slow change is one too. */
		if (a->changes < a->patience)
			return;
		set_out(a, now);
		break;
	case VQ_ADAPT_TIRED:
		if (--a->tired == 0)
			set_out(a, now);
		break;
	case VQ_ADAPT_RIGHT:
	case VQ_ADAPT_LEFT:
		/* Less moderation needs no reason: it is what latency is for. */
		if (verdict == WORSE || (verdict == SAME && a->state == VQ_ADAPT_RIGHT))
			turn(a);
		if (a->steps == 1 && a->before > 1)
			park(a, VQ_ADAPT_TOP);
		else
			step(a, now);
		break;
	}
	a->last = *now;
}

bool
vq_adapt_event(struct vq_adapt *a, uint64_t now)
{
	struct vq_adapt_rates rates;
	uint8_t profile = a->profile;
	double ms;

	if (!a->measuring) {
		measure_from(a, now);
		return false;
	}
	a->events++;
	/* Interrupts for nothing say nothing of a load. */
	if (a->events < VQ_ADAPT_EVENTS || a->packets == 0 || since(a->begin, now) == 0)
		return false;
	ms = (double)since(a->begin, now) / (double)a->ticks_per_ms;
	rates.bytes = (double)a->bytes / ms;
	rates.packets = (double)a->packets / ms;
	rates.events = (double)a->events / ms;
	decide(a, &rates);
	measure_from(a, now);
	/* What is on its way was moderated by the old one: count from the next event. */
	if (a->profile != profile)
		a->measuring = false;
	return a->profile != profile;
}
