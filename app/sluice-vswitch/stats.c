/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>

#include "stats.h"

#define DROP_NAMES(X)                                                                              \
	X(DROP_NO_BUFFERS, "no_buffers")                                                           \
	X(DROP_TOO_BIG, "too_big")                                                                 \
	X(DROP_LINK_DOWN, "link_down")                                                             \
	X(DROP_NO_RECEIVER, "no_receiver")                                                         \
	X(DROP_FILTERED, "filtered")                                                               \
	X(DROP_BAD_CHAIN, "bad_chain")                                                             \
	X(DROP_RUNT, "runt")                                                                       \
	X(DROP_DISABLED, "disabled")                                                               \
	X(DROP_NO_MBUF, "no_mbuf")                                                                 \
	X(DROP_TX_FULL, "tx_full")                                                                 \
	X(DROP_BROKEN, "broken")

#define PLAIN(d, name)     [d] = name,
#define FROM_PORT(d, name) [COUNT_DROP + (d)] = "drop_" name,
#define TO_PORT(d, name)   [COUNT_TODROP + (d)] = "todrop_" name,

static const char *const drop_names[DROPS] = {DROP_NAMES(PLAIN)};

static const char *const counter_names[COUNTERS] = {
	[COUNT_RX_PACKETS] = "rx_packets",
	[COUNT_RX_BYTES] = "rx_bytes",
	[COUNT_TX_PACKETS] = "tx_packets",
	[COUNT_TX_BYTES] = "tx_bytes",
	[COUNT_REPLICAS] = "replicas",
	[COUNT_DELIVERED] = "delivered",
	DROP_NAMES(FROM_PORT) DROP_NAMES(TO_PORT)[COUNT_KICKS] = "kicks",
	[COUNT_CALLS] = "calls",
	[COUNT_CALLS_SUPPRESSED] = "calls_suppressed",
	[COUNT_CALLS_DEFERRED] = "calls_deferred",
	[COUNT_PROFILE_CHANGES] = "profile_changes",
	[COUNT_BYTES_DELIVERED] = "bytes_delivered",
	[COUNT_BYTES_COPIED] = "bytes_copied",
	[COUNT_BYTES_SNAPSHOT] = "bytes_snapshot",
};

const char *
counter_name(enum counter c)
{
	return counter_names[c];
}

const char *
drop_name(enum drop d)
{
	return drop_names[d];
}

int
stats_init(struct stats *s, uint32_t threads)
{
	size_t size = (size_t)threads * PORTS_MAX * sizeof(*s->sets);

	s->threads = threads;
	s->sets = aligned_alloc(_Alignof(struct port_counters), size);
	if (s->sets == NULL)
		return -ENOMEM;
	memset(s->sets, 0, size);
	return 0;
}

void
stats_free(struct stats *s)
{
	free(s->sets);
	s->sets = NULL;
}

void
stats_add_port(const struct stats *s, uint32_t port, uint64_t sum[COUNTERS])
{
	uint32_t thread, i;

	for (thread = 0; thread < s->threads; thread++) {
		struct port_counters *set = &stats_of_thread(s, thread)[port];

		for (i = 0; i < COUNTERS; i++)
			sum[i] += atomic_load_explicit(&set->value[i], memory_order_relaxed);
	}
}

uint64_t
ledger_dropped(const uint64_t sum[COUNTERS])
{
	uint64_t dropped = 0;
	uint32_t d;

	for (d = 0; d < DROPS; d++)
		dropped += sum[COUNT_DROP + d];
	return dropped;
}

int64_t
ledger_difference(const uint64_t sum[COUNTERS])
{
	return (int64_t)(sum[COUNT_RX_PACKETS] + sum[COUNT_REPLICAS] - sum[COUNT_DELIVERED] -
			 ledger_dropped(sum));
}
