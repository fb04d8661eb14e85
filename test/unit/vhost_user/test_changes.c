/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Changes that a backend tells of while workers go on: of a call descriptor, and of the MTU. */

#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "connected.h"

static int events[2];

static int
setup(void **state)
{
	connected_setup(state);
	peer_close(&p);
	host_stop(&h);
	h.ops = &host_telling_ops;
	host_restart(&h);
	h.quiesces = h.updates = 0;
	peer_connect(&p, &h);
	peer_up(&p, &shm);
	events[0] = eventfd(0, EFD_CLOEXEC);
	events[1] = eventfd(0, EFD_CLOEXEC);
	return 0;
}

static int
teardown(void **state)
{
	close(events[0]);
	close(events[1]);
	return connected_teardown(state);
}

static void
a_call_descriptor_is_swapped_under_workers(void **state)
{
	uint32_t quiesces = h.quiesces, fds, i;
	uint64_t n = 1;

	(void)state;
	assert_int_equal(h.calls_changed, 0); /* rings that were not ready yet */
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 1, events[0]), 0);
	assert_int_equal(h.calls_changed, 1);
	fds = count_fds();
	for (i = 0; i < 100; i++)
		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 1, events[i % 2]), 0);
	assert_int_equal(h.calls_changed, 101);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(write(ring(1)->call, &n, sizeof(n)), sizeof(n));
	assert_int_equal(read(events[1], &n, sizeof(n)), sizeof(n));
	/* None is a change, too. */
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 1 | VU_VRING_NOFD, -1), 0);
	assert_int_equal(ring(1)->call, -1);
	assert_int_equal(h.calls_changed, 102);
	assert_int_equal(h.quiesces, quiesces);
	/* A refused one is none. */
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 1, shm.fd), 1);
	assert_int_equal(h.calls_changed, 102);
	/* Of a ring that is stopped nobody is told before it starts. */
	peer_get_base(&p, 1);
	quiesces = h.quiesces;
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 1, events[0]), 0);
	assert_int_equal(h.calls_changed, 102);
	assert_int_equal(h.quiesces, quiesces);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, 1 | VU_VRING_NOFD, -1), 0);
	assert_int_equal(h.quiesces, quiesces + 1);
	assert_true(ring(1)->ready && ring(1)->call >= 0);
}

static void
the_mtu_changes_under_workers(void **state)
{
	uint32_t quiesces = h.quiesces;

	(void)state;
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 1500), 0);
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 1500), 0);
	assert_int_equal(h.mtus_changed, 1);
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 9001), 1);
	assert_int_equal(h.mtus_changed, 1);
	assert_int_equal(vu_backend_mtu(h.b), 1500);
	assert_int_equal(h.quiesces, quiesces);
}

/* In a turn in which workers are away anyway, update() says it all. */
static void
what_update_tells_is_not_told_twice(void **state)
{
	union vu_payload off = {.state = {.index = 1, .num = 0}}, mtu = {.u64 = 2000};
	union vu_payload call = {.u64 = 0};
	uint32_t updates = h.updates;

	(void)state;
	peer_send(&p, VU_SET_VRING_ENABLE, VU_FLAG_VERSION, &off, sizeof(off.state), NULL, 0);
	peer_send(&p, VU_NET_SET_MTU, VU_FLAG_VERSION, &mtu, sizeof(mtu.u64), NULL, 0);
	peer_send(&p, VU_SET_VRING_CALL, VU_FLAG_VERSION, &call, sizeof(call.u64), events, 1);
	host_run(&h);
	assert_int_equal(h.updates, updates + 1);
	assert_int_equal(h.calls_changed, 0);
	assert_int_equal(h.mtus_changed, 0);
	assert_int_equal(vu_backend_mtu(h.b), 2000);
	assert_true(ring(0)->call >= 0);
}

/* Who hears of a change waits for workers: a peer that changes all the time does it once a turn. */
static void
a_turn_has_one_change(void **state)
{
	uint32_t quiesces = h.quiesces, i;

	(void)state;
	for (i = 0; i < 10; i++) {
		union vu_payload call = {.u64 = i & 1}, mtu = {.u64 = 1000 + i};

		peer_send(
			&p, VU_SET_VRING_CALL, VU_FLAG_VERSION, &call, sizeof(call.u64), events, 1);
		peer_send(&p, VU_NET_SET_MTU, VU_FLAG_VERSION, &mtu, sizeof(mtu.u64), NULL, 0);
	}
	for (i = 0; i < 10; i++) {
		vu_backend_process(h.b);
		assert_int_equal(h.calls_changed, i + 1);
		assert_int_equal(h.mtus_changed, i);
		vu_backend_process(h.b);
		assert_int_equal(h.mtus_changed, i + 1);
	}
	assert_int_equal(vu_backend_mtu(h.b), 1009);
	assert_int_equal(h.quiesces, quiesces);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_call_descriptor_is_swapped_under_workers),
		TEST(the_mtu_changes_under_workers),
		TEST(what_update_tells_is_not_told_twice),
		TEST(a_turn_has_one_change),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
