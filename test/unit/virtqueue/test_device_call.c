/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The device side: when a call is made, and when it asks to be notified. */

#include "fake_driver.h"

#define EVENT_IDX VQ_FEATURE(EVENT_IDX)

#define SIZE 64

/* n chains come and go; what was published. */
static uint32_t
turn(struct fake_driver *f, uint32_t n)
{
	struct vq_chain c[SIZE];
	struct vq_seg segs[SIZE];

	fake_driver_expose_n(f, n);
	assert_int_equal(vq_device_peek(&f->q, false, c, n, segs, SIZE, 0), n);
	vq_device_complete_tx(&f->q, c, n);
	f->used_idx = (uint16_t)(f->used_idx + n);
	return vq_device_publish(&f->q);
}

static void
coalesce(struct fake_driver *f, uint32_t frames, uint64_t ticks)
{
	struct vq_coalesce_params p = {.frames = frames, .ticks = ticks};

	vq_coalesce_set(&f->q.coalesce, &p);
}

/* Without coalescing: once per publication, unless the driver does not want it. */
static void
flags_decide(void **state)
{
	struct fake_driver f;

	(void)state;
	fake_driver_begin(&f, SIZE, 0, 0);
	assert_int_equal(vq_device_call(&f.q, 0, 0), VQ_CALL_NONE);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 0), VQ_CALL_MAKE);
	assert_int_equal(vq_device_call(&f.q, 0, 0), VQ_CALL_NONE);
	assert_int_equal(vq_device_call_flush(&f.q), VQ_CALL_NONE);
	vq_store(&f.avail->flags, VQ_AVAIL_NO_INTERRUPT);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 5), 0), VQ_CALL_SUPPRESSED);
	/* Suppressed is decided: it does not come back by itself. */
	vq_store(&f.avail->flags, 0);
	assert_int_equal(vq_device_call(&f.q, 0, 0), VQ_CALL_NONE);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 5), 0), VQ_CALL_MAKE);
	/* Bits that we do not know mean nothing. */
	vq_store(&f.avail->flags, 0xfffe);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 0), VQ_CALL_MAKE);
	fake_driver_free(&f);
}

static void
held_until_the_count(void **state)
{
	struct fake_driver f;

	(void)state;
	fake_driver_begin(&f, SIZE, 0, 65530);
	coalesce(&f, 16, 1000);
	for (uint32_t i = 0; i < 5; i++) {
		assert_int_equal(vq_device_call(&f.q, turn(&f, 5), 100), VQ_CALL_DEFERRED);
		assert_int_equal(vq_device_call(&f.q, 0, 100), VQ_CALL_DEFERRED);
		assert_int_equal(vq_device_call(&f.q, turn(&f, 10), 100), VQ_CALL_DEFERRED);
		assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 100), VQ_CALL_MAKE);
		assert_int_equal(vq_device_call(&f.q, 0, 100), VQ_CALL_NONE);
	}
	fake_driver_free(&f);
}

/* Over empty turns; the completions themselves are published at once. */
static void
held_until_the_time(void **state)
{
	struct fake_driver f;

	(void)state;
	fake_driver_begin(&f, SIZE, 0, 0);
	coalesce(&f, 16, 1000);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 100), VQ_CALL_DEFERRED);
	assert_int_equal(vq_load(&f.used->idx), 1);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 1099), VQ_CALL_DEFERRED);
	assert_int_equal(vq_load(&f.used->idx), 2);
	assert_int_equal(vq_device_call(&f.q, 0, 1100), VQ_CALL_MAKE);
	assert_int_equal(vq_device_call(&f.q, 0, 9999), VQ_CALL_NONE);
	/* The driver's wish counts when the call is due, not when it was held. */
	assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 10000), VQ_CALL_DEFERRED);
	vq_store(&f.avail->flags, VQ_AVAIL_NO_INTERRUPT);
	assert_int_equal(vq_device_call(&f.q, 0, 11000), VQ_CALL_SUPPRESSED);
	fake_driver_free(&f);
}

