/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Values of options, or one line that says what is wrong with them.
 */
#ifndef BENCH_ARGS_H
#define BENCH_ARGS_H

#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "packet.h"

/** The name in front of messages; each program has its own. */
extern const char program[];

static inline void __attribute__((noreturn, format(printf, 1, 2))) bad_use(const char *text, ...)
{
	va_list args;

	va_start(args, text);
	fprintf(stderr, "%s: ", program);
	vfprintf(stderr, text, args);
	fprintf(stderr, "; %s --help lists the options\n", program);
	va_end(args);
	exit(2);
}

static inline uint32_t
parse_number(const char *option, const char *text, uint64_t least, uint64_t most)
{
	char *end;
	unsigned long long n;

	errno = 0;
	n = strtoull(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || n < least || n > most)
		bad_use("--%s %s: not a number from %llu to %llu", option, text,
			(unsigned long long)least, (unsigned long long)most);
	return (uint32_t)n;
}

enum mode {
	MODE_LOOP, /* guest - host - the same guest */
	MODE_TX,   /* guest - host */
	MODE_RX,   /* host - guest */
};

static inline enum mode
parse_mode(const char *text)
{
	if (strcmp(text, "loop") == 0)
		return MODE_LOOP;
	if (strcmp(text, "tx") == 0)
		return MODE_TX;
	if (strcmp(text, "rx") == 0)
		return MODE_RX;
	bad_use("--mode %s: not loop, tx or rx", text);
}

static inline uint64_t
parse_seconds(const char *text)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end != '\0' || !(s > 0 && s <= 3600))
		bad_use("--seconds %s: not a number above 0, at most 3600", text);
	return (uint64_t)(s * 1e9);
}

static inline void
parse_cpus(const char *text, int cpus[2])
{
	char rest;

	if (sscanf(text, "%d,%d%c", &cpus[0], &cpus[1], &rest) != 2 || cpus[0] == cpus[1])
		bad_use("--cpus %s: not two different numbers with a comma between", text);
}

#endif
