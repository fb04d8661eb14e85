/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The ledger at the end: a table for people, JSON for programs. When no worker counts any more.
 */
#ifndef REPORT_H
#define REPORT_H

#include <stdio.h>

#include "vswitch.h"

/** Print the table. */
void report_print(const struct vswitch *sw, FILE *to);

/** Write the JSON. @return 0 or -errno */
int report_write(const struct vswitch *sw, FILE *to);

#endif
