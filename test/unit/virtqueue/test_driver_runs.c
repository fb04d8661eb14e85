/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Driver side in runs: slots filled and completions taken in a row, while the device keeps order;
 * and what is not of that shape, one by one and just as right. */

#include "fake_device.h"

#define IN_ORDER VQ_FEATURE(IN_ORDER)
#define LEN      2048u

/* Number n of all chains lies in the buffer at this address. */
static uint64_t
addr_of(uint32_t n)
{
	return 0x10000 + n * UINT64_C(0x1000);
}

/* Fill n slots, beginning with chain number `first`. @return runs that it took */
static uint32_t
fill(struct fake_device *f, uint32_t first, uint32_t n)
{
	uint32_t runs = 0;

	while (n != 0) {
		const struct vq_driver_run run = vq_driver_run(&f->q, n);

		assert_true(run.n >= 1 && run.n <= n);
		for (uint32_t i = 0; i < run.n; i++, first++)
			vq_driver_fill(&run, i, addr_of(first), LEN, VQ_DESC_WRITE, cookie(first));
		vq_driver_filled(&f->q, run.n, LEN);
		n -= run.n;
		runs++;
	}
	vq_driver_publish(&f->q);
	return runs;
}

/* The device takes n chains, beginning with number `first`; their heads, in order. */
static void
take(struct fake_device *f, uint32_t first, uint32_t n, uint16_t *heads)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct vq_desc *d;

		heads[i] = fake_device_take(f);
		assert_true(heads[i] < f->size);
		d = &f->q.desc[heads[i]];
		assert_int_equal(d->addr, addr_of(first + i));
		assert_int_equal(d->len, LEN);
		assert_int_equal(d->flags, VQ_DESC_WRITE);
	}
}

/* Take n completions in a row, of chains from number `first` on, with lengths 1, 2, .. */
static void
take_back(struct fake_device *f, uint32_t first, uint32_t n)
{
	uint32_t got = 0, len;

	while (got < n) {
		const struct vq_driver_done done = vq_driver_done(&f->q, n - got);

		assert_true(done.n >= 1 && done.n <= n - got);
		for (uint32_t i = 0; i < done.n; i++) {
			assert_true(vq_driver_done_at(&done, i, &len));
			assert_int_equal(len, got + i + 1);
			assert_int_equal(cookie_number(done.cookies[i]), first + got + i);
		}
		vq_driver_done_take(&f->q, done.n);
		got += done.n;
	}
	assert_true(vq_driver_all_taken(&f->q));
}

/* Laps of bursts that end anywhere, the end of the ring included. */
static void
runs_go_round_the_ring(void **state)
{
	uint16_t heads[64];
	uint32_t splits = 0;

	(void)state;
	for (uint32_t size = 1; size <= 64; size *= 2) {
		for (int in_order = 0; in_order <= 1; in_order++) {
			struct fake_device f;

			fake_device_init(&f, size, in_order ? IN_ORDER : 0, 0);
			for (uint32_t n = 0; n < 10 * size;) {
				uint32_t burst = 1 + n * 7 % size;

				splits += fill(&f, n, burst) - 1;
				take(&f, n, burst, heads);
				for (uint32_t i = 0; i < burst; i++) {
					assert_int_equal(heads[i], (n + i) % size);
					fake_device_use(&f, heads[i], i + 1);
				}
				assert_int_equal(vq_driver_done(&f.q, burst).n, 0);
				fake_device_publish(&f);
				take_back(&f, n, burst);
				assert_int_equal(vq_driver_free(&f.q), size);
				n += burst;
			}
			fake_device_free(&f);
		}
	}
	assert_true(splits > 20);
}

/* Less than was shown is taken; the rest stays for later. */
static void
a_part_is_taken(void **state)
{
	struct fake_device f;
	struct vq_driver_done done;
	uint16_t heads[8];
	uint32_t len;

	(void)state;
	fake_device_init(&f, 8, 0, 0);
	fill(&f, 0, 8);
	take(&f, 0, 8, heads);
	for (uint32_t i = 0; i < 8; i++)
		fake_device_use(&f, heads[i], i + 1);
	fake_device_publish(&f);
	done = vq_driver_done(&f.q, 8);
	assert_int_equal(done.n, 8);
	vq_driver_done_take(&f.q, 3);
	assert_false(vq_driver_all_taken(&f.q));
	assert_int_equal(vq_driver_free(&f.q), 3);
	assert_int_equal(vq_driver_inflight(&f.q), 5);
	done = vq_driver_done(&f.q, 2);
	assert_int_equal(done.n, 2);
	assert_true(vq_driver_done_at(&done, 0, &len));
	assert_int_equal(len, 4);
	assert_int_equal(cookie_number(done.cookies[1]), 4);
	fake_device_free(&f);
}

