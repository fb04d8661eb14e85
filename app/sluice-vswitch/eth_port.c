/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* A port that is an ethdev: set up once, up until the end. */

#include <stdlib.h>
#include <string.h>

#include <rte_ethdev.h>

#include "eth_port.h"
#include "feature_bits.h"
#include "log.h"
#include "sleep.h"
#include "vswitch.h"
#include "worker.h"

#define RING_SIZE 512
/* Mbufs that a worker has in hand: a burst of each kind, and its cache with what it may run over.
 */
#define CACHE      256
#define PER_WORKER (2 * BURST + CACHE * 3 / 2)

/* view_mbuf() takes a frame in so many mbufs. */
_Static_assert(BURST_SEGS / BURST * RTE_MBUF_DEFAULT_DATAROOM >= PORT_MTU_MAX + MTU_OVERHEAD,
	"the longest frame of a guest has to fit");

struct eth_port {
	struct port *port;
	uint16_t dev;
	uint16_t nrx;
	uint16_t ntx;
	uint32_t max_len;
	bool multi_segs;
	bool started;
	bool rx_intr; /**< a queue can wake its worker */
	rte_spinlock_t *tx_locks;
};

bool
eth_port_needs_mbufs(const struct port_config *p)
{
	return p->dev[0] != '\0' || p->loopback == LOOPBACK_MBUF;
}

struct rte_mempool *
eth_port_pool(const struct switch_config *c, uint32_t nworkers)
{
	/* Not every driver takes chains, so a frame of the largest MTU fits one. */
	uint32_t room = RTE_MBUF_DEFAULT_DATAROOM;
	uint32_t n = 0, queues, i;
	bool by_mbufs = false;

	for (i = 0; i < c->nports; i++) {
		by_mbufs |= c->ports[i].loopback == LOOPBACK_MBUF;
		if (c->ports[i].dev[0] == '\0')
			continue;
		room = RTE_MAX(room, c->ports[i].mtu + MTU_OVERHEAD);
		queues = c->ports[i].queues > nworkers ? c->ports[i].queues : nworkers;
		n += queues * 2 * RING_SIZE;
	}
	/* A burst of the longest frames. */
	if (by_mbufs)
		n += nworkers * BURST_SEGS;
	return rte_pktmbuf_pool_create("sluice_mbufs", n + nworkers * PER_WORKER, CACHE, 0,
		(uint16_t)RTE_MIN(room + RTE_PKTMBUF_HEADROOM, UINT16_MAX), SOCKET_ID_ANY);
}

/* Queues and offloads: a transmit queue for each worker and as many to receive, as far as it can.
 */
static int
configure(struct eth_port *e, const struct rte_eth_dev_info *info, uint32_t nworkers)
{
	const struct port_config *c = e->port->config;
	uint32_t rx = c->queues != 0 ? c->queues : nworkers;
	struct rte_eth_conf conf = {0};
	int ret;

	e->nrx = (uint16_t)RTE_MIN(rx, info->max_rx_queues);
	e->ntx = (uint16_t)RTE_MIN(nworkers, info->max_tx_queues);
	conf.intr_conf.rxq = e->rx_intr;
	if (info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER)
		conf.rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
	if (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS)
		conf.txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	e->multi_segs = (info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) != 0;
	if (e->nrx > 1 && info->flow_type_rss_offloads != 0) {
		conf.rxmode.mq_mode = RTE_ETH_MQ_RX_RSS;
		conf.rx_adv_conf.rss_conf.rss_hf =
			info->flow_type_rss_offloads &
			(RTE_ETH_RSS_IP | RTE_ETH_RSS_UDP | RTE_ETH_RSS_TCP);
	}
	ret = rte_eth_dev_configure(e->dev, e->nrx, e->ntx, &conf);
	if (ret < 0 && e->nrx != e->ntx) {
		/* Some want as many of one kind as of the other. */
		e->nrx = e->ntx = RTE_MIN(e->nrx, e->ntx);
		ret = rte_eth_dev_configure(e->dev, e->nrx, e->ntx, &conf);
	}
	return ret;
}

static int
set_up_queues(struct eth_port *e)
{
	int socket = rte_eth_dev_socket_id(e->dev);
	uint16_t rx_size = RING_SIZE, tx_size = RING_SIZE;
	uint16_t i;
	int ret;

	ret = rte_eth_dev_adjust_nb_rx_tx_desc(e->dev, &rx_size, &tx_size);
	for (i = 0; ret == 0 && i < e->nrx; i++)
		ret = rte_eth_rx_queue_setup(
			e->dev, i, rx_size, (unsigned int)socket, NULL, e->port->sw->pool);
	for (i = 0; ret == 0 && i < e->ntx; i++)
		ret = rte_eth_tx_queue_setup(e->dev, i, tx_size, (unsigned int)socket, NULL);
	return ret;
}

/*
 * The longest frame that may be sent there. A device that takes no MTU of ours enforces none
 * either, then only what the operator said counts.
 */
static int
set_mtu(struct eth_port *e)
{
	uint16_t mtu = (uint16_t)e->port->config->mtu;
	int ret;

	e->max_len = longest_frame(mtu);
	if (mtu == 0 && rte_eth_dev_get_mtu(e->dev, &mtu) != 0)
		return 0;
	ret = rte_eth_dev_set_mtu(e->dev, mtu);
	if (ret == 0)
		e->max_len = longest_frame(mtu);
	return e->port->config->mtu == 0 || ret == -ENOTSUP ? 0 : ret;
}

