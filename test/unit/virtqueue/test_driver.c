/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The driver side, with a device that behaves: descriptors, ids, counts, completion in any order.
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_device.h"

#define IN_ORDER VQ_FEATURE(IN_ORDER)
#define INDIRECT VQ_FEATURE(INDIRECT_DESC)

static void
bad_configurations_are_refused(void **state)
{
	_Alignas(64) static uint8_t ring[4096], priv[4096];
	static const uint32_t sizes[] = {0, 3, 100, 32769, 65536, UINT32_MAX};
	struct vq_driver_config good = {.size = 4, .ring = ring, .priv = priv}, c;
	struct vq_driver q;

	(void)state;
	assert_int_equal(vq_driver_init(&q, &good), 0);
	for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
		c = good;
		c.size = sizes[i];
		assert_int_equal(vq_driver_init(&q, &c), -EINVAL);
	}
	c = good;
	c.ring = NULL;
	assert_int_equal(vq_driver_init(&q, &c), -EINVAL);
	c.ring = ring + 16;
	assert_int_equal(vq_driver_init(&q, &c), -EINVAL);
	c = good;
	c.priv = NULL;
	assert_int_equal(vq_driver_init(&q, &c), -EINVAL);
	c.priv = priv + 8;
	assert_int_equal(vq_driver_init(&q, &c), -EINVAL);
	c = good;
	c.table_len = 4;
	assert_int_equal(vq_driver_init(&q, &c), -EINVAL);
}

static void
indirect_needs_the_feature_and_a_table(void **state)
{
	struct fake_device f;

	(void)state;
	fake_device_init(&f, 4, INDIRECT, 8);
	assert_true(f.q.indirect);
	vq_driver_reset(&f.q, 0);
	assert_false(f.q.indirect);
	fake_device_free(&f);
	fake_device_init(&f, 4, INDIRECT, 0);
	assert_false(f.q.indirect);
	fake_device_free(&f);
	/* No chain is longer than the ring (2.7.5.3.1), whatever the tables hold. */
	fake_device_init(&f, 4, INDIRECT, 8);
	assert_int_equal(f.q.table_len, 4);
	fake_device_free(&f);
}

static void
a_single_buffer(void **state)
{
	struct fake_device f;
	void *c;
	uint32_t len;
	uint16_t head;

	(void)state;
	fake_device_init(&f, 4, 0, 0);
	assert_int_equal(vq_driver_free(&f.q), 4);
	vq_driver_add(&f.q, 0x123456789abcdef0, 1526, VQ_DESC_WRITE, cookie(7));
	assert_int_equal(vq_driver_free(&f.q), 3);
	assert_int_equal(vq_driver_inflight(&f.q), 1);
	assert_false(fake_device_has(&f));
	vq_driver_publish(&f.q);
	head = fake_device_take(&f);
	assert_false(fake_device_has(&f));
	assert_int_equal(f.q.desc[head].addr, 0x123456789abcdef0);
	assert_int_equal(f.q.desc[head].len, 1526);
	assert_int_equal(f.q.desc[head].flags, VQ_DESC_WRITE);

	assert_int_equal(vq_driver_pending(&f.q), 0);
	assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 0);
	fake_device_use(&f, head, 60);
	assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 0);
	fake_device_publish(&f);
	assert_int_equal(vq_driver_pending(&f.q), 1);
	assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 1);
	assert_int_equal(cookie_number(c), 7);
	assert_int_equal(len, 60);
	assert_int_equal(vq_driver_free(&f.q), 4);
	assert_int_equal(vq_driver_inflight(&f.q), 0);
	assert_int_equal(f.q.fault, VQ_DRIVER_OK);
	fake_device_free(&f);
}

static void
make_sg(struct vq_sg *sg, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		sg[i].addr = 0x5000 + i * 0x100;
		sg[i].len = i + 1;
	}
}

static void
a_direct_chain(void **state)
{
	struct vq_sg sg[8];
	struct fake_device f;

	(void)state;
	make_sg(sg, 8);
	for (uint32_t n = 1; n <= 8; n++) {
		uint16_t id, steps = 0;
		void *c;

		fake_device_init(&f, 8, 0, 0);
		vq_driver_add_chain(&f.q, sg, n, 0, cookie(n));
		assert_int_equal(vq_driver_free(&f.q), 8 - n);
		assert_int_equal(vq_driver_inflight(&f.q), 1);
		vq_driver_publish(&f.q);
		id = fake_device_take(&f);
		for (;; steps++) {
			assert_true(steps < n);
			assert_int_equal(f.q.desc[id].addr, sg[steps].addr);
			assert_int_equal(f.q.desc[id].len, sg[steps].len);
			assert_int_equal(f.q.desc[id].flags, steps + 1u == n ? 0 : VQ_DESC_NEXT);
			if (!(f.q.desc[id].flags & VQ_DESC_NEXT))
				break;
			id = f.q.desc[id].next;
		}
		assert_int_equal(steps + 1, n);
		fake_device_use(&f, 0, 0);
		fake_device_publish(&f);
		assert_int_equal(vq_driver_reap(&f.q, &c, NULL, 1), 1);
		assert_int_equal(cookie_number(c), n);
		assert_int_equal(vq_driver_free(&f.q), 8);
		fake_device_free(&f);
	}
}

