/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Both ends in one process and one thread, at the limits: packets that need all the buffers of a
 * ring of any size and one more, and headers that are cut at every byte at both ends.
 */

#include <stdlib.h>
#include <string.h>

#include "pair.h"
#include "vq_net.h"

#define MRG    VQ_FEATURE(MRG_RXBUF)
#define MODERN VQ_FEATURE(VERSION_1)
#define HASH   VQ_FEATURE(HASH_REPORT)

/* A ring of a guest, whose buffers lie one behind the other. */
struct ring {
	struct guest guest;
	struct pair pair;
	struct vq_net_burst *burst;
	uint32_t size, hdr_len, buffer;
	bool mergeable;
	uint32_t next; /* buffer to post next; they come back in order */
	uint32_t back; /* buffer to come back next */
	uint8_t *frame, *packet;
};

static void
ring_init(struct ring *r, uint32_t size, uint64_t features, uint16_t base, uint32_t extra)
{
	struct pair_config config = {.size = size, .features = features, .base = base};

	memset(r, 0, sizeof(*r));
	r->size = size;
	r->hdr_len = vq_net_hdr_len(features);
	r->mergeable = (features & MRG) != 0;
	r->buffer = r->hdr_len + FRAME_MIN + extra;
	guest_init(&r->guest, 3, (uint64_t)size * r->buffer / 3 + 7, 0);
	if (features & VQ_FEATURE(INDIRECT_DESC)) {
		config.table_len = size;
		config.table_addr =
			guest_add_sparse(&r->guest, (uint64_t)size * size * sizeof(struct vq_desc));
	}
	pair_init(&r->pair, &r->guest, &config);
	r->burst = vq_net_burst_create(size < 4 ? 4 : size, 2 * size + 8);
	r->frame = malloc((size_t)size * r->buffer + 1);
	r->packet = malloc((size_t)size * r->buffer + 1);
	assert_true(r->burst != NULL && r->frame != NULL && r->packet != NULL);
	pair_say("size %u base %u features 0x%lx buffers of %u", size, base,
		(unsigned long)features, r->buffer);
}

static void
ring_free(struct ring *r)
{
	pair_expect_level(&r->pair);
	vq_net_burst_destroy(r->burst);
	free(r->frame);
	free(r->packet);
	pair_free(&r->pair);
	guest_free(&r->guest);
	pair_say_nothing();
}

static void
post(struct ring *r, uint32_t n)
{
	for (; n != 0; n--, r->next++)
		vq_driver_add(&r->pair.driver, GUEST_BASE + (r->next % r->size) * r->buffer,
			r->buffer, VQ_DESC_WRITE, (void *)(uintptr_t)(r->next % r->size + 1));
	vq_driver_publish(&r->pair.driver);
}

/* Frames of such lengths in one burst; what became of each. They all are frame number 1. */
static void
put(struct ring *r, const uint32_t *lens, uint32_t n, uint8_t *status)
{
	static struct vq_seg seg[4];
	struct vq_frame frame[4];
	const struct vq_frame *frames[4];
	struct vq_net_copied copied = {0};
	uint64_t delivered = 0;
	uint8_t *bytes[4];

	for (uint32_t i = 0; i < n; i++) {
		bytes[i] = malloc(lens[i]);
		frame_make(bytes[i], lens[i], 1);
		seg[i] = (struct vq_seg){.base = bytes[i], .len = lens[i]};
		frame[i] = (struct vq_frame){.segs = &seg[i], .nseg = 1, .len = lens[i]};
		frames[i] = &frame[i];
	}
	memset(status, 0xff, n);
	(void)vq_net_put(
		&r->pair.device, r->burst, frames, n, r->hdr_len, r->mergeable, status, &copied);
	for (uint32_t i = 0; i < n; i++) {
		if (status[i] == VQ_NET_OK)
			delivered += lens[i];
		free(bytes[i]);
	}
	assert_int_equal(copied.delivered, delivered);
	assert_int_equal(copied.copied, delivered);
	assert_int_equal(r->pair.device.outstanding, 0);
}

static enum vq_net_status
put_one(struct ring *r, uint32_t len)
{
	uint8_t status;

	put(r, &len, 1, &status);
	return (enum vq_net_status)status;
}

