/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A frontend by script: makes the message that a record means, honest where the record is zero, and
 * sends it in the shape that the record asks for.
 */
#ifndef FUZZ_VU_SAY_H
#define FUZZ_VU_SAY_H

#include "fuzz_vu.h"

/** A message with what travels beside it. */
struct said {
	struct vu_header hdr;
	union vu_payload payload;
	int fds[SEND_FDS_MAX];
	uint32_t nfds;
};

/** In `op` of a record: no acknowledgement is asked for. */
#define SAY_QUIET 0x80

/**
 * The message of a record whose `op` (without its two upper bits) is a request.
 * a: which fields are taken literally; b: the shape, see say_shaped(); c: descriptors, kind of
 * number; x: ring, or regions; y: the number.
 */
void say_make(const struct record *r, struct said *m);

/** One region of a table takes the values of a record (op as for say_make() does not matter). */
void say_bend_region(const struct record *r, struct said *m);

/** What runs between two pieces of a message. */
struct say_to {
	int fd;
	void (*turn)(void *arg);
	void *arg;
};

/** Send it: whole, or as r->b wants: cut, in pieces, with a wrong header, too many descriptors. */
void say_shaped(const struct say_to *to, const struct record *r, struct said *m);

/** Send it as it is. */
bool say(const struct say_to *to, const struct said *m);

/* Parts of an honest set-up, for say_honest(). */
#define HONEST_PROTOCOL 0x01
#define HONEST_FEATURES 0x02
#define HONEST_MEMORY   0x04
#define HONEST_RINGS    0x08
#define HONEST_KICK     0x10
#define HONEST_ENABLE   0x20
#define HONEST_STATUS   0x40
#define HONEST_QUIET    0xff /* all of them, without acknowledgements */

/** An honest set-up of `rings` rings, but for the parts that are left out. */
void say_honest(const struct say_to *to, uint8_t parts, uint32_t rings, uint8_t file);

#endif
