/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Frames put into receive chains of a guest that breaks the rules. */

#include <string.h>

#include "receiver.h"

#define MERGEABLE (VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(VERSION_1))
#define MODERN    VQ_FEATURE(VERSION_1)

/* The buffer posted last is spoilt: its address is nowhere. */
static void
spoil(struct receiver *r)
{
	uint16_t last = (uint16_t)(r->pair.driver.avail_idx - 1) & (r->pair.driver.mask);
	uint16_t head = vq_load(&r->pair.driver.avail->ring[last]);

	r->pair.driver.desc[head].addr = 1;
}

static void
post_bad(struct receiver *r, uint32_t len)
{
	receiver_post(r, 1, len, NULL, 0);
	spoil(r);
}

/* Put n frames of these lengths; each must have this status. */
static void
put(struct receiver *r, struct flat *f, uint32_t n, const uint32_t *lens,
	const enum vq_net_status *want)
{
	const struct vq_frame *frames[8];
	uint8_t status[8];

	for (uint32_t i = 0; i < n; i++) {
		flat_init(&f[i], lens[i], i);
		frames[i] = &f[i].f;
	}
	(void)vq_net_put(
		&r->pair.device, r->burst, frames, n, r->hdr_len, r->mergeable, status, &r->copied);
	for (uint32_t i = 0; i < n; i++)
		assert_int_equal(status[i], want[i]);
}

static void
free_all(struct flat *f, uint32_t n)
{
	while (n-- != 0)
		flat_free(&f[n]);
}

static const enum vq_net_status all_ok[8];

/* Completed empty as soon as it is the oldest; the frame goes to the next one. */
static void
bad_chains_in_front(void **state)
{
	static const uint64_t features[] = {MERGEABLE, MODERN};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(features); i++) {
		for (uint32_t bad = 1; bad <= 6; bad++) {
			const uint32_t lens[2] = {60, 80};
			struct receiver r;
			struct flat f[2];

			receiver_init(&r, 16, features[i], 8, 32);
			for (uint32_t k = 0; k < bad; k++)
				post_bad(&r, 200);
			receiver_post(&r, 2, 200, NULL, 0);
			put(&r, f, 2, lens, all_ok);
			for (uint32_t k = 0; k < bad; k++)
				receiver_expect_empty(&r);
			receiver_expect(&r, f[0].bytes, 60, 1);
			receiver_expect(&r, f[1].bytes, 80, 1);
			receiver_expect_none(&r);
			assert_int_equal(r.pair.device.bad_chains[VQ_CHAIN_ADDRESS], bad);
			pair_expect_level(&r.pair);
			free_all(f, 2);
			receiver_free(&r);
		}
	}
}

/* It has no segment: where one would be, the working space may be at its end. */
static void
a_bad_chain_behind_all_segments(void **state)
{
	static const uint64_t features[] = {MERGEABLE, MODERN};
	static const enum vq_net_status want[3] = {VQ_NET_OK, VQ_NET_OK, VQ_NET_NO_BUFFERS};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(features); i++) {
		const uint32_t lens[3] = {60, 80, 100};
		struct receiver r;
		struct flat f[3];

		receiver_init(&r, 16, features[i], 4, 2);
		receiver_post(&r, 2, 200, NULL, 0);
		post_bad(&r, 200);
		put(&r, f, 3, lens, want);
		receiver_expect(&r, f[0].bytes, 60, 1);
		receiver_expect(&r, f[1].bytes, 80, 1);
		receiver_expect_empty(&r);
		receiver_expect_none(&r);
		assert_int_equal(r.pair.device.bad_chains[VQ_CHAIN_ADDRESS], 1);
		pair_expect_level(&r.pair);
		free_all(f, 3);
		receiver_free(&r);
	}
}

/* A ring of nothing else: all of them go, and no frame waits for them. */
static void
only_bad_chains(void **state)
{
	static const uint64_t features[] = {MERGEABLE, MODERN};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(features); i++) {
		struct receiver r;
		struct flat f;

		receiver_init(&r, 16, features[i], 4, 4);
		for (uint32_t k = 0; k < 16; k++)
			post_bad(&r, 200);
		flat_init(&f, 60, 1);
		assert_int_equal(receiver_put(&r, &f.f), VQ_NET_NO_BUFFERS);
		for (uint32_t k = 0; k < 16; k++)
			receiver_expect_empty(&r);
		receiver_expect_none(&r);
		assert_int_equal(r.pair.device.bad_chains[VQ_CHAIN_ADDRESS], 16);
		receiver_fill(&r, 200);
		assert_int_equal(receiver_put(&r, &f.f), VQ_NET_OK);
		receiver_expect(&r, f.bytes, 60, 1);
		flat_free(&f);
		receiver_free(&r);
	}
}

