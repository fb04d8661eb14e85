/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The poll-mode driver and a device in one thread, for instr.py: what an application's receive and
 * transmit bursts cost, mbufs and their pool included. The device is the test's, as in the unit
 * tests; its instructions are of no interest.
 *
 *	pmd_instr PACKETS DEVARGS MBUFS
 *
 * Each packet that arrives is sent back, as MBUFS segments: 1, or the received one and another.
 */

#include <stdio.h>
#include <stdlib.h>

#include <rte_eal.h>

#include "rig.h"

#define RING   256
#define BURST  32
#define LEN    60
#define BUFFER (2048 + RTE_PKTMBUF_HEADROOM)

/* Room for both rings, the burst, second segments, and what the lcore's cache holds. */
#define MBUFS 4095
#define CACHE 256

static struct rig r;

static void
bring_up(const char *args)
{
	const struct rig_config config = {.args = args, .ring = RING};

	r.pool = rte_pktmbuf_pool_create("pmd", MBUFS, CACHE, 0, BUFFER, SOCKET_ID_ANY);
	if (r.pool == NULL)
		exit(1);
	rig_backend_start(&r);
	if (rig_probe(&r, &config) != 0 || rig_configure(&r, &config) != 0 ||
		rte_eth_dev_start(r.port) != 0)
		exit(1);
	rig_wait_link(&r, true);
	vq_device_disarm(rig_ring(&r, 0));
	vq_device_disarm(rig_ring(&r, 1));
}

static void
lap(const uint8_t *frame, uint32_t segs)
{
	struct rte_mbuf *pkts[BURST], *more[BURST];
	struct vq_net_hdr hdr;
	uint8_t taken[2 * LEN];
	uint32_t i, nseg;

	for (i = 0; i < BURST; i++)
		rig_send(&r, frame, LEN, -1);
	if (rte_eth_rx_burst(r.port, 0, pkts, BURST) != BURST)
		exit(1);
	if (segs > 1 && rte_pktmbuf_alloc_bulk(r.pool, more, BURST) != 0)
		exit(1);
	for (i = 0; i < BURST && segs > 1; i++) {
		(void)rte_pktmbuf_append(more[i], LEN);
		(void)rte_pktmbuf_chain(pkts[i], more[i]);
	}
	if (rte_eth_tx_burst(r.port, 0, pkts, BURST) != BURST)
		exit(1);
	for (i = 0; i < BURST; i++) {
		if (rig_take(&r, taken, sizeof(taken), &hdr, &nseg) != (int)(segs * LEN))
			exit(1);
	}
	rig_complete(&r);
}

int
main(int argc, char **argv)
{
	char args[][32] = {"pmd_instr", "--no-huge", "-m", "96", "--no-pci", "--no-shconf",
		"--no-telemetry", "-l", "0"};
	char *eal[COUNT_OF(args)];
	uint8_t frame[LEN];
	uint32_t i, packets;

	if (argc != 4)
		return 2;
	packets = (uint32_t)strtoul(argv[1], NULL, 10);
	for (i = 0; i < COUNT_OF(args); i++)
		eal[i] = args[i];
	if (rte_eal_init((int)COUNT_OF(args), eal) < 0)
		return 1;
	bring_up(argv[2]);
	rig_pattern(frame, LEN, 0);
	for (i = 0; i < packets; i += BURST)
		lap(frame, (uint32_t)strtoul(argv[3], NULL, 10));
	printf("%u\n", packets);
	return 0;
}
