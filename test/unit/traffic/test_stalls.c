/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "unit.h"

#include "stalls.h"

static void
the_longest_are_kept(void **state)
{
	struct longest l = {0};
	uint32_t i;

	(void)state;
	for (i = 0; i < 1000; i++)
		longest_add(&l, i * 389 % 1000, 10000 + i, i);
	longest_add(&l, 999, 99999, 0); /* not longer than what is there: behind it */
	assert_int_equal(l.n, LONGEST_KEPT);
	assert_int_equal(l.entry[0].value, 999);
	assert_int_equal(l.entry[0].which * 389 % 1000, 999);
	assert_int_equal(l.entry[0].at, 10000 + l.entry[0].which);
	assert_int_equal(l.entry[1].value, 999);
	assert_int_equal(l.entry[1].at, 99999);
	for (i = 2; i < LONGEST_KEPT; i++)
		assert_int_equal(l.entry[i].value, 1000 - i);
}

static void
late_turns_are_counted(void **state)
{
	struct stalls s = {.threshold = 100, .last = 1000};

	(void)state;
	stalls_turn(&s, 1100);
	assert_int_equal(s.count, 0);
	stalls_turn(&s, 1201);
	stalls_turn(&s, 1250);
	stalls_turn(&s, 2250);
	assert_int_equal(s.count, 2);
	assert_int_equal(s.total, 101 + 1000);
	assert_int_equal(s.longest.n, 2);
	assert_int_equal(s.longest.entry[0].value, 1000);
	assert_int_equal(s.longest.entry[0].at, 1250);
	assert_int_equal(s.longest.entry[1].value, 101);
}

/* A stall in the middle of a turn is known before the next one begins, and counted once. */
static void
in_the_middle_of_a_turn(void **state)
{
	struct stalls s = {.threshold = 100, .last = 1000};

	(void)state;
	assert_int_equal(stalls_until(&s, 1100), 0);
	assert_int_equal(stalls_until(&s, 1500), 500);
	assert_int_equal(s.total, 0);
	stalls_turn(&s, 1510);
	assert_int_equal(s.total, 510);
	assert_int_equal(stalls_until(&s, 1520), 510);
	/* A moment that is over. */
	assert_int_equal(stalls_until(&s, 1505), 510);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_longest_are_kept),
		cmocka_unit_test(late_turns_are_counted),
		cmocka_unit_test(in_the_middle_of_a_turn),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
