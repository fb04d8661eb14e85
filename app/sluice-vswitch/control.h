/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#ifndef CONTROL_H
#define CONTROL_H

#include <signal.h>

#include "vswitch.h"

/**
 * Serve sockets, timers and addresses heard, until one of `signals` (blocked in every thread)
 * comes.
 * @return 0, or -errno when it could not begin
 */
int control_run(struct vswitch *sw, const sigset_t *signals);

#endif
