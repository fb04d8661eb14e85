/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <string.h>

#include "vq_driver.h"

#define ALIGN_LINE(n) (((n) + VQ_CACHE_LINE - 1) & ~(size_t)(VQ_CACHE_LINE - 1))

static const char *const fault_names[] = {
	[VQ_DRIVER_OK] = "none",
	[VQ_DRIVER_INDEX] = "used index beyond what is in flight",
	[VQ_DRIVER_ID] = "used id of no chain in flight",
	[VQ_DRIVER_LENGTH] = "used length above what was posted",
	[VQ_DRIVER_BATCH] = "in-order batch without its end",
};

const char *
vq_driver_fault_name(enum vq_driver_fault fault)
{
	return fault_names[fault];
}

size_t
vq_driver_private_bytes(uint32_t size)
{
	return ALIGN_LINE(size * sizeof(struct vq_driver_slot)) +
	       ALIGN_LINE(size * sizeof(uint16_t));
}

int
vq_driver_init(struct vq_driver *q, const struct vq_driver_config *config)
{
	struct vq_layout layout;
	uint8_t *ring = config->ring;
	uint8_t *priv = config->priv;

	if (vq_layout(config->size, &layout) != 0)
		return -EINVAL;
	if (ring == NULL || (uintptr_t)ring % VQ_CACHE_LINE != 0 || priv == NULL ||
		(uintptr_t)priv % 16 != 0)
		return -EINVAL;
	if (config->table_len != 0 && config->table == NULL)
		return -EINVAL;

	memset(q, 0, sizeof(*q));
	q->desc = (struct vq_desc *)(void *)(ring + layout.desc);
	q->avail = (struct vq_avail *)(void *)(ring + layout.avail);
	q->used = (struct vq_used *)(void *)(ring + layout.used);
	q->slots = (struct vq_driver_slot *)(void *)priv;
	q->free_ids = (uint16_t *)(void *)(priv + ALIGN_LINE(config->size *
							     sizeof(struct vq_driver_slot)));
	q->size = config->size;
	q->mask = (uint16_t)(config->size - 1);
	q->table = config->table;
	q->table_addr = config->table_addr;
	/* No chain is longer than the ring (2.7.5.3.1). */
	q->table_len = config->table_len < q->size ? config->table_len : q->size;
	vq_driver_reset(q, config->features);
	return 0;
}

void
vq_driver_reset(struct vq_driver *q, uint64_t features)
{
	struct vq_layout layout;
	uint32_t i;

	(void)vq_layout(q->size, &layout);
	/* The areas are one block, the descriptors first. */
	memset(q->desc, 0, layout.bytes);
	memset(q->slots, 0, vq_driver_private_bytes(q->size));
	for (i = 0; i < q->size; i++)
		q->free_ids[i] = (uint16_t)i;
	q->free_head = 0;
	q->free_tail = (uint16_t)q->size;
	q->avail_idx = 0;
	q->published = 0;
	q->used_idx = 0;
	q->used_seen = 0;
	q->notify_idx = 0;
	q->in_batch = false;
	q->fault = VQ_DRIVER_OK;
	q->event_idx = (features & VQ_FEATURE(EVENT_IDX)) != 0;
	q->in_order = (features & VQ_FEATURE(IN_ORDER)) != 0;
	q->indirect = (features & VQ_FEATURE(INDIRECT_DESC)) != 0 && q->table_len != 0;
	vq_driver_disarm(q);
}

uint32_t
vq_driver_detach_all(struct vq_driver *q, void (*fn)(void *cookie, void *arg), void *arg)
{
	uint32_t i, n = 0;

	for (i = 0; i < q->size; i++) {
		if (q->slots[i].ndesc == 0)
			continue;
		q->slots[i].ndesc = 0;
		fn(q->slots[i].cookie, arg);
		n++;
	}
	return n;
}

void
vq_driver_add_chain(
	struct vq_driver *q, const struct vq_sg *sg, uint32_t n, uint16_t flags, void *cookie)
{
	uint16_t head = vq_driver_take_id(q);
	uint16_t id = head;
	uint32_t i, len = 0;

	for (i = 0; i < n; i++) {
		struct vq_desc *d = &q->desc[id];

		d->addr = sg[i].addr;
		d->len = sg[i].len;
		len += sg[i].len;
		if (i + 1 == n) {
			d->flags = flags;
			break;
		}
		id = vq_driver_take_id(q);
		d->flags = flags | VQ_DESC_NEXT;
		d->next = id;
		/* Our own links: the ones in the ring may be changed by the device. */
		q->slots[d - q->desc].next = id;
	}
	vq_driver_expose(q, head, len, (uint16_t)n, cookie);
}

