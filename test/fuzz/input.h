/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * An input read as a script: numbers from its front, one after the other. At the end come zeros.
 * What changes memory between two reads takes its own numbers from the back (between.h), so that a
 * longer story does not change what happens in it.
 */
#ifndef FUZZ_INPUT_H
#define FUZZ_INPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

struct input {
	const uint8_t *at;
	const uint8_t *end;
};

static inline bool
in_more(const struct input *in)
{
	return in->at < in->end;
}

static inline uint64_t
in_bytes(struct input *in, size_t n)
{
	size_t have = (size_t)(in->end - in->at);
	uint64_t v = 0;

	if (n > have)
		n = have;
	memcpy(&v, in->at, n);
	in->at += n;
	return v;
}

static inline uint8_t
in_u8(struct input *in)
{
	return (uint8_t)in_bytes(in, 1);
}

static inline uint16_t
in_u16(struct input *in)
{
	return (uint16_t)in_bytes(in, 2);
}

static inline uint32_t
in_u32(struct input *in)
{
	return (uint32_t)in_bytes(in, 4);
}

static inline uint64_t
in_u64(struct input *in)
{
	return in_bytes(in, 8);
}

/** One of 0..n-1, from one byte; n <= 256. */
static inline uint32_t
in_below(struct input *in, uint32_t n)
{
	return in_u8(in) % n;
}

/** What must hold, in every build; the sanitizers print where. */
#define MUST(condition)                                                                            \
	do {                                                                                       \
		if (!(condition))                                                                  \
			fuzz_failed(#condition, __FILE__, __LINE__);                               \
	} while (0)

_Noreturn void fuzz_failed(const char *condition, const char *file, int line);

/** The entry point of a target. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#endif
