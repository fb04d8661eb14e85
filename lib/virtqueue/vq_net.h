/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Network frames on the device side of a queue (virtio 1.3, section 5.1.6): a transmit chain seen
 * as a frame, and frames put into the receive chains of another queue with one copy, merged over
 * several where MRG_RXBUF was negotiated. Both read guest memory and trust none of it.
 */
#ifndef VQ_NET_H
#define VQ_NET_H

#include <stdbool.h>
#include <stdint.h>

#include "vq_device.h"

/** Bytes of a frame that are looked at: enough for Ethernet, a VLAN tag, IPv6 and ports. */
#define VQ_NET_HEAD 64

/** Shortest frame that can be switched: an Ethernet header. */
#define VQ_NET_FRAME_MIN 14

/** What became of a frame. */
enum vq_net_status {
	VQ_NET_OK,
	VQ_NET_BAD_CHAIN,  /**< its chain is malformed */
	VQ_NET_RUNT,       /**< shorter than the header, or than VQ_NET_FRAME_MIN behind it */
	VQ_NET_NO_BUFFERS, /**< the receive ring has too few buffers now */
	VQ_NET_TOO_BIG,    /**< the receive ring can never hold it */
	VQ_NET_BROKEN,     /**< the receive ring is broken */
};

/**
 * A frame wherever it lies. Its first `head_len` bytes are a private copy, so that what was looked
 * at is what is delivered; the rest is in segments. An mbuf chain is one as well: segments, no
 * head.
 */
struct vq_frame {
	const uint8_t *head;       /**< private copy of the first bytes */
	const struct vq_seg *segs; /**< where byte 0 of the frame lies, and the rest */
	uint32_t len;              /**< bytes of the frame */
	uint32_t skip;             /**< bytes of segs[0] before byte 0 of the frame */
	uint32_t nseg;
	uint16_t head_len; /**< min(len, VQ_NET_HEAD), or 0: all is in the segments */
	uint16_t status;   /**< enum vq_net_status: OK, BAD_CHAIN or RUNT */
};

/** Working space of one thread, for bursts of `burst` frames. */
struct vq_net_burst {
	uint32_t burst;
	uint32_t nsegs;
	struct vq_chain *chains; /* burst */
	struct vq_seg *segs;     /* nsegs */
	struct vq_frame *frames; /* burst */
	uint8_t (*heads)[VQ_NET_HEAD];
};

/** Counted where the bytes are moved. */
struct vq_net_copied {
	uint64_t delivered; /**< bytes of frames delivered */
	uint64_t copied;    /**< bytes that the copy routine wrote into receive buffers */
};

/**
 * Make working space.
 * @param burst frames (transmit) or chains (receive) at a time, >= 1
 * @param nsegs segments at a time; longer chains count as malformed
 * @return NULL without memory
 */
struct vq_net_burst *vq_net_burst_create(uint32_t burst, uint32_t nsegs);
void vq_net_burst_destroy(struct vq_net_burst *b);

/**
 * Take up to n <= b->burst frames from a transmit queue, in order, malformed ones included: see
 * each b->frames[i].status. The frames are in guest memory (but for their heads) until
 * vq_net_release().
 * @param hdr_len vq_net_hdr_len() of the device
 * @return number of frames
 */
uint32_t vq_net_take(struct vq_device *q, struct vq_net_burst *b, uint32_t n, uint32_t hdr_len);

/** Complete the n frames of the last vq_net_take() and publish. @return completions published. */
uint32_t vq_net_release(struct vq_device *q, const struct vq_net_burst *b, uint32_t n);

/**
 * Put frames into a receive queue, in order, complete and publish. A frame for which the ring has
 * too few buffers is dropped whole, without waiting, and the next (maybe smaller) one is tried.
 * @param b working space, not the one that the frames lie in
 * @param frames n pointers to frames with status VQ_NET_OK
 * @param mergeable MRG_RXBUF was negotiated; else each frame needs one chain that holds it whole
 * @param status n entries: OK, NO_BUFFERS, TOO_BIG or BROKEN; each written when its frame is done,
 *   so that a caller whose copy faults (SIGBUS) knows how far it came
 * @param copied added to
 * @return completions published, for vq_device_call()
 */
uint32_t vq_net_put(struct vq_device *q, struct vq_net_burst *b,
	const struct vq_frame *const *frames, uint32_t n, uint32_t hdr_len, bool mergeable,
	uint8_t *status, struct vq_net_copied *copied);

/** Copy `len` bytes of a frame from byte `off` to private memory (an mbuf, say). */
void vq_frame_read(const struct vq_frame *f, uint32_t off, void *to, uint32_t len);

#endif
