/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The search for a profile, driven by sequences of decisions written down one by one. */

#include "guest.h"
#include "vq_adapt.h"

#define US_PER_MS 1000 /* the clock of these tests counts microseconds */

static struct vq_adapt
new_search(void)
{
	struct vq_adapt a;

	vq_adapt_init(&a, US_PER_MS);
	return a;
}

/* What 64 events looked like: how long they took, and what they were about. */
struct window {
	uint32_t us;
	uint32_t packets;
	uint64_t bytes;
	uint8_t expected; /* profile afterwards */
	uint8_t state;
};

/* A profile that is new is measured from the event after. */
static void
play_window(struct vq_adapt *a, const struct window *w, uint64_t *now)
{
	uint32_t i;

	if (!a->measuring)
		assert_false(vq_adapt_event(a, *now));
	assert_false(vq_adapt_note(a, w->packets, w->bytes, *now));
	for (i = 1; i <= VQ_ADAPT_EVENTS; i++) {
		uint64_t at = *now + (uint64_t)w->us * i / VQ_ADAPT_EVENTS;
		uint8_t before = a->profile;
		bool changed;

		/* Its packets are all counted, and there is no silence. */
		assert_false(vq_adapt_note(a, 0, 0, at));
		changed = vq_adapt_event(a, at);
		assert_int_equal(changed, a->profile != before);
		if (i < VQ_ADAPT_EVENTS)
			assert_false(changed);
	}
	*now += w->us;
}

static void
play(const struct window *w, size_t n)
{
	/* The clock wraps soon. */
	uint64_t now = UINT64_MAX - 1500;
	struct vq_adapt a = new_search();
	size_t i;

	a.seen = now;
	for (i = 0; i < n; i++) {
		play_window(&a, &w[i], &now);
		if (a.profile != w[i].expected || a.state != w[i].state)
			fail_msg("window %zu: profile %u, state %u", i, a.profile, a.state);
	}
}

#define PLAY(windows) play(windows, sizeof(windows) / sizeof((windows)[0]))

/* Always the same, whatever the profile: 50 events a millisecond, profile 2 (64 us) is tried. */
static void
steady(void **state)
{
	static const struct window w[] = {
		{1280, 640, 640000, 2, VQ_ADAPT_RIGHT},
		{1280, 640, 640000, 1, VQ_ADAPT_LEFT},
		{1280, 640, 640000, 0, VQ_ADAPT_LEFT},
		{1280, 640, 640000, 0, VQ_ADAPT_TOP},
		{1280, 640, 640000, 0, VQ_ADAPT_TOP},
		/* 10 % more is not another load, 11 % is. */
		{1280, 704, 704000, 0, VQ_ADAPT_TOP},
		{1280, 711, 711000, 0, VQ_ADAPT_TOP},
		{1280, 711, 711000, 2, VQ_ADAPT_RIGHT},
	};

	(void)state;
	PLAY(w);
}

/* Each step to the right brings more bytes, the last one fewer. */
static void
best_before_the_end(void **state)
{
	static const struct window w[] = {
		{1280, 640, 640000, 2, VQ_ADAPT_RIGHT},
		{1280, 640, 800000, 3, VQ_ADAPT_RIGHT},
		{1280, 640, 1000000, 4, VQ_ADAPT_RIGHT},
		{1280, 640, 700000, 3, VQ_ADAPT_LEFT},
		{1280, 640, 1000000, 3, VQ_ADAPT_TOP},
		{1280, 640, 1000000, 3, VQ_ADAPT_TOP},
	};

	(void)state;
	PLAY(w);
}

/* Two steps there and one back are enough, and another top takes no patience. */
static void
best_after_two_steps(void **state)
{
	static const struct window w[] = {
		{1280, 640, 640000, 2, VQ_ADAPT_RIGHT},
		{1280, 640, 800000, 3, VQ_ADAPT_RIGHT},
		{1280, 640, 700000, 2, VQ_ADAPT_LEFT},
		{1280, 640, 800000, 2, VQ_ADAPT_TOP},
		{1280, 640, 400000, 1, VQ_ADAPT_LEFT},
		{1280, 640, 800000, 0, VQ_ADAPT_LEFT},
		{1280, 640, 400000, 2, VQ_ADAPT_RIGHT},
		{1280, 640, 800000, 2, VQ_ADAPT_TOP}, /* the same again: patience 2 */
		{1280, 640, 900000, 2, VQ_ADAPT_TOP},
		{1280, 640, 900000, 1, VQ_ADAPT_LEFT},
		{1280, 640, 900000, 0, VQ_ADAPT_LEFT},
		{1280, 640, 900000, 0, VQ_ADAPT_TOP}, /* another one: patience 1 */
		{1280, 640, 500000, 2, VQ_ADAPT_RIGHT},
	};

	(void)state;
	PLAY(w);
}

