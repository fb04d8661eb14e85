/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The driver end: what the poll-mode driver does at the ring, and around it the least that an
 * application does: it looks at the first line of each packet it gets, and writes that of each it
 * sends.
 */

#include "pair.h"

#define CHUNK 64
#define AHEAD 4

/* Counted by name under callgrind (instr.py): functions, not inlined pieces of others. */
#define COUNTED __attribute__((noinline))

static inline uint64_t
addr_of(const struct pair *p, const void *at)
{
	return (uint64_t)(uintptr_t)at + p->guest_base;
}

/* Receive. */

/* A packet came: is its header what a device without offloads writes? */
static inline void
receive_one(struct packet *m, uint32_t len, bool mergeable)
{
	const struct vq_net_hdr *hdr = (const void *)(m->data - sizeof(struct vq_net_hdr));

	if (len <= HDR_LEN)
		pair_fail("length of a received packet", len, FRAME_MIN);
	m->len = len - HDR_LEN;
	if (mergeable) {
		uint16_t buffers = *(const volatile uint16_t *)&hdr->num_buffers;

		if (buffers != 1)
			pair_fail("buffers of a packet", buffers, 1);
	}
}

/* While the device keeps the order: all first lines are on their way before the first is read. */
static inline uint32_t
receive_row(struct driver_end *d, struct packet **packets, uint32_t n, bool mergeable)
{
	const struct vq_driver_done done = vq_driver_done(&d->rx, n);
	const uint32_t fill = vq_driver_free(&d->rx) + done.n;
	uint32_t i;

	if (done.n == 0)
		return 0;
	vq_driver_prefetch(&d->rx, n < fill ? n : fill);
	for (i = 0; i < done.n; i++)
		vq_prefetch_write((uintptr_t)((struct packet *)done.cookies[i])->data);
	for (i = 0; i < done.n; i++) {
		uint32_t len;

		if (!vq_driver_done_at(&done, i, &len))
			break;
		packets[i] = done.cookies[i];
		receive_one(packets[i], len, mergeable);
	}
	vq_driver_done_take(&d->rx, i);
	return i;
}

COUNTED static uint32_t
driver_rx_reap(struct driver_end *d, struct packet **packets, uint32_t n, bool mergeable)
{
	uint32_t lens[BURST_MAX];
	uint32_t i = 0;

	while (i < n && vq_driver_in_row(&d->rx)) {
		uint32_t some = receive_row(d, packets + i, n - i, mergeable);

		i += some;
		if (some == 0 || vq_driver_all_taken(&d->rx))
			break;
	}
	if (i != 0 || vq_driver_in_row(&d->rx))
		return i;
	n = vq_driver_reap(&d->rx, (void **)packets, lens, n);
	for (; i < n; i++) {
		if (i + AHEAD < n)
			__builtin_prefetch(packets[i + AHEAD]->data);
		receive_one(packets[i], lens[i], mergeable);
	}
	return n;
}

COUNTED void
driver_rx_post(struct driver_end *d, const struct pair *p, uint32_t consumed)
{
	uint32_t want = vq_refill_want(&d->refill, vq_driver_free(&d->rx), consumed);

	if (want == 0)
		return;
	if (d->pool.nfree < want)
		pair_fail("buffers in the pool", d->pool.nfree, d->pool.total);
	while (want != 0) {
		const struct vq_driver_run run = vq_driver_run(&d->rx, want);

		for (uint32_t i = 0; i < run.n; i++) {
			struct packet *m = d->pool.free[--d->pool.nfree];

			vq_driver_fill(&run, i, addr_of(p, m->data - HDR_LEN), FRAME_MAX + HDR_LEN,
				VQ_DESC_WRITE, m);
		}
		vq_driver_filled(&d->rx, run.n, FRAME_MAX + HDR_LEN);
		want -= run.n;
	}
	vq_driver_publish(&d->rx);
	if (vq_driver_need_notify(&d->rx))
		d->notified++;
}

