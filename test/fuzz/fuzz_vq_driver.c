/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The driver side of a queue against a hostile device. What must hold: every cookie comes back at
 * most once and only if it was posted, lengths are at most what was posted, the descriptors are
 * accounted for, broken stays broken, and detaching gives back exactly the rest.
 */

#include <stdlib.h>

#include "arena.h"
#include "between.h"
#include "input.h"
#include "vq_driver.h"

#define TABLE_ADDR UINT64_C(0x7700000000)
#define CHAIN_MAX  8
/* More than can be in flight. */
#define POSTS (VQ_SIZE_MAX + 1u)

struct post {
	uint32_t len;
	uint16_t ndesc; /* 0: not in flight */
};

/* All zeros before an input: the last one gave everything back. */
static struct post posts[POSTS];

struct session {
	struct vq_driver q;
	struct vq_layout layout;
	uint8_t *ring;
	struct vq_desc *table;
	uint32_t size, table_len;
	uint32_t next_post, in_flight, ndesc;
	bool receive;
	struct between seen;
	uint16_t device_avail; /* what the device takes next when it behaves */
};

static uint64_t
features(struct input *in)
{
	uint8_t bits = in_u8(in);

	return VQ_FEATURE(VERSION_1) | (bits & 1 ? VQ_FEATURE(EVENT_IDX) : 0) |
	       (bits & 2 ? VQ_FEATURE(IN_ORDER) : 0) | (bits & 4 ? 0 : VQ_FEATURE(INDIRECT_DESC));
}

static struct post *
post(struct session *s, uint32_t len, uint32_t ndesc)
{
	struct post *p;

	do
		p = &posts[s->next_post++ % POSTS];
	while (p->ndesc != 0);
	p->len = len;
	p->ndesc = (uint16_t)ndesc;
	s->in_flight++;
	s->ndesc += ndesc;
	return p;
}

static struct post *
take_back(struct session *s, void *cookie)
{
	struct post *p = cookie;

	MUST(p >= posts && p < posts + POSTS);
	MUST(p->ndesc != 0);
	s->in_flight--;
	s->ndesc -= p->ndesc;
	p->ndesc = 0;
	return p;
}

static void
detached(void *cookie, void *arg)
{
	(void)take_back(arg, cookie);
}

static void
must_be_bounded(const struct between *b, uint64_t n)
{
	MUST(b->shared <= 4 + 4 * n);
	MUST(b->loads <= 400 + 400 * n);
}

static void
must_agree(const struct session *s)
{
	MUST(vq_driver_inflight(&s->q) == s->in_flight);
	MUST(vq_driver_free(&s->q) == s->size - s->ndesc);
}

static void
add(struct session *s, struct input *in)
{
	const uint16_t flags = s->receive ? VQ_DESC_WRITE : 0;
	struct vq_sg sg[CHAIN_MAX];
	uint8_t how = in_u8(in);
	uint32_t n = 1 + (how & 7), len = 0;

	if (how & 0x80) {
		/* Many of one descriptor. */
		for (n = in_u8(in); n != 0 && vq_driver_free(&s->q) != 0; n--) {
			len = 64 + (how & 0x40 ? n : 0);
			between_enter();
			vq_driver_add(&s->q, n, len, flags, post(s, len, 1));
			s->seen = between_leave();
		}
		return;
	}
	for (uint32_t i = 0; i < n; i++) {
		sg[i].addr = i;
		sg[i].len = in_u16(in);
		len += sg[i].len;
	}
	if (how & 8) {
		if (!s->q.indirect || vq_driver_free(&s->q) == 0 || n > s->q.table_len)
			return;
		vq_driver_add_indirect(&s->q, sg, n, flags, post(s, len, 1));
		return;
	}
	if (vq_driver_free(&s->q) < n)
		return;
	between_enter();
	vq_driver_add_chain(&s->q, sg, n, flags, post(s, len, n));
	s->seen = between_leave();
	must_be_bounded(&s->seen, n);
}

static void
reap(struct session *s, struct input *in)
{
	uint32_t n = in_u8(in) % 80, got;
	uint8_t fault = s->q.fault;
	/* Exactly as large as told, so that one more is seen. */
	void **cookies = malloc((n + 1) * sizeof(*cookies));
	uint32_t *lens = malloc((n + 1) * sizeof(*lens));

	MUST(cookies != NULL && lens != NULL);
	cookies = realloc(cookies, n != 0 ? n * sizeof(*cookies) : 1);
	lens = realloc(lens, n != 0 ? n * sizeof(*lens) : 1);
	between_enter();
	got = vq_driver_reap(&s->q, cookies, s->receive ? lens : NULL, n);
	s->seen = between_leave();
	/* The descriptors of a chain are given back one by one. */
	must_be_bounded(&s->seen, n + (s->ndesc < 8 * n ? s->ndesc : 8 * n));
	MUST(got <= n);
	if (fault != VQ_DRIVER_OK)
		MUST(got == 0);
	for (uint32_t i = 0; i < got; i++) {
		const struct post *p = take_back(s, cookies[i]);

		if (s->receive)
			MUST(lens[i] <= p->len);
	}
	free(cookies);
	free(lens);
}

static void
reset(struct session *s, struct input *in)
{
	uint32_t rest = s->in_flight;

	between_enter();
	MUST(vq_driver_detach_all(&s->q, detached, s) == rest);
	s->seen = between_leave();
	MUST(s->seen.shared == 0);
	MUST(s->in_flight == 0 && s->ndesc == 0);
	vq_driver_reset(&s->q, features(in));
	s->device_avail = 0;
	MUST(s->q.fault == VQ_DRIVER_OK);
}

