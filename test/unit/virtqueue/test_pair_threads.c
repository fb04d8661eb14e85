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

#include "covering.h"
#include "pair.h"
#include "vq_net.h"
#include "yields.h"

#ifndef FRAMES
#define FRAMES 400u
#endif
#define STRIDE   2048u
#define SHORT    500u  /* a buffer of which a frame takes several */
#define WHOLE    1500u /* one that holds any frame */
#define LONGEST  1400u
#define BURST    16u
#define TX_SLOTS 64u
#define RX_SLOTS 256u
#define PIECES   5u

#define TX_AT GUEST_BASE
#define RX_AT (TX_AT + TX_SLOTS * STRIDE)
#define MEM   ((TX_SLOTS + RX_SLOTS) * STRIDE)

enum factor {
	F_SIZE,
	F_BASE,
	F_IN_ORDER,
	F_INDIRECT,
	F_EVENT_IDX,
	F_MERGEABLE,
	F_HEADER,
	F_PIECES,
	F_SLEEP,
	F_HELD,
	FACTORS,
};

static const uint64_t headers[] = {0, VQ_FEATURE(VERSION_1), VQ_FEATURE(HASH_REPORT)};
static const uint32_t piece_counts[] = {1, 2, PIECES};
static const uint32_t held_counts[] = {0, 24};

static const uint32_t levels[FACTORS] = {
	[F_SIZE] = PAIR_SIZES,
	[F_BASE] = BASES,
	[F_IN_ORDER] = 2,
	[F_INDIRECT] = 2,
	[F_EVENT_IDX] = 2,
	[F_MERGEABLE] = 2,
	[F_HEADER] = COUNT_OF(headers),
	[F_PIECES] = COUNT_OF(piece_counts),
	[F_SLEEP] = 2,
	[F_HELD] = COUNT_OF(held_counts),
};

struct world {
	struct guest guest;
	struct pair tx, rx;
	uint32_t hdr_len, pieces, buffer;
	uint32_t window; /* frames on their way, so many that the buffers posted hold them all */
	uint32_t rx_slots;
	bool mergeable, indirect, sleep;
	sem_t kick; /* for the device */
	sem_t call; /* for the driver */
	atomic_bool done;
	_Atomic(int) failed_line; /* 0: nothing has failed */
	/* Of the driver's thread. */
	uint32_t sent, received;
	uint32_t slots[TX_SLOTS];
	uint32_t nslots;
	/* Of the device's thread. */
	uint64_t forwarded;
	struct vq_net_copied copied;
};

static uint64_t calls[2][VQ_CALL_MAKE + 1];

/* Nobody asserts in a thread: the line of what fails is noted, and both give up. */
#define check(w, ok) check_line(w, ok, __LINE__)