/* Transmit. */

COUNTED static void
driver_tx_reap(struct driver_end *d)
{
	struct packet *packets[CHUNK];
	uint32_t n;

	do {
		n = vq_driver_reap(&d->tx, (void **)packets, NULL, CHUNK);
		pool_put(&d->pool, packets, n);
	} while (n == CHUNK);
}

/* All zeros, written only where it is not so yet. */
static inline void
clear_header(uint8_t *hdr)
{
	uint64_t head;
	uint32_t tail;

	memcpy(&head, hdr, sizeof(head));
	memcpy(&tail, hdr + sizeof(head), sizeof(tail));
	if (head != 0)
		memset(hdr, 0, sizeof(head));
	if (tail != 0)
		memset(hdr + sizeof(head), 0, sizeof(tail));
}

static inline void
add_chain(struct driver_end *d, const struct pair *p, struct packet *m)
{
	const struct vq_sg sg[2] = {
		{d->zero_addr, HDR_LEN},
		{addr_of(p, m->data), m->len},
	};

	if (d->tx.indirect)
		vq_driver_add_indirect(&d->tx, sg, 2, 0, m);
	else
		vq_driver_add_chain(&d->tx, sg, 2, 0, m);
}

COUNTED static void
driver_tx_add(struct driver_end *d, const struct pair *p, struct packet **packets, uint32_t n)
{
	if (p->o.chain) {
		for (uint32_t i = 0; i < n; i++)
			add_chain(d, p, packets[i]);
	} else {
		while (n != 0) {
			const struct vq_driver_run run = vq_driver_run(&d->tx, n);

			for (uint32_t i = 0; i < run.n; i++) {
				struct packet *m = packets[i];

				clear_header(m->data - HDR_LEN);
				vq_driver_fill(&run, i, addr_of(p, m->data - HDR_LEN),
					HDR_LEN + m->len, 0, m);
			}
			vq_driver_filled(&d->tx, run.n, 0);
			packets += run.n;
			n -= run.n;
		}
	}
	vq_driver_publish(&d->tx);
	if (vq_driver_need_notify(&d->tx))
		d->notified++;
}

static uint32_t
tx_burst(struct driver_end *d, const struct pair *p, struct packet **packets, uint32_t n)
{
	const uint32_t each = p->o.chain && !d->tx.indirect ? 2 : 1;
	uint32_t room = vq_driver_free(&d->tx);

	vq_driver_prefetch(&d->tx, n < room ? n : room);
	if (room < d->free_thresh || room < n * each) {
		driver_tx_reap(d);
		room = vq_driver_free(&d->tx);
	}
	if (n > room / each)
		n = room / each;
	if (n != 0)
		driver_tx_add(d, p, packets, n);
	d->sent += n;
	return n;
}

/* The application. */

/* What came: numbers that only grow, here and there every byte. */
static void
look_at(struct pair *p, struct packet **packets, uint32_t n)
{
	struct driver_end *d = &p->driver;

	for (uint32_t i = 0; i < n; i++) {
		uint64_t seq = frame_seq(packets[i]->data);

		if (seq < d->seq_next && !p->o.any_order)
			pair_fail("sequence number at the driver", seq, d->seq_next);
		d->seq_next = seq + 1;
		if (seq % CHECK_EVERY == 0)
			pair_check_frame(p, packets[i]->data, packets[i]->len);
	}
	d->received += n;
}

/* New frames: the first bytes are written, the rest was before. A buffer has room for 64. */
static void
make_frames(struct pair *p, struct packet **packets, uint32_t n)
{
	struct driver_end *d = &p->driver;

	for (uint32_t i = 0; i < n; i++) {
		struct packet *m = packets[i];

		m->len = p->o.size != 0 ? p->o.size : pair_size_of(p, d->seq_next);
		if (p->o.write == 64)
			memcpy(m->data, p->front, 64);
		else
			memcpy(m->data, p->front, m->len < p->o.write ? m->len : p->o.write);
		frame_set_seq(m->data, d->seq_next++);
	}
}

