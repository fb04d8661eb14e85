/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Transmit chains seen as frames: the header anywhere, the first bytes private, nothing trusted. */

#include <string.h>

#include "pair.h"
#include "vq_net.h"

#define REGION 0x20000u

static const uint32_t hdr_lens[] = {10, 12, 20};

static struct guest guest;
static struct pair pair;
static struct vq_net_burst *burst;

/* A ring of 256 over two regions side by side; working space for bursts of 32. */
static int
begin(void **state)
{
	struct pair_config config = {.size = 256, .base = 65500};

	(void)state;
	guest_init(&guest, 2, REGION, 0);
	pair_init(&pair, &guest, &config);
	burst = vq_net_burst_create(32, 256);
	assert_non_null(burst);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	vq_net_burst_destroy(burst);
	vq_net_burst_destroy(NULL);
	pair_free(&pair);
	guest_free(&guest);
	return 0;
}

/* A header of noise and a frame, in guest memory. */
static void
packet(uint64_t addr, uint32_t hdr_len, uint8_t *frame, uint32_t len, uint32_t seq)
{
	frame_make(frame, len, seq);
	guest_fill(&guest, addr, 0xdb, hdr_len);
	guest_write(&guest, addr + hdr_len, frame, len);
}

static void
expect_frame(const struct vq_frame *f, const uint8_t *frame, uint32_t len)
{
	static uint8_t copy[2 * REGION];

	assert_int_equal(f->status, VQ_NET_OK);
	assert_int_equal(f->len, len);
	assert_int_equal(f->head_len, len < VQ_NET_HEAD ? len : VQ_NET_HEAD);
	assert_memory_equal(f->head, frame, f->head_len);
	vq_frame_read(f, 0, copy, len);
	assert_memory_equal(copy, frame, len);
}

/* Complete and reap what was taken. */
static void
finish(uint32_t n)
{
	void *c[64];

	assert_int_equal(vq_net_release(&pair.device, burst, n), n);
	assert_int_equal(vq_driver_reap(&pair.driver, c, NULL, 64), n);
	pair_expect_level(&pair);
}

static uint32_t
take(uint32_t n, uint32_t hdr_len)
{
	vq_driver_publish(&pair.driver);
	return vq_net_take(&pair.device, burst, n, hdr_len);
}

/* In two pieces at every byte, header and frame alike. */
static void
cut_once_at_every_byte(void **state)
{
	static const uint32_t lens[] = {14, 60, 63, 64, 65, 100, 200};
	uint8_t frame[256];

	(void)state;
	for (uint32_t h = 0; h < COUNT_OF(hdr_lens); h++) {
		for (uint32_t l = 0; l < COUNT_OF(lens); l++) {
			uint32_t total = hdr_lens[h] + lens[l];

			packet(GUEST_BASE, hdr_lens[h], frame, lens[l], total);
			for (uint32_t cut = 1; cut < total; cut++) {
				pair_add(&pair, GUEST_BASE, total, &cut, 1, false, false, NULL);
				assert_int_equal(take(32, hdr_lens[h]), 1);
				expect_frame(&burst->frames[0], frame, lens[l]);
				finish(1);
			}
		}
	}
}

/* In three pieces, both cuts within the header or right behind it. */
static void
cut_twice_in_the_header(void **state)
{
	uint8_t frame[100];

	(void)state;
	for (uint32_t h = 0; h < COUNT_OF(hdr_lens); h++) {
		packet(GUEST_BASE, hdr_lens[h], frame, 100, h);
		for (uint32_t a = 1; a <= hdr_lens[h]; a++) {
			for (uint32_t b = a + 1; b <= hdr_lens[h] + 1; b++) {
				uint32_t cuts[2] = {a, b};

				pair_add(&pair, GUEST_BASE, hdr_lens[h] + 100, cuts, 2, false,
					false, NULL);
				assert_int_equal(take(32, hdr_lens[h]), 1);
				expect_frame(&burst->frames[0], frame, 100);
				finish(1);
			}
		}
	}
}

