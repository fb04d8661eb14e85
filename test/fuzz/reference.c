/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "reference.h"

/* The segments that are compared; a longer chain is only judged. */
#define PIECES 256

struct walked {
	struct vq_seg pieces[PIECES];
	uint32_t count;
	uint32_t steps; /* descriptors, the one of a table not counted */
	uint64_t len;
	bool good;
};

/* Byte by byte, so that it may lie anywhere. */
static bool
read_table(const struct hostile_ring *r, uint64_t addr, struct vq_desc *out)
{
	uint8_t bytes[sizeof(*out)];

	for (uint32_t i = 0; i < sizeof(bytes); i++) {
		const struct vq_mem_region *region = hostile_guest_find(r->guest, addr + i);

		if (region == NULL)
			return false;
		bytes[i] = region->host[addr + i - region->addr];
	}
	memcpy(out, bytes, sizeof(bytes));
	return true;
}

/* An empty buffer needs an address that is mapped. */
static bool
buffer(const struct hostile_ring *r, const struct vq_desc *d, bool write, struct walked *w)
{
	uint64_t addr = d->addr, left = d->len;

	if (!(d->flags & VQ_DESC_WRITE) == write)
		return false;
	if ((__uint128_t)addr + left > (__uint128_t)1 << 64)
		return false;
	w->len += left;
	w->steps++;
	do {
		const struct vq_mem_region *region = hostile_guest_find(r->guest, addr);
		uint64_t have;

		if (region == NULL)
			return false;
		have = region->size - (addr - region->addr);
		have = have < left ? have : left;
		if (have != 0 && w->count < PIECES)
			w->pieces[w->count] = (struct vq_seg){
				region->host + (addr - region->addr), (uint32_t)have};
		w->count += have != 0;
		addr += have;
		left -= have;
	} while (left != 0);
	return true;
}

static struct walked
walk(const struct hostile_ring *r, bool indirect, bool write, uint16_t head)
{
	struct walked w = {.good = false};
	struct vq_desc d = r->desc[head], table = {.len = 0};
	bool in_table = false;

	for (uint32_t steps = 0; steps < r->size; steps++) {
		if (!in_table && d.flags & VQ_DESC_INDIRECT) {
			table = d;
			in_table = true;
			if (!indirect || d.flags & VQ_DESC_NEXT || d.len == 0 || d.len % 16 != 0 ||
				(__uint128_t)d.addr + d.len > (__uint128_t)1 << 64 ||
				!read_table(r, table.addr, &d))
				return w;
		}
		if (in_table && d.flags & VQ_DESC_INDIRECT)
			return w;
		if (!buffer(r, &d, write, &w))
			return w;
		if (!(d.flags & VQ_DESC_NEXT)) {
			w.good = w.len <= UINT32_MAX;
			return w;
		}
		if (in_table) {
			if (d.next >= table.len / 16 ||
				!read_table(r, table.addr + 16 * (uint64_t)d.next, &d))
				return w;
		} else {
			if (d.next >= r->size)
				return w;
			d = r->desc[d.next];
		}
	}
	return w;
}

void
reference_check(const struct hostile_ring *r, uint64_t features, bool write,
	const struct vq_chain *c, const struct vq_seg *segs, uint32_t nsegs)
{
	const struct walked w = walk(r, features & VQ_FEATURE(INDIRECT_DESC), write, c->head);

	/* Good or not, it was not looked at to its end. */
	if (c->fault == VQ_CHAIN_SEGMENTS) {
		MUST(w.count >= nsegs || w.steps >= nsegs || w.len > UINT32_MAX);
		return;
	}
	MUST((c->fault == VQ_DEVICE_OK) == w.good);
	if (!w.good)
		return;
	MUST(c->len == w.len);
	MUST(c->nseg == w.count);
	for (uint32_t i = 0; i < c->nseg && i < PIECES; i++) {
		MUST(segs[c->seg + i].base == w.pieces[i].base);
		MUST(segs[c->seg + i].len == w.pieces[i].len);
	}
}

bool
reference_direct(const struct hostile_ring *r, bool write, uint32_t head, uint64_t *len)
{
	struct walked w;

	if (head >= r->size)
		return false;
	w = walk(r, false, write, (uint16_t)head);
	*len = w.len;
	return w.good;
}
