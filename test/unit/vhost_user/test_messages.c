/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connected.h"
#include "vu_time.h"

static void
features(void **state)
{
	uint64_t all = HOST_FEATURES | VQ_FEATURE(PROTOCOL_FEATURES);
	uint64_t protocol;

	(void)state;
	assert_int_equal(peer_get_u64(&p, VU_GET_FEATURES), all);
	protocol = peer_get_u64(&p, VU_GET_PROTOCOL_FEATURES);
	assert_int_equal(protocol, VU_PROTOCOL(MQ) | VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(NET_MTU) |
					   VU_PROTOCOL(RESET_DEVICE) |
					   VU_PROTOCOL(CONFIGURE_MEM_SLOTS) | VU_PROTOCOL(STATUS));
	/* The acknowledgement is for those who agreed on it, from this message on. */
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, all), -1);
	assert_int_equal(peer_ask_u64(&p, VU_SET_PROTOCOL_FEATURES, protocol), 0);
	assert_int_equal(vu_backend_protocol_features(h.b), protocol);
	assert_int_equal(vu_backend_features(h.b), HOST_FEATURES);
	assert_int_equal(peer_ask(&p, VU_SET_OWNER, NULL, 0, NULL, 0), 0);
	assert_int_equal(peer_ask(&p, VU_SET_OWNER, NULL, 0, NULL, 0), 0);
	/* Fewer is fine. */
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, VQ_FEATURE(VERSION_1)), 0);
	assert_int_equal(vu_backend_features(h.b), VQ_FEATURE(VERSION_1));
}

static void
features_never_offered(void **state)
{
	const uint64_t begun = vu_now_ms();
	uint32_t bit;

	(void)state;
	peer_negotiate(&p, VQ_FEATURE(VERSION_1));
	for (bit = 0; bit < 64; bit++) {
		uint64_t f = UINT64_C(1) << bit;
		uint64_t all = HOST_FEATURES | VQ_FEATURE(PROTOCOL_FEATURES);

		if (f & all)
			continue;
		assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, all | f), 1);
		assert_int_equal(vu_backend_features(h.b), VQ_FEATURE(VERSION_1));
	}
	for (bit = 17; bit < 64; bit++)
		assert_int_equal(peer_ask_u64(&p, VU_SET_PROTOCOL_FEATURES,
					 VU_PROTOCOL(REPLY_ACK) | UINT64_C(1) << bit),
			1);
	assert_true(vu_backend_protocol_features(h.b) & VU_PROTOCOL(MQ));
	/* The log was kept short, the count was not: ten lines at once, then one a second. */
	assert_in_range(h.logs, 1, 12 + (vu_now_ms() - begun) / 1000);
	assert_true(vu_backend_stats(h.b)->bad_messages > 60);
}

static void
features_do_not_change_while_a_ring_runs(void **state)
{
	uint64_t set = VQ_FEATURE(VERSION_1) | VQ_FEATURE(PROTOCOL_FEATURES);
	uint32_t before;

	(void)state;
	peer_up(&p, &shm);
	before = h.quiesces;
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, set | VQ_FEATURE(EVENT_IDX)), 1);
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, 0), 1);
	assert_int_equal(peer_ask_u64(&p, VU_SET_PROTOCOL_FEATURES, VU_PROTOCOL(REPLY_ACK)), 1);
	/* The same again is no change, and nobody is disturbed. */
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, set), 0);
	assert_int_equal(h.quiesces, before);
	assert_int_equal(vu_backend_features(h.b), VQ_FEATURE(VERSION_1));
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	/* When they are stopped it may. */
	peer_get_base(&p, 0);
	peer_get_base(&p, 1);
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES, set | VQ_FEATURE(EVENT_IDX)), 0);
}

static void
queue_num_mtu_and_slots(void **state)
{
	(void)state;
	peer_negotiate(&p, VQ_FEATURE(VERSION_1) | VQ_FEATURE(MTU));
	assert_int_equal(peer_get_u64(&p, VU_GET_QUEUE_NUM), 2);
	assert_int_equal(peer_get_u64(&p, VU_GET_MAX_MEM_SLOTS), 509);
	assert_int_equal(vu_backend_mtu(h.b), 0);
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 1500), 0);
	assert_int_equal(vu_backend_mtu(h.b), 1500);
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 9001), 1);
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 67), 1);
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 65536 + 1500), 1);
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, UINT64_MAX), 1);
	assert_int_equal(vu_backend_mtu(h.b), 1500);
}

