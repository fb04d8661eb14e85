/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#include "fdb.h"
#include "flow.h"

/*
 * Two addresses a bucket of five in a full table of a power of two: one in sixty then lies in the
 * bucket behind its own.
 */
#define ADDRESSES_PER_BUCKET 2
/* Memory comes in pages of 2 MB where it can: one miss of the TLB less. */
#define HUGE_PAGE ((size_t)2 << 20)

#define MAC_BITS UINT64_C(0xffffffffffff)

struct fdb {
	struct fdb_bucket *buckets; /* mask + 1 of them */
	uint32_t mask;
	uint32_t size;
	uint64_t secret;   /* so that nobody outside can aim at one bucket */
	uint32_t age_next; /* bucket that fdb_age() goes on with */
	uint32_t port_entries[PORTS_MAX];
	struct fdb_counters counters;
};

static uint64_t
word_of(uint64_t mac, uint32_t port)
{
	return mac | (uint64_t)(port + 1) << 48;
}

static inline uint32_t
home(const struct fdb *f, uint64_t mac)
{
	return (uint32_t)mix64(mac ^ f->secret) & f->mask;
}

static struct fdb_bucket *
make_buckets(size_t n)
{
	size_t bytes = n * sizeof(struct fdb_bucket);
	size_t align = bytes < HUGE_PAGE ? sizeof(struct fdb_bucket) : HUGE_PAGE;
	struct fdb_bucket *b = aligned_alloc(align, (bytes + align - 1) & ~(align - 1));

	if (b == NULL)
		return NULL;
	(void)madvise(b, bytes, MADV_HUGEPAGE);
	/* Here and now, not under a worker. */
	memset(b, 0, bytes);
	return b;
}

struct fdb *
fdb_create(uint32_t size)
{
	struct fdb *f = calloc(1, sizeof(*f));
	uint32_t buckets = 1;

	if (f == NULL)
		return NULL;
	while (buckets * ADDRESSES_PER_BUCKET < size)
		buckets *= 2;
	f->size = size;
	f->mask = buckets - 1;
	f->buckets = make_buckets(buckets);
	if (f->buckets == NULL ||
		getrandom(&f->secret, sizeof(f->secret), 0) != sizeof(f->secret)) {
		fdb_free(f);
		return NULL;
	}
	return f;
}

void
fdb_free(struct fdb *f)
{
	if (f == NULL)
		return;
	free(f->buckets);
	free(f);
}

/* Where is an address that belongs into bucket `at`? Those that did not fit there are behind. */
static inline struct fdb_entry *
find(const struct fdb *f, uint64_t mac, uint32_t at)
{
	uint32_t left;

	for (left = f->mask + 1; left != 0; left--) {
		struct fdb_bucket *b = &f->buckets[at];
		uint32_t i;

		for (i = 0; i < FDB_WAYS; i++)
			if (fdb_port(&b->entries[i], mac) != FDB_UNKNOWN)
				return &b->entries[i];
		if (atomic_load_explicit(&b->passed, memory_order_relaxed) == 0)
			break;
		at = (at + 1) & f->mask;
	}
	return NULL;
}

void
fdb_lookup(const struct fdb *f, const uint64_t *macs, uint32_t n, struct fdb_entry **found)
{
	uint32_t at[FDB_BULK_MAX];
	uint32_t i;

	for (i = 0; i < n; i++) {
		at[i] = home(f, macs[i]);
		__builtin_prefetch(&f->buckets[at[i]]);
	}
	for (i = 0; i < n; i++)
		found[i] = find(f, macs[i], at[i]);
}

