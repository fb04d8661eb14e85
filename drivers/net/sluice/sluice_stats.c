/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stddef.h>
#include <stdio.h>

#include "sluice.h"

/*
 * Counters only grow and each has one writer, the queue's burst function (or control, with the gate
 * closed). Clearing remembers where they stood instead of writing them, so that a burst under way
 * loses nothing and nothing underflows. The low-water mark is no counter: it starts again from the
 * full ring.
 *
 * A transmitted packet is counted when it is accepted, once: as good_packets or as too_many_segs.
 * What the backend took with it when it went is told by reset_drops, a part of good_packets: nobody
 * knows whether those were delivered.
 */

struct counter {
	const char *name;
	size_t value, cleared; /* offsets in the queue; the same for a gauge */
};

#define RX(field)                                                                                  \
	{                                                                                          \
#field, offsetof(struct sluice_rxq, stats.field),                                  \
			offsetof(struct sluice_rxq, cleared.field)                                 \
	}
#define TX(field)                                                                                  \
	{                                                                                          \
#field, offsetof(struct sluice_txq, stats.field),                                  \
			offsetof(struct sluice_txq, cleared.field)                                 \
	}
#define RING(field)                                                                                \
	{                                                                                          \
#field, offsetof(struct sluice_ring, stats.field),                                 \
			offsetof(struct sluice_ring, cleared.field)                                \
	}
#define NAMED(text, type, field)                                                                   \
	{                                                                                          \
		text, offsetof(type, stats.field), offsetof(type, cleared.field)                   \
	}

/* A ring's counters are found at the same place in a queue. */
_Static_assert(offsetof(struct sluice_rxq, ring) == 0, "a receive queue begins with its ring");
_Static_assert(offsetof(struct sluice_txq, ring) == 0, "a transmit queue begins with its ring");

static const struct counter rx_counters[] = {
	NAMED("good_packets", struct sluice_rxq, packets),
	NAMED("good_bytes", struct sluice_rxq, bytes),
	RX(no_mbuf),
	RX(refills),
	RX(posted),
	{"low_water", offsetof(struct sluice_rxq, stats.low_water),
		offsetof(struct sluice_rxq, stats.low_water)},
	RX(bad_length),
	RX(bad_merged),
	RX(no_scatter),
	RX(intr_armed),
	RX(intr_at_once),
	RX(intr_events),
	RX(intr_held),
	{"coalesce_profile", offsetof(struct sluice_rxq, stats.coalesce_profile),
		offsetof(struct sluice_rxq, stats.coalesce_profile)},
	RX(coalesce_changes),
	RING(broken),
	RING(kicks),
	RING(kicks_suppressed),
};

static const struct counter tx_counters[] = {
	NAMED("good_packets", struct sluice_txq, packets),
	NAMED("good_bytes", struct sluice_txq, bytes),
	TX(ring_full),
	TX(link_down),
	TX(too_many_segs),
	TX(reset_drops),
	RING(broken),
	RING(kicks),
	RING(kicks_suppressed),
};

static uint64_t
read_counter(const void *queue, const struct counter *c)
{
	uint64_t value = *(const uint64_t *)RTE_PTR_ADD(queue, c->value);

	if (c->value == c->cleared)
		return value;
	return value - *(const uint64_t *)RTE_PTR_ADD(queue, c->cleared);
}

