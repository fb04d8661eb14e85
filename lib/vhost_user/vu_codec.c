/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "vu_codec.h"

/* Room for exactly the descriptors that a message may have: the kernel closes and reports the rest.
 */
union fd_control {
	struct cmsghdr align;
	uint8_t bytes[CMSG_SPACE(VU_FDS_MAX * sizeof(int))];
};

_Static_assert(CMSG_SPACE(VU_FDS_MAX * sizeof(int)) == CMSG_LEN(VU_FDS_MAX * sizeof(int)),
	"padding would let one more descriptor in");

/*
 * Close a descriptor that a peer chose. If it is a socket the peer may have asked for a close()
 * that waits until its data has gone, and ours may be the last one.
 */
static void
close_at_once(int fd)
{
	const struct linger no_wait = {.l_onoff = 1, .l_linger = 0};

	(void)setsockopt(fd, SOL_SOCKET, SO_LINGER, &no_wait, sizeof(no_wait));
	close(fd);
}

void
vu_msg_close_fds(struct vu_msg *msg)
{
	uint32_t i;

	for (i = 0; i < msg->nfds; i++) {
		if (msg->fds[i] >= 0)
			close_at_once(msg->fds[i]);
	}
	msg->nfds = 0;
}

/* Every descriptor that came is either in the message or closed when this returns. */
static int
take_fds(struct vu_msg *msg, struct msghdr *mh)
{
	struct cmsghdr *c;
	int err = 0;

	for (c = CMSG_FIRSTHDR(mh); c != NULL; c = CMSG_NXTHDR(mh, c)) {
		size_t n, i;

		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		n = (c->cmsg_len - CMSG_LEN(0)) / sizeof(int);
		for (i = 0; i < n; i++) {
			int fd;

			memcpy(&fd, CMSG_DATA(c) + i * sizeof(fd), sizeof(fd));
			if (msg->nfds < VU_FDS_MAX) {
				msg->fds[msg->nfds++] = fd;
			} else {
				close_at_once(fd);
				err = -EPROTO;
			}
		}
	}
	if (mh->msg_flags & MSG_CTRUNC)
		err = -EPROTO;
	return err;
}

/* The stretch that is still missing: of the header, then of the payload. */
static struct iovec
rest_of(struct vu_rx *rx)
{
	struct vu_msg *m = &rx->msg;
	uint32_t h = sizeof(m->hdr);

	if (rx->got < h)
		return (struct iovec){(uint8_t *)&m->hdr + rx->got, h - rx->got};
	return (struct iovec){m->payload.bytes + (rx->got - h), m->hdr.size - (rx->got - h)};
}

static int
check_header(const struct vu_header *hdr)
{
	if ((hdr->flags & VU_FLAG_VERSION_MASK) != VU_FLAG_VERSION)
		return -EPROTO;
	return hdr->size > VU_PAYLOAD_MAX ? -EMSGSIZE : 0;
}

int
vu_rx_poll(struct vu_rx *rx, int fd)
{
	for (;;) {
		struct iovec iov = rest_of(rx);
		union fd_control control;
		struct msghdr mh = {
			.msg_iov = &iov,
			.msg_iovlen = 1,
			.msg_control = &control,
			.msg_controllen = sizeof(control),
		};
		ssize_t n;
		int err;

		if (iov.iov_len == 0)
			return 1;
		n = recvmsg(fd, &mh, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
		if (n < 0) {
			if (errno == EINTR)
				continue;
			return errno == EAGAIN || errno == EWOULDBLOCK ? 0 : -errno;
		}
		err = take_fds(&rx->msg, &mh);
		if (err != 0)
			return err;
		if (n == 0)
			return -ECONNRESET;
		rx->got += (uint32_t)n;
		if (rx->got == sizeof(rx->msg.hdr)) {
			err = check_header(&rx->msg.hdr);
			if (err != 0)
				return err;
		}
	}
}

void
vu_rx_next(struct vu_rx *rx)
{
	vu_msg_close_fds(&rx->msg);
	/* A short payload must not be completed by what the message before it left there. */
	memset(rx, 0, sizeof(*rx));
}

void
vu_rx_reset(struct vu_rx *rx)
{
	vu_rx_next(rx);
}

int
vu_tx_push(struct vu_tx *tx, const struct vu_msg *msg)
{
	if (msg->hdr.size > VU_PAYLOAD_MAX)
		return -EMSGSIZE;
	if (msg->nfds > VU_FDS_MAX)
		return -EINVAL;
	if (vu_tx_full(tx))
		return -ENOBUFS;
	tx->queue[(tx->head + tx->count) % VU_TX_QUEUE] = *msg;
	tx->count++;
	return 0;
}

static ssize_t
send_some(const struct vu_msg *m, uint32_t sent, int fd)
{
	uint32_t h = sizeof(m->hdr);
	struct iovec iov[2] = {
		{(void *)(uintptr_t)&m->hdr, h},
		{(void *)(uintptr_t)m->payload.bytes, m->hdr.size},
	};
	union fd_control control = {0};
	struct msghdr mh = {.msg_iov = iov, .msg_iovlen = 2};

	if (sent < h) {
		iov[0].iov_base = (uint8_t *)iov[0].iov_base + sent;
		iov[0].iov_len -= sent;
	} else {
		iov[1].iov_base = (uint8_t *)iov[1].iov_base + (sent - h);
		iov[1].iov_len -= sent - h;
		mh.msg_iov = &iov[1];
		mh.msg_iovlen = 1;
	}
	/* The descriptors travel with the first byte, and only once. */
	if (sent == 0 && m->nfds != 0) {
		struct cmsghdr *c;

		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(m->nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(m->nfds * sizeof(int));
		memcpy(CMSG_DATA(c), m->fds, m->nfds * sizeof(int));
	}
	return sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL);
}

int
vu_tx_flush(struct vu_tx *tx, int fd)
{
	while (tx->count != 0) {
		const struct vu_msg *m = &tx->queue[tx->head];
		ssize_t n = send_some(m, tx->sent, fd);

		if (n < 0) {
			if (errno == EINTR)
				continue;
			if (errno == EAGAIN || errno == EWOULDBLOCK)
				return 1;
			return errno == EPIPE ? -ECONNRESET : -errno;
		}
		tx->sent += (uint32_t)n;
		if (tx->sent == sizeof(m->hdr) + m->hdr.size) {
			tx->head = (tx->head + 1) % VU_TX_QUEUE;
			tx->count--;
			tx->sent = 0;
		}
	}
	return 0;
}

void
vu_tx_reset(struct vu_tx *tx)
{
	tx->head = 0;
	tx->count = 0;
	tx->sent = 0;
}