/* One deed of our end. */
static void
step(struct session *s, struct input *in)
{
	uint8_t fault = s->q.fault;
	bool answer;

	switch (in_below(in, 8)) {
	case 0:
	case 1:
		add(s, in);
		between_enter();
		vq_driver_publish(&s->q);
		s->seen = between_leave();
		MUST(s->q.published == s->q.avail_idx);
		break;
	case 2:
	case 3:
		reap(s, in);
		break;
	case 4:
		between_enter();
		answer = vq_driver_need_notify(&s->q);
		s->seen = between_leave();
		must_be_bounded(&s->seen, 0);
		if (!s->q.event_idx && answer && s->seen.changes == 0)
			MUST(!(vq_load(&s->q.used->flags) & VQ_USED_NO_NOTIFY));
		MUST(!vq_driver_need_notify(&s->q));
		break;
	case 5:
		between_enter();
		answer = vq_driver_arm(&s->q);
		s->seen = between_leave();
		must_be_bounded(&s->seen, 0);
		if (fault != VQ_DRIVER_OK)
			MUST(!answer);
		break;
	case 6:
		between_enter();
		vq_driver_disarm(&s->q);
		MUST(vq_driver_pending(&s->q) <= s->in_flight);
		s->seen = between_leave();
		must_be_bounded(&s->seen, 0);
		break;
	default:
		reset(s, in);
		fault = VQ_DRIVER_OK;
		break;
	}
	if (fault != VQ_DRIVER_OK)
		MUST(s->q.fault == fault);
	must_agree(s);
}

/* A used entry and its publication. */
static void
complete(struct session *s, uint32_t id, uint32_t len)
{
	uint16_t idx = vq_load(&s->q.used->idx);

	s->q.used->ring[idx & s->q.mask] = (struct vq_used_elem){id, len};
	vq_publish_index(&s->q.used->idx, (uint16_t)(idx + 1));
}

static uint32_t
used_len(const struct session *s, struct input *in, uint32_t id)
{
	uint8_t how = in_u8(in);
	uint32_t posted = id < s->size ? s->q.desc[id].len : 0;

	if (how < 100)
		return posted != 0 ? how % posted : 0;
	return how < 200 ? posted + (how & 1) : in_u32(in);
}

/* One deed of the device's. */
static void
hostile_step(struct session *s, struct input *in)
{
	uint32_t id;
	uint8_t how;

	switch (in_below(in, 10)) {
	case 0:
	case 1:
	case 2: /* as it should */
		for (how = in_below(in, 8); how != UINT8_MAX; how--) {
			if (s->device_avail == vq_load(&s->q.avail->idx))
				break;
			id = vq_load(&s->q.avail->ring[s->device_avail++ & s->q.mask]);
			complete(s, id, used_len(s, in, id));
		}
		break;
	case 3: /* one of those made available lately: in any order, or twice */
		id = vq_load(&s->q.avail->ring[(s->device_avail - in_u8(in)) & s->q.mask]);
		complete(s, id, used_len(s, in, id));
		break;
	case 4:
		id = in_u8(in);
		complete(s, id, used_len(s, in, id));
		break;
	case 5: /* an id that is one only in its low half */
		complete(s, in_u8(in) | 1u << (16 + in_below(in, 16)), in_u8(in));
		break;
	case 6: /* a batch: some entries are left out */
		id = in_below(in, 16);
		for (how = 0; how < id; how++)
			complete(s, UINT32_MAX, UINT32_MAX);
		s->device_avail = (uint16_t)(s->device_avail + id);
		id = vq_load(&s->q.avail->ring[s->device_avail++ & s->q.mask]);
		complete(s, id, used_len(s, in, id));
		break;
	case 7:
		vq_publish_index(
			&s->q.used->idx, (uint16_t)(vq_load(&s->q.used->idx) + (int8_t)in_u8(in)));
		break;
	case 8:
		vq_store(&s->q.used->flags, in_u16(in));
		vq_store(vq_avail_event(s->q.used, s->size), in_u16(in));
		break;
	default: /* anything anywhere, our own areas and the tables too */
		id = in_u32(in);
		if (id & 1 && s->table_len != 0)
			memset((uint8_t *)s->table +
					(id >> 1) % (s->size * s->table_len * sizeof(s->table[0])),
				in_u8(in), 1);
		else
			s->ring[(id >> 1) % s->layout.bytes] = in_u8(in);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = {data, data + size};
	struct session s;
	struct vq_driver_config config;
	void *priv;
	uint8_t log2 = in_below(&in, 10), shape = in_u8(&in);

	arena_reset();
	between_start(&in);
	memset(&s, 0, sizeof(s));
	s.size = log2 == 9 ? VQ_SIZE_MAX : 1u << log2;
	s.receive = shape & 1;
	MUST(vq_layout(s.size, &s.layout) == 0);
	s.ring = arena_take(s.layout.bytes);
	if (log2 != 9)
		s.table_len = shape >> 1 & 7;
	if (s.table_len != 0)
		s.table = arena_take(s.size * s.table_len * sizeof(s.table[0]));
	priv = aligned_alloc(16, vq_driver_private_bytes(s.size));
	MUST(priv != NULL);
	config = (struct vq_driver_config){
		.size = s.size,
		.features = features(&in),
		.ring = s.ring,
		.priv = priv,
		.table = s.table,
		.table_addr = TABLE_ADDR,
		.table_len = s.table_len,
	};
	MUST(vq_driver_init(&s.q, &config) == 0);
	must_agree(&s);
	while (in_more(&in)) {
		if (in_u8(&in) & 1)
			step(&s, &in);
		else
			hostile_step(&s, &in);
	}
	reset(&s, &in);
	free(priv);
	return 0;
}
