/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>

#include "arena.h"
#include "hostile_driver.h"

/* Where the areas of a ring are seen, if at all. */
#define RING_ADDR   UINT64_C(0x7000000000)
#define RING_STRIDE UINT64_C(0x100000)

void
hostile_guest_init(struct hostile_guest *g, struct input *in)
{
	static const uint64_t starts[] = {0, 0x1000, UINT64_C(0x4000000000), 0x10};
	static const uint16_t gaps[] = {0, 0, 0, 1, 8, 4096};
	uint64_t addr = starts[in_below(in, 4)];

	memset(g, 0, sizeof(*g));
	for (uint32_t n = 1 + in_below(in, GUEST_REGIONS); g->count < n;) {
		struct vq_mem_region *r = &g->regions[g->count++];
		uint8_t shape = in_u8(in);

		r->size = 1 + (shape & 1 ? in_u16(in) % 4096 : 63);
		r->host = arena_take(r->size);
		/* One may end with the last address there is. */
		r->addr = g->count == n && shape & 0x80 ? 0 - r->size : addr;
		addr = addr + r->size + gaps[(shape >> 1) % 6];
	}
	hostile_guest_map(g, UINT32_MAX);
}

void
hostile_guest_map(struct hostile_guest *g, uint32_t mask)
{
	struct vq_mem_region some[GUEST_REGIONS_ALL];
	uint32_t n = 0;

	for (uint32_t i = 0; i < g->count; i++)
		if (mask >> i & 1)
			some[n++] = g->regions[i];
	vq_mem_destroy(g->mem);
	MUST(vq_mem_create(some, n, &g->mem) == 0);
}

void
hostile_guest_free(struct hostile_guest *g)
{
	vq_mem_destroy(g->mem);
}

const struct vq_mem_region *
hostile_guest_find(const struct hostile_guest *g, uint64_t addr)
{
	for (uint32_t i = 0; i < g->mem->count; i++) {
		const struct vq_mem_region *r = &g->mem->regions[i];

		if (addr - r->addr < r->size)
			return r;
	}
	return NULL;
}

bool
hostile_guest_holds(const struct hostile_guest *g, const struct vq_seg *s)
{
	for (uint32_t i = 0; i < g->mem->count; i++) {
		const struct vq_mem_region *r = &g->mem->regions[i];
		uint64_t off = (uint64_t)((uintptr_t)s->base - (uintptr_t)r->host);

		if (off < r->size && s->len <= r->size - off)
			return s->len != 0;
	}
	return false;
}

static void
place(struct hostile_ring *r, void *desc, void *avail, void *used)
{
	r->desc = desc;
	r->avail = avail;
	r->used = used;
	if (r->region != 0) {
		r->guest->regions[r->region].host = desc;
		r->guest->regions[r->region + 1].host = avail;
		r->guest->regions[r->region + 2].host = used;
	}
}

void
hostile_ring_init(struct hostile_ring *r, struct hostile_guest *g, uint32_t size, uint16_t base,
	bool addressable)
{
	const uint64_t bytes[] = {vq_desc_bytes(size), vq_avail_bytes(size), vq_used_bytes(size)};

	memset(r, 0, sizeof(*r));
	r->guest = g;
	r->size = size;
	if (addressable) {
		r->region = g->count;
		for (uint32_t i = 0; i < 3; i++, g->count++) {
			g->regions[g->count].addr = RING_ADDR + g->count * RING_STRIDE;
			g->regions[g->count].size = bytes[i];
		}
	}
	place(r, arena_take(bytes[0]), arena_take(bytes[1]), arena_take(bytes[2]));
	if (addressable)
		hostile_guest_map(g, UINT32_MAX);
	vq_store(&r->avail->idx, base);
	vq_store(&r->used->idx, base);
}

bool
hostile_ring_move(struct hostile_ring *r)
{
	const size_t bytes[] = {
		vq_desc_bytes(r->size), vq_avail_bytes(r->size), vq_used_bytes(r->size)};
	void *from[] = {r->desc, r->avail, r->used};
	void *to[3];

	if (!arena_has(bytes[0] + bytes[1] + bytes[2] + 1024))
		return false;
	for (uint32_t i = 0; i < 3; i++) {
		to[i] = arena_take(bytes[i]);
		memcpy(to[i], from[i], bytes[i]);
		arena_drop(from[i], bytes[i]);
	}
	place(r, to[0], to[1], to[2]);
	return true;
}

/* Mostly inside a region, and near its ends. */
static uint64_t
address(const struct hostile_ring *r, struct input *in)
{
	const struct vq_mem_region *region;
	uint8_t how = in_u8(in);

	if (how == 0xff)
		return in_u64(in);
	region = &r->guest->regions[(how & 15) % r->guest->count];
	switch (how >> 4 & 7) {
	case 0:
		return region->addr + region->size - in_u8(in);
	case 1:
		return region->addr + in_u16(in);
	case 2:
		return region->addr - in_u8(in);
	case 3: /* where a table wants to be */
		return region->addr + (in_u8(in) & ~15u);
	default:
		return region->addr + (how >> 7) * (region->size / 2);
	}
}

static uint32_t
length(struct input *in)
{
	uint8_t how = in_u8(in);

	if (how < 200)
		return how;
	return how < 250 ? in_u16(in) : in_u32(in);
}

