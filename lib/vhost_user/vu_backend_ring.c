/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <unistd.h>

#include "vu_backend_impl.h"

void
vu_ring_put_fd(int *place, int fd)
{
	if (*place >= 0)
		close(*place);
	*place = fd;
}

void
vu_rings_init(struct vu_backend *b)
{
	uint32_t i;

	for (i = 0; i < VU_RINGS_MAX; i++)
		b->rings[i] = (struct vu_ring){.kick = -1, .call = -1, .err = -1};
}

bool
vu_rings_running(const struct vu_backend *b)
{
	uint32_t i;

	for (i = 0; i < vu_backend_rings(b); i++) {
		if (b->rings[i].ready)
			return true;
	}
	return false;
}

static bool
aligned(const void *p, uintptr_t to)
{
	return ((uintptr_t)p & (to - 1)) == 0;
}

/* The three areas in this process; false if one is not mapped in full, or not aligned (2.7). */
static bool
locate(const struct vu_backend *b, const struct vu_ring *r, struct vq_device_config *c)
{
	/* Before SET_VRING_NUM there is no length yet to look for. */
	uint32_t size = r->size != 0 ? r->size : 1;

	c->desc = vu_memory_user(&b->memory, r->desc_addr, vq_desc_bytes(size));
	c->avail = vu_memory_user(&b->memory, r->avail_addr, vq_avail_bytes(size));
	c->used = vu_memory_user(&b->memory, r->used_addr, vq_used_bytes(size));
	return c->desc != NULL && c->avail != NULL && c->used != NULL && aligned(c->desc, 16) &&
	       aligned(c->avail, 2) && aligned(c->used, 4);
}

bool
vu_ring_mapped(const struct vu_backend *b, const struct vu_ring *r)
{
	struct vq_device_config ignored;

	return locate(b, r, &ignored);
}

void
vu_ring_stop(struct vu_ring *r)
{
	if (!r->ready)
		return;
	r->base = vq_device_base(&r->vq);
	r->ready = false;
}

void
vu_ring_settle(struct vu_backend *b, uint32_t i)
{
	struct vu_ring *r = &b->rings[i];
	struct vq_device_config c = {
		.size = r->size,
		.features = b->features,
		.base = r->base,
		.mem = b->memory.vq,
		/* A hint: all the backends that there are, are those of network devices. */
		.first_byte = (uint16_t)vq_net_hdr_len(b->features),
	};

	/*
	 * Nothing waits for DRIVER_OK or for an enabled ring: stock frontends enable before they
	 * set the status, and a ring that is started but disabled has work to do (it discards).
	 */
	if (!b->features_set || !r->kicked || !r->addr_set || r->size == 0) {
		vu_ring_stop(r);
		return;
	}
	if (!locate(b, r, &c)) {
		vu_ring_stop(r);
		vu_backend_log(b, 1,
			"ring %u: its addresses are misaligned or not in the memory shown to us",
			i);
		return;
	}
	if (r->ready)
		vq_device_move(&r->vq, c.desc, c.avail, c.used, c.mem);
	else if (vq_device_init(&r->vq, &c) == 0)
		r->ready = true;
}

void
vu_rings_settle(struct vu_backend *b)
{
	uint32_t i;

	for (i = 0; i < vu_backend_rings(b); i++)
		vu_ring_settle(b, i);
}

void
vu_rings_reset(struct vu_backend *b)
{
	uint32_t i;

	for (i = 0; i < VU_RINGS_MAX; i++) {
		struct vu_ring *r = &b->rings[i];

		vu_ring_put_fd(&r->kick, -1);
		*r = (struct vu_ring){.kick = -1, .call = r->call, .err = r->err};
	}
	b->features = 0;
	b->features_set = false;
	b->status = 0;
	b->mtu = 0;
}

void
vu_rings_close(struct vu_backend *b)
{
	uint32_t i;

	vu_rings_reset(b);
	for (i = 0; i < VU_RINGS_MAX; i++) {
		vu_ring_put_fd(&b->rings[i].call, -1);
		vu_ring_put_fd(&b->rings[i].err, -1);
	}
}
