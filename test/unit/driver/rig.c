/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <rte_bus_vdev.h>
#include <rte_eal.h>
#include <rte_errno.h>

#include "rig.h"

#define DEVICE  "net_sluice_user0"
#define HDR_LEN sizeof(struct vq_net_hdr)

int
rig_main(const struct CMUnitTest *tests, size_t n)
{
	char args[][32] = {"test", "--no-huge", "-m", "96", "--no-pci", "--no-shconf",
		"--no-telemetry", "-l", "0"};
	char *argv[COUNT_OF(args)];
	uint32_t i;

	for (i = 0; i < COUNT_OF(args); i++)
		argv[i] = args[i];
	if (rte_eal_init((int)COUNT_OF(args), argv) < 0)
		return 1;
	return _cmocka_run_group_tests("driver", tests, n, NULL, NULL);
}

void
rig_backend_start(struct rig *r)
{
	host_start(&r->h, 2, false);
	host_thread_start(&r->h);
	r->host_up = true;
}

void
rig_backend_restart(struct rig *r)
{
	host_restart(&r->h);
	host_thread_start(&r->h);
	r->host_up = true;
}

void
rig_backend_stop(struct rig *r)
{
	host_thread_stop(&r->h);
	host_stop(&r->h);
	r->host_up = false;
}

int
rig_probe(struct rig *r, const struct rig_config *config)
{
	char args[256];
	int err;

	snprintf(args, sizeof(args), "path=%s%s%s", r->h.config.socket.path,
		config->args == NULL ? "" : ",", config->args == NULL ? "" : config->args);
	err = rte_vdev_init(DEVICE, args);
	if (err == 0)
		assert_int_equal(rte_eth_dev_get_port_by_name(DEVICE, &r->port), 0);
	return err;
}

int
rig_configure(struct rig *r, const struct rig_config *config)
{
	const uint16_t rxq = config->rxq == 0 ? 1 : config->rxq;
	const uint16_t txq = config->txq == 0 ? 1 : config->txq;
	const uint16_t ring = config->ring == 0 ? RIG_RING : config->ring;
	struct rte_eth_conf conf = {
		.rxmode.mtu = config->mtu == 0 ? 1500 : config->mtu,
		.rxmode.offloads = config->scatter ? RTE_ETH_RX_OFFLOAD_SCATTER : 0,
		.txmode.offloads = config->tx_offloads == 0 ? RTE_ETH_TX_OFFLOAD_MULTI_SEGS
							    : config->tx_offloads,
		.intr_conf.rxq = config->interrupts,
	};
	uint16_t i;
	int err = rte_eth_dev_configure(r->port, rxq, txq, &conf);

	for (i = 0; i < rxq && err == 0; i++)
		err = rte_eth_rx_queue_setup(r->port, i, ring, SOCKET_ID_ANY, NULL, r->pool);
	for (i = 0; i < txq && err == 0; i++)
		err = rte_eth_tx_queue_setup(r->port, i, ring, SOCKET_ID_ANY, NULL);
	return err;
}

void
rig_wait_link(struct rig *r, bool up)
{
	struct rte_eth_link link = {0};
	int i;

	for (i = 0; i < 6000; i++) {
		assert_int_equal(rte_eth_link_get_nowait(r->port, &link), 0);
		if (link.link_status == (up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN))
			return;
		usleep(10000);
	}
	fail_msg("link does not go %s", up ? "up" : "down");
}

void
rig_up(struct rig *r, const struct rig_config *config)
{
	memset(r, 0, sizeof(*r));
	r->pool = rte_pktmbuf_pool_create("rig", RIG_POOL, config->cache, 0,
		config->room == 0 ? RIG_ROOM : config->room + RTE_PKTMBUF_HEADROOM, SOCKET_ID_ANY);
	assert_non_null(r->pool);
	rig_backend_start(r);
	if (config->absent)
		rig_backend_stop(r);
	assert_int_equal(rig_probe(r, config), 0);
	assert_int_equal(rig_configure(r, config), 0);
	assert_int_equal(rte_eth_dev_start(r->port), 0);
	if (!config->absent)
		rig_wait_link(r, true);
}

void
rig_down(struct rig *r)
{
	assert_int_equal(rte_vdev_uninit(DEVICE), 0);
	if (r->host_up)
		rig_backend_stop(r);
	assert_int_equal(rte_mempool_avail_count(r->pool), RIG_POOL);
	rte_mempool_free(r->pool);
}

int
rig_setup(void **state)
{
	const struct rig_case *c = *state;

	rig_up(c->r, &c->config);
	return 0;
}

int
rig_teardown(void **state)
{
	const struct rig_case *c = *state;

	rig_down(c->r);
	return 0;
}

uint64_t
rig_xstat(const struct rig *r, const char *name)
{
	uint64_t id, value;

	assert_int_equal(rte_eth_xstats_get_id_by_name(r->port, name, &id), 0);
	assert_int_equal(rte_eth_xstats_get_by_id(r->port, &id, &value, 1), 1);
	return value;
}

