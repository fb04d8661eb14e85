/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * SIGBUS: a guest that truncates the file behind its memory makes whoever touches that memory
 * fault. It costs the guest its port, nobody else anything.
 *
 * A worker's fault goes back to where its loop begins (worker->env); the control thread's, while it
 * handles a guest's messages, to its guard. Any other ends the process, as usual.
 */
#ifndef FAULT_H
#define FAULT_H

#include <setjmp.h>
#include <stdint.h>

#include "port.h"

struct worker;

/** Catch SIGBUS. Once, before there are workers. @return 0 or -errno */
int fault_init(void);

/** This thread is that worker from now on; NULL: no more. */
void fault_set_worker(struct worker *w);

/** The guard of the control thread; NULL: none. */
void fault_set_guard(sigjmp_buf *env);

/** Let no worker touch the rings of a port any more; others that are at one finish or fault too. */
void fault_mark_port(struct worker *w, uint32_t port, enum port_fault fault);

#endif
