/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Both ends in two threads: a guest sends frames to itself through the device, polling, or asleep
 * whenever nothing is to be done. A notification that got lost would leave both asleep: that is a
 * failure after a time that only a lost one can take.
 */

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pair.h"
#include "vq_net.h"

#ifndef FRAMES
#define FRAMES 8000u
#endif
#define SIZE    64u
#define STRIDE  2048u
#define BUFFER  500u
#define BURST   16u
#define LONGEST 1400u
/* Frames on their way, so many that the buffers posted hold them all. */
#define WINDOW (SIZE / 4)

#define TX_AT GUEST_BASE
#define RX_AT (GUEST_BASE + SIZE * STRIDE)

struct world {
	struct guest guest;
	struct pair tx, rx;
	bool sleep;
	sem_t kick; /* for the device */
	sem_t call; /* for the driver */
	atomic_bool done;
	atomic_bool failed;
	/* Of the driver's thread. */
	uint32_t sent, received;
	uint32_t slots[SIZE];
	uint32_t nslots;
	/* Of the device's thread. */
	uint64_t forwarded;
	uint64_t calls[VQ_CALL_MAKE + 1];
	struct vq_net_copied copied;
};

/* Nobody asserts in a thread: what fails is noted, and both give up. */
static void
check(struct world *w, bool ok)
{
	if (!ok)
		atomic_store(&w->failed, true);
}

/* Asleep until posted; false if that never comes. */
static bool
wait_for(sem_t *sem)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += 20;
	while (sem_timedwait(sem, &until) != 0) {
		if (errno != EINTR)
			return false;
	}
	return true;
}

static bool
send(struct world *w)
{
	uint8_t packet[12 + LONGEST] = {0};
	uint32_t before = w->sent;

	while (w->sent < FRAMES && w->sent - w->received < WINDOW && w->nslots != 0 &&
		vq_driver_free(&w->tx.driver) >= 2) {
		uint32_t len = 60 + w->sent * 37 % (LONGEST - 60);
		uint32_t slot = w->slots[--w->nslots];
		uint32_t cut = 12 + w->sent % 40;

		frame_make(packet + 12, len, w->sent);
		guest_write(&w->guest, TX_AT + slot * STRIDE, packet, 12 + len);
		pair_add(&w->tx, TX_AT + slot * STRIDE, 12 + len, &cut, w->sent % 2, false, false,
			(void *)(uintptr_t)(slot + 1));
		w->sent++;
	}
	vq_driver_publish(&w->tx.driver);
	if (vq_driver_need_notify(&w->tx.driver))
		sem_post(&w->kick);
	return w->sent != before;
}

static bool
reap_sent(struct world *w)
{
	void *c[BURST];
	uint32_t n = vq_driver_reap(&w->tx.driver, c, NULL, BURST);

	for (uint32_t i = 0; i < n; i++)
		w->slots[w->nslots++] = (uint32_t)(uintptr_t)c[i] - 1;
	return n != 0;
}

/* The device completes in order, so that buffers come back round and round. */
static void
post(struct world *w, uint32_t *next)
{
	while (vq_driver_free(&w->rx.driver) != 0) {
		uint32_t slot = (*next)++ % SIZE;

		vq_driver_add(&w->rx.driver, RX_AT + slot * STRIDE, BUFFER, VQ_DESC_WRITE,
			(void *)(uintptr_t)(slot + 1));
	}
	vq_driver_publish(&w->rx.driver);
	(void)vq_driver_need_notify(&w->rx.driver);
}

static bool
receive(struct world *w)
{
	uint8_t packet[12 + LONGEST + BUFFER];
	uint32_t before = w->received;
	void *c;
	uint32_t piece;

	while (vq_driver_reap(&w->rx.driver, &c, &piece, 1) == 1) {
		uint32_t len = piece;
		uint16_t n;

		guest_read(&w->guest, RX_AT + ((uintptr_t)c - 1) * STRIDE, packet, piece);
		memcpy(&n, packet + 10, 2);
		check(w, n == (12 + 60 + w->received * 37 % (LONGEST - 60) + BUFFER - 1) / BUFFER);
		while (--n != 0 && vq_driver_reap(&w->rx.driver, &c, &piece, 1) == 1) {
			guest_read(&w->guest, RX_AT + ((uintptr_t)c - 1) * STRIDE, packet + len,
				piece);
			len += piece;
		}
		check(w, n == 0 && frame_ok(packet + 12, len - 12, w->received));
		w->received++;
	}
	return w->received != before;
}

static void *
driver_thread(void *arg)
{
	struct world *w = arg;
	uint32_t next = 0;

	while (w->received < FRAMES || vq_driver_inflight(&w->tx.driver) != 0) {
		bool busy;

		post(w, &next);
		busy = send(w);
		busy |= reap_sent(w);
		busy |= receive(w);
		check(w, w->tx.driver.fault == VQ_DRIVER_OK && w->rx.driver.fault == VQ_DRIVER_OK);
		if (atomic_load(&w->failed))
			break;
		if (busy)
			continue;
		if (!w->sleep) {
			sched_yield();
			continue;
		}
		busy = vq_driver_arm(&w->tx.driver);
		busy |= vq_driver_arm(&w->rx.driver);
		if (!busy)
			check(w, wait_for(&w->call));
		vq_driver_disarm(&w->tx.driver);
		vq_driver_disarm(&w->rx.driver);
	}
	atomic_store(&w->done, true);
	sem_post(&w->kick);
	return NULL;
}

