/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Frames from the transmit queue of one hostile driver into the receive queue of another, or of the
 * same one. What must hold: no byte outside the guests' memory is touched, each frame has a fate,
 * what was taken from either ring was completed or put back, and the work is bounded.
 */

#include <stdlib.h>

#include "arena.h"
#include "between.h"
#include "reference.h"
#include "vq_net.h"

#define BURST_MAX 32
#define SEGS_MAX  64
#define OWN_MAX   70000

/* What an ethdev's mbuf would hold. */
static uint8_t own[OWN_MAX];

struct end {
	struct hostile_guest *guest;
	struct hostile_ring ring;
	struct vq_device q;
	struct vq_net_burst *burst;
	uint64_t features;
	uint32_t hdr_len;
};

struct session {
	struct hostile_guest guests[2];
	struct end tx, rx;
	bool apart; /* no buffer of a guest lies in a ring */
	uint32_t taken;
	struct between seen;
};

static uint64_t
features(struct input *in)
{
	uint8_t bits = in_u8(in);

	return (bits & 1 ? VQ_FEATURE(EVENT_IDX) : 0) | (bits & 2 ? VQ_FEATURE(IN_ORDER) : 0) |
	       (bits & 4 ? 0 : VQ_FEATURE(INDIRECT_DESC)) | (bits & 8 ? VQ_FEATURE(VERSION_1) : 0) |
	       (bits & 16 ? 0 : VQ_FEATURE(MRG_RXBUF)) | (bits & 32 ? VQ_FEATURE(HASH_REPORT) : 0);
}

static void
start(struct end *e, uint64_t bits, uint16_t base)
{
	const struct vq_device_config config = {
		.size = e->ring.size,
		.features = bits,
		.base = base,
		.desc = e->ring.desc,
		.avail = e->ring.avail,
		.used = e->ring.used,
		.mem = e->guest->mem,
	};

	MUST(vq_device_init(&e->q, &config) == 0);
	e->features = bits;
	e->hdr_len = vq_net_hdr_len(bits);
}

static void
end_init(struct end *e, struct hostile_guest *g, struct input *in, bool addressable)
{
	uint8_t log2 = in_below(in, 9);
	uint16_t base = in_u16(in);
	uint32_t burst = 1 + in_below(in, BURST_MAX), nsegs = 1 + in_below(in, SEGS_MAX);

	e->guest = g;
	hostile_ring_init(&e->ring, g, 1u << log2, base, addressable);
	e->burst = vq_net_burst_create(burst, nsegs);
	MUST(e->burst != NULL);
	start(e, features(in), base);
}

static void
take(struct session *s, struct input *in)
{
	struct vq_net_burst *b = s->tx.burst;
	uint32_t want = in_u8(in) % (b->burst + 1);

	if (s->taken != 0)
		return;
	between_enter();
	s->taken = vq_net_take(&s->tx.q, b, want, s->tx.hdr_len);
	s->seen = between_leave();
	MUST(s->seen.shared <= 4 + 16 * (b->nsegs + UINT64_C(6) * want));
	MUST(s->taken <= want);
	for (uint32_t i = 0; i < s->taken; i++) {
		const struct vq_frame *f = &b->frames[i];
		uint64_t have = 0;

		MUST(f->status <= VQ_NET_RUNT);
		if (f->status != VQ_NET_OK)
			continue;
		MUST(f->len >= VQ_NET_FRAME_MIN);
		MUST(f->head_len == (f->len < VQ_NET_HEAD ? f->len : VQ_NET_HEAD));
		MUST(f->head == b->heads[i]);
		for (uint32_t k = 0; k < f->nseg; k++) {
			MUST(hostile_guest_holds(s->tx.guest, &f->segs[k]));
			have += f->segs[k].len;
		}
		MUST(f->skip < f->segs[0].len);
		MUST(have == (uint64_t)f->skip + f->len);
	}
}

static void
release(struct session *s)
{
	uint16_t used = s->tx.q.used_idx;

	between_enter();
	MUST(vq_net_release(&s->tx.q, s->tx.burst, s->taken) == s->taken);
	s->seen = between_leave();
	MUST(s->tx.q.used_idx == (uint16_t)(used + s->taken));
	MUST(s->tx.q.outstanding == 0);
	s->taken = 0;
}

/* Frames of ours, in up to three pieces. */
static void
own_frame(struct input *in, struct vq_frame *f, struct vq_seg segs[3])
{
	uint8_t how = in_u8(in);
	uint32_t left, cut;

	memset(f, 0, sizeof(*f));
	f->len = VQ_NET_FRAME_MIN + (how & 1 ? in_u16(in) : in_u8(in));
	f->skip = how >> 1 & 7;
	f->segs = segs;
	f->nseg = 1 + (how >> 4) % 3;
	left = f->len + f->skip;
	for (uint32_t i = 0; i < f->nseg; i++) {
		cut = i + 1 == f->nseg ? left : 1 + f->skip + in_u8(in) % (left / 4 + 1);
		cut = cut < left - (f->nseg - 1 - i) ? cut : left - (f->nseg - 1 - i);
		segs[i] = (struct vq_seg){own + 4096 * i, cut};
		left -= cut;
	}
}

