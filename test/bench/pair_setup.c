/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "pair.h"

/* The guest's memory in addresses of its own, so that translating is not for nothing. */
#define GUEST_ADDRESS UINT64_C(0x100000000)

#define SEGS 1024

/* The classic mixture: 7 of 64, 4 of 594, 1 of 1518. */
static const uint32_t imix[12] = {64, 594, 64, 64, 594, 64, 1518, 64, 594, 64, 594, 64};

static size_t
align(size_t n)
{
	return (n + 4095) & ~(size_t)4095;
}

static void *
private_memory(size_t bytes)
{
	void *p =
		aligned_alloc(BENCH_APART, (bytes + BENCH_APART - 1) & ~(size_t)(BENCH_APART - 1));

	if (p == NULL) {
		fprintf(stderr, "pair: no memory\n");
		exit(1);
	}
	memset(p, 0, bytes);
	return p;
}

static void
setup_driver_ring(const struct pair *p, struct vq_driver *q, uint8_t *ring, void *table)
{
	struct vq_driver_config config = {
		.size = p->o.ring,
		.features = p->o.features,
		.ring = ring,
		.priv = private_memory(vq_driver_private_bytes(p->o.ring)),
		.table = table,
		.table_addr = (uint64_t)(uintptr_t)table + p->guest_base,
		.table_len = table != NULL ? 2 : 0,
	};

	if (vq_driver_init(q, &config) != 0)
		pair_fail("driver's ring", 0, 1);
}

static void
setup_device_ring(const struct pair *p, struct vq_device *q, const struct vq_driver *driver)
{
	const struct vq_device_config config = {
		.size = p->o.ring,
		.features = p->o.features,
		.desc = driver->desc,
		.avail = driver->avail,
		.used = driver->used,
		.mem = p->device.mem,
		.first_byte = HDR_LEN,
	};

	if (vq_device_init(q, &config) != 0)
		pair_fail("device's ring", 0, 1);
}

/* The device's own frames: a private place to copy to, or what it sends. */
static void
setup_own(struct pair *p)
{
	struct device_end *d = &p->device;
	uint32_t n = PERIOD > BURST_MAX ? PERIOD : BURST_MAX;

	d->own = private_memory(n * sizeof(d->own[0]));
	for (uint32_t i = 0; i < PERIOD; i++) {
		struct packet *m = &d->own[i];

		m->len = pair_size_of(p, i);
		pair_fill_body(p, m->data, i, m->len);
		d->own_segs[i] = (struct vq_seg){m->data, m->len};
		d->own_frames[i] = (struct vq_frame){
			.len = m->len, .segs = &d->own_segs[i], .nseg = 1, .status = VQ_NET_OK};
	}
}

void
pair_setup(struct pair *p)
{
	struct driver_end *d = &p->driver;
	const uint32_t buffers = 2 * p->o.ring + 2 * BURST_MAX;
	const bool indirect = (p->o.features & VQ_FEATURE(INDIRECT_DESC)) != 0;
	const size_t table_bytes =
		align(indirect ? (size_t)p->o.ring * 2 * sizeof(struct vq_desc) : 0);
	struct vq_mem_region region;
	struct vq_layout layout;
	struct packet *packets;
	uint8_t *memory;
	size_t ring_bytes, bytes;

	if (vq_layout(p->o.ring, &layout) != 0)
		pair_fail("layout", 0, 1);
	ring_bytes = align(layout.bytes);
	bytes = align(HDR_LEN) + 2 * ring_bytes + table_bytes + buffers * sizeof(*packets);
	memory = map_memory("pair", bytes);
	region = (struct vq_mem_region){.addr = GUEST_ADDRESS, .size = bytes, .host = memory};
	p->guest_base = GUEST_ADDRESS - (uint64_t)(uintptr_t)memory;

	p->period = p->o.mode == MODE_LOOP ? p->o.in_flight : PERIOD;
	for (uint32_t i = 0; i < 12; i++)
		p->sizes[i] = p->o.size != 0 ? p->o.size : imix[i];
	pair_fill_body(p, p->front, 0, FRAME_MAX);

	d->zero_addr = GUEST_ADDRESS;
	memory += align(HDR_LEN);
	setup_driver_ring(p, &d->tx, memory, indirect ? memory + 2 * ring_bytes : NULL);
	setup_driver_ring(p, &d->rx, memory + ring_bytes, NULL);
	packets = (void *)(memory + 2 * ring_bytes + table_bytes);
	d->pool.free = private_memory(buffers * sizeof(d->pool.free[0]));
	for (uint32_t i = 0; i < buffers; i++) {
		pair_fill_body(p, packets[i].data, 0, FRAME_MAX);
		d->pool.free[buffers - 1 - i] = &packets[i];
	}
	d->pool.nfree = d->pool.total = buffers;
	d->free_thresh = p->o.ring / 4 > 1 ? p->o.ring / 4 : 1;

	if (vq_mem_create(&region, 1, &p->device.mem) != 0)
		pair_fail("memory map", 0, 1);
	p->device.take = vq_net_burst_create(BURST_MAX, SEGS);
	p->device.put = vq_net_burst_create(BURST_MAX, SEGS);
	if (p->device.take == NULL || p->device.put == NULL)
		pair_fail("working space", 0, 1);
	setup_device_ring(p, &p->device.tx, &d->tx);
	setup_device_ring(p, &p->device.rx, &d->rx);
	setup_own(p);

	if (p->o.mode == MODE_TX)
		return;
	/* All of it at once to begin with, then by the driver's rule. */
	d->refill = (struct vq_refill){VQ_REFILL_EAGER, p->o.ring, VQ_REFILL_BUDGET_DEFAULT};
	driver_rx_post(d, p, 0);
	d->refill.mode = VQ_REFILL_BUDGET;
}
