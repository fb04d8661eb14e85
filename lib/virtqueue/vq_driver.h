/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Driver side of a split virtqueue (virtio 1.3, section 2.7).
 *
 * A queue belongs to one thread at a time; nothing here locks. Private state (which ids are free,
 * cookies, the chain of each head, the length posted) never lies in shared memory, and what the
 * device writes is read once and checked. A device that breaks the rules turns the queue *broken*:
 * sticky, with a reason; reaping then returns nothing and only vq_driver_detach_all() and
 * vq_driver_reset() help.
 *
 * Descriptor ids are handed out in the order in which they came back. With a device that completes
 * in order the id, its descriptor and its entry of the available ring so stay together, lap after
 * lap, and posting a buffer again writes nothing but the descriptor. With IN_ORDER the order is a
 * promise, which is just what the specification asks of the driver.
 *
 * While the device keeps the order, slots are filled and emptied in runs: struct vq_driver_run and
 * vq_driver_done. What is not so common a shape goes one by one. A single completion out of order
 * mixes the ids, and so ends the runs until the next vq_driver_reset(): all stays as safe, and is
 * slower.
 */
#ifndef VQ_DRIVER_H
#define VQ_DRIVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "vq_layout.h"
#include "vq_order.h"
#include "vq_wire.h"

/** Why a queue is broken. */
enum vq_driver_fault {
	VQ_DRIVER_OK,
	VQ_DRIVER_INDEX,  /**< the used index ran past what is in flight */
	VQ_DRIVER_ID,     /**< a used id out of range, or of no chain in flight */
	VQ_DRIVER_LENGTH, /**< a used length above what was posted */
	VQ_DRIVER_BATCH,  /**< an IN_ORDER batch that does not end where it says */
};

/** Text for a log line. */
const char *vq_driver_fault_name(enum vq_driver_fault fault);

/** What is known of a descriptor id; private. */
struct vq_driver_slot {
	uint32_t len;   /* bytes posted, over the whole chain */
	uint16_t ndesc; /* of the chain whose head this id is; 0: not a head in flight */
	uint16_t next;  /* the next id of a direct chain */
};

struct vq_driver {
	/* Shared. */
	struct vq_desc *desc;
	struct vq_avail *avail;
	struct vq_used *used;
	/* Private. */
	void **cookies; /* by id, of chains in flight */
	struct vq_driver_slot *slots;
	uint16_t *free_ids; /* a ring of ids: taken at free_head, given back at free_tail */
	uint32_t size;
	uint16_t mask;
	uint16_t free_head;
	uint16_t free_tail;  /* free_tail - free_head: free descriptors */
	uint16_t avail_idx;  /* next entry to fill */
	uint16_t published;  /* what the device has been told */
	uint16_t used_idx;   /* next entry to reap */
	uint16_t used_seen;  /* the device's index when last read */
	uint16_t notify_idx; /* avail_idx at the last notification decision */
	uint16_t batch_id;   /* IN_ORDER: the head that ends the batch under way */
	uint16_t chains;     /* in flight, of several descriptors */
	bool in_batch;
	bool in_step; /* all came back in order so far: each id stands at its place in free_ids */
	bool fixed;   /* and in the available ring, for there was no chain of several either */
	bool event_idx;
	bool in_order;
	bool indirect;         /**< vq_driver_add_indirect() may be used */
	uint8_t fault;         /* enum vq_driver_fault */
	uint32_t batch_len;    /* IN_ORDER: the length of that last head */
	uint32_t table_len;    /* entries of each id's indirect table, at most size; 0: none */
	struct vq_desc *table; /* shared: size tables of table_len entries */
	uint64_t table_addr;   /* the same, as the device addresses it */
};

