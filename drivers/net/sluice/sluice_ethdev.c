/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>

#include <rte_eal.h>
#include <rte_errno.h>

#include "sluice.h"
#include "sluice_control.h"
#include "sluice_ctrlq.h"
#include "sluice_gate.h"

RTE_LOG_REGISTER(sluice_logtype, pmd.net.sluice, NOTICE);

int
sluice_check_process(const char *name)
{
	if (!sluice_dpdk_matches()) {
		SLUICE_LOG(ERR, name,
			"built for DPDK " SLUICE_DPDK_VERSION_BUILT
			", loaded into %s: build the driver again (make)",
			rte_version());
		return -ENOTSUP;
	}
	if (rte_eal_process_type() != RTE_PROC_PRIMARY) {
		SLUICE_LOG(ERR, name, "not available in secondary processes: use the primary one");
		return -ENOTSUP;
	}
	return 0;
}

uint64_t
sluice_wanted_features(const struct sluice_dev *dev)
{
	const struct sluice_devargs *args = &dev->args;
	uint64_t f = VQ_FEATURE(VERSION_1) | VQ_FEATURE(ANY_LAYOUT);

	if (dev->pairs_max > 1)
		f |= VQ_FEATURE(MQ);
	if (args->mrg_rxbuf)
		f |= VQ_FEATURE(MRG_RXBUF);
	if (args->in_order)
		f |= VQ_FEATURE(IN_ORDER);
	if (args->indirect)
		f |= VQ_FEATURE(INDIRECT_DESC);
	if (args->event_idx)
		f |= VQ_FEATURE(EVENT_IDX);
	return f;
}

static int
dev_infos_get(struct rte_eth_dev *eth, struct rte_eth_dev_info *info)
{
	const struct sluice_dev *dev = sluice_dev_of(eth);
	const struct rte_eth_desc_lim lim = {
		.nb_min = 1,
		.nb_align = 1,
		.nb_seg_max = SLUICE_TX_SEGS_MAX - 1,
		.nb_mtu_seg_max = SLUICE_TX_SEGS_MAX - 1,
	};

	info->max_rx_queues = (uint16_t)dev->pairs_max;
	info->max_tx_queues = (uint16_t)dev->pairs_max;
	info->max_mac_addrs = 1;
	info->min_rx_bufsize = SLUICE_RX_BUF_MIN;
	/* Applications take the difference to max_mtu for what a frame has beside its MTU. */
	info->max_rx_pktlen = dev->mtu_max + SLUICE_FRAME_OVERHEAD;
	info->min_mtu = RTE_ETHER_MIN_MTU;
	info->max_mtu = (uint16_t)dev->mtu_max;
	info->rx_offload_capa = RTE_ETH_RX_OFFLOAD_SCATTER;
	info->tx_offload_capa = RTE_ETH_TX_OFFLOAD_MULTI_SEGS | RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE;
	info->rx_desc_lim = lim;
	info->rx_desc_lim.nb_max = (uint16_t)dev->ring_max[0];
	info->tx_desc_lim = lim;
	info->tx_desc_lim.nb_max = (uint16_t)dev->ring_max[1];
	info->default_rxportconf.burst_size = 32;
	info->default_rxportconf.ring_size =
		(uint16_t)RTE_MIN(dev->args.queue_size, dev->ring_max[0]);
	info->default_rxportconf.nb_queues = (uint16_t)dev->pairs_max;
	info->default_txportconf = info->default_rxportconf;
	info->default_txportconf.ring_size =
		(uint16_t)RTE_MIN(dev->args.queue_size, dev->ring_max[1]);
	info->err_handle_mode = dev->transport->error_mode;
	/* There are no flow rules that could be kept over a stop. */
	info->dev_capa &= ~(uint64_t)(RTE_ETH_DEV_CAPA_FLOW_RULE_KEEP |
				      RTE_ETH_DEV_CAPA_FLOW_SHARED_OBJECT_KEEP);
	return 0;
}

static int
refuse_conf(const struct sluice_dev *dev, int err, const char *what)
{
	SLUICE_LOG(ERR, dev->name, "not supported: %s", what);
	return err;
}

