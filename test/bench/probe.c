/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */
/* What state the machine is in, in 1/20 of a second: how long a cache line takes from one CPU
 * to the other, and how fast each CPU adds. A virtual CPU is moved about by its host: next to the
 * other one or far from it, alone on its core or with a stranger beside it.
 *
 *	probe [CPU CPU]		prints: one-way ns, 10^9 additions a second of each CPU,
 *				share of the time that the probe had the CPUs (the lesser; what is
 *				missing went to other processes of this machine),
 *				nominal GHz of the CPU (0: not known)
 */

#include <stdatomic.h>

#include "cpu.h"

#define PART_NS 25000000ull /* for each half of the probe */
#define ADDS    8           /* independent chains: more than a core has adders */
#define BLOCK   4096

static _Alignas(BENCH_APART) _Atomic uint64_t ball;
static _Alignas(BENCH_APART) _Atomic int ready;
static int cpus[2] = {0, 1};
static double one_way_ns, adds_per_ns[2], nominal_ghz[2], share[2];

static uint64_t
own_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec;
}

static void
meet(int stage)
{
	atomic_fetch_add(&ready, 1);
	while (atomic_load(&ready) < 2 * stage)
		;
}

/* Who holds the odd turns returns the ball; the last value ends the game for both. */
static void
ping_pong(int who)
{
	uint64_t turn = (uint64_t)who, start = now_ns(), end = start;

	for (;;) {
		uint64_t seen = atomic_load_explicit(&ball, memory_order_acquire);

		if (seen == UINT64_MAX)
			return;
		if (seen != turn)
			continue;
		turn += 2;
		if (who == 0 && (turn & 1023) == 0) {
			end = now_ns();
			if (end - start >= PART_NS) {
				one_way_ns = (double)(end - start) / (double)seen;
				atomic_store(&ball, UINT64_MAX);
				return;
			}
		}
		atomic_store_explicit(&ball, seen + 1, memory_order_release);
	}
}

/* Of the time stamp counter: a core that is alone runs at this clock or above it. */
static uint64_t
cycles(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

static double
add_rate(double *ghz)
{
	uint64_t a = 0, b = 0, c = 0, d = 0, e = 0, f = 0, g = 0, h = 0;
	uint64_t done = 0, start = now_ns(), first = cycles(), end;

	do {
		for (uint64_t i = 0; i < BLOCK; i++) {
			a += i, b += i, c += i, d += i, e += i, f += i, g += i, h += i;
			/* Each sum is to be made, one at a time, in a register. */
			__asm__ volatile(""
					 : "+r"(a), "+r"(b), "+r"(c), "+r"(d), "+r"(e), "+r"(f),
					 "+r"(g), "+r"(h));
		}
		done += (uint64_t)BLOCK * ADDS;
		end = now_ns();
	} while (end - start < PART_NS);
	*ghz = (double)(cycles() - first) / (double)(now_ns() - start);
	return (double)done / (double)(end - start);
}

static void *
run(void *arg)
{
	int who = *(const int *)arg;
	uint64_t start, used;

	stay_on_cpu("probe", cpus[who]);
	meet(1);
	start = now_ns();
	used = own_ns();
	ping_pong(who);
	meet(2);
	adds_per_ns[who] = add_rate(&nominal_ghz[who]);
	used = own_ns() - used;
	share[who] = (double)used / (double)(now_ns() - start);
	return NULL;
}

int
main(int argc, char **argv)
{
	static const int who[2] = {0, 1};
	pthread_t other;

	if (argc == 3) {
		cpus[0] = atoi(argv[1]);
		cpus[1] = atoi(argv[2]);
	}
	if (pthread_create(&other, NULL, run, (void *)(uintptr_t)&who[1]) != 0) {
		fprintf(stderr, "probe: cannot start a thread\n");
		return 1;
	}
	run((void *)(uintptr_t)&who[0]);
	pthread_join(other, NULL);
	printf("%.1f %.2f %.2f %.2f %.2f\n", one_way_ns, adds_per_ns[0], adds_per_ns[1],
		share[0] < share[1] ? share[0] : share[1], nominal_ghz[0]);
	return 0;
}