static struct vq_desc
descriptor(struct hostile_ring *r, struct input *in)
{
	struct vq_desc d = {.addr = address(r, in), .len = length(in)};

	d.flags = in_u8(in);
	d.next = d.flags & 0x80 ? in_u16(in) : in_u8(in);
	return d;
}

/* To any guest address; what is not mapped is left out. */
static void
write_memory(const struct hostile_ring *r, uint64_t addr, const void *from, size_t len)
{
	const uint8_t *p = from;

	for (size_t i = 0; i < len; i++) {
		const struct vq_mem_region *region = hostile_guest_find(r->guest, addr + i);

		if (region != NULL)
			region->host[addr + i - region->addr] = p[i];
	}
}

static void
expose(struct hostile_ring *r, uint16_t head)
{
	uint16_t idx = vq_load(&r->avail->idx);

	vq_store(&r->avail->ring[idx & (r->size - 1)], head);
	vq_publish_index(&r->avail->idx, (uint16_t)(idx + 1));
}

/* One thing wrong with a descriptor of a table, or of the ring, of so many entries. */
static void
spoil(struct vq_desc *d, struct input *in, uint32_t entries)
{
	uint8_t how = in_u8(in);

	switch (how & 7) {
	case 0:
		d->next = (uint16_t)(entries + (how >> 3));
		break;
	case 1:
		d->next = in_u16(in);
		break;
	case 2:
		d->flags ^= (uint16_t)(1 << (how >> 3 & 3));
		break;
	case 3:
		d->len = in_u32(in);
		break;
	case 4: /* the length goes to the last address, and a little further */
		d->len = (uint32_t)(0 - d->addr) + (how >> 3);
		break;
	case 5:
		d->addr += (int8_t)in_u8(in);
		break;
	case 6:
		d->len = 0;
		break;
	default: /* back to where it began, or a little further */
		d->flags |= VQ_DESC_NEXT;
		d->next = how >> 3;
		break;
	}
}

/* A chain as it should be, direct or through a table at a guest address, but for what is spoilt. */
static void
behave(struct hostile_ring *r, struct input *in, bool write)
{
	const uint16_t mask = (uint16_t)(r->size - 1);
	uint8_t shape = in_u8(in);
	bool indirect = shape & 8;
	uint32_t n = 1 + (shape & 7);
	uint32_t bad = shape & 0x80 ? shape >> 4 & 7 : UINT32_MAX;
	uint16_t head = r->next & mask;
	uint64_t table = 0;

	if (indirect) {
		struct vq_desc d = {
			.addr = address(r, in), .len = n * 16, .flags = VQ_DESC_INDIRECT};

		table = d.addr;
		if (bad == n)
			spoil(&d, in, r->size);
		r->desc[head] = d;
	}
	/* Behind a table stands an entry that would do as well. */
	for (uint32_t i = 0; i < n + indirect; i++) {
		uint16_t id = (uint16_t)(r->next + i) & mask;
		struct vq_desc d = {.addr = address(r, in), .len = length(in)};

		d.flags = (uint16_t)((write ? VQ_DESC_WRITE : 0) | (i + 1 < n ? VQ_DESC_NEXT : 0));
		d.next = indirect ? (uint16_t)(i + 1) : (id + 1) & mask;
		if (i == bad)
			spoil(&d, in, indirect ? n : r->size);
		if (indirect)
			write_memory(r, table + i * sizeof(d), &d, sizeof(d));
		else
			r->desc[id] = d;
	}
	r->next = (uint16_t)(r->next + (indirect ? 1 : n));
	expose(r, head);
}

void
hostile_ring_step(struct hostile_ring *r, struct input *in, bool write)
{
	const uint16_t mask = (uint16_t)(r->size - 1);
	struct vq_desc d;
	uint64_t v;

	switch (in_below(in, 12)) {
	case 0:
	case 1:
	case 2:
		behave(r, in, write);
		break;
	case 3: /* the same one again, or any */
		expose(r, in_u8(in) & mask);
		break;
	case 4:
		r->desc[in_u16(in) & mask] = descriptor(r, in);
		break;
	case 5: /* a descriptor somewhere in memory, perhaps of a table */
		v = address(r, in);
		d = descriptor(r, in);
		write_memory(r, v, &d, sizeof(d));
		break;
	case 6:
		v = in_u16(in);
		vq_store(&r->avail->ring[v & mask], in_u16(in));
		break;
	case 7:
		vq_publish_index(
			&r->avail->idx, (uint16_t)(vq_load(&r->avail->idx) + (int8_t)in_u8(in)));
		break;
	case 8:
		vq_publish_index(&r->avail->idx, in_u16(in));
		break;
	case 9:
		vq_store(&r->avail->flags, in_u16(in));
		vq_store(vq_used_event(r->avail, r->size), in_u16(in));
		break;
	case 10: /* where only the device writes */
		v = in_u16(in);
		vq_store(&r->used->idx, (uint16_t)v);
		r->used->ring[v & mask].id = in_u16(in);
		break;
	default:
		v = in_u64(in);
		write_memory(r, address(r, in), &v, sizeof(v));
		break;
	}
}
