/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Messages of vhost-user on a stream socket, for either end: received piece by piece, sent piece by
 * piece, never waiting. What a peer sends is bounded here (length, version, descriptors) and
 * understood elsewhere.
 */
#ifndef VU_CODEC_H
#define VU_CODEC_H

#include <stdbool.h>
#include <stdint.h>

#include "vu_wire.h"

/** A message. On receive the descriptors are ours and close-on-exec; on send they are borrowed. */
struct vu_msg {
	struct vu_header hdr;
	union vu_payload payload;
	uint32_t nfds;
	int fds[VU_FDS_MAX];
};

/** Close the descriptors that nobody took and forget them; an entry of -1 was taken. */
void vu_msg_close_fds(struct vu_msg *msg);

/** Take descriptor i out of a received message: it is the caller's now. */
static inline int
vu_msg_take_fd(struct vu_msg *msg, uint32_t i)
{
	int fd = msg->fds[i];

	msg->fds[i] = -1;
	return fd;
}

/** The message that is arriving. Start from zeros. */
struct vu_rx {
	struct vu_msg msg;
	uint32_t got; /* bytes of header and payload */
};

/**
 * Take what the socket has of the next message, and nothing behind it.
 * @return 1: rx->msg is whole (use it, then vu_rx_next()), 0: the rest has not come yet,
 *   -ECONNRESET: the peer has closed, -EPROTO: wrong version, or more descriptors than a message
 * may have, -EMSGSIZE: longer than VU_PAYLOAD_MAX, or another negative errno. After an error the
 *   stream is out of step: vu_rx_reset() and close it.
 */
int vu_rx_poll(struct vu_rx *rx, int fd);

/** Ready for the next message; descriptors that nobody took are closed. */
void vu_rx_next(struct vu_rx *rx);

/** The same, at any point. */
void vu_rx_reset(struct vu_rx *rx);

/** Messages that wait for room in the socket. */
#define VU_TX_QUEUE 8

/** The send queue. Start from zeros. */
struct vu_tx {
	struct vu_msg queue[VU_TX_QUEUE];
	uint32_t head;
	uint32_t count;
	uint32_t sent; /* bytes of the first one */
};

static inline bool
vu_tx_full(const struct vu_tx *tx)
{
	return tx->count == VU_TX_QUEUE;
}

/**
 * Append a message. Its descriptors stay the caller's and must stay open until it has gone.
 * @return 0, -ENOBUFS (full), -EMSGSIZE or -EINVAL (a payload or a descriptor count out of bounds)
 */
int vu_tx_push(struct vu_tx *tx, const struct vu_msg *msg);

/** Send what the socket takes. @return 0: all has gone, 1: some waits, or a negative errno */
int vu_tx_flush(struct vu_tx *tx, int fd);

/** Forget what waits. */
void vu_tx_reset(struct vu_tx *tx);

#endif
