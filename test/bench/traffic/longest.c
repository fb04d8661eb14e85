/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "longest.h"

void
longest_insert(struct longest *l, uint64_t value, uint64_t at, uint32_t which)
{
	uint32_t i = l->n < LONGEST_KEPT ? l->n++ : LONGEST_KEPT - 1;

	for (; i > 0 && l->entry[i - 1].value < value; i--)
		l->entry[i] = l->entry[i - 1];
	l->entry[i] = (struct longest_entry){.value = value, .at = at, .which = which};
}
