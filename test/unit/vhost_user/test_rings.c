/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "connected.h"
#include "vq_order.h"

static void
ring_sizes(void **state)
{
	static const uint32_t bad[] = {0, 3, 255, 257, 32767, 32769, 65536, 0x80000000, UINT32_MAX};
	uint32_t i, n;

	(void)state;
	peer_negotiate(&p, VQ_FEATURE(VERSION_1));
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, 0, 256), 0);
	for (i = 0; i < COUNT_OF(bad); i++) {
		assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, 0, bad[i]), 1);
		assert_int_equal(ring(0)->size, 256);
	}
	for (n = 1; n <= 32768; n *= 2)
		assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, 1, n), 0);
}

static void
ring_indices(void **state)
{
	static const uint32_t bad[] = {
		4, 5, 32, 33, 255, 256, 0x10000, 0x10001, 0x80000000, UINT32_MAX};
	static const uint64_t bad64[] = {4, 0xff, 0x200, 0x10000, 0x10001, 0x10100,
		UINT64_C(1) << 32, UINT64_C(1) << 63, UINT64_MAX};
	uint32_t i;
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);

	(void)state;
	peer_up(&p, &shm);
	for (i = 0; i < COUNT_OF(bad); i++) {
		assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, bad[i], 256), 1);
		assert_int_equal(peer_ask_state(&p, VU_SET_VRING_BASE, bad[i], 0), 1);
		assert_int_equal(peer_ask_state(&p, VU_SET_VRING_ENABLE, bad[i], 1), 1);
		assert_int_equal(peer_ask_addr(&p, bad[i], ring_desc(&shm, 0), ring_avail(&shm, 0),
					 ring_used(&shm, 0)),
			1);
	}
	for (i = 0; i < COUNT_OF(bad64); i++) {
		uint64_t v = bad64[i];

		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, v, fd), 1);
		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, v, fd), 1);
		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_ERR, v, fd), 1);
		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, v | VU_VRING_NOFD, -1), 1);
	}
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	/* GET_VRING_BASE has no way to say no. */
	assert_true(peer_send(&p, VU_GET_VRING_BASE, VU_FLAG_VERSION,
		&(union vu_payload){.state.index = 0x10001}, 8, NULL, 0));
	assert_true(peer_gone(&p));
	close(fd);
}

static void
a_ring_starts_when_it_is_whole(void **state)
{
	(void)state;
	peer_negotiate(&p, VQ_FEATURE(VERSION_1));
	assert_int_equal(peer_ask_table(&p, &shm, 1), 0);
	peer_start_ring(&p, &shm, 0, 5);
	assert_true(ring(0)->ready);
	assert_false(ring(0)->enabled);
	assert_false(ring(1)->ready);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_CONNECTED);
	assert_int_equal(ring(0)->vq.avail_idx, 5);
	assert_int_equal(ring(0)->vq.size, RING_SIZE);
	peer_start_ring(&p, &shm, 1, 0);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_ENABLE, 0, 1), 0);
	assert_true(ring(0)->enabled);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_ENABLE, 0, 2), 1);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_ENABLE, 0, UINT32_MAX), 1);
	assert_true(ring(0)->enabled);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_ENABLE, 0, 0), 0);
	assert_false(ring(0)->enabled);
	assert_true(ring(0)->ready);
}

/* The messages that make a ring whole, in every order. */
static void
start_in_order(const uint32_t *order)
{
	uint32_t i;

	assert_int_equal(peer_ask_u64(&p, VU_SET_PROTOCOL_FEATURES,
				 VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(STATUS)),
		0);
	for (i = 0; i < 6; i++) {
		assert_false(ring(0)->ready);
		switch (order[i]) {
		case 0:
			assert_int_equal(
				peer_ask_u64(&p, VU_SET_FEATURES, VQ_FEATURE(PROTOCOL_FEATURES)),
				0);
			break;
		case 1:
			assert_int_equal(peer_ask_table(&p, &shm, 1), 0);
			break;
		case 2:
			assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, 0, RING_SIZE), 0);
			break;
		case 3:
			assert_int_equal(peer_ask_addr(&p, 0, ring_desc(&shm, 0),
						 ring_avail(&shm, 0), ring_used(&shm, 0)),
				0);
			break;
		case 4:
			assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, VU_VRING_NOFD, -1), 0);
			break;
		case 5:
			assert_int_equal(peer_ask_state(&p, VU_SET_VRING_ENABLE, 0, 1), 0);
			break;
		}
		/* Enabling is not a part of it: what is missing is one of the others. */
		if (i == 4 && order[5] == 5) {
			assert_true(ring(0)->ready);
			assert_int_equal(peer_ask_state(&p, VU_SET_VRING_ENABLE, 0, 1), 0);
			break;
		}
	}
	assert_true(ring(0)->ready);
	assert_true(ring(0)->enabled);
	assert_int_equal(peer_ask_u64(&p, VU_SET_STATUS, 0), 0);
	assert_false(ring(0)->ready);
	/* Memory outlives a reset of the device. */
	assert_int_equal(peer_ask_table(&p, NULL, 0), 0);
}

