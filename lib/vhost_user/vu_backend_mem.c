/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vu_backend_impl.h"

/* Largest block (huge page) size that a file may claim. */
#define BLOCK_MAX (UINT64_C(1) << 34)
/*
 * Most memory that one frontend may show, 1 TiB: sparse files cost it nothing, and our address
 * space is there for all of them.
 */
#define TOTAL_MAX (UINT64_C(1) << 40)

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
static struct vu_mapping *
find_mapping(const struct vu_memory *m, const struct vu_wire_region *r, const struct stat *st)
{
	uint32_t i;

	for (i = 0; i < m->count; i++) {
		struct vu_mapping *k = m->maps[i];

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
map_region(const struct vu_wire_region *r, int fd, const struct stat *st, struct vu_mapping **out)
{
	uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	uint64_t block = (uint64_t)st->st_blksize;
	uint64_t delta, len;
	struct vu_mapping *k;
	void *p;

	/*
	 * Beyond the end of the file wait SIGBUS and the peer's pleasure; behind a file of another
	 * kind waits a server, of the peer perhaps. Only shared memory and huge pages know of
	 * seals.
	 */
	if (!S_ISREG(st->st_mode) || (uint64_t)st->st_size < r->offset + r->size)
		return -EINVAL;
	if (fcntl(fd, F_GET_SEALS) < 0)
		return -EINVAL;
	if (block < page || block > BLOCK_MAX || (block & (block - 1)) != 0)
		block = page;
	delta = r->offset & (block - 1);
	len = (delta + r->size + block - 1) & ~(block - 1);
	k = malloc(sizeof(*k));
	if (k == NULL)
		return -ENOMEM;
	p = mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd,
		(off_t)(r->offset - delta));
	if (p == MAP_FAILED) {
		free(k);
		return -errno;
	}
	/* Guest memory in our core dumps would be large, and none of our business. */
	madvise(p, len, MADV_DONTDUMP);
	*k = (struct vu_mapping){
		.refs = 1,
		.wire = *r,
		.dev = st->st_dev,
		.ino = st->st_ino,
		.host = (uint8_t *)p + delta,
		.map = p,
		.map_len = len,
	};
	*out = k;
	return 0;
}

static void
put_mapping(struct vu_mapping *k)
{
	if (--k->refs != 0)
		return;
	munmap(k->map, k->map_len);
	free(k);
}

static int
begin(struct vu_memory *m, uint32_t room)
{
	*m = (struct vu_memory){.maps = calloc(room + 1, sizeof(m->maps[0]))};
	return m->maps == NULL ? -ENOMEM : 0;
}

static void
release(struct vu_memory *m)
{
	uint32_t i;

	for (i = 0; i < m->count; i++)
		put_mapping(m->maps[i]);
	vq_mem_destroy(m->vq);
	free(m->maps);
	*m = (struct vu_memory){0};
}

static void
share(struct vu_memory *m, struct vu_mapping *k)
{
	k->refs++;
	m->maps[m->count++] = k;
}

/*
 * Append a region, known from `old` or mapped now. Two that overlap in the frontend's addresses
 * would give a ring two places; vq_mem_create() sees to guest addresses.
 */
static int
append(struct vu_memory *m, const struct vu_memory *old, const struct vu_wire_region *r, int fd)
{
	struct vu_mapping *k;
	struct stat st;
	uint64_t total = 0;
	uint32_t i;
	int err = check_region(r);

	if (err != 0)
		return err;
	for (i = 0; i < m->count; i++) {
		const struct vu_wire_region *o = &m->maps[i]->wire;

		total += o->size;
		if (r->user - o->user < o->size || o->user - r->user < r->size)
			return -EINVAL;
	}
	if (r->size > TOTAL_MAX || total > TOTAL_MAX - r->size)
		return -E2BIG;
	if (fstat(fd, &st) < 0)
		return -errno;
	k = find_mapping(old, r, &st);
	if (k != NULL) {
		share(m, k);
		return 0;
	}
	err = map_region(r, fd, &st, &k);
	if (err == 0)
		m->maps[m->count++] = k;
	return err;
}

static int
make_vq_mem(struct vu_memory *m)
{
	struct vq_mem_region regions[VU_MEM_SLOTS];
	uint32_t i;

	for (i = 0; i < m->count; i++) {
		regions[i] = (struct vq_mem_region){
			.addr = m->maps[i]->wire.guest,
			.size = m->maps[i]->wire.size,
			.host = m->maps[i]->host,
		};
	}
	return vq_mem_create(regions, m->count, &m->vq);
}

/*
 * End of a change: put `next` in the place of what we have, unless something was wrong with it
 * (err != 0). Either it or the old memory is released. The old one stays known to the backend until
 * the rings have moved: starting one reads it, and that read may not come back (SIGBUS).
 */
static int
finish(struct vu_backend *b, struct vu_memory *next, int err)
{
	if (err == 0)
		err = make_vq_mem(next);
	if (err != 0) {
		release(next);
		return err;
	}
	vu_backend_touch(b);
	b->retired = b->memory;
	b->memory = *next;
	vu_rings_settle(b);
	release(&b->retired);
	return 0;
}

/* The same regions, in any order? Both have no region twice. */
static bool
is_same(const struct vu_memory *m, const struct vu_memory *next)
{
	uint32_t i;

	if (m->count != next->count || m->vq == NULL)
		return false;
	for (i = 0; i < next->count; i++) {
		if (next->maps[i]->refs == 1) /* mapped just now */
			return false;
	}
	return true;
}

int
vu_memory_set(
	struct vu_backend *b, const struct vu_wire_region *regions, uint32_t count, const int *fds)
{
	struct vu_memory next;
	uint32_t i;
	int err = begin(&next, count);

	for (i = 0; i < count && err == 0; i++)
		err = append(&next, &b->memory, &regions[i], fds[i]);
	if (err == 0 && is_same(&b->memory, &next)) {
		release(&next);
		return 0;
	}
	return finish(b, &next, err);
}

int
vu_memory_add(struct vu_backend *b, const struct vu_wire_region *region, int fd)
{
	const struct vu_memory none = {0};
	struct vu_memory next;
	uint32_t i;
	int err;

	if (b->memory.count >= VU_MEM_SLOTS)
		return -E2BIG;
	err = begin(&next, b->memory.count + 1);
	if (err != 0)
		return err;
	for (i = 0; i < b->memory.count; i++)
		share(&next, b->memory.maps[i]);
	return finish(b, &next, append(&next, &none, region, fd));
}

int
vu_memory_remove(struct vu_backend *b, const struct vu_wire_region *region)
{
	struct vu_memory next;
	uint32_t i;
	int err = begin(&next, b->memory.count);

	for (i = 0; i < b->memory.count && err == 0; i++) {
		if (!same_region(&b->memory.maps[i]->wire, region))
			share(&next, b->memory.maps[i]);
	}
	if (err == 0 && next.count == b->memory.count)
		err = -ENOENT;
	return finish(b, &next, err);
}

void
vu_memory_clear(struct vu_backend *b)
{
	release(&b->retired);
	release(&b->memory);
}

void *
vu_memory_user(const struct vu_memory *m, uint64_t user, uint64_t len)
{
	uint32_t i;

	for (i = 0; i < m->count; i++) {
		const struct vu_mapping *k = m->maps[i];
		uint64_t off = user - k->wire.user;

		if (off < k->wire.size && len <= k->wire.size - off)
			return k->host + off;
	}
	return NULL;
}