/* The device completes backwards: nothing comes in a row any more, and nothing is lost. */
static void
out_of_order_goes_one_by_one(void **state)
{
	struct fake_device f;
	uint16_t heads[8];
	uint32_t lens[8], len;
	void *c[8];

	(void)state;
	fake_device_init(&f, 8, 0, 0);
	for (uint32_t lap = 0; lap < 20; lap++) {
		assert_int_equal(fill(&f, 8 * lap, 8), lap == 0 ? 1 : 8);
		take(&f, 8 * lap, 8, heads);
		for (uint32_t i = 0; i < 8; i++)
			fake_device_use(&f, heads[7 - i], 100 + 7 - i);
		fake_device_publish(&f);
		if (lap == 0) {
			const struct vq_driver_done done = vq_driver_done(&f.q, 8);

			assert_int_equal(done.n, 8);
			assert_false(vq_driver_done_at(&done, 0, &len));
		}
		assert_int_equal(vq_driver_reap(&f.q, c, lens, 8), 8);
		for (uint32_t i = 0; i < 8; i++) {
			assert_int_equal(cookie_number(c[i]), 8 * lap + 7 - i);
			assert_int_equal(lens[i], 100 + 7 - i);
		}
		assert_false(vq_driver_in_row(&f.q));
		assert_int_equal(vq_driver_done(&f.q, 8).n, 0);
	}
	/* A ring that begins anew is in order. */
	vq_driver_reset(&f.q, 0);
	assert_true(vq_driver_in_row(&f.q));
	assert_int_equal(fill(&f, 0, 8), 1);
	fake_device_free(&f);
}

/* A wrong id or length is not expected; those before it are taken, the reaper says what it is. */
static void
the_unexpected_ends_a_row(void **state)
{
	static const struct {
		uint32_t id, len;
		uint8_t fault;
	} wrong[] = {
		{2, LEN + 1, VQ_DRIVER_LENGTH}, {8, 1, VQ_DRIVER_ID}, {0x10002, 1, VQ_DRIVER_ID},
		{1, 1, VQ_DRIVER_ID}, /* twice */
	};

	(void)state;
	for (uint32_t k = 0; k < sizeof(wrong) / sizeof(wrong[0]); k++) {
		struct fake_device f;
		struct vq_driver_done done;
		uint16_t heads[8];
		uint32_t lens[8], len;
		void *c[8];

		fake_device_init(&f, 8, 0, 0);
		fill(&f, 0, 8);
		take(&f, 0, 8, heads);
		fake_device_use(&f, 0, 1);
		fake_device_use(&f, 1, LEN);
		fake_device_use(&f, wrong[k].id, wrong[k].len);
		fake_device_publish(&f);
		done = vq_driver_done(&f.q, 8);
		assert_int_equal(done.n, 3);
		assert_true(vq_driver_done_at(&done, 0, &len));
		assert_true(vq_driver_done_at(&done, 1, &len));
		assert_int_equal(len, LEN);
		assert_false(vq_driver_done_at(&done, 2, &len));
		vq_driver_done_take(&f.q, 2);
		assert_int_equal(vq_driver_reap(&f.q, c, lens, 8), 0);
		assert_int_equal(f.q.fault, wrong[k].fault);
		assert_int_equal(vq_driver_done(&f.q, 8).n, 0);
		fake_device_free(&f);
	}
}

/* While a chain of several is in flight nothing comes in a row; its ids and places differ. */
static void
chains_go_one_by_one(void **state)
{
	const struct vq_sg sg[3] = {{addr_of(0), LEN}, {0x1, 2}, {0x2, 3}};
	struct fake_device f;
	uint16_t heads[8];
	uint32_t lens[8];
	void *c[8];

	(void)state;
	for (int in_order = 0; in_order <= 1; in_order++) {
		fake_device_init(&f, 8, in_order ? IN_ORDER : 0, 0);
		for (uint32_t lap = 0; lap < 50; lap++) {
			vq_driver_add_chain(&f.q, sg, 3, VQ_DESC_WRITE, cookie(0));
			assert_false(vq_driver_in_row(&f.q));
			fill(&f, 1, 4);
			heads[0] = fake_device_take(&f);
			take(&f, 1, 4, heads + 1);
			for (uint32_t i = 0; i < 5; i++)
				fake_device_use(&f, heads[i], i + 1);
			fake_device_publish(&f);
			assert_int_equal(vq_driver_done(&f.q, 8).n, 0);
			assert_int_equal(vq_driver_reap(&f.q, c, lens, 1), 1);
			assert_int_equal(cookie_number(c[0]), 0);
			assert_true(vq_driver_in_row(&f.q));
			assert_int_equal(vq_driver_free(&f.q), 4);
			assert_int_equal(vq_driver_reap(&f.q, c, lens, 8), 4);
			for (uint32_t i = 0; i < 4; i++) {
				assert_int_equal(cookie_number(c[i]), i + 1);
				assert_int_equal(lens[i], i + 2);
			}
		}
		fake_device_free(&f);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(runs_go_round_the_ring),
		cmocka_unit_test(a_part_is_taken),
		cmocka_unit_test(out_of_order_goes_one_by_one),
		cmocka_unit_test(the_unexpected_ends_a_row),
		cmocka_unit_test(chains_go_one_by_one),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