/* One ring entry, whatever the length; the table is the head's own. */
static void
an_indirect_chain(void **state)
{
	struct vq_sg sg[4];
	struct fake_device f;

	(void)state;
	make_sg(sg, 4);
	fake_device_init(&f, 4, INDIRECT, 5);
	for (uint32_t n = 0; n < 4; n++)
		vq_driver_add_indirect(&f.q, sg, n + 1, VQ_DESC_WRITE, cookie(n));
	assert_int_equal(vq_driver_free(&f.q), 0);
	vq_driver_publish(&f.q);
	for (uint32_t n = 0; n < 4; n++) {
		uint16_t head = fake_device_take(&f);
		const struct vq_desc *d = &f.q.desc[head];
		const struct vq_desc *table;

		assert_int_equal(d->flags, VQ_DESC_INDIRECT);
		assert_int_equal(d->len, (n + 1) * 16);
		assert_int_equal(d->addr, TABLE_ADDR + head * 4u * 16u);
		table = f.table + head * 4u;
		for (uint32_t i = 0; i < n + 1; i++) {
			bool last = i == n;

			assert_int_equal(table[i].addr, sg[i].addr);
			assert_int_equal(table[i].len, sg[i].len);
			assert_int_equal(table[i].flags,
				last ? VQ_DESC_WRITE : VQ_DESC_WRITE | VQ_DESC_NEXT);
			if (!last)
				assert_int_equal(table[i].next, i + 1);
		}
		fake_device_use(&f, head, n + 1);
	}
	fake_device_publish(&f);
	for (uint32_t n = 0; n < 4; n++) {
		uint32_t len;
		void *c;

		assert_int_equal(vq_driver_reap(&f.q, &c, &len, 1), 1);
		assert_int_equal(cookie_number(c), n);
		assert_int_equal(len, n + 1);
	}
	assert_int_equal(vq_driver_free(&f.q), 4);
	fake_device_free(&f);
}

/*
 * A device that completes in order: id, descriptor and available entry stay together lap after
 * lap. The entries lie on a page of their own that is read-only once the queue was made, so that
 * even writing the value that stands there already would be seen.
 */
