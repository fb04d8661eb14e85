/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "fuzz_vu_app.h"

/* Turns in which a backend must have become quiet, whatever a script sent. */
#define TURNS_MAX 2000
/* Messages handled in one turn at most, as the library promises. */
#define TURN_MESSAGES 32
/* Most memory that one frontend may show. */
#define TOTAL_MAX (UINT64_C(1) << 40)

/* The backend that is at work, for the wrapped functions. */
static struct app *current;
/* Shared mappings made by the library. */
static uint32_t mapped;

void *__real_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __real_munmap(void *at, size_t len);
int __real_vu_backend_message(struct vu_backend *b, struct vu_msg *msg);

void *__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset);
int __wrap_munmap(void *at, size_t len);
int __wrap_vu_backend_message(struct vu_backend *b, struct vu_msg *msg);

void *
__wrap_mmap(void *at, size_t len, int prot, int flags, int fd, off_t offset)
{
	void *p = __real_mmap(at, len, prot, flags, fd, offset);

	mapped += current != NULL && p != MAP_FAILED && (flags & MAP_SHARED);
	return p;
}

int
__wrap_munmap(void *at, size_t len)
{
	int err = __real_munmap(at, len);

	MUST(current == NULL || err == 0);
	mapped -= current != NULL;
	return err;
}

static void
look(const struct app *a, struct app_view *v)
{
	const struct vu_backend *b = a->b;
	uint32_t i;

	memcpy(v->rings, b->rings, sizeof(v->rings));
	for (i = 0; i < APP_RINGS; i++) {
		/* Workers see neither, of the second nothing before the ring is ready. */
		v->rings[i].err = -1;
		if (!v->rings[i].ready)
			v->rings[i].call = -1;
	}
	v->features = vu_backend_features(b);
	v->mtu = vu_backend_mtu(b);
	v->mem = b->memory.vq;
	v->regions = b->memory.count;
	for (i = 0; i < v->regions; i++)
		v->maps[i] = b->memory.maps[i];
}

static bool
same(const struct app_view *x, const struct app_view *y)
{
	return memcmp(x->rings, y->rings, sizeof(x->rings)) == 0 && x->features == y->features &&
	       x->mtu == y->mtu && x->mem == y->mem && x->regions == y->regions &&
	       memcmp(x->maps, y->maps, x->regions * sizeof(x->maps[0])) == 0;
}

static bool
overlap(uint64_t a, uint64_t alen, uint64_t b, uint64_t blen)
{
	return b - a < alen || a - b < blen;
}

/* Every region is there from its first byte to its last, and in one place only. */
static void
check_memory(const struct vu_memory *m)
{
	uint64_t total = 0;
	uint32_t i, j;

	MUST(m->count <= VU_MEM_SLOTS);
	for (i = 0; i < m->count; i++) {
		const struct vu_mapping *k = m->maps[i];
		const struct vu_wire_region *r = &k->wire;

		MUST(k->refs == 1 && r->size != 0);
		MUST(r->guest + r->size - 1 >= r->guest && r->user + r->size - 1 >= r->user);
		MUST(k->host >= k->map && r->size <= k->map_len &&
			(uint64_t)(k->host - k->map) <= k->map_len - r->size);
		(void)*(volatile uint8_t *)k->host;
		(void)*(volatile uint8_t *)(k->host + r->size - 1);
		total += r->size;
		for (j = 0; j < i; j++) {
			const struct vu_wire_region *o = &m->maps[j]->wire;

			MUST(!overlap(r->guest, r->size, o->guest, o->size));
			MUST(!overlap(r->user, r->size, o->user, o->size));
		}
	}
	MUST(total <= TOTAL_MAX);
}

