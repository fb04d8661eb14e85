/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_malloc.h>
#include <rte_memzone.h>

#include "sluice.h"

/* Entries of a ring that stands in for a queue that the application did not set up. */
#define SPARE_SIZE UINT32_C(32)

static size_t
table_bytes(uint32_t size, uint32_t table_len)
{
	return (size_t)size * table_len * sizeof(struct vq_desc);
}

uint64_t
sluice_ring_addr(const struct sluice_ring *ring, const volatile void *at)
{
	if (ring->dev->transport->iova)
		return ring->zone->iova + (uint64_t)((uintptr_t)at - (uintptr_t)ring->zone->addr);
	return (uint64_t)(uintptr_t)at;
}

/* The part of the zone behind ring and tables. */
#define TAIL_BYTES VQ_CACHE_LINE

static int
make_zone(struct sluice_ring *ring, size_t bytes, int socket)
{
	char name[RTE_MEMZONE_NAMESIZE];

	snprintf(name, sizeof(name), "sluice_%u_%u", ring->dev->data->port_id, ring->index);
	ring->zone = rte_memzone_reserve_aligned(name, bytes, socket,
		ring->dev->transport->iova ? RTE_MEMZONE_IOVA_CONTIG : 0, VQ_CACHE_LINE);
	if (ring->zone == NULL) {
		SLUICE_LOG(ERR, ring->dev->name,
			"no %zu bytes for ring %u on socket %d: give DPDK more memory (%s)", bytes,
			ring->index, socket, rte_strerror(rte_errno));
		return -ENOMEM;
	}
	return 0;
}

int
sluice_ring_create(struct sluice_ring *ring, struct sluice_dev *dev, uint16_t index, uint32_t size,
	uint32_t table_len, int socket)
{
	struct vq_driver_config config = {
		.size = size,
		.features = dev->features,
		.table_len = table_len,
	};
	struct vq_layout layout;
	int err;

	ring->dev = dev;
	ring->index = index;
	ring->kick = -1;
	ring->call = -1;
	ring->addr_at = dev->transport->iova ? offsetof(struct rte_mbuf, SLUICE_MBUF_IOVA)
					     : offsetof(struct rte_mbuf, buf_addr);
	err = vq_layout(size, &layout);
	if (err == 0)
		err = make_zone(
			ring, layout.bytes + table_bytes(size, table_len) + TAIL_BYTES, socket);
	if (err != 0)
		return err;
	err = -ENOMEM;
	ring->priv = rte_zmalloc_socket(
		"sluice ring", vq_driver_private_bytes(size), RTE_CACHE_LINE_SIZE, socket);
	if (ring->priv == NULL)
		goto fail;
	config.ring = ring->zone->addr;
	config.priv = ring->priv;
	config.table = RTE_PTR_ADD(ring->zone->addr, layout.bytes);
	config.table_addr = sluice_ring_addr(ring, config.table);
	memset(sluice_ring_tail(ring), 0, TAIL_BYTES);
	err = vq_driver_init(&ring->vq, &config);
	if (err != 0)
		goto fail;
	/* On PCI the doorbell and an MSI-X vector are in their place. */
	if (dev->transport->iova)
		return 0;
	ring->kick = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	ring->call = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	err = -errno;
	if (ring->kick < 0 || ring->call < 0)
		goto fail;
	return 0;
fail:
	SLUICE_LOG(ERR, dev->name, "ring %u cannot be made: %s", index, rte_strerror(-err));
	sluice_ring_destroy(ring);
	return err;
}

void *
sluice_ring_tail(const struct sluice_ring *ring)
{
	return RTE_PTR_ADD(ring->zone->addr, ring->zone->len - TAIL_BYTES);
}

static void
close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

void
sluice_ring_destroy(struct sluice_ring *ring)
{
	close_fd(&ring->kick);
	close_fd(&ring->call);
	rte_free(ring->priv);
	ring->priv = NULL;
	(void)rte_memzone_free(ring->zone);
	ring->zone = NULL;
}

/*
 * A device wants both rings of a pair. Where the application has only one of the two queues, an
 * empty ring stands in for the other; it is enabled only in the first pair, without which no device
 * starts.
 */
int
sluice_spares_create(struct sluice_dev *dev)
{
	uint32_t i;
	int err;

	for (i = 0; i < 2 * dev->pairs; i++) {
		if (dev->rings[i] != NULL)
			continue;
		dev->spares[i] = rte_zmalloc_socket("sluice spare ring", sizeof(*dev->spares[i]),
			RTE_CACHE_LINE_SIZE, dev->data->numa_node);
		err = dev->spares[i] == NULL ? -ENOMEM
					     : sluice_ring_create(dev->spares[i], dev, (uint16_t)i,
						       RTE_MIN(SPARE_SIZE, dev->ring_max[i % 2]), 0,
						       dev->data->numa_node);
		if (err != 0) {
			rte_free(dev->spares[i]);
			dev->spares[i] = NULL;
			sluice_spares_destroy(dev);
			return err;
		}
		dev->rings[i] = dev->spares[i];
	}
	return 0;
}

void
sluice_spares_destroy(struct sluice_dev *dev)
{
	uint32_t i;

	for (i = 0; i < RTE_DIM(dev->spares); i++) {
		if (dev->spares[i] == NULL)
			continue;
		sluice_ring_destroy(dev->spares[i]);
		rte_free(dev->spares[i]);
		dev->spares[i] = NULL;
		dev->rings[i] = NULL;
	}
}
