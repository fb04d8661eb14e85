/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The device side against a driver that writes anything at any time. Each proof starts from any
 * state that the rules allow, does one operation and proves that the rules hold again: so they hold
 * after any number of operations in any order.
 */
#include "vq_device.c"
#include "vq_mem.c"

#include "device_rules.h"
#include "hostile.h"

#ifndef MEMORY
#define MEMORY nondet_u64()
#endif

/* In place of read_desc(): any descriptor at each read, of the 16 bytes that proof "device-entry"
 * sees it read.
 */
struct vq_desc
any_desc(const void *from)
{
	struct vq_desc d = {nondet_u64(), nondet_u32(), nondet_u16(), nondet_u16()};

	PROVE(__CPROVER_r_ok(from, sizeof(struct vq_desc)));
	return d;
}

/*
 * In place of vq_mem_translate(), which mem.c looks at: any address may be mapped, to anywhere in
 * one block, with any number of bytes behind it that the block has. What goes beyond these bytes
 * goes beyond the block in one of these cases.
 */
static uint8_t *memory;
static uint64_t memory_bytes;

uint8_t *
any_translation(const struct vq_mem *mem, uint32_t *hint, uint64_t addr, uint64_t *avail)
{
	uint64_t off = nondet_u64(), have = nondet_u64();

	(void)mem;
	(void)addr;
	*hint = nondet_u32();
	if (nondet_bool())
		return NULL;
	ASSUME(off < memory_bytes && have >= 1 && have <= memory_bytes - off);
	*avail = have;
	return memory + off;
}

/* In place of read_entry(), which prove_entry() looks at. */
enum vq_device_fault
any_entry(struct vq_device *q, uint64_t addr, struct vq_desc *out)
{
	(void)addr;
	q->mem_hint = nondet_u32();
	if (nondet_bool())
		return VQ_CHAIN_ADDRESS;
	*out = any_desc(memory);
	return VQ_DEVICE_OK;
}

/* Any queue that obeys the rules, with rings of exactly its size. */
static struct vq_device
any_device(void)
{
	struct vq_device q;

	memory_bytes = MEMORY;
	ASSUME(memory_bytes >= 16 && memory_bytes <= UINT64_C(1) << 40);
	memory = any_bytes(memory_bytes);
	q.size = ANY_SIZE();
	ASSUME(device_sound(&q));
	q.desc = any_bytes(vq_desc_bytes(q.size));
	q.avail = any_bytes(vq_avail_bytes(q.size));
	q.used = any_bytes(vq_used_bytes(q.size));
	return q;
}

static bool
in_memory(const struct vq_seg *s)
{
	uint64_t off = (uint64_t)__CPROVER_POINTER_OFFSET(s->base);

	return __CPROVER_same_object(s->base, memory) && off < memory_bytes &&
	       s->len <= memory_bytes - off;
}

/* An entry of a table, in one region or across several: nothing but mapped bytes is read. */
void
prove_entry(void)
{
	struct vq_device q = any_device();
	const struct vq_device before = q;
	struct vq_desc d;
	enum vq_device_fault fault = read_entry(&q, nondet_u64(), &d);

	PROVE(fault == VQ_DEVICE_OK || fault == VQ_CHAIN_ADDRESS);
	PROVE(peek_changed_only_its_own(&q, &before, 0));
	REACH_IF(fault == VQ_CHAIN_ADDRESS, "not mapped");
	REACH_IF(fault == VQ_DEVICE_OK, "mapped");
}

/* One chain of any shape: what any_chain() writes and returns. */
void
prove_chain(void)
{
	struct vq_device q = any_device();
	const struct vq_device before = q;
	uint32_t nsegs = any_upto(SEGS);
	struct vq_seg segs[SEGS], old[SEGS];
	struct vq_chain c = {.seg = SEG0, .head = nondet_u16()};
	const struct vq_chain given = c;
	uint32_t steps = any_upto(STEPS), most = nondet_u32();
	uint32_t left = steps;
	bool taken;

	for (uint32_t i = 0; i < SEGS; i++)
		old[i] = segs[i];
	ASSUME(c.head <= q.mask && most >= steps && nsegs >= SEG0);
	taken = any_chain(&q, nondet_bool() ? VQ_DESC_WRITE : 0, any_desc(&q.desc[c.head]), &c,
		segs, nsegs, &left, most);

	PROVE(left <= steps);
	for (uint32_t i = 0; i < SEGS; i++)
		PROVE((i >= c.seg && i < nsegs) ||
			(segs[i].base == old[i].base && segs[i].len == old[i].len));
	PROVE(c.head == given.head && c.seg == given.seg);
	PROVE(peek_changed_only_its_own(&q, &before, 0) && device_sound(&q));
	PROVE(q.fault == before.fault);
	/* The first of a batch with room for all is always taken: it cannot block the ring. */
	PROVE(taken || c.seg != 0 || steps != most);
	if (!taken)
		return;
	PROVE(chain_sound(&q, &c, segs, nsegs, given.seg));
	for (uint32_t i = 0; i < c.nseg && i < SEGS; i++)
		PROVE(in_memory(&segs[c.seg + i]));
	REACH_IF(c.nseg == SEGS - SEG0, "a chain of all segments");
	REACH_IF(c.nseg == 0 && c.fault == VQ_DEVICE_OK, "a chain of nothing");
	REACH_IF(c.fault == VQ_CHAIN_LOOP, "a loop");
	REACH_IF(c.fault == VQ_CHAIN_NEXT, "next out of range");
	REACH_IF(c.fault == VQ_CHAIN_SEGMENTS, "too many segments");
#if !defined(SIZE) || SIZE > 1
	REACH_IF(c.fault == VQ_CHAIN_INDIRECT && left != steps, "a table behind a descriptor");
#endif
}

