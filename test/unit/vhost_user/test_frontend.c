/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "script.h"

static void
a_backend_of_the_old_days(void **state)
{
	struct vu_ring_addr addr = {0x1000, 0x2000, 0x3000};
	struct vu_region region = {.size = 4096};
	uint64_t features = 0;
	uint32_t have = 0;
	struct vu_msg m;
	uint16_t base;

	(void)state;
	say(VU_GET_FEATURES, VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF));
	assert_int_equal(negotiate(&features, &have), 0);
	assert_int_equal(features, VQ_FEATURE(VERSION_1));
	assert_int_equal(have, 1);
	assert_int_equal(vu_frontend_protocol_features(f), 0);
	assert_int_equal(vu_frontend_mem_slots(f), 8);
	assert_int_equal(vu_frontend_set_features(f, features), 0);
	assert_int_equal(vu_frontend_start_ring(f, 1, 256, 7, &addr, -1, -1), 0);
	assert_int_equal(vu_frontend_enable_ring(f, 1, true), 0);
	assert_int_equal(vu_frontend_driver_ok(f), 0);
	assert_int_equal(vu_frontend_set_mtu(f, 1500), 0);
	assert_int_equal(vu_frontend_reset(f), -ENOTSUP);
	hear(VU_GET_FEATURES);
	hear(VU_SET_OWNER);
	/* Bit 30 is for those who have it; no acknowledgement is asked for. */
	m = hear(VU_SET_FEATURES);
	assert_int_equal(m.payload.u64, VQ_FEATURE(VERSION_1));
	assert_int_equal(m.hdr.flags, VU_FLAG_VERSION);
	m = hear(VU_SET_VRING_NUM);
	assert_int_equal(m.payload.state.index, 1);
	assert_int_equal(m.payload.state.num, 256);
	assert_int_equal(hear(VU_SET_VRING_BASE).payload.state.num, 7);
	m = hear(VU_SET_VRING_ADDR);
	assert_int_equal(m.payload.addr.desc, 0x1000);
	assert_int_equal(m.payload.addr.avail, 0x2000);
	assert_int_equal(m.payload.addr.used, 0x3000);
	assert_int_equal(hear(VU_SET_VRING_CALL).payload.u64, 0x101);
	assert_int_equal(hear(VU_SET_VRING_KICK).payload.u64, 0x101);
	hear_nothing();
	/* Memory is one table, and a question behind it tells when it was taken. */
	region.fd = eventfd(0, EFD_CLOEXEC);
	say(VU_GET_FEATURES, 0);
	assert_int_equal(vu_frontend_set_memory(f, &region, 1), 0);
	m = hear(VU_SET_MEM_TABLE);
	assert_int_equal(m.nfds, 1);
	assert_int_equal(m.payload.table.count, 1);
	assert_int_equal(m.hdr.size, 8 + 32);
	hear(VU_GET_FEATURES);
	close(region.fd);
	assert_true(peer_send(&script, VU_GET_VRING_BASE, REPLY,
		&(union vu_payload){.state = {1, 65535}}, 8, NULL, 0));
	assert_int_equal(vu_frontend_stop_ring(f, 1, &base), 0);
	assert_int_equal(base, 65535);
}

static void
more_regions_than_slots(void **state)
{
	struct vu_region regions[9] = {{0}};
	uint32_t i;

	(void)state;
	agree(VU_PROTOCOL(REPLY_ACK));
	for (i = 0; i < 9; i++)
		regions[i].fd = script.fd;
	assert_int_equal(vu_frontend_set_memory(f, regions, 9), -E2BIG);
	hear_nothing();
	assert_int_equal(vu_frontend_check(f), 0);
	say(VU_SET_MEM_TABLE, 0);
	assert_int_equal(vu_frontend_set_memory(f, regions, 8), 0);
	/* A region without a file is refused before anything is sent. */
	hear(VU_SET_MEM_TABLE);
	regions[1].fd = -1;
	assert_int_equal(vu_frontend_set_memory(f, regions, 2), -EBADF);
	hear_nothing();
}

