/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The driver side: when the device is notified, and when it is asked to call. */

#include "fake_device.h"

#define EVENT_IDX VQ_FEATURE(EVENT_IDX)

static void
add(struct fake_device *f, uint32_t n)
{
	while (n-- != 0)
		vq_driver_add(&f->q, 0x1000, 64, 0, cookie(n));
}

static void
complete(struct fake_device *f, uint32_t n)
{
	void *c;

	while (n-- != 0)
		fake_device_use(f, fake_device_take(f), 0);
	fake_device_publish(f);
	while (vq_driver_reap(&f->q, &c, NULL, 1) != 0)
		;
}

static void
flags_decide(void **state)
{
	struct fake_device f;

	(void)state;
	fake_device_init(&f, 8, 0, 0);
	assert_false(vq_driver_need_notify(&f.q));
	add(&f, 2);
	/* Nothing is published yet. */
	assert_false(vq_driver_need_notify(&f.q));
	vq_driver_publish(&f.q);
	assert_true(vq_driver_need_notify(&f.q));
	/* Once per publication. */
	assert_false(vq_driver_need_notify(&f.q));
	vq_driver_publish(&f.q);
	assert_false(vq_driver_need_notify(&f.q));

	vq_store(&f.q.used->flags, VQ_USED_NO_NOTIFY);
	add(&f, 1);
	vq_driver_publish(&f.q);
	assert_false(vq_driver_need_notify(&f.q));
	/* A refusal is for what was published, not for ever. */
	vq_store(&f.q.used->flags, 0);
	assert_false(vq_driver_need_notify(&f.q));
	add(&f, 1);
	vq_driver_publish(&f.q);
	assert_true(vq_driver_need_notify(&f.q));
	/* Bits that we do not know mean nothing. */
	vq_store(&f.q.used->flags, 0xfffe);
	add(&f, 1);
	vq_driver_publish(&f.q);
	assert_true(vq_driver_need_notify(&f.q));
	fake_device_free(&f);
}

/* With EVENT_IDX the event decides and the flags mean nothing; over the wrap. */
static void
the_event_decides(void **state)
{
	struct fake_device f;
	uint64_t random = 4;
	uint16_t idx = 0;
	uint32_t yes = 0, no = 0;

	(void)state;
	fake_device_init(&f, 64, EVENT_IDX, 0);
	vq_store(&f.q.used->flags, VQ_USED_NO_NOTIFY);
	for (uint32_t total = 0; total < 140000;) {
		uint32_t n = 1 + rnd_below(&random, 64);
		/* Around the window on both sides. */
		uint16_t event = (uint16_t)(idx + rnd_below(&random, 128) - 32);
		bool expect = (uint16_t)(event - idx) < n;

		vq_store(vq_avail_event(f.q.used, 64), event);
		add(&f, n);
		vq_driver_publish(&f.q);
		assert_int_equal(vq_driver_need_notify(&f.q), expect);
		assert_false(vq_driver_need_notify(&f.q));
		yes += expect;
		no += !expect;
		complete(&f, n);
		idx = (uint16_t)(idx + n);
		total += n;
	}
	assert_true(yes > 100 && no > 100);
	fake_device_free(&f);
}

/* Several publications, one decision: the window covers all of them. */
static void
the_window_covers_every_publication(void **state)
{
	struct fake_device f;

	(void)state;
	fake_device_init(&f, 64, EVENT_IDX, 0);
	vq_store(vq_avail_event(f.q.used, 64), 0);
	for (uint32_t i = 0; i < 10; i++) {
		add(&f, 3);
		vq_driver_publish(&f.q);
	}
	assert_true(vq_driver_need_notify(&f.q));
	fake_device_free(&f);
}

static void
disarmed_from_the_start(void **state)
{
	struct fake_device f;

	(void)state;
	fake_device_init(&f, 8, 0, 0);
	assert_int_equal(vq_load(&f.q.avail->flags), VQ_AVAIL_NO_INTERRUPT);
	fake_device_free(&f);
	fake_device_init(&f, 8, EVENT_IDX, 0);
	assert_int_equal(vq_load(&f.q.avail->flags), 0);
	assert_false(vq_event_passed(vq_load(vq_used_event(f.q.avail, 8)), 8, 0));
	fake_device_free(&f);
}

