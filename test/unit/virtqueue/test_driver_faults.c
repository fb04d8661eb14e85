/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The driver side against a device that breaks the rules. */

#include <string.h>

#include "fake_device.h"

#define IN_ORDER VQ_FEATURE(IN_ORDER)
#define POSTED   100

static const struct vq_sg pieces[3] = {{0x100, 10}, {0x200, 20}, {0x300, 30}};

struct reaped {
	void *c[8];
	uint32_t lens[8];
};

/* A ring of 8 with `n` buffers of POSTED bytes published. */
static void
begin(struct fake_device *f, uint64_t features, uint32_t n)
{
	fake_device_init(f, 8, features, 0);
	for (uint32_t i = 0; i < n; i++)
		vq_driver_add(&f->q, 0x1000 * i, POSTED, VQ_DESC_WRITE, cookie(i));
	vq_driver_publish(&f->q);
}

/* A ring of 8 with `n` chains of the three pieces published. */
static void
begin_chains(struct fake_device *f, uint64_t features, uint32_t n)
{
	fake_device_init(f, 8, features, 0);
	for (uint32_t i = 0; i < n; i++)
		vq_driver_add_chain(&f->q, pieces, 3, 0, cookie(i));
	vq_driver_publish(&f->q);
}

/* The device uses so many chains and says so; what is reaped of them, at most `array` at once. */
static uint32_t
used(struct fake_device *f, const struct vq_used_elem *e, uint32_t n, struct reaped *r,
	uint32_t array)
{
	for (uint32_t i = 0; i < n; i++)
		fake_device_use(f, e[i].id, e[i].len);
	fake_device_publish(f);
	return vq_driver_reap(&f->q, r->c, r->lens, array);
}

static void
count_cookie(void *c, void *arg)
{
	uint32_t *seen = arg;

	*seen |= 1u << cookie_number(c);
}

/* Broken stays broken, keeps what was in flight for detaching, and a reset makes it new. */
static void
end_broken(struct fake_device *f, enum vq_driver_fault fault, uint32_t left)
{
	uint32_t lens[8], seen = 0;
	void *c[8];

	assert_int_equal(f->q.fault, fault);
	assert_true(strlen(vq_driver_fault_name(fault)) > 4);
	/* The device makes up for it: too late. */
	f->used_idx = f->q.used_idx;
	fake_device_use(f, (uint32_t)__builtin_ctz(left | 0x100), 0);
	fake_device_publish(f);
	assert_int_equal(vq_driver_reap(&f->q, c, lens, 8), 0);
	assert_int_equal(vq_driver_reap(&f->q, c, NULL, 8), 0);
	assert_int_equal(vq_driver_pending(&f->q), 0);
	assert_false(vq_driver_arm(&f->q));
	vq_driver_disarm(&f->q);
	assert_int_equal(f->q.fault, fault);

	assert_int_equal(vq_driver_detach_all(&f->q, count_cookie, &seen),
		(uint32_t)__builtin_popcount(left));
	assert_int_equal(seen, left);
	vq_driver_reset(&f->q, 0);
	assert_int_equal(f->q.fault, VQ_DRIVER_OK);
	f->avail_idx = f->used_idx = 0;
	vq_driver_add(&f->q, 0, POSTED, VQ_DESC_WRITE, cookie(5));
	vq_driver_publish(&f->q);
	fake_device_use(f, fake_device_take(f), 1);
	fake_device_publish(f);
	assert_int_equal(vq_driver_reap(&f->q, c, lens, 8), 1);
	assert_int_equal(cookie_number(c[0]), 5);
	fake_device_free(f);
}

static const uint64_t orders[] = {0, IN_ORDER};

static void
index_leaps(void **state)
{
	/* Four are in flight, so 5..65535 are leaps, and -1 is one back. */
	static const uint16_t to[] = {5, 8, 9, 16, 255, 32768, 65534, 65535};

	(void)state;
	for (uint32_t o = 0; o < COUNT_OF(orders); o++) {
		for (uint32_t i = 0; i < COUNT_OF(to); i++) {
			struct fake_device f;
			uint32_t lens[8];
			void *c[8];

			begin(&f, orders[o], 4);
			for (uint32_t k = 0; k < 8; k++)
				fake_device_use(&f, k, 0);
			vq_publish_index(&f.q.used->idx, to[i]);
			assert_int_equal(vq_driver_pending(&f.q), 0);
			assert_int_equal(vq_driver_reap(&f.q, c, lens, 8), 0);
			end_broken(&f, VQ_DRIVER_INDEX, 0xf);
		}
	}
}

