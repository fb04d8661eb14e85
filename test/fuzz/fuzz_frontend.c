/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The frontend against a backend that is a script. Records are calls of the application, and shapes
 * of the answers that these get. After each script an honest backend must be served as ever.
 */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_vu.h"
#include "fuzz_vu_peer.h"
#include "vq_wire.h"
#include "vu_frontend_impl.h"

#define TIMEOUT_MS  200
#define REGIONS_MAX 40

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* Calls of the application. */
enum {
	CALL_NEGOTIATE, /* y: features wanted, c: queue pairs */
	CALL_FEATURES,
	CALL_MEMORY, /* b: regions, a: kind of file, x, y: where */
	CALL_START,
	CALL_ENABLE,
	CALL_DRIVER_OK,
	CALL_STOP,
	CALL_MTU,
	CALL_RESET,
	CALL_CHECK,
	CALL_DEADLINE, /* x: from now on */
	CALL_UP,       /* the honest order of them all */
	/* And what else happens. */
	DO_PRELOAD, /* x: an answer before its question, in a shape */
	DO_CLOSE,   /* the peer goes */
	DO_NARROW,  /* little room on the way to the peer, which is deaf for a & 1 */
	DO_REOPEN,
	DO_PEER, /* a: which limit of the peer is y */
	CALLS,
};

static struct peer peer;
static struct vu_frontend *f;
static uint64_t deadline; /* milliseconds that are left of the sum of all calls */
static bool bounded;

/* What a refusal must leave as it was. */
struct book {
	uint64_t backend_features, protocol_features;
	uint32_t mem_slots, shown, requests;
	uint8_t status;
	int broken;
};

static struct book
look(void)
{
	return (struct book){
		.backend_features = f->backend_features,
		.protocol_features = f->protocol_features,
		.mem_slots = f->mem_slots,
		.shown = f->shown_count,
		.requests = peer.requests,
		.status = f->status,
		.broken = f->broken,
	};
}

static void
enter(void)
{
	peer_time_is_ours(&peer);
}

static bool
ends_the_connection(int err)
{
	return err == -ETIMEDOUT || err == -ECONNRESET || err == -EPROTO || err == -EMSGSIZE;
}

/* What holds after every call, with the errors that it may give beside those of the connection. */
static void
leave(const struct book *was, int err, int may, int may_too)
{
	uint64_t ms = peer_elapsed();

	peer_time_is_over();
	MUST(err == 0 || err == may || err == may_too || ends_the_connection(err) ||
		err == -EREMOTEIO);
	MUST(!ends_the_connection(err) || f->broken == err);
	MUST(was->broken == 0 || (f->broken == was->broken && ms == 0));
	MUST(f->broken == 0 || err != -EREMOTEIO);
	MUST(f->mem_slots <= VU_FRONTEND_REGIONS_MAX && f->shown_count <= VU_FRONTEND_REGIONS_MAX);
	MUST((f->protocol_features & ~PEER_PROTOCOL) == 0);
	MUST(!peer.lie_awaited || f->broken != 0);
	MUST(f->mem_slots == VU_TABLE_REGIONS ||
		(f->protocol_features & VU_PROTOCOL(CONFIGURE_MEM_SLOTS)));
	MUST(f->rx.got == 0 && f->rx.msg.nfds == 0);
	/* No call outlasts the bound on all of them, whatever the peer does. */
	if (bounded) {
		MUST(ms <= deadline);
		deadline -= ms;
	}
}

static void
refused_leaves_all(const struct book *was, int err)
{
	if (err != -EREMOTEIO)
		return;
	MUST(f->protocol_features == was->protocol_features && f->mem_slots == was->mem_slots);
	MUST(f->status == was->status && f->shown_count == was->shown);
}

static int
negotiate(uint64_t wanted, uint32_t pairs)
{
	uint64_t features = UINT64_MAX;
	uint32_t have = UINT32_MAX;
	struct book was = look();
	int err;

	enter();
	err = vu_frontend_negotiate(f, wanted, pairs, &features, &have);
	leave(&was, err, -ENOSPC, 0);
	if (err == 0 || err == -ENOSPC) {
		MUST(features == (wanted & peer.claimed & ~VQ_FEATURE(PROTOCOL_FEATURES)));
		MUST(have <= UINT16_MAX && (err != 0) == (have < pairs));
	}
	return err;
}

