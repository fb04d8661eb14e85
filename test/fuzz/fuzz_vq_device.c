/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The device side of a queue against a hostile driver: every function of vq_device.h in any order
 * its contract allows. What must hold after each: only mapped memory is handed out, the counts
 * agree, the work is bounded, and broken stays broken.
 */

#include <stdlib.h>

#include "arena.h"
#include "between.h"
#include "hostile_driver.h"
#include "reference.h"

#define CHAINS_MAX 32
#define SEGS_MAX   64

struct session {
	struct hostile_guest guest;
	struct hostile_ring ring;
	struct vq_device q;
	uint64_t features;
	bool write;
	uint64_t now;
	struct between seen; /* of the last call */
	/* Handed out: chains[first..end), in arrays of exactly the sizes told. */
	struct vq_chain *chains;
	struct vq_seg *segs;
	uint32_t nchains, nsegs;
	uint32_t first, end;
	uint32_t published;  /* what vq_device_publish() last said */
	uint32_t unreported; /* published since the last decision */
};

/* Loads of one call that looks at `steps` descriptors at most, each searched for. */
static void
must_be_bounded(const struct between *b, uint64_t steps)
{
	MUST(b->shared <= 4 + 16 * steps);
	MUST(b->loads <= 400 + 400 * steps);
}

static void
must_agree(const struct session *s)
{
	MUST(s->q.outstanding == s->end - s->first);
	MUST(s->q.outstanding <= s->q.size);
	MUST(vq_device_base(&s->q) == (uint16_t)(s->q.avail_idx - (s->end - s->first)));
}

static void
start(struct session *s, uint64_t features, uint16_t base)
{
	const struct vq_device_config config = {
		.size = s->ring.size,
		.features = features,
		.base = base,
		.desc = s->ring.desc,
		.avail = s->ring.avail,
		.used = s->ring.used,
		.mem = s->guest.mem,
	};

	between_enter();
	MUST(vq_device_init(&s->q, &config) == 0);
	s->seen = between_leave();
	must_be_bounded(&s->seen, 0);
	MUST(vq_device_base(&s->q) == base);
	s->features = features;
	s->first = s->end = 0;
	s->published = s->unreported = 0;
}

static uint64_t
features(struct input *in)
{
	uint8_t bits = in_u8(in);

	return VQ_FEATURE(VERSION_1) | (bits & 1 ? VQ_FEATURE(EVENT_IDX) : 0) |
	       (bits & 2 ? VQ_FEATURE(IN_ORDER) : 0) | (bits & 4 ? 0 : VQ_FEATURE(INDIRECT_DESC));
}

/* What came is whole, in order, and in memory that is mapped. */
static void
check_chains(struct session *s, uint32_t n, uint32_t seg, const uint64_t *bad, bool write)
{
	uint64_t faults = 0;

	for (uint32_t i = s->end; i < s->end + n; i++) {
		const struct vq_chain *c = &s->chains[i];
		uint64_t len = 0;

		MUST(c->head < s->q.size);
		MUST(c->fault < VQ_CHAIN_SHORT);
		MUST(c->seg == seg);
		MUST(c->nseg <= s->nsegs - seg);
		for (uint32_t k = 0; k < c->nseg; k++) {
			MUST(hostile_guest_holds(&s->guest, &s->segs[seg + k]));
			len += s->segs[seg + k].len;
		}
		MUST(c->len == len);
		seg += c->nseg;
		if (c->fault != VQ_DEVICE_OK) {
			MUST(c->nseg == 0);
			faults++;
		}
		if (s->seen.changes == 0)
			reference_check(&s->ring, s->features, write, c, s->segs, s->nsegs);
	}
	for (uint32_t i = 0; i < VQ_DEVICE_FAULTS; i++)
		faults -= s->q.bad_chains[i] - bad[i];
	MUST(faults == 0);
}

