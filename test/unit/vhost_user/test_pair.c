/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Both ends in one process: what our frontend says, our backend understands. */

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "host.h"
#include "vu_frontend.h"

#define GUEST      UINT64_C(0x100000000)
#define BYTES      UINT64_C(65536)
#define TIMEOUT_MS 5000
#define REGIONS    12

static struct host h;
static struct shm shm[REGIONS];
static struct vu_region regions[REGIONS];
static uint32_t fds_before;

static int
setup_shm(void **state)
{
	uint32_t i;

	(void)state;
	fds_before = count_fds();
	for (i = 0; i < REGIONS; i++) {
		shm_init(&shm[i], GUEST + i * UINT64_C(0x100000), BYTES);
		regions[i] = (struct vu_region){
			.guest = shm[i].region.guest,
			.user = shm[i].region.user,
			.size = BYTES,
			.fd = shm[i].fd,
		};
	}
	return 0;
}

static int
setup(void **state)
{
	setup_shm(state);
	host_start(&h, 2, false);
	host_thread_start(&h);
	return 0;
}

static int
teardown(void **state)
{
	uint32_t i;

	(void)state;
	host_thread_stop(&h);
	host_stop(&h);
	for (i = 0; i < REGIONS; i++)
		shm_free(&shm[i]);
	assert_int_equal(count_fds(), fds_before);
	return 0;
}

static struct vu_frontend *
connect_frontend(void)
{
	struct vu_frontend *f;
	int fd = vu_socket_connect(h.config.socket.path);

	assert_true(fd >= 0);
	assert_int_equal(vu_frontend_open(fd, TIMEOUT_MS, &f), 0);
	return f;
}

static void
negotiate(struct vu_frontend *f, uint64_t wanted)
{
	uint64_t features = 0;
	uint32_t have = 0;

	assert_int_equal(vu_frontend_negotiate(f, wanted, 1, &features, &have), 0);
	assert_int_equal(have, 2);
	assert_int_equal(features, wanted & HOST_FEATURES);
	assert_int_equal(vu_frontend_set_features(f, features), 0);
}

static void
start_ring(struct vu_frontend *f, uint32_t i, uint16_t base, int kick, int call)
{
	struct vu_ring_addr addr = {
		.desc = ring_desc(&shm[0], i),
		.avail = ring_avail(&shm[0], i),
		.used = ring_used(&shm[0], i),
	};

	assert_int_equal(vu_frontend_start_ring(f, i, RING_SIZE, base, &addr, kick, call), 0);
}

static void
up(struct vu_frontend *f)
{
	uint32_t i;

	negotiate(f, VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF));
	assert_int_equal(vu_frontend_set_memory(f, regions, 1), 0);
	for (i = 0; i < 2; i++)
		start_ring(f, i, 0, -1, -1);
	for (i = 0; i < 2; i++)
		assert_int_equal(vu_frontend_enable_ring(f, i, true), 0);
	assert_int_equal(vu_frontend_driver_ok(f), 0);
	/* Each of these was acknowledged, so all of it is in effect. */
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
}

static void
from_nothing_to_traffic_and_back(void **state)
{
	int kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	int call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	struct vu_frontend *f = connect_frontend();
	const struct vu_ring *r = vu_backend_ring(h.b, 1);
	uint16_t base = 0;
	uint64_t n = 1;

	(void)state;
	up(f);
	assert_int_equal(vu_backend_features(h.b), VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF));
	assert_int_equal(vu_frontend_protocol_features(f), vu_backend_protocol_features(h.b));
	assert_int_equal(vu_frontend_mem_slots(f), 509);
	assert_true(r->enabled);
	assert_int_equal(vu_frontend_set_mtu(f, 1500), 0);
	assert_int_equal(vu_backend_mtu(h.b), 1500);
	assert_int_equal(vu_frontend_set_mtu(f, 9001), -EREMOTEIO);
	assert_int_equal(vu_backend_mtu(h.b), 1500);
	/* Stop and start elsewhere, with descriptors now. */
	assert_int_equal(vu_frontend_enable_ring(f, 1, false), 0);
	assert_int_equal(vu_frontend_stop_ring(f, 1, &base), 0);
	assert_int_equal(base, 0);
	assert_false(r->ready || r->enabled);
	start_ring(f, 1, 1234, kick, call);
	assert_true(r->ready);
	assert_int_equal(r->vq.avail_idx, 1234);
	assert_int_equal(write(r->call, &n, sizeof(n)), sizeof(n));
	assert_int_equal(read(call, &n, sizeof(n)), sizeof(n));
	assert_int_equal(write(kick, &n, sizeof(n)), sizeof(n));
	assert_int_equal(read(r->kick, &n, sizeof(n)), sizeof(n));
	assert_int_equal(vu_frontend_stop_ring(f, 1, &base), 0);
	assert_int_equal(base, 1234);
	assert_int_equal(vu_frontend_stop_ring(f, 1, &base), 0);
	assert_int_equal(base, 1234);
	assert_int_equal(vu_frontend_check(f), 0);
	/* And from the start, on the same connection. */
	assert_int_equal(vu_frontend_reset(f), 0);
	assert_int_equal(vu_backend_features(h.b), 0);
	up(f);
	vu_frontend_close(f);
	close(kick);
	close(call);
}

