/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <ctype.h>

#include "unit.h"

#include "stats.h"

static void
every_counter_has_its_own_name(void **state)
{
	uint32_t i, j;

	(void)state;
	for (i = 0; i < COUNTERS; i++) {
		const char *name = counter_name(i);

		assert_non_null(name);
		/* Telemetry takes no other characters. */
		for (j = 0; name[j] != '\0'; j++)
			assert_true(islower((unsigned char)name[j]) || name[j] == '_');
		for (j = 0; j < i; j++)
			assert_string_not_equal(name, counter_name(j));
	}
}

static void
drops_are_named_in_both_directions(void **state)
{
	char name[64];
	uint32_t d;

	(void)state;
	for (d = 0; d < DROPS; d++) {
		snprintf(name, sizeof(name), "drop_%s", drop_name(d));
		assert_string_equal(counter_name(COUNT_DROP + d), name);
		snprintf(name, sizeof(name), "todrop_%s", drop_name(d));
		assert_string_equal(counter_name(COUNT_TODROP + d), name);
	}
}

static void
threads_add_up(void **state)
{
	uint64_t sum[COUNTERS] = {0}, other[COUNTERS] = {0};
	struct stats s;
	uint32_t t;

	(void)state;
	assert_int_equal(stats_init(&s, 3), 0);
	for (t = 0; t < 3; t++) {
		assert_true((uintptr_t)stats_of_thread(&s, t) % 64 == 0);
		count(&stats_of_thread(&s, t)[PORTS_MAX - 1], COUNT_RX_PACKETS, t + 1);
		count(&stats_of_thread(&s, t)[PORTS_MAX - 1], COUNT_RX_PACKETS, 10);
	}
	stats_add_port(&s, PORTS_MAX - 1, sum);
	stats_add_port(&s, 0, other);
	assert_int_equal(sum[COUNT_RX_PACKETS], 36);
	assert_int_equal(other[COUNT_RX_PACKETS], 0);
	/* A second time on top. */
	stats_add_port(&s, PORTS_MAX - 1, sum);
	assert_int_equal(sum[COUNT_RX_PACKETS], 72);
	stats_free(&s);
}

static void
the_ledger_is_signed(void **state)
{
	uint64_t sum[COUNTERS] = {0};
	uint32_t d;

	(void)state;
	assert_int_equal(ledger_difference(sum), 0);
	sum[COUNT_RX_PACKETS] = 100;
	sum[COUNT_REPLICAS] = 7;
	assert_int_equal(ledger_difference(sum), 107);
	sum[COUNT_DELIVERED] = 100;
	for (d = 0; d < DROPS; d++)
		sum[COUNT_DROP + d] = 1;
	assert_int_equal(ledger_dropped(sum), DROPS);
	assert_int_equal(ledger_difference(sum), 7 - DROPS);
	/* What a port lost as a receiver is not its own loss. */
	for (d = 0; d < DROPS; d++)
		sum[COUNT_TODROP + d] = 1000;
	assert_int_equal(ledger_difference(sum), 7 - DROPS);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_counter_has_its_own_name),
		cmocka_unit_test(drops_are_named_in_both_directions),
		cmocka_unit_test(threads_add_up),
		cmocka_unit_test(the_ledger_is_signed),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