static void
peek(struct session *s, struct input *in)
{
	uint8_t how = in_u8(in);
	uint32_t want = how & 31, seg = 0, n;
	bool write = how & 0x20 ? !s->write : s->write;
	uint8_t fault = s->q.fault;
	uint16_t at = s->q.avail_idx;
	uint64_t bad[VQ_DEVICE_FAULTS];

	if (s->first == s->end)
		s->first = s->end = 0;
	else
		seg = s->chains[s->end - 1].seg + s->chains[s->end - 1].nseg;
	if (want > s->nchains - s->end)
		want = s->nchains - s->end;
	/* A caller that kept nothing may still start further on. */
	if (how & 0x40 && seg < s->nsegs)
		seg += in_u8(in) % (s->nsegs - seg);
	memcpy(bad, s->q.bad_chains, sizeof(bad));
	/* A driver that never rests, in the way that hurts most. */
	between_advance(how & 0x80 ? &s->ring.avail->idx : NULL, (uint16_t)s->ring.size);
	between_enter();
	n = vq_device_peek(&s->q, write, s->chains + s->end, want, s->segs, s->nsegs, seg);
	s->seen = between_leave();
	between_advance(NULL, 0);
	must_be_bounded(&s->seen, s->nsegs + 6 * want);
	MUST(n <= want);
	MUST(s->q.avail_idx == (uint16_t)(at + n));
	if (fault != VQ_DEVICE_OK) {
		MUST(n == 0);
		MUST(s->q.fault == fault);
	}
	MUST(s->q.fault == VQ_DEVICE_OK || s->q.fault > VQ_CHAIN_SHORT);
	check_chains(s, n, seg, bad, write);
	s->end += n;
}

/* Write all of what was handed out, wherever the guest said. */
static void
use(struct session *s, uint8_t value)
{
	for (uint32_t i = s->first; i < s->end; i++) {
		const struct vq_chain *c = &s->chains[i];

		for (uint32_t k = c->seg; k < c->seg + c->nseg; k++)
			memset(s->segs[k].base, value, s->segs[k].len);
	}
}

static void
complete(struct session *s, struct input *in)
{
	for (uint32_t n = 1 + in_below(in, 8); n != 0 && s->first < s->end; n--) {
		const struct vq_chain *c = &s->chains[s->first++];
		uint32_t len = c->len == 0 ? 0 : in_u16(in) % (c->len + UINT64_C(1));
		const struct vq_used_elem *e = &s->ring.used->ring[s->q.used_idx & s->q.mask];

		between_enter();
		vq_device_complete(&s->q, c->head, len);
		s->seen = between_leave();
		must_be_bounded(&s->seen, 0);
		if (s->seen.changes == 0)
			MUST(e->id == c->head && e->len == len);
	}
}

static void
complete_tx(struct session *s, uint32_t n)
{
	uint16_t used = s->q.used_idx;

	if (n > s->end - s->first)
		n = s->end - s->first;
	between_enter();
	vq_device_complete_tx(&s->q, s->chains + s->first, n);
	s->seen = between_leave();
	must_be_bounded(&s->seen, n);
	MUST(s->q.used_idx == (uint16_t)(used + n));
	s->first += n;
}

static void
publish(struct session *s)
{
	uint32_t due = (uint16_t)(s->q.used_idx - s->q.published);

	between_enter();
	s->published = vq_device_publish(&s->q);
	s->seen = between_leave();
	MUST(s->published == due && s->q.published == s->q.used_idx);
	if (due != 0)
		MUST(vq_load(&s->ring.used->idx) == s->q.used_idx);
	s->unreported += due;
}

static void
must_decide(struct session *s, enum vq_call call)
{
	must_be_bounded(&s->seen, 0);
	switch (call) {
	case VQ_CALL_NONE:
		MUST(s->unreported == 0);
		break;
	case VQ_CALL_DEFERRED:
		MUST(s->unreported != 0 && s->q.coalesce.pending == s->unreported);
		break;
	case VQ_CALL_SUPPRESSED:
	case VQ_CALL_MAKE:
		MUST(s->unreported != 0 && s->q.coalesce.pending == 0);
		if (!s->q.event_idx && s->seen.changes == 0)
			MUST((call == VQ_CALL_SUPPRESSED) == (vq_load(&s->ring.avail->flags) & 1));
		s->unreported = 0;
		break;
	}
}