static void
the_backend_has_fewer_queues(void **state)
{
	struct vu_frontend *f = connect_frontend();
	uint64_t features;
	uint32_t have = 0;

	(void)state;
	assert_int_equal(vu_frontend_negotiate(f, VQ_FEATURE(MQ), 3, &features, &have), -ENOSPC);
	assert_int_equal(have, 2);
	assert_int_equal(vu_frontend_check(f), 0);
	/* The driver takes what there is. */
	up(f);
	vu_frontend_close(f);
}

static void
memory_goes_over_as_a_difference(void **state)
{
	struct vu_frontend *f = connect_frontend();
	const struct vu_ring *r = vu_backend_ring(h.b, 0);
	uint64_t before, avail;
	uint32_t hint = 0;

	(void)state;
	up(f);
	before = vu_backend_stats(h.b)->messages;
	assert_int_equal(vu_frontend_set_memory(f, regions, 1), 0);
	assert_int_equal(vu_backend_stats(h.b)->messages, before);
	/* More than a table could hold. */
	assert_int_equal(vu_frontend_set_memory(f, regions, REGIONS), 0);
	assert_int_equal(vu_backend_stats(h.b)->messages, before + REGIONS - 1);
	assert_non_null(vq_mem_translate(r->vq.mem, &hint, regions[11].guest, &avail));
	/* Some go, one comes where one of them was. */
	regions[2].guest = regions[11].guest;
	before = vu_backend_stats(h.b)->messages;
	assert_int_equal(vu_frontend_set_memory(f, regions, 3), 0);
	assert_int_equal(vu_backend_stats(h.b)->messages, before + 10 + 1);
	assert_non_null(vq_mem_translate(r->vq.mem, &hint, regions[2].guest, &avail));
	assert_null(vq_mem_translate(r->vq.mem, &hint, regions[3].guest, &avail));
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	/* Another file at the same place is another region. */
	regions[1].fd = shm[5].fd;
	shm[5].at[0] = 0x55;
	assert_int_equal(vu_frontend_set_memory(f, regions, 3), 0);
	assert_int_equal(*vq_mem_translate(r->vq.mem, &hint, regions[1].guest, &avail), 0x55);
	/* What the backend refuses leaves the rest, on both sides. */
	regions[3].size = 2 * BYTES;
	assert_int_equal(vu_frontend_set_memory(f, regions, 4), -EREMOTEIO);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	before = vu_backend_stats(h.b)->messages;
	assert_int_equal(vu_frontend_set_memory(f, regions, 3), 0);
	assert_int_equal(vu_backend_stats(h.b)->messages, before);
	vu_frontend_close(f);
}

static void
wait_for_state(enum vu_backend_state wanted)
{
	uint32_t i;

	for (i = 0; i < 500 && vu_backend_state(h.b) != wanted; i++)
		poll(NULL, 0, 10);
	assert_int_equal(vu_backend_state(h.b), wanted);
}

static void
the_frontend_notices_and_comes_back(void **state)
{
	uint32_t round, i;

	(void)state;
	for (round = 0; round < 20; round++) {
		struct vu_frontend *f = connect_frontend();

		up(f);
		host_thread_stop(&h);
		vu_backend_disconnect(h.b, "test");
		host_thread_start(&h);
		for (i = 0; i < 500 && vu_frontend_check(f) == 0; i++)
			poll(NULL, 0, 10);
		assert_int_equal(vu_frontend_check(f), -ECONNRESET);
		assert_int_equal(vu_frontend_set_mtu(f, 1500), -ECONNRESET);
		vu_frontend_close(f);
		wait_for_state(VU_BACKEND_DOWN);
	}
}

static void
the_frontend_listens(void **state)
{
	char error[256];
	uint32_t round, i;
	int l;

	setup_shm(state);
	host_start(&h, 2, true);
	host_thread_start(&h);
	for (round = 0; round < 5; round++) {
		struct vu_frontend *f;
		int fd = -EAGAIN;

		l = vu_socket_listen(&h.config.socket, error, sizeof(error));
		assert_true(l >= 0);
		for (i = 0; i < 500 && fd < 0; i++) {
			struct pollfd p = {.fd = l, .events = POLLIN};

			poll(&p, 1, 10);
			fd = vu_socket_accept(l);
		}
		assert_true(fd >= 0);
		assert_int_equal(vu_frontend_open(fd, TIMEOUT_MS, &f), 0);
		up(f);
		vu_frontend_close(f);
		vu_socket_unlisten(l, h.config.socket.path);
		wait_for_state(VU_BACKEND_DOWN);
	}
	teardown(state);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(from_nothing_to_traffic_and_back),
		TEST(the_backend_has_fewer_queues),
		TEST(memory_goes_over_as_a_difference),
		TEST(the_frontend_notices_and_comes_back),
		cmocka_unit_test(the_frontend_listens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
