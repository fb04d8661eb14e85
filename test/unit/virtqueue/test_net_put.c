/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Frames put into receive chains that are as they should be: merged or not, of every size. */

#include <stdlib.h>
#include <string.h>

#include "receiver.h"

#define MERGEABLE (VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(VERSION_1))
#define HASH      VQ_FEATURE(HASH_REPORT)
#define MODERN    VQ_FEATURE(VERSION_1)
#define LEGACY    UINT64_C(0)

/* A frame put and taken, in so many buffers. */
static void
deliver(struct receiver *r, uint32_t len, uint32_t seq, uint32_t buffers)
{
	struct flat f;

	flat_init(&f, len, seq);
	assert_int_equal(receiver_put(r, &f.f), VQ_NET_OK);
	receiver_expect(r, f.bytes, len, buffers);
	flat_free(&f);
}

static void
refuse(struct receiver *r, uint32_t len, enum vq_net_status status)
{
	uint16_t used = vq_load(&r->pair.driver.used->idx);
	struct flat f;

	flat_init(&f, len, len);
	assert_int_equal(receiver_put(r, &f.f), status);
	assert_int_equal(vq_load(&r->pair.driver.used->idx), used);
	receiver_expect_none(r);
	flat_free(&f);
}

/* One to N buffers of N, each filled to the last byte, to the first of the last, and in between. */
static void
exactly_n_of_n_buffers(void **state)
{
	static const uint64_t features[] = {MERGEABLE, MERGEABLE | HASH, VQ_FEATURE(MRG_RXBUF)};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(features); i++) {
		for (uint32_t size = 1; size <= 64; size *= 4) {
			struct receiver r;
			uint32_t hdr;

			receiver_init(&r, size, features[i], 64, 128);
			hdr = r.hdr_len;
			for (uint32_t n = 1; n <= size; n++) {
				receiver_fill(&r, 100);
				deliver(&r, 100 * n - hdr, n, n);
				receiver_fill(&r, 100);
				if (n > 1)
					deliver(&r, 100 * (n - 1) + 1 - hdr, n, n);
				receiver_fill(&r, 100);
				deliver(&r, 100 * (n - 1) + 50 - hdr + 20, n, n);
				receiver_expect_none(&r);
			}
			/* One byte more than the whole ring can never come. */
			receiver_fill(&r, 100);
			refuse(&r, 100 * size - hdr + 1, VQ_NET_TOO_BIG);
			refuse(&r, 100 * size + 5000, VQ_NET_TOO_BIG);
			deliver(&r, 100 * size - hdr, 7, size);
			receiver_expect_none(&r);
			receiver_free(&r);
		}
	}
}

/* Too few buffers now: dropped whole, nothing taken, and a smaller one in the same burst goes. */
static void
too_few_buffers_drop_it_whole(void **state)
{
	struct receiver r;

	(void)state;
	receiver_init(&r, 16, MERGEABLE, 32, 64);
	refuse(&r, 60, VQ_NET_NO_BUFFERS);
	for (uint32_t posted = 1; posted < 16; posted++) {
		const uint32_t lens[4] = {
			100 * posted - 12 + 1, 100 * posted - 12, 60, 100 * posted - 11};
		const enum vq_net_status want[4] = {
			VQ_NET_NO_BUFFERS, VQ_NET_OK, VQ_NET_NO_BUFFERS, VQ_NET_NO_BUFFERS};
		const struct vq_frame *frames[4];
		struct flat f[4];
		uint8_t status[4];

		for (uint32_t i = 0; i < 4; i++) {
			flat_init(&f[i], lens[i], i);
			frames[i] = &f[i].f;
		}
		receiver_post(&r, posted, 100, NULL, 0);
		assert_int_equal(
			vq_net_put(&r.pair.device, r.burst, frames, 4, 12, true, status, &r.copied),
			posted);
		for (uint32_t i = 0; i < 4; i++)
			assert_int_equal(status[i], want[i]);
		receiver_expect(&r, f[1].bytes, lens[1], posted);
		receiver_expect_none(&r);
		for (uint32_t i = 0; i < 4; i++)
			flat_free(&f[i]);
	}
	receiver_free(&r);
}

/* What does not go stays for a burst that comes later, in the same order. */
static void
the_ring_is_rewound(void **state)
{
	struct receiver r;

	(void)state;
	receiver_init(&r, 8, MERGEABLE, 32, 64);
	receiver_post(&r, 3, 100, NULL, 0);
	for (uint32_t i = 0; i < 10; i++)
		refuse(&r, 400, VQ_NET_NO_BUFFERS);
	receiver_post(&r, 2, 100, NULL, 0);
	deliver(&r, 400, 1, 5);
	receiver_post(&r, 3, 100, NULL, 0);
	deliver(&r, 60, 2, 1);
	deliver(&r, 150, 3, 2);
	receiver_expect_none(&r);
	pair_expect_level(&r.pair);
	receiver_free(&r);
}