static void
a_refusal_is_not_the_end(void **state)
{
	(void)state;
	agree(VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(NET_MTU));
	say(VU_NET_SET_MTU, 1);
	assert_int_equal(vu_frontend_set_mtu(f, 1500), -EREMOTEIO);
	say(VU_NET_SET_MTU, UINT64_MAX);
	assert_int_equal(vu_frontend_set_mtu(f, 1500), -EREMOTEIO);
	say(VU_NET_SET_MTU, 0);
	assert_int_equal(vu_frontend_set_mtu(f, 1500), 0);
	assert_true(hear(VU_NET_SET_MTU).hdr.flags & VU_FLAG_NEED_REPLY);
}

static void
features_that_do_not_stick(void **state)
{
	(void)state;
	agree(VU_PROTOCOL(STATUS));
	say(VU_GET_STATUS, VU_STATUS_ACKNOWLEDGE | VU_STATUS_DRIVER);
	assert_int_equal(vu_frontend_set_features(f, VQ_FEATURE(VERSION_1)), -EINVAL);
	assert_int_equal(hear(VU_SET_STATUS).payload.u64, 1);
	assert_int_equal(hear(VU_SET_STATUS).payload.u64, 3);
	assert_int_equal(hear(VU_SET_FEATURES).payload.u64, VQ_FEATURE(VERSION_1) | BIT30);
	assert_int_equal(hear(VU_SET_STATUS).payload.u64, 11);
	hear(VU_GET_STATUS);
	say(VU_GET_STATUS, 11);
	assert_int_equal(vu_frontend_set_features(f, VQ_FEATURE(VERSION_1)), 0);
	assert_int_equal(vu_frontend_driver_ok(f), 0);
	assert_int_equal(vu_frontend_reset(f), 0);
	hear(VU_SET_STATUS);
	hear(VU_SET_STATUS);
	hear(VU_SET_FEATURES);
	hear(VU_SET_STATUS);
	hear(VU_GET_STATUS);
	assert_int_equal(hear(VU_SET_STATUS).payload.u64, 15);
	assert_int_equal(hear(VU_SET_STATUS).payload.u64, 0);
}

/* The first question of a frontend, answered with this; each ends the connection. */
static void
expect_end(int err)
{
	uint64_t features;
	uint32_t have;

	assert_int_equal(negotiate(&features, &have), err);
	assert_int_equal(negotiate(&features, &have), err);
	assert_int_equal(vu_frontend_set_mtu(f, 1500), 0); /* nothing to say, nothing said */
	assert_int_equal(vu_frontend_check(f), err);
	hear(VU_GET_FEATURES);
	hear_nothing();
}

static void
silence_is_bounded(void **state)
{
	(void)state;
	expect_end(-ETIMEDOUT);
}

static void
half_an_answer_is_bounded(void **state)
{
	struct vu_header hdr = {VU_GET_FEATURES, REPLY, 8};

	(void)state;
	assert_true(peer_raw(&script, &hdr, sizeof(hdr), NULL, 0));
	expect_end(-ETIMEDOUT);
}

static void
an_answer_to_another_question(void **state)
{
	(void)state;
	say(VU_GET_PROTOCOL_FEATURES, 0);
	expect_end(-EPROTO);
}

static void
an_answer_of_another_size(void **state)
{
	union vu_payload u = {.u64 = 0};

	(void)state;
	assert_true(peer_send(&script, VU_GET_FEATURES, REPLY, &u, 16, NULL, 0));
	expect_end(-EPROTO);
}

static void
a_question_for_an_answer(void **state)
{
	union vu_payload u = {.u64 = 0};

	(void)state;
	assert_true(peer_send(&script, VU_GET_FEATURES, VU_FLAG_VERSION, &u, 8, NULL, 0));
	expect_end(-EPROTO);
}

static void
an_oversized_answer(void **state)
{
	struct vu_header hdr = {VU_GET_FEATURES, REPLY, 100000};

	(void)state;
	assert_true(peer_raw(&script, &hdr, sizeof(hdr), NULL, 0));
	expect_end(-EMSGSIZE);
}

static void
an_answer_of_another_version(void **state)
{
	struct vu_header hdr = {VU_GET_FEATURES, VU_FLAG_REPLY | 2, 8};

	(void)state;
	assert_true(peer_raw(&script, &hdr, sizeof(hdr), NULL, 0));
	expect_end(-EPROTO);
}