static void
ids_stay_put_and_entries_are_not_written_again(void **state)
{
	const uint32_t size = 2048; /* a page of entries */
	const size_t page = 4096;

	(void)state;
	for (int in_order = 0; in_order <= 1; in_order++) {
		uint8_t *map = mmap(
			NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		struct fake_device f;
		void *c[64];
		uint32_t lens[64];

		assert_ptr_not_equal(map, MAP_FAILED);
		fake_device_init(&f, size, in_order ? IN_ORDER : 0, 0);
		memcpy(map + page, f.q.avail->ring, page);
		f.q.avail = (struct vq_avail *)(void *)(map + page - 4);
		assert_int_equal(mprotect(map + page, page, PROT_READ), 0);
		for (uint32_t n = 0; n < 5 * size;) {
			uint32_t burst = 1 + n % 63;

			for (uint32_t i = 0; i < burst; i++)
				vq_driver_add(&f.q, n + i, 2048, VQ_DESC_WRITE, cookie(n + i));
			vq_driver_publish(&f.q);
			for (uint32_t i = 0; i < burst; i++) {
				uint16_t head = fake_device_take(&f);

				assert_int_equal(head, (n + i) % size);
				assert_int_equal(f.q.desc[head].addr, n + i);
				fake_device_use(&f, head, 100);
			}
			fake_device_publish(&f);
			assert_int_equal(vq_driver_reap(&f.q, c, lens, 64), burst);
			for (uint32_t i = 0; i < burst; i++)
				assert_int_equal(cookie_number(c[i]), n + i);
			n += burst;
		}
		fake_device_free(&f);
		munmap(map, 3 * page);
	}
}

/* What stands in a descriptor from an earlier use, or by a device's hand, never shows through. */
static void
descriptors_are_right_whatever_was_there(void **state)
{
	struct vq_sg sg[3] = {{0x100, 1}, {0x200, 2}, {0x300, 3}};
	struct fake_device f;
	void *c[4];

	(void)state;
	fake_device_init(&f, 4, INDIRECT, 4);
	for (uint32_t lap = 0; lap < 32; lap++) {
		uint16_t head;

		switch (lap % 4) {
		case 0:
			vq_driver_add_chain(&f.q, sg, 3, 0, cookie(0));
			break;
		case 1:
			vq_driver_add_indirect(&f.q, sg, 3, 0, cookie(0));
			break;
		case 2:
			memset(f.q.desc, 0xff, 4 * sizeof(*f.q.desc));
			/* fall through */
		default:
			vq_driver_add(&f.q, 0x900, 9, VQ_DESC_WRITE, cookie(0));
			break;
		}
		memset(&f.q.avail->ring[(f.q.avail_idx) & 3], 0xff, 2);
		vq_driver_add(&f.q, 0x800, 8, 0, cookie(1));
		vq_driver_publish(&f.q);
		for (uint32_t n = 0; n < 2; n++) {
			head = fake_device_take(&f);
			assert_true(head < 4);
			if (n == 1) {
				assert_int_equal(f.q.desc[head].addr, 0x800);
				assert_int_equal(f.q.desc[head].len, 8);
				assert_int_equal(f.q.desc[head].flags, 0);
			} else if (lap % 4 >= 2) {
				assert_int_equal(f.q.desc[head].addr, 0x900);
				assert_int_equal(f.q.desc[head].len, 9);
				assert_int_equal(f.q.desc[head].flags, VQ_DESC_WRITE);
			} else if (lap % 4 == 1) {
				assert_int_equal(f.q.desc[head].flags, VQ_DESC_INDIRECT);
				assert_int_equal(f.q.desc[head].len, 48);
			} else {
				assert_int_equal(f.q.desc[head].flags, VQ_DESC_NEXT);
				assert_int_equal(f.q.desc[head].len, 1);
			}
			fake_device_use(&f, head, 0);
		}
		fake_device_publish(&f);
		assert_int_equal(vq_driver_reap(&f.q, c, NULL, 4), 2);
		assert_int_equal(vq_driver_free(&f.q), 4);
	}
	fake_device_free(&f);
}

/* Completion in the given order of a full ring of chains of mixed lengths: nothing is lost. */
static void
complete_shuffled(uint32_t size, uint64_t *random, bool reversed)
{
	uint16_t *heads = malloc(size * sizeof(*heads));
	uint32_t *numbers = malloc(size * sizeof(*numbers));
	uint32_t *posted = malloc(size * sizeof(*posted));
	uint8_t *seen = malloc(size);
	struct vq_sg sg[6];
	struct fake_device f;

	make_sg(sg, 6);
	fake_device_init(&f, size, 0, 0);
	for (uint32_t lap = 0; lap < 6; lap++) {
		uint32_t count = 0, taken = 0, descs = 0;

		while (vq_driver_free(&f.q) != 0) {
			uint32_t n = 1 + rnd_below(random, 6);

			if (n > vq_driver_free(&f.q))
				n = vq_driver_free(&f.q);
			vq_driver_add_chain(&f.q, sg, n, VQ_DESC_WRITE, cookie(count));
			posted[count++] = n * (n + 1) / 2;
			descs += n;
			assert_int_equal(vq_driver_free(&f.q), size - descs);
			assert_int_equal(vq_driver_inflight(&f.q), count);
		}
		vq_driver_publish(&f.q);
		for (uint32_t i = 0; i < count; i++) {
			heads[i] = fake_device_take(&f);
			numbers[i] = i;
		}
		for (uint32_t i = 0; i < count; i++) {
			uint32_t k = reversed ? count - 1 - i : i + rnd_below(random, count - i);
			uint32_t n = numbers[k];

			if (!reversed) {
				numbers[k] = numbers[i];
				numbers[i] = n;
			}
			fake_device_use(&f, heads[n], rnd_below(random, posted[n] + 1));
		}
		fake_device_publish(&f);
		memset(seen, 0, size);
		while (taken < count) {
			uint32_t lens[7];
			void *c[7];
			uint32_t n = vq_driver_reap(&f.q, c, lens, 7);

			assert_true(n != 0);
			for (uint32_t i = 0; i < n; i++) {
				uint32_t number = cookie_number(c[i]);

				assert_true(number < count);
				assert_false(seen[number]);
				assert_true(lens[i] <= posted[number]);
				if (reversed)
					assert_int_equal(number, count - 1 - taken - i);
				seen[number] = 1;
			}
			taken += n;
		}
		assert_int_equal(vq_driver_free(&f.q), size);
		assert_int_equal(vq_driver_inflight(&f.q), 0);
		assert_int_equal(f.q.fault, VQ_DRIVER_OK);
	}
	fake_device_free(&f);
	free(heads);
	free(numbers);
	free(posted);
	free(seen);
}

static void
completion_in_any_order(void **state)
{
	uint64_t random = 21;

	(void)state;
	for (uint32_t size = 1; size <= VQ_SIZE_MAX; size *= 2) {
		complete_shuffled(size, &random, false);
		complete_shuffled(size, &random, true);
	}
}

/* More than 65,536 chains through every size, in bursts that fit no power of two. */
static void
indices_wrap_at_every_size(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 32; i++) {
		uint32_t added = 0, taken = 0, next = 0;
		uint32_t size = 1u << i / 2;
		uint64_t random = size;
		struct fake_device f;

		fake_device_init(&f, size, i % 2 ? IN_ORDER : 0, 0);
		while (next < 70000) {
			uint32_t n = 1 + rnd_below(&random, size < 8192 ? size : 8192);
			uint32_t lens[256];
			void *c[256];

			for (; n != 0 && vq_driver_free(&f.q) != 0; n--)
				vq_driver_add(&f.q, 64 * added, 64, 0, cookie(added)), added++;
			vq_driver_publish(&f.q);
			for (n = rnd_below(&random, 600); n != 0 && fake_device_has(&f); n--)
				fake_device_use(&f, fake_device_take(&f), taken++ % 65);
			fake_device_publish(&f);
			n = vq_driver_reap(&f.q, c, lens, 256);
			for (uint32_t k = 0; k < n; k++, next++) {
				assert_int_equal(cookie_number(c[k]), next);
				assert_int_equal(lens[k], next % 65);
			}
			assert_int_equal(f.q.fault, VQ_DRIVER_OK);
			assert_int_equal(vq_driver_inflight(&f.q), added - next);
			assert_int_equal(vq_driver_free(&f.q), size - (added - next));
		}
		fake_device_free(&f);
	}
}

