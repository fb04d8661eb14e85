/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Receive interrupts in container mode: the eventfd that the backend calls a ring by is the one
 * that the application sleeps on. It is the ring's own: it stays when backends come and go.
 *
 * Where the driver moderates (sluice_coalesce.h), there is a timer beside it, and the application
 * sleeps on an epoll descriptor of both. Nobody waits on that one itself: it is readable as long as
 * one of the two is, and each wake of either is an edge to whoever watches it.
 */

#include <errno.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <rte_interrupts.h>

#include "user.h"

static void
close_timer(struct sluice_coalesce *c)
{
	if (c->timer >= 0)
		close(c->timer);
	if (c->sleep >= 0)
		close(c->sleep);
	c->timer = -1;
	c->sleep = -1;
	c->ticking = false;
	c->until_ns = 0;
}

static int
open_timer(struct sluice_rxq *q)
{
	struct sluice_coalesce *c = &q->coalesce;
	struct epoll_event in = {.events = EPOLLIN};

	c->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	c->sleep = epoll_create1(EPOLL_CLOEXEC);
	if (c->timer >= 0 && c->sleep >= 0 &&
		epoll_ctl(c->sleep, EPOLL_CTL_ADD, c->timer, &in) == 0 &&
		epoll_ctl(c->sleep, EPOLL_CTL_ADD, q->ring.call, &in) == 0)
		return 0;
	return -errno;
}

static void
close_timers(struct sluice_dev *dev)
{
	uint16_t i;

	for (i = 0; i < dev->data->nb_rx_queues; i++) {
		struct sluice_rxq *q = dev->data->rx_queues[i];

		if (q != NULL)
			close_timer(&q->coalesce);
	}
}

/* The descriptor that the application sleeps on. @return it or an errno */
static int
descriptor_of(struct sluice_rxq *q)
{
	int err;

	if (q->ring.dev->args.coalesce == SLUICE_COALESCE_OFF)
		return q->ring.call;
	err = open_timer(q);
	return err != 0 ? err : q->coalesce.sleep;
}

int
user_rx_intr_start(struct sluice_dev *dev)
{
	struct rte_eth_dev *eth = &rte_eth_devices[dev->data->port_id];
	const uint16_t n = dev->data->nb_rx_queues;
	struct rte_intr_handle *handle = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	uint16_t i;
	int err, fd;

	if (handle == NULL)
		return -ENOMEM;
	err = rte_intr_type_set(handle, RTE_INTR_HANDLE_VDEV);
	if (err == 0)
		err = rte_intr_fd_set(handle, -1);
	/* EAL does not read them after a wake: it waits for edges, and would spin where a backend
	 * has read one before. */
	if (err == 0)
		err = rte_intr_efd_counter_size_set(handle, 0);
	/* As many as there are eventfds: then nobody but us closes these. */
	if (err == 0)
		err = rte_intr_max_intr_set(handle, n);
	if (err == 0)
		err = rte_intr_nb_efd_set(handle, n);
	for (i = 0; i < n && err == 0; i++) {
		fd = descriptor_of(dev->data->rx_queues[i]);
		err = fd < 0 ? fd : rte_intr_efds_index_set(handle, i, fd);
	}
	if (err != 0) {
		close_timers(dev);
		rte_intr_instance_free(handle);
		return err;
	}
	eth->intr_handle = handle;
	return 0;
}

void
user_rx_intr_stop(struct sluice_dev *dev)
{
	struct rte_eth_dev *eth = &rte_eth_devices[dev->data->port_id];

	rte_intr_instance_free(eth->intr_handle);
	eth->intr_handle = NULL;
	close_timers(dev);
}
