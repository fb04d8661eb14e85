/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Calls are writes to eventfds that guests share with us: whatever we make of their flags, a guest
 * can undo, and a write to one that is full then waits for good. Nobody asks before each write;
 * whoever waits is got out of it by a signal, which a write that does not wait never notices.
 */
#ifndef CALL_GUARD_H
#define CALL_GUARD_H

#include <signal.h>

struct vswitch;

/** Does nothing but end a write that waits. Its default is to be ignored; nobody else uses it. */
#define CALL_GUARD_SIGNAL SIGURG

/**
 * Catch the signal, make the calling thread's timer, and have view_synchronize() look after the
 * workers. By the control thread, once there are workers. @return 0 or -errno
 */
int call_guard_init(struct vswitch *sw);
void call_guard_end(struct vswitch *sw);

/**
 * Write to a guest's eventfd. Control thread.
 * @return 0; -EINTR: it is full and blocks, its guest is not to be trusted with another; or another
 *   -errno, when there is nobody to call or a call is pending already
 */
int call_guarded(int fd);

/** Interrupt the workers that are in the same call as at the last look. Control thread. */
void call_guard_look(const struct vswitch *sw);

#endif
