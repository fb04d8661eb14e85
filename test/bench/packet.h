/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What the measuring programs send: numbered frames, in buffers like those of a poll-mode driver.
 */
#ifndef BENCH_PACKET_H
#define BENCH_PACKET_H

#include <stdint.h>
#include <string.h>

#define BURST_MAX 256
#define HDR_LEN   12
/* A frame: two addresses, the type, its number, a pattern. */
#define SEQ_AT    14
#define BODY_AT   22
#define FRAME_MIN BODY_AT
#define FRAME_MAX 2048
/* One frame in so many is compared byte by byte. */
#define CHECK_EVERY 4096

/**
 * What an mbuf is to a poll-mode driver: a line of its own, in front of the buffer. The virtio
 * header lies in the headroom. Odd in lines, as a mempool makes it, to use all sets of a cache.
 */
struct packet {
	uint32_t len; /* of the frame */
	_Alignas(64) uint8_t headroom[128];
	uint8_t hdr[HDR_LEN];
	uint8_t data[FRAME_MAX + 128 - HDR_LEN];
};
_Static_assert(sizeof(struct packet) / 64 % 2 == 1, "odd in lines");

/** A pool: last in, first out, as the cache of a mempool is. */
struct pool {
	struct packet **free;
	uint32_t nfree;
	uint32_t total;
};

/** @return packets taken, fewer than n from a pool that ran dry */
static inline uint32_t
pool_get(struct pool *pool, struct packet **packets, uint32_t n)
{
	if (n > pool->nfree)
		n = pool->nfree;
	for (uint32_t i = 0; i < n; i++)
		packets[i] = pool->free[--pool->nfree];
	return n;
}

static inline void
pool_put(struct pool *pool, struct packet **packets, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		pool->free[pool->nfree++] = packets[i];
}

static inline uint64_t
frame_seq(const uint8_t *frame)
{
	uint64_t seq;

	memcpy(&seq, frame + SEQ_AT, sizeof(seq));
	return seq;
}

static inline void
frame_set_seq(uint8_t *frame, uint64_t seq)
{
	memcpy(frame + SEQ_AT, &seq, sizeof(seq));
}

/** Back where it came from, as `set fwd mac` does: two addresses are written, and the number. */
static inline void
frame_turn_round(uint8_t *frame, uint64_t seq)
{
	uint8_t to[6];

	memcpy(to, frame, 6);
	memcpy(frame, frame + 6, 6);
	memcpy(frame + 6, to, 6);
	frame_set_seq(frame, seq);
}

/** The pattern that begins with the byte `begin` in front of the frame. */
static inline void
frame_fill_body(uint8_t *frame, uint8_t begin, uint32_t len)
{
	for (uint32_t i = BODY_AT; i < len; i++)
		frame[i] = (uint8_t)(begin + i);
}

/** @return the first byte that differs, or len */
static inline uint32_t
frame_check_body(const uint8_t *frame, uint8_t begin, uint32_t len)
{
	uint32_t i;

	for (i = BODY_AT; i < len; i++)
		if (frame[i] != (uint8_t)(begin + i))
			break;
	return i;
}

#endif
