/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vu_backend_impl.h"

/* Largest block (huge page) size that a file may claim. */
#define BLOCK_MAX (UINT64_C(1) << 34)

static bool
wraps(uint64_t start, uint64_t size)
{
	return start + (size - 1) < start;
}

/* Addresses that can exist; overlaps are a matter of the whole table. */
static int
check_region(const struct vu_wire_region *r)
{
	if (r->size == 0 || wraps(r->guest, r->size) || wraps(r->user, r->size))
		return -EINVAL;
	if (r->offset > INT64_MAX || r->size > INT64_MAX - r->offset)
		return -EINVAL;
	return 0;
}

static bool
same_region(const struct vu_wire_region *a, const struct vu_wire_region *b)
{
	return a->guest == b->guest && a->user == b->user && a->size == b->size;
}

/* The mapping that stands for this region of this file already, or NULL. */
static const struct vu_mapping *
find_mapping(const struct vu_memory *m, const struct vu_wire_region *r, const struct stat *st)
{
	uint32_t i;

	for (i = 0; i < m->count; i++) {
		const struct vu_mapping *k = &m->maps[i];

		if (same_region(&k->wire, r) && k->wire.offset == r->offset &&
			k->dev == st->st_dev && k->ino == st->st_ino)
			return k;
	}
	return NULL;
}

/*
 * Map the blocks that the region touches: an offset need not be a multiple of a (huge) page, but
 * mmap() wants one, and munmap() a length in whole huge pages.
 */
static int
map_region(const struct vu_wire_region *r, int fd, const struct stat *st, struct vu_mapping *out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t block = (uint64_t)st->st_blksize;
	uint64_t delta, len;
	void *p;

	/* Beyond the end of the file wait SIGBUS and the peer's pleasure. */
	if (!S_ISREG(st->st_mode) || (uint64_t)st->st_size < r->offset + r->size)
		return -EINVAL;
	if (block < page || block > BLOCK_MAX || (block & (block - 1)) != 0)
		block = page;
	delta = r->offset & (block - 1);
	len = (delta + r->size + block - 1) & ~(block - 1);
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		(off_t)(r->offset - delta));
	if (p == MAP_FAILED)
		return -errno;
	/* Guest memory in our core dumps would be large, and none of our business. */
	madvise(p, len, MADV_DONTDUMP);
	*out = (struct vu_mapping){
		.wire = *r,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.host = (uint8_t *)p + delta,
		.map = p,
		.map_len = len,
	};
	return 0;
}

static bool
holds(const struct vu_mapping *maps, uint32_t count, const uint8_t *map)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (maps[i].map == map)
			return true;
	}
	return false;
}

/* Unmap what is in `maps` and not in `keep`. */
static void
unmap_except(const struct vu_mapping *maps, uint32_t count, const struct vu_mapping *keep,
	uint32_t nkeep)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (!holds(keep, nkeep, maps[i].map))
			munmap(maps[i].map, maps[i].map_len);
	}
}

/*
 * Does the last region share addresses of the frontend with one before it? Ring addresses must have
 * one meaning, like guest addresses, which vq_mem_create() checks.
 */
static bool
user_overlaps(const struct vu_mapping *maps, uint32_t last)
{
	const struct vu_wire_region *a = &maps[last].wire;
	uint32_t i;

	for (i = 0; i < last; i++) {
		const struct vu_wire_region *b = &maps[i].wire;

		if (a->user - b->user < b->size || b->user - a->user < a->size)
			return true;
	}
	return false;
}

/* Build the map that workers use. */
static int
make_vq_mem(const struct vu_mapping *maps, uint32_t count, struct vq_mem **out)
{
	struct vq_mem_region regions[VU_MEM_SLOTS];
	uint32_t i;

	for (i = 0; i < count; i++) {
		regions[i] = (struct vq_mem_region){
			.addr = maps[i].wire.guest,
			.size = maps[i].wire.size,
			.host = maps[i].host,
		};
	}
	return vq_mem_create(regions, count, out);
}

/*
 * Put `maps` (allocated; ours from here on) in the place of what we have. On failure what was
 * mapped for it is unmapped and the old memory stays as it was.
 */
