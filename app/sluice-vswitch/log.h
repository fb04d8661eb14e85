/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Log lines of the switch, by way of EAL (--log-level=sluice.vswitch:debug). Never on a worker's
 * way.
 */
#ifndef LOG_H
#define LOG_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_log.h>

extern int log_type;

/** LOG(NOTICE, "port %s: up", name): one line, without its end. */
#define LOG(level, format, ...)                                                                    \
	rte_log(RTE_LOG_##level, (uint32_t)log_type, format "\n", ##__VA_ARGS__)

/** Lines that a peer can cause: so many at once, then one a tick. */
#define LOG_BUDGET_MAX 64

struct log_budget {
	uint32_t lines;    /**< that may be written now */
	uint64_t left_out; /**< that were not, since it was told */
};

/** May a line be written now? */
static inline bool
log_budget_take(struct log_budget *b)
{
	if (b->lines == 0) {
		b->left_out++;
		return false;
	}
	b->lines--;
	return true;
}

/** A tick has gone by. @return lines left out, to be told when half the budget is there again */
static inline uint64_t
log_budget_tick(struct log_budget *b)
{
	uint64_t left_out = b->left_out;

	if (b->lines < LOG_BUDGET_MAX)
		b->lines++;
	if (left_out == 0 || b->lines <= LOG_BUDGET_MAX / 2)
		return 0;
	b->left_out = 0;
	return left_out;
}

#endif
