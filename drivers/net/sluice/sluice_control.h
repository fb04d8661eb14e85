/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The control thread of a device, one for each. It waits for what the transport says, gives the
 * transport a turn, and tells the application of what changed.
 */
#ifndef SLUICE_CONTROL_H
#define SLUICE_CONTROL_H

#include "sluice.h"

/** Milliseconds between two looks at idle queues and broken rings while the link is up. */
#define SLUICE_LOOK_MS 100

struct sluice_control {
	struct sluice_dev *dev; /* NULL: closed by the thread itself, which then frees this */
	sluice_thread thread;
	int wake;  /* eventfd: look again */
	bool exit; /* under dev->lock */
};

/** Start the thread; dev->control is set. @return 0 or errno, logged */
int sluice_control_start(struct sluice_dev *dev);

/**
 * End the thread: it does not touch the device any more. From any thread without a lock, also from
 * within a callback of the application that this thread runs. Without a thread: nothing.
 */
void sluice_control_stop(struct sluice_dev *dev);

/** Something changed: take a turn now. Any thread. */
void sluice_control_wake(const struct sluice_dev *dev);

#endif
