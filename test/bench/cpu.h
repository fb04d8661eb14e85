/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What every measuring program needs: a clock, a thread that stays on its CPU, memory that is there
 * before the clock runs.
 */
#ifndef BENCH_CPU_H
#define BENCH_CPU_H

#include <pthread.h>
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* Two lines: what two threads write lies further apart than the prefetcher of a neighbour line
 * looks. */
#define BENCH_APART 128

static inline uint64_t
now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static inline void
sleep_ns(uint64_t ns)
{
	const struct timespec t = {
		.tv_sec = (time_t)(ns / 1000000000ull), .tv_nsec = (long)(ns % 1000000000ull)};

	nanosleep(&t, NULL);
}

/** Keep the calling thread on one CPU, or end the program. */
static inline void
stay_on_cpu(const char *who, int cpu)
{
	cpu_set_t set;

	CPU_ZERO(&set);
	if (cpu >= 0 && cpu < CPU_SETSIZE)
		CPU_SET(cpu, &set);
	if (pthread_setaffinity_np(pthread_self(), sizeof(set), &set) != 0) {
		fprintf(stderr,
			"%s: cannot run on CPU %d: take one of those this process may use\n", who,
			cpu);
		exit(1);
	}
}

/** Zeroed memory on huge pages where there are any, touched already; ends the program without. */
static inline void *
map_memory(const char *who, size_t bytes)
{
	const size_t huge = (size_t)2 << 20;
	uint8_t *p;

	bytes = (bytes + huge - 1) & ~(huge - 1);
	p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB, -1,
		0);
	if (p == MAP_FAILED) {
		p = mmap(NULL, bytes + huge, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS,
			-1, 0);
		if (p == MAP_FAILED) {
			fprintf(stderr, "%s: no %zu MB of memory: take a smaller ring\n", who,
				bytes >> 20);
			exit(1);
		}
		/* Transparent huge pages need the alignment; without them it runs all the same. */
		p += huge - (uintptr_t)p % huge;
		(void)madvise(p, bytes, MADV_HUGEPAGE);
	}
	memset(p, 0, bytes);
	return p;
}

#endif
