/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Receive interrupts: an application that finds its queues empty arms them, and sleeps on their
 * eventfds until the device calls.
 *
 * An application goes to sleep right after arming, without another look at the ring. So whatever
 * would let it sleep although there is work makes its own eventfd readable, and the sleep ends at
 * once: frames that came before the ring was armed, a ring that lacks the buffers for a frame (who
 * sleeps posts none), a ring that was out of reach and is back.
 *
 * None of this costs the burst functions anything. They never look at `armed`.
 */

#include <errno.h>
#include <sys/uio.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_interrupts.h>

#include "sluice.h"
#include "sluice_gate.h"

int
sluice_intr_check(struct sluice_dev *dev)
{
	const struct sluice_transport *t = dev->transport;

	if (!dev->data->dev_conf.intr_conf.rxq)
		return 0;
	if (t->rx_intr_start == NULL)
		return sluice_refuse(dev, -ENOTSUP,
			"receive interrupts: this kind of device has none: configure without them");
	return t->rx_intr_check == NULL ? 0 : t->rx_intr_check(dev);
}

static int
set_vectors(struct rte_intr_handle *handle, uint16_t queues)
{
	int err = rte_intr_vec_list_alloc(handle, NULL, queues);
	uint16_t i;

	for (i = 0; i < queues && err == 0; i++)
		err = rte_intr_vec_list_index_set(handle, i, RTE_INTR_VEC_RXTX_OFFSET + i);
	return err;
}

int
sluice_intr_start(struct rte_eth_dev *eth)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	int err;

	if (!eth->data->dev_conf.intr_conf.rxq || dev->rx_intr || eth->data->nb_rx_queues == 0)
		return 0;
	err = dev->transport->rx_intr_start(dev);
	dev->rx_intr = err == 0;
	if (err == 0)
		err = set_vectors(eth->intr_handle, eth->data->nb_rx_queues);
	if (err != 0) {
		SLUICE_LOG(ERR, dev->name, "no receive interrupts: %s", rte_strerror(-err));
		sluice_intr_stop(eth);
	}
	return err;
}

void
sluice_intr_stop(struct rte_eth_dev *eth)
{
	struct sluice_dev *dev = sluice_dev_of(eth);
	uint16_t i;

	for (i = 0; i < eth->data->nb_rx_queues; i++) {
		struct sluice_rxq *q = eth->data->rx_queues[i];

		if (q != NULL)
			atomic_store(&q->armed, false);
	}
	if (!dev->rx_intr)
		return;
	rte_intr_free_epoll_fd(eth->intr_handle);
	rte_intr_vec_list_free(eth->intr_handle);
	dev->transport->rx_intr_stop(dev);
	dev->rx_intr = false;
}

static int
efd_of(const struct rte_eth_dev *eth, uint16_t queue)
{
	int vec = rte_intr_vec_list_index_get(eth->intr_handle, queue);

	return vec < RTE_INTR_VEC_RXTX_OFFSET
		       ? -1
		       : rte_intr_efds_index_get(eth->intr_handle, vec - RTE_INTR_VEC_RXTX_OFFSET);
}

/* What ends a sleep when it is written to. */
static int
eventfd_of(const struct rte_eth_dev *eth, uint16_t queue)
{
	const struct sluice_rxq *q = eth->data->rx_queues[queue];

	/* The application sleeps on something that is made of it, then. */
	return q->coalesce.sleep >= 0 ? q->ring.call : efd_of(eth, queue);
}

static void
wake(const struct rte_eth_dev *eth, uint16_t queue)
{
	const uint64_t one = 1;
	const int fd = eventfd_of(eth, queue);

	/* Full means that it is readable. */
	if (fd < 0 || write(fd, &one, sizeof(one)) < 0)
		return;
}

void
sluice_intr_wake(struct sluice_dev *dev)
{
	const struct rte_eth_dev *eth = &rte_eth_devices[dev->data->port_id];
	uint16_t i;

	for (i = 0; dev->rx_intr && i < dev->data->nb_rx_queues; i++) {
		struct sluice_rxq *q = dev->data->rx_queues[i];

		if (atomic_load(&q->armed))
			wake(eth, i);
	}
}

/* Wakes of the past: an application that waits for a level would not sleep. @return were there any?
 */
static bool
clear(const struct rte_eth_dev *eth, uint16_t queue)
{
	const int fd = eventfd_of(eth, queue);
	uint64_t count;
	const struct iovec into = {.iov_base = &count, .iov_len = sizeof(count)};

	/* The backend has it too, and may have made it one that waits. */
	return fd >= 0 && preadv2(fd, &into, 1, -1, RWF_NOWAIT) > 0;
}

/* Has the device fewer buffers than the largest frame takes? */
static bool
lacks_buffers(const struct sluice_rxq *q)
{
	return q->ring.vq.fault == VQ_DRIVER_OK &&
	       vq_driver_inflight(&q->ring.vq) * q->chain < q->refill.need;
}

int
sluice_rx_intr_enable(struct rte_eth_dev *eth, uint16_t queue)
{
	struct sluice_rxq *q = eth->data->rx_queues[queue];
	uint64_t ns;
	bool called, at_once;

	if (!eth->data->dev_conf.intr_conf.rxq)
		return -ENOTSUP;
	called = clear(eth, queue);
	/* Before the look at the gate: who opens it looks here afterwards. */
	atomic_store(&q->armed, true);
	if (!sluice_gate_enter(&q->ring)) {
		(void)sluice_coalesce_set_timer(&q->coalesce, 0);
		return 0;
	}
	sluice_rx_top_up(q);
	at_once = sluice_coalesce_arm(q, called, &ns) || lacks_buffers(q);
	q->stats.intr_armed++;
	q->stats.intr_at_once += at_once;
	sluice_gate_leave(&q->ring);
	if (sluice_coalesce_set_timer(&q->coalesce, at_once ? 0 : ns) != 0 || at_once)
		wake(eth, queue);
	return 0;
}

int
sluice_rx_intr_disable(struct rte_eth_dev *eth, uint16_t queue)
{
	struct sluice_rxq *q = eth->data->rx_queues[queue];

	if (!eth->data->dev_conf.intr_conf.rxq)
		return -ENOTSUP;
	atomic_store(&q->armed, false);
	sluice_coalesce_disarm(&q->coalesce);
	if (sluice_gate_enter(&q->ring)) {
		vq_driver_disarm(&q->ring.vq);
		sluice_gate_leave(&q->ring);
	}
	return 0;
}