void
driver_prime(struct pair *p)
{
	struct driver_end *d = &p->driver;
	uint32_t left = p->o.in_flight;

	while (left != 0) {
		struct packet *m;

		if (pool_get(&d->pool, &m, 1) != 1)
			pair_fail("buffers to begin with", 0, 1);
		m->len = pair_size_of(p, d->sent);
		pair_fill_body(p, m->data, d->sent, m->len);
		frame_set_seq(m->data, d->sent);
		if (tx_burst(d, p, &m, 1) != 1)
			pair_fail("room to begin with", 0, 1);
		left--;
	}
}

static void
loop_turn(struct pair *p)
{
	struct driver_end *d = &p->driver;
	struct packet *packets[BURST_MAX];
	uint32_t n;

	/* What was not sent goes first. */
	if (d->nheld != 0) {
		n = tx_burst(d, p, d->held, d->nheld);
		d->nheld -= n;
		memmove(d->held, d->held + n, d->nheld * sizeof(d->held[0]));
		return;
	}
	n = driver_rx_reap(d, packets, p->o.burst, (p->o.features & VQ_FEATURE(MRG_RXBUF)) != 0);
	driver_rx_post(d, p, n);
	if (n == 0)
		return;
	look_at(p, packets, n);
	for (uint32_t i = 0; i < n; i++)
		frame_turn_round(packets[i]->data, frame_seq(packets[i]->data) + p->period);
	d->nheld = n - tx_burst(d, p, packets, n);
	memcpy(d->held, packets + n - d->nheld, d->nheld * sizeof(d->held[0]));
}

static void
tx_turn(struct pair *p)
{
	struct driver_end *d = &p->driver;
	uint32_t n;

	/* Made once, offered until there is room. */
	if (d->nheld == 0) {
		d->nheld = pool_get(&d->pool, d->held, p->o.burst);
		make_frames(p, d->held, d->nheld);
	}
	n = tx_burst(d, p, d->held, d->nheld);
	d->nheld -= n;
	memmove(d->held, d->held + n, d->nheld * sizeof(d->held[0]));
}

static void
rx_turn(struct pair *p)
{
	struct driver_end *d = &p->driver;
	struct packet *packets[BURST_MAX];
	uint32_t n = driver_rx_reap(
		d, packets, p->o.burst, (p->o.features & VQ_FEATURE(MRG_RXBUF)) != 0);

	driver_rx_post(d, p, n);
	look_at(p, packets, n);
	pool_put(&d->pool, packets, n);
}

void
driver_turn(struct pair *p)
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

bool
driver_drain(struct pair *p)
{
	struct driver_end *d = &p->driver;
	struct packet *packets[BURST_MAX];
	uint32_t n;

	if (d->nheld != 0) {
		pool_put(&d->pool, d->held, d->nheld);
		/* Received, or made and numbered, and not sent. */
		if (p->o.mode == MODE_TX)
			d->seq_next -= d->nheld;
		d->nheld = 0;
	}
	driver_tx_reap(d);
	if (p->o.mode != MODE_TX) {
		n = driver_rx_reap(
			d, packets, BURST_MAX, (p->o.features & VQ_FEATURE(MRG_RXBUF)) != 0);
		look_at(p, packets, n);
		for (uint32_t i = 0; i < n; i++)
			pair_check_frame(p, packets[i]->data, packets[i]->len);
		pool_put(&d->pool, packets, n);
	}
	if (vq_driver_inflight(&d->tx) != 0)
		return false;
	switch (p->o.mode) {
	case MODE_LOOP:
		return d->received + atomic_load(&p->device_lost) == d->sent;
	case MODE_RX:
		return atomic_load(&p->device_stopped) && d->received == p->device.delivered;
	case MODE_TX:
		break;
	}
	return true;
}
