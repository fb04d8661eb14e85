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
	histogram_init(&c->after_dry);
	memset(&c->longest, 0, sizeof(c->longest));
	c->left = 0;
	c->longest_left = 0;
}

static void
end_after_dry(struct calls *c)
{
	if (c->longest_left != 0)
		histogram_add(&c->after_dry, c->longest_left);
	c->longest_left = 0;
}

void
calls_after_dry(struct calls *c)
{
	end_after_dry(c);
	c->left = CALLS_AFTER_DRY;
}

void
calls_note(struct calls *c, uint64_t begin, uint64_t ticks, uint32_t frames)
{
	histogram_add(frames != 0 ? &c->gave : &c->empty, ticks);
	longest_add(&c->longest, ticks, begin, frames);
	if (c->left == 0)
		return;
	if (ticks > c->longest_left)
		c->longest_left = ticks;
	if (--c->left == 0)
		end_after_dry(c);
}
