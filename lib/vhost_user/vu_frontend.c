/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vq_wire.h"
#include "vu_frontend_impl.h"
#include "vu_time.h"

#define TIMEOUT_MAX 60000

/* What we know how to use, if the backend has it. */
#define PROTOCOL_FEATURES                                                                          \
	(VU_PROTOCOL(MQ) | VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(NET_MTU) |                         \
		VU_PROTOCOL(RESET_DEVICE) | VU_PROTOCOL(CONFIGURE_MEM_SLOTS) |                     \
		VU_PROTOCOL(STATUS))

int
vu_frontend_open(int fd, uint32_t timeout_ms, struct vu_frontend **out)
{
	struct vu_frontend *f;
	int flags;

	if (fd < 0)
		return -EBADF;
	flags = fcntl(fd, F_GETFL);
	if (timeout_ms < 1 || timeout_ms > TIMEOUT_MAX || flags < 0 ||
		fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0) {
		close(fd);
		return -EINVAL;
	}
	f = calloc(1, sizeof(*f));
	if (f == NULL) {
		close(fd);
		return -ENOMEM;
	}
	f->fd = fd;
	f->timeout_ms = timeout_ms;
	f->deadline = UINT64_MAX;
	f->mem_slots = VU_TABLE_REGIONS;
	*out = f;
	return 0;
}

void
vu_frontend_set_deadline(struct vu_frontend *f, uint32_t ms)
{
	f->deadline = vu_now_ms() + ms;
}

void
vu_frontend_close(struct vu_frontend *f)
{
	if (f == NULL)
		return;
	vu_rx_reset(&f->rx);
	close(f->fd);
	free(f);
}

int
vu_frontend_fd(const struct vu_frontend *f)
{
	return f->fd;
}

int
vu_frontend_check(struct vu_frontend *f)
{
	struct pollfd p = {.fd = f->fd, .events = POLLIN | POLLRDHUP};

	if (f->broken != 0)
		return f->broken;
	if (poll(&p, 1, 0) <= 0)
		return 0;
	if (p.revents & (POLLHUP | POLLRDHUP | POLLERR))
		f->broken = -ECONNRESET;
	else if (p.revents & POLLIN)
		f->broken = -EPROTO;
	return f->broken;
}

/* Wait for the socket, no longer than until `end`. */
static int
wait_for(struct vu_frontend *f, short events, uint64_t end)
{
	for (;;) {
		struct pollfd p = {.fd = f->fd, .events = events};
		uint64_t now = vu_now_ms();
		int n;

		if (now >= end)
			return -ETIMEDOUT;
		n = poll(&p, 1, (int)(end - now));
		if (n > 0)
			return 0; /* a peer that has gone shows when the socket is used */
		if (n < 0 && errno != EINTR)
			return -errno;
	}
}

static int
send_message(struct vu_frontend *f, const struct vu_msg *msg, uint64_t end)
{
	int err = vu_tx_push(&f->tx, msg);

	if (err != 0)
		return err;
	for (;;) {
		err = vu_tx_flush(&f->tx, f->fd);
		if (err <= 0)
			return err;
		err = wait_for(f, POLLOUT, end);
		if (err != 0)
			return err;
	}
}

static int
receive_message(struct vu_frontend *f, uint32_t request, uint32_t size, uint64_t end)
{
	const struct vu_msg *m = &f->rx.msg;
	int err;

	for (;;) {
		err = vu_rx_poll(&f->rx, f->fd);
		if (err < 0)
			return err;
		if (err > 0)
			break;
		err = wait_for(f, POLLIN, end);
		if (err != 0)
			return err;
	}
	if (m->hdr.request != request || !(m->hdr.flags & VU_FLAG_REPLY) || m->hdr.size != size)
		return -EPROTO;
	return 0;
}

int
vu_frontend_request(
	struct vu_frontend *f, struct vu_msg *msg, enum vu_answer answer, uint32_t reply_size)
{
	uint64_t end = vu_now_ms() + f->timeout_ms;
	bool ack = answer == VU_ANSWER_ACK && vu_frontend_has(f, VU_PROTOCOL(REPLY_ACK));
	int err;

	if (f->broken != 0)
		return f->broken;
	if (end > f->deadline)
		end = f->deadline;
	msg->hdr.flags = VU_FLAG_VERSION | (ack ? VU_FLAG_NEED_REPLY : 0);
	err = send_message(f, msg, end);
	if (err == 0 && (ack || answer == VU_ANSWER_REPLY)) {
		err = receive_message(
			f, msg->hdr.request, ack ? sizeof(uint64_t) : reply_size, end);
		if (err == 0)
			msg->payload = f->rx.msg.payload;
		vu_rx_next(&f->rx);
	}
	if (err != 0)
		f->broken = err;
	else if (ack && msg->payload.u64 != 0)
		err = -EREMOTEIO;
	return err;
}

