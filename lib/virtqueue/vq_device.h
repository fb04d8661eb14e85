/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Device side of a split virtqueue (virtio 1.3, section 2.7), for a driver that is not trusted.
 *
 * A queue is used by one thread at a time (several only under a lock of the caller's). Everything
 * the driver writes is read once into a local, then checked. A malformed *chain* is handed out with
 * its fault, to be completed with length 0 in its turn; a malformed *ring* turns the queue broken:
 * sticky, with a reason, and peeking returns nothing from then on.
 *
 * Turn of a burst: peek chains, use them, complete each in the same order, publish, decide on a
 * call.
 */
#ifndef VQ_DEVICE_H
#define VQ_DEVICE_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "vq_coalesce.h"
#include "vq_mem.h"
#include "vq_order.h"
#include "vq_wire.h"

/** What is wrong with a chain, or with a ring. */
enum vq_device_fault {
	VQ_DEVICE_OK,
	/* Of a chain: completed with 0, the next one goes. */
	VQ_CHAIN_LOOP,      /**< longer than the ring */
	VQ_CHAIN_NEXT,      /**< next out of range */
	VQ_CHAIN_ADDRESS,   /**< (address, length) not mapped, or wrapping */
	VQ_CHAIN_DIRECTION, /**< a descriptor of the wrong direction */
	VQ_CHAIN_INDIRECT,  /**< an indirect table of a wrong length, nested, or not offered */
	VQ_CHAIN_SEGMENTS,  /**< more segments than the caller has room for, or 4 GiB and more */
	VQ_CHAIN_SHORT, /**< counted by vq_net_put(): a receive chain that no packet can begin in */
	/* Of the ring. */
	VQ_RING_INDEX, /**< the available index ran further than the ring is long */
	VQ_RING_HEAD,  /**< a head out of range */
	VQ_DEVICE_FAULTS,
};

/** Text for a log line. */
const char *vq_device_fault_name(enum vq_device_fault fault);

/** Bytes that a short packet has: both ends of one are prefetched where it is to be written. */
#define VQ_SHORT_PACKET 64

/** A piece of a chain in this process. Guest memory: read each byte once, trust nothing twice. */
struct vq_seg {
	uint8_t *base;
	uint32_t len; /* not 0 */
};

/** A chain as handed out by vq_device_peek(). */
struct vq_chain {
	uint32_t len;   /**< bytes over all segments; 0 with a fault */
	uint32_t seg;   /**< index of its first segment in the caller's array */
	uint16_t nseg;  /**< segments; 0 with a fault */
	uint16_t fault; /**< enum vq_device_fault of the chain; then complete it with 0 */
	uint16_t head;  /**< id to complete it with */
};

struct vq_device {
	/* Shared. */
	const struct vq_desc *desc;
	struct vq_avail *avail;
	struct vq_used *used;
	/* Private. */
	const struct vq_mem *mem;
	uint32_t mem_hint;
	uint32_t size;
	uint16_t mask;
	uint16_t avail_idx;   /* next entry to hand out */
	uint16_t avail_seen;  /* the driver's index when last read */
	uint16_t outstanding; /* handed out and not completed */
	uint16_t used_idx;    /* next entry to write */
	uint16_t published;   /* what the driver has been told */
	uint16_t call_idx;    /* published at the last call decision */
	uint16_t first_byte;  /* of struct vq_device_config */
	bool event_idx;
	bool in_order;
	bool indirect;
	uint8_t fault; /* VQ_DEVICE_OK, or of the ring: broken */
	struct vq_coalesce coalesce;
	uint64_t bad_chains[VQ_DEVICE_FAULTS]; /* chains handed out with this fault */
	uint64_t walked;                       /* descriptors of chains that took the long way */
};

struct vq_device_config {
	uint32_t size;     /**< entries, a power of two, 1..VQ_SIZE_MAX */
	uint64_t features; /**< negotiated; EVENT_IDX, IN_ORDER and INDIRECT_DESC matter */
	uint16_t base;     /**< available index to start from (SET_VRING_BASE) */
	/** Which byte of a chain is touched first, behind a header that nobody reads: a hint for
	 * prefetching. */
	uint16_t first_byte;
	const void *desc; /**< the three areas, mapped here in full, aligned to 16, 2 and 4 bytes */
	void *avail;
	void *used;
	const struct vq_mem *mem; /**< outlives the queue, or until the next init */
};

/** Bytes of the three areas, the fields of EVENT_IDX included (2.7.2): to check before mapping. */
static inline uint64_t
vq_desc_bytes(uint32_t size)
{
	return (uint64_t)size * sizeof(struct vq_desc);
}

static inline uint64_t
vq_avail_bytes(uint32_t size)
{
	return 6 + (uint64_t)size * 2;
}

static inline uint64_t
vq_used_bytes(uint32_t size)
{
	return 6 + (uint64_t)size * sizeof(struct vq_used_elem);
}

/**
 * Start a queue. The used index is taken from the ring, so that a device that comes back goes on
 * where the last one stopped. No notifications are asked for, and the next call decision is for a
 * call if the driver wants any.
 * @return 0, or -EINVAL (size, or a NULL or misaligned area)
 */
int vq_device_init(struct vq_device *q, const struct vq_device_config *config);

/**
 * The same ring is mapped elsewhere now: go on where it stands. No chain may be handed out.
 * @param desc as in struct vq_device_config, of the same size, mapped and aligned; so the others
 */
static inline void
vq_device_move(
	struct vq_device *q, const void *desc, void *avail, void *used, const struct vq_mem *mem)
{
	q->desc = (const struct vq_desc *)desc;
	q->avail = (struct vq_avail *)avail;
	q->used = (struct vq_used *)used;
	q->mem = mem;
	q->mem_hint = 0;
}

/** The next available index, for GET_VRING_BASE: chains handed out and not completed come again. */
static inline uint16_t
vq_device_base(const struct vq_device *q)
{
	return (uint16_t)(q->avail_idx - q->outstanding);
}

/**
 * Hand out up to nchains chains as segments, without completing them. Barrier [A]; all descriptors
 * of the batch are read before the first byte behind them is, and the lines of each chain that are
 * touched first are prefetched: to read, that of config->first_byte; to write, for write, those of
 * both ends of a short packet that begins there.
 * @param write false: the device reads these (transmit queue), true: it writes them (receive queue)
 * @param chains filled with the result
 * @param segs room for the segments, of which one chain takes UINT16_MAX at most; a chain that
 * finds too little left ends the batch before it, one that has the whole array and still does not
 * fit has fault VQ_CHAIN_SEGMENTS. Nor are more descriptors walked in one call than that and four a
 * chain, empty ones included, so that the work of a call is bounded whatever the driver links
 * together
 * @param seg0 index in `segs` at which to start (so that a second peek can append)
 * @return chains handed out, 0..nchains; q->fault tells whether the ring is broken
 */
uint32_t vq_device_peek(struct vq_device *q, bool write, struct vq_chain *chains, uint32_t nchains,
	struct vq_seg *segs, uint32_t nsegs, uint32_t seg0);

/** Put the last n chains handed out back: the next peek hands them out again. n <= outstanding. */
static inline void
vq_device_rewind(struct vq_device *q, uint32_t n)
{
	q->avail_idx = (uint16_t)(q->avail_idx - n);
	q->outstanding = (uint16_t)(q->outstanding - n);
}

/** Write a used entry, by one store, and only where it differs: the same buffer with the same
 * length as a lap ago costs the driver no cache miss. */
static inline void
vq_device_set_used(struct vq_used_elem *e, uint32_t id, uint32_t len)
{
	const uint64_t value = (uint64_t)len << 32 | id;
	uint64_t old;

	memcpy(&old, e, sizeof(old));
	if (old != value)
		memcpy(e, &value, sizeof(value));
}

/**
 * Complete the oldest chain handed out.
 * @param len bytes written: header and packet on receive, 0 on transmit
 */
static inline void
vq_device_complete(struct vq_device *q, uint16_t head, uint32_t len)
{
	vq_device_set_used(&q->used->ring[q->used_idx & q->mask], head, len);
	q->used_idx++;
	q->outstanding--;
}

/**
 * Complete the n oldest chains of a transmit queue with length 0. With IN_ORDER one entry stands
 * for all (2.7.9): at the batch's first place, naming the last head.
 */
void vq_device_complete_tx(struct vq_device *q, const struct vq_chain *chains, uint32_t n);

/** Show the driver everything completed. At the end of every turn. Barrier [B]. @return how many.
 */
static inline uint32_t
vq_device_publish(struct vq_device *q)
{
	uint32_t n = (uint16_t)(q->used_idx - q->published);

	if (n != 0) {
		q->published = q->used_idx;
		vq_publish_index(&q->used->idx, q->used_idx);
	}
	return n;
}

/** What vq_device_call() decided. */
enum vq_call {
	VQ_CALL_NONE,       /**< nothing is pending */
	VQ_CALL_DEFERRED,   /**< coalescing holds it */
	VQ_CALL_SUPPRESSED, /**< the driver does not want it (2.7.7) */
	VQ_CALL_MAKE,       /**< call now */
};

/**
 * After every turn, an empty one too: is a call to be made for what was published? The call itself
 * is the caller's. Barrier [C].
 * @param n what vq_device_publish() returned
 * @param now clock of q->coalesce; may be 0 while its ticks are 0
 */
enum vq_call vq_device_call(struct vq_device *q, uint32_t n, uint64_t now);

/** Let a held call go now, e.g. before the worker sleeps. */
enum vq_call vq_device_call_flush(struct vq_device *q);

/**
 * Ask for a notification at the next chain, then look again (2.7.10). Barrier [C].
 * @return true if chains are waiting already: do not sleep; never for a broken queue
 */
bool vq_device_arm(struct vq_device *q);

/**
 * Ask for a notification at the next chain, and poll on: whoever does that needs no second look.
 * After each turn, for an event index stays behind.
 */
void vq_device_ask(struct vq_device *q);

/** Ask for no notifications, while polling. */
void vq_device_disarm(struct vq_device *q);

#endif
