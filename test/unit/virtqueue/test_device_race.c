/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * A guest that changes everything it shares while the device looks at it. Whatever the device makes
 * of it, it reads and writes nothing outside the guest's regions: each is an allocation of its own,
 * and so is each area of the rings, under the address sanitizer.
 */

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "fake_driver.h"
#include "vq_net.h"

#define SIZE    16u
#define REGION  0x1800u
#define REGIONS 3u
#define ALL     (REGION * REGIONS)
#define TURNS   30000u

struct arena {
	struct guest guest;
	struct fake_driver tx;
	struct fake_driver rx;
	atomic_bool stop;
};

static uint64_t
any_address(uint64_t *random)
{
	switch (rnd_below(random, 8)) {
	case 0:
		return rnd(random);
	case 1:
		return UINT64_MAX - rnd_below(random, 64);
	case 2:
		return GUEST_BASE + rnd_below(random, REGIONS + 1) * REGION - 8;
	default:
		return GUEST_BASE + rnd_below(random, ALL);
	}
}

static uint32_t
any_length(uint64_t *random)
{
	static const uint32_t lens[] = {0, 1, 11, 12, 13, 16, 26, 32, 48, 64, 76, 112, 256, 300,
		1514, REGION, ALL, UINT32_MAX - 3, UINT32_MAX};

	return lens[rnd_below(random, COUNT_OF(lens))];
}

/* A descriptor, at any address: field by field, so that the device can meet halves of two. */
static void
scribble(uint8_t *at, uint64_t *random, bool write)
{
	struct {
		volatile uint64_t addr;
		volatile uint32_t len;
		volatile uint16_t flags;
		volatile uint16_t next;
	} __attribute__((packed)) *d = (void *)at;

	if (rnd_below(random, 4) == 0) {
		/* A good one: else all would soon be faults of the first glance. */
		d->addr = GUEST_BASE + rnd_below(random, ALL - 512);
		d->len = 26 + rnd_below(random, 400);
		d->flags = write ? VQ_DESC_WRITE : 0;
		return;
	}
	switch (rnd_below(random, 4)) {
	case 0:
		d->addr = any_address(random);
		break;
	case 1:
		d->len = any_length(random);
		break;
	case 2:
		d->flags = (uint16_t)(rnd_below(random, 8) ^ (write ? VQ_DESC_WRITE : 0));
		break;
	default:
		d->next = (uint16_t)rnd_below(random, SIZE + 1);
		break;
	}
}

static void *
attack(void *arg)
{
	struct arena *a = arg;
	uint64_t random = 99;

	while (!atomic_load_explicit(&a->stop, memory_order_relaxed)) {
		bool write = rnd_below(&random, 2);
		struct fake_driver *f = write ? &a->rx : &a->tx;
		uint32_t what = rnd_below(&random, 64);
		uint32_t offset = rnd_below(&random, ALL - 16);

		if (what < 40)
			scribble((uint8_t *)&f->desc[rnd_below(&random, SIZE)], &random, write);
		else if (what < 56 && offset % REGION < REGION - 16)
			scribble(guest_at(&a->guest, GUEST_BASE + offset), &random, write);
		else if (what < 60)
			vq_store(&f->avail->ring[rnd_below(&random, SIZE)],
				(uint16_t)rnd_below(&random, SIZE + (what == 59)));
		else if (what == 60)
			vq_store(&f->avail->flags, (uint16_t)rnd_below(&random, 2));
		else if (what == 61 && rnd_below(&random, 16) == 0)
			vq_store(&f->avail->idx, (uint16_t)rnd(&random));
		else if (what == 62)
			*(volatile uint32_t *)&f->used->ring[rnd_below(&random, SIZE)].id =
				(uint32_t)rnd(&random);
	}
	return NULL;
}

/* Make the ring as full as it may be, whatever the guest wrote there. */
static void
offer(struct fake_driver *f, const struct vq_mem *mem)
{
	uint16_t base = vq_device_base(&f->q);

	if (f->q.fault != VQ_DEVICE_OK) {
		fake_driver_restart(f, mem, base);
		for (uint16_t i = 0; i < SIZE; i++)
			vq_store(&f->avail->ring[i], i);
	}
	vq_publish_index(&f->avail->idx, (uint16_t)(base + SIZE));
}

