/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The driver side against a device that writes where it should only read, and while it is looked
 * at. What the driver has to know lies in its private memory: no cookie twice, none that was not
 * posted, no length above what was posted, and the rest comes back by detaching.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "fake_device.h"

#define SIZE   8u
#define POSTED 100u

/* Every byte that the device can reach. */
static void
overwrite(struct fake_device *f, uint8_t value, bool used_too)
{
	memset(f->ring, value, used_too ? f->layout.bytes : f->layout.used);
	if (f->table != NULL)
		memset(f->table, value, SIZE * 4 * sizeof(f->table[0]));
}

/* Descriptors, available ring and tables are overwritten in flight, and must be right again. */
static void
our_areas_overwritten(void **state)
{
	static const struct vq_sg sg[] = {{0x1000, 30}, {0x2000, 40}, {0x3000, 50}};
	uint8_t value = 0;

	(void)state;
	do {
		struct fake_device f;
		uint32_t lens[SIZE];
		void *c[SIZE];

		fake_device_init(&f, SIZE, VQ_FEATURE(INDIRECT_DESC), 4);
		for (uint32_t lap = 0; lap < 5; lap++) {
			uint16_t heads[3];
			const struct vq_desc *d;

			vq_driver_add(&f.q, 0x8000, POSTED, VQ_DESC_WRITE, cookie(0));
			vq_driver_add_chain(&f.q, sg, 3, VQ_DESC_WRITE, cookie(1));
			vq_driver_add_indirect(&f.q, sg, 3, VQ_DESC_WRITE, cookie(2));
			vq_driver_publish(&f.q);
			for (uint32_t i = 0; i < 3; i++)
				heads[i] = fake_device_take(&f);
			d = &f.q.desc[heads[0]];
			assert_true(
				d->addr == 0x8000 && d->len == POSTED && d->flags == VQ_DESC_WRITE);
			d = &f.q.desc[heads[1]];
			for (uint32_t i = 0; i < 3; i++) {
				assert_true(d->addr == sg[i].addr && d->len == sg[i].len);
				assert_int_equal(
					d->flags, VQ_DESC_WRITE | (i < 2 ? VQ_DESC_NEXT : 0));
				d = &f.q.desc[d->next % SIZE];
			}
			d = &f.q.desc[heads[2]];
			assert_true(d->len == 48 && d->flags == VQ_DESC_INDIRECT);
			d = &f.table[(d->addr - TABLE_ADDR) / sizeof(*d)];
			for (uint32_t i = 0; i < 3; i++) {
				assert_true(d[i].addr == sg[i].addr && d[i].len == sg[i].len);
				assert_int_equal(
					d[i].flags, VQ_DESC_WRITE | (i < 2 ? VQ_DESC_NEXT : 0));
				if (i < 2)
					assert_int_equal(d[i].next, i + 1);
			}
			overwrite(&f, value, false);
			fake_device_use(&f, heads[2], 120);
			fake_device_use(&f, heads[0], POSTED);
			fake_device_use(&f, heads[1], 119);
			fake_device_publish(&f);
			assert_int_equal(vq_driver_reap(&f.q, c, lens, SIZE), 3);
			assert_int_equal(cookie_number(c[0]), 2);
			assert_int_equal(cookie_number(c[1]), 0);
			assert_int_equal(cookie_number(c[2]), 1);
			assert_int_equal(lens[0], 120);
			assert_int_equal(lens[2], 119);
			assert_int_equal(vq_driver_free(&f.q), SIZE);
		}
		fake_device_free(&f);
	} while (++value != 0);
}

/* One more byte than was posted, over each kind of chain. */
static void
lengths_of_every_kind_of_chain(void **state)
{
	static const struct vq_sg sg[] = {{0x1000, 30}, {0x2000, 40}, {0x3000, 50}};

	(void)state;
	for (uint32_t kind = 0; kind < 3; kind++) {
		struct fake_device f;
		uint32_t lens[2];
		void *c[2];

		fake_device_init(&f, SIZE, VQ_FEATURE(INDIRECT_DESC), 4);
		if (kind == 0)
			vq_driver_add(&f.q, 0, 120, VQ_DESC_WRITE, cookie(0));
		else if (kind == 1)
			vq_driver_add_chain(&f.q, sg, 3, VQ_DESC_WRITE, cookie(0));
		else
			vq_driver_add_indirect(&f.q, sg, 3, VQ_DESC_WRITE, cookie(0));
		vq_driver_publish(&f.q);
		/* The device says that more was posted. */
		f.q.desc[fake_device_take(&f)].len = 4096;
		fake_device_use(&f, 0, 121);
		fake_device_publish(&f);
		assert_int_equal(vq_driver_reap(&f.q, c, lens, 2), 0);
		assert_int_equal(f.q.fault, VQ_DRIVER_LENGTH);
		fake_device_free(&f);
	}
}

struct attack {
	struct fake_device *f;
	atomic_bool stop;
};