/* Worse with every step: back and forth, then a rest, and once more. */
static void
tired(void **state)
{
	struct vq_adapt a = new_search();
	struct window w = {1280, 640, UINT64_C(1) << 40, 2, VQ_ADAPT_RIGHT};
	uint64_t now = 0;
	uint32_t i;

	(void)state;
	for (i = 0; i < 2 * VQ_ADAPT_PROFILES; i++) {
		play_window(&a, &w, &now);
		assert_int_equal(a.profile, i % 2 == 0 ? 2 : 1);
		w.bytes -= w.bytes / 5;
	}
	for (i = 0; i < 2 * VQ_ADAPT_PROFILES; i++) {
		play_window(&a, &w, &now);
		assert_int_equal(a.state, VQ_ADAPT_TIRED);
		assert_int_equal(a.profile, 1);
		w.bytes -= w.bytes / 5;
	}
	play_window(&a, &w, &now);
	assert_int_equal(a.state, VQ_ADAPT_LEFT);
	assert_int_equal(a.profile, 0);
}

/* What was on its way when the profile changed says nothing of the new one. */
static void
a_change_settles_first(void **state)
{
	struct vq_adapt a = new_search();
	uint64_t now = 0;
	struct window w = {1280, 640, 640000, 2, VQ_ADAPT_RIGHT};

	(void)state;
	play_window(&a, &w, &now);
	assert_int_equal(a.profile, 2);
	assert_false(vq_adapt_note(&a, 1000000, 1000000000, now));
	now += 100;
	play_window(&a, &w, &now);
	assert_int_equal(a.profile, 1);
	assert_int_equal(a.state, VQ_ADAPT_LEFT);
}

/* Bytes first, then packets, then events. */
static void
what_counts_first(void **state)
{
	static const struct window bytes[] = {
		{1280, 640, 640000, 2, VQ_ADAPT_RIGHT},
		{1280, 64, 710000, 3, VQ_ADAPT_RIGHT},
		{1280, 6400, 500000, 2, VQ_ADAPT_LEFT},
	};
	static const struct window packets[] = {
		{1280, 640, 640000, 2, VQ_ADAPT_RIGHT},
		{640, 360, 320000, 3, VQ_ADAPT_RIGHT},
		{1280, 640, 640000, 2, VQ_ADAPT_LEFT},
	};
	static const struct window events[] = {
		{1280, 640, 640000, 2, VQ_ADAPT_RIGHT},
		{2560, 1280, 1280000, 3, VQ_ADAPT_RIGHT},
		{2304, 1152, 1152000, 2, VQ_ADAPT_LEFT},
	};

	(void)state;
	PLAY(bytes);
	PLAY(packets);
	PLAY(events);
}

/* Events that are further apart than the longest wait: there is nothing to merge. */
static void
nothing_to_merge(void **state)
{
	static const struct window w[] = {
		{64 * 257, 64, 64000, 0, VQ_ADAPT_TOP},
		{64 * 500, 64, 64000, 0, VQ_ADAPT_TOP},
		{64 * 257, 6400, 64000000, 0, VQ_ADAPT_TOP},
		/* Just close enough for the longest. */
		{64 * 256, 64, 64000, 4, VQ_ADAPT_RIGHT},
	};

	(void)state;
	PLAY(w);
}

