/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "guest.h"
#include "vq_refill.h"
#include "vq_wire.h"

static const uint32_t budgets[] = {1, 2, 3, 16, 63, 64, 65, 256, 4096, 32768};

static uint32_t
min32(uint32_t a, uint32_t b)
{
	return a < b ? a : b;
}

static uint32_t
max32(uint32_t a, uint32_t b)
{
	return a > b ? a : b;
}

/* Values worked out by hand. */
static void
the_table(void **state)
{
	static const struct {
		enum vq_refill_mode mode;
		uint32_t size, budget, free, consumed, want;
	} cases[] = {
		{VQ_REFILL_BUDGET, 256, 64, 0, 0, 0},
		{VQ_REFILL_BUDGET, 256, 64, 32, 32, 0},
		{VQ_REFILL_BUDGET, 256, 64, 1, 1, 0},
		/* nothing came: nothing is waited for */
		{VQ_REFILL_BUDGET, 256, 64, 1, 0, 1},
		{VQ_REFILL_BUDGET, 256, 64, 32, 0, 32},
		{VQ_REFILL_BUDGET, 256, 64, 33, 0, 33},
		{VQ_REFILL_BUDGET, 256, 64, 33, 33, 33},
		{VQ_REFILL_BUDGET, 256, 64, 64, 0, 64},
		{VQ_REFILL_BUDGET, 256, 64, 65, 0, 64},
		{VQ_REFILL_BUDGET, 256, 64, 256, 0, 64},
		/* jumbo traffic: as many as were taken */
		{VQ_REFILL_BUDGET, 256, 64, 224, 192, 192},
		{VQ_REFILL_BUDGET, 256, 64, 224, 224, 224},
		/* a budget beyond the ring */
		{VQ_REFILL_BUDGET, 16, 64, 8, 8, 0},
		{VQ_REFILL_BUDGET, 16, 64, 9, 1, 9},
		{VQ_REFILL_BUDGET, 16, 64, 16, 0, 16},
		{VQ_REFILL_BUDGET, 16, 32768, 16, 0, 16},
		/* a budget of one: at every free slot, one at a time */
		{VQ_REFILL_BUDGET, 256, 1, 0, 0, 0},
		{VQ_REFILL_BUDGET, 256, 1, 1, 0, 1},
		{VQ_REFILL_BUDGET, 256, 1, 200, 0, 1},
		{VQ_REFILL_BUDGET, 256, 1, 200, 32, 32},
		/* a ring of one */
		{VQ_REFILL_BUDGET, 1, 64, 1, 0, 1},
		{VQ_REFILL_BUDGET, 1, 64, 0, 0, 0},
		{VQ_REFILL_BUDGET, 2, 64, 1, 1, 0},
		{VQ_REFILL_BUDGET, 2, 64, 2, 1, 2},
		{VQ_REFILL_HALF, 256, 64, 128, 128, 0},
		{VQ_REFILL_HALF, 256, 64, 129, 0, 129},
		{VQ_REFILL_HALF, 256, 64, 256, 0, 256},
		{VQ_REFILL_HALF, 1, 64, 1, 0, 1},
		{VQ_REFILL_EAGER, 256, 64, 1, 0, 1},
		{VQ_REFILL_EAGER, 256, 64, 256, 7, 256},
		{VQ_REFILL_EAGER, 256, 64, 0, 0, 0},
	};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
		struct vq_refill r = {
			.mode = cases[i].mode, .size = cases[i].size, .budget = cases[i].budget};
		uint32_t want = vq_refill_want(&r, cases[i].free, cases[i].consumed);

		if (want != cases[i].want)
			fail_msg("case %u: %u", i, want);
	}
}

static void
only_eager_is_all_or_nothing(void **state)
{
	struct vq_refill r = {.size = 256, .budget = 64};

	(void)state;
	r.mode = VQ_REFILL_BUDGET;
	assert_false(vq_refill_all_or_nothing(&r));
	r.mode = VQ_REFILL_HALF;
	assert_false(vq_refill_all_or_nothing(&r));
	r.mode = VQ_REFILL_EAGER;
	assert_true(vq_refill_all_or_nothing(&r));
}

/* With fewer buffers than the largest frame takes nothing is waited for: no frame might come. */
static void
the_largest_frame_fits(void **state)
{
	static const enum vq_refill_mode modes[] = {VQ_REFILL_BUDGET, VQ_REFILL_HALF};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(modes); i++) {
		struct vq_refill r = {.mode = modes[i], .size = 8, .budget = 64, .need = 5};

		assert_int_equal(vq_refill_want(&r, 3, 1), 0);
		assert_int_equal(vq_refill_want(&r, 4, 1), 4);
		r.need = 8;
		assert_int_equal(vq_refill_want(&r, 1, 1), 1);
		assert_int_equal(vq_refill_want(&r, 0, 0), 0);
		r.need = 4;
		assert_int_equal(vq_refill_want(&r, 4, 4), 0);
	}
}

