/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A guest that receives: posts buffers at a driver and takes packets as the specification says, and
 * frames in this process to put there.
 */
#ifndef RECEIVER_H
#define RECEIVER_H

#include "pair.h"
#include "vq_net.h"

/** Buffers lie this far apart in guest memory, so that one byte too many is seen. */
#define BUFFER_STRIDE 0x800u
#define BUFFERS       512u

struct receiver {
	struct guest guest;
	struct pair pair;
	struct vq_net_burst *burst;
	uint32_t hdr_len;
	bool mergeable;
	uint32_t next; /* buffer to post next, 0..BUFFERS-1, round */
	struct vq_net_copied copied;
	uint32_t lens[BUFFERS]; /* posted */
};

/** An empty ring with working space for `burst` chains of together `nsegs` segments. */
void receiver_init(
	struct receiver *r, uint32_t size, uint64_t features, uint32_t burst, uint32_t nsegs);
void receiver_free(struct receiver *r);

/** Post n buffers of `len` bytes, each in descriptors cut at the given offsets; publishes. */
void receiver_post(
	struct receiver *r, uint32_t n, uint32_t len, const uint32_t *cuts, uint32_t ncuts);

/** Post as many as the ring takes. */
void receiver_fill(struct receiver *r, uint32_t len);

/** Put one frame; returns its status. */
enum vq_net_status receiver_put(struct receiver *r, const struct vq_frame *f);

/**
 * The next packet in the ring, which must be this frame in so many buffers: num_buffers, used
 * lengths, header and payload are checked, and that nothing was written behind it.
 */
void receiver_expect(struct receiver *r, const uint8_t *frame, uint32_t len, uint32_t buffers);

/** The next buffer must have come back empty. */
void receiver_expect_empty(struct receiver *r);

/** Nothing more came. */
void receiver_expect_none(struct receiver *r);

/** A frame in this process, with or without a private head, in pieces of its own. */
struct flat {
	struct vq_frame f;
	uint32_t skip;
	uint32_t nseg;
	struct vq_seg segs[16];
	uint8_t head[VQ_NET_HEAD];
	uint8_t *bytes; /* the frame, for comparison */
	uint8_t *pieces;
};

/** A frame of frame_make(), in one segment, with the head that vq_net_take() would give it. */
void flat_init(struct flat *f, uint32_t len, uint32_t seq);

/** The same in `nseg` (1..16) pieces, `skip` bytes into the first, with a head or without. */
void flat_init_pieces(
	struct flat *f, uint32_t len, uint32_t seq, uint32_t nseg, uint32_t skip, bool with_head);
void flat_free(struct flat *f);

#endif