/* Windows that grow beyond a buffer a frame, and move when working space is short. */
static void
jumbo_frames_in_bursts(void **state)
{
	static const uint32_t bursts[] = {6, 7, 8, 13, 32, 64};

	(void)state;
	for (uint32_t b = 0; b < COUNT_OF(bursts); b++) {
		struct receiver r;

		receiver_init(&r, 64, MERGEABLE, bursts[b], bursts[b] + 8);
		for (uint32_t round = 0; round < 40; round++) {
			const struct vq_frame *frames[16];
			struct flat f[16];
			uint32_t n = 1 + round % 10, total = 0;
			uint8_t status[16];

			receiver_fill(&r, 128);
			for (uint32_t i = 0; i < n; i++) {
				/* One to six buffers. */
				flat_init(&f[i], 60 + (i * 7 + round * 5) % 690, i);
				frames[i] = &f[i].f;
				total += (12 + f[i].f.len + 127) / 128;
			}
			assert_true(total <= 64);
			assert_int_equal(vq_net_put(&r.pair.device, r.burst, frames, n, 12, true,
						 status, &r.copied),
				total);
			for (uint32_t i = 0; i < n; i++) {
				assert_int_equal(status[i], VQ_NET_OK);
				receiver_expect(
					&r, f[i].bytes, f[i].f.len, (12 + f[i].f.len + 127) / 128);
				flat_free(&f[i]);
			}
			receiver_expect_none(&r);
		}
		receiver_free(&r);
	}
}

/* A frame that needs more than the working space will ever show can never go: said so. */
static void
beyond_the_working_space(void **state)
{
	static const uint32_t cuts[3] = {30, 60, 90};
	struct receiver r;

	(void)state;
	receiver_init(&r, 64, MERGEABLE, 5, 64);
	receiver_post(&r, 4, 100, NULL, 0);
	refuse(&r, 600, VQ_NET_NO_BUFFERS);
	receiver_post(&r, 1, 100, NULL, 0);
	refuse(&r, 600, VQ_NET_TOO_BIG);
	receiver_fill(&r, 100);
	refuse(&r, 600, VQ_NET_TOO_BIG);
	deliver(&r, 488, 1, 5);
	receiver_expect_none(&r);
	receiver_free(&r);

	/* By segments: three chains of four do not fit ten. */
	receiver_init(&r, 64, MERGEABLE, 32, 10);
	receiver_post(&r, 6, 100, cuts, 3);
	refuse(&r, 250, VQ_NET_TOO_BIG);
	deliver(&r, 188, 1, 2);
	deliver(&r, 60, 2, 1);
	receiver_expect_none(&r);
	receiver_free(&r);
}

/* One buffer, its descriptors cut at every byte of header and payload; three cuts as well. */
static void
receive_chains_cut_at_every_byte(void **state)
{
	static const uint64_t features[] = {MERGEABLE, MERGEABLE | HASH, MODERN, LEGACY};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(features); i++) {
		struct receiver r;

		receiver_init(&r, 64, features[i], 8, 256);
		for (uint32_t cut = 1; cut < 160; cut++) {
			const uint32_t cuts[3] = {cut, cut + 1, cut + 11};

			receiver_post(&r, 1, 180, cuts, 1);
			deliver(&r, 150, cut, 1);
			receiver_post(&r, 1, 180, cuts, 3);
			deliver(&r, 150, cut, 1);
			/* To the last byte of it. */
			receiver_post(&r, 1, 180, cuts, 3);
			deliver(&r, 180 - r.hdr_len, cut, 1);
			if (!r.mergeable)
				continue;
			receiver_post(&r, 3, 180, cuts, 3);
			deliver(&r, 500, cut, 3);
		}
		receiver_expect_none(&r);
		receiver_free(&r);
	}
}

/* Without MRG_RXBUF: one chain a frame, exact fit, a byte too big; the chain stays for the next. */
static void
not_mergeable(void **state)
{
	static const uint64_t features[] = {MODERN, LEGACY, MODERN | HASH};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(features); i++) {
		static const uint32_t cuts[2] = {10, 300};
		struct receiver r;
		uint32_t most;

		receiver_init(&r, 16, features[i], 8, 64);
		most = 1526 - r.hdr_len;
		refuse(&r, 60, VQ_NET_NO_BUFFERS);
		receiver_post(&r, 2, 1526, NULL, 0);
		receiver_post(&r, 2, 1526, cuts, 2);
		refuse(&r, most + 1, VQ_NET_TOO_BIG);
		deliver(&r, most, 1, 1);
		refuse(&r, 9000, VQ_NET_TOO_BIG);
		deliver(&r, 14, 2, 1);
		refuse(&r, most + 1, VQ_NET_TOO_BIG);
		deliver(&r, most, 3, 1);
		deliver(&r, 1000, 4, 1);
		refuse(&r, 60, VQ_NET_NO_BUFFERS);
		pair_expect_level(&r.pair);
		receiver_free(&r);
	}
}

