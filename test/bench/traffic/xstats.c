/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "xstats.h"

int
xstats_clear(uint16_t port)
{
	return rte_eth_xstats_reset(port);
}

int
xstats_read(struct xstats *x, uint16_t port)
{
	int n = rte_eth_xstats_get_names(port, NULL, 0);
	unsigned int room = n > 0 ? (unsigned int)n : 0;
	uint32_t i;

	memset(x, 0, sizeof(*x));
	if (n < 0)
		return n;
	x->names = calloc(room + 1, sizeof(*x->names));
	x->values = calloc(room + 1, sizeof(*x->values));
	if (x->names == NULL || x->values == NULL ||
		rte_eth_xstats_get_names(port, x->names, room) != n ||
		rte_eth_xstats_get(port, x->values, room) != n) {
		xstats_free(x);
		return -EIO;
	}
	/* An id says whose name it is; none is known to differ from its place. */
	for (i = 0; i < room; i++)
		if (x->values[i].id != i) {
			xstats_free(x);
			return -EIO;
		}
	x->n = room;
	return 0;
}

void
xstats_free(struct xstats *x)
{
	free(x->names);
	free(x->values);
	memset(x, 0, sizeof(*x));
}
