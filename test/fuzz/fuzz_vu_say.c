/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include "fuzz_vu_app.h"
#include "fuzz_vu_say.h"

#define RING_SIZE 8
/* All that our backend knows. */
#define PROTOCOL UINT64_C(0x1a019)

/* A ring lies at 4096 * i in its file. */
static struct vu_wire_addr
ring_at(uint32_t file, uint32_t i)
{
	uint64_t at = FILE_USER(file) + UINT64_C(4096) * (i & 7);

	return (struct vu_wire_addr){.index = i, .desc = at, .avail = at + 1024, .used = at + 2048};
}

static struct vu_wire_region
region_of(uint32_t file)
{
	return (struct vu_wire_region){
		.guest = FILE_GUEST(file),
		.user = FILE_USER(file),
		.size = FILE_BYTES,
	};
}

/* x: which file is region i, 4 bits each. */
static void
make_table(const struct record *r, struct said *m)
{
	uint32_t i, count = r->a & 1 ? (uint32_t)r->y : 1 + r->c % VU_TABLE_REGIONS;

	m->payload.table.count = count;
	if (count > VU_TABLE_REGIONS)
		count = VU_TABLE_REGIONS;
	for (i = 0; i < count; i++) {
		uint32_t file = ((r->x >> (4 * i)) & 15) % FILES;

		m->payload.table.regions[i] = region_of(file);
		m->fds[i] = fuzz_fd(file);
	}
	m->nfds = count;
	m->hdr.size = (uint32_t)(offsetof(struct vu_wire_table, regions) +
				 count * sizeof(struct vu_wire_region));
}

static void
bend(struct vu_wire_region *w, const struct record *r)
{
	uint64_t value = fuzz_number(r->c, r->y);

	switch (r->a & 7) {
	case 1:
		w->guest = value;
		break;
	case 2:
		w->user = value;
		break;
	case 3:
		w->size = value;
		break;
	case 4:
		w->offset = value;
		break;
	case 5: /* a part of the file */
		w->offset = r->y & 0xffff;
		w->size = ((r->y >> 16) & 0xffff) + 1;
		break;
	case 6: /* page by page, for many slots */
		w->offset = (r->y & 15) * 4096;
		w->size = 4096;
		w->guest += (r->y & 0x1ff) * 4096;
		w->user += (r->y & 0x1ff) * 4096;
		break;
	case 7:
		w->guest += r->y;
		break;
	default:
		break;
	}
}

void
say_bend_region(const struct record *r, struct said *m)
{
	bend(&m->payload.table.regions[r->x % VU_TABLE_REGIONS], r);
}

static void
make_state(const struct record *r, struct said *m)
{
	struct vu_wire_state *s = &m->payload.state;

	s->index = r->a & 1 ? r->x : r->x % APP_RINGS;
	m->hdr.size = sizeof(*s);
	if (r->a & 2) {
		s->num = (uint32_t)fuzz_number(r->c, r->y);
		return;
	}
	if (m->hdr.request == VU_SET_VRING_NUM)
		s->num = r->c == 0 ? RING_SIZE : UINT32_C(1) << (r->c & 15);
	else if (m->hdr.request == VU_SET_VRING_BASE)
		s->num = (uint16_t)r->y;
	else if (m->hdr.request == VU_SET_VRING_ENABLE)
		s->num = r->y & 1;
}

static void
make_addr(const struct record *r, struct said *m)
{
	uint64_t value = fuzz_number(r->c, r->y);
	struct vu_wire_addr *a = &m->payload.addr;

	*a = ring_at((r->x >> 8) & 3, r->x % APP_RINGS);
	m->hdr.size = sizeof(*a);
	if (r->a & 1)
		a->desc = value;
	if (r->a & 2)
		a->avail = value;
	if (r->a & 4)
		a->used = value;
	if (r->a & 8)
		a->index = r->x;
	if (r->a & 16)
		a->flags = (uint32_t)r->y;
	if (r->a & 32)
		a->log = r->y;
}

static void
make_event(const struct record *r, struct said *m)
{
	m->hdr.size = sizeof(m->payload.u64);
	m->payload.u64 = r->x % APP_RINGS;
	if (r->a & 1)
		m->payload.u64 = fuzz_number(r->c, r->y);
	if (r->a & 2) {
		m->payload.u64 |= VU_VRING_NOFD;
		return;
	}
	m->fds[0] = fuzz_fd(r->a & 4 ? r->c : FD_EVENT);
	m->nfds = 1;
}