static int
set_features(uint64_t features)
{
	struct book was = look();
	int err;

	enter();
	err = vu_frontend_set_features(f, features);
	leave(&was, err, -EINVAL, 0);
	return err;
}

static bool
is_shown(const struct vu_region *r)
{
	uint32_t i;

	for (i = 0; i < f->shown_count; i++) {
		const struct vu_region *s = &f->shown[i].region;

		if (s->guest == r->guest && s->user == r->user && s->size == r->size &&
			s->offset == r->offset)
			return true;
	}
	return false;
}

static int
set_memory(const struct record *r)
{
	static struct vu_region regions[VU_FRONTEND_REGIONS_MAX + 1];
	uint32_t i, count = r->b % REGIONS_MAX;
	struct book was = look();
	int err;

	if (r->c & 0x80)
		count = VU_FRONTEND_REGIONS_MAX - 1 + (r->c & 1) * 2;
	for (i = 0; i < count; i++) {
		regions[i] = (struct vu_region){
			.guest = FILE_GUEST(i) + (r->x & 0xff) * (uint64_t)(i & 1),
			.user = FILE_USER(i),
			.size = 4096 + (r->y & 0xfff),
			.offset = r->y >> 32,
			.fd = fuzz_fd(r->a + i),
		};
	}
	if (count != 0 && (r->c & 15) == 15)
		regions[r->x % count].fd = -1;
	if (count > 1 && (r->c & 15) == 14)
		regions[r->x % count] = regions[0];
	enter();
	err = vu_frontend_set_memory(f, regions, count);
	leave(&was, err, -E2BIG, -EBADF);
	MUST(err != -E2BIG && err != -EBADF ? true : peer.requests == was.requests);
	MUST(f->shown_count <= (was.shown > count ? was.shown : count) || f->broken != 0 ||
		err == -EREMOTEIO);
	for (i = 0; i < count && err == 0; i++)
		MUST(is_shown(&regions[i]));
	MUST(err != 0 || f->shown_count <= count);
	return err;
}

static int
start(const struct record *r)
{
	struct vu_ring_addr addr = {FILE_USER(0), FILE_USER(0) + 1024, r->y};
	struct book was = look();
	int err;

	enter();
	err = vu_frontend_start_ring(f, r->x, r->c != 0 ? r->c : 256, (uint16_t)r->y, &addr,
		r->a & 1 ? -1 : fuzz_fd(FD_EVENT), r->a & 2 ? -1 : fuzz_fd(FD_EVENT_OTHER));
	leave(&was, err, -EINVAL, 0);
	MUST((err == -EINVAL) == (r->x > 255));
	refused_leaves_all(&was, err);
	return err;
}

static int
stop(uint32_t i)
{
	struct book was = look();
	uint16_t base = 1;
	int err;

	enter();
	err = vu_frontend_stop_ring(f, i, &base);
	leave(&was, err, 0, 0);
	MUST(err == 0 || base == 1);
	MUST(err != -EREMOTEIO); /* this has a reply of its own */
	return err;
}

/* The calls that are one message, or none. */
static int
simple(uint32_t call, const struct record *r)
{
	struct book was = look();
	int err;

	enter();
	if (call == CALL_ENABLE)
		err = vu_frontend_enable_ring(f, r->x, r->a & 1);
	else if (call == CALL_DRIVER_OK)
		err = vu_frontend_driver_ok(f);
	else if (call == CALL_MTU)
		err = vu_frontend_set_mtu(f, (uint16_t)r->y);
	else
		err = vu_frontend_reset(f);
	MUST(peer_elapsed() <= TIMEOUT_MS);
	leave(&was, err, call == CALL_RESET ? -ENOTSUP : 0, 0);
	refused_leaves_all(&was, err);
	return err;
}