struct vq_driver_config {
	uint32_t size;     /**< entries, a power of two, 1..VQ_SIZE_MAX */
	uint64_t features; /**< negotiated; EVENT_IDX, IN_ORDER and INDIRECT_DESC matter */
	void *ring;        /**< shared block of vq_layout().bytes, aligned to VQ_CACHE_LINE */
	void *priv;        /**< private block of vq_driver_private_bytes(), aligned to 16 */
	/** Indirect tables, used with INDIRECT_DESC: size * table_len descriptors, aligned to 16.
	 */
	struct vq_desc *table;
	uint64_t table_addr; /**< device address of `table` */
	uint32_t table_len;  /**< entries per table, cut to `size`; 0: no indirect chains */
};

/** A buffer element, as the device addresses it. */
struct vq_sg {
	uint64_t addr;
	uint32_t len;
};

/** Bytes of private memory that a queue of this size needs. */
size_t vq_driver_private_bytes(uint32_t size);

/**
 * Make an empty queue; clears the ring and the private block.
 * @return 0, or -EINVAL (size, or a NULL or misaligned block)
 */
int vq_driver_init(struct vq_driver *q, const struct vq_driver_config *config);

/**
 * Empty the ring and start again at index 0, e.g. after the device was reset. Chains in flight are
 * forgotten: detach them first. The features may have changed with the device.
 */
void vq_driver_reset(struct vq_driver *q, uint64_t features);

/**
 * Hand the cookie of every chain in flight to `fn`, each once, then forget it. The device must have
 * stopped. The queue needs vq_driver_reset() afterwards.
 * @return the number of cookies
 */
uint32_t vq_driver_detach_all(struct vq_driver *q, void (*fn)(void *cookie, void *arg), void *arg);

/** Free descriptors. */
static inline uint32_t
vq_driver_free(const struct vq_driver *q)
{
	return (uint16_t)(q->free_tail - q->free_head);
}

/** Chains added and not reaped. */
static inline uint32_t
vq_driver_inflight(const struct vq_driver *q)
{
	return (uint16_t)(q->avail_idx - q->used_idx);
}

/** Chains that the device has completed and that are not reaped; reads the shared index. */
static inline uint32_t
vq_driver_pending(const struct vq_driver *q)
{
	uint32_t n = (uint16_t)(vq_load_index(&q->used->idx) - q->used_idx);

	return n <= vq_driver_inflight(q) && q->fault == VQ_DRIVER_OK ? n : 0;
}

static inline uint16_t
vq_driver_take_id(struct vq_driver *q)
{
	return q->free_ids[q->free_head++ & q->mask];
}

/* Both are two fields beside each other, which take one store. */
static inline void
vq_driver_set_desc(struct vq_desc *d, uint64_t addr, uint32_t len, uint16_t flags)
{
	uint64_t rest = len | (uint64_t)flags << 32; /* and next: none */

	d->addr = addr;
	memcpy((char *)d + offsetof(struct vq_desc, len), &rest, sizeof(rest));
}

static inline void
vq_driver_set_slot(struct vq_driver_slot *slot, uint32_t len, uint16_t ndesc)
{
	uint64_t all = len | (uint64_t)ndesc << 32; /* and next, which only chains have */

	memcpy(slot, &all, sizeof(all));
}

/** Free slots in a row, to be filled from the first on with chains of one descriptor. */
struct vq_driver_run {
	struct vq_desc *desc;
	void **cookies;
	uint32_t n; /**< slots, at least 1 */
};

/**
 * The run that comes next. The caller has checked vq_driver_free() >= n >= 1.
 * @return of at most n slots; less where the ring ends, one by one where ids are in disorder
 */
static inline struct vq_driver_run
vq_driver_run(const struct vq_driver *q, uint32_t n)
{
	const uint32_t at = q->avail_idx & q->mask;
	const uint16_t id = q->free_ids[q->free_head & q->mask];
	const uint32_t to_end = q->size - (at > id ? at : id);

	if (!q->in_step)
		n = 1;
	return (struct vq_driver_run){
		.desc = &q->desc[id],
		.cookies = &q->cookies[id],
		.n = n < to_end ? n : to_end,
	};
}

