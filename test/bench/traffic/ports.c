/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rte_ether.h>
#include <rte_mbuf.h>

#include "frame.h"
#include "ports.h"
#include "xstats.h"

#define POOL_CACHE 256
/* Beside the rings: bursts on their way, caches, a net_ring between the two. */
#define POOL_SLACK  4096
#define LINK_LOOKS  100 /* a second */
#define FRAME_EXTRA (RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN)
/* IEEE 802: local experimental. */
#define ANNOUNCE_TYPE 0x88b5

static int
find(const char *option, const char *text, uint16_t *id, struct problem *p)
{
	char *end;
	unsigned long number = strtoul(text, &end, 10);

	if (isdigit((unsigned char)text[0]) && *end == '\0') {
		if (number < RTE_MAX_ETHPORTS && rte_eth_dev_is_valid_port((uint16_t)number)) {
			*id = (uint16_t)number;
			return 0;
		}
	} else if (rte_eth_dev_get_port_by_name(text, id) == 0) {
		return 0;
	}
	return problem(p,
		"%s: there is no port %s: give EAL a device, such as --vdev net_ring0, "
		"and its name or number (0..%d) here",
		option, text, rte_eth_dev_count_avail() - 1);
}

int
ports_find(struct ports *ports, const struct options *o, struct problem *p)
{
	struct port *at = ports->port;
	uint16_t id = 0;

	memset(ports, 0, sizeof(*ports));
	if (o->tx[0] != '\0') {
		if (find("--tx", o->tx, &id, p) < 0)
			return -EINVAL;
		at->id = id;
		at->used = at->sends = true;
		ports->tx = at++;
	}
	if (o->rx[0] != '\0') {
		if (find("--rx", o->rx, &id, p) < 0)
			return -EINVAL;
		if (ports->tx != NULL && ports->tx->id == id)
			at = ports->tx;
		at->id = id;
		at->used = at->receives = true;
		ports->rx = at;
	}
	return 0;
}

