/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The driver side against a device that writes anything at any time. Each proof starts from any
 * private state that the rules allow, does one operation and proves that the rules hold again: so
 * they hold after any number of operations in any order.
 */
#include "vq_driver.c"
#include "vq_layout.c"

#include "driver_rules.h"
#include "hostile.h"

/* The rings, with nothing behind them. */
static struct vq_desc descs[SIZE];
static uint16_t avail_ring[3 + SIZE];
static struct {
	uint16_t flags, idx;
	struct vq_used_elem ring[SIZE];
	uint16_t event;
} used_ring;
static struct vq_driver_slot slots[SIZE], slots_before[SIZE];
static void *cookies_of[SIZE], *cookies_before[SIZE];
static uint16_t free_ids[SIZE];
static struct vq_desc tables[SIZE * SIZE];
static char tokens[SIZE + 1];

#define TOKEN(i) ((void *)&tokens[i])

/* Any queue that obeys the rules; the cookie of a chain in flight tells its head. */
static struct vq_driver
any_driver(bool in_order)
{
	struct vq_driver q;

	q.desc = descs;
	q.avail = (struct vq_avail *)(void *)avail_ring;
	q.used = (struct vq_used *)(void *)&used_ring;
	q.cookies = cookies_of;
	q.slots = slots;
	q.free_ids = free_ids;
	q.size = SIZE;
	q.mask = SIZE - 1;
	q.in_order = in_order;
	q.event_idx = nondet_bool();
	q.in_step = nondet_bool();
	q.fixed = nondet_bool();
	q.table = tables;
	q.table_len = SIZE;
	for (uint32_t i = 0; i < SIZE; i++) {
		slots[i].len = nondet_u32();
		slots[i].ndesc = nondet_u16();
		slots[i].next = nondet_u16();
		cookies_of[i] = TOKEN(i);
		free_ids[i] = nondet_u16();
		used_ring.ring[i].id = nondet_u32();
		used_ring.ring[i].len = nondet_u32();
		avail_ring[2 + i] = nondet_u16();
	}
	q.in_batch = in_order && nondet_bool();
	ASSUME(driver_sound(&q));
	for (uint32_t i = 0; i < SIZE; i++) {
		slots_before[i] = slots[i];
		cookies_before[i] = cookies_of[i];
	}
	return q;
}

/* Every entry of the available ring holds its own number, of which nobody looks again. */
static bool
entries_hold(const struct vq_driver *q)
{
	for (uint32_t i = 0; i < SIZE && q->fixed; i++) {
		if (avail_ring[2 + i] != i)
			return false;
	}
	return true;
}

/* A chain in flight is still just what it was. */
static bool
untouched(uint32_t head)
{
	return slots[head].ndesc == slots_before[head].ndesc &&
	       slots[head].len == slots_before[head].len &&
	       cookies_of[head] == cookies_before[head];
}

void
prove_add(void)
{
	struct vq_driver q = any_driver(IN_ORDER);
	const struct vq_driver before = q;
	struct vq_sg sg[SIZE];
	uint32_t n = nondet_u32(), kind = nondet_u32(), len = 0, took;
	uint16_t flags = nondet_bool() ? VQ_DESC_WRITE : 0;
	uint32_t head = free_ids[q.free_head & (SIZE - 1)];

	ASSUME(entries_hold(&q));
	ASSUME(vq_driver_free(&q) >= 1 && n >= 1 && n <= SIZE);
	for (uint32_t i = 0; i < n; i++) {
		sg[i].len = nondet_u32();
		len += sg[i].len;
	}
	if (kind == 0) {
		ASSUME(n == 1);
		took = 1;
		vq_driver_add(&q, sg[0].addr, sg[0].len, flags, TOKEN(SIZE));
	} else if (kind == 1) {
		ASSUME(n <= vq_driver_free(&q));
		took = n;
		vq_driver_add_chain(&q, sg, n, flags, TOKEN(SIZE));
	} else {
		took = 1;
		vq_driver_add_indirect(&q, sg, n, flags, TOKEN(SIZE));
	}
	PROVE(driver_sound(&q) && entries_hold(&q));
	PROVE(!q.fixed || avail_ring[2 + (before.avail_idx & (SIZE - 1))] == head);
	PROVE(vq_driver_free(&q) == vq_driver_free(&before) - took);
	PROVE(vq_driver_inflight(&q) == vq_driver_inflight(&before) + 1);
	PROVE(q.published == before.published && q.used_idx == before.used_idx);
	PROVE(cookies_of[head] == TOKEN(SIZE) && slots[head].len == len);
	PROVE(slots[head].ndesc == took);
	for (uint32_t i = 0; i < SIZE; i++)
		PROVE(i == head || slots_before[i].ndesc == 0 || untouched(i));
	REACH_IF(kind == 0 && vq_driver_free(&q) == 0, "the last id");
	REACH_IF(q.fixed && head == SIZE - 1, "a fixed entry");
	REACH_IF(kind == 1 && n == SIZE, "a chain of all the ring");
	REACH_IF(kind == 2 && n == SIZE, "a full table");
}