static void
the_order_of_messages_does_not_matter(void **state)
{
	uint32_t order[6] = {0, 1, 2, 3, 4, 5};
	uint32_t c[6] = {0};
	uint32_t i = 0, runs = 1;

	(void)state;
	start_in_order(order);
	while (i < 6) { /* Heap's algorithm */
		if (c[i] < i) {
			uint32_t j = i % 2 ? c[i] : 0;
			uint32_t t = order[i];

			order[i] = order[j];
			order[j] = t;
			start_in_order(order);
			runs++;
			c[i]++;
			i = 0;
		} else {
			c[i++] = 0;
		}
	}
	assert_int_equal(runs, 720);
}

static void
without_protocol_features_rings_are_enabled(void **state)
{
	(void)state;
	assert_int_equal(peer_ask_u64(&p, VU_SET_PROTOCOL_FEATURES, VU_PROTOCOL(REPLY_ACK)), 0);
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, 0), 0);
	assert_int_equal(peer_ask_table(&p, &shm, 1), 0);
	peer_start_ring(&p, &shm, 0, 0);
	assert_true(ring(0)->ready && ring(0)->enabled);
	peer_get_base(&p, 0);
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, VQ_FEATURE(PROTOCOL_FEATURES)), 0);
	assert_false(ring(0)->enabled);
}

static void
the_base_is_the_next_available_index(void **state)
{
	struct vq_chain chain[3];
	struct vq_seg segs[3];
	struct vq_desc *desc = (struct vq_desc *)(void *)(shm.at + 4096);
	struct vq_avail *avail = (struct vq_avail *)(void *)(shm.at + 4096 + 1024);
	struct vq_used *used = (struct vq_used *)(void *)(shm.at + 4096 + 2048);
	struct vq_device *q = &vu_backend_ring(h.b, 1)->vq;
	uint32_t i;

	(void)state;
	for (i = 0; i < 3; i++) {
		desc[i] = (struct vq_desc){.addr = GUEST + 16384, .len = 100};
		vq_store(&avail->ring[(65534 + i) % RING_SIZE], (uint16_t)i);
	}
	vq_store(&used->idx, 65534);
	vq_publish_index(&avail->idx, (uint16_t)(65534 + 3));
	peer_negotiate(&p, VQ_FEATURE(VERSION_1));
	assert_int_equal(peer_ask_table(&p, &shm, 1), 0);
	peer_start_ring(&p, &shm, 1, 65534);
	assert_int_equal(vq_device_peek(q, false, chain, 3, segs, 3, 0), 3);
	vq_device_complete(q, chain[0].head, 0);
	vq_device_publish(q);
	/* One done, two handed out and not completed: these come again. Twice is harmless. */
	assert_int_equal(peer_get_base(&p, 1), 65535);
	assert_false(ring(1)->ready);
	assert_int_equal(peer_get_base(&p, 1), 65535);
	/* Of another ring nothing is stopped, and one that never ran has the base that was set. */
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_BASE, 0, 77), 0);
	assert_int_equal(peer_get_base(&p, 0), 77);
	/* Again from there; the used index is taken from the ring. */
	vq_store(&used->idx, 3);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, 1 | VU_VRING_NOFD, -1), 0);
	assert_true(ring(1)->ready);
	assert_int_equal(q->avail_idx, 65535);
	assert_int_equal(q->used_idx, 3);
	assert_int_equal(vq_device_peek(q, false, chain, 3, segs, 3, 0), 2);
	assert_int_equal(chain[0].head, 1);
	vq_device_rewind(q, 2);
}

static void
a_running_ring_is_not_reconfigured(void **state)
{
	(void)state;
	peer_up(&p, &shm);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, 0, 2 * RING_SIZE), 1);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, 0, RING_SIZE), 0);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_BASE, 0, 1), 1);
	assert_int_equal(
		peer_ask_addr(&p, 0, ring_desc(&shm, 3), ring_avail(&shm, 3), ring_used(&shm, 3)),
		1);
	assert_int_equal(
		peer_ask_addr(&p, 0, ring_desc(&shm, 0), ring_avail(&shm, 0), ring_used(&shm, 0)),
		0);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	assert_int_equal(peer_get_base(&p, 0), 0);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_BASE, 0, 65536), 1);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_BASE, 0, 65535), 0);
	assert_int_equal(peer_get_base(&p, 0), 65535);
}

