/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>

#include "unit.h"

#include "random.h"
#include "sequence.h"

static struct sequence s;

static void
take(uint32_t number, enum sequence_verdict want)
{
	assert_int_equal(sequence_take(&s, number), want);
}

static void
take_range(uint64_t from, uint64_t to)
{
	for (; from < to; from++)
		take((uint32_t)from, SEQUENCE_NEW);
}

static void
assert_losses(uint64_t lost, uint64_t events, uint64_t longest)
{
	assert_int_equal(s.lost, lost);
	assert_int_equal(s.loss_events, events);
	assert_int_equal(s.longest_loss, longest);
}

/* Bring a sequence close to a number without four billion steps. */
static void
begin_at(uint64_t number)
{
	uint64_t base = number / 64 * 64;

	sequence_init(&s);
	s.base = base;
	s.next = number;
	s.bits[base / 64 % SEQUENCE_WORDS] = (UINT64_C(1) << (number - base)) - 1;
	s.received = number;
}

static void
in_order(void **state)
{
	(void)state;
	sequence_init(&s);
	take_range(0, 3 * SEQUENCE_WINDOW + 17);
	sequence_finish(&s, 3 * SEQUENCE_WINDOW + 17);
	assert_int_equal(s.received, 3 * SEQUENCE_WINDOW + 17);
	assert_losses(0, 0, 0);
	assert_int_equal(s.reordered + s.duplicates + s.too_late + s.invalid, 0);
	assert_int_equal(s.next, 3 * SEQUENCE_WINDOW + 17);
}

static void
nothing_came(void **state)
{
	(void)state;
	sequence_init(&s);
	sequence_finish(&s, 0);
	assert_losses(0, 0, 0);
	sequence_init(&s);
	sequence_finish(&s, 100000);
	assert_losses(100000, 1, 100000);
	assert_int_equal(s.received, 0);
}

static void
gaps(void **state)
{
	(void)state;
	sequence_init(&s);
	take_range(0, 10);
	take_range(11, 20);        /* 10 is missing */
	take_range(25, 100);       /* 20..24 */
	take(5100, SEQUENCE_NEW);  /* 100..5099: longer than the bitmap */
	sequence_finish(&s, 5103); /* 5101, 5102: the tail */
	assert_int_equal(s.received, 10 + 9 + 75 + 1);
	assert_losses(1 + 5 + 5000 + 2, 4, 5000);
	assert_int_equal(s.received + s.lost, 5103);
	assert_int_equal(s.reordered + s.duplicates + s.too_late, 0);
}

/* The bitmap is looked at a word at a time. */
static void
gaps_at_the_edges_of_words(void **state)
{
	(void)state;
	sequence_init(&s);
	take_range(0, 40);
	take_range(64, 128);
	take_range(131, 192);
	take(320, SEQUENCE_NEW); /* 192..319: two words */
	sequence_finish(&s, 321);
	assert_losses(24 + 3 + 128, 3, 128);
}

static void
the_first_is_missing(void **state)
{
	(void)state;
	sequence_init(&s);
	take(3, SEQUENCE_NEW);
	sequence_finish(&s, 4);
	assert_losses(3, 1, 3);
}

/* Far ahead, over more than the bitmap: one event, and bounded work. */
static void
leap(void **state)
{
	(void)state;
	sequence_init(&s);
	take_range(0, 64);
	take(64 + 1000000000, SEQUENCE_NEW);
	take_range(65 + 1000000000, 200 + 1000000000);
	sequence_finish(&s, 200 + 1000000000);
	assert_int_equal(s.received, 64 + 136);
	assert_losses(1000000000, 1, 1000000000);
}

static void
reordering(void **state)
{
	(void)state;
	sequence_init(&s);
	take(0, SEQUENCE_NEW);
	take(2, SEQUENCE_NEW);
	take(1, SEQUENCE_NEW); /* behind 2: distance 1 */
	take_range(3, 10);
	take_range(11, 51);
	take(10, SEQUENCE_NEW); /* behind 50: 40 */
	take(51, SEQUENCE_NEW);
	sequence_finish(&s, 52);
	assert_int_equal(s.received, 52);
	assert_losses(0, 0, 0); /* what came late is not lost, however it looked */
	assert_int_equal(s.reordered, 2);
	assert_int_equal(s.max_distance, 40);
	assert_int_equal(s.duplicates, 0);
}

