/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The driver in this process, under DPDK without hugepages, and a vhost-user backend beside it
 * whose device is the test: it sends and takes frames one by one, rightly or wrongly.
 */
#ifndef RIG_H
#define RIG_H

#include "host.h"

#include <rte_ethdev.h>
#include <rte_mbuf.h>

#define RIG_RING 64
#define RIG_POOL 255
#define RIG_ROOM (2048 + RTE_PKTMBUF_HEADROOM)
/* Descriptors of a receive chain at most. */
#define RIG_SEGS 256

struct rig {
	struct host h;
	bool host_up;
	uint16_t port;
	struct rte_mempool *pool;
	struct vq_chain taken[RIG_RING]; /* transmit chains that are not completed yet */
	uint32_t ntaken;
	/* The device's end of a ring; NULL: the backend's. */
	struct vq_device *(*ring)(struct rig *r, uint32_t ring);
};

/** What a port is made of; zeros stand for the defaults. */
struct rig_config {
	const char *args;     /* device arguments after path=..; default none */
	uint16_t rxq, txq;    /* default 1 */
	uint16_t ring;        /* default RIG_RING */
	uint16_t mtu;         /* default 1500 */
	uint16_t room;        /* bytes of a frame that an mbuf holds, default 2048 */
	uint16_t cache;       /* mbufs that an lcore keeps of the pool, default none */
	uint64_t tx_offloads; /* default MULTI_SEGS */
	bool scatter;
	bool interrupts; /* on receive */
	bool absent;     /* start without a backend */
};

/** DPDK, once a program; then run the tests. @return exit status */
int rig_main(const struct CMUnitTest *tests, size_t n);

/** A backend, a device and its port, started; a pool of RIG_POOL mbufs. */
void rig_up(struct rig *r, const struct rig_config *config);
/** Close all; every mbuf is back and no descriptor is left. */
void rig_down(struct rig *r);

/** A case with a port of its own: rig_up(), the test, rig_down(). */
#define RIG_TEST(rig, how, test)                                                                   \
	cmocka_unit_test_prestate_setup_teardown(                                                  \
		test, rig_setup, rig_teardown, &((struct rig_case){.r = (rig), .config = (how)}))

struct rig_case {
	struct rig *r;
	struct rig_config config;
};

int rig_setup(void **state);
int rig_teardown(void **state);

/** Make the device only: probe and configure, up to the queues. @return of the first call that
 * fails */
int rig_probe(struct rig *r, const struct rig_config *config);
int rig_configure(struct rig *r, const struct rig_config *config);
void rig_backend_start(struct rig *r);
/** At the path of the one that was stopped. */
void rig_backend_restart(struct rig *r);
void rig_backend_stop(struct rig *r);

/** Wait until the link is so, for some seconds at most. */
void rig_wait_link(struct rig *r, bool up);

/** A counter by its xstats name. */
uint64_t rig_xstat(const struct rig *r, const char *name);

/** The device's end of a ring. */
struct vq_device *rig_ring(struct rig *r, uint32_t ring);

/** Bytes that tell themselves apart. */
void rig_pattern(uint8_t *bytes, uint32_t len, uint32_t seed);

/**
 * The device writes a frame into receive buffers, as many as it needs, and publishes.
 * @param claim num_buffers in the header; -1: the truth
 * @return buffers used
 */
uint32_t rig_send(struct rig *r, const uint8_t *frame, uint32_t len, int claim);

/** The device completes one receive buffer with this length, whatever it holds, and publishes. */
void rig_send_raw(struct rig *r, uint32_t used_len);

/** The device calls a ring for what it has published, if the driver wants that. @return whether */
bool rig_call(struct rig *r, uint32_t ring);

/** The device takes the next transmitted frame. @return its length behind the header, -1: none */
int rig_take(struct rig *r, uint8_t *frame, uint32_t room, struct vq_net_hdr *hdr, uint32_t *nseg);

/** The device completes what it has taken. */
void rig_complete(struct rig *r);

/** Leave every mbuf of a packet as badly as an application may. */
void rig_scribble(struct rte_mbuf *m);

/** The mbufs in the pool, too, in all that a pool promises of those it gives raw. */
void rig_scribble_pool(const struct rig *r);

/** mbufs of the pool that the application could get. */
uint32_t rig_free(const struct rig *r);

#endif
