/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The forwarding table: which port an address was last heard from (802.1D, learning and ageing).
 *
 * A hash table of buckets that are a cache line each: an address is found with one miss, and all
 * that is known of it lies there. Workers look up without a lock and refresh the time; only the
 * control thread adds, moves and removes, each by one store. What a worker has found stays memory
 * of the table for ever, so it may keep it: fdb_port() says whether it is that address still.
 */
#ifndef FDB_H
#define FDB_H

#include <stdatomic.h>
#include <stdint.h>

#include "config.h"

/** Addresses in one lookup at most. */
#define FDB_BULK_MAX 64
/** No port: the address is not known. */
#define FDB_UNKNOWN UINT32_MAX

/** Places in a bucket. */
#define FDB_WAYS 5

/** An address with its port, in one word: mac | (port + 1) << 48; 0: free. */
struct fdb_entry {
	_Atomic(uint64_t) word;
};

struct fdb_bucket {
	struct fdb_entry entries[FDB_WAYS];
	_Atomic(uint32_t) seen[FDB_WAYS]; /**< second of the last frame from it */
	/** Addresses that belong here or before and had to go further on. */
	_Atomic(uint32_t) passed;
} __attribute__((aligned(64)));

_Static_assert(sizeof(struct fdb_bucket) == 64, "a bucket is a cache line");

struct fdb;

/**
 * @param size addresses at most, 1..ADDRESSES_MAX; one port may hold half of them, so that none can
 *   push out all others
 * @return NULL without memory
 */
struct fdb *fdb_create(uint32_t size);
void fdb_free(struct fdb *f);

/** Look up n <= FDB_BULK_MAX addresses; found[i] is NULL where nothing is known. Any thread. */
void fdb_lookup(const struct fdb *f, const uint64_t *macs, uint32_t n, struct fdb_entry **found);

/** The port of an address that was found at `e` once; FDB_UNKNOWN: look it up again. Any thread. */
static inline uint32_t
fdb_port(const struct fdb_entry *e, uint64_t mac)
{
	uint64_t word = atomic_load_explicit(&e->word, memory_order_relaxed) ^ mac;

	return word << 16 == 0 && word != 0 ? (uint32_t)(word >> 48) - 1 : FDB_UNKNOWN;
}

/** The second in which an entry was last touched. */
static inline _Atomic(uint32_t) *
fdb_seen(const struct fdb_entry *e)
{
	uintptr_t at = (uintptr_t)e;
	struct fdb_bucket *b = (struct fdb_bucket *)(at & ~(sizeof(*b) - 1));

	return &b->seen[at % sizeof(*b) / sizeof(*e)];
}

/** An address was heard from. Any thread; if it was removed meanwhile, that does no harm. */
static inline void
fdb_touch(struct fdb_entry *e, uint32_t second)
{
	_Atomic(uint32_t) *seen = fdb_seen(e);

	if (atomic_load_explicit(seen, memory_order_relaxed) != second)
		atomic_store_explicit(seen, second, memory_order_relaxed);
}

/**
 * Add an address or move it to another port. Control thread.
 * @return 0, or -ENOSPC (counted): it goes on to be flooded
 */
int fdb_learn(struct fdb *f, uint64_t mac, uint8_t port, uint32_t second);

/** Calls of fdb_age() that it takes to look at every address once. */
#define FDB_AGE_STEPS 10

/**
 * Forget what was heard longer than `age` seconds before `second`, in the next part of the table: a
 * table of millions takes milliseconds. Control thread.
 */
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

/** As in fdb_create(), and of one port. Any thread. */
uint32_t fdb_size(const struct fdb *f);
uint32_t fdb_port_max(const struct fdb *f);

/** Places of the table, used or not. */
uint32_t fdb_places(const struct fdb *f);

/** What is at place i, to show. @return false: nothing. Any thread. */
struct fdb_shown {
	uint64_t mac;
	uint32_t port;
	uint32_t seen;
};
bool fdb_show(const struct fdb *f, uint32_t i, struct fdb_shown *shown);

#endif
