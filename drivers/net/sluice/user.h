/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Container mode: a vhost-user backend behind a Unix socket.
 *
 * The control thread keeps the connection: it notices when the backend goes, looks for it
 * (as client, with growing pauses) or waits for it (as server), and brings the rings up again.
 */
#ifndef SLUICE_USER_H
#define SLUICE_USER_H

#include "sluice.h"
#include "vu_frontend.h"

/** Bound on every wait for the backend: one attempt, stop or change, whatever its messages. */
#define USER_TIMEOUT_MS 3000
/** Regions that are kept of the application's memory; the backend may take fewer. */
#define USER_REGIONS_MAX 512

struct user_memory {
	uint32_t count; /* found; may be more than are kept */
	int err;        /* why memory cannot be shared at all; 0 */
	struct vu_region regions[USER_REGIONS_MAX];
};

struct user_conn {
	struct sluice_dev *dev;
	struct vu_socket_config socket;
	char event_name[32]; /* of the memory event callback; "": not registered */

	/* Under dev->lock. */
	int listen;             /* -1: client */
	struct vu_frontend *fe; /* NULL: no connection */
	bool lost;              /* the backend lacks memory of ours: give it up */
	bool agreed;            /* features and memory have gone over this connection */
	uint64_t features;      /* the agreed ones */
	uint32_t pairs;         /* that the backend has */
	uint32_t pause_ms;      /* between attempts, growing */
	uint64_t next_ms;       /* time of the next one */
	uint64_t up_ms;         /* time of the last success */
	uint64_t idle_ms;       /* time to look for idle queues again */
	char said[sizeof(((struct sluice_dev *)0)->why)]; /* last failure in the log: not twice */
	struct user_memory memory;
	struct user_memory before; /* the change under way */
};

static inline struct user_conn *
user_conn_of(const struct sluice_dev *dev)
{
	return dev->transport_priv;
}

/* user_connect.c */
/** Make the connection's state and the control thread, and listen (as server). 0 or errno, logged.
 */
int user_conn_create(struct sluice_dev *dev);
/** Also from the control thread itself, in a link callback. */
void user_conn_destroy(struct sluice_dev *dev);
int user_conn_prepare_wait(struct sluice_dev *dev, struct pollfd *fd);
uint32_t user_conn_turn(struct sluice_dev *dev);
/** Under the lock: connect if the backend is there, bring the device up. @return as sluice_up() */
int user_conn_try(struct sluice_dev *dev);
/** Under the lock: close the connection. */
void user_conn_drop(struct user_conn *conn);

/* user_transport.c */
extern const struct sluice_transport user_transport;

/* user_intr.c */
int user_rx_intr_start(struct sluice_dev *dev);
void user_rx_intr_stop(struct sluice_dev *dev);

/* user_memory.c */
/** Take stock of DPDK's memory, and follow it from now on. 0 or errno, logged. */
int user_memory_start(struct user_conn *conn);
void user_memory_stop(struct user_conn *conn);
/** Under the lock: show the memory to the backend. 0, or an errno with dev->why. */
int user_memory_show(struct user_conn *conn);

#endif
