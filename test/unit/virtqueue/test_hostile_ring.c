/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The device side against a driver that knows how it works: posts while it is looked at, lays its
 * buffers over the ring itself, writes nonsense into headers, changes what was handed out.
 */

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"
#include "vq_net.h"

#define SIZE 8u
#define HDR  12u

static struct guest guest;

static int
setup(void **state)
{
	(void)state;
	guest_init(&guest, 1, 0x4000, 0);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	guest_free(&guest);
	return 0;
}

/* A ring whose every descriptor is a buffer of its own of `len` bytes. */
static void
begin(struct fake_driver *f, const struct vq_mem *mem, uint32_t len, bool write)
{
	fake_driver_init(f, mem, SIZE, VQ_FEATURE(INDIRECT_DESC), 65530);
	for (uint32_t i = 0; i < SIZE; i++)
		fake_driver_desc(f, i, GUEST_BASE + 0x400 * i, len, write ? VQ_DESC_WRITE : 0, 0);
	for (uint16_t i = 0; i < SIZE; i++)
		fake_driver_expose(f, i);
}

/*
 * A buffer is the driver's again when its completion is published, not before: who makes more
 * available could keep the device busy for ever within one turn.
 */
static void
chains_beyond_what_was_published(void **state)
{
	(void)state;
	for (uint32_t more = 1; more <= SIZE; more++) {
		struct vq_chain c[SIZE];
		struct vq_seg segs[SIZE];
		struct fake_driver f;
		uint32_t n;

		begin(&f, guest.mem, 64, false);
		fake_driver_publish(&f);
		n = vq_device_peek(&f.q, false, c, SIZE, segs, SIZE, 0);
		assert_int_equal(n, SIZE);
		for (uint32_t i = 0; i < more; i++)
			vq_device_complete(&f.q, c[i].head, 0);
		vq_publish_index(&f.avail->idx, (uint16_t)(f.avail_idx + more));
		assert_int_equal(vq_device_peek(&f.q, false, c, 1, segs, 1, 0), 0);
		assert_int_equal(f.q.fault, VQ_RING_INDEX);
		fake_driver_free(&f);

		/* The same after the publication is right. */
		begin(&f, guest.mem, 64, false);
		fake_driver_publish(&f);
		n = vq_device_peek(&f.q, false, c, SIZE, segs, SIZE, 0);
		assert_int_equal(n, SIZE);
		for (uint32_t i = 0; i < more; i++)
			vq_device_complete(&f.q, c[i].head, 0);
		assert_int_equal(vq_device_publish(&f.q), more);
		vq_publish_index(&f.avail->idx, (uint16_t)(f.avail_idx + more));
		assert_int_equal(vq_device_peek(&f.q, false, c, SIZE, segs, SIZE, 0), more);
		assert_int_equal(f.q.fault, VQ_DEVICE_OK);
		fake_driver_free(&f);
	}
}

#define LAPS 200u

struct poster {
	struct fake_driver f;
	atomic_bool done;
};

static void *
post_for_ever(void *arg)
{
	struct poster *p = arg;
	const volatile uint16_t *used = &p->f.q.used_idx;
	uint16_t last = *used;
	uint32_t taken = 0;

	/* As many as the device has just taken. There is an end, to see what came of it. */
	for (uint32_t i = 0; i < 100000 && taken < LAPS * SIZE; i++) {
		uint16_t now = *used;

		taken += (uint16_t)(now - last);
		last = now;
		vq_publish_index(&p->f.avail->idx, (uint16_t)(now + SIZE));
	}
	atomic_store(&p->done, true);
	return NULL;
}