static void
flushed_before_sleep(void **state)
{
	struct fake_driver f;

	(void)state;
	fake_driver_begin(&f, SIZE, 0, 0);
	coalesce(&f, 16, 1000);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 3), 100), VQ_CALL_DEFERRED);
	assert_int_equal(vq_device_call_flush(&f.q), VQ_CALL_MAKE);
	assert_int_equal(vq_device_call_flush(&f.q), VQ_CALL_NONE);
	vq_store(&f.avail->flags, VQ_AVAIL_NO_INTERRUPT);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 3), 100), VQ_CALL_DEFERRED);
	assert_int_equal(vq_device_call_flush(&f.q), VQ_CALL_SUPPRESSED);
	fake_driver_free(&f);
}

/* EVENT_IDX over windows that coalescing made of several turns, and over the wrap. */
static void
the_event_decides_over_the_whole_window(void **state)
{
	struct fake_driver f;
	uint64_t random = 14;
	uint32_t made = 0, suppressed = 0, deferred = 0;

	(void)state;
	fake_driver_begin(&f, SIZE, EVENT_IDX, 65000);
	vq_store(&f.avail->flags, VQ_AVAIL_NO_INTERRUPT);
	coalesce(&f, 40, 1000);
	vq_store(vq_used_event(f.avail, SIZE), 65000);
	assert_int_equal(vq_device_call(&f.q, turn(&f, 40), 0), VQ_CALL_MAKE);
	for (uint32_t round = 0; round < 6000; round++) {
		uint16_t old = f.used_idx;
		uint16_t event = (uint16_t)(old + rnd_below(&random, 160) - 60);
		enum vq_call call;
		uint32_t n = 0;

		vq_store(vq_used_event(f.avail, SIZE), event);
		do {
			uint32_t k = 1 + rnd_below(&random, 20);

			n += k;
			call = vq_device_call(&f.q, turn(&f, k), 0);
			deferred += call == VQ_CALL_DEFERRED;
			assert_int_equal(call == VQ_CALL_DEFERRED, n < 40);
		} while (call == VQ_CALL_DEFERRED);
		assert_int_equal(
			call, (uint16_t)(event - old) < n ? VQ_CALL_MAKE : VQ_CALL_SUPPRESSED);
		made += call == VQ_CALL_MAKE;
		suppressed += call == VQ_CALL_SUPPRESSED;
	}
	assert_true(made > 500 && suppressed > 500 && deferred > 500);
	fake_driver_free(&f);
}

/*
 * A device that comes back does not know what its predecessor decided: a driver that sleeps since
 * then, with any of its chains outstanding, is called by the first completion.
 */
static void
the_first_decision_calls_whoever_sleeps(void **state)
{
	(void)state;
	for (uint32_t behind = 0; behind <= SIZE; behind++) {
		struct fake_driver f;

		fake_driver_begin(&f, SIZE, EVENT_IDX, 20);
		vq_store(vq_used_event(f.avail, SIZE), (uint16_t)(20 - behind));
		fake_driver_restart(&f, fake_guest.mem, 20);
		assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 0), VQ_CALL_MAKE);
		/* And from then on as always. */
		assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 0), VQ_CALL_SUPPRESSED);
		fake_driver_free(&f);
	}
}

/* More completions held than an index can count: the driver that sleeps is called all the same. */
static void
a_window_wider_than_the_index(void **state)
{
	static const uint32_t totals[] = {65535 - SIZE, 65536 - SIZE, 65535, 65536, 65537,
		65536 + SIZE / 2, 65536 + SIZE, 65537 + SIZE, 2 * 65536 + 20};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(totals); i++) {
		uint32_t left = totals[i];
		struct fake_driver f;

		fake_driver_begin(&f, SIZE, EVENT_IDX, 0);
		vq_store(vq_used_event(f.avail, SIZE), 0);
		assert_int_equal(vq_device_call(&f.q, turn(&f, 1), 0), VQ_CALL_MAKE);
		coalesce(&f, UINT32_MAX, UINT64_MAX);
		while (left > SIZE / 2) {
			assert_int_equal(
				vq_device_call(&f.q, turn(&f, SIZE / 2), 0), VQ_CALL_DEFERRED);
			left -= SIZE / 2;
		}
		/* It arms now, behind what it has taken. */
		vq_store(vq_used_event(f.avail, SIZE), f.used_idx);
		assert_int_equal(vq_device_call(&f.q, turn(&f, left), 0), VQ_CALL_DEFERRED);
		assert_int_equal(vq_device_call_flush(&f.q), VQ_CALL_MAKE);
		fake_driver_free(&f);
	}
}