/* All of an area lies in one region, and there in our memory where it is in the frontend's. */
static void
check_area(const struct vu_memory *m, const void *at, uint64_t user, uint64_t len, uint32_t align)
{
	const uint8_t *here = NULL;
	uint32_t i;

	for (i = 0; i < m->count; i++) {
		const struct vu_wire_region *r = &m->maps[i]->wire;

		if (user >= r->user && user - r->user < r->size &&
			len <= r->size - (user - r->user))
			here = m->maps[i]->host + (user - r->user);
	}
	MUST(here != NULL && at == here && (uintptr_t)at % align == 0);
}

static void
check_rings(const struct vu_backend *b)
{
	uint32_t i;

	for (i = 0; i < APP_RINGS; i++) {
		const struct vu_ring *r = &b->rings[i];

		MUST(r->size <= 32768 && (r->size & (r->size - 1)) == 0);
		MUST(r->kick < 0 || r->kicked);
		if (!r->ready)
			continue;
		MUST(b->features_set && r->kicked && r->addr_set && r->size != 0);
		MUST(r->vq.size == r->size && r->vq.mem == b->memory.vq);
		MUST(r->vq.event_idx == ((b->features & VQ_FEATURE(EVENT_IDX)) != 0));
		check_area(&b->memory, r->vq.desc, r->desc_addr, vq_desc_bytes(r->size), 16);
		check_area(&b->memory, r->vq.avail, r->avail_addr, vq_avail_bytes(r->size), 2);
		check_area(&b->memory, r->vq.used, r->used_addr, vq_used_bytes(r->size), 4);
	}
	for (; i < VU_RINGS_MAX; i++)
		MUST(!b->rings[i].ready && b->rings[i].kick < 0 && b->rings[i].call < 0);
}

/* What holds whenever the backend is not in the middle of a message. */
static void
check_state(const struct vu_backend *b)
{
	uint64_t offered = APP_FEATURES | VQ_FEATURE(PROTOCOL_FEATURES);

	MUST((b->features & ~offered) == 0);
	MUST(b->features_set || b->features == 0);
	MUST((b->protocol_features & ~UINT64_C(0x1a019)) == 0);
	MUST(b->mtu == 0 || (b->mtu >= 68 && b->mtu <= b->config.mtu));
	MUST(b->retired.count == 0 && b->retired.maps == NULL && b->retired.vq == NULL);
	MUST(mapped == b->memory.count);
	check_memory(&b->memory);
	check_rings(b);
}

static bool
is_reset(const struct vu_msg *msg)
{
	return msg->hdr.request == VU_RESET_OWNER || msg->hdr.request == VU_RESET_DEVICE ||
	       (msg->hdr.request == VU_SET_STATUS && msg->payload.u64 == 0);
}

/* An answer is of the request's number and 8 bytes, whatever was asked. */
static void
check_answer(struct app *a, const struct vu_tx *tx, uint32_t before, uint32_t request)
{
	const struct vu_msg *m = &tx->queue[(tx->head + before) % VU_TX_QUEUE];

	if (tx->count == before)
		return;
	MUST(tx->count == before + 1);
	MUST(m->hdr.request == request && m->hdr.size == 8 && m->nfds == 0);
	MUST(m->hdr.flags == (VU_FLAG_VERSION | VU_FLAG_REPLY));
	a->answers++;
}