/* Never more than is free, never more than the rule's bound, never nothing above the threshold. */
static void
bounds_hold_everywhere(void **state)
{
	uint64_t random = 11;

	(void)state;
	for (uint32_t size = 1; size <= VQ_SIZE_MAX; size *= 2) {
		for (uint32_t b = 0; b < COUNT_OF(budgets); b++) {
			uint32_t budget = budgets[b];
			uint32_t step = size > 512 ? size / 256 : 1;

			for (uint32_t free = 0; free <= size; free += step) {
				uint32_t consumed = rnd_below(&random, free + 1);

				for (int mode = VQ_REFILL_BUDGET; mode <= VQ_REFILL_EAGER; mode++) {
					struct vq_refill r = {.mode = (enum vq_refill_mode)mode,
						.size = size,
						.budget = budget};
					uint32_t want = vq_refill_want(&r, free, consumed);

					assert_true(want <= free);
					if (mode != VQ_REFILL_BUDGET)
						continue;
					assert_true(want <= max32(budget, consumed));
					assert_int_equal(want != 0,
						free > (consumed != 0 ? min32(budget, size) / 2
								      : 0));
				}
			}
		}
	}
}

/* A receive queue and its pool, by counts alone. */
struct sim {
	struct vq_refill r;
	uint32_t posted;
	uint32_t pool;
	uint32_t held; /* by the application */
};

/* One receive call: `arriving` packets of one buffer, as many as there are buffers for. */
static uint32_t
receive(struct sim *s, uint32_t arriving)
{
	uint32_t consumed = min32(arriving, s->posted);
	uint32_t want;

	s->posted -= consumed;
	s->held += consumed;
	want = vq_refill_want(&s->r, s->r.size - s->posted, consumed);
	if (want > s->pool)
		want = vq_refill_all_or_nothing(&s->r) ? 0 : s->pool;
	s->pool -= want;
	s->posted += want;
	return consumed;
}

/* With a pool that gives, the level after a call never falls below N - min(B, N) / 2. */
static void
the_level_is_kept(void **state)
{
	uint64_t random = 3;

	(void)state;
	for (uint32_t size = 1; size <= VQ_SIZE_MAX; size *= 8) {
		for (uint32_t b = 0; b < COUNT_OF(budgets); b++) {
			uint32_t slack = min32(budgets[b], size) / 2;
			struct sim s = {.r = {VQ_REFILL_BUDGET, size, budgets[b]},
				.posted = size,
				.pool = UINT32_MAX / 2};

			for (uint32_t call = 0; call < 2000; call++) {
				(void)receive(&s, rnd_below(&random, size + 1));
				assert_true(s.posted + slack >= size);
			}
		}
	}
}

/*
 * The pool is dry while the ring drains, then the buffers come back while nothing arrives: empty
 * calls alone bring the ring back to its level, in a bounded number of them, whatever the mode.
 */
static void
reception_comes_back_after_a_dry_pool(void **state)
{
	(void)state;
	for (int mode = VQ_REFILL_BUDGET; mode <= VQ_REFILL_EAGER; mode++) {
		for (uint32_t size = 1; size <= VQ_SIZE_MAX; size *= 2) {
			for (uint32_t b = 0; b < COUNT_OF(budgets); b++) {
				uint32_t slack = min32(budgets[b], size) / 2;
				uint32_t calls = size / budgets[b] + 1;
				struct sim s = {.r = {(enum vq_refill_mode)mode, size, budgets[b]},
					.posted = size};

				while (receive(&s, 32) != 0)
					;
				assert_int_equal(s.posted, 0);
				for (uint32_t i = 0; i < 100; i++)
					assert_int_equal(receive(&s, 32), 0);
				s.pool = s.held;
				s.held = 0;
				if (mode != VQ_REFILL_BUDGET)
					calls = 1;
				for (uint32_t i = 0; i < calls; i++)
					assert_int_equal(receive(&s, 0), 0);
				assert_true(s.posted + slack >= size);
				assert_true(receive(&s, 32) != 0);
			}
		}
	}
}

/* Buffers come back one at a time: a partial fill is a success, nothing waits for a full budget. */
static void
a_trickle_of_buffers_is_posted(void **state)
{
	struct sim s = {.r = {VQ_REFILL_BUDGET, 256, 64}};

	(void)state;
	for (uint32_t i = 1; i <= 224; i++) {
		s.pool = 1;
		(void)receive(&s, 0);
		assert_int_equal(s.posted, i);
		assert_int_equal(s.pool, 0);
	}
}

/* No call does unbounded work after a long absence: an eighth of a ring of 512 is the budget. */
static void
work_per_call_is_bounded(void **state)
{
	struct sim s = {.r = {VQ_REFILL_BUDGET, 512, 64}, .pool = 4096};
	uint32_t before, calls = 0;

	(void)state;
	do {
		before = s.posted;
		(void)receive(&s, 0);
		assert_true(s.posted - before <= 64);
		calls++;
	} while (s.posted != before);
	assert_int_equal(s.posted, 512);
	assert_int_equal(calls, 9);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_table),
		cmocka_unit_test(only_eager_is_all_or_nothing),
		cmocka_unit_test(the_largest_frame_fits),
		cmocka_unit_test(bounds_hold_everywhere),
		cmocka_unit_test(the_level_is_kept),
		cmocka_unit_test(reception_comes_back_after_a_dry_pool),
		cmocka_unit_test(a_trickle_of_buffers_is_posted),
		cmocka_unit_test(work_per_call_is_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