static void
protocol_requests_need_their_feature(void **state)
{
	static const uint32_t gets[] = {VU_GET_QUEUE_NUM, VU_GET_MAX_MEM_SLOTS, VU_GET_STATUS};
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(gets); i++) {
		/* A reply that cannot come would be waited for: better no connection. */
		assert_true(peer_send(&p, gets[i], VU_FLAG_VERSION, NULL, 0, NULL, 0));
		assert_true(peer_gone(&p));
		peer_close(&p);
		peer_connect(&p, &h);
		host_run(&h);
	}
	assert_int_equal(peer_ask_u64(&p, VU_SET_PROTOCOL_FEATURES, VU_PROTOCOL(REPLY_ACK)), 0);
	assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 1500), 1);
	assert_int_equal(peer_ask_u64(&p, VU_SET_STATUS, 1), 1);
	assert_int_equal(peer_ask(&p, VU_RESET_DEVICE, NULL, 0, NULL, 0), 1);
	assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &shm.region, shm.fd), 1);
	assert_int_equal(
		peer_get_u64(&p, VU_GET_FEATURES), HOST_FEATURES | VQ_FEATURE(PROTOCOL_FEATURES));
}

static void
unknown_requests(void **state)
{
	static const uint32_t unknown[] = {0, VU_SET_LOG_BASE, VU_SET_LOG_FD, VU_SEND_RARP,
		VU_SET_BACKEND_REQ_FD, VU_IOTLB_MSG, VU_SET_VRING_ENDIAN, VU_GET_CONFIG,
		VU_SET_CONFIG, VU_POSTCOPY_ADVISE, VU_GET_INFLIGHT_FD, VU_SET_INFLIGHT_FD, 33, 35,
		VU_SET_DEVICE_STATE_FD, 44, 1000, UINT32_MAX};
	union vu_payload u = {.u64 = 0};
	int fds[VU_FDS_MAX];
	uint32_t i;

	(void)state;
	for (i = 0; i < VU_FDS_MAX; i++)
		fds[i] = shm.fd;
	peer_up(&p, &shm);
	for (i = 0; i < COUNT_OF(unknown); i++) {
		assert_int_equal(peer_ask(&p, unknown[i], &u, 64, fds, VU_FDS_MAX), 1);
		assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	}
	/* With nobody to tell, the connection tells. */
	assert_true(peer_send(&p, VU_GET_CONFIG, VU_FLAG_VERSION, &u, 64, NULL, 0));
	assert_true(peer_gone(&p));
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
	assert_non_null(strstr(vu_backend_reason(h.b), "not offered"));
}

static void
payloads_of_a_wrong_size(void **state)
{
	static const uint32_t sets[] = {VU_SET_FEATURES, VU_SET_MEM_TABLE, VU_SET_VRING_NUM,
		VU_SET_VRING_ADDR, VU_SET_VRING_BASE, VU_SET_VRING_KICK, VU_SET_VRING_CALL,
		VU_SET_VRING_ERR, VU_SET_PROTOCOL_FEATURES, VU_SET_VRING_ENABLE, VU_NET_SET_MTU,
		VU_ADD_MEM_REG, VU_REM_MEM_REG, VU_SET_STATUS};
	union vu_payload u;
	uint32_t i;

	(void)state;
	memset(&u, 0, sizeof(u));
	peer_up(&p, &shm);
	for (i = 0; i < COUNT_OF(sets); i++) {
		assert_int_equal(peer_ask(&p, sets[i], &u, 0, NULL, 0), 1);
		assert_int_equal(peer_ask(&p, sets[i], &u, 7, NULL, 0), 1);
	}
	assert_int_equal(peer_ask(&p, VU_SET_OWNER, &u, 8, NULL, 0), 1);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	assert_int_equal(vu_backend_features(h.b), VQ_FEATURE(VERSION_1));
}

static void
descriptors_where_none_belong(void **state)
{
	union vu_payload u;
	int fds[VU_FDS_MAX];
	uint32_t request, i, n;
	uint32_t before;

	(void)state;
	memset(&u, 0, sizeof(u));
	for (i = 0; i < VU_FDS_MAX; i++)
		fds[i] = shm.fd;
	peer_up(&p, &shm);
	before = count_fds();
	for (request = VU_SET_FEATURES; request < VU_REQUESTS; request++) {
		for (n = 2; n <= VU_FDS_MAX; n++) {
			struct vu_msg m;

			if (request == VU_SET_MEM_TABLE)
				continue;
			peer_send(&p, request, VU_FLAG_VERSION | VU_FLAG_NEED_REPLY, &u, 8, fds, n);
			if (!peer_take(&p, &m)) {
				assert_true(peer_gone(&p));
				peer_close(&p);
				peer_connect(&p, &h);
				peer_up(&p, &shm);
			}
			assert_int_equal(count_fds(), before);
			assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
		}
	}
}

/* The two ends of a TCP connection on loopback; bytes wait to be sent on [0]. */
static void
tcp_pair(int ends[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t len = sizeof(at);
	char bytes[4096] = {0};
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	assert_int_equal(bind(listener, (struct sockaddr *)&at, len), 0);
	assert_int_equal(listen(listener, 1), 0);
	assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
	ends[0] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(ends[0], (struct sockaddr *)&at, len), 0);
	ends[1] = accept(listener, NULL, NULL);
	close(listener);
	while (send(ends[0], bytes, sizeof(bytes), MSG_DONTWAIT) > 0)
		;
}

