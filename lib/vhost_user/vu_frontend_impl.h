/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Inside the frontend: what its files share.
 */
#ifndef VU_FRONTEND_IMPL_H
#define VU_FRONTEND_IMPL_H

#include "vu_codec.h"
#include "vu_frontend.h"

/* Largest memory table that is kept, whatever number of slots a backend claims to have. */
#define VU_FRONTEND_REGIONS_MAX 512

/* A region that the backend has been shown. The file is known by its identity: numbers come again.
 */
struct vu_shown {
	struct vu_region region; /* its fd is not used */
	uint64_t dev, ino;
};

struct vu_frontend {
	int fd;
	uint32_t timeout_ms;
	uint64_t deadline; /* of all calls, as vu_now_ms() */
	int broken;        /* the error after which nothing more goes over the connection */
	uint64_t backend_features;
	uint64_t protocol_features;
	uint32_t mem_slots;
	uint8_t status;
	bool owner_set;
	uint32_t shown_count;
	struct vu_shown shown[VU_FRONTEND_REGIONS_MAX];
	struct vu_rx rx;
	struct vu_tx tx;
};

/** What a request gives back. */
enum vu_answer {
	VU_ANSWER_ACK,   /**< nothing of its own: the acknowledgement, with REPLY_ACK */
	VU_ANSWER_REPLY, /**< a message of the same number, of the size in the request's table */
};

/**
 * Send a request and wait for what it gives back.
 * @param msg header filled but for the flags; on VU_ANSWER_REPLY the payload is replaced
 * @param reply_size bytes that the reply must have (VU_ANSWER_REPLY)
 * @return 0, -EREMOTEIO (the backend refused), or an error that ends the connection
 */
int vu_frontend_request(
	struct vu_frontend *f, struct vu_msg *msg, enum vu_answer answer, uint32_t reply_size);

/** Has this protocol feature been agreed on? */
static inline bool
vu_frontend_has(const struct vu_frontend *f, uint64_t mask)
{
	return (f->protocol_features & mask) != 0;
}

/** A request without reply whose payload is one u64. */
int vu_frontend_send_u64(struct vu_frontend *f, uint32_t request, uint64_t value);

/** A request without payload whose reply is one u64. */
int vu_frontend_get_u64(struct vu_frontend *f, uint32_t request, uint64_t *value);

#endif
