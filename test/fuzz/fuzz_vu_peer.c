/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "fuzz_vu_peer.h"
#include "vq_wire.h"

/* Waits in one call of the application: each brings a byte at least, or the end. */
#define WAITS_MAX 100000

/* The peer of the frontend that is inside a call. */
static struct peer *current;
static uint64_t now_ms = 1000000;
static uint64_t began_ms;
static uint32_t waits;

int __real_poll(struct pollfd *p, nfds_t n, int timeout);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_poll(struct pollfd *p, nfds_t n, int timeout);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	if (current == NULL || clock != CLOCK_MONOTONIC)
		return __real_clock_gettime(clock, ts);
	ts->tv_sec = (time_t)(now_ms / 1000);
	ts->tv_nsec = (long)(now_ms % 1000) * 1000000;
	return 0;
}

/* The frontend waits: the peer has its turn, or else time passes. */
int
__wrap_poll(struct pollfd *p, nfds_t n, int timeout)
{
	struct peer *peer = current;
	uint64_t wait;
	int ready;

	if (peer == NULL || timeout == 0)
		return __real_poll(p, n, timeout);
	MUST(n == 1 && p->fd == peer->other && timeout > 0);
	MUST(++waits < WAITS_MAX);
	ready = __real_poll(p, n, 0);
	if (ready != 0)
		return ready;
	peer->lied = false;
	peer_turn(peer);
	if (peer->lied && *peer->got == 0)
		peer->lie_awaited = true;
	ready = __real_poll(p, n, 0);
	if (ready != 0)
		return ready;
	wait = (uint64_t)timeout;
	if (peer->later_len != 0) {
		/* It comes before that, or a signal does. */
		if (peer->later_ms < wait)
			wait = peer->later_ms;
		now_ms += wait;
		peer->later_ms = 0;
		errno = EINTR;
		return wait == (uint64_t)timeout ? 0 : -1;
	}
	now_ms += wait;
	return 0;
}

void
peer_time_is_ours(struct peer *p)
{
	current = p;
	p->lie_awaited = false;
	began_ms = now_ms;
	waits = 0;
}

void
peer_time_is_over(void)
{
	current = NULL;
}

uint64_t
peer_elapsed(void)
{
	return now_ms - began_ms;
}

int
peer_open(struct peer *p, struct script *script)
{
	int two[2];

	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, two) == 0);
	*p = (struct peer){
		.fd = two[0],
		.other = two[1],
		.script = script,
		.features = UINT64_MAX,
		.protocol = PEER_PROTOCOL,
		.pairs = 4,
		.slots = 32,
	};
	return two[1];
}

void
peer_close(struct peer *p)
{
	vu_rx_reset(&p->rx);
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
}

/* Bytes that a request of ours has; UINT32_MAX: we never send it. */
static uint32_t
size_of(const struct vu_msg *m)
{
	switch (m->hdr.request) {
	case VU_GET_FEATURES:
	case VU_SET_OWNER:
	case VU_GET_PROTOCOL_FEATURES:
	case VU_GET_QUEUE_NUM:
	case VU_RESET_DEVICE:
	case VU_GET_MAX_MEM_SLOTS:
	case VU_GET_STATUS:
		return 0;
	case VU_SET_FEATURES:
	case VU_SET_PROTOCOL_FEATURES:
	case VU_NET_SET_MTU:
	case VU_SET_STATUS:
	case VU_SET_VRING_KICK:
	case VU_SET_VRING_CALL:
	case VU_SET_VRING_NUM:
	case VU_SET_VRING_BASE:
	case VU_GET_VRING_BASE:
	case VU_SET_VRING_ENABLE:
		return 8;
	case VU_SET_VRING_ADDR:
	case VU_ADD_MEM_REG:
	case VU_REM_MEM_REG:
		return 40;
	case VU_SET_MEM_TABLE:
		return 8 + m->payload.table.count * 32;
	default:
		return UINT32_MAX;
	}
}