static void
call(struct world *w, enum vq_call decision)
{
	w->calls[decision]++;
	if (decision == VQ_CALL_MAKE)
		sem_post(&w->call);
}

static void
device_loop(struct world *w)
{
	struct vq_net_burst *from = vq_net_burst_create(BURST, 4 * BURST);
	struct vq_net_burst *to = vq_net_burst_create(4 * BURST, 4 * BURST);
	uint64_t turn = 0;

	while (!atomic_load(&w->done) && !atomic_load(&w->failed)) {
		const struct vq_frame *frames[BURST];
		uint8_t status[BURST];
		uint32_t n = vq_net_take(&w->tx.device, from, BURST, 12);
		uint32_t published;

		for (uint32_t i = 0; i < n; i++)
			frames[i] = &from->frames[i];
		published = vq_net_put(&w->rx.device, to, frames, n, 12, true, status, &w->copied);
		for (uint32_t i = 0; i < n; i++)
			check(w, status[i] == VQ_NET_OK);
		w->forwarded += n;
		turn++;
		call(w, vq_device_call(&w->rx.device, published, turn));
		call(w, vq_device_call(
				&w->tx.device, vq_net_release(&w->tx.device, from, n), turn));
		check(w, w->tx.device.fault == VQ_DEVICE_OK && w->rx.device.fault == VQ_DEVICE_OK);
		if (n != 0)
			continue;
		if (!w->sleep) {
			sched_yield();
			continue;
		}
		/* What is held back goes before sleep. */
		call(w, vq_device_call_flush(&w->rx.device));
		call(w, vq_device_call_flush(&w->tx.device));
		if (!vq_device_arm(&w->tx.device))
			check(w, wait_for(&w->kick));
		vq_device_disarm(&w->tx.device);
	}
	vq_net_burst_destroy(from);
	vq_net_burst_destroy(to);
}

static void
run(uint64_t features, uint32_t frames_held, bool sleep)
{
	struct vq_coalesce_params params = {.frames = frames_held, .ticks = 20};
	struct pair_config config = {.size = SIZE,
		.features = features | VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF),
		.base = 65000};
	static struct world w;
	pthread_t thread;

	memset(&w, 0, sizeof(w));
	guest_init(&w.guest, 3, 2 * SIZE * STRIDE / 3 + 100, 0);
	pair_init(&w.tx, &w.guest, &config);
	pair_init(&w.rx, &w.guest, &config);
	vq_coalesce_set(&w.tx.device.coalesce, &params);
	vq_coalesce_set(&w.rx.device.coalesce, &params);
	w.sleep = sleep;
	for (w.nslots = 0; w.nslots < SIZE; w.nslots++)
		w.slots[w.nslots] = w.nslots;
	assert_int_equal(sem_init(&w.kick, 0, 0), 0);
	assert_int_equal(sem_init(&w.call, 0, 0), 0);
	/* Before the device looks: frames must find buffers. */
	assert_int_equal(pthread_create(&thread, NULL, driver_thread, &w), 0);
	device_loop(&w);
	sem_post(&w.call);
	assert_int_equal(pthread_join(thread, NULL), 0);

	print_message("features 0x%lx %s, %u held: calls made %lu suppressed %lu deferred %lu\n",
		(unsigned long)features, sleep ? "asleep" : "polling", frames_held,
		(unsigned long)w.calls[VQ_CALL_MAKE], (unsigned long)w.calls[VQ_CALL_SUPPRESSED],
		(unsigned long)w.calls[VQ_CALL_DEFERRED]);
	assert_false(atomic_load(&w.failed));
	assert_int_equal(w.received, FRAMES);
	assert_int_equal(w.forwarded, FRAMES);
	assert_int_equal(w.copied.copied, w.copied.delivered);
	assert_int_equal(w.nslots, SIZE);
	pair_expect_level(&w.tx);
	assert_int_equal(w.rx.device.outstanding, 0);
	sem_destroy(&w.kick);
	sem_destroy(&w.call);
	pair_free(&w.tx);
	pair_free(&w.rx);
	guest_free(&w.guest);
}

static void
polling(void **state)
{
	(void)state;
	run(0, 0, false);
	run(VQ_FEATURE(IN_ORDER), 0, false);
	run(VQ_FEATURE(EVENT_IDX), 0, false);
}

static void
asleep(void **state)
{
	(void)state;
	run(0, 0, true);
	run(VQ_FEATURE(EVENT_IDX), 0, true);
	run(VQ_FEATURE(EVENT_IDX) | VQ_FEATURE(IN_ORDER), 0, true);
}

static void
asleep_with_calls_held(void **state)
{
	(void)state;
	run(VQ_FEATURE(IN_ORDER), 24, true);
	run(VQ_FEATURE(EVENT_IDX), 24, true);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(polling),
		cmocka_unit_test(asleep),
		cmocka_unit_test(asleep_with_calls_held),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
