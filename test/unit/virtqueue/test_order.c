/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "guest.h"
#include "vq_order.h"

/*
 * The naive rule: an index that steps from `old` to `now`, one at a time, passes an event when it
 * steps off it.
 */
static bool
passed_by_walking(uint16_t event, uint16_t now, uint16_t old)
{
	while (old != now) {
		if (old++ == event)
			return true;
	}
	return false;
}

static const uint16_t starts[] = {
	0,
	1,
	2,
	255,
	32766,
	32767,
	32768,
	32769,
	65533,
	65534,
	65535,
};

static void
event_passed_in_short_windows(void **state)
{
	(void)state;
	for (uint32_t s = 0; s < COUNT_OF(starts); s++) {
		for (uint32_t delta = 0; delta <= 17; delta++) {
			uint16_t old = starts[s];
			uint16_t now = (uint16_t)(old + delta);

			for (uint32_t event = 0; event <= UINT16_MAX; event++) {
				if (vq_event_passed((uint16_t)event, now, old) !=
					passed_by_walking((uint16_t)event, now, old))
					fail_msg("event %u, %u to %u", event, old, now);
			}
		}
	}
}

/* Wide windows: every event against a map of what the walk steps off. */
static void
event_passed_in_wide_windows(void **state)
{
	static const uint16_t deltas[] = {
		64,
		256,
		1024,
		32766,
		32767,
		32768,
		32769,
		65533,
		65534,
		65535,
	};
	static bool stepped[UINT16_MAX + 1];

	(void)state;
	for (uint32_t s = 0; s < COUNT_OF(starts); s++) {
		for (uint32_t d = 0; d < COUNT_OF(deltas); d++) {
			uint16_t old = starts[s];
			uint16_t now = (uint16_t)(old + deltas[d]);

			for (uint32_t i = 0; i <= UINT16_MAX; i++)
				stepped[i] = false;
			for (uint16_t i = old; i != now; i++)
				stepped[i] = true;
			for (uint32_t event = 0; event <= UINT16_MAX; event++) {
				if (vq_event_passed((uint16_t)event, now, old) != stepped[event])
					fail_msg("event %u, %u to %u", event, old, now);
			}
		}
	}
}

static void
indices_are_stored_and_loaded(void **state)
{
	_Atomic(uint16_t) index = 7;

	(void)state;
	assert_int_equal(vq_load(&index), 7);
	assert_int_equal(vq_load_index(&index), 7);
	vq_publish_index(&index, 65535);
	assert_int_equal(vq_load_index(&index), 65535);
	vq_store_unless_equal(&index, 65535);
	assert_int_equal(vq_load(&index), 65535);
	vq_store_unless_equal(&index, 0);
	assert_int_equal(vq_load(&index), 0);
	vq_notify_fence();
	vq_store(&index, 3);
	assert_int_equal(vq_load(&index), 3);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(event_passed_in_short_windows),
		cmocka_unit_test(event_passed_in_wide_windows),
		cmocka_unit_test(indices_are_stored_and_loaded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