static void
check(void)
{
	struct book was = look();
	int err;

	enter();
	err = vu_frontend_check(f);
	MUST(peer_elapsed() == 0 &&
		(err == 0 || err == -ECONNRESET || err == -EPROTO || err == was.broken));
	leave(&was, err, 0, 0);
}

/* All that a driver does. @return what the last call gave */
static int
up(uint32_t regions)
{
	struct record zero = {.b = (uint8_t)regions};
	uint32_t i;
	int err = negotiate(VQ_FEATURE(VERSION_1), 1);

	if (err == 0)
		err = set_features(VQ_FEATURE(VERSION_1));
	if (err == 0)
		err = set_memory(&zero);
	for (i = 0; i < 2 && err == 0; i++) {
		zero.x = i;
		err = start(&zero);
		zero.a = 1;
		if (err == 0)
			err = simple(CALL_ENABLE, &zero);
		zero.a = 0;
	}
	return err == 0 ? simple(CALL_DRIVER_OK, &zero) : err;
}

static void
connect_to_peer(struct script *s)
{
	bounded = false;
	MUST(vu_frontend_open(peer_open(&peer, s), TIMEOUT_MS, &f) == 0);
	peer.got = &f->rx.got;
}

static void
disconnect(void)
{
	uint8_t byte;
	ssize_t n = 0;

	vu_frontend_close(f);
	f = NULL;
	/* The connection has gone with it. */
	do {
		if (peer.fd >= 0)
			n = recv(peer.fd, &byte, 1, MSG_DONTWAIT);
	} while (n > 0);
	MUST(n == 0 || errno == ECONNRESET);
	peer_close(&peer);
}

static void
happen(const struct record *r)
{
	struct vu_header asked = {.request = r->x};
	union vu_payload none = {.u64 = 0};
	int small = 1;

	switch ((r->op & 0x7f) % CALLS) {
	case DO_PRELOAD:
		if (peer.fd >= 0)
			peer_answer(&peer, &asked, &none, r);
		break;
	case DO_CLOSE:
		peer_close(&peer);
		break;
	case DO_NARROW:
		setsockopt(f->fd, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
		peer.deaf = r->a & 1;
		break;
	case DO_REOPEN:
		disconnect();
		connect_to_peer(peer.script);
		break;
	case DO_PEER:
		*(r->a & 2 ? (r->a & 1 ? &peer.features : &peer.protocol)
			   : (r->a & 1 ? &peer.pairs : &peer.slots)) = r->y;
		break;
	default:
		break;
	}
}

static void
call(const struct record *r)
{
	switch ((r->op & 0x7f) % CALLS) {
	case CALL_NEGOTIATE:
		negotiate(r->y, r->c);
		break;
	case CALL_FEATURES:
		set_features(r->y);
		break;
	case CALL_MEMORY:
		set_memory(r);
		break;
	case CALL_START:
		start(r);
		break;
	case CALL_STOP:
		stop(r->x);
		break;
	case CALL_ENABLE:
	case CALL_DRIVER_OK:
	case CALL_MTU:
	case CALL_RESET:
		simple((r->op & 0x7f) % CALLS, r);
		break;
	case CALL_CHECK:
		check();
		break;
	case CALL_DEADLINE:
		enter();
		vu_frontend_set_deadline(f, r->x);
		peer_time_is_over();
		bounded = true;
		deadline = r->x;
		break;
	case CALL_UP:
		up(r->b % 10);
		break;
	default:
		happen(r);
		break;
	}
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script s = {.at = data, .left = size}, none = {.left = 0};
	static bool ready;
	struct record r;
	uint32_t fds;

	if (!ready)
		fuzz_fds_open();
	ready = true;
	fds = fuzz_count_fds();
	connect_to_peer(&s);
	while (script_next(&s, &r)) {
		if (!(r.op & ANSWER))
			call(&r);
	}
	disconnect();
	MUST(fuzz_count_fds() == fds);
	connect_to_peer(&none);
	MUST(up(3) == 0);
	MUST(vu_frontend_check(f) == 0 && f->shown_count == 3);
	disconnect();
	MUST(fuzz_count_fds() == fds);
	fuzz_fds_clean();
	return 0;
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	return fuzz_mutate_records(data, size, max_size, seed);
}
