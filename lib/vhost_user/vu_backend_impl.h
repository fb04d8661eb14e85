/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Inside the backend: what its files share. vu_backend.c has the connection, vu_backend_msg.c the
 * messages, vu_backend_mem.c the frontend's memory, vu_backend_ring.c the rings.
 */
#ifndef VU_BACKEND_IMPL_H
#define VU_BACKEND_IMPL_H

#include <sys/types.h>

#include "vu_backend.h"
#include "vu_codec.h"

/** Memory slots offered with CONFIGURE_MEM_SLOTS: as many as the kernel's vhost has. */
#define VU_MEM_SLOTS 509

/** A region of the frontend's memory, mapped; shared by the tables that have it. */
struct vu_mapping {
	uint32_t refs;
	struct vu_wire_region wire;
	dev_t dev; /* of its file: the same table sent again is known by it */
	ino_t ino;
	uint8_t *host; /* where the region starts */
	uint8_t *map;  /* what was mapped: the blocks that the region touches */
	size_t map_len;
};

/** The frontend's memory. All zero: none. */
struct vu_memory {
	struct vu_mapping **maps;
	uint32_t count;
	struct vq_mem *vq; /* by guest address, for rings */
};

struct vu_backend {
	struct vu_backend_config config;
	const struct vu_backend_ops *ops;
	void *priv;

	/* The socket. */
	int epoll;
	int listen; /* -1 in client mode */
	int timer;
	int conn; /* -1: no frontend */
	uint32_t conn_events;
	uint32_t retry_ms;
	int last_error; /* of the last attempt to connect or accept: logged when it changes */
	struct vu_rx rx;
	struct vu_tx tx;

	/* What the frontend has set. */
	uint64_t features; /* with PROTOCOL_FEATURES */
	bool features_set;
	uint64_t protocol_features;
	uint8_t status;
	uint16_t mtu;
	struct vu_memory memory;
	struct vu_memory retired; /* the one before, until rings have left it */
	struct vu_ring rings[VU_RINGS_MAX];

	/* Our own book-keeping. */
	bool quiesced;        /* ops->update() is due */
	bool busy;            /* inside vu_backend_process() */
	bool disconnect;      /* asked for while busy */
	bool told;            /* of a change in place, in this turn: its owner waited for workers */
	char reason[160];     /* why the last frontend went */
	uint32_t log_tokens;  /* lines that may be logged now */
	uint32_t log_dropped; /* lines that were not */
	uint64_t log_ms;
	struct vu_backend_stats stats;
};

/** Before anything changes that workers may see; ops->update() follows when the turn is over. */
void vu_backend_touch(struct vu_backend *b);

/** One line, rate-limited. Levels as in vu_backend_ops. */
void vu_backend_log(struct vu_backend *b, int level, const char *format, ...)
	__attribute__((format(printf, 3, 4)));

/**
 * Handle a whole message; an answer goes into b->tx, which has room for one.
 * @return 0 (also when the message was refused), or a negative errno: drop the frontend
 */
int vu_backend_message(struct vu_backend *b, struct vu_msg *msg);

/* Memory. Each of these either succeeds or changes nothing; the descriptors stay the caller's. */

/** Make this the whole memory. A table that is the one we have changes nothing at all. */
int vu_memory_set(
	struct vu_backend *b, const struct vu_wire_region *regions, uint32_t count, const int *fds);
/** Add a region. -E2BIG when all slots are taken. */
int vu_memory_add(struct vu_backend *b, const struct vu_wire_region *region, int fd);
/** Remove the region with this guest address, user address and size, or -ENOENT. */
int vu_memory_remove(struct vu_backend *b, const struct vu_wire_region *region);
/** Unmap all. No ring may be ready. */
void vu_memory_clear(struct vu_backend *b);
/** Host address of `len` bytes at an address of the frontend's process, or NULL. */
void *vu_memory_user(const struct vu_memory *m, uint64_t user, uint64_t len);

/* Rings. */

/** All as they are when a frontend connects. */
void vu_rings_init(struct vu_backend *b);
/** A message has changed something: start, stop or re-point ring i as it now stands. */
void vu_ring_settle(struct vu_backend *b, uint32_t i);
/** The same for all. */
void vu_rings_settle(struct vu_backend *b);
/** Is any ring running? */
bool vu_rings_running(const struct vu_backend *b);
/** Would these areas be in the memory that is mapped? */
bool vu_ring_mapped(const struct vu_backend *b, const struct vu_ring *r);
/** Stop: `base` becomes the next available index. The call descriptor is kept. */
void vu_ring_stop(struct vu_ring *r);
/** Stop all and forget what the driver set; memory, call descriptors and connection stay. */
void vu_rings_reset(struct vu_backend *b);
/** Stop all and close all descriptors. */
void vu_rings_close(struct vu_backend *b);
/** Put a descriptor (or -1) in the place of another, which is closed. */
void vu_ring_put_fd(int *place, int fd);

#endif
