/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The device end: what a worker of the switch does with one guest, without forwarding. */

#include "pair.h"

/* As if an offload had been negotiated: the header's line comes along with the payload's. */
static void
read_headers(struct device_end *d, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		const struct vq_seg *s = &d->take->segs[d->take->chains[i].seg];

		d->headers += s->base[0];
	}
}

static uint32_t
take(struct pair *p)
{
	struct device_end *d = &p->device;
	uint32_t n = vq_net_take(&d->tx, d->take, p->o.turn, HDR_LEN);

	if (n == 0) {
		if (d->tx.fault != VQ_DEVICE_OK)
			pair_fail("transmit ring broken", d->tx.fault, VQ_DEVICE_OK);
		return 0;
	}
	if (p->o.read_header)
		read_headers(d, n);
	for (uint32_t i = 0; i < n; i++) {
		if (d->take->frames[i].status != VQ_NET_OK)
			pair_fail("status of a frame", d->take->frames[i].status, VQ_NET_OK);
		d->frames[i] = &d->take->frames[i];
	}
	d->taken += n;
	return n;
}

static void
call(struct device_end *d, struct vq_device *q, uint32_t published)
{
	if (vq_device_call(q, published, 0) == VQ_CALL_MAKE)
		d->calls++;
}

static void
put(struct pair *p, uint32_t n)
{
	struct device_end *d = &p->device;
	const bool mergeable = (p->o.features & VQ_FEATURE(MRG_RXBUF)) != 0;
	uint32_t lost = 0;

	call(d, &d->rx,
		vq_net_put(
			&d->rx, d->put, d->frames, n, HDR_LEN, mergeable, d->status, &d->copied));
	for (uint32_t i = 0; i < n; i++) {
		if (d->status[i] == VQ_NET_OK)
			continue;
		if (d->status[i] != VQ_NET_NO_BUFFERS)
			pair_fail("status of a delivery", d->status[i], VQ_NET_OK);
		lost++;
	}
	d->delivered += n - lost;
	if (lost != 0)
		atomic_store_explicit(&p->device_lost,
			atomic_load_explicit(&p->device_lost, memory_order_relaxed) + lost,
			memory_order_relaxed);
}

static void
release(struct device_end *d, uint32_t n)
{
	call(d, &d->tx, vq_net_release(&d->tx, d->take, n));
}

static void
loop_turn(struct pair *p)
{
	uint32_t n = take(p);

	if (n == 0)
		return;
	put(p, n);
	release(&p->device, n);
}

/* One copy, into memory of the device's own, as for an mbuf. */
static void
tx_turn(struct pair *p)
{
	struct device_end *d = &p->device;
	uint32_t n = take(p);

	if (n == 0)
		return;
	for (uint32_t i = 0; i < n; i++) {
		const struct vq_frame *f = d->frames[i];
		struct packet *m = &d->own[i];
		uint64_t seq;

		vq_frame_read(f, 0, m->data, f->len);
		m->len = f->len;
		seq = frame_seq(m->data);
		if (seq != d->seq_next)
			pair_fail("sequence number at the device", seq, d->seq_next);
		d->seq_next++;
		if (seq % CHECK_EVERY == 0)
			pair_check_frame(p, m->data, m->len);
	}
	release(d, n);
}

static void
rx_turn(struct pair *p)
{
	struct device_end *d = &p->device;
	uint32_t n = p->o.turn < PERIOD ? p->o.turn : PERIOD;
	uint32_t at = (uint32_t)(d->seq_next % PERIOD);

	if (atomic_load_explicit(&p->phase, memory_order_relaxed) >= STOP) {
		atomic_store(&p->device_stopped, true);
		return;
	}
	/* What finds no buffer is lost, like what a switch gets from elsewhere. */
	for (uint32_t i = 0; i < n; i++) {
		frame_set_seq(d->own[at].data, d->seq_next++);
		d->frames[i] = &d->own_frames[at];
		at = at + 1 == PERIOD ? 0 : at + 1;
	}
	put(p, n);
}

void
device_turn(struct pair *p)
{
	switch (p->o.mode) {
	case MODE_LOOP:
		loop_turn(p);
		break;
	case MODE_TX:
		tx_turn(p);
		break;
	case MODE_RX:
		rx_turn(p);
		break;
	}
}
