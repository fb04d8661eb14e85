/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Frames taken from a queue, on top of any vq_device_peek() that keeps the promise that device.c
 * proves. No byte is copied: each copy is checked.
 */
#include <string.h>

#include "device_rules.h"
#include "hostile.h"

static void *checked_copy(void *to, const void *from, size_t n);

#define memcpy  checked_copy
#define memmove checked_copy
#include "vq_net.c"
#undef memcpy
#undef memmove

/* The guest's memory, and the working space, of exactly its size. */
static uint8_t *memory;
static uint64_t memory_bytes;
static struct vq_chain chains[CHAINS];
static struct vq_seg segs[SEGS];
static struct vq_frame frames[CHAINS];
static uint8_t heads[CHAINS][VQ_NET_HEAD];
static struct vq_net_burst burst = {CHAINS, SEGS, chains, segs, frames, heads};

static void *
checked_copy(void *to, const void *from, size_t n)
{
	if (n == 0)
		return to;
	PROVE(__CPROVER_w_ok(to, n));
	PROVE(__CPROVER_r_ok(from, n));
	return to;
}

/* Any chains that the promise allows. */
uint32_t
vq_device_peek(struct vq_device *q, bool write, struct vq_chain *c, uint32_t nchains,
	struct vq_seg *s, uint32_t nsegs, uint32_t seg0)
{
	uint32_t n = any_upto(nchains);
	uint32_t seg = seg0;

	(void)write;
	PROVE(s == segs && nsegs == SEGS && seg0 <= nsegs);
	PROVE(c >= chains && nchains <= CHAINS - (uint32_t)(c - chains));
	if (q->fault != VQ_DEVICE_OK)
		return 0;
	for (uint32_t i = 0; i < SEGS; i++)
		if (i >= seg0) {
			uint64_t off = nondet_u64();

			segs[i].len = nondet_u32();
			ASSUME(off < memory_bytes && segs[i].len <= memory_bytes - off);
			segs[i].base = memory + off;
		}
	for (uint32_t i = 0; i < CHAINS; i++) {
		if (i >= n)
			break;
		c[i].fault = nondet_u16();
		c[i].len = nondet_u32();
		c[i].seg = seg;
		c[i].nseg = nondet_u32();
		c[i].head = nondet_u16();
		ASSUME(chain_sound(q, &c[i], segs, nsegs, seg));
		seg += c[i].nseg;
		if (c[i].fault != VQ_DEVICE_OK)
			q->bad_chains[c[i].fault]++;
	}
	q->avail_idx = (uint16_t)(q->avail_idx + n);
	q->outstanding = (uint16_t)(q->outstanding + n);
	q->avail_seen = nondet_u16();
	if (n < nchains && nondet_bool())
		q->fault = nondet_bool() ? VQ_RING_INDEX : VQ_RING_HEAD;
	ASSUME(device_sound(q));
	return n;
}

static struct vq_device
any_device(void)
{
	struct vq_device q;

	memory_bytes = nondet_u64();
	ASSUME(memory_bytes >= 1 && memory_bytes <= UINT64_C(1) << 40);
	memory = any_bytes(memory_bytes);
	q.size = SIZE;
	q.mask = SIZE - 1;
	q.outstanding = 0;
	q.used_idx = q.published;
	ASSUME(device_sound(&q));
	q.avail = any_bytes(vq_avail_bytes(SIZE));
	q.used = any_bytes(vq_used_bytes(SIZE));
	return q;
}

static uint32_t
any_header(void)
{
	uint32_t n = nondet_u32();

	ASSUME(n == 10 || n == 12 || n == 20);
	return n;
}

void
prove_take(void)
{
	struct vq_device q = any_device();
	uint32_t hdr_len = any_header();
	uint32_t n = vq_net_take(&q, &burst, any_upto(CHAINS), hdr_len);

	PROVE(n <= CHAINS && n == q.outstanding);
	for (uint32_t i = 0; i < CHAINS; i++) {
		const struct vq_frame *f = &frames[i];
		const struct vq_chain *c = &chains[i];
		uint64_t have = 0;

		if (i >= n)
			break;
		PROVE((f->status == VQ_NET_BAD_CHAIN) == (c->fault != VQ_DEVICE_OK));
		PROVE(f->status == VQ_NET_BAD_CHAIN ||
			(f->status == VQ_NET_OK) == (c->len >= hdr_len + VQ_NET_FRAME_MIN));
		if (f->status != VQ_NET_OK) {
			PROVE(f->len == 0 && f->head_len == 0);
			continue;
		}
		PROVE(f->len == c->len - hdr_len);
		PROVE(f->head == heads[i]);
		PROVE(f->head_len == (f->len < VQ_NET_HEAD ? f->len : VQ_NET_HEAD));
		PROVE(f->nseg >= 1 && f->segs + f->nseg == segs + c->seg + c->nseg);
		PROVE(f->skip < f->segs->len);
		for (uint32_t k = 0; k < SEGS; k++)
			if (k < f->nseg)
				have += f->segs[k].len;
		PROVE(have == (uint64_t)f->len + f->skip);
		REACH_IF(f->nseg == 1 && c->nseg == SEGS, "a header over many segments");
		REACH_IF(f->skip == hdr_len && f->len > 70000, "a long frame behind its header");
	}
	REACH_IF(n == CHAINS, "a full burst");
}