/* Arm, look again: a completion that slipped in is reported; the next one would call. */
static void
arming_looks_again(void **state)
{
	static const uint64_t features[] = {0, EVENT_IDX};

	(void)state;
	for (uint32_t i = 0; i < 2; i++) {
		struct fake_device f;
		uint16_t idx;

		fake_device_init(&f, 8, features[i], 0);
		/* At every index, the wrap included. */
		for (uint32_t n = 0; n < 66000; n++) {
			add(&f, 1);
			vq_driver_publish(&f.q);
			idx = (uint16_t)n;
			assert_false(vq_driver_arm(&f.q));
			if (i == 0) {
				assert_int_equal(vq_load(&f.q.avail->flags), 0);
			} else {
				uint16_t event = vq_load(vq_used_event(f.q.avail, 8));

				assert_int_equal(vq_load(&f.q.avail->flags), 0);
				assert_true(vq_event_passed(event, (uint16_t)(idx + 1), idx));
			}
			fake_device_use(&f, fake_device_take(&f), 0);
			fake_device_publish(&f);
			assert_true(vq_driver_arm(&f.q));
			vq_driver_disarm(&f.q);
			complete(&f, 0);
			assert_int_equal(vq_driver_inflight(&f.q), 0);
			if (i == 0)
				assert_int_equal(vq_load(&f.q.avail->flags), VQ_AVAIL_NO_INTERRUPT);
		}
		fake_device_free(&f);
	}
}

/* The n-th completion calls, none before it; n that are there already are reported. */
static void
armed_for_the_nth(void **state)
{
	struct fake_device f;
	uint64_t random = 6;

	(void)state;
	fake_device_init(&f, 8, EVENT_IDX, 0);
	for (uint32_t total = 0; total < 140000;) {
		const uint16_t n = (uint16_t)(1 + rnd_below(&random, 8));
		const uint16_t early = (uint16_t)rnd_below(&random, n + 1);

		add(&f, n);
		vq_driver_publish(&f.q);
		for (uint16_t done = 0; done <= n; done++) {
			uint16_t event, old = f.used_idx;

			if (done == early)
				assert_int_equal(vq_driver_arm_nth(&f.q, n), early == n);
			if (done == n)
				break;
			fake_device_use(&f, fake_device_take(&f), 0);
			fake_device_publish(&f);
			event = vq_load(vq_used_event(f.q.avail, 8));
			if (done >= early)
				assert_int_equal(
					vq_event_passed(event, f.used_idx, old), done + 1 == n);
		}
		complete(&f, 0);
		assert_int_equal(vq_driver_inflight(&f.q), 0);
		total += n;
	}
	/* Of a broken ring nothing is to be had. */
	add(&f, 2);
	vq_driver_publish(&f.q);
	fake_device_use(&f, fake_device_take(&f), 0);
	fake_device_use(&f, fake_device_take(&f), 0);
	fake_device_publish(&f);
	f.q.fault = VQ_DRIVER_ID;
	assert_false(vq_driver_arm_nth(&f.q, 2));
	fake_device_free(&f);
}

/* Disarmed with EVENT_IDX: no calls for the next 65,535 completions. */
static void
disarmed_by_a_stale_event(void **state)
{
	struct fake_device f;
	uint32_t calls = 0;

	(void)state;
	fake_device_init(&f, 8, EVENT_IDX, 0);
	add(&f, 5);
	vq_driver_publish(&f.q);
	complete(&f, 5);
	vq_driver_disarm(&f.q);
	for (uint32_t n = 0; n < 3 * 65536; n++) {
		uint16_t old = f.used_idx;

		add(&f, 1);
		vq_driver_publish(&f.q);
		complete(&f, 1);
		if (vq_event_passed(vq_load(vq_used_event(f.q.avail, 8)), f.used_idx, old))
			calls++;
	}
	assert_int_equal(calls, 3);
	fake_device_free(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(flags_decide),
		cmocka_unit_test(the_event_decides),
		cmocka_unit_test(the_window_covers_every_publication),
		cmocka_unit_test(disarmed_from_the_start),
		cmocka_unit_test(arming_looks_again),
		cmocka_unit_test(armed_for_the_nth),
		cmocka_unit_test(disarmed_by_a_stale_event),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
