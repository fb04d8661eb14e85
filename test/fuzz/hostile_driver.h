/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A driver that does to its ring and its memory what the input says: often right, so that something
 * happens, and else wrong in every way there is.
 */
#ifndef FUZZ_HOSTILE_DRIVER_H
#define FUZZ_HOSTILE_DRIVER_H

#include "input.h"
#include "vq_device.h"

/* Of memory, and the three areas of each of two rings. */
#define GUEST_REGIONS     6
#define GUEST_REGIONS_ALL (GUEST_REGIONS + 6)

/** The memory of a guest. What is mapped may be less than there is. */
struct hostile_guest {
	struct vq_mem *mem;
	struct vq_mem_region regions[GUEST_REGIONS_ALL];
	uint32_t count;
};

struct hostile_ring {
	struct hostile_guest *guest;
	struct vq_desc *desc;
	struct vq_avail *avail;
	struct vq_used *used;
	uint32_t size;
	uint32_t region; /* of the three areas, in guest->regions; 0: not addressable */
	uint16_t next;   /* id to use next when it behaves */
};

void hostile_guest_init(struct hostile_guest *g, struct input *in);

/** Map what the mask says; 1 a bit. */
void hostile_guest_map(struct hostile_guest *g, uint32_t mask);
void hostile_guest_free(struct hostile_guest *g);

/** A ring beside the guest's memory, or also within reach of its descriptors. */
void hostile_ring_init(struct hostile_ring *r, struct hostile_guest *g, uint32_t size,
	uint16_t base, bool addressable);

/** The same ring elsewhere; the old place is poisoned. Map the guest again. false: no room. */
bool hostile_ring_move(struct hostile_ring *r);

/** One deed, of a driver that lets the device write (or read), when it behaves. */
void hostile_ring_step(struct hostile_ring *r, struct input *in, bool write);

/** The segment lies in what is mapped. */
bool hostile_guest_holds(const struct hostile_guest *g, const struct vq_seg *s);

/** A region that is mapped at this address. */
const struct vq_mem_region *hostile_guest_find(const struct hostile_guest *g, uint64_t addr);

#endif
