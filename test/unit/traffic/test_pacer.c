/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "unit.h"

#include "pacer.h"

#define HZ UINT64_C(2096995100) /* no round number */

static struct pacer p;

static void
init(uint64_t rate, uint32_t group, uint64_t on_us, uint64_t off_us, uint64_t start, uint64_t end)
{
	const struct pacer_shape shape = {
		.rate = rate, .group = group, .on_us = on_us, .off_us = off_us};

	pacer_init(&p, &shape, HZ, start, end);
}

/* Deadline k is k * HZ / rate behind the start, rounded down, however long it goes on. */
static void
no_rate_drifts(void **state)
{
	const uint64_t rates[] = {1, 7, 1000, 99991, 1000000, 14880952, 999999937};
	uint64_t k;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(rates); i++) {
		init(rates[i], 1, 0, 0, 5000, UINT64_MAX);
		for (k = 0; k < 300000; k++) {
			uint64_t want = 5000 + (uint64_t)((__uint128_t)k * HZ / rates[i]);

			assert_int_equal(p.next, want);
			assert_int_equal(pacer_take(&p, want + 3), 3);
		}
	}
}

static void
a_frame_is_due_at_its_time(void **state)
{
	(void)state;
	init(1000, 1, 0, 0, 100, UINT64_MAX);
	assert_false(pacer_due(&p, 99));
	assert_true(pacer_due(&p, 100));
	pacer_take(&p, 100);
	assert_false(pacer_due(&p, 100 + HZ / 1000 - 1));
	assert_true(pacer_due(&p, 100 + HZ / 1000));
}

/* As many as the rate says, also if the sender looks seldom. */
static void
frames_of_a_second(void **state)
{
	const uint32_t rates[] = {1, 3, 1000, 123457};
	uint64_t now, n, step;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(rates); i++)
		for (step = HZ / 3; step > 10000; step /= 7) {
			init(rates[i], 1, 0, 0, 0, HZ);
			for (n = 0, now = 0; !pacer_over(&p); now += step)
				while (pacer_due(&p, now)) {
					pacer_take(&p, now);
					n++;
				}
			assert_int_equal(n, rates[i]);
		}
}

static void
bursts(void **state)
{
	uint32_t k, i;

	(void)state;
	init(1000000, 32, 0, 0, 0, UINT64_MAX);
	for (k = 0; k < 1000; k++)
		for (i = 0; i < 32; i++) {
			assert_int_equal(p.next, k * 32 * HZ / 1000000);
			pacer_take(&p, p.next);
		}
}

/* 10 ms of 1000 frames a second, then 30 ms of none. */
static void
on_and_off(void **state)
{
	const uint64_t ms = HZ / 1000;
	uint64_t n = 0, cycle, in_cycle;

	(void)state;
	init(1000, 1, 10000, 30000, 0, HZ);
	for (cycle = 0; cycle < 25; cycle++)
		for (in_cycle = 0; in_cycle < 10; in_cycle++, n++) {
			uint64_t begin = cycle * (HZ * 10000 / 1000000 + HZ * 30000 / 1000000);

			assert_true(pacer_due(&p, p.next));
			assert_true(p.next >= begin + in_cycle * ms);
			assert_true(p.next < begin + in_cycle * ms + 10);
			pacer_take(&p, p.next);
		}
	assert_int_equal(n, 250);
	assert_true(p.next >= HZ - 100); /* the next second */
}

static void
a_late_schedule_is_moved(void **state)
{
	uint64_t first;

	(void)state;
	init(1000, 1, 0, 0, 0, UINT64_MAX);
	pacer_take(&p, 0);
	first = p.next;
	pacer_shift(&p, first + 777);
	assert_int_equal(p.next, first + 777);
	assert_int_equal(p.shifted, 777);
	assert_int_equal(pacer_take(&p, first + 777), 0);
	assert_int_equal(p.next, 2 * HZ / 1000 + 777);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_rate_drifts),
		cmocka_unit_test(a_frame_is_due_at_its_time),
		cmocka_unit_test(frames_of_a_second),
		cmocka_unit_test(bursts),
		cmocka_unit_test(on_and_off),
		cmocka_unit_test(a_late_schedule_is_moved),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
