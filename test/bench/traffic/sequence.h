/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What became of a sequence of numbered frames: lost, doubled, out of order. Frames carry the low
 * 32 bits of their number; numbers start at 0. Of the newest 4096 numbers a bitmap knows which have
 * arrived; what leaves the bitmap without having arrived is lost.
 *
 * Reordered (RFC 4737, section 3): a frame that is no duplicate and arrives with a number below the
 * highest that arrived before it. Its distance is the difference of the two numbers: so many
 * numbers at most overtook it (the extent of RFC 4737, section 4.2.1, if none of them was lost).
 */
#ifndef SEQUENCE_H
#define SEQUENCE_H

#include <stdint.h>

#define SEQUENCE_WORDS  64
#define SEQUENCE_WINDOW (64 * SEQUENCE_WORDS)

enum sequence_verdict {
	SEQUENCE_NEW,
	SEQUENCE_DUPLICATE,
	SEQUENCE_TOO_LATE, /**< below the bitmap: new or duplicate, who knows; counted as lost */
	SEQUENCE_INVALID,  /**< below 0 */
};

struct sequence {
	uint64_t next;     /**< the highest number that arrived, plus 1 */
	uint64_t base;     /**< of the bitmap's oldest number; a multiple of 64 */
	uint64_t received; /**< different numbers that arrived */
	uint64_t duplicates;
	uint64_t reordered;
	uint64_t max_distance;
	uint64_t too_late;
	uint64_t invalid;
	/* Of what has left the bitmap; after sequence_finish() of everything. */
	uint64_t lost;
	uint64_t loss_events; /**< runs of numbers that are lost */
	uint64_t longest_loss;
	uint64_t run; /* length of the run that may go on */
	uint64_t bits[SEQUENCE_WORDS];
};

void sequence_init(struct sequence *s);

/** A number that is not simply the next one. */
enum sequence_verdict sequence_take_slow(struct sequence *s, uint32_t number);

/** A frame with this number arrived. */
static inline enum sequence_verdict
sequence_take(struct sequence *s, uint32_t number)
{
	uint64_t next = s->next;

	if (__builtin_expect(number != (uint32_t)next || next - s->base >= SEQUENCE_WINDOW, 0))
		return sequence_take_slow(s, number);
	s->bits[next / 64 % SEQUENCE_WORDS] |= UINT64_C(1) << (next % 64);
	s->next = next + 1;
	s->received++;
	return SEQUENCE_NEW;
}

/**
 * No more will come; the numbers below `sent` are those there were. What arrived at or above it is
 * not among them: then `next` is greater than `sent`.
 */
void sequence_finish(struct sequence *s, uint64_t sent);

#endif