static void
prepare_mbuf(struct rte_mempool *pool, void *longest, void *object, unsigned int index)
{
	struct rte_mbuf *m = object;

	RTE_SET_USED(pool);
	RTE_SET_USED(index);
	frame_prepare((uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM, *(const uint32_t *)longest);
}

static int
make_pools(struct ports *ports, const struct options *o, struct problem *p)
{
	uint32_t longest = options_longest(o);
	uint32_t room = RTE_MAX(longest + RTE_VLAN_HLEN, (uint32_t)RTE_MBUF_DEFAULT_DATAROOM);
	uint32_t n = o->mbufs;
	uint32_t i;

	room = RTE_ALIGN_CEIL(room + RTE_PKTMBUF_HEADROOM, 128);
	for (i = 0; i < 2 && o->mbufs == 0; i++)
		n += ports->port[i].rx_descs * ports->port[i].rx_queues +
		     ports->port[i].tx_descs * ports->port[i].tx_queues;
	if (o->mbufs == 0)
		n += POOL_SLACK + 2 * o->burst;
	ports->rx_pool = rte_pktmbuf_pool_create("traffic_rx", n,
		POOL_CACHE < n / 2 ? POOL_CACHE : 0, 0, (uint16_t)room, SOCKET_ID_ANY);
	if (ports->rx_pool != NULL && ports->tx != NULL)
		ports->tx_pool = rte_pktmbuf_pool_create("traffic_tx", n,
			POOL_CACHE < n / 2 ? POOL_CACHE : 0, 0, (uint16_t)room, SOCKET_ID_ANY);
	if (ports->rx_pool == NULL || (ports->tx != NULL && ports->tx_pool == NULL))
		return problem(p,
			"no memory for two pools of %u mbufs of %u bytes: give EAL more "
			"(-m), or fewer --mbufs",
			n, room);
	if (ports->tx_pool != NULL)
		rte_mempool_obj_iter(ports->tx_pool, prepare_mbuf, &longest);
	return 0;
}

/* Queues of one direction: what was asked for where it counts, else one if the port has any. */
static int
queues_of(const struct port *port, bool counts, uint32_t wanted, uint16_t max, const char *what,
	uint16_t *n, struct problem *p)
{
	if (counts && wanted > max)
		return problem(p,
			"port %s has %u %s queues: give --queues %u or less, or another "
			"port",
			port->name, max, what, max);
	*n = RTE_MIN((uint16_t)wanted, max);
	return 0;
}

static int
configure(struct port *port, const struct options *o, struct problem *p)
{
	uint32_t longest = options_longest(o);
	struct rte_eth_conf conf = {.intr_conf.rxq = o->sleep && port->receives};
	struct rte_eth_dev_info info;
	int ret;

	rte_eth_dev_get_name_by_port(port->id, port->name);
	ret = rte_eth_dev_info_get(port->id, &info);
	if (ret == 0)
		ret = rte_eth_macaddr_get(port->id, &port->mac);
	if (ret < 0)
		return problem(p, "port %s: %s", port->name, strerror(-ret));
	port->driver = info.driver_name;
	if (queues_of(port, port->receives, o->queues, info.max_rx_queues, "receive",
		    &port->rx_queues, p) < 0 ||
		queues_of(port, port->sends, o->queues, info.max_tx_queues, "transmit",
			&port->tx_queues, p) < 0)
		return -EINVAL;
	if (longest > RTE_ETHER_MAX_LEN - RTE_ETHER_CRC_LEN)
		conf.rxmode.mtu = longest - RTE_ETHER_HDR_LEN;
	ret = rte_eth_dev_configure(port->id, port->rx_queues, port->tx_queues, &conf);
	if (ret < 0)
		return problem(p,
			"port %s cannot have %u queues each way and frames of %u bytes: "
			"%s",
			port->name, o->queues, longest, strerror(-ret));
	port->rx_descs =
		(uint16_t)(o->rx_descs != 0 ? o->rx_descs : info.default_rxportconf.ring_size);
	port->tx_descs =
		(uint16_t)(o->tx_descs != 0 ? o->tx_descs : info.default_txportconf.ring_size);
	if (port->rx_descs == 0)
		port->rx_descs = RTE_ETH_DEV_FALLBACK_RX_RINGSIZE;
	if (port->tx_descs == 0)
		port->tx_descs = RTE_ETH_DEV_FALLBACK_TX_RINGSIZE;
	ret = rte_eth_dev_adjust_nb_rx_tx_desc(port->id, &port->rx_descs, &port->tx_descs);
	if (ret < 0)
		return problem(p, "port %s cannot have rings of %u and %u: %s", port->name,
			port->rx_descs, port->tx_descs, strerror(-ret));
	return 0;
}

static int
start(struct port *port, struct rte_mempool *pool, struct problem *p)
{
	uint16_t q;
	int ret = 0;

	for (q = 0; q < port->rx_queues && ret == 0; q++)
		ret = rte_eth_rx_queue_setup(
			port->id, q, port->rx_descs, SOCKET_ID_ANY, NULL, pool);
	if (ret < 0)
		return problem(p, "port %s: receive queue of %u descriptors: %s", port->name,
			port->rx_descs, strerror(-ret));
	for (q = 0; q < port->tx_queues && ret == 0; q++)
		ret = rte_eth_tx_queue_setup(port->id, q, port->tx_descs, SOCKET_ID_ANY, NULL);
	if (ret < 0)
		return problem(p, "port %s: transmit queue of %u descriptors: %s", port->name,
			port->tx_descs, strerror(-ret));
	ret = rte_eth_dev_start(port->id);
	if (ret < 0)
		return problem(p, "port %s does not start: %s", port->name, strerror(-ret));
	/* Not every driver has it; those that lack it do not filter either. */
	(void)rte_eth_promiscuous_enable(port->id);
	return 0;
}

static int
wait_link(const struct port *port, uint32_t seconds, struct problem *p)
{
	struct rte_eth_link link;
	uint32_t i;

	for (i = 0; i <= seconds * LINK_LOOKS; i++) {
		if (rte_eth_link_get_nowait(port->id, &link) < 0 || link.link_status)
			return 0;
		usleep(1000000 / LINK_LOOKS);
	}
	return problem(p,
		"port %s has no link after %u s: start its other side, or give --link "
		"more seconds",
		port->name, seconds);
}

int
ports_open(struct ports *ports, const struct options *o, struct problem *p)
{
	uint32_t i;

	for (i = 0; i < 2; i++)
		if (ports->port[i].used && configure(&ports->port[i], o, p) < 0)
			return -EINVAL;
	if (make_pools(ports, o, p) < 0)
		return -EINVAL;
	for (i = 0; i < 2; i++)
		if (ports->port[i].used && start(&ports->port[i], ports->rx_pool, p) < 0)
			return -EINVAL;
	for (i = 0; i < 2; i++)
		if (ports->port[i].used && wait_link(&ports->port[i], o->link_s, p) < 0)
			return -EINVAL;
	return 0;
}

void
ports_close(struct ports *ports)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		if (!ports->port[i].used || ports->port[i].name[0] == '\0')
			continue;
		(void)rte_eth_dev_stop(ports->port[i].id);
		(void)rte_eth_dev_close(ports->port[i].id);
	}
	rte_mempool_free(ports->tx_pool);
	rte_mempool_free(ports->rx_pool);
}

void
ports_mark(struct ports *ports)
{
	uint32_t i;

	for (i = 0; i < 2; i++) {
		struct port *port = &ports->port[i];

		if (!port->used)
			continue;
		port->cleared = xstats_clear(port->id) == 0;
		(void)rte_eth_stats_get(port->id, &port->before);
	}
}

int
ports_announce(struct ports *ports, const uint8_t mac[6], struct problem *p)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(ports->rx_pool);
	struct rte_ether_hdr *eth = NULL;

	if (m != NULL)
		eth = (void *)rte_pktmbuf_append(m, SIZE_LEAST);
	if (eth == NULL || ports->rx->tx_queues == 0)
		return problem(p, "--announce: port %s cannot send", ports->rx->name);
	memset(eth, 0, SIZE_LEAST);
	memset(&eth->dst_addr, 0xff, 6);
	memcpy(&eth->src_addr, mac, 6);
	eth->ether_type = RTE_BE16(ANNOUNCE_TYPE);
	if (rte_eth_tx_burst(ports->rx->id, 0, &m, 1) == 1)
		return 0;
	rte_pktmbuf_free(m);
	return problem(p, "--announce: port %s did not take the frame", ports->rx->name);
}
