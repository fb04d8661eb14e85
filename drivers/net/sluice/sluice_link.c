/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Rings up and down: the one path for a first start, a start after a stop, and a backend that came
 * back. Every time the rings begin empty, at index 0, and what they held comes from the driver's
 * own state: receive buffers are posted again, transmitted packets that nobody completed are
 * counted.
 */

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>

#include <rte_string_fns.h>

#include "sluice.h"
#include "sluice_gate.h"

static const struct {
	uint64_t mask;
	const char *name;
} feature_names[] = {
	{VQ_FEATURE(MRG_RXBUF), "MRG_RXBUF"},
	{VQ_FEATURE(MAC), "MAC"},
	{VQ_FEATURE(STATUS), "STATUS"},
	{VQ_FEATURE(MTU), "MTU"},
	{VQ_FEATURE(CTRL_VQ), "CTRL_VQ"},
	{VQ_FEATURE(CTRL_RX), "CTRL_RX"},
	{VQ_FEATURE(CTRL_MAC_ADDR), "CTRL_MAC_ADDR"},
	{VQ_FEATURE(MQ), "MQ"},
	{VQ_FEATURE(ANY_LAYOUT), "ANY_LAYOUT"},
	{VQ_FEATURE(INDIRECT_DESC), "INDIRECT_DESC"},
	{VQ_FEATURE(EVENT_IDX), "EVENT_IDX"},
	{VQ_FEATURE(VERSION_1), "VERSION_1"},
	{VQ_FEATURE(IN_ORDER), "IN_ORDER"},
	{VQ_FEATURE(ACCESS_PLATFORM), "ACCESS_PLATFORM"},
	{VQ_FEATURE(ORDER_PLATFORM), "ORDER_PLATFORM"},
	{VQ_FEATURE(NOTIFICATION_DATA), "NOTIFICATION_DATA"},
	{VQ_FEATURE(RING_RESET), "RING_RESET"},
	{VQ_FEATURE(VQ_NOTF_COAL), "VQ_NOTF_COAL"},
	{VQ_FEATURE(NOTF_COAL), "NOTF_COAL"},
};

static bool
is_rx(const struct sluice_ring *ring)
{
	return ring->index % 2 == 0;
}

/* The queue that a ring is part of, or NULL for one that stands in for a queue. */
static struct sluice_rxq *
rxq_of(struct sluice_ring *ring)
{
	return ring != ring->dev->spares[ring->index] && is_rx(ring)
		       ? (struct sluice_rxq *)(void *)ring
		       : NULL;
}

static struct sluice_txq *
txq_of(struct sluice_ring *ring)
{
	return ring != ring->dev->spares[ring->index] && !is_rx(ring)
		       ? (struct sluice_txq *)(void *)ring
		       : NULL;
}

int
sluice_refuse(struct sluice_dev *dev, int err, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(dev->why, sizeof(dev->why), format, ap);
	va_end(ap);
	return err;
}

bool
sluice_absent(const struct sluice_dev *dev, int err)
{
	return dev->transport->reconnects && err != -EINVAL && err != -ENOSPC && err != -E2BIG &&
	       err != -ENOMEM && err != -EREMOTEIO;
}

/* An empty ring for these features, filled with the receive buffers that are parked. */
static void
prepare_ring(struct sluice_ring *ring, uint64_t features)
{
	struct sluice_rxq *rxq = rxq_of(ring);
	struct sluice_txq *txq = txq_of(ring);

	vq_driver_reset(&ring->vq, features);
	ring->hdr_len = vq_net_hdr_len(features);
	if (rxq != NULL) {
		sluice_rx_open(rxq, features);
		if (atomic_load(&rxq->armed))
			(void)vq_driver_arm(&ring->vq);
	}
	if (txq != NULL)
		sluice_tx_open(txq, features);
}

static void
open_gates(struct sluice_dev *dev)
{
	uint32_t i;

	for (i = 0; i < 2 * dev->pairs; i++)
		sluice_gate_open(dev->rings[i]);
	sluice_intr_wake(dev);
}

static int
start_rings(struct sluice_dev *dev)
{
	uint32_t i;
	int err = 0;

	for (i = 0; i < 2 * dev->pairs && err == 0; i++)
		err = dev->transport->start_ring(dev, dev->rings[i]);
	/* Without both rings of the first pair no device starts. */
	for (i = 0; i < 2 * dev->pairs && err == 0; i++)
		err = dev->transport->enable_ring(
			dev, dev->rings[i], dev->spares[i] == NULL || i < 2);
	return err;
}

static void
log_features(struct sluice_dev *dev)
{
	char names[256] = "";
	char more[64];
	unsigned int i;

	for (i = 0; i < RTE_DIM(feature_names); i++) {
		if (!(dev->features & feature_names[i].mask))
			continue;
		if (names[0] != '\0')
			strlcat(names, " ", sizeof(names));
		strlcat(names, feature_names[i].name, sizeof(names));
	}
	dev->transport->describe(dev, more, sizeof(more));
	SLUICE_LOG(NOTICE, dev->name, "negotiated features 0x%" PRIx64 " [%s]%s, %u queue pair%s",
		dev->features, names, more, dev->pairs, dev->pairs == 1 ? "" : "s");
}

