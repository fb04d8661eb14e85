/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>

#include "unit.h"

#include "histogram.h"
#include "random.h"

#define VALUES 5000

static struct histogram h;

/* Every value is in the bucket that begins at or below it, and no bucket is wider than 1/64. */
static void
buckets(void **state)
{
	uint64_t seed = 1, value;
	uint32_t i, b;

	(void)state;
	for (b = 0; b < HISTOGRAM_BUCKETS; b++)
		assert_int_equal(histogram_bucket(histogram_lowest(b)), b);
	for (i = 0; i < 100000; i++) {
		value = random_next(&seed) >> (i % 64);
		b = histogram_bucket(value);
		assert_true(histogram_lowest(b) <= value);
		if (b + 1 < HISTOGRAM_BUCKETS) {
			uint64_t width = histogram_lowest(b + 1) - histogram_lowest(b);

			assert_true(value < histogram_lowest(b + 1));
			assert_true(width == 1 || width <= histogram_lowest(b) / 64);
		}
	}
	assert_int_equal(histogram_bucket(UINT64_MAX), HISTOGRAM_BUCKETS - 1);
}

static int
by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Against the values themselves, sorted: the percentile is of the bucket of the right one. */
static void
compare(uint64_t *values, uint32_t n)
{
	uint32_t permille, i;

	histogram_init(&h);
	for (i = 0; i < n; i++)
		histogram_add(&h, values[i]);
	qsort(values, n, sizeof(*values), by_value);
	assert_int_equal(h.count, n);
	assert_true(h.min == values[0]);
	assert_true(h.max == values[n - 1]);
	for (permille = 0; permille <= 1000; permille++) {
		uint32_t rank = (n * permille + 999) / 1000;
		uint64_t want = values[rank > 0 ? rank - 1 : 0];
		uint64_t got = histogram_percentile(&h, permille);

		assert_int_equal(histogram_bucket(got), histogram_bucket(want));
		assert_true((got > want ? got - want : want - got) <= want / 127);
	}
}

static void
percentiles(void **state)
{
	static uint64_t values[VALUES];
	uint64_t seed = 7;
	uint32_t n, i, shift;

	(void)state;
	for (shift = 0; shift < 64; shift += 3)
		for (n = 1; n <= VALUES; n = n * 3 + 1) {
			for (i = 0; i < n; i++)
				values[i] = random_next(&seed) >> shift;
			compare(values, n);
		}
	for (i = 0; i < VALUES; i++) /* of every magnitude */
		values[i] = random_next(&seed) >> (i % 64);
	compare(values, VALUES);
	for (i = 0; i < VALUES; i++)
		values[i] = 1234567;
	compare(values, VALUES);
	assert_int_equal(histogram_percentile(&h, 500), 1234567); /* never beyond what was seen */
}

static void
nothing_in_it(void **state)
{
	(void)state;
	histogram_init(&h);
	assert_int_equal(histogram_percentile(&h, 500), 0);
	assert_int_equal(h.max, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(buckets),
		cmocka_unit_test(percentiles),
		cmocka_unit_test(nothing_in_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