static uint32_t
fds_of(const struct vu_msg *m)
{
	switch (m->hdr.request) {
	case VU_SET_VRING_KICK:
	case VU_SET_VRING_CALL:
		return m->payload.u64 & VU_VRING_NOFD ? 0 : 1;
	case VU_ADD_MEM_REG:
		return 1;
	case VU_SET_MEM_TABLE:
		return m->payload.table.count;
	default:
		return 0;
	}
}

static bool
has_reply(uint32_t request)
{
	return request == VU_GET_FEATURES || request == VU_GET_PROTOCOL_FEATURES ||
	       request == VU_GET_QUEUE_NUM || request == VU_GET_MAX_MEM_SLOTS ||
	       request == VU_GET_STATUS || request == VU_GET_VRING_BASE;
}

/* Whatever the backend said, the frontend's messages are as they must be. */
static void
check_request(const struct peer *p, const struct vu_msg *m)
{
	bool may_ask = (p->agreed & VU_PROTOCOL(REPLY_ACK)) != 0 && !has_reply(m->hdr.request);

	MUST(m->hdr.size == size_of(m) && m->nfds == fds_of(m));
	/* It may also have forgotten what was agreed on, when it asked anew. */
	MUST(m->hdr.flags == VU_FLAG_VERSION ||
		(may_ask && m->hdr.flags == (VU_FLAG_VERSION | VU_FLAG_NEED_REPLY)));
	if (m->hdr.request == VU_SET_PROTOCOL_FEATURES)
		MUST((m->payload.u64 & ~PEER_PROTOCOL) == 0);
	if (m->hdr.request == VU_SET_VRING_KICK || m->hdr.request == VU_SET_VRING_CALL)
		MUST((m->payload.u64 & ~(VU_VRING_INDEX_MASK | VU_VRING_NOFD)) == 0);
}

static uint64_t
honest(const struct peer *p, const struct vu_header *asked, const union vu_payload *payload)
{
	union vu_payload u = {.u64 = 0};

	switch (asked->request) {
	case VU_GET_FEATURES:
		return p->features;
	case VU_GET_PROTOCOL_FEATURES:
		return p->protocol;
	case VU_GET_QUEUE_NUM:
		return p->pairs;
	case VU_GET_MAX_MEM_SLOTS:
		return p->slots;
	case VU_GET_STATUS:
		return VU_STATUS_FEATURES_OK;
	case VU_GET_VRING_BASE:
		u.state = (struct vu_wire_state){.index = payload->state.index, .num = 4711};
		return u.u64;
	default:
		return 0;
	}
}

/* What is said later is lost when there is more than we can keep. */
static void
say_later(struct peer *p, const uint8_t *bytes, uint32_t len, uint32_t step, uint32_t ms)
{
	if (len > sizeof(p->later) - p->later_len)
		return;
	memcpy(p->later + p->later_len, bytes, len);
	p->later_len += len;
	p->later_step = step;
	p->later_ms = ms % 100000;
}

struct answer {
	struct vu_header hdr;
	uint64_t value;
	uint8_t behind[512];
} __attribute__((packed));