static void
put(struct session *s, struct input *in)
{
	struct end *rx = &s->rx;
	const struct vq_net_burst *b = rx->burst;
	const struct vq_frame *frames[BURST_MAX + 1];
	struct vq_frame mine;
	struct vq_seg segs[3];
	struct vq_net_copied copied = {0, 0};
	uint8_t *status;
	uint8_t how = in_u8(in), fault = rx->q.fault;
	uint16_t avail = rx->q.avail_idx, used = rx->q.used_idx;
	uint32_t n = 0, got;
	uint64_t bytes = 0, written = 0, walked = rx->q.walked;
	bool mergeable = rx->features & VQ_FEATURE(MRG_RXBUF);

	for (uint32_t i = 0; i < s->taken; i++)
		if (s->tx.burst->frames[i].status == VQ_NET_OK)
			frames[n++] = &s->tx.burst->frames[i];
	if (how & 1) {
		own_frame(in, &mine, segs);
		frames[n++] = &mine;
	}
	status = malloc(n != 0 ? n : 1);
	MUST(status != NULL);
	memset(status, 0xff, n);
	/* A driver that posts more whenever we look. */
	if (how & 0x80)
		between_advance(
			&rx->ring.avail->idx, how & 0x40 ? (uint16_t)rx->ring.size : how >> 2 & 15);
	between_enter();
	got = vq_net_put(&rx->q, rx->burst, frames, n, rx->hdr_len, mergeable, status, &copied);
	s->seen = between_leave();
	between_advance(NULL, 0);
	/* The descriptors of n bursts and of one batch more; no more chains than a ring has. */
	walked = rx->q.walked - walked;
	MUST(walked <= (n + 2) * (uint64_t)b->nsegs + 22 * (uint64_t)b->burst);
	/* A look sees a batch of heads, and takes and completes one chain at least. */
	MUST(s->seen.shared <=
		64 + 16 * (walked + b->burst) +
			(b->burst + UINT64_C(6)) * (rx->ring.size + n + UINT64_C(2)));
	MUST(rx->q.outstanding == 0);
	MUST((uint16_t)(rx->q.avail_idx - avail) == (uint16_t)(rx->q.used_idx - used));
	MUST(got == (uint16_t)(rx->q.used_idx - used));
	MUST(got <= rx->ring.size);
	if (fault != VQ_DEVICE_OK)
		MUST(got == 0 && rx->q.fault == fault);
	for (uint32_t i = 0; i < n; i++) {
		MUST(status[i] == VQ_NET_OK || status[i] == VQ_NET_NO_BUFFERS ||
			status[i] == VQ_NET_TOO_BIG || status[i] == VQ_NET_BROKEN);
		if (status[i] == VQ_NET_BROKEN)
			MUST(rx->q.fault != VQ_DEVICE_OK);
		if (status[i] == VQ_NET_OK)
			bytes += frames[i]->len, written += frames[i]->len + rx->hdr_len;
	}
	MUST(copied.delivered == bytes && copied.copied == bytes);
	/* The used entries say it too, where nobody else writes them. */
	if (s->apart && s->seen.changes == 0) {
		for (uint32_t i = 0; i < got; i++) {
			const struct vq_used_elem *e =
				&rx->ring.used->ring[(used + i) & rx->q.mask];
			uint64_t room;

			written -= e->len;
			if (reference_direct(&rx->ring, true, e->id, &room))
				MUST(e->len <= room);
		}
		MUST(written == 0);
	}
	free(status);
}

static void
read_frame(struct session *s, struct input *in)
{
	const struct vq_frame *f;
	uint32_t off, len;
	uint8_t *to;

	if (s->taken == 0)
		return;
	f = &s->tx.burst->frames[in_u8(in) % s->taken];
	if (f->status != VQ_NET_OK)
		return;
	off = in_u16(in) % f->len;
	len = in_u16(in) % (f->len - off + 1);
	to = malloc(len + 1);
	MUST(to != NULL);
	vq_frame_read(f, off, to, len);
	free(to);
}

static void
step(struct session *s, struct input *in)
{
	struct end *e;
	uint8_t how;

	switch (in_below(in, 16)) {
	case 0:
	case 1:
		take(s, in);
		break;
	case 2:
	case 3:
		put(s, in);
		break;
	case 4:
		release(s);
		break;
	case 5:
		read_frame(s, in);
		break;
	case 6: /* another device on either ring */
		how = in_u8(in);
		e = how & 1 ? &s->rx : &s->tx;
		if (e == &s->tx)
			s->taken = 0;
		start(e, how & 2 ? features(in) : e->features, vq_device_base(&e->q));
		break;
	case 7:
	case 8:
	case 9:
	case 10:
	case 11:
		hostile_ring_step(&s->tx.ring, in, false);
		break;
	default:
		hostile_ring_step(&s->rx.ring, in, true);
		break;
	}
	MUST(s->tx.q.outstanding == s->taken);
	MUST(s->rx.q.outstanding == 0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct session s;
	uint8_t shape = in_u8(&in);
	bool same = shape & 1, addressable = shape & 2;

	arena_reset();
	between_start(&in);
	memset(&s, 0, sizeof(s));
	s.apart = !addressable;
	hostile_guest_init(&s.guests[0], &in);
	if (!same)
		hostile_guest_init(&s.guests[1], &in);
	end_init(&s.tx, &s.guests[0], &in, addressable);
	end_init(&s.rx, &s.guests[same ? 0 : 1], &in, addressable);
	/* The map of both, when there is one, is complete only now. */
	s.tx.q.mem = s.tx.guest->mem;
	while (in_more(&in))
		step(&s, &in);
	vq_net_burst_destroy(s.tx.burst);
	vq_net_burst_destroy(s.rx.burst);
	hostile_guest_free(&s.guests[0]);
	hostile_guest_free(&s.guests[1]);
	return 0;
}