int
vu_frontend_send_u64(struct vu_frontend *f, uint32_t request, uint64_t value)
{
	struct vu_msg msg = {
		.hdr = {.request = request, .size = sizeof(uint64_t)},
		.payload.u64 = value,
	};

	return vu_frontend_request(f, &msg, VU_ANSWER_ACK, 0);
}

int
vu_frontend_get_u64(struct vu_frontend *f, uint32_t request, uint64_t *value)
{
	struct vu_msg msg = {.hdr.request = request};
	int err = vu_frontend_request(f, &msg, VU_ANSWER_REPLY, sizeof(uint64_t));

	if (err == 0)
		*value = msg.payload.u64;
	return err;
}

static int
send_empty(struct vu_frontend *f, uint32_t request)
{
	struct vu_msg msg = {.hdr.request = request};

	return vu_frontend_request(f, &msg, VU_ANSWER_ACK, 0);
}

static int
negotiate_protocol(struct vu_frontend *f)
{
	uint64_t offered;
	int err;

	/* Nothing is left of what was agreed on before, and no acknowledgement is asked for yet. */
	f->protocol_features = 0;
	f->mem_slots = VU_TABLE_REGIONS;
	if (!(f->backend_features & VQ_FEATURE(PROTOCOL_FEATURES)))
		return 0;
	err = vu_frontend_get_u64(f, VU_GET_PROTOCOL_FEATURES, &offered);
	if (err != 0)
		return err;
	err = vu_frontend_send_u64(f, VU_SET_PROTOCOL_FEATURES, offered & PROTOCOL_FEATURES);
	if (err == 0)
		f->protocol_features = offered & PROTOCOL_FEATURES;
	return err;
}

static int
ask_limits(struct vu_frontend *f, uint32_t *queue_pairs)
{
	uint64_t n = 1;
	int err = 0;

	if (vu_frontend_has(f, VU_PROTOCOL(MQ)))
		err = vu_frontend_get_u64(f, VU_GET_QUEUE_NUM, &n);
	if (err != 0)
		return err;
	*queue_pairs = n > UINT16_MAX ? UINT16_MAX : (uint32_t)n;
	if (vu_frontend_has(f, VU_PROTOCOL(CONFIGURE_MEM_SLOTS))) {
		err = vu_frontend_get_u64(f, VU_GET_MAX_MEM_SLOTS, &n);
		if (err == 0)
			f->mem_slots =
				n > VU_FRONTEND_REGIONS_MAX ? VU_FRONTEND_REGIONS_MAX : (uint32_t)n;
	}
	return err;
}

int
vu_frontend_negotiate(struct vu_frontend *f, uint64_t wanted, uint32_t queue_pairs,
	uint64_t *features, uint32_t *have)
{
	int err = vu_frontend_get_u64(f, VU_GET_FEATURES, &f->backend_features);

	*have = 0;
	if (err == 0)
		err = negotiate_protocol(f);
	if (err == 0 && !f->owner_set) {
		err = send_empty(f, VU_SET_OWNER);
		f->owner_set = err == 0;
	}
	if (err == 0)
		err = ask_limits(f, have);
	if (err != 0)
		return err;
	*features = wanted & f->backend_features & ~VQ_FEATURE(PROTOCOL_FEATURES);
	return *have < queue_pairs ? -ENOSPC : 0;
}

static int
set_status(struct vu_frontend *f, uint8_t status)
{
	int err;

	if (!vu_frontend_has(f, VU_PROTOCOL(STATUS)))
		return 0;
	err = vu_frontend_send_u64(f, VU_SET_STATUS, status);
	if (err == 0)
		f->status = status;
	return err;
}

int
vu_frontend_set_features(struct vu_frontend *f, uint64_t features)
{
	uint64_t status;
	int err = set_status(f, VU_STATUS_ACKNOWLEDGE);

	if (err == 0)
		err = set_status(f, VU_STATUS_ACKNOWLEDGE | VU_STATUS_DRIVER);
	if (err == 0)
		err = vu_frontend_send_u64(f, VU_SET_FEATURES,
			features | (f->backend_features & VQ_FEATURE(PROTOCOL_FEATURES)));
	if (err == 0)
		err = set_status(
			f, VU_STATUS_ACKNOWLEDGE | VU_STATUS_DRIVER | VU_STATUS_FEATURES_OK);
	if (err == 0 && vu_frontend_has(f, VU_PROTOCOL(STATUS))) {
		err = vu_frontend_get_u64(f, VU_GET_STATUS, &status);
		if (err == 0 && !(status & VU_STATUS_FEATURES_OK))
			err = -EINVAL;
	}
	return err == -EREMOTEIO ? -EINVAL : err;
}