static void
check_line(struct world *w, bool ok, int line)
{
	int none = 0;

	if (!ok)
		atomic_compare_exchange_strong(&w->failed_line, &none, line);
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

static uint32_t
frame_len(uint32_t number)
{
	return 60 + number * 37 % (LONGEST - 60);
}

static bool
send(struct world *w)
{
	uint8_t packet[VQ_NET_HDR_MAX + LONGEST] = {0};
	uint32_t before = w->sent;

	while (w->sent < FRAMES && w->sent - w->received < w->window && w->nslots != 0) {
		uint32_t ncuts = w->sent % w->pieces;
		bool indirect = w->indirect && ncuts != 0;
		uint32_t len = frame_len(w->sent);
		uint32_t cuts[PIECES], slot;

		if (vq_driver_free(&w->tx.driver) < (indirect ? 1 : ncuts + 1))
			break;
		slot = w->slots[--w->nslots];
		for (uint32_t i = 0; i < ncuts; i++)
			cuts[i] = 1 + w->sent % 20 + 9 * i;
		frame_make(packet + w->hdr_len, len, w->sent);
		guest_write(&w->guest, TX_AT + slot * STRIDE, packet, w->hdr_len + len);
		pair_add(&w->tx, TX_AT + slot * STRIDE, w->hdr_len + len, cuts, ncuts, false,
			indirect, (void *)(uintptr_t)(slot + 1));
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
	while (vq_driver_inflight(&w->rx.driver) < w->rx_slots) {
		uint32_t slot = (*next)++ % w->rx_slots;

		vq_driver_add(&w->rx.driver, RX_AT + slot * STRIDE, w->buffer, VQ_DESC_WRITE,
			(void *)(uintptr_t)(slot + 1));
	}
	vq_driver_publish(&w->rx.driver);
	(void)vq_driver_need_notify(&w->rx.driver);
}

static bool
next_piece(struct world *w, uint8_t *packet, uint32_t *len)
{
	uint32_t piece;
	void *c;

	if (vq_driver_reap(&w->rx.driver, &c, &piece, 1) == 0)
		return false;
	guest_read(&w->guest, RX_AT + ((uintptr_t)c - 1) * STRIDE, packet + *len, piece);
	*len += piece;
	return true;
}

static bool
receive(struct world *w)
{
	uint8_t packet[VQ_NET_HDR_MAX + LONGEST + WHOLE];
	uint32_t before = w->received, len = 0;

	while (next_piece(w, packet, &len)) {
		uint32_t total = w->hdr_len + frame_len(w->received);
		uint16_t n = 1;

		if (w->hdr_len >= 12)
			memcpy(&n, packet + 10, 2);
		check(w, n == (total + w->buffer - 1) / w->buffer);
		/* A packet is all there when its first buffer is. */
		while (n > 1 && len < total && next_piece(w, packet, &len))
			n--;
		check(w, n == 1 && len == total);
		check(w, frame_ok(packet + w->hdr_len, len - w->hdr_len, w->received));
		w->received++;
		len = 0;
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
		if (atomic_load(&w->failed_line) != 0)
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
	calls[w->sleep][decision]++;
	if (decision == VQ_CALL_MAKE)
		sem_post(&w->call);
}

static void
device_loop(struct world *w)
{
	struct vq_net_burst *from = vq_net_burst_create(BURST, 2 * PIECES * BURST);
	struct vq_net_burst *to = vq_net_burst_create(4 * BURST, 4 * BURST);
	uint64_t turn = 0;

	while (!atomic_load(&w->done) && atomic_load(&w->failed_line) == 0) {
		const struct vq_frame *frames[BURST];
		uint8_t status[BURST];
		uint32_t n = vq_net_take(&w->tx.device, from, BURST, w->hdr_len);
		uint32_t published;

		for (uint32_t i = 0; i < n; i++)
			frames[i] = &from->frames[i];
		published = vq_net_put(
			&w->rx.device, to, frames, n, w->hdr_len, w->mergeable, status, &w->copied);
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
world_init(struct world *w, const uint8_t *level)
{
	struct vq_coalesce_params params = {.frames = held_counts[level[F_HELD]], .ticks = 20};
	uint32_t size = pair_size(level[F_SIZE]), least = size < RX_SLOTS ? size : RX_SLOTS;
	struct pair_config config = {.size = size};

	memset(w, 0, sizeof(*w));
	w->mergeable = level[F_MERGEABLE];
	w->indirect = level[F_INDIRECT];
	w->sleep = level[F_SLEEP];
	config.base = pair_base(size, level[F_BASE]);
	config.features = headers[level[F_HEADER]] | (w->mergeable ? VQ_FEATURE(MRG_RXBUF) : 0) |
			  (w->indirect ? VQ_FEATURE(INDIRECT_DESC) : 0) |
			  (level[F_EVENT_IDX] ? VQ_FEATURE(EVENT_IDX) : 0) |
			  (level[F_IN_ORDER] ? VQ_FEATURE(IN_ORDER) : 0);
	w->hdr_len = vq_net_hdr_len(config.features);
	w->pieces = piece_counts[level[F_PIECES]];
	if (w->pieces > size)
		w->pieces = size;
	w->buffer = w->mergeable && size >= 4 ? SHORT : WHOLE;
	w->rx_slots = least;
	w->window = w->buffer == SHORT ? least / 3 : least;
	w->nslots = size < TX_SLOTS ? size : TX_SLOTS;
	for (uint32_t i = 0; i < w->nslots; i++)
		w->slots[i] = i;
	guest_init(&w->guest, 3, MEM / 3 + 100, 0);
	if (w->indirect) {
		config.table_len = PIECES;
		config.table_addr = guest_add_sparse(
			&w->guest, (uint64_t)size * PIECES * sizeof(struct vq_desc));
	}
	pair_init(&w->tx, &w->guest, &config);
	config.table_len = 0;
	pair_init(&w->rx, &w->guest, &config);
	vq_coalesce_set(&w->tx.device.coalesce, &params);
	vq_coalesce_set(&w->rx.device.coalesce, &params);
	assert_int_equal(sem_init(&w->kick, 0, 0), 0);
	assert_int_equal(sem_init(&w->call, 0, 0), 0);
	pair_say("size %u base %u features 0x%lx pieces %u %s, %u held", size, config.base,
		(unsigned long)config.features, w->pieces, w->sleep ? "asleep" : "polling",
		params.frames);
}

static void
world_free(struct world *w)
{
	sem_destroy(&w->kick);
	sem_destroy(&w->call);
	pair_free(&w->tx);
	pair_free(&w->rx);
	guest_free(&w->guest);
}

static void
run(struct world *w)
{
	uint32_t slots = w->nslots;
	pthread_t thread;

	yields_on(true);
	assert_int_equal(pthread_create(&thread, NULL, driver_thread, w), 0);
	device_loop(w);
	sem_post(&w->call);
	assert_int_equal(pthread_join(thread, NULL), 0);
	yields_on(false);

	if (atomic_load(&w->failed_line) != 0)
		fail_msg("failed at line %d, %u sent, %u received", atomic_load(&w->failed_line),
			w->sent, w->received);
	assert_int_equal(w->received, FRAMES);
	assert_int_equal(w->forwarded, FRAMES);
	assert_int_equal(w->copied.copied, w->copied.delivered);
	assert_int_equal(w->nslots, slots);
	pair_expect_level(&w->tx);
	assert_int_equal(w->rx.device.outstanding, 0);
	assert_int_equal(w->rx.device.fault, VQ_DEVICE_OK);
}

static void
every_pair_of_settings(void **state)
{
	static struct covering rows;
	static struct world w;

	(void)state;
	covering_make(&rows, levels, FACTORS);
	for (uint32_t i = 0; i < rows.rows; i++) {
		world_init(&w, rows.level[i]);
		run(&w);
		world_free(&w);
	}
	pair_say_nothing();
	print_message("%u rows of %u frames; calls made %lu suppressed %lu deferred %lu asleep, "
		      "%lu %lu %lu polling\n",
		rows.rows, FRAMES, (unsigned long)calls[1][VQ_CALL_MAKE],
		(unsigned long)calls[1][VQ_CALL_SUPPRESSED],
		(unsigned long)calls[1][VQ_CALL_DEFERRED], (unsigned long)calls[0][VQ_CALL_MAKE],
		(unsigned long)calls[0][VQ_CALL_SUPPRESSED],
		(unsigned long)calls[0][VQ_CALL_DEFERRED]);
	assert_true(calls[1][VQ_CALL_MAKE] != 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(every_pair_of_settings, pair_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
