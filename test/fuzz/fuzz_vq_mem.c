/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * A memory table from a peer, and addresses to translate: the answers are compared with a plain
 * search in 128 bits.
 */

#include <errno.h>
#include <stdlib.h>

#include "between.h"
#include "input.h"
#include "vq_mem.h"

#define REGIONS 12

struct naive {
	struct vq_mem_region regions[REGIONS];
	uint32_t count;
};

static __uint128_t
end_of(uint64_t from, uint64_t size)
{
	return (__uint128_t)from + size;
}

static int
naive_verdict(const struct naive *n)
{
	const __uint128_t limit = (__uint128_t)1 << 64;

	for (uint32_t i = 0; i < n->count; i++) {
		const struct vq_mem_region *r = &n->regions[i];

		if (r->size == 0 || end_of(r->addr, r->size) > limit ||
			end_of((uintptr_t)r->host, r->size) > limit)
			return -EINVAL;
		for (uint32_t k = 0; k < i; k++) {
			const struct vq_mem_region *o = &n->regions[k];

			if (r->addr < end_of(o->addr, o->size) &&
				o->addr < end_of(r->addr, r->size))
				return -EINVAL;
		}
	}
	return 0;
}

static const struct vq_mem_region *
naive_find(const struct naive *n, uint64_t addr)
{
	for (uint32_t i = 0; i < n->count; i++) {
		const struct vq_mem_region *r = &n->regions[i];

		if (addr >= r->addr && addr < end_of(r->addr, r->size))
			return r;
	}
	return NULL;
}

/* Behind, before, or upon another region more often than anywhere. */
static uint64_t
address(struct input *in, const struct naive *n)
{
	uint8_t how = in_u8(in);
	const struct vq_mem_region *r = n->count != 0 ? &n->regions[in_u8(in) % n->count] : NULL;
	uint64_t near = r == NULL ? 0 : how & 1 ? r->addr + r->size : r->addr;

	switch (how >> 1 & 3) {
	case 0:
		return near + (uint64_t)(int8_t)in_u8(in);
	case 1:
		return near;
	case 2:
		return UINT64_MAX - in_u8(in);
	default:
		return in_u64(in);
	}
}

static uint64_t
length(struct input *in)
{
	switch (in_below(in, 4)) {
	case 0:
		return in_u8(in);
	case 1:
		return in_u16(in);
	case 2:
		return UINT64_MAX - in_u8(in);
	default:
		return in_u64(in);
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct naive n = {.count = 0};
	const uint32_t count = in_below(&in, REGIONS + 1);
	struct vq_mem_region *regions = NULL;
	struct vq_mem *mem = NULL;
	uint32_t hint = 0;
	int ret;

	while (n.count < count) {
		struct vq_mem_region r = {.addr = address(&in, &n), .size = length(&in)};

		/* Never touched, and like any mapping not at 0. */
		r.host = (uint8_t *)(uintptr_t)(in_u8(&in) < 250 ? 0x10000 : in_u64(&in) | 1);
		n.regions[n.count++] = r;
	}
	/* Exactly as many as there are, so that one more would be seen. */
	if (count != 0) {
		regions = malloc(count * sizeof(regions[0]));
		MUST(regions != NULL);
		memcpy(regions, n.regions, count * sizeof(regions[0]));
	}
	ret = vq_mem_create(regions, count, &mem);
	free(regions);
	MUST(ret == naive_verdict(&n));
	if (ret != 0) {
		MUST(mem == NULL);
		return 0;
	}
	while (in_more(&in)) {
		uint64_t addr = address(&in, &n);
		const struct vq_mem_region *r = naive_find(&n, addr);
		uint64_t avail = 0;
		uint8_t *host;

		/* A hint from another map. */
		if (in_u8(&in) > 250)
			hint = in_u32(&in);
		host = vq_mem_translate(mem, &hint, addr, &avail);
		MUST((host == NULL) == (r == NULL));
		if (r == NULL)
			continue;
		MUST(host == r->host + (addr - r->addr));
		MUST(avail == r->size - (addr - r->addr));
		MUST(hint < count);
	}
	vq_mem_destroy(mem);
	return 0;
}