uint64_t
vu_frontend_protocol_features(const struct vu_frontend *f)
{
	return f->protocol_features;
}

uint32_t
vu_frontend_mem_slots(const struct vu_frontend *f)
{
	return f->mem_slots;
}

static int
send_state(struct vu_frontend *f, uint32_t request, uint32_t index, uint32_t num)
{
	struct vu_msg msg = {
		.hdr = {.request = request, .size = sizeof(struct vu_wire_state)},
		.payload.state = {.index = index, .num = num},
	};

	return vu_frontend_request(f, &msg, VU_ANSWER_ACK, 0);
}

static int
send_addr(struct vu_frontend *f, uint32_t index, const struct vu_ring_addr *addr)
{
	struct vu_msg msg = {
		.hdr = {.request = VU_SET_VRING_ADDR, .size = sizeof(struct vu_wire_addr)},
		.payload.addr = {.index = index,
			.desc = addr->desc,
			.used = addr->used,
			.avail = addr->avail},
	};

	return vu_frontend_request(f, &msg, VU_ANSWER_ACK, 0);
}

static int
send_fd(struct vu_frontend *f, uint32_t request, uint32_t index, int fd)
{
	struct vu_msg msg = {
		.hdr = {.request = request, .size = sizeof(uint64_t)},
		.payload.u64 = index | (fd < 0 ? VU_VRING_NOFD : 0),
		.nfds = fd < 0 ? 0 : 1,
		.fds = {fd},
	};

	return vu_frontend_request(f, &msg, VU_ANSWER_ACK, 0);
}

int
vu_frontend_start_ring(struct vu_frontend *f, uint32_t i, uint32_t size, uint16_t base,
	const struct vu_ring_addr *addr, int kick, int call)
{
	int err;

	if (i > VU_VRING_INDEX_MASK)
		return -EINVAL;
	err = send_state(f, VU_SET_VRING_NUM, i, size);
	if (err == 0)
		err = send_state(f, VU_SET_VRING_BASE, i, base);
	if (err == 0)
		err = send_addr(f, i, addr);
	if (err == 0)
		err = send_fd(f, VU_SET_VRING_CALL, i, call);
	/* Last: the kick starts the ring, and it must be whole by then. */
	if (err == 0)
		err = send_fd(f, VU_SET_VRING_KICK, i, kick);
	return err;
}

int
vu_frontend_enable_ring(struct vu_frontend *f, uint32_t i, bool enable)
{
	if (!(f->backend_features & VQ_FEATURE(PROTOCOL_FEATURES)))
		return 0;
	return send_state(f, VU_SET_VRING_ENABLE, i, enable ? 1 : 0);
}

int
vu_frontend_driver_ok(struct vu_frontend *f)
{
	return set_status(f, f->status | VU_STATUS_DRIVER_OK);
}

int
vu_frontend_stop_ring(struct vu_frontend *f, uint32_t i, uint16_t *base)
{
	struct vu_msg msg = {
		.hdr = {.request = VU_GET_VRING_BASE, .size = sizeof(struct vu_wire_state)},
		.payload.state.index = i,
	};
	int err = vu_frontend_request(f, &msg, VU_ANSWER_REPLY, sizeof(struct vu_wire_state));

	if (err != 0)
		return err;
	if (msg.payload.state.index != i || msg.payload.state.num > UINT16_MAX) {
		f->broken = -EPROTO;
		return -EPROTO;
	}
	*base = (uint16_t)msg.payload.state.num;
	return 0;
}

int
vu_frontend_set_mtu(struct vu_frontend *f, uint16_t mtu)
{
	if (!vu_frontend_has(f, VU_PROTOCOL(NET_MTU)))
		return 0;
	return vu_frontend_send_u64(f, VU_NET_SET_MTU, mtu);
}

int
vu_frontend_reset(struct vu_frontend *f)
{
	int err;

	if (vu_frontend_has(f, VU_PROTOCOL(RESET_DEVICE))) {
		err = send_empty(f, VU_RESET_DEVICE);
		if (err == 0)
			f->status = 0;
		return err;
	}
	return vu_frontend_has(f, VU_PROTOCOL(STATUS)) ? set_status(f, 0) : -ENOTSUP;
}