static void *
scribble(void *arg)
{
	struct attack *a = arg;
	struct fake_device *f = a->f;
	uint64_t random = 11;

	while (!atomic_load_explicit(&a->stop, memory_order_relaxed)) {
		uint16_t avail = vq_load_index(&f->q.avail->idx);
		uint16_t used = vq_load(&f->q.used->idx);
		uint32_t id = vq_load(&f->q.avail->ring[used & (SIZE - 1)]);
		volatile struct vq_used_elem *e = &f->q.used->ring[used & (SIZE - 1)];
		uint32_t what = rnd_below(&random, 2048);

		if (what < 1600 && (uint16_t)(avail - used) - 1u < SIZE) {
			/* As it should, so that something happens, and then something else. */
			e->len = rnd_below(&random, POSTED + (what == 1));
			e->id = id;
			vq_publish_index(&f->q.used->idx, (uint16_t)(used + 1));
			if (what < 4)
				e->id = (uint32_t)rnd(&random);
			else if (what < 8)
				e->len = (uint32_t)rnd(&random);
		} else if (what < 1700) {
			f->q.used->ring[rnd_below(&random, SIZE)].id =
				rnd_below(&random, SIZE) | (what == 1650 ? 0x10000 : 0);
		} else if (what < 1900) {
			volatile uint8_t *p = f->ring + rnd_below(&random, SIZE * 16);

			*p = (uint8_t)rnd(&random);
		} else if (what < 1904) {
			vq_publish_index(&f->q.used->idx, (uint16_t)rnd(&random));
		} else {
			vq_store(&f->q.used->flags, (uint16_t)what);
			vq_store(vq_avail_event(f->q.used, SIZE), (uint16_t)rnd(&random));
		}
	}
	return NULL;
}

static void
come_back(void *c, void *arg)
{
	bool *out = arg;
	uint32_t i = cookie_number(c);

	assert_true(i < SIZE && out[i]);
	out[i] = false;
}

static uint32_t
count_out(const bool *out)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < SIZE; i++)
		n += out[i];
	return n;
}

/* A cookie is a number below SIZE that is out once at most. */
static void
nothing_is_read_twice(void **state)
{
	static const uint64_t features[] = {
		0, VQ_FEATURE(IN_ORDER), VQ_FEATURE(EVENT_IDX) | VQ_FEATURE(INDIRECT_DESC)};
	static const struct vq_sg sg[] = {{0x1000, POSTED / 2}, {0x2000, POSTED / 2}};

	(void)state;
	for (uint32_t k = 0; k < COUNT_OF(features); k++) {
		struct fake_device f;
		struct attack a = {.f = &f};
		bool out[SIZE] = {false};
		uint32_t broken = 0, reaped = 0;
		pthread_t thread;

		fake_device_init(&f, SIZE, features[k], 4);
		assert_int_equal(pthread_create(&thread, NULL, scribble, &a), 0);
		for (uint32_t turn = 0; turn < 4000 || broken == 0 || reaped == 0; turn++) {
			uint32_t lens[SIZE], n;
			void *c[SIZE];

			for (uint32_t i = 0; i < SIZE && vq_driver_free(&f.q) >= 2; i++) {
				if (out[i])
					continue;
				out[i] = true;
				if (f.q.indirect && i % 2)
					vq_driver_add_indirect(
						&f.q, sg, 2, VQ_DESC_WRITE, cookie(i));
				else if (i % 3 == 0)
					vq_driver_add_chain(&f.q, sg, 2, VQ_DESC_WRITE, cookie(i));
				else
					vq_driver_add(
						&f.q, 0x3000, POSTED, VQ_DESC_WRITE, cookie(i));
			}
			vq_driver_publish(&f.q);
			(void)vq_driver_need_notify(&f.q);
			n = vq_driver_reap(&f.q, c, lens, 1 + turn % SIZE);
			for (uint32_t i = 0; i < n; i++) {
				assert_true(lens[i] <= POSTED);
				come_back(c[i], out);
			}
			reaped += n;
			if (n == 0)
				sched_yield();
			assert_int_equal(vq_driver_inflight(&f.q), count_out(out));
			if (f.q.fault == VQ_DRIVER_OK) {
				(void)vq_driver_arm(&f.q);
				assert_true(vq_driver_pending(&f.q) <= SIZE);
				vq_driver_disarm(&f.q);
				continue;
			}
			assert_int_equal(vq_driver_reap(&f.q, c, lens, SIZE), 0);
			assert_false(vq_driver_arm(&f.q));
			n = count_out(out);
			assert_int_equal(vq_driver_detach_all(&f.q, come_back, out), n);
			assert_int_equal(count_out(out), 0);
			vq_driver_reset(&f.q, features[k]);
			broken++;
		}
		atomic_store(&a.stop, true);
		assert_int_equal(pthread_join(thread, NULL), 0);
		print_message("reaped %u, broken %u\n", reaped, broken);
		fake_device_free(&f);
	}
}

/* All of the ring is one byte, again and again, between any two calls. */
static void
a_ring_of_one_byte(void **state)
{
	uint8_t value = 0;

	(void)state;
	do {
		struct fake_device f;
		bool out[SIZE] = {false};
		uint32_t lens[SIZE], n = 0;
		void *c[SIZE];

		fake_device_init(&f, SIZE, value & 1 ? VQ_FEATURE(IN_ORDER) : 0, 0);
		for (uint32_t i = 0; i < SIZE; i++) {
			vq_driver_add(&f.q, 0x1000, POSTED, VQ_DESC_WRITE, cookie(i));
			out[i] = true;
			overwrite(&f, value, true);
		}
		vq_driver_publish(&f.q);
		for (uint32_t i = 0; i < 3; i++) {
			overwrite(&f, value, true);
			n = vq_driver_reap(&f.q, c, lens, SIZE);
			while (n != 0) {
				assert_true(lens[n - 1] <= POSTED);
				come_back(c[--n], out);
			}
			(void)vq_driver_arm(&f.q);
		}
		assert_int_equal(vq_driver_free(&f.q), SIZE - count_out(out));
		n = count_out(out);
		assert_int_equal(vq_driver_detach_all(&f.q, come_back, out), n);
		fake_device_free(&f);
	} while (++value != 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(our_areas_overwritten),
		cmocka_unit_test(lengths_of_every_kind_of_chain),
		cmocka_unit_test(nothing_is_read_twice),
		cmocka_unit_test(a_ring_of_one_byte),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