/* A 64 KiB chain for a frame as large, the way a driver without MRG_RXBUF posts them. */
static void
large_chains(void **state)
{
	static const uint32_t lens[] = {60, 1514, 65535, 65550};
	struct receiver r;

	(void)state;
	receiver_init(&r, 16, MODERN, 8, 64);
	for (uint32_t i = 0; i < COUNT_OF(lens); i++) {
		r.next = 0;
		receiver_post(&r, 1, 65562, NULL, 0);
		deliver(&r, lens[i], i, 1);
	}
	receiver_expect_none(&r);
	receiver_free(&r);
}

/* Frames as they lie in mbufs: no head, several segments, any headroom; or a head over pieces. */
static void
frames_of_every_shape(void **state)
{
	static const uint32_t lens[] = {14, 15, 60, 64, 65, 200, 1400};
	struct receiver r;
	uint32_t seq = 0;

	(void)state;
	receiver_init(&r, 64, MERGEABLE, 32, 64);
	for (uint32_t i = 0; i < 2 * COUNT_OF(lens); i++) {
		uint32_t len = lens[i / 2];

		for (uint32_t nseg = 1; nseg <= 14; nseg++) {
			for (uint32_t skip = 0; skip <= 128; skip = 2 * skip + 1) {
				uint32_t size = 100 + seq % 900;
				struct flat f;

				receiver_fill(&r, size);
				flat_init_pieces(&f, len, ++seq, nseg, skip, i % 2);
				if (12 + len > 64 * size) {
					flat_free(&f);
					continue;
				}
				assert_int_equal(receiver_put(&r, &f.f), VQ_NET_OK);
				receiver_expect(&r, f.bytes, len, (12 + len + size - 1) / size);
				receiver_expect_none(&r);
				flat_free(&f);
				/* Another size of buffers for the next one. */
				while (vq_driver_inflight(&r.pair.driver) != 0)
					deliver(&r, 14, seq, 1);
			}
		}
	}
	receiver_free(&r);
}

/* Buffers and frames of any size, in any order; the model says what must become of each. */
static void
random_rings(void **state)
{
	uint64_t random = 41;
	uint64_t delivered = 0;
	struct receiver r;

	(void)state;
	receiver_init(&r, 32, MERGEABLE, 32, 200);
	for (uint32_t round = 0; round < 1500; round++) {
		uint32_t want = rnd_below(&random, 33), n = 1 + rnd_below(&random, 8);
		const struct vq_frame *frames[8];
		struct flat f[8];
		uint8_t status[8];

		while (want-- != 0 && vq_driver_free(&r.pair.driver) >= 3) {
			uint32_t len = 21 + rnd_below(&random, 300);
			uint32_t cuts[2] = {1 + rnd_below(&random, 15), 16 + rnd_below(&random, 5)};

			receiver_post(&r, 1, len, cuts, rnd_below(&random, 3));
		}
		for (uint32_t i = 0; i < n; i++) {
			flat_init_pieces(&f[i], 14 + rnd_below(&random, 700), i,
				1 + rnd_below(&random, 3), rnd_below(&random, 20),
				rnd_below(&random, 2));
			frames[i] = &f[i].f;
		}
		(void)vq_net_put(&r.pair.device, r.burst, frames, n, 12, true, status, &r.copied);
		for (uint32_t i = 0; i < n; i++) {
			if (status[i] == VQ_NET_OK) {
				uint32_t have = 0, count = 0;
				uint16_t id = r.pair.driver.used_idx;

				/* As few buffers as hold it, by the lengths that were posted. */
				while (have < 12 + f[i].f.len) {
					uint16_t head =
						vq_load(&r.pair.driver.avail->ring[id++ & 31]);

					have += r.pair.driver.slots[head].len;
					count++;
				}
				receiver_expect(&r, f[i].bytes, f[i].f.len, count);
				delivered += f[i].f.len;
			} else {
				assert_true(status[i] == VQ_NET_NO_BUFFERS ||
					    status[i] == VQ_NET_TOO_BIG);
			}
			flat_free(&f[i]);
		}
		receiver_expect_none(&r);
		assert_int_equal(r.copied.delivered, delivered);
	}
	receiver_free(&r);
}

/* Nothing to put changes nothing. */
static void
no_frames(void **state)
{
	struct receiver r;

	(void)state;
	receiver_init(&r, 16, MERGEABLE, 8, 8);
	for (uint32_t i = 0; i < 2; i++) {
		assert_int_equal(
			vq_net_put(&r.pair.device, r.burst, NULL, 0, 12, true, NULL, &r.copied), 0);
		receiver_expect_none(&r);
		receiver_fill(&r, 100);
	}
	deliver(&r, 60, 1, 1);
	receiver_free(&r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(exactly_n_of_n_buffers),
		cmocka_unit_test(too_few_buffers_drop_it_whole),
		cmocka_unit_test(the_ring_is_rewound),
		cmocka_unit_test(jumbo_frames_in_bursts),
		cmocka_unit_test(beyond_the_working_space),
		cmocka_unit_test(receive_chains_cut_at_every_byte),
		cmocka_unit_test(not_mergeable),
		cmocka_unit_test(large_chains),
		cmocka_unit_test(frames_of_every_shape),
		cmocka_unit_test(random_rings),
		cmocka_unit_test(no_frames),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