static int
dev_configure(struct rte_eth_dev *eth)
{
	const struct rte_eth_conf *conf = &eth->data->dev_conf;
	struct sluice_dev *dev = sluice_dev_of(eth);
	int err;

	/* Which pair a packet goes to is the backend's choice, so RSS is taken and means nothing.
	 */
	if (conf->rxmode.mq_mode != RTE_ETH_MQ_RX_NONE && conf->rxmode.mq_mode != RTE_ETH_MQ_RX_RSS)
		return refuse_conf(dev, -EINVAL, "receive multi-queue modes other than RSS");
	if (conf->txmode.mq_mode != RTE_ETH_MQ_TX_NONE)
		return refuse_conf(dev, -EINVAL, "transmit multi-queue modes");
	if (conf->lpbk_mode != 0)
		return refuse_conf(dev, -ENOTSUP, "loopback mode");
	if (dev->transport->steers && eth->data->nb_rx_queues != 0 &&
		eth->data->nb_rx_queues < eth->data->nb_tx_queues)
		return refuse_conf(dev, -EINVAL,
			"fewer receive than transmit queues: the device sends to every pair in "
			"use");
	err = sluice_intr_check(dev);
	if (err != 0)
		return refuse_conf(dev, err, dev->why);
	sluice_intr_stop(eth);
	dev->scatter = (conf->rxmode.offloads & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
	dev->pairs = RTE_MAX(eth->data->nb_rx_queues, eth->data->nb_tx_queues);
	eth->data->scattered_rx = dev->scatter;
	return 0;
}

static int
check_queues(const struct sluice_dev *dev)
{
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		if (dev->data->rx_queues[i] == NULL) {
			SLUICE_LOG(ERR, dev->name, "receive queue %u is not set up", i);
			return -EINVAL;
		}
	}
	for (i = 0; i < dev->data->nb_tx_queues; i++) {
		if (dev->data->tx_queues[i] == NULL) {
			SLUICE_LOG(ERR, dev->name, "transmit queue %u is not set up", i);
			return -EINVAL;
		}
	}
	return 0;
}

/* Before there are buffers: frames that need more of them than a ring has are not its pool's fault.
 */
static int
check_frames(struct sluice_dev *dev)
{
	int err;

	pthread_mutex_lock(&dev->lock);
	err = sluice_check_frames(dev, dev->data->mtu, dev->args.mrg_rxbuf);
	if (err != 0)
		SLUICE_LOG(ERR, dev->name, "%s", dev->why);
	pthread_mutex_unlock(&dev->lock);
	return err;
}

static void
free_receive_buffers(struct sluice_dev *dev)
{
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++)
		sluice_rx_free_parked(dev->data->rx_queues[i]);
}

static int
fill_receive_queues(struct sluice_dev *dev)
{
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		struct sluice_rxq *q = dev->data->rx_queues[i];

		if (sluice_rx_fill(q) != 0) {
			SLUICE_LOG(ERR, dev->name,
				"receive queue %u: mempool %s has too few mbufs: make it larger", i,
				q->pool->name);
			free_receive_buffers(dev);
			return -ENOMEM;
		}
	}
	return 0;
}

static void
set_queue_states(struct rte_eth_dev *eth, uint8_t state)
{
	uint16_t i;

	for (i = 0; i < eth->data->nb_rx_queues; i++)
		eth->data->rx_queue_state[i] = state;
	for (i = 0; i < eth->data->nb_tx_queues; i++)
		eth->data->tx_queue_state[i] = state;
}

static int
link_update(struct rte_eth_dev *eth, int wait)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	struct rte_eth_link link = {
		.link_speed = RTE_ETH_SPEED_NUM_UNKNOWN,
		.link_duplex = RTE_ETH_LINK_FULL_DUPLEX,
		.link_autoneg = RTE_ETH_LINK_FIXED,
		.link_status = atomic_load(&dev->link) ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN,
	};

	RTE_SET_USED(wait);
	return rte_eth_linkstatus_set(eth, &link);
}

/*
 * The device comes up with or without a backend: if one is there, the link is up on return; if none
 * is, the transport goes on looking for it. Only a backend that cannot serve us is an error.
 */
static int
dev_start(struct rte_eth_dev *eth)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	int err;

	err = check_queues(dev);
	if (err == 0)
		err = check_frames(dev);
	if (err == 0)
		err = sluice_intr_start(eth);
	if (err == 0)
		err = sluice_spares_create(dev);
	if (err != 0)
		return err;
	err = fill_receive_queues(dev);
	if (err != 0)
		goto fail;

	pthread_mutex_lock(&dev->lock);
	dev->started = true;
	err = dev->transport->connect(dev);
	if (err != 0 && !sluice_absent(dev, err)) {
		SLUICE_LOG(ERR, dev->name, "%s", dev->why);
		dev->started = false;
		pthread_mutex_unlock(&dev->lock);
		free_receive_buffers(dev);
		goto fail;
	}
	pthread_mutex_unlock(&dev->lock);
	set_queue_states(eth, RTE_ETH_QUEUE_STATE_STARTED);
	(void)link_update(eth, 0);
	sluice_control_wake(dev);
	return 0;