/* What was passed over on the way is on the way back: whoever waits for answers has lost enough. */
static void
nothing_to_merge_on_the_way_back(void **state)
{
	static const struct window conversation[] = {
		{64 * 200, 64, 64000, 4, VQ_ADAPT_RIGHT},
		{64 * 456, 64, 64000, 0, VQ_ADAPT_LEFT},
		{64 * 200, 64, 64000, 0, VQ_ADAPT_TOP},
	};
	static const struct window stream[] = {
		{64 * 200, 640, 640000, 4, VQ_ADAPT_RIGHT},
		{64 * 256, 640, 640000, 3, VQ_ADAPT_LEFT},
		{64 * 200, 640, 640000, 2, VQ_ADAPT_LEFT},
		{64 * 200, 640, 640000, 0, VQ_ADAPT_LEFT},
	};

	(void)state;
	PLAY(conversation);
	PLAY(stream);
}

/* A search that finds the same again needs twice as much reason the next time. */
static void
patience(void **state)
{
	static const struct window w[] = {
		{1280, 640, 640000, 2, VQ_ADAPT_RIGHT},
		{1280, 640, 100000, 1, VQ_ADAPT_LEFT},
		{1280, 640, 640000, 0, VQ_ADAPT_LEFT},
		{1280, 640, 640000, 0, VQ_ADAPT_TOP}, /* patience 2 */
		{1280, 640, 900000, 0, VQ_ADAPT_TOP},
		{1280, 640, 640000, 0, VQ_ADAPT_TOP},
		{1280, 640, 900000, 0, VQ_ADAPT_TOP},
		{1280, 640, 900000, 2, VQ_ADAPT_RIGHT},
		{1280, 640, 100000, 1, VQ_ADAPT_LEFT},
		{1280, 640, 900000, 0, VQ_ADAPT_LEFT},
		{1280, 640, 900000, 0, VQ_ADAPT_TOP}, /* patience 4 */
		{1280, 640, 500000, 0, VQ_ADAPT_TOP},
		{1280, 640, 500000, 0, VQ_ADAPT_TOP},
		{1280, 640, 500000, 0, VQ_ADAPT_TOP},
		{1280, 640, 500000, 2, VQ_ADAPT_RIGHT},
	};

	(void)state;
	PLAY(w);
}

/* No time has passed: no rate, so no decision; the events count for the next one. */
static void
zero_time(void **state)
{
	struct vq_adapt a = new_search();
	uint32_t i;

	(void)state;
	a.seen = 5;
	for (i = 0; i < 10 * VQ_ADAPT_EVENTS; i++)
		assert_false(vq_adapt_event(&a, 5));
	/* Without a packet there is none either. */
	assert_false(vq_adapt_event(&a, 500));
	assert_int_equal(a.state, VQ_ADAPT_RIGHT);
	a = new_search();
	a.seen = 5;
	assert_false(vq_adapt_event(&a, 5));
	assert_false(vq_adapt_note(&a, 10, 1000, 5));
	for (i = 0; i < 10 * VQ_ADAPT_EVENTS; i++)
		assert_false(vq_adapt_event(&a, 5));
	/* Nor on a clock that is a little behind. */
	assert_false(vq_adapt_event(&a, 4));
	assert_int_equal(a.profile, 0);
	assert_int_equal(a.state, VQ_ADAPT_RIGHT);
	assert_true(vq_adapt_event(&a, 6));
	assert_int_equal(a.profile, 1);
}

static void
a_pause_begins_anew(void **state)
{
	struct vq_adapt a = new_search();
	uint64_t now = 1000;
	const struct window w = {1280, 640, 640000, 2, VQ_ADAPT_RIGHT};

	(void)state;
	a.seen = now;
	play_window(&a, &w, &now);
	assert_int_equal(a.profile, 2);
	assert_false(vq_adapt_note(&a, 1, 60, now));
	now += VQ_ADAPT_IDLE_MS * US_PER_MS - 1;
	assert_false(vq_adapt_note(&a, 1, 60, now));
	assert_int_equal(a.profile, 2);
	now += VQ_ADAPT_IDLE_MS * US_PER_MS;
	/* Before it is decided whether this frame waits. */
	assert_true(vq_adapt_note(&a, 1, 60, now));
	assert_int_equal(a.profile, 0);
	assert_int_equal(a.state, VQ_ADAPT_RIGHT);
	now += VQ_ADAPT_IDLE_MS * US_PER_MS;
	assert_false(vq_adapt_note(&a, 1, 60, now));
	/* A clock that is behind is no pause. */
	play_window(&a, &w, &now);
	assert_false(vq_adapt_note(&a, 1, 60, now - 50));
	assert_int_equal(a.profile, 2);
}

