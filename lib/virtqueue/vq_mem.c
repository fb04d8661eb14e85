/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "vq_mem.h"

static int
by_address(const void *a, const void *b)
{
	const struct vq_mem_region *x = a;
	const struct vq_mem_region *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

int
vq_mem_create(const struct vq_mem_region *regions, uint32_t count, struct vq_mem **out)
{
	struct vq_mem *mem;
	uint32_t i;

	if (count > VQ_MEM_REGIONS_MAX)
		return -E2BIG;
	for (i = 0; i < count; i++) {
		const struct vq_mem_region *r = &regions[i];

		/* The last byte must have an address, at both ends. */
		if (r->size == 0 || r->addr + (r->size - 1) < r->addr ||
			(uintptr_t)r->host + (r->size - 1) < (uintptr_t)r->host)
			return -EINVAL;
	}
	mem = malloc(sizeof(*mem) + count * sizeof(mem->regions[0]));
	if (mem == NULL)
		return -ENOMEM;
	mem->count = count;
	if (count != 0) {
		memcpy(mem->regions, regions, count * sizeof(mem->regions[0]));
		qsort(mem->regions, count, sizeof(mem->regions[0]), by_address);
	}
	for (i = 1; i < count; i++) {
		if (mem->regions[i].addr - mem->regions[i - 1].addr < mem->regions[i - 1].size) {
			free(mem);
			return -EINVAL;
		}
	}
	*out = mem;
	return 0;
}

void
vq_mem_destroy(struct vq_mem *mem)
{
	free(mem);
}

const struct vq_mem_region *
vq_mem_find(const struct vq_mem *mem, uint64_t addr)
{
	uint32_t low = 0;
	uint32_t high = mem->count;

	while (low < high) {
		uint32_t mid = low + (high - low) / 2;
		const struct vq_mem_region *r = &mem->regions[mid];

		if (addr < r->addr)
			high = mid;
		else if (addr - r->addr >= r->size)
			low = mid + 1;
		else
			return r;
	}
	return NULL;
}
