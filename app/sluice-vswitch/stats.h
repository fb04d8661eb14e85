/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Counters of a port and the ledger over them. Every thread that counts has its own set for every
 * port, which nobody else writes; a reader adds them up. No DPDK.
 *
 * The ledger, per port and in sum: rx_packets + replicas == delivered + sum of drop_*.
 */
#ifndef STATS_H
#define STATS_H

#include <stdatomic.h>
#include <stdint.h>

#include "port_config.h"

/** Why a frame, or a copy of it, was not delivered. */
enum drop {
	DROP_NO_BUFFERS,  /**< the receiver's ring had too few */
	DROP_TOO_BIG,     /**< can never fit, or above the receiver's MTU */
	DROP_LINK_DOWN,   /**< the receiver is not there, not ready or disabled */
	DROP_NO_RECEIVER, /**< to be flooded, with nobody to get it */
	DROP_FILTERED,    /**< the destination is on the source's side, or reserved (802.1D) */
	DROP_BAD_CHAIN,   /**< malformed descriptors */
	DROP_RUNT,        /**< shorter than an Ethernet header */
	DROP_DISABLED,    /**< the source's ring is started but disabled */
	DROP_NO_MBUF,     /**< the pool of the ethdev ports was empty */
	DROP_TX_FULL,     /**< the ethdev took fewer */
	DROP_BROKEN,      /**< the receiver's ring is broken, or memory went away under the copy */
	DROPS,
};

/** Counters of a port, and their order everywhere. */
enum counter {
	COUNT_RX_PACKETS, /**< taken from the port */
	COUNT_RX_BYTES,
	COUNT_TX_PACKETS, /**< delivered to the port */
	COUNT_TX_BYTES,
	COUNT_REPLICAS,  /**< extra copies of frames taken from the port */
	COUNT_DELIVERED, /**< copies of frames taken from the port that arrived */
	COUNT_DROP,      /**< copies of frames taken from the port that did not; one a reason */
	COUNT_TODROP = COUNT_DROP + DROPS,  /**< the same drops, at the port they were meant for */
	COUNT_KICKS = COUNT_TODROP + DROPS, /**< notifications from the guest */
	COUNT_CALLS,                        /**< to the guest */
	COUNT_CALLS_SUPPRESSED,             /**< not wanted by the guest */
	COUNT_CALLS_DEFERRED,               /**< held back by coalescing */
	COUNT_PROFILE_CHANGES,              /**< times that adaptive coalescing took another one */
	COUNT_BYTES_DELIVERED,              /**< of frames that were copied to the port */
	COUNT_BYTES_COPIED,                 /**< moved for them, counted where they are moved */
	COUNT_BYTES_SNAPSHOT,               /**< copied from the port to be looked at */
	COUNTERS,
};

struct port_counters {
	_Atomic(uint64_t) value[COUNTERS];
} __attribute__((aligned(64)));

/** Name of a counter, as in telemetry, in the report and in the manual. */
const char *counter_name(enum counter c);

/** Name of a reason. */
const char *drop_name(enum drop d);

/** Count on one that only this thread writes. */
static inline void
add_own(_Atomic(uint64_t) *counter, uint64_t n)
{
	uint64_t old = atomic_load_explicit(counter, memory_order_relaxed);

	atomic_store_explicit(counter, old + n, memory_order_relaxed);
}

/** Count. Only the thread that owns the set. */
static inline void
count(struct port_counters *c, enum counter which, uint64_t n)
{
	add_own(&c->value[which], n);
}

/** Sets of all threads: sets[thread * PORTS_MAX + port]. */
struct stats {
	uint32_t threads;
	struct port_counters *sets;
};

/** @return 0 or -ENOMEM */
int stats_init(struct stats *s, uint32_t threads);
void stats_free(struct stats *s);

/** The sets of one thread, by port. */
static inline struct port_counters *
stats_of_thread(const struct stats *s, uint32_t thread)
{
	return &s->sets[(size_t)thread * PORTS_MAX];
}

/** Add to `sum` what all threads counted for a port. Any thread. */
void stats_add_port(const struct stats *s, uint32_t port, uint64_t sum[COUNTERS]);

/** rx_packets + replicas - delivered - drops, signed: 0 when the ledger adds up. */
int64_t ledger_difference(const uint64_t sum[COUNTERS]);

/** All copies of a port's frames that were dropped. */
uint64_t ledger_dropped(const uint64_t sum[COUNTERS]);

#endif
