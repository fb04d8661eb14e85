/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The backend against a frontend that is a script. Backends live as long as the process; after each
 * script everything that it brought must be gone, and an honest frontend must be served.
 */

#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "fuzz_vu_app.h"
#include "fuzz_vu_say.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* What a record can mean beside a request, which is below. */
enum {
	DO_HONEST = VU_REQUESTS, /* a: parts left out, b: rings, c: file */
	DO_RAW,       /* the next a % 8 records as they are, b % 12 descriptors of kind c */
	DO_WORK,      /* a & 1: complete, b: burst */
	DO_WRITE,     /* the driver writes into a ring: see drive() */
	DO_RECONNECT, /* a & 3: how to leave; a & 4: to the backend that is a client */
	DO_SECOND,    /* another frontend comes while the first is served */
	DO_READ,      /* take the answers */
	DO_SEND_AWAY, /* a & 1: from a callback */
	DO_TURN,      /* one turn only */
	DO_SLOW,      /* little room for answers */
	DO_TABLE,     /* a table of which the next b % 4 records bend regions */
	DO_REPEAT,    /* the last message again */
};

/* In `op` of a record: what follows goes out before the backend looks. */
#define HOLD 0x40

/* Of the honest frontend behind each script. */
#define SERVED_RINGS 2

static struct app apps[2];
static struct app *app;
static int conn;
static uint32_t answers; /* taken on this connection */

static void
stop_all(void)
{
	app_stop(&apps[0]);
	app_stop(&apps[1]);
}

static void
turn(void *arg)
{
	(void)arg;
	app_run(app);
}

static void
connect_to(struct app *a)
{
	app = a;
	conn = app_connect(a);
	answers = 0;
}

static struct say_to
there(void)
{
	return (struct say_to){.fd = conn, .turn = turn};
}

/* Answers are whole, and no more than were given. */
static void
take_answers(void)
{
	struct answer {
		struct vu_header hdr;
		uint64_t value;
	} __attribute__((packed)) m[64];
	ssize_t n, i;

	do {
		app_run(app);
		n = recv(conn, m, sizeof(m), MSG_DONTWAIT);
		for (i = 0; i < n / (ssize_t)sizeof(m[0]); i++) {
			MUST(m[i].hdr.flags == (VU_FLAG_VERSION | VU_FLAG_REPLY));
			MUST(m[i].hdr.size == sizeof(m[i].value));
			answers++;
		}
		/* It may have been sent away in the middle of one. */
		MUST(n <= 0 || n % (ssize_t)sizeof(m[0]) == 0 ||
			vu_backend_state(app->b) == VU_BACKEND_DOWN);
	} while (n == (ssize_t)sizeof(m));
	MUST(answers <= app->answers);
}

static void
leave(uint32_t how)
{
	if (how == 1)
		shutdown(conn, SHUT_WR);
	else if (how == 2)
		shutdown(conn, SHUT_RDWR);
	if (how != 0)
		app_run(app);
	close(conn);
	app_run(app);
	app_expect_nothing(app);
}

/* c: ring and file; a: what; x, y: with what. */
static void
drive(const struct record *r)
{
	uint8_t *at = fuzz_file(r->c >> 4) + UINT64_C(4096) * (r->c & 7);
	struct vq_desc *desc = (struct vq_desc *)(void *)at;
	struct vq_avail *avail = (struct vq_avail *)(void *)(at + 1024);

	switch (r->a & 3) {
	case 0:
		memcpy(at + r->x % 4088, &r->y, sizeof(r->y));
		break;
	case 1: /* some entries more */
		avail->ring[avail->idx % 8] = (uint16_t)(r->x & 7);
		avail->idx = (uint16_t)(avail->idx + 1 + r->b % 10);
		break;
	case 2:
		desc[r->b & 7] = (struct vq_desc){
			.addr = fuzz_number((uint8_t)(r->x >> 24), r->y),
			.len = r->x & 0xffff,
			.flags = (uint16_t)((r->x >> 16) & 7),
			.next = (uint16_t)(r->b >> 3 & 15),
		};
		break;
	case 3: /* a chain of one, whole */
		desc[r->b & 7] = (struct vq_desc){
			.addr = FILE_GUEST(r->c >> 4) + 32768 + r->x % 16384,
			.len = (uint32_t)(r->y & 0x1fff),
			.flags = r->c & 1 ? 0 : VQ_DESC_WRITE,
		};
		avail->ring[avail->idx % 8] = r->b & 7;
		avail->idx++;
		break;
	}
}

static void
second(const struct record *r)
{
	struct vu_header hdr = {VU_GET_FEATURES, VU_FLAG_VERSION, 0};
	int fd;

	if (app->listen >= 0)
		return; /* a client has no door */
	fd = vu_socket_connect(app->b->config.socket.path);
	if (fd < 0)
		return; /* as many wait already as may */
	if (r->a & 1)
		fuzz_send(fd, &hdr, sizeof(hdr), NULL, 0);
	if (r->a & 2)
		app_run(app);
	close(fd);
	app_run(app);
}

