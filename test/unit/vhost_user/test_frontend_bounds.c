/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* How long a frontend waits, where a backend may leave it, and what another negotiation forgets. */

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "script.h"
#include "vu_time.h"

#define ALL                                                                                        \
	(VU_PROTOCOL(MQ) | VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(NET_MTU) |                         \
		VU_PROTOCOL(RESET_DEVICE) | VU_PROTOCOL(CONFIGURE_MEM_SLOTS) |                     \
		VU_PROTOCOL(STATUS))

/* The calls of a driver that comes up and goes down; stops at the first that fails. */
static int
up_and_down(void)
{
	struct vu_ring_addr addr = {0x1000, 0x2000, 0x3000};
	struct vu_region region = {.size = 4096, .fd = script.fd};
	uint64_t features;
	uint32_t have;
	uint16_t base;
	int err = negotiate(&features, &have);

	err = err != 0 ? err : vu_frontend_set_features(f, features);
	err = err != 0 ? err : vu_frontend_set_memory(f, &region, 1);
	err = err != 0 ? err : vu_frontend_start_ring(f, 0, 256, 0, &addr, -1, -1);
	err = err != 0 ? err : vu_frontend_enable_ring(f, 0, true);
	err = err != 0 ? err : vu_frontend_driver_ok(f);
	err = err != 0 ? err : vu_frontend_set_mtu(f, 1500);
	err = err != 0 ? err : vu_frontend_set_memory(f, NULL, 0);
	err = err != 0 ? err : vu_frontend_stop_ring(f, 0, &base);
	return err != 0 ? err : vu_frontend_reset(f);
}

/* What an honest backend says to these calls. */
static const struct {
	uint32_t request;
	uint64_t value;
} answers[] = {
	{VU_GET_FEATURES, VQ_FEATURE(VERSION_1) | BIT30},
	{VU_GET_PROTOCOL_FEATURES, ALL},
	{VU_SET_OWNER, 0},
	{VU_GET_QUEUE_NUM, 1},
	{VU_GET_MAX_MEM_SLOTS, 32},
	{VU_SET_STATUS, 0},
	{VU_SET_STATUS, 0},
	{VU_SET_FEATURES, 0},
	{VU_SET_STATUS, 0},
	{VU_GET_STATUS, 11},
	{VU_ADD_MEM_REG, 0},
	{VU_SET_VRING_NUM, 0},
	{VU_SET_VRING_BASE, 0},
	{VU_SET_VRING_ADDR, 0},
	{VU_SET_VRING_CALL, 0},
	{VU_SET_VRING_KICK, 0},
	{VU_SET_VRING_ENABLE, 0},
	{VU_SET_STATUS, 0},
	{VU_NET_SET_MTU, 0},
	{VU_REM_MEM_REG, 0},
	{VU_GET_VRING_BASE, 0},
	{VU_RESET_DEVICE, 0},
};

static void
say_first(uint32_t n)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		say(answers[i].request, answers[i].value);
}

static void
a_backend_may_leave_at_every_step(void **state)
{
	uint32_t n;

	for (n = 0; n < COUNT_OF(answers); n++) {
		say_first(n);
		shutdown(script.fd, SHUT_WR);
		assert_int_equal(up_and_down(), -ECONNRESET);
		/* Sticky, and without another word. */
		assert_int_equal(vu_frontend_check(f), -ECONNRESET);
		assert_int_equal(up_and_down(), -ECONNRESET);
		script_teardown(state);
		script_setup(state);
	}
	say_first(n);
	assert_int_equal(up_and_down(), 0);
	assert_int_equal(vu_frontend_check(f), 0);
}

/* All that have an acknowledgement may be refused, and the connection stays. */
static void
a_backend_may_refuse_every_step(void **state)
{
	uint32_t n, refused = 0;

	for (n = 0; n < COUNT_OF(answers); n++) {
		if (answers[n].value != 0 || answers[n].request == VU_GET_VRING_BASE)
			continue;
		say_first(n);
		say(answers[n].request, 1);
		assert_int_equal(up_and_down(),
			answers[n].request == VU_SET_FEATURES ||
					(n < 10 && answers[n].request == VU_SET_STATUS)
				? -EINVAL
				: -EREMOTEIO);
		assert_int_equal(vu_frontend_check(f), 0);
		refused++;
		script_teardown(state);
		script_setup(state);
	}
	assert_int_equal(refused, 16);
}