/* Buffers too short for any packet, and always more of them: one turn takes one ring of them. */
static void
a_driver_that_posts_while_we_put(void **state)
{
	struct vq_net_burst *b = vq_net_burst_create(4, 8);
	uint8_t bytes[64] = {0};
	struct vq_seg seg = {bytes, sizeof(bytes)};
	struct vq_frame frame = {.len = sizeof(bytes), .segs = &seg, .nseg = 1};
	const struct vq_frame *frames[] = {&frame};

	(void)state;
	for (uint32_t round = 0; round < 30; round++) {
		struct vq_net_copied copied = {0, 0};
		struct poster p = {.done = false};
		pthread_t thread;
		uint8_t status;

		begin(&p.f, guest.mem, HDR - 1, true);
		assert_int_equal(pthread_create(&thread, NULL, post_for_ever, &p), 0);
		while (!atomic_load(&p.done)) {
			uint32_t n = vq_net_put(&p.f.q, b, frames, 1, HDR, true, &status, &copied);

			assert_true(n <= SIZE);
			assert_int_not_equal(status, VQ_NET_OK);
			assert_int_equal(p.f.q.outstanding, 0);
			if (p.f.q.fault != VQ_DEVICE_OK)
				fake_driver_restart(&p.f, guest.mem, vq_device_base(&p.f.q));
			sched_yield();
		}
		assert_int_equal(pthread_join(thread, NULL), 0);
		/* And a ring of them it does take. */
		fake_driver_restart(&p.f, guest.mem, vq_device_base(&p.f.q));
		vq_publish_index(&p.f.avail->idx, (uint16_t)(vq_device_base(&p.f.q) + SIZE));
		assert_int_equal(
			vq_net_put(&p.f.q, b, frames, 1, HDR, true, &status, &copied), SIZE);
		fake_driver_free(&p.f);
	}
	vq_net_burst_destroy(b);
}

/*
 * A large ring of chains that go round over empty buffers, and a good one behind them. Each costs
 * all the descriptors that a batch may walk, so one turn takes a few of them; but some it takes,
 * and the good one has its turn.
 */
static void
a_ring_full_of_long_ways(void **state)
{
	const uint32_t size = 1024, burst = 4, nsegs = 16;
	struct vq_net_burst *b = vq_net_burst_create(burst, nsegs);
	uint8_t bytes[64] = {0};
	struct vq_seg seg = {bytes, sizeof(bytes)};
	struct vq_frame frame = {.len = sizeof(bytes), .segs = &seg, .nseg = 1};
	const struct vq_frame *frames[] = {&frame};

	(void)state;
	for (uint32_t mergeable = 0; mergeable < 2; mergeable++) {
		struct vq_net_copied copied = {0, 0};
		uint8_t status = VQ_NET_BROKEN;
		uint32_t back = 0, turns = 0;
		struct fake_driver f;

		fake_driver_init(&f, guest.mem, size, 0, 0);
		for (uint16_t i = 0; i < size; i++) {
			fake_driver_desc(&f, i, GUEST_BASE, 0, VQ_DESC_WRITE | VQ_DESC_NEXT,
				(uint16_t)(i + 1) % (size - 1));
			fake_driver_expose(&f, i);
		}
		fake_driver_desc(&f, size - 1, GUEST_BASE, 256, VQ_DESC_WRITE, 0);
		fake_driver_publish(&f);
		for (; back < size; turns++) {
			uint64_t walked = f.q.walked;
			uint32_t n = vq_net_put(
				&f.q, b, frames, 1, HDR, mergeable != 0, &status, &copied);

			/* What is begun is finished: one batch more than the limit. */
			assert_true(f.q.walked - walked <= 3 * nsegs + 22 * burst);
			assert_true(n >= 1 && n <= 2 * burst);
			back += n;
			assert_int_equal(status, back < size ? VQ_NET_NO_BUFFERS : VQ_NET_OK);
		}
		assert_true(turns >= size / (2 * burst));
		assert_int_equal(f.q.fault, VQ_DEVICE_OK);
		assert_int_equal(f.q.bad_chains[VQ_CHAIN_SEGMENTS], size - 1);
		for (uint16_t i = 0; i < size - 1; i++)
			fake_driver_expect_used(&f, i, 0);
		fake_driver_expect_used(&f, size - 1, HDR + sizeof(bytes));
		fake_driver_free(&f);
	}
	vq_net_burst_destroy(b);
}

