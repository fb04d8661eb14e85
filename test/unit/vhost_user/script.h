/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A frontend against a backend that is a script: its answers lie in the socket before they are
 * asked for, which is all the same to a frontend that reads only after it has asked.
 */
#ifndef SCRIPT_H
#define SCRIPT_H

#include "host.h"
#include "vu_frontend.h"

#define REPLY (VU_FLAG_VERSION | VU_FLAG_REPLY)
#define BIT30 VQ_FEATURE(PROTOCOL_FEATURES)

/** Bound on each wait of the frontend. */
#define SCRIPT_TIMEOUT_MS 200

extern struct peer script; /* the backend's end */
extern struct vu_frontend *f;

int script_setup(void **state);
/** No descriptor is left. */
int script_teardown(void **state);

/** Answer a request with a u64. */
void say(uint32_t request, uint64_t value);
/** The next message of the frontend, which is this request. */
struct vu_msg hear(uint32_t request);
void hear_nothing(void);

/** vu_frontend_negotiate() of VERSION_1 and one queue pair. */
int negotiate(uint64_t *features, uint32_t *have);
/** The same, with a backend of these protocol features. */
void agree(uint64_t protocol);

#endif
