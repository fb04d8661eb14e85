/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A peer that changes shared memory between two of our reads. All but this is compiled with
 * -fsanitize-coverage=trace-loads, which announces each load; when one of the library's goes to the
 * arena, the end of the input says whether other bytes shall stand there first. So what the library
 * reads twice it may find changed, at the very place and time, without luck and without a thread:
 * half of the changes wait for just that, a load of what was loaded before in the same call.
 *
 * Copies (memcpy) are not announced: they move payload.
 */
#ifndef FUZZ_BETWEEN_H
#define FUZZ_BETWEEN_H

#include <stddef.h>
#include <stdint.h>

#include "input.h"

/** Start an input; what it says about changes is taken from its back, which shortens it. */
void between_start(struct input *in);

/** From here on the library reads: loads are counted, shared ones may change. */
void between_enter(void);

/** What happened since. */
struct between {
	uint64_t loads;  /* of anything */
	uint64_t shared; /* of the arena */
	uint32_t changes;
};

/** To here. */
struct between between_leave(void);

/** An index that the peer may move on before it is read, by so much: a driver that never rests. */
void between_advance(const void *index, uint16_t by);

#endif