void
prove_reap(void)
{
	struct vq_driver q = any_driver(IN_ORDER);
	const struct vq_driver before = q;
	void *cookies[SIZE + 1];
	uint32_t lens[SIZE + 1], n = any_upto(SIZE + 1), freed = 0, back = 0, got;

	for (uint32_t i = 0; i <= SIZE; i++) {
		cookies[i] = NULL;
		lens[i] = 0;
	}
	got = vq_driver_reap(&q, cookies, RECEIVE ? lens : NULL, n);

	PROVE(got <= n);
	PROVE(driver_sound(&q));
	PROVE(q.used_idx == (uint16_t)(before.used_idx + got));
	PROVE(q.avail_idx == before.avail_idx && q.free_head == before.free_head);
	PROVE(before.fault == VQ_DRIVER_OK || (got == 0 && q.fault == before.fault));
	for (uint32_t i = 0; i <= SIZE; i++) {
		uint32_t head;

		PROVE(i < n || (cookies[i] == NULL && lens[i] == 0));
		if (i >= got)
			continue;
		head = (uint32_t)((char *)cookies[i] - tokens);
		PROVE(head < SIZE);
		/* In flight before, not now, and no cookie twice. */
		PROVE(slots_before[head].ndesc != 0 && slots[head].ndesc == 0);
		PROVE((back & (1u << head)) == 0);
		back |= 1u << head;
		freed += slots_before[head].ndesc;
		PROVE(lens[i] <= slots_before[head].len);
#ifndef CHANGING
		if (!IN_ORDER)
			PROVE(used_ring.ring[(before.used_idx + i) & (SIZE - 1)].id == head);
#endif
		if (IN_ORDER)
			PROVE(head == ((before.free_tail + freed - slots_before[head].ndesc) &
					      (SIZE - 1)));
	}
	PROVE(vq_driver_free(&q) == vq_driver_free(&before) + freed);
	for (uint32_t i = 0; i < SIZE; i++)
		PROVE((back & (1u << i)) != 0 || untouched(i));
	REACH_IF(got == SIZE, "all chains");
	REACH_IF(q.fault == VQ_DRIVER_INDEX && before.fault == VQ_DRIVER_OK, "a bad index");
	REACH_IF(q.fault == VQ_DRIVER_ID && got == SIZE - 1, "a bad id behind good ones");
#if RECEIVE
	REACH_IF(q.fault == VQ_DRIVER_LENGTH && before.fault == VQ_DRIVER_OK, "a bad length");
#endif
#if IN_ORDER && SIZE > 1
	REACH_IF(q.fault == VQ_DRIVER_BATCH && before.fault == VQ_DRIVER_OK, "a batch without end");
#endif
	REACH_IF(got == 1 && freed == SIZE, "a chain of all the ring");
}

/* What neither adds nor reaps leaves the private state alone, but for its own index. */
void
prove_signals(void)
{
	struct vq_driver q = any_driver(nondet_bool());
	const struct vq_driver before = q;
	uint32_t kind = nondet_u32();

	if (kind == 0)
		vq_driver_publish(&q);
	else if (kind == 1)
		(void)vq_driver_need_notify(&q);
	else if (kind == 2)
		PROVE(!vq_driver_arm(&q) || q.fault == VQ_DRIVER_OK);
	else if (kind == 3)
		vq_driver_disarm(&q);
	else
		PROVE(vq_driver_pending(&q) <= vq_driver_inflight(&q));
	PROVE(driver_sound(&q));
	PROVE(q.avail_idx == before.avail_idx && q.used_idx == before.used_idx);
	PROVE(q.free_head == before.free_head && q.free_tail == before.free_tail);
	PROVE(q.published == (kind == 0 ? before.avail_idx : before.published));
	REACH_IF(kind == 2, "armed");
}

static uint32_t handed_back;
static uint32_t calls;

static void
take_back(void *cookie, void *arg)
{
	uint32_t head = (uint32_t)((char *)cookie - tokens);

	PROVE(arg == (void *)&handed_back && head < SIZE && slots_before[head].ndesc != 0);
	PROVE((handed_back & (1u << head)) == 0);
	handed_back |= 1u << head;
	calls++;
}

/* Every cookie in flight, once; a second time finds none. */
void
prove_detach(void)
{
	struct vq_driver q = any_driver(nondet_bool());
	uint32_t in_flight = vq_driver_inflight(&q);

	handed_back = 0;
	calls = 0;
	PROVE(vq_driver_detach_all(&q, take_back, &handed_back) == in_flight);
	PROVE(calls == in_flight);
	PROVE(vq_driver_detach_all(&q, take_back, &handed_back) == 0);
	REACH_IF(in_flight == SIZE, "a full ring");
}

/* A new queue obeys the rules and is empty: where the other proofs begin. */
void
prove_init(void)
{
	static _Alignas(64) uint8_t ring[512];
	static _Alignas(64) uint8_t priv[3 * 64];
	struct vq_layout layout;
	struct vq_driver q;
	const struct vq_driver_config config = {
		.size = SIZE,
		.features = nondet_u64(),
		.ring = ring,
		.priv = priv,
		.table = tables,
		.table_len = nondet_u32(),
	};

	PROVE(vq_layout(SIZE, &layout) == 0 && layout.bytes <= sizeof(ring));
	PROVE(vq_driver_private_bytes(SIZE) <= sizeof(priv));
	PROVE(vq_driver_init(&q, &config) == 0);
	PROVE(driver_sound(&q) && q.fixed);
	for (uint32_t i = 0; i < SIZE; i++)
		PROVE(q.avail->ring[i] == i);
	PROVE(vq_driver_free(&q) == SIZE && vq_driver_inflight(&q) == 0);
	PROVE(q.fault == VQ_DRIVER_OK && q.table_len <= SIZE);
	REACH_IF(q.in_order && q.event_idx && q.indirect, "all features");
}
