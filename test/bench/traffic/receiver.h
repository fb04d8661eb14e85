/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Takes what arrives and says of each frame what it is. Every frame is counted once.
 */
#ifndef RECEIVER_H
#define RECEIVER_H

#include <stdatomic.h>

#include "calls.h"
#include "frame.h"
#include "histogram.h"
#include "longest.h"
#include "ports.h"
#include "sequence.h"
#include "spells.h"
#include "stalls.h"
#include "starve.h"

struct receiver {
	const struct options *options;
	const struct port *port;
	const struct frame_maker *maker;
	const struct stalls *stalls; /* of the loop that we are called from */
	struct sequence *sequences;  /* one a flow, or one for all */
	uint64_t *flow_received;     /* different frames of each flow */
	uint64_t start;              /* TSC */
	struct spells away;          /* it does not poll */
	struct starve starve;        /* it lets its pool run dry */
	/* Results. */
	uint64_t frames;         /* that rx_burst gave */
	uint64_t calls;          /* of rx_burst that gave some */
	uint64_t received_bytes; /* of different frames of ours */
	uint64_t kinds[FRAME_BAD_CONTENT + 1];
	uint64_t before_sent; /* arrived before they were sent: the TSCs disagree */
	uint64_t first_arrival, last_arrival;
	uint64_t silence, silence_at; /* the longest time without a frame of ours, its begin */
	uint64_t silence_stalled;     /* of it: our own stalls */
	uint64_t stalled_before;      /* our stalls up to the last arrival */
	struct longest gaps;          /* numbers jumped over, as they were seen */
	struct histogram latency;     /* ticks, of different frames of ours */
	struct calls timed;           /* with --time-calls */
	_Alignas(64) atomic_uint_fast64_t arrived; /* for the window of the sender */
	_Alignas(64) struct rte_mbuf *mbufs[BURST_MAX];
};

/** @return -ENOMEM if there is no memory for so many flows */
int receiver_init(struct receiver *r, const struct options *o, const struct ports *ports,
	const struct frame_maker *maker, const struct stalls *stalls);

void receiver_free(struct receiver *r);

/** Plan what the options ask for beside receiving: absences, a dry pool. @return 0 or -ENOMEM */
int receiver_disturb(struct receiver *r, const struct ports *ports);

/** Begin or end a spell of a dry pool. */
void receiver_starve(struct receiver *r, uint64_t now);

/** What disturbs it ends. */
void receiver_calm(struct receiver *r, uint64_t now);

/** From now on there may be silence. */
void receiver_start(struct receiver *r, uint64_t now);

/** One call of rx_burst for each queue. @return how many frames there were */
uint32_t receiver_turn(struct receiver *r);

/** Nothing will come any more; frames were sent until `sending_ended`. */
void receiver_finish(struct receiver *r, uint64_t sending_ended);

/** How many sequences there are. */
static inline uint32_t
receiver_sequences(const struct receiver *r)
{
	return r->options->global ? 1 : r->options->flows;
}

#endif
