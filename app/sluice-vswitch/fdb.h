/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The forwarding table: which port an address was last heard from (802.1D, learning and ageing).
 * Workers look up without a lock and refresh the time; only the control thread adds and removes.
 */
#ifndef FDB_H
#define FDB_H

#include <stdatomic.h>
#include <stdint.h>

#include "view.h"

/** Addresses at most; one port may hold half of them, so that none can push out all others. */
#define FDB_SIZE     16384
#define FDB_PORT_MAX (FDB_SIZE / 2)
/** Addresses in one lookup at most. */
#define FDB_BULK_MAX 64

struct fdb_entry {
	_Atomic(uint64_t) mac;
	_Atomic(uint32_t) seen; /**< second of the last frame from it */
	_Atomic(uint8_t) port;
	_Atomic(bool) used; /**< for those who walk the table instead of looking up */
};

struct fdb;

/** @param d whose workers read it. @return NULL without memory */
struct fdb *fdb_create(struct view_domain *d);
void fdb_free(struct fdb *f);

/** Look up n <= FDB_BULK_MAX addresses; found[i] is NULL where nothing is known. Worker. */
void fdb_lookup(const struct fdb *f, const uint64_t *macs, uint32_t n, struct fdb_entry **found);

/** An address was heard from. Any thread. */
static inline void
fdb_touch(struct fdb_entry *e, uint32_t second)
{
	if (atomic_load_explicit(&e->seen, memory_order_relaxed) != second)
		atomic_store_explicit(&e->seen, second, memory_order_relaxed);
}

/**
 * Add an address or move it to another port. Control thread.
 * @return 0, or -ENOSPC (counted): it goes on to be flooded
 */
int fdb_learn(struct fdb *f, uint64_t mac, uint8_t port, uint32_t second);

/** Forget what was heard longer than `age` seconds before `second`. Control thread. */
void fdb_age(struct fdb *f, uint32_t second, uint32_t age);

struct fdb_counters {
	_Atomic(uint64_t) entries;
	_Atomic(uint64_t) learned;
	_Atomic(uint64_t) moved;
	_Atomic(uint64_t) aged;
	_Atomic(uint64_t) full; /**< addresses that found no room */
};

/** Any thread. */
const struct fdb_counters *fdb_counters(const struct fdb *f);

/** Entry i, 0..FDB_SIZE-1, whether used or not. Any thread, to show. */
const struct fdb_entry *fdb_at(const struct fdb *f, uint32_t i);

#endif
