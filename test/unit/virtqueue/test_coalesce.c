/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "guest.h"
#include "vq_coalesce.h"

static struct vq_coalesce
with(uint32_t frames, uint64_t ticks)
{
	struct vq_coalesce c = {0};
	struct vq_coalesce_params p = {.frames = frames, .ticks = ticks};

	vq_coalesce_set(&c, &p);
	return c;
}

static void
off_means_every_completion(void **state)
{
	struct vq_coalesce c = {0};

	(void)state;
	assert_false(vq_coalesce_due(&c, 0));
	vq_coalesce_add(&c, 1, 0);
	assert_true(vq_coalesce_due(&c, 0));
	vq_coalesce_done(&c);
	assert_false(vq_coalesce_due(&c, UINT64_MAX));

	c = with(1, 1000);
	vq_coalesce_add(&c, 1, 5);
	assert_true(vq_coalesce_due(&c, 5));
	c = with(0, 1000);
	vq_coalesce_add(&c, 1, 5);
	assert_true(vq_coalesce_due(&c, 5));
	/* Without a time bound nothing is held, whatever the count. */
	c = with(UINT32_MAX, 0);
	vq_coalesce_add(&c, 1, 5);
	assert_true(vq_coalesce_due(&c, 5));
}

/* Two workers deliver into one ring; one read its clock before the other noted its completions. */
static void
a_clock_a_little_behind(void **state)
{
	struct vq_coalesce c = with(32, 1000);

	(void)state;
	vq_coalesce_add(&c, 1, 100);
	assert_false(vq_coalesce_due(&c, 99));
	assert_true(vq_coalesce_due(&c, 1100));
	c = with(32, 1000);
	vq_coalesce_add(&c, 1, 5); /* just after the clock has wrapped */
	assert_false(vq_coalesce_due(&c, UINT64_MAX - 5));
}

static void
due_by_count(void **state)
{
	struct vq_coalesce c = with(32, 1000);

	(void)state;
	for (uint32_t i = 1; i < 32; i++) {
		vq_coalesce_add(&c, 1, 100);
		assert_false(vq_coalesce_due(&c, 100));
	}
	vq_coalesce_add(&c, 1, 100);
	assert_true(vq_coalesce_due(&c, 100));
	assert_int_equal(c.pending, 32);
	vq_coalesce_done(&c);
	assert_int_equal(c.pending, 0);
	/* A burst beyond the count is one call. */
	vq_coalesce_add(&c, 256, 200);
	assert_true(vq_coalesce_due(&c, 200));
}

/* From the oldest completion, not from the newest one. */
static void
due_by_time(void **state)
{
	struct vq_coalesce c = with(32, 1000);

	(void)state;
	vq_coalesce_add(&c, 1, 5000);
	vq_coalesce_add(&c, 1, 5999);
	assert_false(vq_coalesce_due(&c, 5999));
	assert_true(vq_coalesce_due(&c, 6000));
	assert_true(vq_coalesce_due(&c, 700000));
	vq_coalesce_done(&c);
	vq_coalesce_add(&c, 1, 6500);
	assert_false(vq_coalesce_due(&c, 7499));
	assert_true(vq_coalesce_due(&c, 7500));
}

static void
the_clock_may_wrap(void **state)
{
	struct vq_coalesce c = with(32, 1000);

	(void)state;
	vq_coalesce_add(&c, 1, UINT64_MAX - 499);
	assert_false(vq_coalesce_due(&c, UINT64_MAX));
	assert_false(vq_coalesce_due(&c, 499));
	assert_true(vq_coalesce_due(&c, 500));
}

static void
the_count_saturates(void **state)
{
	struct vq_coalesce c = with(UINT32_MAX, UINT64_MAX);

	(void)state;
	vq_coalesce_add(&c, UINT32_MAX - 1, 0);
	assert_false(vq_coalesce_due(&c, 0));
	vq_coalesce_add(&c, 32768, 0);
	assert_int_equal(c.pending, UINT32_MAX);
	assert_true(vq_coalesce_due(&c, 0));
	vq_coalesce_add(&c, UINT32_MAX, 0);
	assert_int_equal(c.pending, UINT32_MAX);
}

static void
parameters_change_while_pending(void **state)
{
	struct vq_coalesce c = with(256, 1000);
	struct vq_coalesce_params less = {.frames = 8, .ticks = 1000};
	struct vq_coalesce_params sooner = {.frames = 256, .ticks = 10};

	(void)state;
	vq_coalesce_add(&c, 8, 100);
	assert_false(vq_coalesce_due(&c, 110));
	vq_coalesce_set(&c, &sooner);
	assert_int_equal(c.pending, 8);
	assert_true(vq_coalesce_due(&c, 110));
	vq_coalesce_set(&c, &less);
	assert_true(vq_coalesce_due(&c, 100));
}

/* Asked at every tick, empty turns too: nothing waits longer than the bound, nor past the count. */
static void
nothing_is_held_past_its_bounds(void **state)
{
	uint64_t random = 9;

	(void)state;
	for (uint32_t round = 0; round < 200; round++) {
		uint32_t frames = 1 + rnd_below(&random, 64);
		uint64_t ticks = 1 + rnd_below(&random, 50);
		struct vq_coalesce c = with(frames, ticks);
		uint64_t oldest = 0;
		uint32_t pending = 0, calls = 0, added = 0;
		uint64_t start = rnd(&random);

		for (uint64_t t = 0; t < 2000; t++) {
			uint32_t n = rnd_below(&random, 8) == 0 ? rnd_below(&random, 20) : 0;

			if (n != 0) {
				if (pending == 0)
					oldest = t;
				pending += n;
				added += n;
				vq_coalesce_add(&c, n, start + t);
			}
			if (vq_coalesce_due(&c, start + t)) {
				assert_true(pending >= frames || t - oldest >= ticks);
				vq_coalesce_done(&c);
				pending = 0;
				calls++;
			}
			assert_true(pending < frames);
			assert_true(pending == 0 || t - oldest < ticks);
		}
		assert_true(added == 0 || calls != 0);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(off_means_every_completion),
		cmocka_unit_test(due_by_count),
		cmocka_unit_test(a_clock_a_little_behind),
		cmocka_unit_test(due_by_time),
		cmocka_unit_test(the_clock_may_wrap),
		cmocka_unit_test(the_count_saturates),
		cmocka_unit_test(parameters_change_while_pending),
		cmocka_unit_test(nothing_is_held_past_its_bounds),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
