/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include "covering.h"
#include "guest.h"

#define CANDIDATES 60

struct pairs {
	const uint32_t *levels;
	uint32_t factors;
	uint32_t left;
	bool done[COVERING_FACTORS][COVERING_FACTORS][COVERING_LEVELS][COVERING_LEVELS];
};

static uint32_t
gain(const struct pairs *p, const uint8_t *row)
{
	uint32_t n = 0;

	for (uint32_t a = 0; a < p->factors; a++)
		for (uint32_t b = a + 1; b < p->factors; b++)
			n += !p->done[a][b][row[a]][row[b]];
	return n;
}

static void
settle(struct pairs *p, const uint8_t *row)
{
	for (uint32_t a = 0; a < p->factors; a++) {
		for (uint32_t b = a + 1; b < p->factors; b++) {
			p->left -= !p->done[a][b][row[a]][row[b]];
			p->done[a][b][row[a]][row[b]] = true;
		}
	}
}

/* Put the first pair that is missing into a row. */
static void
seed(const struct pairs *p, uint8_t *row)
{
	for (uint32_t a = 0; a < p->factors; a++) {
		for (uint32_t b = a + 1; b < p->factors; b++) {
			for (uint32_t x = 0; x < p->levels[a]; x++) {
				for (uint32_t y = 0; y < p->levels[b]; y++) {
					if (p->done[a][b][x][y])
						continue;
					row[a] = (uint8_t)x;
					row[b] = (uint8_t)y;
					return;
				}
			}
		}
	}
}

void
covering_make(struct covering *c, const uint32_t *levels, uint32_t factors)
{
	static struct pairs p;
	uint64_t random = 2026;

	memset(&p, 0, sizeof(p));
	assert_true(factors <= COVERING_FACTORS);
	p.levels = levels;
	p.factors = factors;
	for (uint32_t a = 0; a < factors; a++) {
		assert_true(levels[a] <= COVERING_LEVELS);
		for (uint32_t b = a + 1; b < factors; b++)
			p.left += levels[a] * levels[b];
	}
	for (c->rows = 0; p.left != 0; c->rows++) {
		uint8_t *best = c->level[c->rows];
		uint32_t most = 0;

		assert_true(c->rows < COVERING_ROWS);
		for (uint32_t i = 0; i < CANDIDATES; i++) {
			uint8_t row[COVERING_FACTORS];

			for (uint32_t a = 0; a < factors; a++)
				row[a] = (uint8_t)rnd_below(&random, levels[a]);
			seed(&p, row);
			if (gain(&p, row) <= most)
				continue;
			most = gain(&p, row);
			memcpy(best, row, factors);
		}
		settle(&p, best);
	}
}