/* The index steps back after it was seen: what was seen is taken, then the step is found. */
static void
index_steps_back(void **state)
{
	(void)state;
	for (uint32_t o = 0; o < COUNT_OF(orders); o++) {
		struct fake_device f;
		uint32_t lens[8];
		void *c[8];

		begin(&f, orders[o], 4);
		for (uint32_t k = 0; k < 4; k++)
			fake_device_use(&f, k, 0);
		fake_device_publish(&f);
		assert_int_equal(vq_driver_reap(&f.q, c, lens, 2), 2);
		vq_publish_index(&f.q.used->idx, 1);
		assert_int_equal(vq_driver_reap(&f.q, c, lens, 2), 2);
		assert_int_equal(vq_driver_reap(&f.q, c, lens, 2), 0);
		end_broken(&f, VQ_DRIVER_INDEX, 0);
	}
}

static void
ids_out_of_range(void **state)
{
	/* 0x10000 and 0x80000001 would be valid ids if they were cut to 16 bits or masked. */
	static const uint32_t ids[] = {
		8, 9, 255, 0xffff, 0x10000, 0x10001, 0x7fffffff, 0x80000001, UINT32_MAX};

	(void)state;
	for (uint32_t o = 0; o < COUNT_OF(orders); o++) {
		for (uint32_t i = 0; i < COUNT_OF(ids); i++) {
			/* One good entry before it is taken. */
			const struct vq_used_elem e[] = {{0, 10}, {ids[i], 0}};
			struct fake_device f;
			struct reaped r;

			begin(&f, orders[o], 4);
			assert_int_equal(used(&f, e, 2, &r, 8), 1);
			assert_int_equal(cookie_number(r.c[0]), 0);
			assert_int_equal(r.lens[0], 10);
			end_broken(&f, VQ_DRIVER_ID, 0xe);
		}
	}
}

static void
id_not_in_flight(void **state)
{
	(void)state;
	for (uint32_t o = 0; o < COUNT_OF(orders); o++) {
		const struct vq_used_elem e = {6, 0};
		struct fake_device f;
		struct reaped r;

		begin(&f, orders[o], 4);
		assert_int_equal(used(&f, &e, 1, &r, 8), 0);
		end_broken(&f, VQ_DRIVER_ID, 0xf);
	}
}

static void
id_twice(void **state)
{
	(void)state;
	for (uint32_t o = 0; o < COUNT_OF(orders); o++) {
		/* In one burst, and in two. */
		for (uint32_t burst = 1; burst <= 2; burst++) {
			const struct vq_used_elem e[] = {{0, 0}, {0, 0}};
			struct fake_device f;
			struct reaped r;

			begin(&f, orders[o], 4);
			assert_int_equal(used(&f, e, 2, &r, burst), 1);
			assert_int_equal(vq_driver_reap(&f.q, r.c, r.lens, burst), 0);
			end_broken(&f, VQ_DRIVER_ID, 0xe);
		}
	}
}

/* The second descriptor of a chain is in flight, but it is no head. */
static void
id_of_no_head(void **state)
{
	(void)state;
	for (uint32_t o = 0; o < COUNT_OF(orders); o++) {
		for (uint32_t id = 1; id <= 2; id++) {
			const struct vq_used_elem e = {id, 0};
			struct fake_device f;
			struct reaped r;

			begin_chains(&f, orders[o], 1);
			assert_int_equal(used(&f, &e, 1, &r, 8), 0);
			end_broken(&f, VQ_DRIVER_ID, 1);
		}
	}
}

/* The device rewrites the links of a chain in flight: our own are followed. */
static void
links_changed_in_flight(void **state)
{
	(void)state;
	for (uint32_t o = 0; o < COUNT_OF(orders); o++) {
		const struct vq_used_elem e = {0, 0};
		struct fake_device f;
		uint32_t seen = 0;
		struct reaped r;

		begin_chains(&f, orders[o], 2);
		for (uint32_t i = 0; i < 8; i++) {
			f.q.desc[i].next = 0xffff;
			f.q.desc[i].flags = VQ_DESC_NEXT;
		}
		assert_int_equal(used(&f, &e, 1, &r, 8), 1);
		assert_int_equal(vq_driver_free(&f.q), 5);
		/* Every free id is given once. */
		for (uint32_t i = 0; i < 5; i++)
			seen |= 1u << vq_driver_take_id(&f.q);
		assert_int_equal(seen, 0xff & ~0x38);
		fake_device_free(&f);
	}
}