static void
raw(struct script *s, const struct record *r)
{
	uint8_t bytes[8 * sizeof(struct record)];
	struct record next;
	int fds[12];
	uint32_t i, n = 0;

	for (i = 0; i < COUNT_OF(fds); i++)
		fds[i] = fuzz_fd(r->c + i);
	for (i = 0; i <= r->a % 8u && script_next(s, &next); i++) {
		memcpy(bytes + n, &next, sizeof(next));
		n += (uint32_t)sizeof(next);
	}
	if (n > (r->x & 15))
		n -= r->x & 15;
	fuzz_send(conn, bytes, n, fds, r->b % COUNT_OF(fds));
}

static void
table(struct script *s, const struct record *r)
{
	struct say_to to = there();
	struct record as = *r, next;
	struct said m;
	uint32_t i;

	as.op = VU_SET_MEM_TABLE | (r->op & SAY_QUIET);
	say_make(&as, &m);
	for (i = 0; i < r->b % 4u && script_next(s, &next); i++)
		say_bend_region(&next, &m);
	say(&to, &m);
}

/* What was accepted is accepted again. A table that is there already changes nothing. */
static void
repeat(const struct said *m)
{
	struct say_to to = there();
	uint32_t quiesces;
	bool failed;

	app_run(app);
	quiesces = app->quiesces;
	failed = app->failed;
	if (m->hdr.request == 0 || vu_backend_state(app->b) == VU_BACKEND_DOWN)
		return;
	say(&to, m);
	app_run(app);
	if (m->hdr.request != VU_SET_MEM_TABLE || failed)
		return;
	MUST(!app->failed && app->quiesces == quiesces);
}

static void
act(struct script *s, const struct record *r, struct said *last)
{
	struct say_to to = there();
	int small = 1;

	switch (r->op & 63) {
	case DO_HONEST:
		say_honest(&to, (uint8_t)~r->a, 1 + r->b % APP_RINGS, r->c % FILES_GOOD);
		break;
	case DO_RAW:
		raw(s, r);
		break;
	case DO_WORK:
		app_work(app, r->a & 1, r->b);
		break;
	case DO_WRITE:
		drive(r);
		break;
	case DO_RECONNECT:
		leave(r->a & 3);
		connect_to(&apps[r->a >> 2 & 1]);
		break;
	case DO_SECOND:
		second(r);
		break;
	case DO_READ:
		take_answers();
		break;
	case DO_SEND_AWAY:
		if (r->a & 1)
			app->leave = true;
		else
			app_leave(app);
		break;
	case DO_TURN:
		app_turn(app);
		break;
	case DO_SLOW:
		if (app->b->conn >= 0)
			setsockopt(app->b->conn, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
		break;
	case DO_TABLE:
		table(s, r);
		break;
	case DO_REPEAT:
		repeat(last);
		break;
	default:
		say_make(r, last);
		say_shaped(&to, r, last);
		if (r->b >= 0xe0)
			last->hdr.request = 0; /* not to be repeated */
		return;
	}
	if ((r->op & 63) != DO_WORK && (r->op & 63) != DO_READ)
		last->hdr.request = 0;
}

/* Whatever was before: the next one is answered, and gets its rings. */
static void
expect_service(struct app *a)
{
	struct say_to to;
	uint32_t i;

	connect_to(a);
	MUST(vu_backend_state(a->b) == VU_BACKEND_CONNECTED);
	to = there();
	say_honest(&to, HONEST_QUIET, SERVED_RINGS, FILE_OTHER);
	app_run(a);
	MUST(vu_backend_state(a->b) == VU_BACKEND_UP);
	for (i = 0; i < SERVED_RINGS; i++)
		MUST(a->b->rings[i].ready && a->b->rings[i].enabled);
	app_work(a, true, 32);
	take_answers();
	MUST(answers == app->answers && answers == 1);
	leave(0);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct script s = {.at = data, .left = size};
	struct said last = {.hdr.request = 0};
	struct record r;
	uint32_t fds;

	if (app == NULL) {
		fuzz_fds_open();
		app_start(&apps[0], false);
		app_start(&apps[1], true);
		atexit(stop_all);
	}
	fds = fuzz_count_fds();
	connect_to(&apps[0]);
	while (script_next(&s, &r)) {
		act(&s, &r, &last);
		if (!(r.op & HOLD))
			app_run(app);
	}
	leave(0);
	MUST(fuzz_count_fds() == fds);
	fuzz_fds_clean();
	expect_service(app);
	MUST(fuzz_count_fds() == fds);
	fuzz_fds_clean();
	return 0;
}

size_t
LLVMFuzzerCustomMutator(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	return fuzz_mutate_records(data, size, max_size, seed);
}
