/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A driver's own counters over the measured time.
 */
#ifndef XSTATS_H
#define XSTATS_H

#include <rte_ethdev.h>

struct xstats {
	uint32_t n;
	struct rte_eth_xstat_name *names;
	struct rte_eth_xstat *values; /* values[i] is of names[i] */
};

/** Begin anew, marks such as the lowest or the highest included. @return 0 or -errno */
int xstats_clear(uint16_t port);

/** @return 0 or -errno; then there is nothing to free */
int xstats_read(struct xstats *x, uint16_t port);

void xstats_free(struct xstats *x);

#endif