/* The next packet is the frame of `len` bytes in so many buffers. */
static void
expect(struct ring *r, uint32_t len, uint32_t buffers)
{
	uint8_t hdr[VQ_NET_HDR_MAX] = {0};
	uint32_t got = 0;

	for (uint32_t i = 0; i < buffers; i++, r->back++) {
		uint32_t piece, left = r->hdr_len + len - got;
		void *c;

		assert_int_equal(vq_driver_reap(&r->pair.driver, &c, &piece, 1), 1);
		assert_int_equal((uintptr_t)c, r->back % r->size + 1);
		assert_int_equal(piece, left < r->buffer ? left : r->buffer);
		guest_read(&r->guest, GUEST_BASE + (r->back % r->size) * r->buffer, r->packet + got,
			piece);
		got += piece;
	}
	assert_int_equal(got, r->hdr_len + len);
	if (r->hdr_len >= 12)
		memcpy(hdr + 10, &buffers, 2);
	assert_memory_equal(r->packet, hdr, r->hdr_len);
	assert_true(frame_ok(r->packet + r->hdr_len, len, 1));
}

static void
expect_nothing(struct ring *r)
{
	uint32_t len;
	void *c;

	assert_int_equal(vq_driver_reap(&r->pair.driver, &c, &len, 1), 0);
	assert_int_equal(r->pair.driver.fault, VQ_DRIVER_OK);
	assert_int_equal(r->pair.device.fault, VQ_DEVICE_OK);
}

/* N of N buffers, N + 1 of N, N of N - 1: it passes, or it is dropped whole and the ring goes on.
 */
static void
all_buffers_of_a_ring(uint32_t size, uint64_t features, uint16_t base, uint32_t extra)
{
	struct ring r;
	uint32_t all, one;
	uint8_t status[4];

	ring_init(&r, size, features, base, extra);
	all = size * r.buffer - r.hdr_len;
	one = r.buffer - r.hdr_len;

	post(&r, size);
	assert_int_equal(put_one(&r, all + 1), VQ_NET_TOO_BIG);
	expect_nothing(&r);
	assert_int_equal(put_one(&r, all), VQ_NET_OK);
	expect(&r, all, size);
	expect_nothing(&r);

	/* The first byte of the last buffer, behind one that does not fit. */
	post(&r, size);
	if (size > 1) {
		const uint32_t lens[] = {all + 1, all - r.buffer + 1, all};

		put(&r, lens, 3, status);
		assert_int_equal(status[0], VQ_NET_TOO_BIG);
		assert_int_equal(status[1], VQ_NET_OK);
		assert_int_equal(status[2], VQ_NET_NO_BUFFERS);
		expect(&r, lens[1], size);
		post(&r, size - 1);
	} else {
		assert_int_equal(put_one(&r, all), VQ_NET_OK);
		expect(&r, all, size);
	}

	/* One buffer too few, now; one that needs less goes in the same burst. */
	if (size > 1) {
		const uint32_t lens[] = {all, one, all};

		put(&r, lens, 3, status);
		assert_int_equal(status[0], VQ_NET_NO_BUFFERS);
		assert_int_equal(status[1], VQ_NET_OK);
		assert_int_equal(status[2], VQ_NET_NO_BUFFERS);
		expect(&r, one, 1);
		expect_nothing(&r);
		post(&r, 2);
		assert_int_equal(put_one(&r, all), VQ_NET_OK);
		expect(&r, all, size);
	} else {
		assert_int_equal(put_one(&r, one), VQ_NET_NO_BUFFERS);
	}
	expect_nothing(&r);
	ring_free(&r);
}

static void
merged_over_all_buffers(void **state)
{
	static const uint64_t headers[] = {MRG, MRG | MODERN, MRG | HASH};

	(void)state;
	for (uint32_t s = 0; s < PAIR_SIZES; s++) {
		for (uint32_t b = 0; b < BASES; b++) {
			uint64_t features = headers[(s + b) % 3];

			features |= (b & 1) ? VQ_FEATURE(IN_ORDER) : 0;
			features |= (b & 2) ? VQ_FEATURE(EVENT_IDX) : 0;
			all_buffers_of_a_ring(
				pair_size(s), features, pair_base(pair_size(s), b), (s + b) % 5);
		}
	}
}