/**
 * Up to n descriptors are going to be written soon: fetch them, while there is other work. The
 * caller has checked that so many are free, or done: what the device has yet to read stays with it.
 */
static inline void
vq_driver_prefetch(const struct vq_driver *q, uint32_t n)
{
	struct vq_driver_run run;
	uint32_t i;

	if (n == 0)
		return;
	run = vq_driver_run(q, n);
	for (i = 0; i < run.n; i += VQ_CACHE_LINE / sizeof(struct vq_desc))
		vq_prefetch_write((uintptr_t)&run.desc[i]);
}

/** Fill slot i of a run. Parameters as of vq_driver_add(). */
static inline void
vq_driver_fill(const struct vq_driver_run *run, uint32_t i, uint64_t addr, uint32_t len,
	uint16_t flags, void *cookie)
{
	vq_driver_set_desc(&run->desc[i], addr, len, flags);
	run->cookies[i] = cookie;
}

/**
 * The first n slots of the run are filled.
 * @param most bytes that the device may write into each; for a transmit queue any number
 */
static inline void
vq_driver_filled(struct vq_driver *q, uint32_t n, uint32_t most)
{
	_Atomic(uint16_t) *ring = &q->avail->ring[q->avail_idx & q->mask];
	const uint16_t id = q->free_ids[q->free_head & q->mask];
	uint32_t i;

	for (i = 0; i < n; i++)
		vq_driver_set_slot(&q->slots[id + i], most, 1);
	for (i = 0; i < n && !q->fixed; i++)
		vq_store_unless_equal(&ring[i], (uint16_t)(id + i));
	q->free_head = (uint16_t)(q->free_head + n);
	q->avail_idx = (uint16_t)(q->avail_idx + n);
}

/**
 * Add a chain of one descriptor. The caller has checked vq_driver_free() >= 1.
 * The device sees it after vq_driver_publish().
 * @param flags 0 (the device reads) or VQ_DESC_WRITE
 * @param cookie comes back from vq_driver_reap()
 */
static inline void
vq_driver_add(struct vq_driver *q, uint64_t addr, uint32_t len, uint16_t flags, void *cookie)
{
	const struct vq_driver_run run = vq_driver_run(q, 1);

	vq_driver_fill(&run, 0, addr, len, flags, cookie);
	vq_driver_filled(q, 1, len);
}

/**
 * Add a direct chain of n >= 1 descriptors, all in one direction. The caller has checked
 * vq_driver_free() >= n. `flags` as for vq_driver_add().
 */
void vq_driver_add_chain(
	struct vq_driver *q, const struct vq_sg *sg, uint32_t n, uint16_t flags, void *cookie);

/**
 * Add a chain of n descriptors through the head's indirect table (2.7.5.3): one ring entry. The
 * caller has checked q->indirect, vq_driver_free() >= 1 and 1 <= n <= q->table_len.
 */
void vq_driver_add_indirect(
	struct vq_driver *q, const struct vq_sg *sg, uint32_t n, uint16_t flags, void *cookie);

/**
 * Add a direct chain of two descriptors, as control queues want them: `out` is read by the device,
 * `in` is written. The caller has checked vq_driver_free() >= 2.
 */
void vq_driver_add_request(
	struct vq_driver *q, const struct vq_sg *out, const struct vq_sg *in, void *cookie);

/** Show the device everything added so far. Once per burst. Barrier [A]. */
static inline void
vq_driver_publish(struct vq_driver *q)
{
	if (q->published != q->avail_idx) {
		q->published = q->avail_idx;
		vq_publish_index(&q->avail->idx, q->avail_idx);
	}
}

/**
 * Must the device be notified of what was published since the last decision (2.7.10)? At most once
 * per burst; the doorbell itself is the caller's. Barrier [C].
 */
