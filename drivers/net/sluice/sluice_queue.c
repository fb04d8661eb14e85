/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>

#include <rte_errno.h>
#include <rte_malloc.h>

#include "sluice_rx.h"

static int
check_size(const struct sluice_dev *dev, bool tx, uint16_t queue, uint16_t size)
{
	if (vq_size_ok(size) && size <= dev->ring_max[tx])
		return 0;
	SLUICE_LOG(ERR, dev->name,
		"%s queue %u: %u descriptors: must be a power of two from 1 to %u",
		tx ? "transmit" : "receive", queue, size, dev->ring_max[tx]);
	return -EINVAL;
}

static int
check_queue_frames(struct sluice_dev *dev, const struct sluice_rxq *q, uint16_t mtu, bool mergeable)
{
	uint32_t frame = mtu + SLUICE_FRAME_OVERHEAD;
	uint32_t most = q->ring.vq.size;
	uint16_t queue = q->ring.index / 2;

	if (frame <= sluice_rx_room(q))
		return 0;
	if (!mergeable)
		most = RTE_MIN(most, (uint32_t)SLUICE_RX_CHAIN_MAX);
	if (!dev->scatter)
		return sluice_refuse(dev, -EINVAL,
			"receive queue %u: buffers of %u bytes cannot hold frames of %u: larger "
			"mbufs, a smaller MTU, or the offload RX SCATTER",
			queue, sluice_rx_room(q), frame);
	if (sluice_rx_buffers(q, sizeof(struct vq_net_hdr), mtu) > most)
		return sluice_refuse(dev, -EINVAL,
			"receive queue %u: %u buffers of %u bytes, the most that a frame may have, "
			"cannot hold one of %u: more descriptors, larger mbufs, or a smaller MTU",
			queue, most, sluice_rx_room(q), frame);
	return 0;
}

/* A larger MTU while buffers are posted: a frame has one place, unless it may be merged. */
static int
check_posted_frames(
	struct sluice_dev *dev, const struct sluice_rxq *q, uint16_t mtu, bool mergeable)
{
	uint32_t frame = mtu + SLUICE_FRAME_OVERHEAD;

	if (!dev->up || (mergeable && dev->scatter) ||
		q->ring.hdr_len + frame <= q->chain * q->post_len)
		return 0;
	return sluice_refuse(dev, -EBUSY,
		"receive queue %u: the buffers in the ring are too short for frames of %u: stop "
		"the port first",
		q->ring.index / 2u, frame);
}

int
sluice_check_frames(struct sluice_dev *dev, uint16_t mtu, bool mergeable)
{
	uint16_t i;
	int err = 0;

	for (i = 0; i < dev->data->nb_rx_queues && err == 0; i++) {
		const struct sluice_rxq *q = dev->data->rx_queues[i];

		if (q == NULL)
			continue;
		err = check_queue_frames(dev, q, mtu, mergeable);
		if (err == 0)
			err = check_posted_frames(dev, q, mtu, mergeable);
	}
	return err;
}

static void
find_outside(struct rte_mempool *pool, void *arg, struct rte_mempool_memhdr *mem, unsigned int i)
{
	const struct rte_memseg_list *list = rte_mem_virt2memseg_list(mem->addr);
	bool *outside = arg;

	RTE_SET_USED(pool);
	RTE_SET_USED(i);
	*outside |= list == NULL || list->external;
}

/* Is memory of the pool none that DPDK has allocated, and that a backend is shown? */
static bool
lies_outside(struct rte_mempool *pool)
{
	bool outside = false;

	(void)rte_mempool_mem_iter(pool, find_outside, &outside);
	return outside;
}

static int
check_rx(const struct sluice_dev *dev, uint16_t queue, uint16_t nb_desc,
	const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	if (conf->rx_deferred_start) {
		SLUICE_LOG(ERR, dev->name,
			"receive queue %u: deferred start is not supported: start it with the port",
			queue);
		return -EINVAL;
	}
	if (pool == NULL) {
		SLUICE_LOG(ERR, dev->name, "receive queue %u: no mempool (or several): give one",
			queue);
		return -EINVAL;
	}
	if (rte_pktmbuf_data_room_size(pool) < RTE_PKTMBUF_HEADROOM + SLUICE_RX_BUF_MIN) {
		SLUICE_LOG(ERR, dev->name,
			"receive queue %u: mbufs of %u bytes are too small: at least %u", queue,
			rte_pktmbuf_data_room_size(pool), RTE_PKTMBUF_HEADROOM + SLUICE_RX_BUF_MIN);
		return -EINVAL;
	}
	if (!dev->transport->iova && lies_outside(pool)) {
		SLUICE_LOG(ERR, dev->name,
			"receive queue %u: mempool %s lies in external memory, which the backend "
			"does not have: take rte_pktmbuf_pool_create()",
			queue, pool->name);
		return -EINVAL;
	}
	return check_size(dev, false, queue, nb_desc);
}

