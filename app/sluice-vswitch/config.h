/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Everything the operator says: from options and from a configuration file. No DPDK.
 */
#ifndef CONFIG_H
#define CONFIG_H

#include <limits.h>

#include "port_config.h"

#define AGEING_DEFAULT 300
#define AGEING_MAX     1000000
/** Addresses that the forwarding table holds; one port may hold half of them. */
#define ADDRESSES_DEFAULT  16384
#define ADDRESSES_MIN      64
#define ADDRESSES_MAX      2097152
#define IDLE_USECS_DEFAULT 50
#define IDLE_USECS_MAX     1000000

/** What a worker does that finds nothing. */
struct idle_config {
	bool sleep;       /**< else it polls on */
	uint32_t usecs;   /**< to poll on before it sleeps */
	bool usecs_given; /* since `sleep` was last said to be off */
};

struct switch_config {
	struct port_config ports[PORTS_MAX];
	uint32_t nports;
	uint32_t ageing; /**< seconds; 0: never */
	uint32_t addresses;
	struct coalesce_config coalesce;
	struct idle_config idle;
	bool suppress_kicks;   /**< ask guests for none while workers are awake */
	char report[PATH_MAX]; /**< "": none */
	bool help;
	bool version;
};

/** The defaults. */
void switch_config_init(struct switch_config *c);

/** Append a port; its name, path and device must be its own. @return 0 or -EINVAL */
int switch_config_add_port(
	struct switch_config *c, const struct port_config *p, struct problem *problem);

/** Take "poll" or "sleep". @return 0 or -EINVAL */
int switch_config_set_idle(struct idle_config *c, const char *text, struct problem *problem);

/** Take microseconds; `what` is what the operator calls them. @return 0 or -EINVAL */
int switch_config_set_idle_usecs(
	struct idle_config *c, const char *what, const char *text, struct problem *problem);

/** Take the name of the report. @return 0 or -EINVAL */
int switch_config_set_report(struct switch_config *c, const char *text, struct problem *problem);

/** Read a file on top of what is there. @return 0 or -EINVAL with FILE:LINE: in the problem */
int switch_config_read(struct switch_config *c, const char *name, struct problem *problem);

/**
 * Take the options of the switch (those behind EAL's "--").
 * @return 0, or -EINVAL
 */
int switch_config_options(
	struct switch_config *c, int argc, char *const *argv, struct problem *problem);

/** Is this word an option of ours? To tell a forgotten "--" from an option of EAL. */
bool switch_config_is_option(const char *word);

#endif