/* By the letter: may this have been accepted? Whether the addresses are good, the rest shows. */
static bool
is_deserved(const struct vu_msg *m)
{
	const union vu_payload *p = &m->payload;
	uint64_t all = APP_FEATURES | VQ_FEATURE(PROTOCOL_FEATURES);
	uint64_t nofd = p->u64 & VU_VRING_NOFD;
	uint32_t size = m->hdr.size, nfds = m->nfds;

	switch (m->hdr.request) {
	case VU_SET_FEATURES:
		return size == 8 && nfds == 0 && (p->u64 & ~all) == 0;
	case VU_SET_MEM_TABLE:
		return p->table.count <= VU_TABLE_REGIONS && nfds == p->table.count &&
		       size >= 8 + 32 * p->table.count;
	case VU_SET_VRING_NUM:
		return size == 8 && nfds == 0 && p->state.index < APP_RINGS && p->state.num != 0 &&
		       p->state.num <= 32768 && (p->state.num & (p->state.num - 1)) == 0;
	case VU_SET_VRING_BASE:
		return size == 8 && nfds == 0 && p->state.index < APP_RINGS &&
		       p->state.num <= UINT16_MAX;
	case VU_GET_VRING_BASE:
		return size == 8 && nfds == 0 && p->state.index < APP_RINGS;
	case VU_SET_VRING_ENABLE:
		return size == 8 && nfds == 0 && p->state.index < APP_RINGS && p->state.num <= 1;
	case VU_SET_VRING_ADDR:
		return size == 40 && nfds == 0 && p->addr.index < APP_RINGS && p->addr.flags == 0;
	case VU_SET_VRING_KICK:
	case VU_SET_VRING_CALL:
	case VU_SET_VRING_ERR:
		return size == 8 && (p->u64 & ~nofd) < APP_RINGS && nfds == (nofd ? 0 : 1);
	case VU_SET_PROTOCOL_FEATURES:
		return size == 8 && nfds == 0 && (p->u64 & ~UINT64_C(0x1a019)) == 0;
	case VU_NET_SET_MTU:
		return size == 8 && nfds == 0 && p->u64 >= 68 && p->u64 <= 9000;
	case VU_ADD_MEM_REG:
		return size == 40 && nfds == 1;
	case VU_REM_MEM_REG:
		return size == 40 && nfds <= 1;
	case VU_SET_STATUS:
		return size == 8 && nfds == 0 && p->u64 <= UINT8_MAX;
	case VU_GET_FEATURES:
	case VU_SET_OWNER:
	case VU_RESET_OWNER:
	case VU_GET_PROTOCOL_FEATURES:
	case VU_GET_QUEUE_NUM:
	case VU_RESET_DEVICE:
	case VU_GET_MAX_MEM_SLOTS:
	case VU_GET_STATUS:
		return size == 0 && nfds == 0;
	default:
		return false;
	}
}

static void
forget_what_was_told(const struct app *a, const struct app_view *before, struct app_view *after)
{
	uint32_t i;

	for (i = 0; i < APP_RINGS; i++) {
		if (a->told_calls & (1u << i))
			after->rings[i].call = before->rings[i].call;
	}
	if (a->told_mtu)
		after->mtu = before->mtu;
}

/* A worker writes to it with our rights: no file, no socket, and nothing that makes it wait. */
static void
check_event(int fd)
{
	struct stat st;

	if (fd < 0)
		return;
	MUST(fstat(fd, &st) == 0 && (st.st_mode & S_IFMT) == 0);
	MUST(fcntl(fd, F_GETFL) & O_NONBLOCK);
	MUST(fcntl(fd, F_GETFD) & FD_CLOEXEC);
}

int
__wrap_vu_backend_message(struct vu_backend *b, struct vu_msg *msg)
{
	static struct app_view before, after;
	struct app *a = current;
	struct vu_msg was = *msg;
	bool quiesced = a->quiesced, running = vu_rings_running(b), features_set = b->features_set;
	uint64_t features = b->features, protocol = b->protocol_features;
	uint64_t bad = b->stats.bad_messages;
	uint8_t status = b->status;
	uint32_t answers = b->tx.count;
	int err;

	MUST(msg->nfds <= VU_FDS_MAX && msg->hdr.size <= VU_PAYLOAD_MAX);
	look(a, &before);
	a->told_calls = 0;
	a->told_mtu = false;
	err = __real_vu_backend_message(b, msg);
	look(a, &after);
	a->failed = b->stats.bad_messages != bad;
	MUST(err <= 0 && err != -ENOBUFS && (err == 0 || a->failed));
	if (a->failed) {
		/* A failed message changes nothing. */
		MUST(same(&before, &after) && a->quiesced == quiesced);
		MUST(b->features == features && b->features_set == features_set);
		MUST(b->protocol_features == protocol && b->status == status);
	} else {
		/* What workers see does not change before they have left, or without a word. */
		MUST(is_deserved(&was));
		if (was.hdr.request >= VU_SET_VRING_KICK && was.hdr.request <= VU_SET_VRING_ERR) {
			check_event(b->rings[was.payload.u64 & VU_VRING_INDEX_MASK].kick);
			check_event(b->rings[was.payload.u64 & VU_VRING_INDEX_MASK].call);
			check_event(b->rings[was.payload.u64 & VU_VRING_INDEX_MASK].err);
		}
		forget_what_was_told(a, &before, &after);
		MUST(a->quiesced || same(&before, &after));
		MUST(b->features == features || !running || is_reset(&was));
		MUST(b->protocol_features == protocol || !running);
	}
	check_answer(a, &b->tx, answers, was.hdr.request);
	check_state(b);
	return err;
}

