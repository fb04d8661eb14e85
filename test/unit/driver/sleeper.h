/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * An application that sleeps on receive interrupts, step by step, and the device that sends to it.
 * For the two test programs of these.
 */
#ifndef SLEEPER_H
#define SLEEPER_H

#include <stdint.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "rig.h"

static struct rig r;
static uint8_t frame[9018];
static int epfd;

static inline void
watch(uint16_t queue)
{
	assert_int_equal(rte_eth_dev_rx_intr_ctl_q(r.port, queue, epfd, RTE_INTR_EVENT_ADD,
				 (void *)(uintptr_t)(queue + 1)),
		0);
}

static inline int
setup(void **state)
{
	const struct rig_case *c = *state;
	uint16_t i;

	rig_up(c->r, &c->config);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(epfd >= 0);
	for (i = 0; c->config.interrupts && i < RTE_MAX(c->config.rxq, 1); i++)
		watch(i);
	return 0;
}

static inline int
teardown(void **state)
{
	const struct rig_case *c = *state;

	rig_down(c->r);
	close(epfd);
	return 0;
}

/* Would a sleep end by itself? 0 or the queue + 1; -1: both of two. */
static inline int
woken(int timeout_ms)
{
	struct rte_epoll_event events[4];
	int n = rte_epoll_wait(epfd, events, COUNT_OF(events), timeout_ms);

	assert_in_range(n, 0, 2);
	if (n == 2)
		return -1;
	return n == 0 ? 0 : (int)(uintptr_t)events[0].epdata.data;
}

static inline void
arm(uint16_t queue)
{
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, queue), 0);
}

static inline void
disarm(uint16_t queue)
{
	assert_int_equal(rte_eth_dev_rx_intr_disable(r.port, queue), 0);
}

static inline uint16_t
receive(uint16_t queue)
{
	struct rte_mbuf *pkts[RIG_RING];
	uint16_t n = rte_eth_rx_burst(r.port, queue, pkts, RIG_RING);

	rte_pktmbuf_free_bulk(pkts, n);
	return n;
}

/* A frame into queue 0; is it called? */
static inline bool
send_one(void)
{
	rig_pattern(frame, 60, 5);
	rig_send(&r, frame, 60, -1);
	return rig_call(&r, 0);
}

/* With EVENT_IDX the first call of a ring is made whatever the driver wants. */
static inline void
settle(void)
{
	(void)send_one();
	assert_int_equal(receive(0), 1);
	(void)woken(0);
}

/** A case with a port whose queues are registered, and may be slept on. */
#define SLEEP_TEST(how, test)                                                                      \
	cmocka_unit_test_prestate_setup_teardown(                                                  \
		test, setup, teardown, &((struct rig_case){.r = &r, .config = (how)}))

#endif