struct tally {
	uint64_t frames[VQ_NET_BROKEN + 1];
	uint64_t faults[VQ_DEVICE_FAULTS];
	uint64_t broken;
};

static void
tally_ring(struct tally *t, const struct fake_driver *f)
{
	if (f->q.fault == VQ_DEVICE_OK)
		return;
	t->broken++;
	for (uint32_t i = 0; i < VQ_DEVICE_FAULTS; i++)
		t->faults[i] += f->q.bad_chains[i];
}

static void
switch_under_attack(struct arena *a, struct tally *t, bool mergeable)
{
	struct vq_net_burst *from = vq_net_burst_create(8, 24);
	struct vq_net_burst *to = vq_net_burst_create(12, 40);
	struct vq_net_copied copied = {0};
	uint8_t *copy = malloc(ALL * 4);

	assert_non_null(from);
	assert_non_null(to);
	for (uint32_t turn = 0; turn < TURNS; turn++) {
		const struct vq_frame *frames[8];
		uint8_t status[8];
		uint32_t n, good = 0;

		tally_ring(t, &a->tx);
		tally_ring(t, &a->rx);
		offer(&a->tx, a->guest.mem);
		offer(&a->rx, a->guest.mem);
		n = vq_net_take(&a->tx.q, from, 8, 12);
		assert_true(n <= 8);
		for (uint32_t i = 0; i < n; i++) {
			const struct vq_frame *f = &from->frames[i];

			t->frames[f->status]++;
			if (f->status != VQ_NET_OK)
				continue;
			frames[good++] = f;
			if (turn % 16 == 0 && f->len <= ALL * 4)
				vq_frame_read(f, 0, copy, f->len);
		}
		(void)vq_net_put(&a->rx.q, to, frames, good, 12, mergeable, status, &copied);
		for (uint32_t i = 0; i < good; i++)
			t->frames[status[i]]++;
		(void)vq_net_release(&a->tx.q, from, n);
		(void)vq_device_call(&a->tx.q, n, 0);
		assert_int_equal(a->tx.q.outstanding, 0);
		assert_int_equal(a->rx.q.outstanding, 0);
	}
	assert_int_equal(copied.copied, copied.delivered);
	vq_net_burst_destroy(from);
	vq_net_burst_destroy(to);
	free(copy);
}

static void
nothing_is_read_twice(void **state)
{
	uint64_t features = VQ_FEATURE(INDIRECT_DESC);
	struct tally t = {0};
	struct arena a = {0};
	pthread_t thread;
	uint64_t random = 1;

	(void)state;
	guest_init(&a.guest, REGIONS, REGION, 0);
	fake_driver_init(&a.tx, a.guest.mem, SIZE, features, 65530);
	fake_driver_init(&a.rx, a.guest.mem, SIZE, features, 65530);
	for (uint16_t i = 0; i < SIZE; i++) {
		vq_store(&a.tx.avail->ring[i], i);
		vq_store(&a.rx.avail->ring[i], i);
		scribble((uint8_t *)&a.tx.desc[i], &random, false);
		scribble((uint8_t *)&a.rx.desc[i], &random, true);
	}
	assert_int_equal(pthread_create(&thread, NULL, attack, &a), 0);
	switch_under_attack(&a, &t, true);
	switch_under_attack(&a, &t, false);
	atomic_store(&a.stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	print_message("frames %lu, malformed %lu, broken rings %lu\n",
		(unsigned long)t.frames[VQ_NET_OK], (unsigned long)t.frames[VQ_NET_BAD_CHAIN],
		(unsigned long)t.broken);
	/* It was an attack, and there was something to attack. */
	assert_true(t.frames[VQ_NET_OK] != 0);
	assert_true(t.frames[VQ_NET_BAD_CHAIN] != 0);
	assert_true(t.broken != 0);
	fake_driver_free(&a.tx);
	fake_driver_free(&a.rx);
	guest_free(&a.guest);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(nothing_is_read_twice),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