/* Without MRG_RXBUF: one chain of as many descriptors as the ring has, full to the last byte. */
static void
a_chain_of_all_descriptors(uint32_t size, uint64_t features, uint16_t base, bool indirect)
{
	struct vq_sg *sg = malloc(size * sizeof(*sg));
	uint32_t total, piece;
	struct ring r;
	void *c;

	ring_init(&r, size, features, base, 3);
	total = size * r.buffer;
	for (uint32_t i = 0; i < size; i++)
		sg[i] = (struct vq_sg){.addr = GUEST_BASE + i * r.buffer, .len = r.buffer};
	for (uint32_t spare = 0; spare < 2; spare++) {
		if (indirect)
			vq_driver_add_indirect(&r.pair.driver, sg, size, VQ_DESC_WRITE, sg);
		else
			vq_driver_add_chain(&r.pair.driver, sg, size, VQ_DESC_WRITE, sg);
		assert_int_equal(vq_driver_free(&r.pair.driver), indirect ? size - 1 : 0);
		vq_driver_publish(&r.pair.driver);
		assert_int_equal(put_one(&r, total - r.hdr_len + 1), VQ_NET_TOO_BIG);
		expect_nothing(&r);
		assert_int_equal(put_one(&r, total - r.hdr_len - spare), VQ_NET_OK);
		assert_int_equal(vq_driver_reap(&r.pair.driver, &c, &piece, 1), 1);
		assert_ptr_equal(c, sg);
		assert_int_equal(piece, total - spare);
		guest_read(&r.guest, GUEST_BASE, r.packet, total);
		assert_true(frame_ok(r.packet + r.hdr_len, total - r.hdr_len - spare, 1));
	}
	ring_free(&r);
	free(sg);
}

static void
one_chain_over_the_ring(void **state)
{
	static const uint64_t headers[] = {0, MODERN, HASH};

	(void)state;
	for (uint32_t s = 0; s < PAIR_SIZES; s++) {
		for (uint32_t b = 0; b < BASES; b++) {
			uint64_t features = headers[(s + b) % 3];
			bool indirect = (b + s / 3) % 2;

			features |= (b & 2) ? VQ_FEATURE(IN_ORDER) : 0;
			features |= (b & 4) ? VQ_FEATURE(EVENT_IDX) : 0;
			features |= indirect ? VQ_FEATURE(INDIRECT_DESC) : 0;
			a_chain_of_all_descriptors(
				pair_size(s), features, pair_base(pair_size(s), b), indirect);
		}
	}
}

/* Two rings of one guest, from the first to the second. */
#define CUT_SIZE  128u
#define CUT_FRAME 17u
#define CUT_AT    (GUEST_BASE + 0x1000)

struct cut {
	struct guest guest;
	struct pair tx, rx;
	struct vq_net_burst *take, *put;
	uint32_t hdr_len, number;
	bool mergeable;
};