fail:
	sluice_spares_destroy(dev);
	return err;
}

/* Under both locks. */
static int
take_down(struct sluice_dev *dev)
{
	if (!dev->up)
		return 0;
	if (sluice_quiesce(dev) != 0)
		return -EBUSY;
	/* A device that does not stop its rings is left for good. */
	if (dev->transport->stop_rings(dev) != 0)
		dev->transport->reset(dev);
	return sluice_down(dev);
}

static int
dev_stop(struct rte_eth_dev *eth)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	int err;

	if (!dev->started)
		return 0;
	pthread_mutex_lock(&dev->turn);
	pthread_mutex_lock(&dev->lock);
	err = take_down(dev);
	dev->started = err != 0;
	pthread_mutex_unlock(&dev->lock);
	if (err == 0)
		sluice_free_transmitted(dev);
	pthread_mutex_unlock(&dev->turn);
	if (err != 0)
		return err;

	free_receive_buffers(dev);
	sluice_spares_destroy(dev);
	set_queue_states(eth, RTE_ETH_QUEUE_STATE_STOPPED);
	(void)link_update(eth, 0);
	return 0;
}

static int
dev_close(struct rte_eth_dev *eth)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	uint16_t i;
	int err;

	if (rte_eal_process_type() != RTE_PROC_PRIMARY)
		return 0;
	err = dev_stop(eth);
	dev->transport->close(dev);
	sluice_intr_stop(eth);
	/* Part of dev_private. */
	eth->data->mac_addrs = NULL;
	if (err != 0) {
		/* ethdev gives the port up whatever we say: keep what the burst works on. */
		SLUICE_LOG(ERR, dev->name, "closed within a burst: its memory is not given back");
		eth->data->dev_private = NULL;
		return 0;
	}
	for (i = 0; i < eth->data->nb_rx_queues; i++)
		sluice_rx_queue_release(eth, i);
	for (i = 0; i < eth->data->nb_tx_queues; i++)
		sluice_tx_queue_release(eth, i);
	pthread_mutex_destroy(&dev->lock);
	pthread_mutex_destroy(&dev->turn);
	return 0;
}

static int
mtu_set(struct rte_eth_dev *eth, uint16_t mtu)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	bool mergeable;
	int err;

	pthread_mutex_lock(&dev->lock);
	/* Without a link, the next backend decides. */
	mergeable = ((dev->up ? dev->features : dev->wanted) & VQ_FEATURE(MRG_RXBUF)) != 0;
	err = sluice_check_frames(dev, mtu, mergeable);
	if (err != 0)
		SLUICE_LOG(ERR, dev->name, "MTU %u: %s", mtu, dev->why);
	if (err == 0 && dev->up) {
		if (dev->transport->set_mtu(dev, mtu) == -EREMOTEIO)
			SLUICE_LOG(WARNING, dev->name, "the backend refuses an MTU of %u", mtu);
		sluice_set_frames(dev, mtu);
	}
	/* As ethdev will; but a backend may come before it does. */
	if (err == 0)
		dev->data->mtu = mtu;
	pthread_mutex_unlock(&dev->lock);
	return err;
}

static int
mac_addr_set(struct rte_eth_dev *eth, struct rte_ether_addr *mac)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	int err = 0;

	pthread_mutex_lock(&dev->lock);
	/* A backend of ours does not know it: a switch learns it from what we send. */
	if (dev->transport->filters)
		err = sluice_ctrlq_mac(dev, mac);
	if (err == 0)
		rte_ether_addr_copy(mac, &dev->mac);
	pthread_mutex_unlock(&dev->lock);
	return err;
}

/* Where nothing is filtered, either mode is on whether asked for or not. */
static int
set_rx_mode(struct rte_eth_dev *eth, bool promiscuous, bool all_multicast)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	int err = 0;

	pthread_mutex_lock(&dev->lock);
	if (dev->transport->filters)
		err = sluice_ctrlq_rx_mode(dev, promiscuous, all_multicast);
	if (err == 0) {
		dev->promiscuous = promiscuous;
		dev->all_multicast = all_multicast;
	}
	pthread_mutex_unlock(&dev->lock);
	return err;
}