/* Checksum and segmentation were not offered: what a header asks for is neither done nor passed. */
static void
headers_full_of_nonsense(void **state)
{
	static const struct vq_net_hdr zero = {.num_buffers = 1};
	struct vq_net_burst *from = vq_net_burst_create(4, 8), *to = vq_net_burst_create(4, 8);
	uint64_t random = 5;

	(void)state;
	for (uint32_t round = 0; round < 300; round++) {
		struct vq_net_copied copied = {0, 0};
		const struct vq_frame *frames[1];
		uint8_t sent[100], got[HDR + sizeof(sent)], header[HDR], status;
		struct fake_driver tx, rx;

		begin(&tx, guest.mem, HDR + sizeof(sent), false);
		begin(&rx, guest.mem, 0x300, true);
		fake_driver_desc(&rx, 0, GUEST_BASE + 0x3000, 0x300, VQ_DESC_WRITE, 0);
		fake_driver_publish(&tx);
		fake_driver_publish(&rx);
		/* NEEDS_CSUM, any type, sizes and offsets far outside, or anything. */
		for (uint32_t i = 0; i < HDR; i++)
			header[i] = round == 0 ? 0xff : (uint8_t)rnd(&random);
		frame_make(sent, sizeof(sent), round);
		guest_write(&guest, GUEST_BASE, header, HDR);
		guest_write(&guest, GUEST_BASE + HDR, sent, sizeof(sent));
		/* The avail ring starts where the base says; make the first entry id 0. */
		vq_store(&tx.avail->ring[65530 % SIZE], 0);
		vq_store(&rx.avail->ring[65530 % SIZE], 0);
		assert_int_equal(vq_net_take(&tx.q, from, 1, HDR), 1);
		assert_int_equal(from->frames[0].status, VQ_NET_OK);
		frames[0] = &from->frames[0];
		assert_int_equal(vq_net_put(&rx.q, to, frames, 1, HDR, true, &status, &copied), 1);
		assert_int_equal(status, VQ_NET_OK);
		assert_int_equal(vq_net_release(&tx.q, from, 1), 1);
		fake_driver_expect_used(&rx, 0, HDR + sizeof(sent));
		guest_read(&guest, GUEST_BASE + 0x3000, got, sizeof(got));
		assert_memory_equal(got, &zero, HDR);
		assert_memory_equal(got + HDR, sent, sizeof(sent));
		fake_driver_free(&tx);
		fake_driver_free(&rx);
	}
	vq_net_burst_destroy(from);
	vq_net_burst_destroy(to);
}

