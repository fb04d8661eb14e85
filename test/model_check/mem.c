/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The memory map: what is refused, and that a translation stays in its region.
 */
#include "vq_mem.c"

#include "model.h"

#define LARGEST (UINT64_C(1) << 40)

/* What the library needs of qsort(): its own comparison, every order of equals being equal. */
void
qsort(void *base, size_t count, size_t size, int (*compare)(const void *, const void *))
{
	struct vq_mem_region *r = base;

	PROVE(size == sizeof(*r) && count == REGIONS);
	for (size_t i = 1; i < count; i++)
		for (size_t k = i; k > 0 && compare(&r[k - 1], &r[k]) > 0; k--) {
			struct vq_mem_region t = r[k];

			r[k] = r[k - 1];
			r[k - 1] = t;
		}
}

static bool
holds(const struct vq_mem_region *r, uint64_t addr)
{
	return addr >= r->addr && addr - r->addr < r->size;
}

static bool
overlap(const struct vq_mem_region *a, const struct vq_mem_region *b)
{
	return holds(a, b->addr) || holds(b, a->addr);
}

/* Regions in any order are taken just when each is sound and none overlaps; all of them, sorted. */
void
prove_map(void)
{
	struct vq_mem_region given[REGIONS];
	uint32_t one = any_upto(REGIONS - 1), found = 0;
	struct vq_mem *mem = NULL;
	bool good = true;
	int result;

	for (uint32_t i = 0; i < REGIONS; i++) {
		const struct vq_mem_region *r = &given[i];

		good = good && r->size != 0 && r->addr + (r->size - 1) >= r->addr &&
		       (uintptr_t)r->host + (r->size - 1) >= (uintptr_t)r->host;
		for (uint32_t k = 0; k < i; k++)
			good = good && !overlap(r, &given[k]);
	}
	result = vq_mem_create(given, REGIONS, &mem);
	PROVE(result == -ENOMEM || result == (good ? 0 : -EINVAL));
	REACH_IF(result == -ENOMEM, "no memory");
	REACH_IF(result == -EINVAL, "refused");
	if (result != 0)
		return;
	PROVE(mem->count == REGIONS);
	for (uint32_t i = 0; i < REGIONS; i++) {
		const struct vq_mem_region *r = &mem->regions[i];

		PROVE(i == 0 || (r->addr > r[-1].addr && r->addr - r[-1].addr >= r[-1].size));
		found += r->addr == given[one].addr && r->size == given[one].size &&
			 r->host == given[one].host;
	}
	PROVE(found == 1);
	REACH("taken");
	vq_mem_destroy(mem);
}

/* A map as prove_map() leaves it, any address, any hint: the region that holds it, or nothing. */
void
prove_translate(void)
{
	struct vq_mem *mem = any_bytes(sizeof(*mem) + REGIONS * sizeof(mem->regions[0]));
	uint64_t addr = nondet_u64(), avail = 0;
	const struct vq_mem_region *in = NULL;
	uint32_t hint = nondet_u32();
	uint8_t *host;

	mem->count = REGIONS;
	for (uint32_t i = 0; i < REGIONS; i++) {
		struct vq_mem_region *r = &mem->regions[i];

		ASSUME(r->size >= 1 && r->size <= LARGEST && r->addr + (r->size - 1) >= r->addr);
		r->host = any_bytes(r->size);
		if (i != 0)
			ASSUME(r->addr > r[-1].addr && r->addr - r[-1].addr >= r[-1].size);
		if (holds(r, addr))
			in = r;
	}
	host = vq_mem_translate(mem, &hint, addr, &avail);
	PROVE((host != NULL) == (in != NULL));
	REACH_IF(in == NULL, "nothing there");
	if (in == NULL)
		return;
	PROVE(host == in->host + (addr - in->addr));
	PROVE(avail == in->size - (addr - in->addr) && avail >= 1);
	PROVE(hint < REGIONS);
	REACH_IF(avail == 1 && in == &mem->regions[REGIONS - 1], "the last byte of the last");
}