static void
length_above_posted(void **state)
{
	static const uint32_t lens_bad[] = {POSTED + 1, 65536 + POSTED, UINT32_MAX};

	(void)state;
	for (uint32_t o = 0; o < COUNT_OF(orders); o++) {
		for (uint32_t i = 0; i < COUNT_OF(lens_bad); i++) {
			/* Just as long as posted is fine; so is 0. */
			const struct vq_used_elem e[] = {{0, POSTED}, {1, 0}, {2, lens_bad[i]}};
			struct fake_device f;
			struct reaped r;

			begin(&f, orders[o], 4);
			assert_int_equal(used(&f, e, 3, &r, 8), 2);
			assert_int_equal(r.lens[0], POSTED);
			assert_int_equal(r.lens[1], 0);
			end_broken(&f, VQ_DRIVER_LENGTH, 0xc);

			/* On a transmit queue it is ignored. */
			begin(&f, orders[o], 4);
			fake_device_use(&f, 0, lens_bad[i]);
			fake_device_publish(&f);
			assert_int_equal(vq_driver_reap(&f.q, r.c, NULL, 8), 1);
			assert_int_equal(f.q.fault, VQ_DRIVER_OK);
			fake_device_free(&f);
		}
	}
}

/* The length of a chain is the sum over its descriptors, indirect ones included. */
static void
length_above_posted_chain(void **state)
{
	(void)state;
	for (uint32_t indirect = 0; indirect <= 1; indirect++) {
		for (uint32_t over = 0; over <= 1; over++) {
			struct fake_device f;
			uint32_t len;
			void *c;

			fake_device_init(&f, 8, VQ_FEATURE(INDIRECT_DESC), 4);
			if (indirect)
				vq_driver_add_indirect(&f.q, pieces, 3, VQ_DESC_WRITE, cookie(0));
			else
				vq_driver_add_chain(&f.q, pieces, 3, VQ_DESC_WRITE, cookie(0));
			vq_driver_publish(&f.q);
			fake_device_use(&f, fake_device_take(&f), 60 + over);
			fake_device_publish(&f);
			assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), !over);
			if (over) {
				end_broken(&f, VQ_DRIVER_LENGTH, 1);
			} else {
				assert_int_equal(len, 60);
				fake_device_free(&f);
			}
		}
	}
}

/*
 * IN_ORDER: one entry for a batch of 1..n chains, cut by small reap arrays at every place. What is
 * skipped is never read, and counts as used in full.
 */
static void
batches_of_every_length(void **state)
{
	(void)state;
	for (uint32_t chain = 1; chain <= 3; chain++) {
		for (uint32_t array = 1; array <= 8; array++) {
			struct vq_sg sg[3] = {{0, 10}, {0, 10}, {0, 10}};
			struct fake_device f;
			uint32_t next = 0, added = 0;

			fake_device_init(&f, 32, IN_ORDER, 0);
			for (uint32_t round = 0; round < 3000; round++) {
				uint32_t batch = 1 + round % (32 / chain);
				uint16_t head = 0;

				for (uint32_t i = 0; i < batch; i++)
					vq_driver_add_chain(
						&f.q, sg, chain, VQ_DESC_WRITE, cookie(added++));
				vq_driver_publish(&f.q);
				for (uint32_t i = 0; i < batch; i++)
					head = fake_device_take(&f);
				fake_device_use(&f, head, 3);
				for (uint32_t i = 1; i < batch; i++)
					fake_device_skip(&f);
				fake_device_publish(&f);
				for (uint32_t left = batch; left != 0;) {
					uint32_t lens[8];
					void *c[8];
					uint32_t n = vq_driver_reap(&f.q, c, lens, array);

					assert_int_equal(n, left < array ? left : array);
					for (uint32_t i = 0; i < n; i++, next++) {
						left--;
						assert_int_equal(cookie_number(c[i]), next);
						assert_int_equal(
							lens[i], left == 0 ? 3 : 10 * chain);
					}
				}
				assert_int_equal(vq_driver_free(&f.q), 32);
			}
			assert_int_equal(f.q.fault, VQ_DRIVER_OK);
			fake_device_free(&f);
		}
	}
}