static void
a_descriptor_for_every_byte(void **state)
{
	uint8_t frame[150];
	uint32_t cuts[170];

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(cuts); i++)
		cuts[i] = i + 1;
	for (uint32_t h = 0; h < COUNT_OF(hdr_lens); h++) {
		uint32_t total = hdr_lens[h] + 150;

		packet(GUEST_BASE, hdr_lens[h], frame, 150, 1);
		pair_add(&pair, GUEST_BASE, total, cuts, total - 1, false, false, NULL);
		assert_int_equal(take(32, hdr_lens[h]), 1);
		expect_frame(&burst->frames[0], frame, 150);
		finish(1);
	}
}

/* The seam of two regions at every byte of header and head, without a cut by the driver. */
static void
across_regions_at_every_byte(void **state)
{
	uint8_t frame[200];

	(void)state;
	for (uint32_t before = 1; before < 12 + 200; before++) {
		uint64_t addr = GUEST_BASE + REGION - before;

		packet(addr, 12, frame, 200, before);
		pair_add(&pair, addr, 212, NULL, 0, false, false, NULL);
		assert_int_equal(take(32, 12), 1);
		expect_frame(&burst->frames[0], frame, 200);
		finish(1);
	}
}

/* Nothing behind the header, part of a header, less than an Ethernet header, and just enough. */
static void
runts(void **state)
{
	uint8_t frame[14];

	(void)state;
	for (uint32_t h = 0; h < COUNT_OF(hdr_lens); h++) {
		uint32_t hdr_len = hdr_lens[h];

		packet(GUEST_BASE, hdr_len, frame, 14, 3);
		for (uint32_t len = 0; len <= hdr_len + 14; len++) {
			uint32_t cut = hdr_len;

			pair_add(&pair, GUEST_BASE, len, &cut, len > cut, false, false, NULL);
			assert_int_equal(take(32, hdr_len), 1);
			if (len < hdr_len + 14) {
				assert_int_equal(burst->frames[0].status, VQ_NET_RUNT);
				assert_int_equal(burst->frames[0].len, 0);
				assert_int_equal(burst->frames[0].head_len, 0);
			} else {
				expect_frame(&burst->frames[0], frame, 14);
			}
			finish(1);
		}
	}
	/* The header alone in a descriptor and nothing but an empty one behind it. */
	for (uint32_t i = 0; i < 2; i++) {
		struct vq_sg sg[2] = {{GUEST_BASE, i * 12}, {GUEST_BASE, 0}};

		vq_driver_add_chain(&pair.driver, sg, 2, 0, NULL);
		assert_int_equal(take(32, 12), 1);
		assert_int_equal(burst->frames[0].status, VQ_NET_RUNT);
		finish(1);
	}
}

/* What was looked at is what is delivered: the guest changes its mind too late. */
static void
the_head_is_private(void **state)
{
	uint8_t frame[300], copy[300];

	(void)state;
	packet(GUEST_BASE, 12, frame, 300, 9);
	pair_add(&pair, GUEST_BASE, 312, NULL, 0, false, false, NULL);
	assert_int_equal(take(32, 12), 1);
	guest_fill(&guest, GUEST_BASE, 0, 312);
	assert_memory_equal(burst->frames[0].head, frame, VQ_NET_HEAD);
	vq_frame_read(&burst->frames[0], 0, copy, 300);
	assert_memory_equal(copy, frame, VQ_NET_HEAD);
	for (uint32_t i = VQ_NET_HEAD; i < 300; i++)
		assert_int_equal(copy[i], 0);
	finish(1);
}

static void
the_largest_frames(void **state)
{
	static uint8_t frame[REGION];
	static const uint32_t lens[] = {1514, 9018, 65535, 65550, REGION};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(lens); i++) {
		packet(GUEST_BASE + REGION / 2, 12, frame, lens[i], i);
		pair_add(&pair, GUEST_BASE + REGION / 2, 12 + lens[i], NULL, 0, false, false, NULL);
		assert_int_equal(take(1, 12), 1);
		expect_frame(&burst->frames[0], frame, lens[i]);
		finish(1);
	}
}

