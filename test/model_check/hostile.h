/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A peer that writes anything, at any time: each load of a shared field has any value, whatever was
 * stored or read there before.
 */
#ifndef HOSTILE_H
#define HOSTILE_H

#include "model.h"

unsigned short
model_load(const unsigned short *p)
{
	PROVE(__CPROVER_r_ok(p, sizeof(*p)));
	return nondet_u16();
}

void
model_store(unsigned short *p, unsigned short value)
{
	*p = value;
}

#endif