static void
add(_Atomic(uint64_t) *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void
move(struct fdb *f, struct fdb_entry *e, uint64_t mac, uint32_t port)
{
	uint32_t old = fdb_port(e, mac);

	if (old == port)
		return;
	f->port_entries[old]--;
	f->port_entries[port]++;
	atomic_store_explicit(&e->word, word_of(mac, port), memory_order_relaxed);
	add(&f->counters.moved, 1);
}

/* The first free place from the address's own bucket on; there is one: the table has twice as many.
 */
static struct fdb_entry *
take_place(struct fdb *f, uint64_t mac)
{
	uint32_t at = home(f, mac);

	for (;;) {
		struct fdb_bucket *b = &f->buckets[at];
		uint32_t i;

		for (i = 0; i < FDB_WAYS; i++)
			if (atomic_load_explicit(&b->entries[i].word, memory_order_relaxed) == 0)
				return &b->entries[i];
		/* Before it can be found behind here: nobody must stop looking too early. */
		atomic_fetch_add_explicit(&b->passed, 1, memory_order_relaxed);
		at = (at + 1) & f->mask;
	}
}

int
fdb_learn(struct fdb *f, uint64_t mac, uint8_t port, uint32_t second)
{
	struct fdb_entry *e = find(f, mac, home(f, mac));

	if (e != NULL) {
		move(f, e, mac, port);
		fdb_touch(e, second);
		return 0;
	}
	/* Addresses that moved here may have brought it above its share. */
	if (atomic_load_explicit(&f->counters.entries, memory_order_relaxed) >= f->size ||
		f->port_entries[port] >= fdb_port_max(f)) {
		add(&f->counters.full, 1);
		return -ENOSPC;
	}
	e = take_place(f, mac);
	fdb_touch(e, second);
	atomic_store_explicit(&e->word, word_of(mac, port), memory_order_release);
	f->port_entries[port]++;
	add(&f->counters.learned, 1);
	add(&f->counters.entries, 1);
	return 0;
}

/* Whoever found it a moment ago still sends to its port, once; nothing has to wait for that. */
static void
forget(struct fdb *f, struct fdb_entry *e, uint32_t bucket)
{
	uint64_t word = atomic_load_explicit(&e->word, memory_order_relaxed);
	uint32_t at = home(f, word & MAC_BITS);

	atomic_store_explicit(&e->word, 0, memory_order_relaxed);
	for (; at != bucket; at = (at + 1) & f->mask)
		atomic_fetch_sub_explicit(&f->buckets[at].passed, 1, memory_order_relaxed);
	f->port_entries[(word >> 48) - 1]--;
	atomic_fetch_sub_explicit(&f->counters.entries, 1, memory_order_relaxed);
	add(&f->counters.aged, 1);
}

void
fdb_age(struct fdb *f, uint32_t second, uint32_t age)
{
	const uint32_t buckets = f->mask + 1;
	uint32_t left = (buckets + FDB_AGE_STEPS - 1) / FDB_AGE_STEPS;
	uint32_t i;

	for (; left != 0; left--, f->age_next = (f->age_next + 1) & f->mask) {
		struct fdb_bucket *b = &f->buckets[f->age_next];

		for (i = 0; i < FDB_WAYS; i++) {
			uint32_t idle =
				second - atomic_load_explicit(&b->seen[i], memory_order_relaxed);

			if (atomic_load_explicit(&b->entries[i].word, memory_order_relaxed) == 0)
				continue;
			/* A worker may be a second ahead of us: then it wraps, and is not old. */
			if ((int32_t)idle > (int32_t)age)
				forget(f, &b->entries[i], f->age_next);
		}
	}
}

const struct fdb_counters *
fdb_counters(const struct fdb *f)
{
	return &f->counters;
}

uint32_t
fdb_size(const struct fdb *f)
{
	return f->size;
}

uint32_t
fdb_port_max(const struct fdb *f)
{
	return (f->size + 1) / 2;
}

uint32_t
fdb_places(const struct fdb *f)
{
	return (f->mask + 1) * FDB_WAYS;
}

bool
fdb_show(const struct fdb *f, uint32_t i, struct fdb_shown *shown)
{
	const struct fdb_bucket *b = &f->buckets[i / FDB_WAYS];
	uint64_t word = atomic_load_explicit(&b->entries[i % FDB_WAYS].word, memory_order_acquire);

	if (word == 0)
		return false;
	shown->mac = word & MAC_BITS;
	shown->port = (uint32_t)(word >> 48) - 1;
	shown->seen = atomic_load_explicit(&b->seen[i % FDB_WAYS], memory_order_relaxed);
	return true;
}