static void
make_u64(const struct record *r, struct said *m)
{
	uint64_t *v = &m->payload.u64;

	m->hdr.size = sizeof(*v);
	*v = fuzz_number(r->c, r->y);
	if (r->a & 1)
		return;
	switch (m->hdr.request) {
	case VU_SET_FEATURES:
		*v = (APP_FEATURES & (r->y != 0 ? r->y : UINT64_MAX)) |
		     VQ_FEATURE(PROTOCOL_FEATURES);
		break;
	case VU_SET_PROTOCOL_FEATURES:
		*v = PROTOCOL & (r->y != 0 ? r->y : UINT64_MAX);
		break;
	case VU_NET_SET_MTU:
		*v = 68 + r->y % 9000;
		break;
	case VU_SET_STATUS:
		*v = r->y & 0xff;
		break;
	default:
		break;
	}
}

void
say_make(const struct record *r, struct said *m)
{
	memset(&m->payload, 0, sizeof(m->payload));
	m->nfds = 0;
	m->hdr = (struct vu_header){
		.request = r->op & 63,
		.flags = VU_FLAG_VERSION | (r->op & SAY_QUIET ? 0 : VU_FLAG_NEED_REPLY),
	};
	switch (m->hdr.request) {
	case VU_GET_FEATURES:
	case VU_SET_OWNER:
	case VU_RESET_OWNER:
	case VU_GET_PROTOCOL_FEATURES:
	case VU_GET_QUEUE_NUM:
	case VU_RESET_DEVICE:
	case VU_GET_MAX_MEM_SLOTS:
	case VU_GET_STATUS:
		break;
	case VU_SET_MEM_TABLE:
		make_table(r, m);
		break;
	case VU_ADD_MEM_REG:
	case VU_REM_MEM_REG:
		m->payload.single.region = region_of(r->x % FILES);
		bend(&m->payload.single.region, r);
		m->hdr.size = sizeof(m->payload.single);
		m->fds[0] = fuzz_fd(r->x % FILES);
		m->nfds = m->hdr.request == VU_ADD_MEM_REG ? 1 : 0;
		break;
	case VU_SET_VRING_NUM:
	case VU_SET_VRING_BASE:
	case VU_GET_VRING_BASE:
	case VU_SET_VRING_ENABLE:
		make_state(r, m);
		break;
	case VU_SET_VRING_ADDR:
		make_addr(r, m);
		break;
	case VU_SET_VRING_KICK:
	case VU_SET_VRING_CALL:
	case VU_SET_VRING_ERR:
		make_event(r, m);
		break;
	default:
		make_u64(r, m);
		break;
	}
}

static void
put(const struct say_to *to, const uint8_t *bytes, uint32_t len, const struct said *m, bool fds)
{
	if (!fuzz_send(to->fd, bytes, len, m->fds, fds ? m->nfds : 0)) {
		to->turn(to->arg); /* no room, or gone: once more, then it is lost */
		fuzz_send(to->fd, bytes, len, m->fds, fds ? m->nfds : 0);
	}
}

static uint32_t
flatten(const struct said *m, uint8_t *flat)
{
	uint32_t size = m->hdr.size < VU_PAYLOAD_MAX ? m->hdr.size : VU_PAYLOAD_MAX;

	memcpy(flat, &m->hdr, sizeof(m->hdr));
	memcpy(flat + sizeof(m->hdr), &m->payload, size);
	return (uint32_t)sizeof(m->hdr) + size;
}

bool
say(const struct say_to *to, const struct said *m)
{
	uint8_t flat[sizeof(m->hdr) + VU_PAYLOAD_MAX];

	return fuzz_send(to->fd, flat, flatten(m, flat), m->fds, m->nfds);
}

static void
more_fds(struct said *m, uint32_t n, uint32_t kind, uint32_t step)
{
	uint32_t i;

	for (i = m->nfds; i < n; i++)
		m->fds[i] = fuzz_fd(kind + i * step);
	m->nfds = n;
}