static int
make_locks(struct eth_port *e, uint32_t nworkers)
{
	uint16_t i;

	free(e->tx_locks);
	e->tx_locks = NULL;
	if (e->ntx >= nworkers)
		return 0;
	e->tx_locks = calloc(e->ntx, sizeof(*e->tx_locks));
	if (e->tx_locks == NULL)
		return -ENOMEM;
	for (i = 0; i < e->ntx; i++)
		rte_spinlock_init(&e->tx_locks[i]);
	return 0;
}

/* May be tried again, with or without receive interrupts. */
static int
bring_up(struct eth_port *e, struct problem *out)
{
	const struct port_config *c = e->port->config;
	uint32_t nworkers = e->port->sw->nworkers;
	struct rte_eth_dev_info info;
	int ret;

	ret = rte_eth_dev_info_get(e->dev, &info);
	if (ret == 0)
		ret = configure(e, &info, nworkers);
	if (ret < 0)
		return problem(out, "%s cannot be configured: %s", c->dev, strerror(-ret));
	ret = set_mtu(e);
	if (ret < 0)
		return problem(out, "%s does not take mtu=%u: %s", c->dev, c->mtu, strerror(-ret));
	ret = set_up_queues(e);
	if (ret == 0)
		ret = make_locks(e, nworkers);
	if (ret < 0)
		return problem(out, "%s: no queues: %s", c->dev, strerror(-ret));
	ret = rte_eth_dev_start(e->dev);
	if (ret < 0)
		return problem(out, "%s does not start: %s", c->dev, strerror(-ret));
	e->started = true;
	return 0;
}

/* Does each queue have something that a worker can sleep on? */
static bool
has_interrupts(const struct eth_port *e)
{
	uint16_t i;

	for (i = 0; i < e->nrx; i++)
		if (sleep_check_eth(e->dev, i) < 0)
			return false;
	return true;
}

static int
start(struct eth_port *e, struct problem *out)
{
	const struct port_config *c = e->port->config;
	bool sleep = e->port->sw->config.idle.sleep;
	int ret;

	e->rx_intr = sleep;
	ret = bring_up(e, out);
	if (ret < 0 && sleep) {
		/* Some refuse to start with what they do not have. */
		e->rx_intr = false;
		ret = bring_up(e, out);
	}
	if (ret < 0)
		return ret;
	e->rx_intr = e->rx_intr && has_interrupts(e);
	if (sleep && !e->rx_intr)
		LOG(NOTICE, "port %s: %s has no receive interrupts: its workers poll", c->name,
			c->dev);
	/* Some take everything anyway and have no such mode. */
	ret = rte_eth_promiscuous_enable(e->dev);
	if (ret < 0 && ret != -ENOTSUP)
		LOG(WARNING, "port %s: %s is not promiscuous: %s", c->name, c->dev, strerror(-ret));
	return 0;
}

static int
eth_port_view(struct port *p, struct view *view)
{
	const struct eth_port *e = p->impl;
	struct view_port *vp = &view->ports[p->id];
	uint16_t i;

	vp->kind = VIEW_ETH;
	vp->max_len = e->max_len;
	vp->dev = e->dev;
	vp->ntx = e->ntx;
	vp->tx_locks = e->tx_locks;
	vp->multi_segs = e->multi_segs;
	view->eth |= UINT64_C(1) << p->id;
	view->members |= UINT64_C(1) << p->id;
	for (i = 0; i < e->nrx; i++) {
		const struct inlet in = {.port = (uint16_t)p->id, .queue = i, .wakes = e->rx_intr};
		uint32_t worker = vswitch_worker_for(p->sw, p->id, i, atomic_load(&p->node));

		if (view_add_inlet(view, worker, &in) < 0)
			return -ENOMEM;
	}
	return 0;
}

static void
eth_port_destroy(struct port *p)
{
	struct eth_port *e = p->impl;

	if (e->started)
		(void)rte_eth_dev_stop(e->dev);
	(void)rte_eth_dev_close(e->dev);
	free(e->tx_locks);
	free(e);
}

static const struct port_ops eth_port_ops = {
	.destroy = eth_port_destroy,
	.view = eth_port_view,
};

int
eth_port_create(struct port *p, struct problem *out)
{
	struct eth_port *e;
	uint16_t dev;
	int ret;

	if (rte_eth_dev_get_port_by_name(p->config->dev, &dev) != 0)
		return problem(out,
			"there is no ethdev %s: give EAL --vdev %s,.. or -a its address",
			p->config->dev, p->config->dev);
	e = calloc(1, sizeof(*e));
	if (e == NULL)
		return problem(out, "out of memory");
	e->port = p;
	e->dev = dev;
	p->impl = e;
	p->ops = &eth_port_ops;
	ret = start(e, out);
	if (ret < 0)
		return ret;
	atomic_store(&p->node, rte_eth_dev_socket_id(dev));
	atomic_store(&p->queue_pairs, RTE_MIN(e->nrx, e->ntx));
	/*
	 * Whatever its link says: drivers are wrong about it (net_tap, when its interface was given
	 * to a container), and where it is right, what the device does not take is counted as
	 * tx_full.
	 */
	atomic_store(&p->state, PORT_UP);
	LOG(NOTICE, "port %s: up, ethdev %s, %u receive and %u transmit queue%s", p->config->name,
		p->config->dev, e->nrx, e->ntx, e->ntx == 1 ? "" : "s");
	return 0;
}
