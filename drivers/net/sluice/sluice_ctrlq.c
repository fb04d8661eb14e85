/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <time.h>

#include <rte_malloc.h>

#include "sluice_ctrlq.h"
#include "vu_time.h"

/* Longest wait for an answer, and the pause between two looks. */
#define ANSWER_MS       1000
#define ANSWER_PAUSE_NS 20000

/* Classes and commands (5.1.6.5). */
#define CLASS_RX        0
#define RX_PROMISC      0
#define RX_ALLMULTI     1
#define CLASS_MAC       1
#define MAC_ADDR_SET    1
#define CLASS_MQ        4
#define MQ_VQ_PAIRS_SET 0
#define CLASS_COALESCE  6
#define COALESCE_RX_SET 1
#define COALESCE_VQ_SET 2
#define ACK_OK          0

/* Moderation of a queue's interrupts, or of all receive queues' (5.1.6.5.10). */
struct coalesce {
	uint32_t max_packets;
	uint32_t max_usecs;
};

struct coalesce_vq {
	uint16_t vq_index;
	uint16_t reserved;
	struct coalesce coalesce;
};

/* As it lies in the memory beside the ring. */
struct command {
	uint8_t class;
	uint8_t command;
	uint8_t data[12];
	uint8_t ack;
};

int
sluice_ctrlq_create(struct sluice_dev *dev, uint16_t index, uint32_t size)
{
	struct sluice_ctrlq *ctrl = rte_zmalloc_socket(
		"sluice ctrl", sizeof(*ctrl), RTE_CACHE_LINE_SIZE, dev->data->numa_node);
	int err;

	if (ctrl == NULL)
		return -ENOMEM;
	err = sluice_ring_create(&ctrl->ring, dev, index, size, 0, dev->data->numa_node);
	if (err != 0) {
		rte_free(ctrl);
		return err;
	}
	dev->ctrlq = ctrl;
	return 0;
}

void
sluice_ctrlq_destroy(struct sluice_dev *dev)
{
	if (dev->ctrlq == NULL)
		return;
	sluice_ring_destroy(&dev->ctrlq->ring);
	rte_free(dev->ctrlq);
	dev->ctrlq = NULL;
}

void
sluice_ctrlq_prepare(struct sluice_dev *dev, uint64_t features)
{
	vq_driver_reset(&dev->ctrlq->ring.vq, features);
	dev->ctrlq->live = false;
	dev->ctrlq->dead = false;
}

static int
wait_answer(struct vq_driver *vq)
{
	const struct timespec pause = {.tv_nsec = ANSWER_PAUSE_NS};
	const uint64_t end = vu_now_ms() + ANSWER_MS;
	uint32_t len;
	void *cookie;

	while (vq_driver_reap(vq, &cookie, &len, 1) == 0) {
		if (vq->fault != VQ_DRIVER_OK || vu_now_ms() >= end)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

static int
ask(struct sluice_dev *dev, uint8_t class, uint8_t command, const void *data, uint32_t len)
{
	struct sluice_ctrlq *ctrl = dev->ctrlq;
	struct command *c;
	struct vq_sg out, in;

	if (ctrl->dead)
		return -ETIMEDOUT;
	c = sluice_ring_tail(&ctrl->ring);
	c->class = class;
	c->command = command;
	memcpy(c->data, data, len);
	c->ack = UINT8_MAX;
	out.addr = sluice_ring_addr(&ctrl->ring, c);
	out.len = (uint32_t)offsetof(struct command, data) + len;
	in.addr = sluice_ring_addr(&ctrl->ring, &c->ack);
	in.len = sizeof(c->ack);
	vq_driver_add_request(&ctrl->ring.vq, &out, &in, c);
	vq_driver_publish(&ctrl->ring.vq);
	sluice_ring_notify(&ctrl->ring);
	if (wait_answer(&ctrl->ring.vq) != 0) {
		ctrl->dead = true;
		SLUICE_LOG(ERR, dev->name,
			"the device does not answer on its control queue: not asked again until it "
			"is "
			"started anew");
		return -ETIMEDOUT;
	}
	return *(volatile uint8_t *)&c->ack == ACK_OK ? 0 : -EREMOTEIO;
}

static bool
has(const struct sluice_dev *dev, uint64_t feature)
{
	return dev->ctrlq != NULL && (dev->features & feature) != 0;
}

int
sluice_ctrlq_rx_mode(struct sluice_dev *dev, bool promiscuous, bool all_multicast)
{
	const uint8_t promisc = promiscuous, allmulti = all_multicast;
	int err;

	if (!has(dev, VQ_FEATURE(CTRL_RX)))
		return -ENOTSUP;
	if (!dev->ctrlq->live)
		return 0;
	err = ask(dev, CLASS_RX, RX_PROMISC, &promisc, sizeof(promisc));
	return err != 0 ? err : ask(dev, CLASS_RX, RX_ALLMULTI, &allmulti, sizeof(allmulti));
}

int
sluice_ctrlq_mac(struct sluice_dev *dev, const struct rte_ether_addr *mac)
{
	if (!has(dev, VQ_FEATURE(CTRL_MAC_ADDR)))
		return -ENOTSUP;
	if (!dev->ctrlq->live)
		return 0;
	return ask(dev, CLASS_MAC, MAC_ADDR_SET, mac, sizeof(*mac));
}

int
sluice_ctrlq_pairs(struct sluice_dev *dev, uint16_t pairs)
{
	if (!has(dev, VQ_FEATURE(MQ)))
		return -ENOTSUP;
	if (!dev->ctrlq->live)
		return 0;
	return ask(dev, CLASS_MQ, MQ_VQ_PAIRS_SET, &pairs, sizeof(pairs));
}

int
sluice_ctrlq_coalesce_rx(struct sluice_dev *dev, uint32_t frames, uint32_t usecs)
{
	const struct coalesce all = {frames, usecs};

	if (!has(dev, VQ_FEATURE(NOTF_COAL)))
		return -ENOTSUP;
	if (!dev->ctrlq->live)
		return 0;
	return ask(dev, CLASS_COALESCE, COALESCE_RX_SET, &all, sizeof(all));
}

int
sluice_ctrlq_coalesce_vq(struct sluice_dev *dev, uint16_t index, uint32_t frames, uint32_t usecs)
{
	const struct coalesce_vq one = {.vq_index = index, .coalesce = {frames, usecs}};

	if (!has(dev, VQ_FEATURE(VQ_NOTF_COAL)))
		return -ENOTSUP;
	if (!dev->ctrlq->live)
		return 0;
	return ask(dev, CLASS_COALESCE, COALESCE_VQ_SET, &one, sizeof(one));
}