/* Send a frame whose packet is cut so into a buffer of just its length that is cut so. */
static void
send_cut(struct cut *t, const uint32_t *tx_cuts, uint32_t ntx, const uint32_t *rx_cuts,
	uint32_t nrx, bool indirect)
{
	uint32_t total = t->hdr_len + CUT_FRAME, len;
	uint8_t packet[VQ_NET_HDR_MAX + CUT_FRAME + 1], hdr[VQ_NET_HDR_MAX] = {0};
	const struct vq_frame *frame = &t->take->frames[0];
	struct vq_net_copied copied = {0};
	uint8_t status = 0xff;
	void *c;

	memset(packet, 0x99, t->hdr_len);
	frame_make(packet + t->hdr_len, CUT_FRAME, ++t->number);
	guest_write(&t->guest, GUEST_BASE, packet, total);
	guest_fill(&t->guest, CUT_AT, 0x77, total + 1);
	pair_add(&t->tx, GUEST_BASE, total, tx_cuts, ntx, false, indirect, &t->tx);
	pair_add(&t->rx, CUT_AT, total, rx_cuts, nrx, true, indirect, &t->rx);
	vq_driver_publish(&t->tx.driver);
	vq_driver_publish(&t->rx.driver);
	assert_int_equal(vq_net_take(&t->tx.device, t->take, 1, t->hdr_len), 1);
	assert_int_equal(frame->status, VQ_NET_OK);
	assert_int_equal(vq_net_put(&t->rx.device, t->put, &frame, 1, t->hdr_len, t->mergeable,
				 &status, &copied),
		1);
	assert_int_equal(status, VQ_NET_OK);
	assert_int_equal(vq_net_release(&t->tx.device, t->take, 1), 1);
	assert_int_equal(vq_driver_reap(&t->tx.driver, &c, NULL, 1), 1);
	assert_int_equal(vq_driver_reap(&t->rx.driver, &c, &len, 1), 1);
	assert_int_equal(len, total);
	guest_read(&t->guest, CUT_AT, packet, total + 1);
	if (t->hdr_len >= 12)
		hdr[10] = 1;
	assert_memory_equal(packet, hdr, t->hdr_len);
	assert_true(frame_ok(packet + t->hdr_len, CUT_FRAME, t->number));
	assert_int_equal(packet[total], 0x77);
}

static void
cut_at_every_byte(struct cut *t, bool indirect)
{
	uint32_t total = t->hdr_len + CUT_FRAME;
	uint32_t every[VQ_NET_HDR_MAX + CUT_FRAME];

	for (uint32_t i = 0; i < total; i++)
		every[i] = i + 1;
	for (uint32_t a = 0; a < total; a++) {
		for (uint32_t b = 0; b < total; b++) {
			pair_say("header %u, cut at %u and %u, %s", t->hdr_len, a, b,
				indirect ? "indirect" : "direct");
			/* 0 is no cut. */
			send_cut(t, &a, a != 0, &b, b != 0, indirect);
			if (b > a && a != 0) {
				uint32_t both[2] = {a, b};

				send_cut(t, both, 2, both, 2, indirect);
			}
		}
		/* Into single bytes, of which the first a are in one piece. */
		if (a != 0) {
			send_cut(t, every + a - 1, total - a, every, total - 1, indirect);
			send_cut(t, every, total - 1, every + a - 1, total - a, indirect);
		}
	}
	pair_say_nothing();
}

static void
headers_cut_at_both_ends(void **state)
{
	static const uint64_t features[] = {0, MRG, MODERN, MODERN | MRG, HASH, HASH | MRG};

	(void)state;
	for (uint32_t i = 0; i < 2 * COUNT_OF(features); i++) {
		bool indirect = i % 2;
		struct pair_config config = {
			.size = CUT_SIZE,
			.features = features[i / 2] | (indirect ? VQ_FEATURE(INDIRECT_DESC) : 0),
			.base = 65000,
			.table_len = indirect ? CUT_SIZE : 0,
		};
		struct cut t = {.hdr_len = vq_net_hdr_len(config.features),
			.mergeable = (config.features & MRG) != 0};

		/* The last byte of the buffer is the last one of its region. */
		guest_init(&t.guest, 2, 0x1000 + t.hdr_len + CUT_FRAME, 0);
		if (indirect)
			config.table_addr = guest_add_sparse(
				&t.guest, 2 * CUT_SIZE * CUT_SIZE * sizeof(struct vq_desc));
		pair_init(&t.tx, &t.guest, &config);
		config.table_addr += CUT_SIZE * CUT_SIZE * sizeof(struct vq_desc);
		pair_init(&t.rx, &t.guest, &config);
		t.take = vq_net_burst_create(1, CUT_SIZE);
		t.put = vq_net_burst_create(1, CUT_SIZE);
		cut_at_every_byte(&t, indirect);
		pair_expect_level(&t.tx);
		pair_expect_level(&t.rx);
		vq_net_burst_destroy(t.take);
		vq_net_burst_destroy(t.put);
		pair_free(&t.tx);
		pair_free(&t.rx);
		guest_free(&t.guest);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(merged_over_all_buffers, pair_said),
		cmocka_unit_test_teardown(one_chain_over_the_ring, pair_said),
		cmocka_unit_test_teardown(headers_cut_at_both_ends, pair_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
