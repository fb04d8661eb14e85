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
#include "segments.h"
#include "xstats.h"

#define POOL_CACHE 256
/* Beside the rings: bursts on their way, caches, a net_ring between the two. */
#define POOL_SLACK         4096
#define POOL_SLACK_OF_LONG 1024
#define LINK_LOOKS         100 /* a second */
/* A VLAN tag, and the header that virtio puts before a frame. */
#define FRAME_EXTRA   (RTE_VLAN_HLEN + 12)
#define ETHER_LONGEST 1514u
/* Up to this size a frame is one mbuf. */
#define WHOLE_MOST 9600
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
prepare_mbuf(struct rte_mempool *pool, void *bytes, void *object, unsigned int index)
{
	struct rte_mbuf *m = object;

	RTE_SET_USED(pool);
	RTE_SET_USED(index);
	frame_prepare((uint8_t *)m->buf_addr + RTE_PKTMBUF_HEADROOM, *(const uint32_t *)bytes);
}

static uint32_t
mtu_of(const struct options *o, const struct rte_eth_dev_info *info)
{
	uint32_t longest = RTE_MAX(options_longest(o), ETHER_LONGEST);
	uint32_t mtu = longest - RTE_ETHER_HDR_LEN;

	if (o->mtu != 0)
		return o->mtu;
	/* There may be room for a VLAN tag beside the MTU. */
	return longest <= info->max_rx_pktlen ? RTE_MIN(mtu, (uint32_t)info->max_mtu) : mtu;
}

/* What mbufs take: whole frames, if they are not very long. */
static void
choose_rooms(struct ports *ports, const struct options *o)
{
	uint32_t longest = options_longest(o);
	uint32_t room = RTE_MAX(longest + RTE_VLAN_HLEN, (uint32_t)RTE_MBUF_DEFAULT_DATAROOM);

	room = RTE_ALIGN_CEIL(room, 128);
	ports->tx_segment = longest <= WHOLE_MOST ? room : FRAME_PERIOD;
	ports->rx_room = longest <= WHOLE_MOST ? room : RTE_MBUF_DEFAULT_DATAROOM;
	if (o->mbuf_size != 0)
		ports->rx_room = o->mbuf_size;
}

static struct rte_mempool *
make_pool(const char *name, uint32_t n, uint32_t room, struct problem *p)
{
	uint32_t cache = POOL_CACHE < n / 2 ? POOL_CACHE : 0;
	struct rte_mempool *pool = rte_pktmbuf_pool_create(
		name, n, cache, 0, (uint16_t)(room + RTE_PKTMBUF_HEADROOM), SOCKET_ID_ANY);

	if (pool == NULL)
		problem(p,
			"no memory for %u mbufs of %u bytes: give EAL more (-m), or fewer "
			"--mbufs",
			n, room);
	return pool;
}

static int
make_pools(struct ports *ports, const struct options *o, struct problem *p)
{
	uint32_t segments = segments_of(options_longest(o), ports->tx_segment);
	uint32_t prepared = RTE_MIN(options_longest(o), ports->tx_segment);
	uint32_t slack = ports->rx_room <= WHOLE_MOST + 128 ? POOL_SLACK : POOL_SLACK_OF_LONG;
	uint32_t received = slack + 2 * o->burst, sent = 2 * o->burst, i;

	for (i = 0; i < 2; i++) {
		const struct port *port = &ports->port[i];

		sent += port->tx_descs * port->tx_queues;
		received += port->rx_descs * port->rx_queues + port->tx_descs * port->tx_queues;
	}
	sent = segments > 1 ? sent * segments + POOL_SLACK_OF_LONG : received;
	if (o->mbufs != 0 && ports->tx != NULL && o->mbufs < o->burst * segments)
		return problem(p, "--mbufs: a burst of frames needs %u: give as many or more",
			o->burst * segments);
	ports->rx_pool =
		make_pool("traffic_rx", o->mbufs != 0 ? o->mbufs : received, ports->rx_room, p);
	if (ports->rx_pool == NULL)
		return -EINVAL;
	if (ports->tx == NULL)
		return 0;
	ports->tx_pool =
		make_pool("traffic_tx", o->mbufs != 0 ? o->mbufs : sent, ports->tx_segment, p);
	if (ports->tx_pool == NULL)
		return -EINVAL;
	rte_mempool_obj_iter(ports->tx_pool, prepare_mbuf, &prepared);
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

/* What the port needs to be told for frames of more than one mbuf. */
static int
ask_for_segments(const struct ports *ports, struct port *port, uint32_t longest,
	const struct rte_eth_dev_info *info, struct rte_eth_conf *conf, struct problem *p)
{
	/* Drivers differ in what they count as a part of a frame beside its MTU. */
	port->scatter = (uint32_t)port->mtu + RTE_ETHER_HDR_LEN + FRAME_EXTRA > ports->rx_room &&
			(info->rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER) != 0;
	if (port->scatter)
		conf->rxmode.offloads |= RTE_ETH_RX_OFFLOAD_SCATTER;
	if (!port->sends || longest <= ports->tx_segment)
		return 0;
	if ((info->tx_offload_capa & RTE_ETH_TX_OFFLOAD_MULTI_SEGS) == 0)
		return problem(p,
			"port %s cannot send frames of several mbufs: give --size %u or less",
			port->name, WHOLE_MOST);
	conf->txmode.offloads |= RTE_ETH_TX_OFFLOAD_MULTI_SEGS;
	return 0;
}

static int
configure(const struct ports *ports, struct port *port, const struct options *o, struct problem *p)
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
	port->mtu = (uint16_t)mtu_of(o, &info);
	conf.rxmode.mtu = port->mtu;
	if (ask_for_segments(ports, port, longest, &info, &conf, p) < 0)
		return -EINVAL;
	ret = rte_eth_dev_configure(port->id, port->rx_queues, port->tx_queues, &conf);
	if (ret < 0)
		return problem(p, "port %s cannot have %u queues each way and an MTU of %u: %s",
			port->name, o->queues, port->mtu, strerror(-ret));
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
start(const struct ports *ports, struct port *port, struct problem *p)
{
	uint16_t q;
	int ret = 0;

	for (q = 0; q < port->rx_queues && ret == 0; q++)
		ret = rte_eth_rx_queue_setup(
			port->id, q, port->rx_descs, SOCKET_ID_ANY, NULL, ports->rx_pool);
	if (ret < 0)
		return problem(p,
			"port %s: receive queue of %u descriptors, buffers of %u bytes: %s",
			port->name, port->rx_descs, ports->rx_room, strerror(-ret));
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

	choose_rooms(ports, o);
	for (i = 0; i < 2; i++)
		if (ports->port[i].used && configure(ports, &ports->port[i], o, p) < 0)
			return -EINVAL;
	if (make_pools(ports, o, p) < 0)
		return -EINVAL;
	for (i = 0; i < 2; i++)
		if (ports->port[i].used && start(ports, &ports->port[i], p) < 0)
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
