/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * How the calls to a guest are moderated, as the operator says it: for all ports, or for one. No
 * DPDK.
 */
#ifndef COALESCE_CONFIG_H
#define COALESCE_CONFIG_H

#include <stdint.h>

#include "problem.h"

#define COALESCE_FRAMES_MAX 32768
#define COALESCE_USECS_MAX  100000

enum coalesce_mode {
	COALESCE_OFF,
	COALESCE_STATIC,
	COALESCE_ADAPTIVE,
	COALESCE_AS_SWITCH, /**< of a port: what is said for all */
};

struct coalesce_config {
	enum coalesce_mode mode;
	uint32_t frames; /**< static: 1..COALESCE_FRAMES_MAX; 0: not said */
	uint32_t usecs;  /**< static: 1..COALESCE_USECS_MAX; 0: not said */
};

/** Take "off", "static" or "adaptive". @return 0 or -EINVAL */
int coalesce_config_set_mode(struct coalesce_config *c, const char *text, struct problem *problem);

/** Take the value of "frames" or "usecs". @return 0 or -EINVAL */
int coalesce_config_set(
	struct coalesce_config *c, const char *key, const char *value, struct problem *problem);

/** After the last of these: do they go together? @return 0 or -EINVAL */
int coalesce_config_check(const struct coalesce_config *c, struct problem *problem);

/** Take "off", "adaptive" or "static,frames=N,usecs=N", and check it. @return 0 or -EINVAL */
int coalesce_config_parse(struct coalesce_config *c, const char *text, struct problem *problem);

/** Name of a mode. */
const char *coalesce_mode_name(enum coalesce_mode mode);

#endif
