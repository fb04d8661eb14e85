/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The frontend of vhost-user: the side that has the driver. It carries the control messages of one
 * connection; rings, memory and policy (when to reconnect) are the caller's.
 *
 * One thread at a time may be inside (a lock of the caller's). Each call sends its message and, if
 * there is something to wait for (a reply, or the acknowledgement when REPLY_ACK was negotiated),
 * waits for at most the timeout of the connection. Descriptors that no reply should carry are
 * closed.
 *
 * Each call returns 0 or a negative errno. -EREMOTEIO: the backend refused the request, and all is
 * as it was before it (vu_frontend_set_memory() may have done some of its requests: repeat it).
 * After -ETIMEDOUT, -ECONNRESET, -EPROTO and any other failure of the socket the connection is of
 * no use, every call returns the same error: vu_frontend_close() it.
 */
#ifndef VU_FRONTEND_H
#define VU_FRONTEND_H

#include <stdbool.h>
#include <stdint.h>

#include "vu_socket.h"

struct vu_frontend;

/** A region of our memory, to be shown to the backend. */
struct vu_region {
	uint64_t guest; /**< address that descriptors will carry */
	uint64_t user;  /**< our virtual address: what SET_VRING_ADDR is in */
	uint64_t size;
	uint64_t offset; /**< of the region in the file */
	int fd;          /**< stays the caller's */
};

/** Addresses of a ring in our memory. */
struct vu_ring_addr {
	uint64_t desc, avail, used;
};

/**
 * Take over a connected socket (from vu_socket_connect() or _accept()); it belongs to the frontend
 * from then on, also when this fails.
 * @param timeout_ms bound on every wait, 1..60000
 */
int vu_frontend_open(int fd, uint32_t timeout_ms, struct vu_frontend **out);

/**
 * Bound the calls that follow in sum, beside each by itself.
 * @param ms from now on; a wait after that is -ETIMEDOUT
 */
void vu_frontend_set_deadline(struct vu_frontend *f, uint32_t ms);

/** Close the connection. NULL is fine. */
void vu_frontend_close(struct vu_frontend *f);

/** The socket, to poll for POLLIN | POLLRDHUP; never read from it. */
int vu_frontend_fd(const struct vu_frontend *f);

/** Is the peer still there? 0 or -ECONNRESET; never waits. A byte out of turn is -EPROTO. */
int vu_frontend_check(struct vu_frontend *f);

/**
 * Set the stage: GET_FEATURES, protocol features (MQ, REPLY_ACK, MTU, STATUS, RESET_DEVICE,
 * CONFIGURE_MEM_SLOTS as far as offered), SET_OWNER, GET_QUEUE_NUM with MQ, memory slots.
 * @param wanted virtio features the driver would use
 * @param queue_pairs wanted; -ENOSPC with `have` set if the backend has fewer
 * @param features set to what both sides have (not yet set: vu_frontend_set_features())
 */
int vu_frontend_negotiate(struct vu_frontend *f, uint64_t wanted, uint32_t queue_pairs,
	uint64_t *features, uint32_t *have);

/** SET_FEATURES; with STATUS also ACKNOWLEDGE..FEATURES_OK, and -EINVAL if that did not stick. */
int vu_frontend_set_features(struct vu_frontend *f, uint64_t features);

/** What vu_frontend_negotiate() agreed on. */
uint64_t vu_frontend_protocol_features(const struct vu_frontend *f);
/** Regions that the backend takes: 8, or what GET_MAX_MEM_SLOTS said with CONFIGURE_MEM_SLOTS. */
uint32_t vu_frontend_mem_slots(const struct vu_frontend *f);

/**
 * Show our memory, all of it; called again when it changed: with CONFIGURE_MEM_SLOTS only the
 * difference goes over the wire, else a new table. -E2BIG when there are more regions than slots
 * (nothing was sent).
 */
int vu_frontend_set_memory(struct vu_frontend *f, const struct vu_region *regions, uint32_t count);

/**
 * Configure and start ring i: NUM, BASE, ADDR, CALL (-1: polling), KICK (-1: polling), in the order
 * that strict backends accept. Enabling is apart.
 */
int vu_frontend_start_ring(struct vu_frontend *f, uint32_t i, uint32_t size, uint16_t base,
	const struct vu_ring_addr *addr, int kick, int call);

/** SET_VRING_ENABLE; does nothing (0) without PROTOCOL_FEATURES. */
int vu_frontend_enable_ring(struct vu_frontend *f, uint32_t i, bool enable);

/** With STATUS: DRIVER_OK. After the rings. */
int vu_frontend_driver_ok(struct vu_frontend *f);

/** GET_VRING_BASE: stop ring i. @param base set to the next available index of the device */
int vu_frontend_stop_ring(struct vu_frontend *f, uint32_t i, uint16_t *base);

/** NET_SET_MTU if the protocol feature was agreed on, else 0. */
int vu_frontend_set_mtu(struct vu_frontend *f, uint16_t mtu);

/** RESET_DEVICE if agreed on, else STATUS 0 if agreed on, else -ENOTSUP. */
int vu_frontend_reset(struct vu_frontend *f);

#endif