/* Any part of a frame, over any pieces. */
static void
parts_are_read(void **state)
{
	uint32_t cuts[] = {5, 12, 13, 30, 76, 77, 100};
	uint8_t frame[120], copy[120];

	(void)state;
	packet(GUEST_BASE, 12, frame, 120, 5);
	pair_add(&pair, GUEST_BASE, 132, cuts, COUNT_OF(cuts), false, false, NULL);
	assert_int_equal(take(1, 12), 1);
	for (uint32_t off = 0; off <= 120; off++) {
		for (uint32_t len = 0; len <= 120 - off; len++) {
			memset(copy, 0, sizeof(copy));
			vq_frame_read(&burst->frames[0], off, copy, len);
			assert_memory_equal(copy, frame + off, len);
		}
	}
	finish(1);
}

/* Malformed ones come in their place among good ones, and are completed like them. */
static void
malformed_chains_keep_their_place(void **state)
{
	uint8_t frame[3][80];

	(void)state;
	for (uint32_t i = 0; i < 3; i++) {
		packet(GUEST_BASE + i * 0x400, 12, frame[i], 80, i);
		pair_add(&pair, GUEST_BASE + i * 0x400, 92, NULL, 0, false, false, NULL);
		if (i < 2)
			vq_driver_add(&pair.driver, i * 0x1000, 92, VQ_DESC_WRITE * i, NULL);
	}
	assert_int_equal(take(32, 12), 5);
	for (uint32_t i = 0; i < 5; i++) {
		if (i % 2 == 0) {
			expect_frame(&burst->frames[i], frame[i / 2], 80);
			continue;
		}
		assert_int_equal(burst->frames[i].status, VQ_NET_BAD_CHAIN);
		assert_int_equal(burst->frames[i].len, 0);
	}
	finish(5);
	assert_int_equal(pair.device.bad_chains[VQ_CHAIN_ADDRESS], 1);
	assert_int_equal(pair.device.bad_chains[VQ_CHAIN_DIRECTION], 1);
}

/* More waits than a burst takes, or than its segments hold: the rest comes next, in order. */
static void
bursts_are_bounded(void **state)
{
	struct vq_net_burst *small = vq_net_burst_create(4, 7);
	uint32_t seq = 0, turns = 0, cuts[2] = {12, 40};
	uint8_t frame[80];

	(void)state;
	assert_non_null(small);
	for (uint32_t i = 0; i < 20; i++) {
		packet(GUEST_BASE + i * 0x400, 12, frame, 80, i);
		pair_add(&pair, GUEST_BASE + i * 0x400, 92, cuts, 2, false, false, NULL);
	}
	vq_driver_publish(&pair.driver);
	while (seq < 20) {
		uint32_t n = vq_net_take(&pair.device, small, 4, 12);
		void *c[4];

		assert_int_equal(n, 2);
		for (uint32_t i = 0; i < n; i++, seq++) {
			frame_make(frame, 80, seq);
			expect_frame(&small->frames[i], frame, 80);
		}
		assert_int_equal(vq_net_release(&pair.device, small, n), n);
		assert_int_equal(vq_driver_reap(&pair.driver, c, NULL, 4), n);
		turns++;
	}
	assert_int_equal(turns, 10);
	assert_int_equal(vq_net_take(&pair.device, small, 4, 12), 0);
	assert_int_equal(vq_net_release(&pair.device, small, 0), 0);
	pair_expect_level(&pair);
	vq_net_burst_destroy(small);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, begin, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(cut_once_at_every_byte),
		TEST(cut_twice_in_the_header),
		TEST(a_descriptor_for_every_byte),
		TEST(across_regions_at_every_byte),
		TEST(runts),
		TEST(the_head_is_private),
		TEST(the_largest_frames),
		TEST(parts_are_read),
		TEST(malformed_chains_keep_their_place),
		TEST(bursts_are_bounded),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
