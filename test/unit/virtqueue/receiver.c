/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>

#include "receiver.h"

#define FILL 0x5c

void
receiver_init(struct receiver *r, uint32_t size, uint64_t features, uint32_t burst, uint32_t nsegs)
{
	struct pair_config config = {.size = size, .features = features, .base = 65530};

	memset(r, 0, sizeof(*r));
	/* Regions that end in the middle of a buffer. */
	guest_init(&r->guest, 8, BUFFERS * BUFFER_STRIDE / 8 + 100, 0);
	pair_init(&r->pair, &r->guest, &config);
	r->burst = vq_net_burst_create(burst, nsegs);
	assert_non_null(r->burst);
	r->hdr_len = vq_net_hdr_len(features);
	r->mergeable = (features & VQ_FEATURE(MRG_RXBUF)) != 0;
}

void
receiver_free(struct receiver *r)
{
	vq_net_burst_destroy(r->burst);
	pair_free(&r->pair);
	guest_free(&r->guest);
}

static uint64_t
buffer_at(uint32_t i)
{
	return GUEST_BASE + i * BUFFER_STRIDE;
}

void
receiver_post(struct receiver *r, uint32_t n, uint32_t len, const uint32_t *cuts, uint32_t ncuts)
{
	assert_true(len < BUFFER_STRIDE || n == 1);
	while (n-- != 0) {
		uint32_t i = r->next;

		r->next = (r->next + 1) % BUFFERS;
		r->lens[i] = len;
		guest_fill(&r->guest, buffer_at(i), FILL, BUFFER_STRIDE);
		pair_add(&r->pair, buffer_at(i), len, cuts, ncuts, true, false,
			(void *)(uintptr_t)(i + 1));
	}
	vq_driver_publish(&r->pair.driver);
}

void
receiver_fill(struct receiver *r, uint32_t len)
{
	receiver_post(r, vq_driver_free(&r->pair.driver), len, NULL, 0);
}

enum vq_net_status
receiver_put(struct receiver *r, const struct vq_frame *f)
{
	uint8_t status = 0xff;

	(void)vq_net_put(
		&r->pair.device, r->burst, &f, 1, r->hdr_len, r->mergeable, &status, &r->copied);
	return (enum vq_net_status)status;
}

static uint32_t
next_buffer(struct receiver *r, uint32_t *len)
{
	uint32_t i;
	void *c;

	assert_int_equal(vq_driver_reap(&r->pair.driver, &c, len, 1), 1);
	i = (uint32_t)(uintptr_t)c - 1;
	assert_true(*len <= r->lens[i]);
	return i;
}

/* Behind what was written a buffer is as it was. */
static void
expect_untouched(const struct receiver *r, uint32_t i, uint32_t from)
{
	uint8_t bytes[BUFFER_STRIDE];

	if (from >= BUFFER_STRIDE)
		return;
	guest_read(&r->guest, buffer_at(i) + from, bytes, BUFFER_STRIDE - from);
	for (uint32_t k = 0; k < BUFFER_STRIDE - from; k++) {
		if (bytes[k] != FILL)
			fail_msg("byte %u of buffer %u was written", from + k, i);
	}
}

void
receiver_expect(struct receiver *r, const uint8_t *frame, uint32_t len, uint32_t buffers)
{
	uint8_t *packet = malloc(r->hdr_len + len + BUFFER_STRIDE);
	uint8_t hdr[VQ_NET_HDR_MAX] = {0};
	uint32_t got = 0, piece, i;

	i = next_buffer(r, &piece);
	assert_true(piece <= r->hdr_len + len);
	guest_read(&r->guest, buffer_at(i), packet, piece);
	expect_untouched(r, i, piece);
	got = piece;
	/* The header lies in the first buffer; all of it is 0 but num_buffers. */
	assert_true(piece >= r->hdr_len);
	if (r->hdr_len >= 12)
		memcpy(hdr + 10, &buffers, 2);
	assert_memory_equal(packet, hdr, r->hdr_len);
	for (uint32_t n = 1; n < buffers; n++) {
		i = next_buffer(r, &piece);
		assert_true(got + piece <= r->hdr_len + len);
		guest_read(&r->guest, buffer_at(i), packet + got, piece);
		expect_untouched(r, i, piece);
		got += piece;
	}
	assert_int_equal(got, r->hdr_len + len);
	assert_memory_equal(packet + r->hdr_len, frame, len);
	free(packet);
}

void
receiver_expect_empty(struct receiver *r)
{
	uint32_t len, i = next_buffer(r, &len);

	assert_int_equal(len, 0);
	expect_untouched(r, i, 0);
}

void
receiver_expect_none(struct receiver *r)
{
	uint32_t len;
	void *c;

	assert_int_equal(vq_driver_reap(&r->pair.driver, &c, &len, 1), 0);
	assert_int_equal(r->pair.driver.fault, VQ_DRIVER_OK);
	assert_int_equal(r->pair.device.outstanding, 0);
	assert_int_equal(r->copied.copied, r->copied.delivered);
}

void
flat_init(struct flat *f, uint32_t len, uint32_t seq)
{
	flat_init_pieces(f, len, seq, 1, 12, true);
}

void
flat_init_pieces(
	struct flat *f, uint32_t len, uint32_t seq, uint32_t nseg, uint32_t skip, bool with_head)
{
	uint32_t at = 0;

	memset(f, 0, sizeof(*f));
	assert_true(nseg >= 1 && nseg <= COUNT_OF(f->segs));
	f->bytes = malloc(len);
	frame_make(f->bytes, len, seq);
	/* Each piece an allocation of its own would be better still; a gap shows as much. */
	f->pieces = malloc(skip + len + 16 * nseg);
	memset(f->pieces, 0xbd, skip + len + 16 * nseg);
	for (uint32_t i = 0; i < nseg; i++) {
		uint32_t n = (i + 1) * len / nseg - i * len / nseg;
		uint32_t lead = i == 0 ? skip : 0;

		f->segs[i].base = f->pieces + at;
		f->segs[i].len = lead + n;
		memcpy(f->pieces + at + lead, f->bytes + i * len / nseg, n);
		at += lead + n + 16;
	}
	f->f.segs = f->segs;
	f->f.nseg = nseg;
	f->f.skip = skip;
	f->f.len = len;
	f->f.status = VQ_NET_OK;
	if (with_head) {
		f->f.head = f->head;
		f->f.head_len = len < VQ_NET_HEAD ? len : VQ_NET_HEAD;
		memcpy(f->head, f->bytes, f->f.head_len);
		/* What the copy must not be taken from. */
		for (uint32_t i = 0, left = f->f.head_len; left != 0; i++) {
			uint32_t lead = i == 0 ? skip : 0;
			uint32_t n = f->segs[i].len - lead < left ? f->segs[i].len - lead : left;

			memset(f->segs[i].base + lead, 0xbd, n);
			left -= n;
		}
	}
}

void
flat_free(struct flat *f)
{
	free(f->bytes);
	free(f->pieces);
}