static void
on_quiesce(void *priv)
{
	static struct app_view now;
	struct app *a = priv;

	MUST(a == current && !a->quiesced);
	look(a, &now);
	MUST(same(&a->seen, &now)); /* nothing has changed before it was announced */
	a->quiesced = true;
	a->quiesces++;
}

static void
on_update(void *priv)
{
	struct app *a = priv;

	MUST(a == current && a->quiesced);
	a->quiesced = false;
	check_state(a->b);
	look(a, &a->seen);
	if (!a->leave)
		return;
	a->leave = false;
	vu_backend_disconnect(a->b, "the application does not like it");
}

static void
on_call_changed(void *priv, uint32_t i)
{
	struct app *a = priv;

	MUST(a == current && !a->quiesced && i < APP_RINGS && a->b->rings[i].ready);
	a->told_calls |= 1u << i;
	look(a, &a->seen);
}

static void
on_mtu_changed(void *priv)
{
	struct app *a = priv;

	MUST(a == current && !a->quiesced && vu_backend_mtu(a->b) != a->seen.mtu);
	a->told_mtu = true;
	look(a, &a->seen);
}

static void
on_log(void *priv, int level, const char *text)
{
	(void)priv;
	MUST(level >= 0 && level <= 2 && strchr(text, '\n') == NULL);
}

void
app_start(struct app *a, bool client)
{
	/* One of them does without the callbacks that it may do without. */
	static const struct vu_backend_ops all =
						   {
							   .quiesce = on_quiesce,
							   .update = on_update,
							   .call_changed = on_call_changed,
							   .mtu_changed = on_mtu_changed,
							   .log = on_log,
						   },
					   few = {
						   .quiesce = on_quiesce,
						   .update = on_update,
					   };
	struct vu_backend_config c = {
		.socket = {.client = client, .owner = (uid_t)-1, .group = (gid_t)-1},
		.features = APP_FEATURES,
		.queue_pairs = APP_RINGS / 2,
		.mtu = 9000,
	};
	char error[256] = "";

	*a = (struct app){.listen = -1};
	snprintf(c.socket.path, sizeof(c.socket.path), "/tmp/sluice-fuzz-%d-%d", (int)getpid(),
		client);
	if (client)
		a->listen = vu_socket_listen(&c.socket, error, sizeof(error));
	MUST(!client || a->listen >= 0);
	MUST(vu_backend_create(&c, client ? &all : &few, a, &a->b, error, sizeof(error)) == 0);
	look(a, &a->seen);
}

void
app_stop(struct app *a)
{
	vu_socket_unlisten(a->listen, a->b->config.socket.path);
	vu_backend_destroy(a->b);
}

static void
fire_timer(struct vu_backend *b)
{
	struct itimerspec now = {.it_value.tv_nsec = 1};
	struct pollfd p = {.fd = b->timer, .events = POLLIN};

	MUST(timerfd_settime(b->timer, 0, &now, NULL) == 0);
	MUST(poll(&p, 1, 1000) == 1);
}