int
sluice_up(struct sluice_dev *dev)
{
	const struct sluice_transport *t = dev->transport;
	uint64_t features;
	uint32_t i;
	int err;

	err = t->negotiate(dev, dev->wanted, dev->pairs, &features);
	if (err == 0)
		err = sluice_check_frames(
			dev, dev->data->mtu, (features & VQ_FEATURE(MRG_RXBUF)) != 0);
	if (err == 0)
		err = t->set_features(dev, features);
	if (err != 0)
		return err;
	dev->features = features;
	for (i = 0; i < 2 * dev->pairs; i++)
		prepare_ring(dev->rings[i], features);
	err = start_rings(dev);
	if (err == 0)
		err = t->driver_ok(dev);
	if (err == 0 && t->set_mtu(dev, dev->data->mtu) == -EREMOTEIO)
		SLUICE_LOG(WARNING, dev->name, "the backend refuses an MTU of %u", dev->data->mtu);
	if (err != 0) {
		/* The gates are still closed: only the buffers have to come back. */
		t->reset(dev);
		(void)sluice_down(dev);
		return err;
	}
	log_features(dev);
	dev->up = true;
	open_gates(dev);
	atomic_store(&dev->link, true);
	return 0;
}

int
sluice_quiesce(struct sluice_dev *dev)
{
	uint64_t end = vu_now_ms() + SLUICE_GATE_MS;
	bool closed = true;
	uint32_t i;

	for (i = 0; i < 2 * dev->pairs; i++)
		sluice_gate_shut(dev->rings[i]);
	for (i = 0; i < 2 * dev->pairs && closed; i++)
		closed = sluice_gate_wait(dev->rings[i], end);
	if (closed)
		return 0;
	open_gates(dev);
	SLUICE_LOG(ERR, dev->name, "an lcore does not leave its burst function: is it stopped?");
	return -EBUSY;
}

int
sluice_down(struct sluice_dev *dev)
{
	uint32_t i;

	if (sluice_quiesce(dev) != 0)
		return -EBUSY;
	atomic_store(&dev->link, false);
	dev->up = false;
	for (i = 0; i < 2 * dev->pairs; i++) {
		struct sluice_ring *ring = dev->rings[i];
		struct sluice_rxq *rxq = rxq_of(ring);
		struct sluice_txq *txq = txq_of(ring);

		if (ring->vq.fault != VQ_DRIVER_OK)
			ring->stats.broken++;
		if (txq != NULL)
			sluice_tx_drain(txq);
		if (rxq != NULL)
			sluice_rx_park(rxq);
		vq_driver_reset(&ring->vq, dev->features);
		atomic_store(&ring->fault, VQ_DRIVER_OK);
	}
	return 0;
}

void
sluice_free_transmitted(struct sluice_dev *dev)
{
	uint32_t i;

	for (i = 0; i < dev->data->nb_tx_queues; i++) {
		struct sluice_txq *q = dev->data->tx_queues[i];

		if (q == NULL)
			continue;
		rte_pktmbuf_free_bulk(q->parked, q->nparked);
		q->nparked = 0;
	}
}

const struct sluice_ring *
sluice_broken(const struct sluice_dev *dev)
{
	uint32_t i;

	for (i = 0; i < 2 * dev->pairs; i++) {
		if (atomic_load(&dev->rings[i]->fault) != VQ_DRIVER_OK)
			return dev->rings[i];
	}
	return NULL;
}

void
sluice_set_frames(struct sluice_dev *dev, uint16_t mtu)
{
	uint32_t i;

	for (i = 0; i < 2 * dev->pairs; i += 2) {
		struct sluice_rxq *q = rxq_of(dev->rings[i]);

		if (q == NULL)
			continue;
		sluice_gate_shut(&q->ring);
		if (sluice_gate_wait(&q->ring, vu_now_ms() + SLUICE_GATE_MS))
			sluice_rx_set_need(q, mtu);
		sluice_gate_open(&q->ring);
	}
	/* Who armed a queue meanwhile was shut out. */
	sluice_intr_wake(dev);
}

/*
 * Completed mbufs do not stay held while a queue lies idle. This thread may reap because it keeps
 * the burst function out meanwhile: a few microseconds, and only where no burst came since the last
 * look.
 */
static void
reap_idle(struct sluice_txq *q)
{
	uint32_t turns = atomic_load_explicit(&q->ring.turns, memory_order_relaxed);
	bool idle = turns == q->turns_seen;

	q->turns_seen = turns;
	if (!idle || vq_load_index(&q->used->idx) == atomic_load(&q->reaped))
		return;
	sluice_gate_shut(&q->ring);
	if (sluice_gate_wait(&q->ring, vu_now_ms() + SLUICE_GATE_MS))
		sluice_tx_park(q);
	sluice_gate_open(&q->ring);
}

void
sluice_idle(struct sluice_dev *dev)
{
	uint32_t i;

	for (i = 1; i < 2 * dev->pairs; i += 2) {
		struct sluice_txq *q = txq_of(dev->rings[i]);

		if (q != NULL)
			reap_idle(q);
	}
}
