/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include "calls.h"

void
calls_init(struct calls *c)
{
	histogram_init(&c->gave);
	histogram_init(&c->empty);
	memset(&c->longest, 0, sizeof(c->longest));
}

void
calls_note(struct calls *c, uint64_t begin, uint64_t ticks, uint32_t frames)
{
	histogram_add(frames != 0 ? &c->gave : &c->empty, ticks);
	longest_add(&c->longest, ticks, begin, frames);
}
