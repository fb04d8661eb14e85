/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What a run comes to, and whether it adds up.
 */
#ifndef RESULTS_H
#define RESULTS_H

#include <stdio.h>

#include "run.h"

#define RESULTS_CHECKS 6

struct flow_result {
	uint32_t flow;
	uint64_t sent; /* 0 of who only receives */
	uint64_t received;
	uint64_t lost; /* of who only receives: below the highest number that came */
	const struct sequence *sequence; /* NULL where all flows have one */
};

struct results {
	const struct run *run;
	bool both; /* what was sent is known here */
	uint64_t received, duplicates, reordered, max_distance, too_late, invalid;
	uint64_t lost, loss_events, longest_loss;
	uint64_t bad; /* of ours: length, header, content, number */
	double sending_s, receiving_s;
	uint32_t nchecks;
	struct check {
		const char *what; /* an equation */
		uint64_t left, right;
	} checks[RESULTS_CHECKS];
};

/** After the run, once: it closes the receiver's books. */
void results_gather(struct results *res, struct run *run);

void results_flow(const struct results *res, uint32_t flow, struct flow_result *out);

/** Do all equations hold? The first that does not is named in the problem. @return 0 or -EINVAL */
int results_check(const struct results *res, struct problem *problem);

/** TSC ticks in seconds; a moment as seconds since the run began. */
double results_seconds(uint64_t ticks);
double results_moment(const struct results *res, uint64_t tsc);

void results_print(const struct results *res, FILE *to);

/** @return 0 or -errno */
int results_write_json(const struct results *res, FILE *to);

#endif
