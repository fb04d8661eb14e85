/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <sys/random.h>

#include <rte_hash.h>

#include "fdb.h"
#include "flow.h"

/* Removed in one go, with one wait for the workers. */
#define REMOVE_BATCH 256

struct fdb {
	struct rte_hash *hash; /* address -> entry */
	struct view_domain *domain;
	uint64_t secret; /* so that nobody outside can aim at one bucket */
	struct fdb_counters counters;
	uint32_t port_entries[PORTS_MAX];
	uint32_t nfree;
	uint32_t free[FDB_SIZE];
	struct fdb_entry entries[FDB_SIZE];
};

static int
compare(const void *a, const void *b, size_t len)
{
	RTE_SET_USED(len);
	return *(const uint64_t *)a != *(const uint64_t *)b;
}

static hash_sig_t
signature(const struct fdb *f, uint64_t mac)
{
	return (hash_sig_t)mix64(mac ^ f->secret);
}

struct fdb *
fdb_create(struct view_domain *d)
{
	const struct rte_hash_parameters params = {
		.name = "sluice_fdb",
		/* Twice, so that no bucket runs full before the table does. */
		.entries = 2 * FDB_SIZE,
		.key_len = sizeof(uint64_t),
		.socket_id = SOCKET_ID_ANY,
		.extra_flag = RTE_HASH_EXTRA_FLAGS_RW_CONCURRENCY_LF,
	};
	struct fdb *f = calloc(1, sizeof(*f));
	uint32_t i;

	if (f == NULL)
		return NULL;
	f->hash = rte_hash_create(&params);
	if (f->hash == NULL || getrandom(&f->secret, sizeof(f->secret), 0) != sizeof(f->secret)) {
		fdb_free(f);
		return NULL;
	}
	rte_hash_set_cmp_func(f->hash, compare);
	f->domain = d;
	for (i = 0; i < FDB_SIZE; i++)
		f->free[f->nfree++] = FDB_SIZE - 1 - i;
	return f;
}

void
fdb_free(struct fdb *f)
{
	if (f == NULL)
		return;
	rte_hash_free(f->hash);
	free(f);
}

void
fdb_lookup(const struct fdb *f, const uint64_t *macs, uint32_t n, struct fdb_entry **found)
{
	const void *keys[FDB_BULK_MAX];
	hash_sig_t signatures[FDB_BULK_MAX];
	void *data[FDB_BULK_MAX];
	uint64_t hits = 0;
	uint32_t i;

	for (i = 0; i < n; i++) {
		keys[i] = &macs[i];
		signatures[i] = signature(f, macs[i]);
	}
	(void)rte_hash_lookup_with_hash_bulk_data(f->hash, keys, signatures, n, &hits, data);
	for (i = 0; i < n; i++)
		found[i] = hits >> i & 1 ? data[i] : NULL;
}

static void
add(_Atomic(uint64_t) *counter, uint64_t n)
{
	atomic_fetch_add_explicit(counter, n, memory_order_relaxed);
}

static void
move(struct fdb *f, struct fdb_entry *e, uint8_t port)
{
	uint8_t old = atomic_load_explicit(&e->port, memory_order_relaxed);

	if (old == port)
		return;
	f->port_entries[old]--;
	f->port_entries[port]++;
	atomic_store_explicit(&e->port, port, memory_order_relaxed);
	add(&f->counters.moved, 1);
}

int
fdb_learn(struct fdb *f, uint64_t mac, uint8_t port, uint32_t second)
{
	struct fdb_entry *e;

	fdb_lookup(f, &mac, 1, &e);
	if (e != NULL) {
		move(f, e, port);
		fdb_touch(e, second);
		return 0;
	}
	/* Addresses that moved here may have brought it above its share. */
	if (f->nfree == 0 || f->port_entries[port] >= FDB_PORT_MAX) {
		add(&f->counters.full, 1);
		return -ENOSPC;
	}
	/* Complete before the hash makes it visible. */
	e = &f->entries[f->free[f->nfree - 1]];
	atomic_store_explicit(&e->mac, mac, memory_order_relaxed);
	atomic_store_explicit(&e->port, port, memory_order_relaxed);
	atomic_store_explicit(&e->seen, second, memory_order_relaxed);
	if (rte_hash_add_key_with_hash_data(f->hash, &mac, signature(f, mac), e) != 0) {
		add(&f->counters.full, 1);
		return -ENOSPC;
	}
	f->nfree--;
	f->port_entries[port]++;
	atomic_store_explicit(&e->used, true, memory_order_release);
	add(&f->counters.learned, 1);
	add(&f->counters.entries, 1);
	return 0;
}

/* Take entries out, wait until no worker can have found them, make their places free. */
static void
remove_batch(struct fdb *f, const uint32_t *which, uint32_t n)
{
	int32_t positions[REMOVE_BATCH];
	uint32_t i;

	for (i = 0; i < n; i++) {
		struct fdb_entry *e = &f->entries[which[i]];
		uint64_t mac = atomic_load_explicit(&e->mac, memory_order_relaxed);

		atomic_store_explicit(&e->used, false, memory_order_relaxed);
		positions[i] = rte_hash_del_key_with_hash(f->hash, &mac, signature(f, mac));
	}
	view_synchronize(f->domain);
	for (i = 0; i < n; i++) {
		struct fdb_entry *e = &f->entries[which[i]];

		if (positions[i] >= 0)
			(void)rte_hash_free_key_with_position(f->hash, positions[i]);
		f->port_entries[atomic_load_explicit(&e->port, memory_order_relaxed)]--;
		f->free[f->nfree++] = which[i];
	}
	atomic_fetch_sub_explicit(&f->counters.entries, n, memory_order_relaxed);
}

void
fdb_age(struct fdb *f, uint32_t second, uint32_t age)
{
	uint32_t old[REMOVE_BATCH];
	uint32_t n = 0, i;

	for (i = 0; i < FDB_SIZE; i++) {
		struct fdb_entry *e = &f->entries[i];
		uint32_t idle;

		if (!atomic_load_explicit(&e->used, memory_order_relaxed))
			continue;
		idle = second - atomic_load_explicit(&e->seen, memory_order_relaxed);
		/* A worker may be a second ahead of us: then it wraps, and is not old. */
		if ((int32_t)idle <= (int32_t)age)
			continue;
		old[n++] = i;
		if (n == REMOVE_BATCH) {
			remove_batch(f, old, n);
			add(&f->counters.aged, n);
			n = 0;
		}
	}
	if (n != 0) {
		remove_batch(f, old, n);
		add(&f->counters.aged, n);
	}
}

const struct fdb_counters *
fdb_counters(const struct fdb *f)
{
	return &f->counters;
}

const struct fdb_entry *
fdb_at(const struct fdb *f, uint32_t i)
{
	return &f->entries[i];
}