void
say_shaped(const struct say_to *to, const struct record *r, struct said *m)
{
	uint8_t flat[sizeof(m->hdr) + VU_PAYLOAD_MAX + 256];
	uint32_t shape = r->b < 0xe0 ? 0 : r->b & 31;
	uint32_t len, cut, i;

	switch (shape) {
	case 1:
		m->hdr.size = (uint32_t)r->y;
		break;
	case 2:
		m->hdr.size--;
		break;
	case 3:
		m->hdr.size++;
		break;
	case 4:
		m->hdr.flags = r->c;
		break;
	case 5:
		m->hdr.request = r->x;
		break;
	case 6:
		m->hdr.flags |= r->x & ~(uint32_t)0xf;
		break;
	case 7:
		more_fds(m, r->c % 18, FD_EVENT, 0);
		break;
	case 8:
		more_fds(m, r->c % 18, r->x, 1);
		break;
	case 9:
		more_fds(m, SEND_FDS_MAX, r->x, 1);
		break;
	case 10:
		m->hdr.size = 480u + r->c; /* which is sent, too */
		break;
	default:
		break;
	}
	len = flatten(m, flat);
	memset(flat + len, r->c, 256);
	cut = 1 + r->c % (len - 1);
	switch (shape) {
	case 10:
		put(to, flat, len + 256, m, true);
		return;
	case 11: /* cut, and nothing follows */
		put(to, flat, cut, m, true);
		return;
	case 12: /* in two pieces */
		put(to, flat, cut, m, true);
		to->turn(to->arg);
		put(to, flat + cut, len - cut, m, false);
		return;
	case 13: /* the descriptors with the second */
		put(to, flat, cut, m, false);
		to->turn(to->arg);
		put(to, flat + cut, len - cut, m, true);
		return;
	case 14: /* with both */
		put(to, flat, cut, m, true);
		put(to, flat + cut, len - cut, m, true);
		return;
	case 15:
		for (i = 0; i < len; i++) {
			put(to, flat + i, 1, m, i == 0);
			if (i % 16 == 0)
				to->turn(to->arg);
		}
		return;
	case 16: /* something behind it */
		put(to, flat, len + r->c, m, true);
		return;
	case 17:
		put(to, flat, len, m, true);
		put(to, flat, len, m, true);
		return;
	default:
		put(to, flat, len, m, true);
		return;
	}
}

/* Messages that go out together: up to the next one with descriptors, which begins a write. */
struct together {
	const struct say_to *to;
	uint8_t flat[4096];
	uint32_t len;
	struct said m;
};

static void
flush(struct together *t)
{
	if (t->len != 0)
		put(t->to, t->flat, t->len, &t->m, true);
	t->len = 0;
	t->m.nfds = 0;
}

static void
add(struct together *t, const struct record *r)
{
	struct said m;

	say_make(r, &m);
	if (m.nfds != 0) {
		flush(t);
		memcpy(t->m.fds, m.fds, m.nfds * sizeof(m.fds[0]));
		t->m.nfds = m.nfds;
	}
	t->len += flatten(&m, t->flat + t->len);
}

void
say_honest(const struct say_to *to, uint8_t parts, uint32_t rings, uint8_t file)
{
	static const struct {
		uint8_t part;
		struct record r;
	} first[] =
		{
			{HONEST_PROTOCOL, {.op = VU_GET_PROTOCOL_FEATURES}},
			{HONEST_PROTOCOL, {.op = VU_SET_PROTOCOL_FEATURES}},
			{HONEST_FEATURES, {.op = VU_SET_FEATURES}},
			{HONEST_STATUS, {.op = VU_SET_STATUS, .y = 11}},
			{HONEST_MEMORY, {.op = VU_SET_MEM_TABLE}},
		},
	  per_ring[] = {
		  {HONEST_RINGS, {.op = VU_SET_VRING_NUM}},
		  {HONEST_RINGS, {.op = VU_SET_VRING_BASE}},
		  {HONEST_RINGS, {.op = VU_SET_VRING_ADDR}},
		  {HONEST_KICK, {.op = VU_SET_VRING_CALL}},
		  {HONEST_KICK, {.op = VU_SET_VRING_KICK}},
		  {HONEST_ENABLE, {.op = VU_SET_VRING_ENABLE, .y = 1}},
	  };
	const uint8_t quiet = parts == HONEST_QUIET ? SAY_QUIET : 0;
	struct together t = {.to = to};
	uint32_t i, j;

	for (i = 0; i < COUNT_OF(first); i++) {
		struct record r = first[i].r;

		r.op |= quiet;
		r.x = file;
		if (parts & first[i].part)
			add(&t, &r);
	}
	for (i = 0; i < rings; i++) {
		for (j = 0; j < COUNT_OF(per_ring); j++) {
			struct record r = per_ring[j].r;

			r.op |= quiet;
			r.x = i | (uint32_t)file << 8;
			if (parts & per_ring[j].part)
				add(&t, &r);
		}
	}
	flush(&t);
}