/* In the middle of a merged frame: a buffer of length 0, counted in num_buffers. */
static void
bad_chains_in_the_middle(void **state)
{
	(void)state;
	for (uint32_t bad = 1; bad <= 4; bad++) {
		const uint32_t lens[2] = {250, 60};
		struct receiver r;
		struct flat f[2];

		receiver_init(&r, 16, MERGEABLE, 16, 32);
		receiver_post(&r, 2, 100, NULL, 0);
		for (uint32_t k = 0; k < bad; k++)
			post_bad(&r, 100);
		receiver_post(&r, 2, 100, NULL, 0);
		put(&r, f, 2, lens, all_ok);
		receiver_expect(&r, f[0].bytes, 250, 3 + bad);
		receiver_expect(&r, f[1].bytes, 60, 1);
		receiver_expect_none(&r);
		assert_int_equal(r.pair.device.bad_chains[VQ_CHAIN_ADDRESS], bad);
		free_all(f, 2);
		receiver_free(&r);
	}
}

/* Behind the last one used: not part of the frame. */
static void
bad_chains_at_the_end(void **state)
{
	const uint32_t len = 150;
	struct receiver r;
	struct flat f;

	(void)state;
	receiver_init(&r, 16, MERGEABLE, 16, 32);
	receiver_post(&r, 2, 100, NULL, 0);
	post_bad(&r, 100);
	put(&r, &f, 1, &len, all_ok);
	receiver_expect(&r, f.bytes, len, 2);
	flat_free(&f);
	flat_init(&f, 60, 2);
	assert_int_equal(receiver_put(&r, &f.f), VQ_NET_NO_BUFFERS);
	receiver_expect_empty(&r);
	receiver_expect_none(&r);
	assert_int_equal(r.pair.device.bad_chains[VQ_CHAIN_ADDRESS], 1);
	pair_expect_level(&r.pair);
	flat_free(&f);
	receiver_free(&r);
}

/* Looked at again and again while a frame does not fit, a bad chain is one bad chain. */
static void
bad_chains_are_counted_once(void **state)
{
	struct receiver r;
	struct flat f;

	(void)state;
	receiver_init(&r, 16, MERGEABLE, 16, 32);
	receiver_post(&r, 1, 100, NULL, 0);
	post_bad(&r, 100);
	receiver_post(&r, 1, 100, NULL, 0);
	flat_init(&f, 250, 1);
	for (uint32_t i = 0; i < 10; i++) {
		assert_int_equal(receiver_put(&r, &f.f), VQ_NET_NO_BUFFERS);
		receiver_expect_none(&r);
	}
	receiver_post(&r, 1, 100, NULL, 0);
	assert_int_equal(receiver_put(&r, &f.f), VQ_NET_OK);
	receiver_expect(&r, f.bytes, 250, 4);
	receiver_expect_none(&r);
	assert_int_equal(r.pair.device.bad_chains[VQ_CHAIN_ADDRESS], 1);
	flat_free(&f);
	receiver_free(&r);
}

/* No packet can begin in a buffer that does not hold its header. */
static void
chains_shorter_than_the_header(void **state)
{
	static const uint64_t features[] = {
		MERGEABLE, MODERN, 0, MERGEABLE | VQ_FEATURE(HASH_REPORT)};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(features); i++) {
		const uint32_t lens[2] = {60, 80};
		struct receiver r;
		struct flat f[2];

		receiver_init(&r, 64, features[i], 64, 64);
		for (uint32_t len = 0; len < r.hdr_len; len++)
			receiver_post(&r, 1, len, NULL, 0);
		receiver_post(&r, 2, 200, NULL, 0);
		receiver_post(&r, 1, 3, NULL, 0);
		put(&r, f, 2, lens, all_ok);
		for (uint32_t len = 0; len < r.hdr_len; len++)
			receiver_expect_empty(&r);
		receiver_expect(&r, f[0].bytes, 60, 1);
		receiver_expect(&r, f[1].bytes, 80, 1);
		free_all(f, 2);
		receiver_post(&r, 1, 200, NULL, 0);
		put(&r, f, 1, lens, all_ok);
		receiver_expect_empty(&r);
		receiver_expect(&r, f[0].bytes, 60, 1);
		receiver_expect_none(&r);
		assert_int_equal(r.pair.device.bad_chains[VQ_CHAIN_SHORT], r.hdr_len + 1);
		free_all(f, 1);
		receiver_free(&r);
	}
}

/* Short but not in front: its few bytes are used, be it one or none. */
static void
short_chains_in_the_middle(void **state)
{
	(void)state;
	for (uint32_t len = 0; len < 14; len++) {
		struct receiver r;
		struct flat f;

		receiver_init(&r, 16, MERGEABLE, 16, 32);
		receiver_post(&r, 1, 12, NULL, 0); /* the header alone */
		receiver_post(&r, 1, len, NULL, 0);
		receiver_post(&r, 1, 100, NULL, 0);
		receiver_post(&r, 2, len, NULL, 0);
		receiver_post(&r, 1, 100, NULL, 0);
		flat_init(&f, 110 + len, 1);
		assert_int_equal(receiver_put(&r, &f.f), VQ_NET_OK);
		receiver_expect(&r, f.bytes, 110 + len, len < 5 ? 6 : len < 10 ? 5 : 4);
		flat_free(&f);
		receiver_free(&r);
	}
}

