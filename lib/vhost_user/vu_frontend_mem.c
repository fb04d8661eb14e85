/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "vu_frontend_impl.h"

static int
identify(const struct vu_region *r, struct vu_shown *s)
{
	struct stat st;

	if (fstat(r->fd, &st) < 0)
		return -errno;
	*s = (struct vu_shown){.region = *r, .dev = st.st_dev, .ino = st.st_ino};
	return 0;
}

static bool
same(const struct vu_shown *a, const struct vu_shown *b)
{
	return a->region.guest == b->region.guest && a->region.user == b->region.user &&
	       a->region.size == b->region.size && a->region.offset == b->region.offset &&
	       a->dev == b->dev && a->ino == b->ino;
}

static bool
contains(const struct vu_shown *list, uint32_t count, const struct vu_shown *s)
{
	uint32_t i;

	for (i = 0; i < count; i++) {
		if (same(&list[i], s))
			return true;
	}
	return false;
}

static struct vu_wire_region
to_wire(const struct vu_region *r)
{
	return (struct vu_wire_region){
		.guest = r->guest,
		.size = r->size,
		.user = r->user,
		.offset = r->offset,
	};
}

static int
send_single(struct vu_frontend *f, uint32_t request, const struct vu_region *r, bool with_fd)
{
	struct vu_msg msg = {
		.hdr = {.request = request, .size = sizeof(struct vu_wire_single)},
		.payload.single.region = to_wire(r),
		.nfds = with_fd ? 1 : 0,
		.fds = {r->fd},
	};

	return vu_frontend_request(f, &msg, VU_ANSWER_ACK, 0);
}

/*
 * Without acknowledgements an answered request behind the change tells that it was handled, so that
 * the caller may reuse memory that it took away.
 */
static int
barrier(struct vu_frontend *f)
{
	uint64_t ignored;

	if (vu_frontend_has(f, VU_PROTOCOL(REPLY_ACK)))
		return 0;
	return vu_frontend_get_u64(f, VU_GET_FEATURES, &ignored);
}

/* Old regions go first: a new one may lie where an old one was. */
static int
send_difference(struct vu_frontend *f, const struct vu_shown *next, uint32_t count)
{
	uint32_t i = 0;
	int err;

	while (i < f->shown_count) {
		if (contains(next, count, &f->shown[i])) {
			i++;
			continue;
		}
		err = send_single(f, VU_REM_MEM_REG, &f->shown[i].region, false);
		if (err != 0)
			return err;
		f->shown[i] = f->shown[--f->shown_count];
	}
	for (i = 0; i < count; i++) {
		if (contains(f->shown, f->shown_count, &next[i]))
			continue;
		err = send_single(f, VU_ADD_MEM_REG, &next[i].region, true);
		if (err != 0)
			return err;
		f->shown[f->shown_count++] = next[i];
	}
	return 0;
}

static int
send_table(struct vu_frontend *f, const struct vu_shown *next, uint32_t count)
{
	struct vu_msg msg = {
		.hdr = {.request = VU_SET_MEM_TABLE,
			.size = (uint32_t)(offsetof(struct vu_wire_table, regions) +
					   count * sizeof(struct vu_wire_region))},
		.payload.table.count = count,
		.nfds = count,
	};
	uint32_t i;
	int err;

	for (i = 0; i < count; i++) {
		msg.payload.table.regions[i] = to_wire(&next[i].region);
		msg.fds[i] = next[i].region.fd;
	}
	err = vu_frontend_request(f, &msg, VU_ANSWER_ACK, 0);
	if (err == 0) {
		memcpy(f->shown, next, count * sizeof(next[0]));
		f->shown_count = count;
	}
	return err;
}

int
vu_frontend_set_memory(struct vu_frontend *f, const struct vu_region *regions, uint32_t count)
{
	struct vu_shown next[VU_FRONTEND_REGIONS_MAX];
	uint32_t i;
	int err;

	if (count > f->mem_slots || count > VU_FRONTEND_REGIONS_MAX)
		return -E2BIG;
	for (i = 0; i < count; i++) {
		err = identify(&regions[i], &next[i]);
		if (err != 0)
			return err;
	}
	if (vu_frontend_has(f, VU_PROTOCOL(CONFIGURE_MEM_SLOTS)))
		err = send_difference(f, next, count);
	else
		err = send_table(f, next, count);
	return err == 0 ? barrier(f) : err;
}