struct vq_device *
rig_ring(struct rig *r, uint32_t ring)
{
	struct vu_ring *vr;

	if (r->ring != NULL)
		return r->ring(r, ring);
	vr = vu_backend_ring(r->h.b, ring);
	assert_true(vr->ready);
	return &vr->vq;
}

void
rig_pattern(uint8_t *bytes, uint32_t len, uint32_t seed)
{
	uint32_t i;

	for (i = 0; i < len; i++)
		bytes[i] = (uint8_t)(seed + i * 7 + i / 251);
}

uint32_t
rig_send(struct rig *r, const uint8_t *frame, uint32_t len, int claim)
{
	struct vq_device *q = rig_ring(r, 0);
	struct vq_net_hdr *hdr = NULL;
	struct vq_chain chain;
	struct vq_seg seg[RIG_SEGS];
	uint32_t used = 0, done = 0, wrote, at, i, n;

	do {
		assert_int_equal(vq_device_peek(q, true, &chain, 1, seg, COUNT_OF(seg), 0), 1);
		assert_int_equal(chain.fault, VQ_DEVICE_OK);
		at = wrote = 0;
		if (hdr == NULL) {
			hdr = (struct vq_net_hdr *)(void *)seg[0].base;
			memset(hdr, 0, HDR_LEN);
			at = wrote = HDR_LEN;
		}
		for (i = 0; i < chain.nseg; i++, at = 0) {
			n = RTE_MIN(seg[i].len - at, len - done);
			memcpy(seg[i].base + at, frame + done, n);
			done += n;
			wrote += n;
		}
		used++;
		vq_device_complete(q, chain.head, wrote);
	} while (done < len);
	hdr->num_buffers = claim < 0 ? (uint16_t)used : (uint16_t)claim;
	vq_device_publish(q);
	return used;
}

void
rig_send_raw(struct rig *r, uint32_t used_len)
{
	struct vq_device *q = rig_ring(r, 0);
	struct vq_chain chain;
	struct vq_seg seg[RIG_SEGS];

	assert_int_equal(vq_device_peek(q, true, &chain, 1, seg, COUNT_OF(seg), 0), 1);
	memset(seg[0].base, 0, HDR_LEN);
	((struct vq_net_hdr *)(void *)seg[0].base)->num_buffers = 1;
	vq_device_complete(q, chain.head, used_len);
	vq_device_publish(q);
}

bool
rig_call(struct rig *r, uint32_t ring)
{
	const uint64_t one = 1;

	if (vq_device_call(rig_ring(r, ring), 1, 0) != VQ_CALL_MAKE)
		return false;
	assert_int_equal(write(vu_backend_ring(r->h.b, ring)->call, &one, sizeof(one)), 8);
	return true;
}

int
rig_take(struct rig *r, uint8_t *frame, uint32_t room, struct vq_net_hdr *hdr, uint32_t *nseg)
{
	struct vq_chain *chain = &r->taken[r->ntaken];
	uint8_t bytes[70000];
	struct vq_seg seg[300];
	uint32_t i, len = 0;

	if (vq_device_peek(rig_ring(r, 1), false, chain, 1, seg, COUNT_OF(seg), 0) == 0)
		return -1;
	assert_int_equal(chain->fault, VQ_DEVICE_OK);
	r->ntaken++;
	for (i = 0; i < chain->nseg; i++) {
		assert_true(len + seg[i].len <= sizeof(bytes));
		memcpy(bytes + len, seg[i].base, seg[i].len);
		len += seg[i].len;
	}
	assert_true(len >= HDR_LEN && len - HDR_LEN <= room);
	memcpy(hdr, bytes, HDR_LEN);
	memcpy(frame, bytes + HDR_LEN, len - HDR_LEN);
	*nseg = chain->nseg;
	return (int)(len - HDR_LEN);
}

void
rig_complete(struct rig *r)
{
	struct vq_device *q = rig_ring(r, 1);

	vq_device_complete_tx(q, r->taken, r->ntaken);
	vq_device_publish(q);
	r->ntaken = 0;
}

uint32_t
rig_free(const struct rig *r)
{
	return rte_mempool_avail_count(r->pool);
}

void
rig_scribble(struct rte_mbuf *m)
{
	for (; m != NULL; m = m->next) {
		m->data_off = 7;
		m->ol_flags = RTE_MBUF_F_RX_VLAN | RTE_MBUF_F_TX_IP_CKSUM;
		m->packet_type = 0x11;
		m->vlan_tci = 99;
		m->vlan_tci_outer = 98;
		m->tx_offload = 0x1234;
		m->port = 77;
		m->data_len = 3;
		m->pkt_len = 4;
	}
}

void
rig_scribble_pool(const struct rig *r)
{
	struct rte_mbuf *all[RIG_POOL + 1]; /* the last one fails */
	uint32_t n;

	for (n = 0; rte_mempool_get(r->pool, (void **)&all[n]) == 0; n++) {
		all[n]->next = NULL;
		rig_scribble(all[n]);
		all[n]->next = all[0];
		all[n]->nb_segs = 5;
		rte_mbuf_refcnt_set(all[n], 3);
	}
	rte_mempool_put_bulk(r->pool, (void **)all, n);
}