static void
call(struct session *s, struct input *in)
{
	enum vq_call made;
	uint8_t how = in_u8(in);

	publish(s);
	s->now += how & 0x80 ? in_u16(in) : how & 15;
	between_enter();
	made = how & 0x10 ? vq_device_call_flush(&s->q)
			  : vq_device_call(&s->q, s->published, s->now);
	s->seen = between_leave();
	/* A flush decides on what was noted before. */
	if (how & 0x10)
		s->unreported -= s->published;
	must_decide(s, made);
}

static void
arm(struct session *s)
{
	uint8_t fault = s->q.fault;
	bool more;

	between_enter();
	more = vq_device_arm(&s->q);
	s->seen = between_leave();
	must_be_bounded(&s->seen, 0);
	if (fault != VQ_DEVICE_OK)
		MUST(!more);
	else if (s->seen.changes == 0)
		MUST(more == (vq_load(&s->ring.avail->idx) != s->q.avail_idx));
}

/* Another memory table; the ring may lie elsewhere. */
static void
move(struct session *s, uint32_t mask)
{
	if (s->first != s->end || !hostile_ring_move(&s->ring))
		return;
	hostile_guest_map(&s->guest, mask);
	vq_device_move(&s->q, s->ring.desc, s->ring.avail, s->ring.used, s->guest.mem);
}

static void
step(struct session *s, struct input *in)
{
	struct vq_coalesce_params params;
	uint8_t fault = s->q.fault;
	uint32_t n;

	switch (in_below(in, 20)) {
	case 0:
	case 1:
	case 2:
		peek(s, in);
		break;
	case 3:
		n = in_u8(in);
		n = n < s->end - s->first ? n : s->end - s->first;
		vq_device_rewind(&s->q, n);
		s->end -= n;
		break;
	case 4:
		complete(s, in);
		break;
	case 5:
		complete_tx(s, in_u8(in));
		break;
	case 6:
		call(s, in);
		break;
	case 7:
		arm(s);
		break;
	case 8:
		between_enter();
		vq_device_disarm(&s->q);
		s->seen = between_leave();
		break;
	case 9:
		params = (struct vq_coalesce_params){in_u8(in), in_u8(in)};
		vq_coalesce_set(&s->q.coalesce, &params);
		break;
	case 10:
		fault = VQ_DEVICE_OK;
		n = in_u8(in);
		start(s, n & 1 ? features(in) : s->features,
			n & 2 ? in_u16(in) : vq_device_base(&s->q));
		break;
	case 11:
		move(s, in_u16(in) | 1u << 16);
		break;
	case 12:
		use(s, in_u8(in));
		break;
	default:
		hostile_ring_step(&s->ring, in, s->write);
		break;
	}
	if (fault != VQ_DEVICE_OK)
		MUST(s->q.fault == fault);
	must_agree(s);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct session s;
	uint8_t log2 = in_below(&in, 10);
	uint16_t base = in_u16(&in);
	uint8_t shape = in_u8(&in);

	arena_reset();
	between_start(&in);
	memset(&s, 0, sizeof(s));
	s.write = shape & 1;
	s.nchains = 1 + (shape >> 2) % CHAINS_MAX;
	s.nsegs = 1 + in_below(&in, SEGS_MAX);
	s.chains = malloc(s.nchains * sizeof(*s.chains));
	s.segs = malloc(s.nsegs * sizeof(*s.segs));
	MUST(s.chains != NULL && s.segs != NULL);
	hostile_guest_init(&s.guest, &in);
	hostile_ring_init(&s.ring, &s.guest, log2 == 9 ? VQ_SIZE_MAX : 1u << log2, base, shape & 2);
	start(&s, features(&in), base);
	while (in_more(&in))
		step(&s, &in);
	free(s.chains);
	free(s.segs);
	hostile_guest_free(&s.guest);
	return 0;
}