/* In place of any_chain(), for peek: what prove_chain() proves of it. */
bool
chain_of_any_shape(struct vq_device *q, uint16_t direction, struct vq_desc d, struct vq_chain *c,
	struct vq_seg *segs, uint32_t nsegs, uint32_t *steps, uint32_t most)
{
	bool whole_batch = c->seg == 0 && *steps == most;

	(void)direction;
	(void)d;
	PROVE(c->head <= q->mask && c->seg <= nsegs && most >= *steps);
	q->mem_hint = nondet_u32();
	*steps = any_upto(*steps);
	if (!whole_batch && nondet_bool())
		return false;
	c->fault = nondet_u16();
	c->len = nondet_u32();
	c->nseg = nondet_u32();
	for (uint32_t i = 0; i < SEGS; i++)
		if (i >= c->seg && i - c->seg < c->nseg && i < nsegs) {
			uint64_t unused;

			segs[i].base = any_translation(q->mem, &q->mem_hint, 0, &unused);
			segs[i].len = nondet_u32();
			ASSUME(segs[i].base != NULL && segs[i].len <= unused);
		}
	ASSUME(chain_sound(q, c, segs, nsegs, c->seg));
	return true;
}

void
prove_peek(void)
{
	struct vq_device q = any_device();
	struct vq_device before;
	uint32_t nchains = any_upto(CHAINS), nsegs = any_upto(SEGS), seg0 = any_upto(nsegs);
	struct vq_chain chains[CHAINS];
	struct vq_seg segs[SEGS];
	struct vq_mem *mem = any_bytes(sizeof(*mem) + sizeof(mem->regions[0]));
	uint32_t seg = seg0, n;

	/* One region, which is the block. */
	mem->count = 1;
	mem->regions[0].addr = nondet_u64();
	mem->regions[0].size = memory_bytes;
	mem->regions[0].host = memory;
	q.mem = mem;
	before = q;
	n = vq_device_peek(&q, nondet_bool(), chains, nchains, segs, nsegs, seg0);

	PROVE(n <= nchains);
	PROVE(device_sound(&q));
	PROVE(peek_changed_only_its_own(&q, &before, n));
	PROVE(before.fault == VQ_DEVICE_OK || (n == 0 && q.fault == before.fault));
	for (uint32_t i = 0; i < CHAINS; i++) {
		if (i >= n)
			break;
		PROVE(chain_sound(&q, &chains[i], segs, nsegs, seg));
		seg += chains[i].nseg;
	}
	for (uint32_t i = 0; i < SEGS; i++)
		PROVE(i < seg0 || i >= seg || in_memory(&segs[i]));
	REACH_IF(n == (CHAINS < q.size ? CHAINS : q.size), "all handed out");
	REACH_IF(n == 1 && seg == SEGS && seg0 == 0, "one chain of all segments");
	REACH_IF(q.fault == VQ_RING_INDEX && before.fault == VQ_DEVICE_OK, "a bad index");
	REACH_IF(q.fault == VQ_RING_HEAD && before.fault == VQ_DEVICE_OK, "a bad head");
}

/* Everything but peek keeps the rules and the counts, and writes used entries alone. */
void
prove_step(void)
{
	struct vq_device q = any_device();
	struct count c = {.rewound = nondet_u64(), .completed = nondet_u64()};
	struct vq_chain chains[CHAINS];
	uint32_t n = any_upto(CHAINS), kind = any_upto(7);
	const struct vq_device before = q;
	uint16_t flags = q.used->flags, idx = q.used->idx;

	c.handed_out = c.rewound + c.completed + q.outstanding;
	c.avail_base = (uint16_t)(vq_device_base(&q) - c.completed);
	c.used_base = (uint16_t)(q.used_idx - c.completed);
	for (uint32_t i = 0; i < CHAINS; i++)
		ASSUME(chains[i].head <= q.mask);
	ASSUME(n <= q.outstanding);
	if (kind == 0) {
		vq_device_rewind(&q, n);
		c.rewound += n;
	} else if (kind == 1) {
		ASSUME(n == 1);
		vq_device_complete(&q, chains[0].head, nondet_u32());
		c.completed++;
	} else if (kind == 2) {
		vq_device_complete_tx(&q, chains, n);
		c.completed += n;
	} else if (kind == 3) {
		PROVE(vq_device_publish(&q) == (uint16_t)(before.used_idx - before.published));
		PROVE(q.published == q.used_idx);
		PROVE(q.published == before.published || q.used->idx == q.used_idx);
	} else if (kind == 4) {
		enum vq_call call = vq_device_call(&q, any_upto(q.size), nondet_u64());

		PROVE((call == VQ_CALL_NONE || call == VQ_CALL_DEFERRED) ||
			(q.call_idx == q.published && q.coalesce.pending == 0));
	} else if (kind == 5) {
		PROVE(vq_device_call_flush(&q) != VQ_CALL_DEFERRED && q.coalesce.pending == 0);
	} else if (kind == 6) {
		PROVE(!vq_device_arm(&q) || q.fault == VQ_DEVICE_OK);
	} else {
		vq_device_disarm(&q);
	}
	PROVE(device_sound(&q) && q.fault == before.fault);
	PROVE(device_counted(&q, &c));
	PROVE(kind >= 6 || q.used->flags == flags);
	PROVE(kind == 3 || q.used->idx == idx);
	PROVE(kind == 3 || q.published == before.published);
	REACH_IF(kind == 2 && q.in_order && n == CHAINS, "a batch in order");
	REACH_IF(kind == 0 && n != 0 && q.outstanding == 0, "all put back");
	REACH_IF(kind == 1 && q.used_idx == 0, "around the wrap");
}
