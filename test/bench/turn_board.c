/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "turn_board.h"

#include <stdio.h>

#include <rte_eal.h>

#include "feature_bits.h"

int log_type = RTE_LOGTYPE_USER1;

int
board_eal(const char *name, uint32_t mb)
{
	char program[64], memory[16];
	char private[] = "--no-shconf", no_huge[] = "--no-huge", no_pci[] = "--no-pci",
	     telemetry[] = "--no-telemetry", lcores[] = "--lcores=0@0", quiet[] = "--log-level=4";
	char *eal[] = {program, private, no_huge, memory, no_pci, telemetry, lcores, quiet, NULL};

	snprintf(program, sizeof(program), "%s", name);
	snprintf(memory, sizeof(memory), "-m%u", mb);
	return rte_eal_init((int)RTE_DIM(eal) - 1, eal) < 0 ? -1 : 0;
}

int
board_init(struct board *b, const struct switch_config *config)
{
	struct vswitch *sw = &b->sw;
	uint32_t i;

	memset(b, 0, sizeof(*b));
	sw->config = *config;
	for (i = 0; i < sw->config.nports; i++) {
		sw->ports[i].sw = sw;
		sw->ports[i].id = i;
		sw->ports[i].config = &sw->config.ports[i];
	}
	if (stats_init(&sw->stats, 2) < 0 || view_domain_init(&sw->views, 1) < 0)
		return -ENOMEM;
	sw->fdb = fdb_create(config->addresses);
	sw->workers = b->workers;
	b->workers[0] = worker_create(sw, 0, 0);
	if (sw->fdb == NULL || learning_init(&sw->learning, config) < 0 || b->workers[0] == NULL)
		return -ENOMEM;
	sw->nworkers = 1;
	return rte_rcu_qsbr_thread_register(sw->views.readers, 0) == 0 ? 0 : -ENOMEM;
}

int
board_pool(struct board *b, uint32_t mbufs)
{
	b->sw.pool = rte_pktmbuf_pool_create("sluice_mbufs", mbufs, mbufs > 1024 ? 256 : 0, 0,
		RTE_MBUF_DEFAULT_BUF_SIZE, SOCKET_ID_ANY);
	return b->sw.pool != NULL ? 0 : -ENOMEM;
}

void
board_free(struct board *b)
{
	struct vswitch *sw = &b->sw;

	worker_free(b->workers[0]);
	fdb_free(sw->fdb);
	rte_mempool_free(sw->pool);
	learning_end(&sw->learning);
	view_domain_free(&sw->views);
	stats_free(&sw->stats);
}

static int
add_port(struct board *b, struct view *v, uint32_t id)
{
	const struct board_port *p = &b->ports[id];
	struct view_port *vp = &v->ports[id];
	struct vring *rings = b->rings[id];
	const struct inlet in = {.port = (uint16_t)id, .ring = &rings[1]};
	uint32_t i;

	for (i = 0; i < 2; i++) {
		rings[i].vq = i == 0 ? p->rx : p->tx;
		rings[i].port = (uint16_t)id;
		rings[i].call = rings[i].kick = -1;
	}
	vp->kind = VIEW_VHOST;
	vp->loopback = b->sw.config.ports[id].loopback;
	vp->max_len = longest_frame(b->sw.config.ports[id].mtu);
	vp->mergeable = (p->features & VQ_FEATURE(MRG_RXBUF)) != 0;
	vp->hdr_len = vq_net_hdr_len(p->features);
	vp->nrx = 1;
	vp->rx[0] = vp->rx_pair[0] = &rings[0];
	vp->mem = p->mem;
	if (!vp->loopback)
		v->members |= UINT64_C(1) << id;
	return view_add_inlet(v, 0, &in);
}

void
board_show(struct board *b, struct view *v)
{
	struct rte_rcu_qsbr *readers = b->sw.views.readers;

	rte_rcu_qsbr_thread_offline(readers, 0);
	view_replace(&b->sw.views, v);
	rte_rcu_qsbr_thread_online(readers, 0);
}

int
board_publish(struct board *b)
{
	struct view *v = view_create(1);
	uint32_t i;

	for (i = 0; v != NULL && i < b->sw.config.nports; i++)
		if (b->ports[i].rx != NULL && add_port(b, v, i) < 0)
			break;
	if (v == NULL || i != b->sw.config.nports) {
		view_free(v);
		return -ENOMEM;
	}
	board_show(b, v);
	return 0;
}