void
vq_driver_add_request(
	struct vq_driver *q, const struct vq_sg *out, const struct vq_sg *in, void *cookie)
{
	uint16_t head = vq_driver_take_id(q);
	uint16_t tail = vq_driver_take_id(q);

	q->desc[head] = (struct vq_desc){out->addr, out->len, VQ_DESC_NEXT, tail};
	q->desc[tail] = (struct vq_desc){in->addr, in->len, VQ_DESC_WRITE, 0};
	q->slots[head].next = tail;
	/* What may have been written is what the used length is held against. */
	vq_driver_expose(q, head, in->len, 2, cookie);
}

void
vq_driver_add_indirect(
	struct vq_driver *q, const struct vq_sg *sg, uint32_t n, uint16_t flags, void *cookie)
{
	uint16_t head = vq_driver_take_id(q);
	size_t first = (size_t)head * q->table_len;
	struct vq_desc *table = &q->table[first];
	struct vq_desc *d = &q->desc[head];
	uint32_t i, len = 0;

	for (i = 0; i < n; i++) {
		table[i].addr = sg[i].addr;
		table[i].len = sg[i].len;
		table[i].flags = i + 1 == n ? flags : flags | VQ_DESC_NEXT;
		table[i].next = (uint16_t)(i + 1);
		len += sg[i].len;
	}
	d->addr = q->table_addr + first * sizeof(struct vq_desc);
	d->len = n * (uint32_t)sizeof(struct vq_desc);
	d->flags = VQ_DESC_INDIRECT;
	vq_driver_expose(q, head, len, 1, cookie);
}

/* Give the ids of a completed chain back, and its cookie to the caller. */
static inline void *
retire(struct vq_driver *q, uint16_t head)
{
	struct vq_driver_slot *slot = &q->slots[head];
	uint16_t n = slot->ndesc;

	slot->ndesc = 0;
	q->free_ids[q->free_tail++ & q->mask] = head;
	for (uint16_t id = head; n > 1; n--) {
		id = q->slots[id].next;
		q->free_ids[q->free_tail++ & q->mask] = id;
	}
	return slot->cookie;
}

/* How many used entries may be read, at most n; refreshes the device's index only when short. */
static inline uint32_t
readable(struct vq_driver *q, uint32_t n)
{
	uint32_t have = (uint16_t)(q->used_seen - q->used_idx);

	if (have >= n)
		return n;
	q->used_seen = vq_load_index(&q->used->idx);
	have = (uint16_t)(q->used_seen - q->used_idx);
	if (have > vq_driver_inflight(q)) {
		q->fault = VQ_DRIVER_INDEX;
		return 0;
	}
	return have < n ? have : n;
}

/* One read of a used entry that the device could change at any time. */
static inline struct vq_used_elem
read_used(const struct vq_driver *q, uint16_t idx)
{
	const volatile struct vq_used_elem *e = &q->used->ring[idx & q->mask];
	struct vq_used_elem copy = {.id = e->id, .len = e->len};

	return copy;
}

static inline bool
is_head(const struct vq_driver *q, uint32_t id)
{
	return id < q->size && q->slots[id].ndesc != 0;
}

/* The reaper for completions in any order. */
static inline __attribute__((always_inline)) uint32_t
reap_any_order(struct vq_driver *q, void **cookies, uint32_t *lens, uint32_t n, const bool receive)
{
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct vq_used_elem e = read_used(q, q->used_idx);

		if (__builtin_expect(!is_head(q, e.id), 0)) {
			q->fault = VQ_DRIVER_ID;
			break;
		}
		if (receive) {
			if (__builtin_expect(e.len > q->slots[e.id].len, 0)) {
				q->fault = VQ_DRIVER_LENGTH;
				break;
			}
			lens[i] = e.len;
		}
		cookies[i] = retire(q, (uint16_t)e.id);
		q->used_idx++;
	}
	return i;
}

/*
 * The reaper for IN_ORDER (2.7.9): the next chain is always the oldest. A used entry may stand for
 * a batch that ends with the head it names; the chains before that one count as used in full, and
 * their entries are not read. Ids come and go in ring order, so the ring of free ids never changes.
 */