/* Several batches and single entries under one index. */
static void
batches_one_after_the_other(void **state)
{
	struct fake_device f;
	void *c[8];

	(void)state;
	begin(&f, IN_ORDER, 8);
	fake_device_use(&f, 2, 0);
	fake_device_skip(&f);
	fake_device_skip(&f);
	fake_device_use(&f, 3, 0);
	fake_device_use(&f, 7, 0);
	fake_device_skip(&f);
	fake_device_skip(&f);
	fake_device_skip(&f);
	fake_device_publish(&f);
	assert_int_equal(vq_driver_reap(&f.q, c, NULL, 8), 8);
	for (uint32_t i = 0; i < 8; i++)
		assert_int_equal(cookie_number(c[i]), i);
	assert_int_equal(f.q.fault, VQ_DRIVER_OK);
	fake_device_free(&f);
}

/* A batch that names a head which the index does not reach; whatever the array. */
static void
batch_without_end(void **state)
{
	(void)state;
	for (uint32_t array = 1; array <= 8; array++) {
		struct fake_device f;
		uint32_t got = 0, n;
		void *c[8];

		begin(&f, IN_ORDER, 8);
		fake_device_use(&f, 5, 0);
		fake_device_skip(&f);
		fake_device_skip(&f);
		fake_device_publish(&f);
		while ((n = vq_driver_reap(&f.q, c, NULL, array)) != 0) {
			for (uint32_t i = 0; i < n; i++)
				assert_int_equal(cookie_number(c[i]), got + i);
			got += n;
		}
		/* Never more than the index has shown, and what is left is not lost. */
		assert_true(got <= 2);
		end_broken(&f, VQ_DRIVER_BATCH, 0xff & ~((1u << got) - 1));
	}
}

/* A batch whose end was completed before, or was never posted. */
static void
batch_that_ends_behind_us(void **state)
{
	(void)state;
	for (uint32_t id = 0; id < 8; id += 7) {
		struct fake_device f;
		void *c[8];

		begin(&f, IN_ORDER, 7);
		fake_device_use(&f, 1, 0);
		fake_device_skip(&f);
		fake_device_use(&f, id, 0);
		fake_device_publish(&f);
		assert_int_equal(vq_driver_reap(&f.q, c, NULL, 8), 2);
		end_broken(&f, VQ_DRIVER_ID, 0x7c);
	}
}

/* Any bytes at all in the used ring, index included: no more cookies than were posted. */
static void
a_used_ring_full_of_noise(void **state)
{
	uint64_t random = 77;

	(void)state;
	for (uint32_t round = 0; round < 4000; round++) {
		struct fake_device f;
		uint32_t seen = 0, lens[8], n;
		void *c[8];

		begin(&f, orders[round % 2], 8);
		for (uint32_t i = 0; i < 8; i++) {
			f.q.used->ring[i].id = rnd_below(&random, 10);
			f.q.used->ring[i].len = rnd_below(&random, POSTED + 4);
		}
		vq_publish_index(&f.q.used->idx, (uint16_t)rnd_below(&random, 10));
		while ((n = vq_driver_reap(&f.q, c, lens, 1 + rnd_below(&random, 8))) != 0) {
			while (n-- != 0) {
				assert_int_equal(seen & 1u << cookie_number(c[n]), 0);
				seen |= 1u << cookie_number(c[n]);
				assert_true(lens[n] <= POSTED);
			}
		}
		assert_int_equal(vq_driver_free(&f.q), (uint32_t)__builtin_popcount(seen));
		n = (uint32_t)__builtin_popcount(seen);
		assert_int_equal(vq_driver_detach_all(&f.q, count_cookie, &seen), 8 - n);
		assert_int_equal(seen, 0xff);
		fake_device_free(&f);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(index_leaps),
		cmocka_unit_test(index_steps_back),
		cmocka_unit_test(ids_out_of_range),
		cmocka_unit_test(id_not_in_flight),
		cmocka_unit_test(id_twice),
		cmocka_unit_test(id_of_no_head),
		cmocka_unit_test(links_changed_in_flight),
		cmocka_unit_test(length_above_posted),
		cmocka_unit_test(length_above_posted_chain),
		cmocka_unit_test(batches_of_every_length),
		cmocka_unit_test(batches_one_after_the_other),
		cmocka_unit_test(batch_without_end),
		cmocka_unit_test(batch_that_ends_behind_us),
		cmocka_unit_test(a_used_ring_full_of_noise),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
