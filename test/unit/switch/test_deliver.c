/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Two workers deliver into one receive queue at once, as fast as they can, while its guest takes
 * what comes: nothing is lost or mixed up, and the order of each sender is kept.
 */

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "unit.h"

#include "fault.h"
#include "worker.h"

#define SIZE   256
#define BUFFER 128
#define LEN    80 /* a frame */
#define HDR    12
#define TO     2 /* the port */
#define CHUNK  8 /* frames in a delivery */
/* What each worker has to get through. */
#define FRAMES 50000

/* Shared memory of the guest. */
static struct {
	struct vq_desc desc[SIZE];
	union {
		struct vq_avail avail;
		uint8_t avail_bytes[6 + 2 * SIZE];
	};
	union {
		struct vq_used used;
		uint8_t used_bytes[6 + 8 * SIZE];
	} __attribute__((aligned(64)));
	uint8_t buffers[SIZE][BUFFER];
} guest __attribute__((aligned(4096)));

static struct vq_device vq;
static struct vring ring = {.call = -1, .port = TO, .vq = &vq};
static struct view view;
static _Atomic(uint32_t) running;

struct sender {
	struct worker *w;
	uint32_t id;
	uint64_t delivered;
	uint64_t no_buffers;
	uint64_t other_drops;
	uint64_t seen; /* by the guest */
	uint64_t last; /* serial + 1 of the frame seen last */
};

static struct sender senders[2];

/* What the delivery calls of the rest of the switch. */
void
drop_frame(struct worker *w, enum drop reason, uint32_t to, uint32_t copies)
{
	struct sender *s = &senders[w->id];

	(void)to;
	*(reason == DROP_NO_BUFFERS ? &s->no_buffers : &s->other_drops) += copies;
}

void
delivered_frames(struct worker *w, uint32_t to, uint32_t n, uint64_t bytes)
{
	(void)to;
	(void)bytes;
	senders[w->id].delivered += n;
}

void
fault_mark_port(struct worker *w, uint32_t port, enum port_fault fault)
{
	(void)w;
	(void)port;
	(void)fault;
	abort();
}

/* A frame says who sent it, which one it is, and all over that it is whole. */
static void
fill(uint8_t *frame, uint32_t id, uint64_t serial)
{
	memset(frame, (uint8_t)(serial * 2 + id), LEN);
	memcpy(frame, &serial, sizeof(serial));
	frame[sizeof(serial)] = (uint8_t)id;
}

static void *
deliver(void *arg)
{
	struct sender *s = arg;
	uint8_t bytes[CHUNK][LEN];
	struct vq_seg segs[CHUNK];
	struct vq_frame frames[CHUNK];
	const struct vq_frame *list[CHUNK];
	uint64_t serial = 0;
	uint32_t i;

	while (s->delivered < FRAMES && s->other_drops == 0) {
		for (i = 0; i < CHUNK; i++) {
			fill(bytes[i], s->id, serial++);
			segs[i] = (struct vq_seg){.base = bytes[i], .len = LEN};
			frames[i] = (struct vq_frame){.len = LEN, .segs = &segs[i], .nseg = 1};
			list[i] = &frames[i];
		}
		deliver_ring(s->w, TO, &ring, list, CHUNK);
	}
	atomic_fetch_sub(&running, 1);
	return NULL;
}

static void
look_at_frame(const struct vq_used_elem *e)
{
	const uint8_t *frame;
	uint8_t whole[LEN];
	struct sender *s;
	uint64_t serial;

	assert_in_range(e->id, 0, SIZE - 1);
	assert_int_equal(e->len, HDR + LEN);
	frame = guest.buffers[e->id] + HDR;
	memcpy(&serial, frame, sizeof(serial));
	assert_in_range(frame[sizeof(serial)], 0, 1);
	s = &senders[frame[sizeof(serial)]];
	fill(whole, s->id, serial);
	assert_memory_equal(frame, whole, LEN);
	assert_true(serial >= s->last);
	s->last = serial + 1;
	s->seen++;
}

/* Take what came and give the buffers back. @return how many */
static uint32_t
guest_turn(uint16_t *seen, uint16_t *avail)
{
	uint16_t used = vq_load_index(&guest.used.idx);
	uint16_t n = (uint16_t)(used - *seen);

	assert_in_range(n, 0, SIZE);
	for (; *seen != used; (*seen)++) {
		struct vq_used_elem *e = &guest.used.ring[*seen % SIZE];

		look_at_frame(e);
		memset(guest.buffers[e->id], 0xee, BUFFER);
		vq_store(&guest.avail.ring[(*avail)++ % SIZE], (uint16_t)e->id);
	}
	vq_publish_index(&guest.avail.idx, *avail);
	return n;
}

static void
set_up_ring(struct vq_mem **mem)
{
	const struct vq_mem_region region = {1 << 20, sizeof(guest), (uint8_t *)&guest};
	struct vq_device_config config = {
		.size = SIZE,
		.features = VQ_FEATURE(VERSION_1),
		.desc = guest.desc,
		.avail = &guest.avail,
		.used = &guest.used,
	};
	uint32_t i;

	assert_int_equal(vq_mem_create(&region, 1, mem), 0);
	config.mem = *mem;
	for (i = 0; i < SIZE; i++) {
		size_t at = (size_t)(guest.buffers[i] - (uint8_t *)&guest);

		guest.desc[i] = (struct vq_desc){region.addr + at, BUFFER, VQ_DESC_WRITE, 0};
		vq_store(&guest.avail.ring[i], (uint16_t)i);
	}
	vq_publish_index(&guest.avail.idx, SIZE);
	assert_int_equal(vq_device_init(&vq, &config), 0);
	rte_spinlock_init(&ring.lock);
	view.ports[TO] = (struct view_port){.kind = VIEW_VHOST, .hdr_len = HDR, .nrx = 1};
	view.ports[TO].rx[0] = &ring;
}

static struct worker *
make_worker(uint32_t id, struct port_counters *counters)
{
	struct worker *w =
		aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(sizeof(*w), RTE_CACHE_LINE_SIZE));

	assert_non_null(w);
	memset(w, 0, sizeof(*w));
	w->id = id;
	w->view = &view;
	w->counters = counters;
	w->put = vq_net_burst_create(BURST, BURST);
	assert_non_null(w->put);
	return w;
}

static void
two_workers_one_ring(void **state)
{
	static struct port_counters counters[2][PORTS_MAX];
	uint16_t seen = 0, avail = SIZE;
	pthread_t threads[2];
	struct vq_mem *mem;
	uint32_t i;

	(void)state;
	set_up_ring(&mem);
	atomic_store(&running, 2);
	for (i = 0; i < 2; i++) {
		senders[i].id = i;
		senders[i].w = make_worker(i, counters[i]);
	}
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, deliver, &senders[i]), 0);
	while (atomic_load(&running) != 0)
		if (guest_turn(&seen, &avail) == 0)
			sched_yield();
	for (i = 0; i < 2; i++)
		assert_int_equal(pthread_join(threads[i], NULL), 0);
	(void)guest_turn(&seen, &avail);

	assert_int_equal(vq.fault, VQ_DEVICE_OK);
	for (i = 0; i < 2; i++) {
		assert_int_equal(senders[i].other_drops, 0);
		assert_true(senders[i].delivered >= FRAMES);
		assert_true(senders[i].seen == senders[i].delivered);
		vq_net_burst_destroy(senders[i].w->put);
		free(senders[i].w);
	}
	vq_mem_destroy(mem);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(two_workers_one_ring)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
