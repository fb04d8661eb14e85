/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Sends what is due. A frame that was due (offered) is sent, when tx_burst has taken it, or
 * refused.
 */
#ifndef SENDER_H
#define SENDER_H

#include <stdatomic.h>

#include "frame.h"
#include "histogram.h"
#include "pacer.h"
#include "ports.h"

/* A queue's frames take its flows in turn: flow first, first + step, .. */
struct sender_queue {
	uint64_t sent;
	uint64_t sequence; /* of the next frame */
	uint32_t flow;     /* of the next frame, as a number from 0 within the queue */
	uint32_t size;     /* of the next frame, an index of the sizes */
	uint32_t flows;    /* of this queue */
	uint32_t first;
};

struct sender {
	const struct options *options;
	const struct port *port;
	struct rte_mempool *pool;
	uint32_t segment; /* bytes of a frame that an mbuf takes */
	const struct frame_maker *maker;
	const atomic_uint_fast64_t *arrived; /* the receiver's, for the window; NULL: nobody's */
	struct pacer pacer;
	uint64_t late;       /* ticks from which on a frame is late */
	uint64_t start, end; /* TSC; end is UINT64_MAX without a duration */
	uint64_t on, off;    /* ticks; off is 0: always on */
	uint64_t count;      /* frames to offer */
	uint64_t patience;   /* ticks without an arrival after which a window is given up */
	uint32_t queue;      /* the next one */
	uint32_t owed;       /* offered, neither sent nor refused */
	uint32_t nheld;
	/* Results. */
	uint64_t offered;
	uint64_t sent;
	uint64_t sent_bytes;
	uint64_t refused;     /* open loop: given to tx_burst, or no mbuf, and not accepted */
	uint64_t retries;     /* frames given to tx_burst once more, where none is refused */
	uint64_t short_calls; /* of tx_burst that did not take all */
	uint64_t calls;
	uint64_t no_mbuf; /* of refused or retries: for want of mbufs */
	uint64_t late_frames;
	uint64_t first_sent, last_sent; /* TSC */
	uint64_t done;                  /* TSC when there was nothing more to send */
	/* The window. */
	uint64_t written_off;
	uint64_t in_flight; /* as far as it looked */
	uint64_t window_resets;
	uint64_t seen_arrived, seen_at;
	struct histogram lateness; /* ticks, of each paced frame */
	struct sender_queue queues[QUEUES_MAX];
	uint32_t sizes[BURST_MAX];
	struct rte_mbuf *held[BURST_MAX];
};

void sender_init(struct sender *s, const struct options *o, const struct ports *ports,
	const struct frame_maker *maker, uint64_t duration_us, uint64_t count);

/** The schedule begins. */
void sender_start(struct sender *s, uint64_t now);

/** One call of tx_burst at most. @return false when all is sent, or time is up, or `stop` */
bool sender_turn(struct sender *s, uint64_t now, bool stop);

/** When there is something to do, if no frame arrives until then. */
uint64_t sender_next(const struct sender *s, uint64_t now);

/** Give back the mbufs that were not sent. */
void sender_end(struct sender *s);

/** Frames of a flow that were sent, and numbers of a sequence that were used. */
uint64_t sender_flow_sent(const struct sender *s, uint32_t flow);
uint64_t sender_sequence_sent(const struct sender *s, uint32_t sequence);

#endif