static void
the_deadline_bounds_the_sum(void **state)
{
	uint64_t began = vu_now_ms();
	uint32_t i;

	(void)state;
	agree(VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(NET_MTU));
	vu_frontend_set_deadline(f, 60);
	/* Each of these answers is there in time; after the deadline none is waited for. */
	for (i = 0; i < 3; i++) {
		say(VU_NET_SET_MTU, 0);
		assert_int_equal(vu_frontend_set_mtu(f, 1500), 0);
	}
	assert_int_equal(vu_frontend_set_mtu(f, 1500), -ETIMEDOUT);
	assert_true(vu_now_ms() >= began + 60);
	assert_int_equal(vu_frontend_set_mtu(f, 1500), -ETIMEDOUT);
}

/* No acknowledgements, and nobody who reads: it waits for room, then gives up. */
static void
a_backend_that_does_not_read(void **state)
{
	struct vu_ring_addr addr = {0x1000, 0x2000, 0x3000};
	int small = 1, err = 0;
	uint32_t i, began;

	(void)state;
	agree(0);
	assert_int_equal(
		setsockopt(vu_frontend_fd(f), SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
	for (i = 0; i < 100000 && err == 0; i++)
		err = vu_frontend_start_ring(f, 0, 256, 0, &addr, -1, -1);
	assert_int_equal(err, -ETIMEDOUT);
	/* What had gone out is whole. */
	for (began = 0; began + 5 < 5 * i; began += 5) {
		hear(VU_SET_VRING_NUM);
		hear(VU_SET_VRING_BASE);
		hear(VU_SET_VRING_ADDR);
		hear(VU_SET_VRING_CALL);
		hear(VU_SET_VRING_KICK);
	}
}

static void
rings_that_have_no_number(void **state)
{
	struct vu_ring_addr addr = {0x1000, 0x2000, 0x3000};

	(void)state;
	agree(0);
	assert_int_equal(vu_frontend_start_ring(f, 256, 256, 0, &addr, -1, -1), -EINVAL);
	assert_int_equal(vu_frontend_start_ring(f, UINT32_MAX, 256, 0, &addr, -1, -1), -EINVAL);
	hear_nothing();
	assert_int_equal(vu_frontend_start_ring(f, 255, 256, 0, &addr, -1, -1), 0);
	assert_int_equal(hear(VU_SET_VRING_NUM).payload.state.index, 255);
}

/* What the first negotiation agreed on does not outlive the second. */
static void
another_negotiation_forgets_the_first(void **state)
{
	struct vu_region regions[9] = {{0}};
	uint64_t features;
	uint32_t have, i;

	(void)state;
	say_first(5);
	assert_int_equal(negotiate(&features, &have), 0);
	assert_int_equal(vu_frontend_mem_slots(f), 32);
	assert_int_equal(vu_frontend_protocol_features(f), ALL);
	say(VU_GET_FEATURES, VQ_FEATURE(VERSION_1));
	assert_int_equal(negotiate(&features, &have), 0);
	assert_int_equal(vu_frontend_protocol_features(f), 0);
	assert_int_equal(vu_frontend_mem_slots(f), 8);
	for (i = 0; i < 9; i++)
		regions[i] = (struct vu_region){.size = 4096, .fd = script.fd};
	assert_int_equal(vu_frontend_set_memory(f, regions, 9), -E2BIG);
	assert_int_equal(vu_frontend_check(f), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, script_setup, script_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_backend_may_leave_at_every_step),
		TEST(a_backend_may_refuse_every_step),
		TEST(the_deadline_bounds_the_sum),
		TEST(a_backend_that_does_not_read),
		TEST(rings_that_have_no_number),
		TEST(another_negotiation_forgets_the_first),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