static void
a_backend_that_left(void **state)
{
	uint64_t features;
	uint32_t have;

	(void)state;
	close(script.fd);
	script.fd = -1;
	assert_int_equal(vu_frontend_check(f), -ECONNRESET);
	assert_int_equal(negotiate(&features, &have), -ECONNRESET);
}

static void
a_byte_out_of_turn(void **state)
{
	(void)state;
	assert_int_equal(vu_frontend_check(f), 0);
	say(VU_GET_FEATURES, 0);
	assert_int_equal(vu_frontend_check(f), -EPROTO);
}

static void
descriptors_in_answers_are_closed(void **state)
{
	union vu_payload u = {.u64 = VQ_FEATURE(VERSION_1)};
	int fds[2] = {script.fd, script.fd};
	uint32_t before = count_fds();
	uint64_t features;
	uint32_t have;

	(void)state;
	assert_true(peer_send(&script, VU_GET_FEATURES, REPLY, &u, sizeof(u.u64), fds, 2));
	assert_int_equal(negotiate(&features, &have), 0);
	assert_int_equal(count_fds(), before);
	/* Too many of them are a protocol error. */
	script_teardown(state);
	script_setup(state);
	before = count_fds();
	{
		int many[40];
		uint32_t i;

		for (i = 0; i < 40; i++)
			many[i] = script.fd;
		peer_send(&script, VU_GET_FEATURES, REPLY, &u, sizeof(u.u64), many, 40);
	}
	expect_end(-EPROTO);
	assert_int_equal(count_fds(), before);
}

static void
a_base_that_cannot_be(void **state)
{
	union vu_payload u = {.state = {.index = 0, .num = 65536}};
	uint16_t base;

	(void)state;
	assert_true(peer_send(&script, VU_GET_VRING_BASE, REPLY, &u, 8, NULL, 0));
	assert_int_equal(vu_frontend_stop_ring(f, 0, &base), -EPROTO);
	assert_int_equal(vu_frontend_check(f), -EPROTO);
}

static void
limits_of_a_backend_that_boasts(void **state)
{
	uint64_t features;
	uint32_t have;

	(void)state;
	say(VU_GET_FEATURES, UINT64_MAX);
	say(VU_GET_PROTOCOL_FEATURES, UINT64_MAX);
	say(VU_SET_OWNER, 0);
	say(VU_GET_QUEUE_NUM, UINT64_MAX);
	say(VU_GET_MAX_MEM_SLOTS, UINT64_MAX);
	assert_int_equal(negotiate(&features, &have), 0);
	assert_int_equal(features, VQ_FEATURE(VERSION_1));
	assert_int_equal(have, 65535);
	assert_int_equal(vu_frontend_mem_slots(f), 512);
	hear(VU_GET_FEATURES);
	hear(VU_GET_PROTOCOL_FEATURES);
	/* Nothing is taken that we do not know. */
	assert_int_equal(hear(VU_SET_PROTOCOL_FEATURES).payload.u64,
		VU_PROTOCOL(MQ) | VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(NET_MTU) |
			VU_PROTOCOL(RESET_DEVICE) | VU_PROTOCOL(CONFIGURE_MEM_SLOTS) |
			VU_PROTOCOL(STATUS));
}

static void
what_cannot_be_opened(void **state)
{
	struct vu_frontend *g;
	int s[2];

	(void)state;
	assert_int_equal(vu_frontend_open(-1, 100, &g), -EBADF);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(vu_frontend_open(s[0], 0, &g), -EINVAL);
	assert_int_equal(vu_frontend_open(s[1], 60001, &g), -EINVAL);
	vu_frontend_close(NULL);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, script_setup, script_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_backend_of_the_old_days),
		TEST(more_regions_than_slots),
		TEST(a_refusal_is_not_the_end),
		TEST(features_that_do_not_stick),
		TEST(silence_is_bounded),
		TEST(half_an_answer_is_bounded),
		TEST(an_answer_to_another_question),
		TEST(an_answer_of_another_size),
		TEST(a_question_for_an_answer),
		TEST(an_oversized_answer),
		TEST(an_answer_of_another_version),
		TEST(a_backend_that_left),
		TEST(a_byte_out_of_turn),
		TEST(descriptors_in_answers_are_closed),
		TEST(a_base_that_cannot_be),
		TEST(limits_of_a_backend_that_boasts),
		TEST(what_cannot_be_opened),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