/* Without MRG_RXBUF a chain that holds no frame at all must not stand in the way of every one. */
static void
no_room_for_any_frame(void **state)
{
	struct receiver r;
	struct flat f;

	(void)state;
	receiver_init(&r, 16, MODERN, 8, 32);
	for (uint32_t len = 12; len < 26; len++)
		receiver_post(&r, 1, len, NULL, 0);
	receiver_post(&r, 1, 26, NULL, 0);
	flat_init(&f, 14, 1);
	assert_int_equal(receiver_put(&r, &f.f), VQ_NET_OK);
	for (uint32_t len = 12; len < 26; len++)
		receiver_expect_empty(&r);
	receiver_expect(&r, f.bytes, 14, 1);
	receiver_expect_none(&r);
	assert_int_equal(r.pair.device.bad_chains[VQ_CHAIN_SHORT], 14);
	flat_free(&f);
	receiver_free(&r);
}

/* The ring breaks behind two good buffers: they are used, the rest of the burst is told. */
static void
the_ring_breaks(void **state)
{
	static const uint64_t features[] = {MERGEABLE, MODERN};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(features); i++) {
		const uint32_t lens[4] = {60, 70, 80, 90};
		const enum vq_net_status want[4] = {
			VQ_NET_OK, VQ_NET_OK, VQ_NET_BROKEN, VQ_NET_BROKEN};
		struct receiver r;
		struct flat f[4];
		uint32_t avail;

		receiver_init(&r, 16, features[i], 8, 32);
		receiver_post(&r, 4, 200, NULL, 0);
		avail = (uint16_t)(r.pair.driver.avail_idx - 2) & 15;
		vq_store(&r.pair.driver.avail->ring[avail], 16);
		put(&r, f, 4, lens, want);
		assert_int_equal(r.pair.device.fault, VQ_RING_HEAD);
		receiver_expect(&r, f[0].bytes, 60, 1);
		receiver_expect(&r, f[1].bytes, 70, 1);
		receiver_expect_none(&r);
		assert_int_equal(receiver_put(&r, &f[0].f), VQ_NET_BROKEN);
		receiver_expect_none(&r);
		free_all(f, 4);
		receiver_free(&r);

		receiver_init(&r, 16, features[i], 8, 32);
		vq_publish_index(
			&r.pair.driver.avail->idx, (uint16_t)(r.pair.driver.avail_idx + 17));
		flat_init(&f[0], 60, 1);
		assert_int_equal(receiver_put(&r, &f[0].f), VQ_NET_BROKEN);
		assert_int_equal(r.pair.device.fault, VQ_RING_INDEX);
		receiver_expect_none(&r);
		flat_free(&f[0]);
		receiver_free(&r);
	}
}

/* A frame whose bytes lie in the buffers it goes to, as a guest on a loopback port can have it. */
static void
source_and_target_overlap(void **state)
{
	static const uint32_t lens[] = {14, 60, 64, 65, 128, 700};
	struct receiver r;

	(void)state;
	receiver_init(&r, 64, MERGEABLE, 32, 64);
	for (uint32_t i = 0; i < COUNT_OF(lens); i++) {
		for (uint32_t size = 100; size <= 1000; size += 900) {
			for (uint32_t shift = 0; shift < 64; shift += 9) {
				uint32_t buffers = (12 + lens[i] + size - 1) / size;
				uint32_t len, got = 0;
				struct vq_seg seg;
				struct vq_frame f = {.segs = &seg, .nseg = 1, .len = lens[i]};
				uint8_t head[VQ_NET_HEAD] = {0};
				void *c;

				r.next = 0;
				receiver_post(&r, buffers, size, NULL, 0);
				seg.base = guest_at(&r.guest, GUEST_BASE) + shift;
				seg.len = lens[i];
				if (shift % 2 != 0) {
					f.head = head;
					f.head_len = lens[i] < 64 ? lens[i] : 64;
				}
				assert_int_equal(receiver_put(&r, &f), VQ_NET_OK);
				/* The bytes are the guest's own muddle, the lengths are not. */
				for (uint32_t k = 0; k < buffers; k++) {
					assert_int_equal(
						vq_driver_reap(&r.pair.driver, &c, &len, 1), 1);
					got += len;
				}
				assert_int_equal(got, 12 + lens[i]);
				receiver_expect_none(&r);
			}
		}
	}
	receiver_free(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_chains_in_front),
		cmocka_unit_test(a_bad_chain_behind_all_segments),
		cmocka_unit_test(only_bad_chains),
		cmocka_unit_test(bad_chains_in_the_middle),
		cmocka_unit_test(bad_chains_at_the_end),
		cmocka_unit_test(bad_chains_are_counted_once),
		cmocka_unit_test(chains_shorter_than_the_header),
		cmocka_unit_test(short_chains_in_the_middle),
		cmocka_unit_test(no_room_for_any_frame),
		cmocka_unit_test(the_ring_breaks),
		cmocka_unit_test(source_and_target_overlap),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