/* How the answer goes out. */
static void
send_shaped(struct peer *p, struct answer *a, const struct record *r)
{
	const uint8_t *bytes = (const uint8_t *)a;
	const uint32_t whole = sizeof(a->hdr) + sizeof(a->value);
	uint32_t i, cut = 1 + r->c % (whole - 1);
	int fds[SEND_FDS_MAX];

	for (i = 0; i < SEND_FDS_MAX; i++)
		fds[i] = fuzz_fd(r->x + i);
	switch (r->a % 20) {
	case 5:
		fuzz_send(p->fd, bytes, cut, fds, r->b & 1);
		return;
	case 6:
		fuzz_send(p->fd, bytes, cut, fds, r->b & 1);
		say_later(p, bytes + cut, whole - cut, whole, r->x);
		return;
	case 7:
		return;
	case 8:
		peer_close(p);
		return;
	case 9:
		fuzz_send(p->fd, bytes, r->c & 1 ? whole : cut, NULL, 0);
		shutdown(p->fd, SHUT_WR);
		return;
	case 10:
		fuzz_send(p->fd, bytes, whole, fds, r->c % 18);
		return;
	case 11:
		fuzz_send(p->fd, bytes, whole, NULL, 0);
		fuzz_send(p->fd, bytes, whole, NULL, 0);
		return;
	case 12:
		memset(a, r->c, sizeof(*a));
		memcpy(a, &r->y, sizeof(r->y));
		fuzz_send(p->fd, bytes, r->x % sizeof(*a), NULL, 0);
		return;
	case 14:
		fuzz_send(p->fd, bytes, sizeof(*a), NULL, 0);
		return;
	case 15:
		say_later(p, bytes, whole, 1, r->x);
		return;
	case 17:
		say_later(p, bytes, whole, whole, r->x);
		return;
	case 18:
		fuzz_send(p->fd, bytes, whole, fds, SEND_FDS_MAX);
		return;
	case 19: /* descriptors in every piece */
		for (i = 0; i < whole; i++)
			fuzz_send(p->fd, bytes + i, 1, fds, r->c % 4);
		return;
	default:
		fuzz_send(p->fd, bytes, whole, NULL, 0);
		return;
	}
}

void
peer_answer(struct peer *p, const struct vu_header *asked, const union vu_payload *payload,
	const struct record *r)
{
	struct answer a = {
		.hdr = {.request = asked->request,
			.flags = VU_FLAG_VERSION | VU_FLAG_REPLY,
			.size = sizeof(a.value)},
		.value = honest(p, asked, payload),
	};
	struct vu_header own = {1 + r->c % 10, VU_FLAG_VERSION | (r->x & VU_FLAG_NEED_REPLY), 0};

	switch (r->a % 20) {
	case 1:
		a.value = fuzz_number(r->c, r->y);
		break;
	case 2:
		a.hdr.request = r->x;
		p->lied = r->x != asked->request;
		break;
	case 3:
		a.hdr.size = r->x;
		p->lied = r->x != sizeof(a.value);
		break;
	case 4:
		a.hdr.flags = r->c;
		p->lied = (r->c & 7) != (VU_FLAG_VERSION | VU_FLAG_REPLY);
		break;
	case 13:
		a.value = r->y | 1;
		break;
	case 14:
		a.hdr.size = 8 + r->x % 1024;
		p->lied = a.hdr.size != sizeof(a.value);
		break;
	case 16: /* a request where an answer is due, as on a channel that was not asked for */
		fuzz_send(p->fd, &own, sizeof(own), NULL, 0);
		break;
	default:
		break;
	}
	if (asked->request == VU_GET_FEATURES)
		p->claimed = a.value;
	send_shaped(p, &a, r);
}

/* The next record, if it is about answers; it may be about one of those that come later. */
static struct record
shape(struct peer *p)
{
	static const struct record plain;
	struct script ahead = *p->script;
	struct record r;

	if (!script_next(&ahead, &r) || !(r.op & ANSWER))
		return plain;
	if ((r.op & 15) > p->requests % 16)
		return plain;
	*p->script = ahead;
	return r;
}

void
peer_turn(struct peer *p)
{
	if (p->fd >= 0 && p->later_len != 0 && p->later_ms == 0) {
		uint32_t n = p->later_step < p->later_len ? p->later_step : p->later_len;

		fuzz_send(p->fd, p->later, n, NULL, 0);
		memmove(p->later, p->later + n, p->later_len - n);
		p->later_len -= n;
	}
	while (p->fd >= 0 && !p->deaf && vu_rx_poll(&p->rx, p->fd) == 1) {
		const struct vu_msg *m = &p->rx.msg;
		bool due = has_reply(m->hdr.request) || (m->hdr.flags & VU_FLAG_NEED_REPLY);
		struct record r;

		check_request(p, m);
		p->requests++;
		if (m->hdr.request == VU_SET_PROTOCOL_FEATURES)
			p->agreed |= m->payload.u64;
		if (due) {
			r = shape(p);
			peer_answer(p, &m->hdr, &m->payload, &r);
		}
		if (p->fd >= 0)
			vu_rx_next(&p->rx);
	}
}
