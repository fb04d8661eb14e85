/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * One run: a warm-up maybe, then the measurement, on the worker lcores.
 */
#ifndef RUN_H
#define RUN_H

#include <semaphore.h>

#include "receiver.h"
#include "sender.h"
#include "sleep.h"

struct run;

struct loop {
	struct run *run;
	bool sends, receives;
	unsigned int lcore;
	atomic_bool started;
	double cpu_s, wall_s; /* that the loop took, and how long it went on */
	_Alignas(64) struct stalls stalls;
};

struct run {
	const struct options *options;
	struct ports *ports;
	const atomic_bool *stop; /* set by a signal */
	uint8_t src[6], dst[6];
	struct frame_maker maker;
	uint32_t nloops;
	struct loop loops[2]; /* one that does both, or the receiver's and the sender's */
	sem_t ended;          /* posted by each loop */
	uint64_t duration, drain, settle; /* ticks */
	uint64_t count;
	uint64_t start;                                  /* TSC */
	_Alignas(64) atomic_uint_fast64_t sending_ended; /* TSC; 0: not yet */
	struct sender sender;
	struct sleeper sleeper; /* with --sleep */
	struct receiver receiver;
};

/** Place the loops on the worker lcores. @return 0 or -EINVAL */
int run_init(struct run *r, const struct options *o, struct ports *ports, const atomic_bool *stop,
	struct problem *problem);

/** Warm up and measure; the results are in the sender and the receiver. @return 0 or -EINVAL */
int run_all(struct run *r, struct problem *problem);

void run_free(struct run *r);

#endif