static void
ring_addresses(void **state)
{
	uint64_t d = ring_desc(&shm, 0), a = ring_avail(&shm, 0), u = ring_used(&shm, 0);
	uint64_t end = shm.region.user + shm.size;
	union vu_payload logged = {.addr = {.index = 0, .flags = 1, .desc = d, .avail = a}};

	(void)state;
	peer_negotiate(&p, VQ_FEATURE(VERSION_1));
	assert_int_equal(peer_ask_table(&p, &shm, 1), 0);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, 0, RING_SIZE), 0);
	/* Misaligned, outside, over the end, wrapping; each of the three. */
	assert_int_equal(peer_ask_addr(&p, 0, d + 8, a, u), 1);
	assert_int_equal(peer_ask_addr(&p, 0, d, a + 1, u), 1);
	assert_int_equal(peer_ask_addr(&p, 0, d, a, u + 2), 1);
	assert_int_equal(peer_ask_addr(&p, 0, 0, a, u), 1);
	assert_int_equal(peer_ask_addr(&p, 0, d, 0, u), 1);
	assert_int_equal(peer_ask_addr(&p, 0, d, a, 0), 1);
	assert_int_equal(peer_ask_addr(&p, 0, end - 16 * RING_SIZE + 16, a, u), 1);
	assert_int_equal(peer_ask_addr(&p, 0, d, end - 20, u), 1);
	assert_int_equal(peer_ask_addr(&p, 0, d, a, end - 68), 1);
	assert_int_equal(peer_ask_addr(&p, 0, UINT64_MAX - 15, a, u), 1);
	assert_int_equal(peer_ask_addr(&p, 0, d, UINT64_MAX - 1, u), 1);
	/* A dirty log was not offered. */
	assert_int_equal(peer_ask(&p, VU_SET_VRING_ADDR, &logged, sizeof(logged.addr), NULL, 0), 1);
	assert_false(ring(0)->addr_set);
	/* To the last byte. */
	assert_int_equal(peer_ask_addr(&p, 0, end - 16 * RING_SIZE, a, u), 0);
	assert_int_equal(peer_ask_addr(&p, 0, d, end - 22, u), 0);
	assert_int_equal(peer_ask_addr(&p, 0, d, a, end - 72), 0);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, VU_VRING_NOFD, -1), 0);
	assert_true(ring(0)->ready);
}

static void
event_descriptors(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	uint32_t before, i;
	uint64_t n = 1;
	int pipes[2];

	(void)state;
	peer_up(&p, &shm);
	assert_int_equal(ring(0)->call, -1);
	assert_int_equal(ring(0)->kick, -1);
	before = count_fds();
	for (i = 0; i < 20; i++) {
		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, fd), 0);
		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, 0, fd), 0);
		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_ERR, 0, fd), 0);
	}
	assert_int_equal(count_fds(), before + 3);
	assert_true(fcntl(ring(0)->call, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(ring(0)->call, F_GETFD) & FD_CLOEXEC);
	assert_int_equal(write(ring(0)->call, &n, sizeof(n)), sizeof(n));
	assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
	/* GET_VRING_BASE keeps the call descriptor: not every frontend sends it again. */
	peer_get_base(&p, 0);
	assert_true(ring(0)->call >= 0);
	assert_int_equal(ring(0)->kick, -1);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, VU_VRING_NOFD, -1), 0);
	assert_int_equal(ring(0)->call, -1);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_ERR, VU_VRING_NOFD, -1), 0);
	assert_int_equal(count_fds(), before);
	/* One too few, one too many; and what is no eventfd a worker must not write to. */
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, -1), 1);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, VU_VRING_NOFD, fd), 1);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, pipes[1]), 1);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, shm.fd), 1);
	close(pipes[0]);
	close(pipes[1]);
	close(fd);
	assert_int_equal(count_fds(), before - 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connected_setup, connected_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(ring_sizes),
		TEST(ring_indices),
		TEST(a_ring_starts_when_it_is_whole),
		TEST(the_order_of_messages_does_not_matter),
		TEST(without_protocol_features_rings_are_enabled),
		TEST(the_base_is_the_next_available_index),
		TEST(a_running_ring_is_not_reconfigured),
		TEST(ring_addresses),
		TEST(event_descriptors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
