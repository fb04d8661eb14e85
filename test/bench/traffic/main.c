/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * sluice-traffic: a paced sender and a receiver that checks sequences, for any ethdev.
 */

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_version.h>

#include "results.h"

#define EXIT_USAGE 2

static struct options options;
static struct ports ports;
static struct run run;
static atomic_bool stop;

static void
on_signal(int number)
{
	(void)number;
	atomic_store(&stop, true);
}

static int
complain(const struct problem *p, int status)
{
	fprintf(stderr, "sluice-traffic: %s\n", p->text);
	return status;
}

/* Where "--" stands; argc if nowhere. */
static int
find_separator(int argc, char *const *argv)
{
	int i;

	for (i = 1; i < argc; i++)
		if (strcmp(argv[i], "--") == 0)
			break;
	return i;
}

/* Read our options, before EAL starts. @return 0, or the exit status plus 1 when that was all */
static int
read_options(int argc, char *const *argv)
{
	int separator = find_separator(argc, argv);
	bool alone = separator == argc && argc == 2 &&
		     (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0 ||
			     strcmp(argv[1], "--version") == 0);
	int first = alone ? 1 : separator + 1;
	struct problem p;
	int i;

	options_init(&options);
	if (separator == argc && !alone)
		for (i = 1; i < argc; i++)
			if (options_has(argv[i])) {
				problem(&p, "%s before \"--\": write [EAL options] -- [options]",
					argv[i]);
				return complain(&p, EXIT_USAGE) + 1;
			}
	if (options_parse(&options, first < argc ? argc - first : 0, argv + first, &p) < 0)
		return complain(&p, EXIT_USAGE) + 1;
	if (options.help)
		options_print_help(stdout);
	else if (options.version)
		printf("sluice-traffic %s, %s\n", SLUICE_VERSION, rte_version());
	return options.help || options.version ? EXIT_SUCCESS + 1 : 0;
}

static int
report(FILE *json)
{
	struct results res;
	struct problem p;
	int ret;

	results_gather(&res, &run);
	results_print(&res, stdout);
	if (json != NULL) {
		ret = results_write_json(&res, json);
		if (ret < 0) {
			problem(&p, "--json %s: %s", options.json, strerror(-ret));
			return complain(&p, EXIT_FAILURE);
		}
	}
	if (results_check(&res, &p) < 0)
		return complain(&p, EXIT_FAILURE);
	return EXIT_SUCCESS;
}

static int
work(FILE *json)
{
	struct problem p;
	int status;

	if (ports_find(&ports, &options, &p) < 0)
		return complain(&p, EXIT_USAGE);
	if (ports_open(&ports, &options, &p) < 0)
		status = complain(&p, EXIT_FAILURE);
	else if (run_init(&run, &options, &ports, &stop, &p) < 0 || run_all(&run, &p) < 0)
		status = complain(&p, EXIT_FAILURE);
	else
		status = report(json);
	if (run.options != NULL)
		run_free(&run);
	ports_close(&ports);
	return status;
}

int
main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = on_signal};
	int separator = find_separator(argc, argv);
	FILE *json = NULL;
	struct problem p;
	sigset_t signals;
	int status;

	status = read_options(argc, argv);
	if (status != 0)
		return status - 1;
	/* Made at the start, so that a wrong name is not found out at the end. */
	if (options.json != NULL) {
		json = fopen(options.json, "we");
		if (json == NULL) {
			problem(&p, "--json %s: %s: give a file that can be written", options.json,
				strerror(errno));
			return complain(&p, EXIT_USAGE);
		}
	}
	/* Threads inherit the mask: a signal wakes this one. */
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	pthread_sigmask(SIG_BLOCK, &signals, NULL);
	if (rte_eal_init(separator, argv) < 0) {
		problem(&p, "EAL does not start: %s (see above)", rte_strerror(rte_errno));
		return complain(&p, EXIT_FAILURE);
	}
	/* A driver may write to the socket of a backend that went first. */
	signal(SIGPIPE, SIG_IGN);
	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
	pthread_sigmask(SIG_UNBLOCK, &signals, NULL);

	status = work(json);
	rte_eal_cleanup();
	if (json != NULL)
		fclose(json);
	return status;
}
