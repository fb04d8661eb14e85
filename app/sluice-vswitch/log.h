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

#include <rte_log.h>

extern int log_type;

/** LOG(NOTICE, "port %s: up", name): one line, without its end. */
#define LOG(level, format, ...)                                                                    \
	rte_log(RTE_LOG_##level, (uint32_t)log_type, format "\n", ##__VA_ARGS__)

#endif
