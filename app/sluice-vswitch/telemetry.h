/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#ifndef TELEMETRY_H
#define TELEMETRY_H

#include "vswitch.h"

/**
 * Offer /sluice/... on EAL's telemetry socket, answered by a thread of EAL's: it only reads.
 * @return 0 or -errno
 */
int telemetry_init(struct vswitch *sw);

/** Answer with nothing from now on; returns when no answer is under way. */
void telemetry_end(void);

#endif