static void
duplicates(void **state)
{
	(void)state;
	sequence_init(&s);
	take_range(0, 100);
	take(99, SEQUENCE_DUPLICATE);
	take(0, SEQUENCE_DUPLICATE);
	take(0, SEQUENCE_DUPLICATE);
	take(102, SEQUENCE_NEW);
	take(101, SEQUENCE_NEW); /* late, and once more */
	take(101, SEQUENCE_DUPLICATE);
	sequence_finish(&s, 103);
	assert_int_equal(s.received, 102);
	assert_int_equal(s.duplicates, 4);
	assert_int_equal(s.reordered, 1);
	assert_losses(1, 1, 1);
}

/* The bitmap ends 4032 to 4095 below the highest number, at a multiple of 64. */
static void
too_late(void **state)
{
	(void)state;
	sequence_init(&s);
	take_range(0, 5);
	take_range(6, SEQUENCE_WINDOW);
	take(5, SEQUENCE_NEW); /* the oldest word is still there */
	take(5, SEQUENCE_DUPLICATE);
	take(SEQUENCE_WINDOW + 10, SEQUENCE_NEW); /* now it is not */
	take(63, SEQUENCE_TOO_LATE);
	take(64, SEQUENCE_DUPLICATE);
	assert_int_equal(s.reordered, 1);
	assert_int_equal(s.max_distance, SEQUENCE_WINDOW - 1 - 5);
	take(2 * SEQUENCE_WINDOW + 64, SEQUENCE_NEW);  /* and of this gap.. */
	take(SEQUENCE_WINDOW + 11, SEQUENCE_TOO_LATE); /* ..a frame that comes too late is lost */
	sequence_finish(&s, 2 * SEQUENCE_WINDOW + 65);
	assert_int_equal(s.received, SEQUENCE_WINDOW + 2);
	assert_int_equal(s.too_late, 2);
	assert_int_equal(s.received + s.lost, 2 * SEQUENCE_WINDOW + 65);
	assert_losses(10 + SEQUENCE_WINDOW + 53, 2, SEQUENCE_WINDOW + 53);
}

static void
below_zero(void **state)
{
	(void)state;
	sequence_init(&s);
	take(UINT32_MAX, SEQUENCE_INVALID);
	take_range(0, 10);
	take(UINT32_MAX, SEQUENCE_INVALID);
	take((uint32_t)INT32_MIN + 10, SEQUENCE_INVALID);
	assert_int_equal(s.invalid, 3);
	assert_int_equal(s.next, 10);
}

/* 32 bits on the wire, more in the books. */
static void
wrap(void **state)
{
	const uint64_t end = UINT64_C(1) << 32;

	(void)state;
	begin_at(end - 100);
	take_range(end - 100, end - 5); /* 5 are missing before the wrap.. */
	take(3, SEQUENCE_NEW);          /* ..and 3 behind it */
	assert_int_equal(s.next, end + 4);
	take(UINT32_MAX, SEQUENCE_NEW); /* one of them was late */
	take(UINT32_MAX, SEQUENCE_DUPLICATE);
	take(0, SEQUENCE_NEW);
	take_range(end + 4, end + 5000);
	take(2, SEQUENCE_TOO_LATE);
	sequence_finish(&s, end + 5000);
	assert_int_equal(s.reordered, 2);
	assert_int_equal(s.max_distance, 4);
	assert_losses(4 + 2, 2, 4);
	assert_int_equal(s.received + s.lost, end + 5000);
}

/* What was never sent shows in `next`. */
static void
beyond_what_was_sent(void **state)
{
	(void)state;
	sequence_init(&s);
	take_range(0, 10);
	take(20, SEQUENCE_NEW);
	sequence_finish(&s, 10);
	assert_int_equal(s.next, 21);
	assert_int_equal(s.received + s.lost, 21);
}

/* The same, by a table with a place for each number. */
struct model {
	uint64_t highest, received, duplicates, reordered, max_distance;
	uint64_t lost, events, longest;
	uint8_t seen[1 << 17];
};

static void
model_take(struct model *m, uint64_t number)
{
	if (m->seen[number]) {
		m->duplicates++;
		return;
	}
	m->seen[number] = 1;
	m->received++;
	if (number + 1 >= m->highest) {
		m->highest = number + 1;
		return;
	}
	m->reordered++;
	if (m->highest - 1 - number > m->max_distance)
		m->max_distance = m->highest - 1 - number;
}