int
sluice_rx_queue_setup(struct rte_eth_dev *eth, uint16_t queue, uint16_t nb_desc,
	unsigned int socket, const struct rte_eth_rxconf *conf, struct rte_mempool *pool)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	struct sluice_rxq *q;
	int err = check_rx(dev, queue, nb_desc, conf, pool);

	if (err != 0)
		return err;
	sluice_rx_queue_release(eth, queue);
	q = rte_zmalloc_socket("sluice rxq", sizeof(*q), RTE_CACHE_LINE_SIZE, (int)socket);
	if (q == NULL)
		return -ENOMEM;
	q->pool = pool;
	q->conf = *conf;
	q->data_at = (int32_t)sizeof(struct rte_mbuf) + rte_pktmbuf_priv_size(pool);
	q->fresh = (struct sluice_fresh){
		.refcnt = 1,
		.nb_segs = 1,
		.port = dev->data->port_id,
		.ol_flags = rte_pktmbuf_priv_flags(pool) & RTE_PKTMBUF_POOL_F_PINNED_EXT_BUF
				    ? RTE_MBUF_F_EXTERNAL
				    : 0,
	};
	q->refill.mode = dev->args.refill;
	q->refill.budget = dev->args.refill_budget;
	q->refill.size = nb_desc;
	q->stats.low_water = nb_desc;
	sluice_coalesce_init(q);
	err = -ENOMEM;
	q->parked = rte_zmalloc_socket("sluice parked",
		nb_desc * (sizeof(q->parked[0]) + sizeof(q->places[0])), RTE_CACHE_LINE_SIZE,
		(int)socket);
	if (q->parked == NULL)
		goto fail;
	q->places = (void **)(q->parked + nb_desc);
	err = sluice_ring_create(&q->ring, dev, (uint16_t)(2 * queue), nb_desc, 0, (int)socket);
	if (err != 0)
		goto fail;
	pthread_mutex_lock(&dev->lock);
	err = check_queue_frames(dev, q, dev->data->mtu, dev->args.mrg_rxbuf);
	if (err != 0)
		SLUICE_LOG(ERR, dev->name, "%s", dev->why);
	pthread_mutex_unlock(&dev->lock);
	if (err != 0) {
		sluice_ring_destroy(&q->ring);
		goto fail;
	}
	sluice_rx_choose(q, dev->args.mrg_rxbuf, sizeof(struct vq_net_hdr));
	dev->rings[q->ring.index] = &q->ring;
	dev->data->rx_queues[queue] = q;
	return 0;
fail:
	rte_free(q->parked);
	rte_free(q);
	return err;
}

static int
check_tx(const struct sluice_dev *dev, uint16_t queue, uint16_t nb_desc,
	const struct rte_eth_txconf *conf)
{
	int err = check_size(dev, true, queue, nb_desc);

	if (err != 0)
		return err;
	if (conf->tx_deferred_start) {
		SLUICE_LOG(ERR, dev->name,
			"transmit queue %u: deferred start is not supported: start it with the "
			"port",
			queue);
		return -EINVAL;
	}
	if (conf->tx_free_thresh > nb_desc) {
		SLUICE_LOG(ERR, dev->name,
			"transmit queue %u: tx_free_thresh %u: at most the %u descriptors of the "
			"ring",
			queue, conf->tx_free_thresh, nb_desc);
		return -EINVAL;
	}
	return 0;
}

/*
 * A quarter of the ring, and more of a large one: mbufs that are sent and not taken back push those
 * in use out of the cache.
 */
static uint16_t
default_free_thresh(uint16_t nb_desc)
{
	const uint16_t held = (uint16_t)RTE_MIN(nb_desc - nb_desc / 4, SLUICE_TX_HELD_MAX);

	return (uint16_t)RTE_MAX(nb_desc - held, 1);
}

int
sluice_tx_queue_setup(struct rte_eth_dev *eth, uint16_t queue, uint16_t nb_desc,
	unsigned int socket, const struct rte_eth_txconf *conf)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	struct sluice_txq *q;
	int err = check_tx(dev, queue, nb_desc, conf);

	if (err != 0)
		return err;
	sluice_tx_queue_release(eth, queue);
	q = rte_zmalloc_socket("sluice txq", sizeof(*q), RTE_CACHE_LINE_SIZE, (int)socket);
	if (q == NULL)
		return -ENOMEM;
	q->conf = *conf;
	if (conf->tx_free_thresh == 0)
		q->conf.tx_free_thresh = default_free_thresh(nb_desc);
	q->free_thresh = q->conf.tx_free_thresh;
	err = -ENOMEM;
	q->parked = rte_zmalloc_socket(
		"sluice parked", nb_desc * sizeof(q->parked[0]), RTE_CACHE_LINE_SIZE, (int)socket);
	if (q->parked == NULL)
		goto fail;
	err = sluice_ring_create(&q->ring, dev, (uint16_t)(2 * queue + 1), nb_desc,
		dev->args.indirect ? SLUICE_TX_TABLE : 0, (int)socket);
	if (err != 0)
		goto fail;
	q->zero_addr = sluice_ring_addr(&q->ring, sluice_ring_tail(&q->ring));
	dev->rings[q->ring.index] = &q->ring;
	dev->data->tx_queues[queue] = q;
	return 0;
fail:
	rte_free(q->parked);
	rte_free(q);
	return err;
}

/* Queues hold no mbuf while the port is stopped, and only then are they released. */
void
sluice_rx_queue_release(struct rte_eth_dev *eth, uint16_t queue)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	struct sluice_rxq *q = eth->data->rx_queues[queue];

	if (q == NULL)
		return;
	sluice_intr_stop(eth);
	dev->rings[q->ring.index] = NULL;
	eth->data->rx_queues[queue] = NULL;
	sluice_ring_destroy(&q->ring);
	rte_free(q->parked);
	rte_free(q);
}

void
sluice_tx_queue_release(struct rte_eth_dev *eth, uint16_t queue)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	struct sluice_txq *q = eth->data->tx_queues[queue];

	if (q == NULL)
		return;
	dev->rings[q->ring.index] = NULL;
	eth->data->tx_queues[queue] = NULL;
	sluice_ring_destroy(&q->ring);
	rte_free(q->parked);
	rte_free(q);
}