/* A close that waits for its data would hold up every port: it must cut the connection instead. */
static void
a_socket_that_lingers_is_cut_off(void **state)
{
	const struct linger wait = {.l_onoff = 1, .l_linger = 10};
	const union vu_payload ring0 = {.u64 = 0};
	char bytes[4096];
	int ends[2];
	ssize_t n;

	(void)state;
	tcp_pair(ends);
	assert_int_equal(setsockopt(ends[0], SOL_SOCKET, SO_LINGER, &wait, sizeof(wait)), 0);
	assert_true(peer_send(
		&p, VU_SET_VRING_KICK, VU_FLAG_VERSION, &ring0, sizeof(ring0.u64), ends, 1));
	close(ends[0]);
	host_run(&h);
	do
		n = read(ends[1], bytes, sizeof(bytes));
	while (n > 0);
	assert_int_equal(n, -1);
	assert_int_equal(errno, ECONNRESET);
	close(ends[1]);
}

static void
status(void **state)
{
	(void)state;
	assert_int_equal(peer_ask_u64(&p, VU_SET_PROTOCOL_FEATURES,
				 VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(STATUS)),
		0);
	assert_int_equal(peer_get_u64(&p, VU_GET_STATUS), 0);
	assert_int_equal(peer_ask_u64(&p, VU_SET_STATUS, 3), 0);
	/* Features first, or FEATURES_OK does not stick. */
	assert_int_equal(peer_ask_u64(&p, VU_SET_STATUS, 11), 0);
	assert_int_equal(peer_get_u64(&p, VU_GET_STATUS), 3);
	assert_int_equal(peer_ask_u64(&p, VU_SET_FEATURES,
				 VQ_FEATURE(VERSION_1) | VQ_FEATURE(PROTOCOL_FEATURES)),
		0);
	assert_int_equal(peer_ask_u64(&p, VU_SET_STATUS, 11), 0);
	assert_int_equal(peer_get_u64(&p, VU_GET_STATUS), 11);
	assert_int_equal(peer_ask_u64(&p, VU_SET_STATUS, 256), 1);
	assert_int_equal(peer_get_u64(&p, VU_GET_STATUS), 11);
	assert_int_equal(peer_ask_u64(&p, VU_SET_STATUS, 0), 0);
	assert_int_equal(peer_get_u64(&p, VU_GET_STATUS), 0);
	assert_int_equal(vu_backend_features(h.b), 0);
}

static void
reset(void **state)
{
	static const uint32_t requests[] = {VU_RESET_DEVICE, VU_RESET_OWNER};
	int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(requests); i++) {
		peer_up(&p, &shm);
		assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, 0, fd), 0);
		assert_int_equal(peer_ask_u64(&p, VU_NET_SET_MTU, 1500), 0);
		assert_int_equal(peer_ask(&p, requests[i], NULL, 0, NULL, 0), 0);
		assert_int_equal(vu_backend_state(h.b), VU_BACKEND_CONNECTED);
		assert_false(ring(0)->ready || ring(0)->enabled || ring(1)->ready);
		assert_int_equal(ring(0)->kick, -1);
		assert_int_equal(vu_backend_features(h.b), 0);
		assert_int_equal(vu_backend_mtu(h.b), 0);
		assert_true(vu_backend_protocol_features(h.b) & VU_PROTOCOL(REPLY_ACK));
		assert_int_equal(peer_get_base(&p, 0), 0);
	}
	peer_up(&p, &shm);
	close(fd);
}

static void
need_reply_is_not_for_requests_with_a_reply(void **state)
{
	struct vu_msg m;

	(void)state;
	peer_negotiate(&p, 0);
	assert_true(peer_send(
		&p, VU_GET_FEATURES, VU_FLAG_VERSION | VU_FLAG_NEED_REPLY, NULL, 0, NULL, 0));
	assert_true(peer_take(&p, &m));
	assert_int_equal(m.payload.u64, HOST_FEATURES | VQ_FEATURE(PROTOCOL_FEATURES));
	assert_false(peer_take(&p, &m));
	/* And without the flag there is none for the others. */
	assert_true(peer_send(&p, VU_SET_OWNER, VU_FLAG_VERSION, NULL, 0, NULL, 0));
	assert_false(peer_take(&p, &m));
	/* A reply where we expect a request: somebody is confused. */
	assert_true(
		peer_send(&p, VU_GET_FEATURES, VU_FLAG_VERSION | VU_FLAG_REPLY, NULL, 0, NULL, 0));
	assert_true(peer_gone(&p));
}
#define TEST(name) cmocka_unit_test_setup_teardown(name, connected_setup, connected_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(features),
		TEST(features_never_offered),
		TEST(features_do_not_change_while_a_ring_runs),
		TEST(queue_num_mtu_and_slots),
		TEST(protocol_requests_need_their_feature),
		TEST(unknown_requests),
		TEST(payloads_of_a_wrong_size),
		TEST(descriptors_where_none_belong),
		TEST(a_socket_that_lingers_is_cut_off),
		TEST(status),
		TEST(reset),
		TEST(need_reply_is_not_for_requests_with_a_reply),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
