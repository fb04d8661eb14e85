/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A worker with two transmit rings that may sleep, the guest's end of them, and views to be
 * published; without the rest of the switch.
 */
#ifndef SLEEPER_H
#define SLEEPER_H

#include "pair.h"
#include "vswitch.h"
#include "worker.h"

#define RINGS 2
#define ALL   3 /* rings, by bit */

struct fixture {
	struct vswitch sw;
	struct worker *workers[1];
	struct worker *worker;
	struct guest memory;
	struct pair pairs[RINGS];
	struct vring rings[RINGS];
	int kicks[RINGS];          /* the guest's own */
	uint64_t sent[RINGS];      /* kicks */
	_Atomic(uint32_t) flushes; /* of held back calls, asked for */
};

extern struct fixture fix;

/** No view is published yet. */
void fixture_init(uint64_t features, bool suppress_kicks);
/** All frames have been taken and given back. */
void fixture_free(void);

/** Publish a view with these rings; their kick descriptors are new ones each time. */
void publish(uint32_t rings);
/** One without any; nobody knows of their kick descriptors when this returns. */
void withdraw(void);

/** Become the worker's thread. */
void come_online(void);
/** A turn of the worker without any sleep. @return frames taken */
uint32_t take_turn(void);

/** Put a frame into a ring, and kick if that is wanted. */
void post(uint32_t ring);
/** Has the ring given the frame back? */
bool given_back(uint32_t ring);

/** Can this descriptor be read? */
bool rings_a_bell(int fd);

#endif