int
sluice_stats_get(struct rte_eth_dev *eth, struct rte_eth_stats *stats, sluice_queue_stats *queues)
{
	uint16_t i;

	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		const struct sluice_rxq *q = eth->data->rx_queues[i];
		uint64_t packets, bytes, errors;

		if (q == NULL)
			continue;
		packets = q->stats.packets - q->cleared.packets;
		bytes = q->stats.bytes - q->cleared.bytes;
		errors = q->stats.bad_length - q->cleared.bad_length + q->stats.bad_merged -
			 q->cleared.bad_merged + q->stats.no_scatter - q->cleared.no_scatter;
		stats->ipackets += packets;
		stats->ibytes += bytes;
		stats->ierrors += errors;
		stats->rx_nombuf += q->stats.no_mbuf - q->cleared.no_mbuf;
		if (queues != NULL && i < RTE_ETHDEV_QUEUE_STAT_CNTRS) {
			queues->q_ipackets[i] = packets;
			queues->q_ibytes[i] = bytes;
			queues->q_errors[i] = errors;
		}
	}
	for (i = 0; i < eth->data->nb_tx_queues; i++) {
		const struct sluice_txq *q = eth->data->tx_queues[i];
		uint64_t packets, bytes;

		if (q == NULL)
			continue;
		packets = q->stats.packets - q->cleared.packets;
		bytes = q->stats.bytes - q->cleared.bytes;
		stats->opackets += packets;
		stats->obytes += bytes;
		stats->oerrors += q->stats.too_many_segs - q->cleared.too_many_segs;
		if (queues != NULL && i < RTE_ETHDEV_QUEUE_STAT_CNTRS) {
			queues->q_opackets[i] = packets;
			queues->q_obytes[i] = bytes;
		}
	}
	return 0;
}

int
sluice_stats_reset(struct rte_eth_dev *eth)
{
	uint16_t i;

	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		struct sluice_rxq *q = eth->data->rx_queues[i];

		if (q == NULL)
			continue;
		q->cleared = q->stats;
		q->ring.cleared = q->ring.stats;
		q->stats.low_water = q->ring.vq.size;
	}
	for (i = 0; i < eth->data->nb_tx_queues; i++) {
		struct sluice_txq *q = eth->data->tx_queues[i];

		if (q == NULL)
			continue;
		q->cleared = q->stats;
		q->ring.cleared = q->ring.stats;
	}
	return 0;
}

static unsigned int
count(const struct rte_eth_dev *eth)
{
	return eth->data->nb_rx_queues * RTE_DIM(rx_counters) +
	       eth->data->nb_tx_queues * RTE_DIM(tx_counters);
}

static unsigned int
read_queues(struct rte_eth_xstat *xstats, unsigned int at, void **queues, uint16_t nb,
	const struct counter *counters, unsigned int ncounters)
{
	unsigned int i;
	uint16_t q;

	for (q = 0; q < nb; q++) {
		for (i = 0; i < ncounters; i++, at++) {
			xstats[at].id = at;
			xstats[at].value =
				queues[q] == NULL ? 0 : read_counter(queues[q], &counters[i]);
		}
	}
	return at;
}

int
sluice_xstats_get(struct rte_eth_dev *eth, struct rte_eth_xstat *xstats, unsigned int n)
{
	unsigned int total = count(eth);
	unsigned int at;

	if (xstats == NULL || n < total)
		return (int)total;
	at = read_queues(xstats, 0, eth->data->rx_queues, eth->data->nb_rx_queues, rx_counters,
		RTE_DIM(rx_counters));
	at = read_queues(xstats, at, eth->data->tx_queues, eth->data->nb_tx_queues, tx_counters,
		RTE_DIM(tx_counters));
	return (int)at;
}

static unsigned int
name_queues(struct rte_eth_xstat_name *names, unsigned int at, const char *direction, uint16_t nb,
	const struct counter *counters, unsigned int ncounters)
{
	unsigned int i;
	uint16_t q;

	for (q = 0; q < nb; q++) {
		for (i = 0; i < ncounters; i++, at++)
			snprintf(names[at].name, sizeof(names[at].name), "%s_q%u_%s", direction, q,
				counters[i].name);
	}
	return at;
}

int
sluice_xstats_names(struct rte_eth_dev *eth, struct rte_eth_xstat_name *names, unsigned int n)
{
	unsigned int total = count(eth);
	unsigned int at;

	if (names == NULL || n < total)
		return (int)total;
	at = name_queues(
		names, 0, "rx", eth->data->nb_rx_queues, rx_counters, RTE_DIM(rx_counters));
	at = name_queues(
		names, at, "tx", eth->data->nb_tx_queues, tx_counters, RTE_DIM(tx_counters));
	return (int)at;
}
