/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A backend with a frontend connected that has said nothing yet: what tests of single messages
 * start from. At the end nothing may be left open or mapped.
 */
#ifndef CONNECTED_H
#define CONNECTED_H

#include "host.h"

#define GUEST UINT64_C(0x100000000)

extern struct host h;
extern struct peer p;
extern struct shm shm;

int connected_setup(void **state);
int connected_teardown(void **state);

static inline const struct vu_ring *
ring(uint32_t i)
{
	return vu_backend_ring(h.b, i);
}

#endif