static int
promiscuous_enable(struct rte_eth_dev *eth)
{
	return set_rx_mode(eth, true, eth->data->all_multicast);
}

static int
promiscuous_disable(struct rte_eth_dev *eth)
{
	return set_rx_mode(eth, false, eth->data->all_multicast);
}

static int
allmulticast_enable(struct rte_eth_dev *eth)
{
	return set_rx_mode(eth, eth->data->promiscuous, true);
}

static int
allmulticast_disable(struct rte_eth_dev *eth)
{
	return set_rx_mode(eth, eth->data->promiscuous, false);
}

SLUICE_STATS_GET(sluice_stats_get)

const struct eth_dev_ops sluice_ops = {
	.dev_configure = dev_configure,
	.dev_start = dev_start,
	.dev_stop = dev_stop,
	.dev_close = dev_close,
	.dev_infos_get = dev_infos_get,
	.link_update = link_update,
	.promiscuous_enable = promiscuous_enable,
	.promiscuous_disable = promiscuous_disable,
	.allmulticast_enable = allmulticast_enable,
	.allmulticast_disable = allmulticast_disable,
	.mtu_set = mtu_set,
	.mac_addr_set = mac_addr_set,
	.stats_get = sluice_stats_get_op,
	.stats_reset = sluice_stats_reset,
	.xstats_get = sluice_xstats_get,
	.xstats_get_names = sluice_xstats_names,
	.xstats_reset = sluice_stats_reset,
	.rx_queue_setup = sluice_rx_queue_setup,
	.tx_queue_setup = sluice_tx_queue_setup,
	.rx_queue_release = sluice_rx_queue_release,
	.tx_queue_release = sluice_tx_queue_release,
	.rx_queue_intr_enable = sluice_rx_intr_enable,
	.rx_queue_intr_disable = sluice_rx_intr_disable,
	.rxq_info_get = sluice_rxq_info,
	.txq_info_get = sluice_txq_info,
	.rx_burst_mode_get = sluice_rx_burst_mode,
	.tx_burst_mode_get = sluice_tx_burst_mode,
	.tx_done_cleanup = sluice_tx_done_cleanup,
};

int
sluice_ethdev_init(struct rte_eth_dev *eth)
{
	struct sluice_dev *dev = sluice_dev_of(eth);

	if (pthread_mutex_init(&dev->turn, NULL) != 0 || pthread_mutex_init(&dev->lock, NULL) != 0)
		return -ENOMEM;
	dev->features = dev->wanted;
	if (dev->args.has_mac)
		dev->mac = dev->args.mac;
	else
		rte_eth_random_addr(dev->mac.addr_bytes);
	eth->data->mac_addrs = &dev->mac;
	eth->data->dev_flags |= RTE_ETH_DEV_INTR_LSC;
	eth->dev_ops = &sluice_ops;
	eth->rx_pkt_burst = sluice_rx_burst;
	eth->tx_pkt_burst = sluice_tx_burst;
	eth->rx_queue_count = sluice_rx_queue_count;
	eth->rx_descriptor_status = sluice_rx_descriptor_status;
	eth->tx_descriptor_status = sluice_tx_descriptor_status;
	sluice_set_tx_queue_count(eth, sluice_tx_queue_count);
	return 0;
}

struct sluice_dev *
sluice_port_begin(struct rte_eth_dev *eth, const char *name, const struct sluice_devargs *args)
{
	struct sluice_dev *dev;

	if (eth == NULL) {
		SLUICE_LOG(ERR, name, "no ethdev port: fewer devices, or more memory");
		return NULL;
	}
	dev = sluice_dev_of(eth);
	dev->name = name;
	dev->data = eth->data;
	dev->args = *args;
	return dev;
}

int
sluice_port_end(struct rte_eth_dev *eth, int err)
{
	if (err == 0) {
		rte_eth_dev_probing_finish(eth);
		return 0;
	}
	/* Part of dev_private. */
	eth->data->mac_addrs = NULL;
	rte_eth_dev_release_port(eth);
	return err;
}

int
sluice_remove(const char *name)
{
	struct rte_eth_dev *eth = rte_eth_dev_allocated(name);
	int err;

	/* Closed already. */
	if (eth == NULL)
		return 0;
	err = rte_eth_dev_stop(eth->data->port_id);
	return err != 0 ? err : rte_eth_dev_close(eth->data->port_id);
}
