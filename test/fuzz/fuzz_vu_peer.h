/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A backend by script, for a frontend that waits: whenever it waits, the peer takes what was asked
 * and answers, honestly or as the next record says. Time stands still but for these waits, so that
 * every bound on time is checked to the millisecond. By the linker's --wrap.
 */
#ifndef FUZZ_VU_PEER_H
#define FUZZ_VU_PEER_H

#include "fuzz_vu.h"
#include "vu_codec.h"

/* All that our frontend knows. */
#define PEER_PROTOCOL UINT64_C(0x1a019)
/* In `op` of a record: the shape of an answer, not a call of the application. */
#define ANSWER 0x80

struct peer {
	int fd;    /* -1: gone */
	int other; /* the frontend's end */
	struct script *script;
	/* What an honest answer says. */
	uint64_t features, protocol, pairs, slots;
	/* What was seen. */
	uint64_t agreed;  /* protocol features that the frontend has set, ever */
	uint64_t claimed; /* the last answer to GET_FEATURES */
	uint32_t requests;
	bool deaf;           /* does not read */
	bool lied;           /* the last answer was none to that question */
	bool lie_awaited;    /* and the frontend waited for it, with nothing received before */
	const uint32_t *got; /* what the frontend has of an answer */
	struct vu_rx rx;
	/* What it has still to say: so many bytes each time the frontend waits. */
	uint8_t later[1024];
	uint32_t later_len, later_step, later_ms;
};

/** A connection of which the peer has one end. @return the other end */
int peer_open(struct peer *p, struct script *script);
/** Close it. The frontend's end must be closed: nothing is left in it. */
void peer_close(struct peer *p);
/** Take all that the frontend has sent, and answer. */
void peer_turn(struct peer *p);
/** Send an answer to this request in the shape of a record. */
void peer_answer(struct peer *p, const struct vu_header *asked, const union vu_payload *payload,
	const struct record *r);

/** From here to peer_done() the library's clock and waits are ours. */
void peer_time_is_ours(struct peer *p);
void peer_time_is_over(void);
/** Milliseconds that have passed since then. */
uint64_t peer_elapsed(void);

#endif
