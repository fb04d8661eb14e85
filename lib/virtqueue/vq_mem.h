/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The memory map of a device: which host address stands for which address of the driver. Built
 * once, never changed afterwards (a new table is a new map), so any thread may translate while it
 * lives.
 *
 * Regions are sorted; a translation says how many bytes lie behind it, so that a buffer may cross
 * from one region into the next.
 */
#ifndef VQ_MEM_H
#define VQ_MEM_H

#include <stddef.h>
#include <stdint.h>

/** Most regions a map takes. */
#define VQ_MEM_REGIONS_MAX 512

struct vq_mem_region {
	uint64_t addr; /**< as the driver writes it into descriptors: guest-physical, IOVA, or VA */
	uint64_t size; /**< bytes, not 0 */
	uint8_t *host; /**< where the same bytes are mapped here */
};

struct vq_mem {
	uint32_t count;
	struct vq_mem_region regions[];
};

/**
 * Build a map from regions in any order.
 * @param count 0..VQ_MEM_REGIONS_MAX; 0 makes a map that translates nothing
 * @param out the map on success; release it with vq_mem_destroy()
 * @return 0, -EINVAL (a region is empty, wraps, or overlaps another), -E2BIG, -ENOMEM
 */
int vq_mem_create(const struct vq_mem_region *regions, uint32_t count, struct vq_mem **out);

/** Release a map that no thread uses any more. NULL is fine. The regions stay mapped. */
void vq_mem_destroy(struct vq_mem *mem);

/** The search behind vq_mem_translate(); returns the region that holds addr, or NULL. */
const struct vq_mem_region *vq_mem_find(const struct vq_mem *mem, uint64_t addr);

/**
 * Translate an address. Any thread.
 * @param hint the caller's last-hit cache, starting at 0; private to one thread
 * @param avail set to the bytes from addr to the end of its region (at least 1)
 * @return host address, or NULL if nothing is mapped there
 */
static inline uint8_t *
vq_mem_translate(const struct vq_mem *mem, uint32_t *hint, uint64_t addr, uint64_t *avail)
{
	const struct vq_mem_region *r;
	uint64_t off;

	if (__builtin_expect(*hint < mem->count, 1)) {
		r = &mem->regions[*hint];
		off = addr - r->addr; /* wraps to a huge offset for an address below the region */
		if (__builtin_expect(off < r->size, 1)) {
			*avail = r->size - off;
			return r->host + off;
		}
	}
	r = vq_mem_find(mem, addr);
	if (r == NULL)
		return NULL;
	*hint = (uint32_t)(r - mem->regions);
	off = addr - r->addr;
	*avail = r->size - off;
	return r->host + off;
}

#endif
