/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdio.h>

#include "sluice_rx.h"

void
sluice_rxq_info(struct rte_eth_dev *eth, uint16_t queue, struct rte_eth_rxq_info *info)
{
	const struct sluice_rxq *q = eth->data->rx_queues[queue];

	info->mp = q->pool;
	info->conf = q->conf;
	info->scattered_rx = eth->data->scattered_rx;
	info->nb_desc = (uint16_t)q->ring.vq.size;
	info->rx_buf_size = (uint16_t)sluice_rx_room(q);
}

void
sluice_txq_info(struct rte_eth_dev *eth, uint16_t queue, struct rte_eth_txq_info *info)
{
	const struct sluice_txq *q = eth->data->tx_queues[queue];

	info->conf = q->conf;
	info->nb_desc = (uint16_t)q->ring.vq.size;
}

static const char *
word(uint64_t features, uint64_t mask, const char *with, const char *without)
{
	return features & mask ? with : without;
}

int
sluice_rx_burst_mode(struct rte_eth_dev *eth, uint16_t queue, struct rte_eth_burst_mode *mode)
{
	static const char *const refills[] = {
		[VQ_REFILL_BUDGET] = "Budget",
		[VQ_REFILL_HALF] = "Half",
		[VQ_REFILL_EAGER] = "Eager",
	};
	const struct sluice_dev *dev = sluice_dev_of(eth);
	const struct sluice_rxq *q = eth->data->rx_queues[queue];
	uint64_t f = dev->features;

	if (q == NULL)
		return -EINVAL;
	snprintf(mode->info, sizeof(mode->info), "Split%s%s%s%s%s Refill %s",
		word(f, VQ_FEATURE(IN_ORDER), " In-Order", ""),
		word(f, VQ_FEATURE(MRG_RXBUF), " Mergeable", " Non-Mergeable"),
		q->chain > 1 ? " Chains" : "",
		f & VQ_FEATURE(MRG_RXBUF) && dev->scatter ? " Scattered" : "",
		word(f, VQ_FEATURE(EVENT_IDX), " Event-Idx", ""), refills[q->refill.mode]);
	mode->flags = RTE_ETH_BURST_FLAG_PER_QUEUE;
	return 0;
}

int
sluice_tx_burst_mode(struct rte_eth_dev *eth, uint16_t queue, struct rte_eth_burst_mode *mode)
{
	const struct sluice_dev *dev = sluice_dev_of(eth);
	uint64_t f = dev->features;

	if (eth->data->tx_queues[queue] == NULL)
		return -EINVAL;
	snprintf(mode->info, sizeof(mode->info), "Split%s%s%s",
		word(f, VQ_FEATURE(IN_ORDER), " In-Order", ""),
		word(f, VQ_FEATURE(INDIRECT_DESC), " Indirect", " Direct"),
		word(f, VQ_FEATURE(EVENT_IDX), " Event-Idx", ""));
	mode->flags = RTE_ETH_BURST_FLAG_PER_QUEUE;
	return 0;
}

/* The rest is called by the lcore that polls the queue, or while nobody does. */

sluice_rx_count
sluice_rx_queue_count(void *queue)
{
	const struct sluice_rxq *q = queue;

	return (sluice_rx_count)(vq_driver_pending(&q->ring.vq) * q->chain);
}

int
sluice_tx_queue_count(void *queue)
{
	const struct sluice_txq *q = queue;

	return (int)(q->ring.vq.size - vq_driver_free(&q->ring.vq));
}

int
sluice_rx_descriptor_status(void *queue, uint16_t offset)
{
	const struct sluice_rxq *q = queue;
	const struct vq_driver *vq = &q->ring.vq;

	if (offset >= vq->size)
		return -EINVAL;
	if (offset < vq_driver_pending(vq) * q->chain)
		return RTE_ETH_RX_DESC_DONE;
	return offset < vq_driver_inflight(vq) * q->chain ? RTE_ETH_RX_DESC_AVAIL
							  : RTE_ETH_RX_DESC_UNAVAIL;
}

/*
 * The offset counts from the slot that the next packet takes. Free slots come first, then the
 * chains in flight from the oldest on; a chain of several descriptors counts as one slot, since
 * only its head is completed.
 */
int
sluice_tx_descriptor_status(void *queue, uint16_t offset)
{
	const struct sluice_txq *q = queue;
	const struct vq_driver *vq = &q->ring.vq;

	if (offset >= vq->size)
		return -EINVAL;
	return offset < vq->size - vq_driver_inflight(vq) + vq_driver_pending(vq)
		       ? RTE_ETH_TX_DESC_DONE
		       : RTE_ETH_TX_DESC_FULL;
}
