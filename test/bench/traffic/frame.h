/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The test frame: Ethernet, IPv4, UDP, who it is and when it left. All of that is in its first 64
 * bytes, so that writing them makes a whole frame of an mbuf whose rest was prepared once.
 *
 *	 0 Ethernet	14 IPv4		34 UDP		all checksums right, DF, no options
 *	42 magic (another one for frames of the warm-up)	44 stream	46 flow
 *	48 sequence number	52 send time (TSC)	60 CRC-32C, with --verify only
 *
 * The IP addresses are of 198.18.0.0/15, set apart for benchmarks (RFC 2544); the UDP port is 9,
 * discard. Our own fields are little-endian: both ends are on one host, or their TSC would not
 * agree either.
 */
#ifndef FRAME_H
#define FRAME_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_mbuf.h>

#include "options.h"

#define FRAME_HEAD 64
/* Prepared bytes repeat after so many: a frame may be cut there, and put together of any mbufs. */
#define FRAME_PERIOD 8192

struct frame_maker {
	uint8_t head[FRAME_HEAD]; /* all that is the same in each frame */
	uint32_t ip_sum;          /* over that, as the checksums need it */
	uint32_t udp_sum;
	uint32_t stream;
	bool verify;
	uint16_t rest_sum[SIZE_MOST + 1]; /* over the prepared bytes behind the send time */
};

enum frame_kind {
	FRAME_GOOD,
	FRAME_WARMUP, /**< one of a warm-up that was late */
	FRAME_FOREIGN,
	FRAME_BAD_LENGTH,  /**< ours, but not of the length that it was sent with */
	FRAME_BAD_HEADER,  /**< ours, but no flow of ours is like that */
	FRAME_BAD_CONTENT, /**< with --verify: a checksum is wrong */
};

struct frame_info {
	uint32_t flow;
	uint32_t sequence;
	uint64_t sent; /* TSC */
};

void frame_maker_init(struct frame_maker *m, const struct options *o, const uint8_t src[6],
	const uint8_t dst[6], bool warmup);

/** Prepare the bytes of a frame behind its head. */
void frame_prepare(uint8_t *frame, uint32_t size);

/** Prepare what a head has spoilt, for an mbuf that does not begin its frame. */
void frame_prepare_segment(uint8_t *segment);

/** Write a frame into the prepared bytes of its mbufs: those of the first hold the head. */
void frame_write(const struct frame_maker *m, struct rte_mbuf *mbuf, uint32_t flow,
	uint32_t sequence, uint64_t tsc);

/** What a received frame is. Only `flows` flows of this maker's stream are ours. */
enum frame_kind frame_read(const struct frame_maker *m, const struct rte_mbuf *mbuf, uint32_t flows,
	struct frame_info *info);

#endif