static void
disarmed_from_the_start(void **state)
{
	struct fake_driver f;

	(void)state;
	fake_driver_begin(&f, SIZE, 0, 7);
	assert_int_equal(vq_load(&f.used->flags), VQ_USED_NO_NOTIFY);
	fake_driver_free(&f);
	fake_driver_begin(&f, SIZE, EVENT_IDX, 7);
	assert_int_equal(vq_load(&f.used->flags), 0);
	assert_false(vq_event_passed(vq_load(vq_avail_event(f.used, SIZE)), 7 + SIZE, 7));
	fake_driver_free(&f);
}

/* Arm, look again, at every index: what slipped in is reported, the next one would notify. */
static void
arming_looks_again(void **state)
{
	static const uint64_t features[] = {0, EVENT_IDX};

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct fake_driver f;

		fake_driver_begin(&f, SIZE, features[i], 0);
		for (uint32_t n = 0; n < 66000; n++) {
			struct vq_chain c;
			struct vq_seg segs[2];
			uint16_t idx = f.avail_idx;

			assert_false(vq_device_arm(&f.q));
			assert_int_equal(vq_load(&f.used->flags), 0);
			if (features[i] != 0)
				assert_true(vq_event_passed(vq_load(vq_avail_event(f.used, SIZE)),
					(uint16_t)(idx + 1), idx));
			fake_driver_expose(&f, 0);
			fake_driver_publish(&f);
			assert_true(vq_device_arm(&f.q));
			vq_device_disarm(&f.q);
			if (features[i] == 0)
				assert_int_equal(vq_load(&f.used->flags), VQ_USED_NO_NOTIFY);
			assert_int_equal(vq_device_peek(&f.q, false, &c, 1, segs, 2, 0), 1);
			vq_device_complete_tx(&f.q, &c, 1);
			assert_int_equal(vq_device_publish(&f.q), 1);
		}
		fake_driver_free(&f);
	}
}

/* Asked while it polls, at every index: the next one notifies, whatever was there. */
static void
asking_without_a_look(void **state)
{
	static const uint64_t features[] = {0, EVENT_IDX};

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct fake_driver f;

		fake_driver_begin(&f, SIZE, features[i], 0);
		for (uint32_t n = 0; n < 66000; n++) {
			uint16_t idx = f.avail_idx;

			if (n % 3 == 0)
				vq_device_disarm(&f.q);
			vq_device_ask(&f.q);
			assert_int_equal(vq_load(&f.used->flags), 0);
			if (features[i] != 0)
				assert_true(vq_event_passed(vq_load(vq_avail_event(f.used, SIZE)),
					(uint16_t)(idx + 1), idx));
			assert_int_equal(turn(&f, 1), 1);
		}
		fake_driver_free(&f);
	}
}

/* Disarmed with EVENT_IDX: one spurious notification in 65,536. */
static void
disarmed_by_a_stale_event(void **state)
{
	uint32_t notifications = 0;
	struct fake_driver f;

	(void)state;
	fake_driver_begin(&f, SIZE, EVENT_IDX, 0);
	(void)turn(&f, 5);
	vq_device_disarm(&f.q);
	for (uint32_t n = 0; n < 3 * 65536; n++) {
		uint16_t old = f.avail_idx;

		(void)turn(&f, 1);
		notifications +=
			vq_event_passed(vq_load(vq_avail_event(f.used, SIZE)), f.avail_idx, old);
	}
	assert_int_equal(notifications, 3);
	fake_driver_free(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_decide),
		cmocka_unit_test(held_until_the_count),
		cmocka_unit_test(held_until_the_time),
		cmocka_unit_test(flushed_before_sleep),
		cmocka_unit_test(the_event_decides_over_the_whole_window),
		cmocka_unit_test(the_first_decision_calls_whoever_sleeps),
		cmocka_unit_test(a_window_wider_than_the_index),
		cmocka_unit_test(disarmed_from_the_start),
		cmocka_unit_test(arming_looks_again),
		cmocka_unit_test(asking_without_a_look),
		cmocka_unit_test(disarmed_by_a_stale_event),
	};

	return cmocka_run_group_tests(tests, fake_guest_setup, fake_guest_teardown);
}
