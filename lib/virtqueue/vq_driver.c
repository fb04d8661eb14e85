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
	return ALIGN_LINE(size * sizeof(void *)) +
	       ALIGN_LINE(size * sizeof(struct vq_driver_slot)) +
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
	q->cookies = (void **)(void *)priv;
	priv += ALIGN_LINE(config->size * sizeof(void *));
	q->slots = (struct vq_driver_slot *)(void *)priv;
	priv += ALIGN_LINE(config->size * sizeof(struct vq_driver_slot));
	q->free_ids = (uint16_t *)(void *)priv;
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
	memset(q->cookies, 0, vq_driver_private_bytes(q->size));
	for (i = 0; i < q->size; i++)
		vq_store(&q->avail->ring[i], q->free_ids[i] = (uint16_t)i);
	q->free_head = 0;
	q->free_tail = (uint16_t)q->size;
	q->avail_idx = 0;
	q->published = 0;
	q->used_idx = 0;
	q->used_seen = 0;
	q->notify_idx = 0;
	q->chains = 0;
	q->in_batch = false;
	q->in_step = true;
	q->fixed = true;
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
		fn(q->cookies[i], arg);
		n++;
	}
	return n;
}

static void
expose(struct vq_driver *q, uint16_t head, uint32_t len, uint16_t ndesc, void *cookie)
{
	q->cookies[head] = cookie;
	q->slots[head].len = len;
	q->slots[head].ndesc = ndesc;
	q->chains += ndesc > 1;
	q->fixed &= ndesc == 1;
	vq_store_unless_equal(&q->avail->ring[q->avail_idx & q->mask], head);
	q->avail_idx++;
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
	expose(q, head, len, (uint16_t)n, cookie);
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
	expose(q, head, in->len, 2, cookie);
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
	expose(q, head, len, 1, cookie);
}

/* Give the ids of a completed chain back, and its cookie to the caller. */
static inline void *
retire(struct vq_driver *q, uint16_t head)
{
	struct vq_driver_slot *slot = &q->slots[head];
	uint16_t n = slot->ndesc;

	if (head != (q->free_tail & q->mask))
		q->in_step = q->fixed = false;
	q->chains -= n > 1;
	slot->ndesc = 0;
	q->free_ids[q->free_tail++ & q->mask] = head;
	for (uint16_t id = head; n > 1; n--) {
		id = q->slots[id].next;
		q->free_ids[q->free_tail++ & q->mask] = id;
	}
	return q->cookies[head];
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
		q->chains -= slot->ndesc > 1;
		slot->ndesc = 0;
		cookies[i] = q->cookies[id];
	}
	q->free_tail = (uint16_t)free_tail;
	q->used_idx = (uint16_t)(q->used_idx + i);
	q->batch_id = (uint16_t)batch_id;
	q->in_batch = in_batch;
	return i;
}

/* Not in each other's way: the compiler makes wide moves of it. */
static inline void
copy(void **restrict to, void *const *restrict from, uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		to[i] = from[i];
}

/*
 * The same for transmit chains of one descriptor each: ids count up, so a batch is as long as its
 * end is away, and goes as a whole.
 */
static uint32_t
reap_batches(struct vq_driver *q, void **cookies, uint32_t n)
{
	uint32_t shown = (uint16_t)(q->used_seen - q->used_idx);
	uint32_t done = 0;

	while (done < n) {
		const uint32_t at = q->free_tail & q->mask;
		uint32_t left, take, to_end;

		if (!q->in_batch) {
			uint32_t id = read_used(q, q->used_idx).id;

			if (__builtin_expect(!is_head(q, id), 0)) {
				q->fault = VQ_DRIVER_ID;
				break;
			}
			q->batch_id = (uint16_t)id;
		}
		left = ((q->batch_id - at) & q->mask) + 1;
		/* A batch lies within what the index has shown. */
		if (__builtin_expect(left > shown - done, 0)) {
			q->fault = VQ_DRIVER_BATCH;
			break;
		}
		to_end = q->size - at;
		take = left < n - done ? left : n - done;
		take = take < to_end ? take : to_end;
		copy(cookies + done, &q->cookies[at], take);
		vq_driver_done_take(q, take);
		q->in_batch = take < left;
		done += take;
	}
	return done;
}

/* The short path, for both orders; the general reaper goes on where the expected did not come. */
static inline __attribute__((always_inline)) uint32_t
reap_expected(struct vq_driver *q, void **cookies, uint32_t *lens, uint32_t n, const bool receive)
{
	uint32_t taken = 0;

	while (taken < n) {
		const struct vq_driver_done done = vq_driver_done(q, n - taken);
		uint32_t i;

		for (i = 0; i < done.n; i++) {
			if (!vq_driver_done_at(&done, i, receive ? &lens[taken + i] : NULL))
				break;
			cookies[taken + i] = done.cookies[i];
		}
		vq_driver_done_take(q, i);
		taken += i;
		if (i == 0 || i < done.n)
			break;
	}
	return taken;
}

uint32_t
vq_driver_reap(struct vq_driver *q, void **cookies, uint32_t *lens, uint32_t n)
{
	uint32_t done;

	if (q->fault != VQ_DRIVER_OK)
		return 0;
	n = vq_driver_readable(q, n);
	if (n == 0)
		return 0;
	if (lens == NULL) {
		/* One entry stands for many, seldom for the one that is expected. */
		if (q->in_order && q->chains == 0)
			return reap_batches(q, cookies, n);
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