int
app_connect(struct app *a)
{
	int fd;

	a->answers = 0;
	a->leave = false;
	if (a->listen < 0) {
		fd = vu_socket_connect(a->b->config.socket.path);
		MUST(fd >= 0);
		app_run(a);
		return fd;
	}
	fire_timer(a->b); /* it comes by itself, but we do not wait for that */
	app_run(a);
	fd = vu_socket_accept(a->listen);
	MUST(fd >= 0);
	return fd;
}

bool
app_turn(struct app *a)
{
	struct pollfd p = {.fd = vu_backend_fd(a->b), .events = POLLIN};
	uint64_t messages = a->b->stats.messages;

	if (poll(&p, 1, 0) <= 0)
		return false;
	current = a;
	vu_backend_process(a->b);
	MUST(a->b->stats.messages - messages <= TURN_MESSAGES);
	MUST(!a->quiesced);
	check_state(a->b);
	current = NULL;
	return true;
}

void
app_run(struct app *a)
{
	uint32_t turns = 0;

	while (app_turn(a))
		MUST(++turns < TURNS_MAX);
}

void
app_leave(struct app *a)
{
	current = a;
	vu_backend_disconnect(a->b, "the application wants it so");
	current = NULL;
}

static void
use_chains(struct vq_device *q, bool write, const struct vq_chain *chains, uint32_t n,
	const struct vq_seg *segs)
{
	uint32_t i, j;

	for (i = 0; i < n; i++) {
		for (j = 0; j < chains[i].nseg; j++) {
			const struct vq_seg *s = &segs[chains[i].seg + j];
			volatile uint8_t *last = s->base + s->len - 1;
			uint8_t byte = *s->base;

			MUST(s->len != 0);
			if (write)
				*last = byte;
			else
				(void)*last;
		}
		vq_device_complete(q, chains[i].head, write ? chains[i].len : 0);
	}
	vq_device_publish(q);
	vq_device_call(q, n, 0);
}

void
app_work(struct app *a, bool complete, uint32_t burst)
{
	struct vq_chain chains[32];
	struct vq_seg segs[64];
	uint64_t one = 1;
	uint32_t i, n;

	for (i = 0; i < vu_backend_rings(a->b); i++) {
		struct vu_ring *r = vu_backend_ring(a->b, i);
		bool write_to = (i & 1) == 0;

		if (r->ready) {
			n = vq_device_peek(&r->vq, write_to, chains, 1 + burst % COUNT_OF(chains),
				segs, COUNT_OF(segs), 0);
			MUST(n <= 1 + burst % COUNT_OF(chains));
			if (complete)
				use_chains(&r->vq, write_to, chains, n, segs);
			else
				vq_device_rewind(&r->vq, n);
			MUST(r->vq.outstanding == 0);
		}
		/* Neither may a peer make us wait. */
		if (r->call >= 0 && write(r->call, &one, sizeof(one)) < 0)
			MUST(errno == EAGAIN || errno == EINVAL);
		if (r->kick >= 0 && read(r->kick, &one, sizeof(one)) < 0)
			MUST(errno == EAGAIN || errno == EINVAL);
	}
	look(a, &a->seen);
}

void
app_expect_nothing(struct app *a)
{
	struct vu_backend *b = a->b;
	uint32_t i;

	current = a;
	MUST(vu_backend_state(b) == VU_BACKEND_DOWN && b->conn < 0);
	MUST(b->memory.count == 0 && b->memory.maps == NULL && b->memory.vq == NULL);
	MUST(b->rx.got == 0 && b->rx.msg.nfds == 0 && b->tx.count == 0);
	MUST(b->features == 0 && b->protocol_features == 0 && b->status == 0 && b->mtu == 0);
	check_state(b);
	current = NULL;
	for (i = 0; i < VU_RINGS_MAX; i++) {
		const struct vu_ring *r = &b->rings[i];

		MUST(r->kick < 0 && r->call < 0 && r->err < 0 && !r->ready);
		MUST(r->size == 0 && !r->addr_set && !r->kicked && !r->enabled);
	}
}
