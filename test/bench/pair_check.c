/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* A benchmark of a ring that loses, doubles, reorders or garbles frames is worth nothing. */

#include "pair.h"

void
pair_fail(const char *what, uint64_t got, uint64_t expected)
{
	fprintf(stderr, "pair: the ring does not work: %s: %llu instead of %llu\n", what,
		(unsigned long long)got, (unsigned long long)expected);
	exit(1);
}

uint32_t
pair_size_of(const struct pair *p, uint64_t seq)
{
	return p->sizes[seq % p->period % 12];
}

/* In tx mode buffers keep what was written once, whatever number they have next. */
static uint8_t
body_begin(const struct pair *p, uint64_t seq)
{
	return p->o.mode == MODE_TX ? 0 : (uint8_t)(seq % p->period);
}

void
pair_fill_body(const struct pair *p, uint8_t *frame, uint64_t seq, uint32_t len)
{
	frame_fill_body(frame, body_begin(p, seq), len);
}

void
pair_check_frame(const struct pair *p, const uint8_t *frame, uint32_t len)
{
	const uint64_t seq = frame_seq(frame);
	const uint8_t begin = body_begin(p, seq);
	uint32_t at;

	if (len != pair_size_of(p, seq))
		pair_fail("length of a frame", len, pair_size_of(p, seq));
	at = frame_check_body(frame, begin, len);
	if (at != len)
		pair_fail("byte of a frame", frame[at], (uint8_t)(begin + at));
}

static void
expect(const char *what, uint64_t got, uint64_t expected)
{
	if (got != expected)
		pair_fail(what, got, expected);
}

static void
count_one(void *cookie, void *arg)
{
	uint32_t *n = arg;

	*n += cookie != NULL;
}

void
pair_check_end(struct pair *p)
{
	struct driver_end *d = &p->driver;
	struct device_end *v = &p->device;
	uint64_t lost = atomic_load(&p->device_lost);
	uint32_t posted = 0;

	expect("state of the transmit ring at the driver", d->tx.fault, VQ_DRIVER_OK);
	expect("state of the receive ring at the driver", d->rx.fault, VQ_DRIVER_OK);
	expect("state of the transmit ring at the device", v->tx.fault, VQ_DEVICE_OK);
	expect("state of the receive ring at the device", v->rx.fault, VQ_DEVICE_OK);
	expect("frames that the device took", v->taken, d->sent);
	if (p->o.mode == MODE_LOOP)
		expect("frames delivered or lost", v->delivered + lost, v->taken);
	if (p->o.mode != MODE_TX)
		expect("frames received", d->received, v->delivered);
	expect("transmit descriptors in use", p->o.ring - vq_driver_free(&d->tx), 0);
	(void)vq_driver_detach_all(&d->rx, count_one, &posted);
	expect("buffers", d->pool.nfree + posted, d->pool.total);
	/* In rx mode the device offers more than fits, to keep the ring full. */
	if (p->o.mode == MODE_RX)
		expect("frames offered", v->delivered + lost, v->seq_next);
	else if (lost != 0)
		fprintf(stderr, "pair: %llu frames found the receive ring empty\n",
			(unsigned long long)lost);
}