static int
install(struct vu_backend *b, struct vu_mapping *maps, uint32_t count)
{
	struct vu_memory old = b->memory;
	struct vu_memory next = {.maps = maps, .count = count};
	int err = make_vq_mem(maps, count, &next.vq);

	if (err != 0) {
		unmap_except(maps, count, old.maps, old.count);
		free(maps);
		return err;
	}
	vu_backend_touch(b);
	b->memory = next;
	vu_rings_settle(b);
	unmap_except(old.maps, old.count, maps, count);
	vq_mem_destroy(old.vq);
	free(old.maps);
	return 0;
}

static int
take_region(const struct vu_memory *old, const struct vu_wire_region *r, int fd,
	struct vu_mapping *out, uint32_t *reused)
{
	const struct vu_mapping *have;
	struct stat st;
	int err = check_region(r);

	if (err != 0)
		return err;
	if (fstat(fd, &st) < 0)
		return -errno;
	have = find_mapping(old, r, &st);
	if (have == NULL)
		return map_region(r, fd, &st, out);
	*out = *have;
	++*reused;
	return 0;
}

int
vu_memory_set(
	struct vu_backend *b, const struct vu_wire_region *regions, uint32_t count, const int *fds)
{
	struct vu_mapping *maps = calloc(count + 1, sizeof(*maps));
	uint32_t reused = 0;
	uint32_t i;
	int err = 0;

	if (maps == NULL)
		return -ENOMEM;
	for (i = 0; i < count && err == 0; i++) {
		err = take_region(&b->memory, &regions[i], fds[i], &maps[i], &reused);
		if (err != 0)
			break;
		if (user_overlaps(maps, i))
			err = -EINVAL;
	}
	if (err != 0) {
		unmap_except(maps, i, b->memory.maps, b->memory.count);
		free(maps);
		return err;
	}
	if (reused == count && count == b->memory.count) {
		free(maps);
		return 0;
	}
	return install(b, maps, count);
}

int
vu_memory_add(struct vu_backend *b, const struct vu_wire_region *region, int fd)
{
	const struct vu_memory none = {0};
	uint32_t n = b->memory.count;
	uint32_t reused = 0;
	struct vu_mapping *maps;
	int err;

	if (n >= VU_MEM_SLOTS)
		return -E2BIG;
	maps = calloc(n + 1, sizeof(*maps));
	if (maps == NULL)
		return -ENOMEM;
	if (n != 0)
		memcpy(maps, b->memory.maps, n * sizeof(*maps));
	/* Not looked for among what we have: a region added twice overlaps itself. */
	err = take_region(&none, region, fd, &maps[n], &reused);
	if (err != 0) {
		free(maps);
		return err;
	}
	if (user_overlaps(maps, n)) {
		munmap(maps[n].map, maps[n].map_len);
		free(maps);
		return -EINVAL;
	}
	return install(b, maps, n + 1);
}

int
vu_memory_remove(struct vu_backend *b, const struct vu_wire_region *region)
{
	struct vu_mapping *maps;
	uint32_t n = b->memory.count;
	uint32_t i;

	for (i = 0; i < n && !same_region(&b->memory.maps[i].wire, region); i++)
		;
	if (i == n)
		return -ENOENT;
	maps = calloc(n, sizeof(*maps));
	if (maps == NULL)
		return -ENOMEM;
	memcpy(maps, b->memory.maps, i * sizeof(*maps));
	memcpy(maps + i, b->memory.maps + i + 1, (n - i - 1) * sizeof(*maps));
	return install(b, maps, n - 1);
}

void
vu_memory_clear(struct vu_backend *b)
{
	unmap_except(b->memory.maps, b->memory.count, NULL, 0);
	vq_mem_destroy(b->memory.vq);
	free(b->memory.maps);
	b->memory = (struct vu_memory){0};
}

void *
vu_memory_user(const struct vu_memory *m, uint64_t user, uint64_t len)
{
	uint32_t i;

	for (i = 0; i < m->count; i++) {
		const struct vu_mapping *k = &m->maps[i];
		uint64_t off = user - k->wire.user;

		if (off < k->wire.size && len <= k->wire.size - off)
			return k->host + off;
	}
	return NULL;
}