/* Receive buffers that lie over each area of the ring: the packet is written there. */
static void
buffers_over_the_ring_itself(void **state)
{
	struct vq_net_burst *b = vq_net_burst_create(4, 16);
	uint8_t bytes[160];
	uint64_t random = 3;

	(void)state;
	for (uint32_t round = 0; round < 3000; round++) {
		struct vq_seg seg = {bytes, sizeof(bytes)};
		struct vq_frame frame = {
			.len = 14 + rnd_below(&random, 100), .segs = &seg, .nseg = 1};
		const struct vq_frame *frames[] = {&frame, &frame, &frame};
		struct vq_mem_region regions[3];
		struct vq_net_copied copied = {0, 0};
		struct fake_driver f;
		struct vq_mem *mem;
		uint8_t status[3];
		uint32_t n;

		for (uint32_t i = 0; i < sizeof(bytes); i++)
			bytes[i] = round % 2 ? (uint8_t)rnd(&random) : (uint8_t)round;
		begin(&f, guest.mem, 64, true);
		regions[0] =
			(struct vq_mem_region){0x10000, vq_desc_bytes(SIZE), (uint8_t *)f.desc};
		regions[1] =
			(struct vq_mem_region){0x20000, vq_avail_bytes(SIZE), (uint8_t *)f.avail};
		regions[2] =
			(struct vq_mem_region){0x30000, vq_used_bytes(SIZE), (uint8_t *)f.used};
		assert_int_equal(vq_mem_create(regions, 3, &mem), 0);
		for (uint32_t i = 0; i < SIZE; i++) {
			const struct vq_mem_region *r = &regions[rnd_below(&random, 3)];
			uint32_t at = rnd_below(&random, (uint32_t)r->size);

			fake_driver_desc(&f, i, r->addr + at,
				1 + rnd_below(&random, (uint32_t)r->size - at), VQ_DESC_WRITE, 0);
		}
		fake_driver_restart(&f, mem, vq_device_base(&f.q));
		fake_driver_publish(&f);
		for (uint32_t turn = 0; turn < 4; turn++) {
			n = vq_net_put(&f.q, b, frames, 3, HDR, true, status, &copied);
			assert_true(n <= SIZE);
			assert_int_equal(f.q.outstanding, 0);
			assert_int_equal(f.q.size, SIZE);
			if (f.q.fault != VQ_DEVICE_OK) {
				assert_int_equal(
					vq_net_put(&f.q, b, frames, 3, HDR, true, status, &copied),
					0);
				assert_int_equal(status[0], VQ_NET_BROKEN);
			}
		}
		fake_driver_free(&f);
		vq_mem_destroy(mem);
	}
	vq_net_burst_destroy(b);
}

/* What was handed out stays as it was seen, whatever the driver writes then. */
static void
a_ring_that_changes_after_the_look(void **state)
{
	struct vq_chain c[SIZE];
	struct vq_seg segs[SIZE];
	struct fake_driver f;

	(void)state;
	begin(&f, guest.mem, 64, true);
	put_entry(&guest, GUEST_BASE + 0x3000, 0, GUEST_BASE + 0x3100, 80, VQ_DESC_WRITE, 0);
	fake_driver_desc(&f, 3, GUEST_BASE + 0x3000, 16, VQ_DESC_INDIRECT, 0);
	fake_driver_publish(&f);
	assert_int_equal(vq_device_peek(&f.q, true, c, SIZE, segs, SIZE, 0), SIZE);
	memset(f.desc, 0xff, vq_desc_bytes(SIZE));
	memset(f.avail->ring, 0xff, SIZE * sizeof(uint16_t));
	guest_fill(&guest, GUEST_BASE + 0x3000, 0xff, 0x1000);
	for (uint32_t i = 0; i < SIZE; i++) {
		assert_int_equal(c[i].head, i);
		assert_int_equal(c[i].len, i == 3 ? 80 : 64);
		assert_int_equal(segs[i].len, c[i].len);
		assert_ptr_equal(segs[i].base,
			guest_at(&guest, i == 3 ? GUEST_BASE + 0x3100 : GUEST_BASE + 0x400 * i));
		vq_device_complete(&f.q, c[i].head, c[i].len);
	}
	assert_int_equal(vq_device_publish(&f.q), SIZE);
	for (uint32_t i = 0; i < SIZE; i++)
		fake_driver_expect_used(&f, i, i == 3 ? 80 : 64);
	fake_driver_expect_none(&f);
	fake_driver_free(&f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(chains_beyond_what_was_published),
		cmocka_unit_test(a_driver_that_posts_while_we_put),
		cmocka_unit_test(a_ring_full_of_long_ways),
		cmocka_unit_test(headers_full_of_nonsense),
		cmocka_unit_test(buffers_over_the_ring_itself),
		cmocka_unit_test(a_ring_that_changes_after_the_look),
	};

	return cmocka_run_group_tests(tests, setup, teardown);
}
