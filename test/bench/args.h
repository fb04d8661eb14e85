/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The options of a program: a table of them, each with what it does, or one line that says what is
 * wrong with what was given.
 */
#ifndef BENCH_ARGS_H
#define BENCH_ARGS_H

#include <errno.h>
#include <getopt.h>
#include <stdarg.h>
#include <stdbool.h>
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

/** An option: `take` does with `to` what `text` says, NULL where it has no value. */
struct arg {
	const char *name;
	void (*take)(const struct arg *arg, const char *text);
	void *to;
	bool valued;
	uint64_t least, most; /**< of a number; else what `take` makes of them */
};

#define VALUED   true
#define ARGS_MAX 32

static inline void
take_number(const struct arg *arg, const char *text)
{
	*(uint32_t *)arg->to = parse_number(arg->name, text, arg->least, arg->most);
}

static inline void
take_power(const struct arg *arg, const char *text)
{
	const uint32_t n = parse_number(arg->name, text, arg->least, arg->most);

	if ((n & (n - 1)) != 0)
		bad_use("--%s %s: not a power of two", arg->name, text);
	*(uint32_t *)arg->to = n;
}

/* A flag that `least` is the value of. */
static inline void
take_flag(const struct arg *arg, const char *text)
{
	(void)text;
	*(bool *)arg->to = arg->least != 0;
}

/* Bits that are set by `least`, and cleared by `most`. */
static inline void
take_bits(const struct arg *arg, const char *text)
{
	uint64_t *bits = arg->to;

	(void)text;
	*bits = (*bits & ~arg->most) | arg->least;
}

/** All that was given, of at most ARGS_MAX options; --help prints the usage and ends. */
static inline void
parse_args(const struct arg *args, uint32_t nargs, const char *usage, int argc, char **argv)
{
	struct option options[ARGS_MAX + 2] = {0};
	uint32_t i;
	int id;

	for (i = 0; i < nargs; i++)
		options[i] = (struct option){args[i].name,
			args[i].valued ? required_argument : no_argument, NULL, (int)i + 1};
	options[nargs] = (struct option){"help", no_argument, NULL, (int)nargs + 1};
	opterr = 0;
	while ((id = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (id == '?' || id == ':')
			bad_use("%s: unknown, or without its value", argv[optind - 1]);
		if ((uint32_t)id > nargs) {
			fputs(usage, stdout);
			exit(0);
		}
		args[id - 1].take(&args[id - 1], optarg);
	}
	if (optind != argc)
		bad_use("%s: not an option", argv[optind]);
}

enum mode {
	MODE_LOOP, /* guest - host - the same guest */
	MODE_TX,   /* guest - host */
	MODE_RX,   /* host - guest */
};

static inline void
take_mode(const struct arg *arg, const char *text)
{
	enum mode *mode = arg->to;

	if (strcmp(text, "loop") == 0)
		*mode = MODE_LOOP;
	else if (strcmp(text, "tx") == 0)
		*mode = MODE_TX;
	else if (strcmp(text, "rx") == 0)
		*mode = MODE_RX;
	else
		bad_use("--%s %s: not loop, tx or rx", arg->name, text);
}

/** Into nanoseconds. */
static inline void
take_seconds(const struct arg *arg, const char *text)
{
	char *end;
	double s = strtod(text, &end);

	if (end == text || *end != '\0' || !(s > 0 && s <= 3600))
		bad_use("--%s %s: not a number above 0, at most 3600", arg->name, text);
	*(uint64_t *)arg->to = (uint64_t)(s * 1e9);
}

static inline void
take_cpus(const struct arg *arg, const char *text)
{
	int *cpus = arg->to;
	char rest;

	if (sscanf(text, "%d,%d%c", &cpus[0], &cpus[1], &rest) != 2 || cpus[0] == cpus[1])
		bad_use("--%s %s: not two different numbers with a comma between", arg->name, text);
}

#endif
