/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "unit.h"

#include "spells.h"

#define LENGTH 700
#define EVERY  10000
#define SPELLS 20000

static struct spells s;

/* Look at every tick until a spell begins. @return how long that took */
static uint64_t
until_begin(uint64_t *now)
{
	uint64_t from = *now;

	while (!spells_turn(&s, *now))
		++*now;
	return *now - from;
}

static uint64_t
until_end(uint64_t *now)
{
	uint64_t from = *now;

	while (spells_turn(&s, *now))
		++*now;
	return *now - from;
}

/* Each spell has its length, each pause its bounds, and the pauses are spread over all of them. */
static void
lengths_and_pauses(void **state)
{
	uint64_t now = 123456, sum = 0, in_quarter[4] = {0}, pause;
	uint32_t i;

	(void)state;
	spells_init(&s, LENGTH, EVERY, 1);
	spells_start(&s, now);
	for (i = 1; i <= SPELLS; i++) {
		pause = until_begin(&now);
		assert_in_range(pause, EVERY / 2, EVERY / 2 + EVERY);
		in_quarter[(pause - EVERY / 2) * 4 / (EVERY + 1)]++;
		sum += pause;
		assert_int_equal(until_end(&now), LENGTH);
		assert_int_equal(s.count, i);
		assert_int_equal(s.total, (uint64_t)i * LENGTH);
	}
	assert_in_range(sum / SPELLS, EVERY * 99 / 100, EVERY * 101 / 100);
	for (i = 0; i < 4; i++)
		assert_in_range(in_quarter[i], SPELLS / 4 * 9 / 10, SPELLS / 4 * 11 / 10);
}

static void
sequence_of(uint64_t seed, uint64_t pauses[100])
{
	uint64_t now = 0;
	uint32_t i;

	spells_init(&s, LENGTH, EVERY, seed);
	spells_start(&s, now);
	for (i = 0; i < 100; i++) {
		pauses[i] = until_begin(&now);
		until_end(&now);
	}
}

/* The same seed gives the same pauses; neighbouring seeds have nothing in common. */
static void
a_seed_is_a_sequence(void **state)
{
	uint64_t once[100], again[100], other[100];
	uint32_t equal = 0, i;

	(void)state;
	sequence_of(42, once);
	sequence_of(43, other);
	sequence_of(42, again);
	assert_memory_equal(once, again, sizeof(once));
	for (i = 0; i < 100; i++)
		equal += once[i] == other[i];
	assert_true(equal < 5);
	sequence_of(0, once);
	for (equal = 0, i = 1; i < 100; i++)
		equal += once[i] == once[0];
	assert_true(equal < 5);
}

/* Pauses modulo the time that a ring takes to go round: no phase is preferred. */
static void
no_phase_is_preferred(void **state)
{
	const uint64_t period = 256;
	uint32_t of_phase[8] = {0}, i;
	uint64_t now = 0;

	(void)state;
	spells_init(&s, LENGTH, EVERY, 7);
	spells_start(&s, now);
	for (i = 0; i < SPELLS; i++) {
		until_begin(&now);
		of_phase[now % period * 8 / period]++;
		until_end(&now);
	}
	for (i = 0; i < 8; i++)
		assert_in_range(of_phase[i], SPELLS / 8 * 9 / 10, SPELLS / 8 * 11 / 10);
}

/* Who looks late has a later and no shorter spell; what really was is counted. */
static void
a_late_look(void **state)
{
	uint64_t now;

	(void)state;
	spells_init(&s, LENGTH, EVERY, 1);
	spells_start(&s, 0);
	now = 10 * EVERY;
	assert_true(spells_turn(&s, now));
	assert_true(spells_turn(&s, now + LENGTH - 1));
	assert_false(spells_turn(&s, now + LENGTH + 50));
	assert_int_equal(s.total, LENGTH + 50);
	assert_int_equal(s.count, 1);
}

static void
the_end(void **state)
{
	uint64_t now = 0;

	(void)state;
	spells_init(&s, LENGTH, EVERY, 1);
	spells_start(&s, now);
	until_begin(&now);
	spells_end(&s, now + 30);
	assert_int_equal(s.total, 30);
	assert_false(spells_turn(&s, now + 31));
	assert_false(spells_turn(&s, now + 100 * EVERY));
	spells_end(&s, now + 100 * EVERY);
	assert_int_equal(s.total, 30);
	assert_int_equal(s.count, 1);
}

static void
none_at_all(void **state)
{
	(void)state;
	spells_init(&s, 0, 0, 1);
	spells_start(&s, 5);
	assert_false(spells_turn(&s, 5));
	assert_false(spells_turn(&s, UINT64_MAX - 1));
	assert_int_equal(s.count, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lengths_and_pauses),
		cmocka_unit_test(a_seed_is_a_sequence),
		cmocka_unit_test(no_phase_is_preferred),
		cmocka_unit_test(a_late_look),
		cmocka_unit_test(the_end),
		cmocka_unit_test(none_at_all),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
