/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "unit.h"

#include "calls.h"

static struct calls c;

static void
both_kinds(void **state)
{
	(void)state;
	calls_init(&c);
	calls_note(&c, 1000, 50, 3);
	calls_note(&c, 2000, 7, 0);
	calls_note(&c, 3000, 60, 32);
	assert_int_equal(c.gave.count, 2);
	assert_int_equal(c.gave.sum, 110);
	assert_int_equal(c.empty.count, 1);
	assert_int_equal(c.empty.max, 7);
	assert_int_equal(c.longest.n, 3);
	assert_int_equal(c.longest.entry[0].value, 60);
	assert_int_equal(c.longest.entry[0].at, 3000);
	assert_int_equal(c.longest.entry[0].which, 32);
	assert_int_equal(c.after_dry.count, 0);
}

static void
notes(uint32_t n, uint64_t ticks)
{
	while (n-- > 0)
		calls_note(&c, 0, ticks, n % 2);
}

/* Of each time the longest of the first calls, be they empty or not; later ones do not count. */
static void
after_a_dry_pool(void **state)
{
	(void)state;
	calls_init(&c);
	notes(5, 900);
	calls_after_dry(&c);
	notes(1, 10);
	notes(1, 100);
	notes(CALLS_AFTER_DRY - 2, 20);
	assert_int_equal(c.after_dry.count, 1);
	assert_int_equal(c.after_dry.max, 100);
	notes(5, 900);
	assert_int_equal(c.after_dry.count, 1);
	/* Dry again before so many calls: what there was counts. */
	calls_after_dry(&c);
	notes(3, 30);
	calls_after_dry(&c);
	assert_int_equal(c.after_dry.count, 2);
	assert_int_equal(c.after_dry.min, 30);
	notes(CALLS_AFTER_DRY, 40);
	assert_int_equal(c.after_dry.count, 3);
	assert_int_equal(c.after_dry.sum, 170);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(both_kinds),
		cmocka_unit_test(after_a_dry_pool),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