static inline bool
vq_driver_need_notify(struct vq_driver *q)
{
	uint16_t old = q->notify_idx;

	if (q->published == old)
		return false;
	vq_notify_fence();
	q->notify_idx = q->published;
	if (q->event_idx)
		return vq_event_passed(
			vq_load(vq_avail_event(q->used, q->size)), q->published, old);
	return !(vq_load(&q->used->flags) & VQ_USED_NO_NOTIFY);
}

/* How many used entries may be read, at most n; refreshes the device's index only when short. */
static inline uint32_t
vq_driver_readable(struct vq_driver *q, uint32_t n)
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

/** Completions in a row, of chains of one descriptor, if they are what is expected. */
struct vq_driver_done {
	const volatile struct vq_used_elem *used;
	const struct vq_driver_slot *slots;
	void *const *cookies; /**< of each that is expected */
	uint32_t n;
	uint32_t id;
};

/** May completions be taken in a row? If not, vq_driver_reap() takes them. */
static inline bool
vq_driver_in_row(const struct vq_driver *q)
{
	return q->in_step && q->chains == 0 && !q->in_batch && q->fault == VQ_DRIVER_OK;
}

/** Is all taken that the device has shown, as far as we have looked? */
static inline bool
vq_driver_all_taken(const struct vq_driver *q)
{
	return q->used_seen == q->used_idx;
}

/** Up to n completions that the device has shown; none where they are not in a row. Barrier [B]. */
static inline struct vq_driver_done
vq_driver_done(struct vq_driver *q, uint32_t n)
{
	const uint32_t at = q->used_idx & q->mask;
	const uint32_t id = q->free_tail & q->mask;
	const uint32_t to_end = q->size - (at > id ? at : id);

	if (!vq_driver_in_row(q))
		n = 0;
	n = vq_driver_readable(q, n < to_end ? n : to_end);
	return (struct vq_driver_done){
		.used = &q->used->ring[at],
		.slots = &q->slots[id],
		.cookies = &q->cookies[id],
		.n = n,
		.id = id,
	};
}

/**
 * Has completion i the id that is expected, and a length that was posted? Reads the entry once.
 * @param len the bytes that the device wrote; NULL on a transmit queue, where it is ignored
 */
static inline bool
vq_driver_done_at(const struct vq_driver_done *done, uint32_t i, uint32_t *len)
{
	if (__builtin_expect(done->used[i].id != done->id + i, 0))
		return false;
	if (len == NULL)
		return true;
	*len = done->used[i].len;
	return __builtin_expect(*len <= done->slots[i].len, 1);
}

/** Take the first n of them back. */
static inline void
vq_driver_done_take(struct vq_driver *q, uint32_t n)
{
	struct vq_driver_slot *slots = &q->slots[q->free_tail & q->mask];
	uint32_t i;

	for (i = 0; i < n; i++)
		vq_driver_set_slot(&slots[i], 0, 0);
	q->used_idx = (uint16_t)(q->used_idx + n);
	q->free_tail = (uint16_t)(q->free_tail + n);
}

/**
 * Take back up to n completed chains. Barrier [B].
 * @param cookies n entries, filled in the order of completion
 * @param lens n entries: the bytes the device wrote, checked against what was posted; NULL on a
 *   transmit queue, where the length is ignored
 * @return chains taken, 0..n; look at q->fault when 0 is unexpected
 */
uint32_t vq_driver_reap(struct vq_driver *q, void **cookies, uint32_t *lens, uint32_t n);

/**
 * Ask for a call at the next completion, then look again (2.7.7). Barrier [C].
 * @return true if completions are waiting already: do not sleep; never for a broken queue
 */
bool vq_driver_arm(struct vq_driver *q);

/**
 * The same for the n-th completion from now on: 1 <= n <= size. It takes EVENT_IDX: flags cannot
 * say this (2.7.7).
 * @return true if n are waiting already
 */
bool vq_driver_arm_nth(struct vq_driver *q, uint16_t n);

/** Ask for no calls; with EVENT_IDX a stale event, so one comes every 65,536 completions. */
void vq_driver_disarm(struct vq_driver *q);

#endif