/* A window with a silence in it says nothing of the load: it begins anew behind it. */
static void
a_silence_is_left_out(void **state)
{
	struct vq_adapt a = new_search();
	const struct window first = {1280, 640, 640000, 2, VQ_ADAPT_RIGHT};
	const struct window same = {1280, 640, 640000, 1, VQ_ADAPT_LEFT};
	uint64_t now = 1000;
	uint32_t i;

	(void)state;
	a.seen = now;
	play_window(&a, &first, &now);
	/* Half a window of much less. */
	for (i = 0; i < VQ_ADAPT_EVENTS / 2; i++) {
		now += 20;
		assert_false(vq_adapt_note(&a, 1, 100, now));
		assert_false(vq_adapt_event(&a, now));
	}
	now += VQ_ADAPT_GAP_MS * US_PER_MS;
	assert_false(vq_adapt_note(&a, 1, 100, now));
	assert_false(a.measuring);
	play_window(&a, &same, &now);
	assert_int_equal(a.profile, 1);
	assert_int_equal(a.state, VQ_ADAPT_LEFT);
}

/* One frame each 10 ms is as good as none: not moderated, though it never pauses for long. */
static void
a_trickle_is_a_pause(void **state)
{
	struct vq_adapt a = new_search();
	const struct window w = {1280, 640, 640000, 2, VQ_ADAPT_RIGHT};
	uint64_t now = 1000;
	uint32_t i;

	(void)state;
	a.seen = now;
	play_window(&a, &w, &now);
	for (i = 1; i < VQ_ADAPT_GAPS; i++) {
		now += VQ_ADAPT_GAP_MS * US_PER_MS;
		assert_false(vq_adapt_note(&a, 1, 60, now));
	}
	/* Not in a row. */
	assert_false(vq_adapt_note(&a, 1, 60, now));
	for (i = 1; i < VQ_ADAPT_GAPS; i++) {
		now += VQ_ADAPT_GAP_MS * US_PER_MS;
		assert_false(vq_adapt_note(&a, 1, 60, now));
	}
	assert_int_equal(a.profile, 2);
	now += VQ_ADAPT_GAP_MS * US_PER_MS;
	assert_true(vq_adapt_note(&a, 1, 60, now));
	assert_int_equal(a.profile, 0);
}

static void
frames_fit_the_ring(void **state)
{
	const struct vq_adapt_profile most = {.frames = 128, .usecs = 64};

	(void)state;
	assert_int_equal(vq_adapt_frames(&most, 32768), 128);
	assert_int_equal(vq_adapt_frames(&most, 256), 128);
	assert_int_equal(vq_adapt_frames(&most, 128), 64);
	assert_int_equal(vq_adapt_frames(&most, 2), 1);
	assert_int_equal(vq_adapt_frames(&most, 1), 1);
}

static void
profiles_go_one_way(void **state)
{
	uint32_t i;

	(void)state;
	assert_int_equal(vq_adapt_profiles[0].usecs, 0);
	for (i = 1; i < VQ_ADAPT_PROFILES; i++) {
		assert_true(vq_adapt_profiles[i].usecs > vq_adapt_profiles[i - 1].usecs);
		assert_true(vq_adapt_profiles[i].frames >= vq_adapt_profiles[i - 1].frames);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(steady),
		cmocka_unit_test(best_before_the_end),
		cmocka_unit_test(best_after_two_steps),
		cmocka_unit_test(tired),
		cmocka_unit_test(a_change_settles_first),
		cmocka_unit_test(what_counts_first),
		cmocka_unit_test(nothing_to_merge),
		cmocka_unit_test(nothing_to_merge_on_the_way_back),
		cmocka_unit_test(patience),
		cmocka_unit_test(zero_time),
		cmocka_unit_test(a_pause_begins_anew),
		cmocka_unit_test(a_silence_is_left_out),
		cmocka_unit_test(a_trickle_is_a_pause),
		cmocka_unit_test(frames_fit_the_ring),
		cmocka_unit_test(profiles_go_one_way),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
