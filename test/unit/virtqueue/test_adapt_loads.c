/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The search for a profile, driven by loads that answer to the moderation they get. */

#include <string.h>

#include "guest.h"
#include "vq_adapt.h"
#include "vq_coalesce.h"

#define US_PER_MS 1000 /* the clock of these tests counts microseconds */

/*
 * A ring under a load, microsecond by microsecond: frames come, a call is made when it is due. A
 * load may wait for the call (a conversation) or not (a stream).
 */
struct ring {
	struct vq_adapt adapt;
	struct vq_coalesce coalesce;
	uint64_t random;
	uint64_t now;
	uint64_t oldest;
	uint64_t pending;
	/* Counted. */
	uint64_t frames, calls, changes;
	uint64_t at[VQ_ADAPT_PROFILES]; /* calls by profile */
};

static struct ring
new_ring(uint64_t seed)
{
	struct ring r = {.random = seed, .now = UINT64_MAX - 5000};

	vq_adapt_init(&r.adapt, US_PER_MS);
	r.adapt.seen = r.now;
	return r;
}

static void
take_profile(struct ring *r)
{
	const struct vq_adapt_profile *p = &vq_adapt_profiles[r->adapt.profile];
	const struct vq_coalesce_params params = {
		.frames = vq_adapt_frames(p, 256),
		.ticks = p->usecs,
	};

	vq_coalesce_set(&r->coalesce, &params);
}

/* @return was a call made? */
static bool
turn_of(struct ring *r, uint32_t frames, uint32_t len)
{
	if (frames != 0) {
		if (vq_adapt_note(&r->adapt, frames, (uint64_t)frames * len, r->now))
			take_profile(r);
		vq_coalesce_add(&r->coalesce, frames, r->now);
		if (r->pending == 0)
			r->oldest = r->now;
		r->pending += frames;
		r->frames += frames;
	}
	if (!vq_coalesce_due(&r->coalesce, r->now)) {
		/* Never held past the bound of the profile in force. */
		assert_true(r->pending == 0 ||
			    r->now - r->oldest < vq_adapt_profiles[r->adapt.profile].usecs);
		return false;
	}
	vq_coalesce_done(&r->coalesce);
	r->pending = 0;
	r->calls++;
	r->at[r->adapt.profile]++;
	if (vq_adapt_event(&r->adapt, r->now)) {
		take_profile(r);
		r->changes++;
	}
	return true;
}

/* One frame each `gap` microseconds, on average, for `ms`. */
static void
stream(struct ring *r, uint32_t gap, bool regular, uint32_t ms)
{
	uint32_t us, wait = gap;

	for (us = 0; us < ms * US_PER_MS; us++, r->now++) {
		bool due = regular ? --wait == 0 : rnd_below(&r->random, gap) == 0;

		if (due)
			wait = gap;
		(void)turn_of(r, due, 1500);
	}
}

/* The next frame comes `rtt` microseconds after the call for the one before. */
static void
conversation(struct ring *r, uint32_t rtt, uint32_t ms)
{
	uint32_t us, wait = rtt;

	for (us = 0; us < ms * US_PER_MS; us++, r->now++) {
		bool due = wait != 0 && --wait == 0;

		if (turn_of(r, due, 100)) {
			wait = rtt;
			if (rnd_below(&r->random, 50) == 0)
				wait += rnd_below(&r->random, 10 * rtt); /* somebody stood still */
		}
	}
}

static void
a_fast_stream_is_moderated(void **state)
{
	struct ring r = new_ring(1);

	(void)state;
	stream(&r, 2, true, 500);
	assert_true(r.adapt.profile >= 3);
	assert_int_equal(r.adapt.state, VQ_ADAPT_TOP);
	r.calls = 0;
	r.frames = 0;
	stream(&r, 2, true, 500);
	assert_true(r.frames >= 32 * r.calls);
}

static void
a_slow_stream_is_not(void **state)
{
	struct ring r = new_ring(2);

	(void)state;
	stream(&r, 1000, true, 3000);
	stream(&r, 1000, false, 3000);
	assert_int_equal(r.changes, 0);
	assert_int_equal(r.calls, r.frames);
}

/* Whoever waits for an answer gets it: nearly always at once, although the load is never steady. */
static void
a_conversation_is_not(void **state)
{
	struct ring r = new_ring(3);

	(void)state;
	conversation(&r, 15, 5000);
	assert_true(r.calls > 100000);
	assert_true(r.at[0] * 10 > r.calls * 8);
}

static void
up_and_down_again(void **state)
{
	struct ring r = new_ring(4);

	(void)state;
	stream(&r, 1000, false, 1000);
	assert_int_equal(r.adapt.profile, 0);
	stream(&r, 2, false, 1000);
	assert_true(r.adapt.profile >= 2);
	stream(&r, 1000, false, 3000);
	assert_int_equal(r.adapt.profile, 0);
	conversation(&r, 10, 1000);
	r.calls = 0;
	memset(r.at, 0, sizeof(r.at));
	conversation(&r, 10, 2000);
	assert_true(r.at[0] * 10 > r.calls * 8);
}

/* A load that changes with each decision does not change the profile with each. */
static void
oscillating(void **state)
{
	struct ring r = new_ring(5);
	uint32_t i;

	(void)state;
	for (i = 0; i < 2000; i++)
		stream(&r, i % 2 ? 2 : 12, true, 1);
	assert_true(r.calls / VQ_ADAPT_EVENTS > 100);
	assert_true(r.changes < r.calls / VQ_ADAPT_EVENTS / 2);
}

static void
pauses(void **state)
{
	struct ring r = new_ring(6);
	uint32_t i;

	(void)state;
	for (i = 0; i < 20; i++) {
		uint64_t calls;

		stream(&r, 2, false, 100);
		assert_true(r.adapt.profile > 0);
		stream(&r, 1 << 30, true, 2 * VQ_ADAPT_IDLE_MS);
		calls = r.calls;
		assert_true(turn_of(&r, 1, 60));
		assert_int_equal(r.calls, calls + 1);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_fast_stream_is_moderated),
		cmocka_unit_test(a_slow_stream_is_not),
		cmocka_unit_test(a_conversation_is_not),
		cmocka_unit_test(up_and_down_again),
		cmocka_unit_test(oscillating),
		cmocka_unit_test(pauses),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