struct collected {
	uint32_t count;
	uint8_t seen[64];
};

static void
collect(void *c, void *arg)
{
	struct collected *all = arg;

	assert_true(cookie_number(c) < sizeof(all->seen));
	all->seen[cookie_number(c)]++;
	all->count++;
}

/* Published, unpublished, completed and not reaped: each cookie once, the reaped ones never. */
static void
detach_gives_each_cookie_once(void **state)
{
	struct vq_sg sg[3];

	(void)state;
	make_sg(sg, 3);
	for (int in_order = 0; in_order <= 1; in_order++) {
		struct collected all = {0};
		struct fake_device f;
		void *c[2];

		fake_device_init(&f, 32, INDIRECT | (in_order ? IN_ORDER : 0), 3);
		for (uint32_t i = 0; i < 4; i++)
			vq_driver_add_chain(&f.q, sg, 3, 0, cookie(i));
		for (uint32_t i = 4; i < 8; i++)
			vq_driver_add_indirect(&f.q, sg, 3, 0, cookie(i));
		vq_driver_publish(&f.q);
		for (uint32_t i = 0; i < 4; i++)
			fake_device_use(&f, fake_device_take(&f), 0);
		fake_device_publish(&f);
		assert_int_equal(vq_driver_reap(&f.q, c, NULL, 2), 2);
		for (uint32_t i = 8; i < 12; i++)
			vq_driver_add(&f.q, 0, 1, 0, cookie(i));
		assert_int_equal(vq_driver_detach_all(&f.q, collect, &all), 10);
		assert_int_equal(all.count, 10);
		for (uint32_t i = 0; i < 12; i++)
			assert_int_equal(all.seen[i], i >= 2);
		assert_int_equal(vq_driver_detach_all(&f.q, collect, &all), 0);
		vq_driver_reset(&f.q, 0);
		assert_int_equal(vq_driver_free(&f.q), 32);
		assert_int_equal(vq_driver_inflight(&f.q), 0);
		assert_int_equal(vq_load(&f.q.used->idx), 0);
		assert_int_equal(vq_load(&f.q.avail->idx), 0);
		assert_int_equal(vq_driver_detach_all(&f.q, collect, &all), 0);
		fake_device_free(&f);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_configurations_are_refused),
		cmocka_unit_test(indirect_needs_the_feature_and_a_table),
		cmocka_unit_test(a_single_buffer),
		cmocka_unit_test(a_direct_chain),
		cmocka_unit_test(an_indirect_chain),
		cmocka_unit_test(ids_stay_put_and_entries_are_not_written_again),
		cmocka_unit_test(descriptors_are_right_whatever_was_there),
		cmocka_unit_test(completion_in_any_order),
		cmocka_unit_test(indices_wrap_at_every_size),
		cmocka_unit_test(detach_gives_each_cookie_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
