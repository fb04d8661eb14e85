/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Requests of a control queue: a descriptor that the device reads, and one that it writes. */

#include <string.h>

#include "fake_device.h"

#define IN_ORDER VQ_FEATURE(IN_ORDER)

static void
add(struct vq_driver *q, uint32_t number)
{
	const struct vq_sg out = {.addr = 0x1000 + number, .len = 3 + number % 5};
	const struct vq_sg in = {.addr = 0x9000 + number, .len = 1 + number % 3};

	vq_driver_add_request(q, &out, &in, cookie(number));
}

/* What the device finds. */
static void
assert_request(const struct vq_driver *q, uint16_t head, uint32_t number)
{
	const struct vq_desc *out = &q->desc[head], *in;

	assert_int_equal(out->addr, 0x1000 + number);
	assert_int_equal(out->len, 3 + number % 5);
	assert_int_equal(out->flags, VQ_DESC_NEXT);
	assert_true(out->next < q->size && out->next != head);
	in = &q->desc[out->next];
	assert_int_equal(in->addr, 0x9000 + number);
	assert_int_equal(in->len, 1 + number % 3);
	assert_int_equal(in->flags, VQ_DESC_WRITE);
}

static void
answer(struct fake_device *f, uint16_t head, uint32_t len)
{
	fake_device_use(f, head, len);
	fake_device_publish(f);
}

/* One after the other in a ring of two: every id is taken, every time. */
static void
one_at_a_time(uint32_t size, uint64_t features)
{
	struct fake_device f;
	uint32_t i, len;
	uint16_t head;
	void *c;

	fake_device_init(&f, size, features, 0);
	/* Past the end of the indices. */
	for (i = 0; i < 70000; i++) {
		assert_int_equal(vq_driver_free(&f.q), size);
		add(&f.q, i);
		assert_int_equal(vq_driver_free(&f.q), size - 2);
		assert_int_equal(vq_driver_inflight(&f.q), 1);
		assert_false(fake_device_has(&f));
		vq_driver_publish(&f.q);
		head = fake_device_take(&f);
		assert_request(&f.q, head, i);
		assert_false(fake_device_has(&f));
		answer(&f, head, 1 + i % 3);
		assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 1);
		assert_int_equal(cookie_number(c), i);
		assert_int_equal(len, 1 + i % 3);
		assert_int_equal(f.q.fault, VQ_DRIVER_OK);
	}
	fake_device_free(&f);
}

static void
requests_in_a_ring_of_two(void **state)
{
	(void)state;
	one_at_a_time(2, 0);
	one_at_a_time(2, IN_ORDER);
}

static void
requests_in_larger_rings(void **state)
{
	(void)state;
	one_at_a_time(4, IN_ORDER);
	one_at_a_time(16, 0);
}

/* As many as there is room for, answered from the last to the first. */
static void
several_requests_in_any_order(void **state)
{
	struct fake_device f;
	uint16_t heads[4];
	uint32_t lap, i, len;
	void *c;

	(void)state;
	fake_device_init(&f, 8, 0, 0);
	for (lap = 0; lap < 50; lap++) {
		for (i = 0; i < 4; i++)
			add(&f.q, 4 * lap + i);
		assert_int_equal(vq_driver_free(&f.q), 0);
		vq_driver_publish(&f.q);
		for (i = 0; i < 4; i++) {
			heads[i] = fake_device_take(&f);
			assert_request(&f.q, heads[i], 4 * lap + i);
		}
		for (i = 4; i-- > 0;)
			answer(&f, heads[i], 1);
		for (i = 4; i-- > 0;) {
			assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 1);
			assert_int_equal(cookie_number(c), 4 * lap + i);
		}
		assert_int_equal(vq_driver_free(&f.q), 8);
	}
	fake_device_free(&f);
}

/* Only the second descriptor is the device's to write. */
static void
an_answer_that_is_too_long(void **state)
{
	struct fake_device f;
	uint32_t len;
	void *c;

	(void)state;
	fake_device_init(&f, 2, 0, 0);
	add(&f.q, 4);
	vq_driver_publish(&f.q);
	answer(&f, fake_device_take(&f), 3);
	assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 0);
	assert_int_equal(f.q.fault, VQ_DRIVER_LENGTH);
	fake_device_free(&f);
}

static void
an_answer_of_the_second_descriptor(void **state)
{
	struct fake_device f;
	uint16_t head;
	uint32_t len;
	void *c;

	(void)state;
	fake_device_init(&f, 2, 0, 0);
	add(&f.q, 0);
	vq_driver_publish(&f.q);
	head = fake_device_take(&f);
	answer(&f, f.q.desc[head].next, 1);
	assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 0);
	assert_int_equal(f.q.fault, VQ_DRIVER_ID);
	fake_device_free(&f);
}

/* The links that count are our own. */
static void
a_device_that_rewrites_the_chain(void **state)
{
	struct fake_device f;
	uint16_t head;
	uint32_t len;
	void *c;

	(void)state;
	fake_device_init(&f, 4, 0, 0);
	add(&f.q, 1);
	add(&f.q, 2);
	vq_driver_publish(&f.q);
	head = fake_device_take(&f);
	f.q.desc[head].next = 0xffff;
	answer(&f, head, 1);
	assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 1);
	assert_int_equal(vq_driver_free(&f.q), 2);
	add(&f.q, 3);
	vq_driver_publish(&f.q);
	assert_request(&f.q, fake_device_take(&f), 2);
	head = fake_device_take(&f);
	assert_request(&f.q, head, 3);
	fake_device_free(&f);
}

static void
give_back(void *c, void *arg)
{
	*(uint32_t *)arg += cookie_number(c);
}

static void
requests_that_were_never_answered(void **state)
{
	struct fake_device f;
	uint32_t sum = 0;

	(void)state;
	fake_device_init(&f, 4, 0, 0);
	add(&f.q, 1);
	add(&f.q, 2);
	assert_int_equal(vq_driver_detach_all(&f.q, give_back, &sum), 2);
	assert_int_equal(sum, 3);
	vq_driver_reset(&f.q, 0);
	assert_int_equal(vq_driver_free(&f.q), 4);
	fake_device_free(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(requests_in_a_ring_of_two),
		cmocka_unit_test(requests_in_larger_rings),
		cmocka_unit_test(several_requests_in_any_order),
		cmocka_unit_test(an_answer_that_is_too_long),
		cmocka_unit_test(an_answer_of_the_second_descriptor),
		cmocka_unit_test(a_device_that_rewrites_the_chain),
		cmocka_unit_test(requests_that_were_never_answered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
