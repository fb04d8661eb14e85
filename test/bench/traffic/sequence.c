/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include "sequence.h"

void
sequence_init(struct sequence *s)
{
	memset(s, 0, sizeof(*s));
}

static void
lose(struct sequence *s, uint64_t n)
{
	if (n == 0)
		return;
	if (s->run == 0)
		s->loss_events++;
	s->run += n;
	s->lost += n;
	if (s->run > s->longest_loss)
		s->longest_loss = s->run;
}

/* The oldest n (1..64) numbers of a word leave. */
static void
leave(struct sequence *s, uint64_t word, uint32_t n)
{
	uint32_t i;

	if (word == UINT64_MAX) {
		s->run = 0;
		return;
	}
	for (i = 0; i < n; i++)
		if (word >> i & 1)
			s->run = 0;
		else
			lose(s, 1);
}

/* Move on until the number is in the bitmap. At most a bitmap's worth of work. */
static void
make_room(struct sequence *s, uint64_t number)
{
	uint64_t words = (number - s->base) / 64 - (SEQUENCE_WORDS - 1), i;

	for (i = 0; i < words && i < SEQUENCE_WORDS; i++) {
		uint64_t *word = &s->bits[s->base / 64 % SEQUENCE_WORDS];

		leave(s, *word, 64);
		*word = 0;
		s->base += 64;
	}
	if (words > SEQUENCE_WORDS) {
		lose(s, (words - SEQUENCE_WORDS) * 64);
		s->base += (words - SEQUENCE_WORDS) * 64;
	}
}

enum sequence_verdict
sequence_take_slow(struct sequence *s, uint32_t low)
{
	/* The number with these low bits that is nearest to the one expected. */
	int64_t offset = (int32_t)(low - (uint32_t)s->next);
	uint64_t number, mask, *word;

	if (offset < 0 && (uint64_t)-offset > s->next) {
		s->invalid++;
		return SEQUENCE_INVALID;
	}
	number = s->next + (uint64_t)offset;
	if (number < s->base) {
		s->too_late++;
		return SEQUENCE_TOO_LATE;
	}
	if (number - s->base >= SEQUENCE_WINDOW)
		make_room(s, number);
	word = &s->bits[number / 64 % SEQUENCE_WORDS];
	mask = UINT64_C(1) << (number % 64);
	if (*word & mask) {
		s->duplicates++;
		return SEQUENCE_DUPLICATE;
	}
	*word |= mask;
	s->received++;
	if (offset >= 0) {
		s->next = number + 1;
		return SEQUENCE_NEW;
	}
	s->reordered++;
	if (s->next - 1 - number > s->max_distance)
		s->max_distance = s->next - 1 - number;
	return SEQUENCE_NEW;
}

void
sequence_finish(struct sequence *s, uint64_t sent)
{
	uint64_t end = s->next > sent ? s->next : sent;

	while (s->base < end && s->base < s->next) {
		uint64_t left = end - s->base;

		leave(s, s->bits[s->base / 64 % SEQUENCE_WORDS], left < 64 ? (uint32_t)left : 64);
		s->bits[s->base / 64 % SEQUENCE_WORDS] = 0;
		s->base += left < 64 ? left : 64;
	}
	if (s->base < end) {
		lose(s, end - s->base);
		s->base = end;
	}
}
