/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The backend of vhost-user: the side that has the device. One struct vu_backend per socket path;
 * it listens or connects, serves one frontend at a time, maps its memory and keeps its rings ready
 * for the data path of the caller.
 *
 * All functions are called from one control thread and none of them blocks: bytes are taken as they
 * come, a message is handled when it is whole, answers that the socket does not take are kept (a
 * bounded number). Workers touch only what they reach through a ring's `vq`, and only between
 * ops->update() and the next ops->quiesce().
 */
#ifndef VU_BACKEND_H
#define VU_BACKEND_H

#include <stdbool.h>
#include <stdint.h>

#include "vq_device.h"
#include "vu_socket.h"

/** Rings a backend takes at most: 16 queue pairs. */
#define VU_RINGS_MAX 32

struct vu_backend;

/** A ring, readable by the control thread at any time, by workers while it is published. */
struct vu_ring {
	struct vq_device vq; /**< valid while `ready` */
	int kick;            /**< -1: none, then poll */
	/**
	 * -1: none, then never call. The backend's own descriptor, closed as soon as another comes:
	 * workers that go on over call_changed() use a duplicate.
	 */
	int call;
	int err; /**< -1: none */
	/**
	 * Features, size and addresses set, the addresses mapped, kicked and not stopped. DRIVER_OK
	 * is not waited for (stock frontends enable rings before it), nor is `enabled`.
	 */
	bool ready;
	bool enabled; /**< SET_VRING_ENABLE; always true without PROTOCOL_FEATURES */
	/* Set by messages; private to the backend. */
	bool kicked; /* SET_VRING_KICK came since the last stop */
	uint32_t size;
	uint16_t base;
	uint64_t desc_addr, avail_addr, used_addr; /* as the frontend addresses them */
	bool addr_set;
};

/** Called by the backend, on the control thread, from inside vu_backend_*(). */
struct vu_backend_ops {
	/**
	 * The rings and the memory of this backend are about to change. On return no worker touches
	 * any of them, nor will before the next update().
	 */
	void (*quiesce)(void *priv);
	/** A change is complete: look at vu_backend_ring() and vu_backend_state() again. */
	void (*update)(void *priv);
	/**
	 * Ring `i`, which is ready, has another call descriptor, and goes on: a driver that masks
	 * its interrupts does this all the time. The old one is closed already: only for callers
	 * whose workers write to a duplicate of their own. NULL: quiesce() and update() instead.
	 */
	void (*call_changed)(void *priv, uint32_t i);
	/** vu_backend_mtu() has changed, and rings go on. NULL: quiesce() and update() instead. */
	void (*mtu_changed)(void *priv);
	/** One line about this peer, rate-limited. `level`: 0 error, 1 warning, 2 information. */
	void (*log)(void *priv, int level, const char *text);
};

struct vu_backend_config {
	struct vu_socket_config socket; /**< path, server or client, owner, group, mode */
	uint64_t features;              /**< virtio features offered (PROTOCOL_FEATURES is added) */
	uint32_t queue_pairs;           /**< 1..VU_RINGS_MAX / 2 */
	uint16_t mtu; /**< offered as VIRTIO_NET_F_MTU's upper bound for NET_SET_MTU; 0: any */
};

enum vu_backend_state {
	VU_BACKEND_DOWN,      /**< no frontend */
	VU_BACKEND_CONNECTED, /**< a frontend talks to us */
	VU_BACKEND_UP,        /**< and at least its first queue pair is ready */
};

/**
 * Make a backend. In server mode the socket listens on return.
 * @param error on failure one line that names the thing and the remedy
 * @return 0 or a negative errno (-EADDRINUSE: a live process listens there)
 */
int vu_backend_create(const struct vu_backend_config *config, const struct vu_backend_ops *ops,
	void *priv, struct vu_backend **out, char *error, size_t error_len);

/** Quiesce, drop the frontend, close everything and remove the socket that we made. */
void vu_backend_destroy(struct vu_backend *b);

/**
 * The one descriptor to watch (level-triggered, for reading): an epoll descriptor that covers the
 * listening socket, the connection in both directions, timers (reconnect) and nothing of the data
 * path. Valid as long as the backend.
 */
int vu_backend_fd(const struct vu_backend *b);

/**
 * Do what can be done now, a bounded amount. Call when vu_backend_fd() is readable.
 *
 * To start a ring is to read it, and if the frontend has cut its file that read is a SIGBUS. A
 * caller that jumps out of here from its handler then calls vu_backend_disconnect(); nothing is
 * lost.
 */
void vu_backend_process(struct vu_backend *b);

/**
 * Drop the frontend (a client reconnects later, a server waits for the next one). From a callback
 * it goes at the end of the turn. After a jump as above it goes in the next turn of
 * vu_backend_process(), for which vu_backend_fd() then is readable; until then workers stay away.
 */
void vu_backend_disconnect(struct vu_backend *b, const char *why);

enum vu_backend_state vu_backend_state(const struct vu_backend *b);
/** Ring i, 0..vu_backend_rings()-1. Even: the guest receives from it. */
struct vu_ring *vu_backend_ring(struct vu_backend *b, uint32_t i);
/** Rings that may exist: twice the queue pairs offered. */
uint32_t vu_backend_rings(const struct vu_backend *b);
/** Virtio features the frontend set (without PROTOCOL_FEATURES), and the protocol features. */
uint64_t vu_backend_features(const struct vu_backend *b);
uint64_t vu_backend_protocol_features(const struct vu_backend *b);
/** MTU that the frontend set with NET_SET_MTU; 0: none. */
uint16_t vu_backend_mtu(const struct vu_backend *b);
/** Why the last frontend went, for a log line; "" if none did. */
const char *vu_backend_reason(const struct vu_backend *b);

/** Counted since creation. */
struct vu_backend_stats {
	uint64_t connects;
	uint64_t disconnects;
	uint64_t messages;
	uint64_t bad_messages; /**< that made us drop the frontend or answer with an error */
};
const struct vu_backend_stats *vu_backend_stats(const struct vu_backend *b);

#endif