static inline __attribute__((always_inline)) uint32_t
reap_in_order(struct vq_driver *q, void **cookies, uint32_t *lens, uint32_t n, const bool receive)
{
	const uint32_t shown = (uint16_t)(q->used_seen - q->used_idx);
	struct vq_driver_slot *slots = q->slots;
	uint32_t free_tail = q->free_tail;
	uint32_t batch_id = q->batch_id;
	bool in_batch = q->in_batch;
	uint32_t i;

	for (i = 0; i < n; i++) {
		const uint32_t id = free_tail & q->mask;
		struct vq_driver_slot *slot = &slots[id];

		if (!in_batch) {
			struct vq_used_elem e = read_used(q, (uint16_t)(q->used_idx + i));

			if (__builtin_expect(!is_head(q, e.id), 0)) {
				q->fault = VQ_DRIVER_ID;
				break;
			}
			batch_id = e.id;
			q->batch_len = e.len;
		}
		in_batch = id != batch_id;
		/* A batch lies within what the index has shown. */
		if (__builtin_expect(in_batch && i + 1 == shown, 0)) {
			q->fault = VQ_DRIVER_BATCH;
			break;
		}
		if (receive) {
			lens[i] = in_batch ? slot->len : q->batch_len;
			if (__builtin_expect(lens[i] > slot->len, 0)) {
				q->fault = VQ_DRIVER_LENGTH;
				break;
			}
		}
		free_tail += slot->ndesc;
		slot->ndesc = 0;
		cookies[i] = slot->cookie;
	}
	q->free_tail = (uint16_t)free_tail;
	q->used_idx = (uint16_t)(q->used_idx + i);
	q->batch_id = (uint16_t)batch_id;
	q->in_batch = in_batch;
	return i;
}

/*
 * The short path, for both orders: entry after entry completes the chain of one descriptor that is
 * expected next. Its id stands in the ring of free ids where it goes back to, so only an index
 * moves. State is kept in locals, which stores to the caller's arrays cannot change.
 * @return entries taken; the general reaper goes on where the expected one did not come
 */
static inline __attribute__((always_inline)) uint32_t
reap_expected(struct vq_driver *q, void **cookies, uint32_t *lens, uint32_t n, const bool receive)
{
	const volatile struct vq_used_elem *used = q->used->ring;
	struct vq_driver_slot *slots = q->slots;
	const uint16_t *free_ids = q->free_ids;
	const uint32_t mask = q->mask;
	uint32_t used_idx = q->used_idx;
	uint32_t free_tail = q->free_tail;
	uint32_t i;

	if (q->in_batch)
		return 0;
	for (i = 0; i < n; i++) {
		const volatile struct vq_used_elem *e = &used[(used_idx + i) & mask];
		uint32_t id = free_ids[(free_tail + i) & mask];
		struct vq_driver_slot *slot = &slots[id];
		uint32_t len = receive ? e->len : 0;

		if (__builtin_expect(e->id != id || slot->ndesc != 1 || len > slot->len, 0))
			break;
		slot->ndesc = 0;
		cookies[i] = slot->cookie;
		if (receive)
			lens[i] = len;
	}
	q->used_idx = (uint16_t)(used_idx + i);
	q->free_tail = (uint16_t)(free_tail + i);
	return i;
}

uint32_t
vq_driver_reap(struct vq_driver *q, void **cookies, uint32_t *lens, uint32_t n)
{
	uint32_t done;

	if (q->fault != VQ_DRIVER_OK)
		return 0;
	n = readable(q, n);
	if (n == 0)
		return 0;
	if (lens == NULL) {
		/* One entry stands for many, seldom for the one that is expected. */
		if (q->in_order)
			return reap_in_order(q, cookies, NULL, n, false);
		done = reap_expected(q, cookies, NULL, n, false);
		return done + reap_any_order(q, cookies + done, NULL, n - done, false);
	}
	done = reap_expected(q, cookies, lens, n, true);
	cookies += done;
	lens += done;
	return done + (q->in_order ? reap_in_order(q, cookies, lens, n - done, true)
				   : reap_any_order(q, cookies, lens, n - done, true));
}

bool
vq_driver_arm(struct vq_driver *q)
{
	if (q->event_idx)
		vq_store(vq_used_event(q->avail, q->size), q->used_idx);
	else
		vq_store(&q->avail->flags, 0);
	vq_notify_fence();
	/* Of a broken queue nothing is ever taken: its owner may sleep. */
	return q->fault == VQ_DRIVER_OK && vq_load_index(&q->used->idx) != q->used_idx;
}

bool
vq_driver_arm_nth(struct vq_driver *q, uint16_t n)
{
	vq_store(vq_used_event(q->avail, q->size), (uint16_t)(q->used_idx + n - 1));
	vq_notify_fence();
	return q->fault == VQ_DRIVER_OK &&
	       (uint16_t)(vq_load_index(&q->used->idx) - q->used_idx) >= n;
}

void
vq_driver_disarm(struct vq_driver *q)
{
	/* With EVENT_IDX the flags stay 0 (2.7.7.1). */
	if (q->event_idx)
		vq_store(vq_used_event(q->avail, q->size), (uint16_t)(q->used_idx - 1));
	else
		vq_store_unless_equal(&q->avail->flags, VQ_AVAIL_NO_INTERRUPT);
}