static void
model_finish(struct model *m, uint64_t sent)
{
	uint64_t i, run = 0;

	for (i = 0; i < sent; i++) {
		run = m->seen[i] ? 0 : run + 1;
		m->lost += !m->seen[i];
		m->events += run == 1;
		m->longest = run > m->longest ? run : m->longest;
	}
}

/* Losses in runs, frames delayed by up to `delay`, duplicates near and far. */
static void
against_the_model(uint64_t seed, uint32_t delay, uint64_t first)
{
	static uint64_t held[4000];
	struct model *m = calloc(1, sizeof(*m));
	const uint64_t sent = 60000;
	uint64_t number, last = 0;
	uint32_t nheld = 0, drop = 0;

	assert_non_null(m);
	begin_at(first);
	s.received = 0;
	for (number = 0; number < sent; number++) {
		uint64_t dice = random_next(&seed);

		if (drop == 0 && dice % 200 == 0)
			drop = (uint32_t)(dice >> 32) % (dice % 1000 == 0 ? 9000 : 20);
		if (drop > 0) {
			drop--;
		} else if (dice % 16 == 1 && nheld < delay) {
			held[nheld++] = number;
		} else {
			model_take(m, number);
			(void)sequence_take(&s, (uint32_t)(first + number));
			last = number;
		}
		if (dice % 64 == 2 && number - last < 2000) {
			model_take(m, last);
			(void)sequence_take(&s, (uint32_t)(first + last));
		}
		while (nheld > 0 && (nheld == delay || number - held[0] > delay)) {
			/* In a bitmap's reach, or the model would know better. */
			if (m->highest - held[nheld - 1] < SEQUENCE_WINDOW - 64) {
				model_take(m, held[nheld - 1]);
				(void)sequence_take(&s, (uint32_t)(first + held[nheld - 1]));
			}
			nheld--;
		}
	}
	model_finish(m, sent);
	sequence_finish(&s, first + sent);
	assert_int_equal(s.received, m->received);
	assert_int_equal(s.duplicates, m->duplicates);
	assert_int_equal(s.reordered, m->reordered);
	assert_int_equal(s.max_distance, m->max_distance);
	assert_losses(m->lost, m->events, m->longest);
	assert_int_equal(s.received + s.lost, sent);
	assert_int_equal(s.too_late + s.invalid, 0);
	assert_true(m->lost > 0 && m->duplicates > 0);
	free(m);
}

static void
at_random(void **state)
{
	const uint64_t begins[] = {
		0, 1, 63, 64, 4095, 4096, (UINT64_C(1) << 32) - 30000, (UINT64_C(5) << 32) - 1};
	uint32_t i, delay;

	(void)state;
	for (i = 0; i < COUNT_OF(begins); i++)
		for (delay = 0; delay < 4000; delay = delay * 4 + 1)
			against_the_model(i * 1000 + delay + 1, delay, begins[i]);
}

/* Sequences know nothing of each other. */
static void
many_flows(void **state)
{
	const uint32_t flows = 1000;
	struct sequence *all = malloc(flows * sizeof(*all));
	uint32_t n, f;

	(void)state;
	assert_non_null(all);
	for (f = 0; f < flows; f++)
		sequence_init(&all[f]);
	for (n = 0; n < 100; n++)
		for (f = 0; f < flows; f++)
			if (n == 0 || (n + f) % 50 >= f % 7) /* f % 7 of every 50 are lost */
				(void)sequence_take(&all[f], n);
	for (f = 0; f < flows; f++) {
		uint64_t lost = 0;

		for (n = 1; n < 100; n++)
			lost += (n + f) % 50 < f % 7;
		sequence_finish(&all[f], 100);
		assert_int_equal(all[f].lost, lost);
		assert_int_equal(all[f].received, 100 - lost);
		assert_int_equal(all[f].reordered + all[f].duplicates, 0);
	}
	free(all);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_order),
		cmocka_unit_test(nothing_came),
		cmocka_unit_test(gaps),
		cmocka_unit_test(gaps_at_the_edges_of_words),
		cmocka_unit_test(the_first_is_missing),
		cmocka_unit_test(leap),
		cmocka_unit_test(reordering),
		cmocka_unit_test(duplicates),
		cmocka_unit_test(too_late),
		cmocka_unit_test(below_zero),
		cmocka_unit_test(wrap),
		cmocka_unit_test(beyond_what_was_sent),
		cmocka_unit_test(at_random),
		cmocka_unit_test(many_flows),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
