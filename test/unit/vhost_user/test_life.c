/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"
#include "vu_time.h"

#define GUEST UINT64_C(0x100000000)

static struct host h;
static struct shm shm;

static int
setup_server(void **state)
{
	(void)state;
	shm_init(&shm, GUEST, 65536);
	host_start(&h, 1, false);
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	host_stop(&h);
	shm_free(&shm);
	return 0;
}

static void
a_server_serves_one_at_a_time(void **state)
{
	struct peer first, second;

	(void)state;
	peer_connect(&first, &h);
	peer_up(&first, &shm);
	peer_connect(&second, &h);
	assert_true(peer_gone(&second));
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	assert_non_null(strstr(h.last_log, "second"));
	assert_int_equal(peer_get_u64(&first, VU_GET_QUEUE_NUM), 1);
	/* The next one may come while the backend has not yet seen the first one leave. */
	peer_close(&second);
	close(first.fd);
	peer_connect(&second, &h);
	peer_up(&second, &shm);
	assert_int_equal(vu_backend_stats(h.b)->connects, 2);
	assert_int_equal(vu_backend_stats(h.b)->disconnects, 1);
	assert_string_equal(vu_backend_reason(h.b), "the frontend closed the connection");
	peer_close(&second);
}

static void
the_next_one_waits_while_the_last_words_are_read(void **state)
{
	struct peer first, second;
	uint32_t i;

	(void)state;
	peer_connect(&first, &h);
	host_run(&h);
	/* More than are taken in one turn. */
	for (i = 0; i < 100; i++)
		peer_send(&first, VU_SET_OWNER, VU_FLAG_VERSION, NULL, 0, NULL, 0);
	close(first.fd);
	peer_connect(&second, &h);
	peer_up(&second, &shm);
	assert_true(vu_backend_stats(h.b)->messages >= 100);
	peer_close(&second);
}

static void
messages_of_a_turn_are_bounded(void **state)
{
	struct peer p;
	uint32_t i;

	(void)state;
	peer_connect(&p, &h);
	host_run(&h);
	for (i = 0; i < 100; i++)
		peer_send(&p, VU_SET_OWNER, VU_FLAG_VERSION, NULL, 0, NULL, 0);
	for (i = 1; i <= 3; i++) {
		vu_backend_process(h.b);
		assert_int_equal(vu_backend_stats(h.b)->messages, 32 * i);
	}
	host_run(&h);
	assert_int_equal(vu_backend_stats(h.b)->messages, 100);
	peer_close(&p);
}

static void
changes_of_a_turn_disturb_the_workers_once(void **state)
{
	struct peer p;
	uint32_t before, i;

	(void)state;
	peer_connect(&p, &h);
	peer_up(&p, &shm);
	before = h.quiesces;
	for (i = 0; i < 30; i++) {
		union vu_payload u = {.state = {.index = 0, .num = i & 1}};

		peer_send(&p, VU_SET_VRING_ENABLE, VU_FLAG_VERSION, &u, sizeof(u.state), NULL, 0);
	}
	vu_backend_process(h.b);
	assert_int_equal(h.quiesces, before + 1);
	peer_close(&p);
}

static void
half_a_message_waits(void **state)
{
	struct vu_header hdr = {VU_SET_FEATURES, VU_FLAG_VERSION, 8};
	uint64_t features = VQ_FEATURE(VERSION_1) | VQ_FEATURE(PROTOCOL_FEATURES);
	struct pollfd w;
	struct peer p;
	uint32_t i;

	(void)state;
	peer_connect(&p, &h);
	for (i = 0; i < 5; i++) {
		assert_true(peer_raw(&p, (uint8_t *)&hdr + i, 1, NULL, 0));
		host_run(&h);
		/* Nothing to do, and nothing that keeps waking us. */
		w = (struct pollfd){.fd = vu_backend_fd(h.b), .events = POLLIN};
		assert_int_equal(poll(&w, 1, 0), 0);
	}
	assert_true(peer_raw(&p, (uint8_t *)&hdr + 5, sizeof(hdr) - 5, NULL, 0));
	host_run(&h);
	assert_true(peer_raw(&p, &features, sizeof(features), NULL, 0));
	host_run(&h);
	assert_int_equal(vu_backend_features(h.b), VQ_FEATURE(VERSION_1));
	/* The same, and gone. */
	assert_true(peer_raw(&p, &hdr, sizeof(hdr), NULL, 0));
	host_run(&h);
	peer_close(&p);
	assert_non_null(strstr(vu_backend_reason(h.b), "middle of a message"));
}

static void
a_peer_that_reads_no_answers_is_not_read(void **state)
{
	struct vu_header hdr = {VU_GET_FEATURES, VU_FLAG_VERSION, 0};
	uint64_t messages;
	struct pollfd w;
	struct peer p;
	uint32_t asked = 0, answers = 0;
	struct vu_msg m;

	(void)state;
	peer_connect(&p, &h);
	host_run(&h);
	while (asked < 1000000 &&
		send(p.fd, &hdr, sizeof(hdr), MSG_DONTWAIT | MSG_NOSIGNAL) == sizeof(hdr)) {
		asked++;
		host_run(&h);
	}
	assert_true(asked < 1000000);
	w = (struct pollfd){.fd = vu_backend_fd(h.b), .events = POLLIN};
	assert_int_equal(poll(&w, 1, 0), 0);
	messages = vu_backend_stats(h.b)->messages;
	assert_true(messages < asked);
	/* It gets all its answers when it wants them. */
	while (peer_take(&p, &m)) {
		assert_int_equal(m.hdr.request, VU_GET_FEATURES);
		answers++;
	}
	assert_int_equal(answers, asked);
	peer_close(&p);
}

static void
one_that_left_without_reading_does_not_block_the_next(void **state)
{
	struct vu_header hdr = {VU_GET_FEATURES, VU_FLAG_VERSION, 0};
	struct peer p, next;
	uint32_t i;

	(void)state;
	peer_connect(&p, &h);
	for (i = 0; i < 100000; i++) {
		if (send(p.fd, &hdr, sizeof(hdr), MSG_DONTWAIT | MSG_NOSIGNAL) < 0)
			break;
		host_run(&h);
	}
	assert_true(i < 100000);
	shutdown(p.fd, SHUT_WR);
	peer_connect(&next, &h);
	peer_up(&next, &shm);
	close(p.fd);
	peer_close(&next);
}

static void
a_thousand_connects_leave_nothing(void **state)
{
	const uint64_t begun = vu_now_ms();
	uint32_t fds = count_fds();
	uint32_t maps = count_maps();
	uint32_t i;

	(void)state;
	for (i = 0; i < 1000; i++) {
		struct vu_header hdr = {VU_SET_MEM_TABLE, VU_FLAG_VERSION, 264};
		struct peer p;

		peer_connect(&p, &h);
		switch (i % 4) {
		case 0:
			peer_up(&p, &shm);
			break;
		case 1: /* half a message with a descriptor */
			assert_true(peer_raw(&p, &hdr, 11, &shm.fd, 1));
			break;
		case 2:
			peer_up(&p, &shm);
			host_run(&h);
			vu_backend_disconnect(h.b, "test");
			assert_true(peer_gone(&p));
			assert_string_equal(vu_backend_reason(h.b), "test");
			break;
		case 3:
			break;
		}
		peer_close(&p);
		assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
		assert_int_equal(count_fds(), fds);
		assert_int_equal(count_maps(), maps);
	}
	assert_int_equal(vu_backend_stats(h.b)->disconnects, 1000);
	assert_in_range(h.logs, 0, 12 + (vu_now_ms() - begun) / 1000);
}

static void
destroyed_while_a_frontend_is_up(void **state)
{
	uint32_t fds, maps;
	struct host own;
	struct peer p;

	(void)state;
	fds = count_fds();
	maps = count_maps();
	host_start(&own, 1, false);
	peer_connect(&p, &own);
	peer_up(&p, &shm);
	host_stop(&own);
	close(p.fd);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(count_maps(), maps);
}

static void
a_callback_may_send_the_frontend_away(void **state)
{
	uint32_t fds = count_fds();
	struct peer p;

	(void)state;
	peer_connect(&p, &h);
	peer_up(&p, &shm);
	h.disconnect = "we do not like it";
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_ENABLE, 0, 0), 0);
	assert_true(peer_gone(&p));
	assert_string_equal(vu_backend_reason(h.b), "we do not like it");
	peer_close(&p);
	assert_int_equal(count_fds(), fds);
	/* Also as soon as it comes. */
	h.disconnect = "nor this one";
	peer_connect(&p, &h);
	assert_true(peer_gone(&p));
	assert_string_equal(vu_backend_reason(h.b), "nor this one");
	peer_close(&p);
}

static void
nobody_to_send_away(void **state)
{
	(void)state;
	vu_backend_disconnect(h.b, "who?");
	assert_string_equal(vu_backend_reason(h.b), "");
	assert_int_equal(vu_backend_stats(h.b)->disconnects, 0);
	vu_backend_destroy(NULL);
}

/* The timer that sees to it was due from another time, and is set anew in the same turn. */
static void
sent_away_while_the_timer_is_due(void **state)
{
	struct pollfd later = {.fd = -1};
	struct peer p;

	(void)state;
	h.disconnect = "once";
	peer_connect(&p, &h);
	assert_true(peer_gone(&p));
	peer_close(&p);
	peer_connect(&p, &h);
	peer_up(&p, &shm);
	poll(&later, 1, 5);
	h.disconnect = "twice";
	peer_send(&p, VU_RESET_OWNER, VU_FLAG_VERSION, NULL, 0, NULL, 0);
	vu_backend_process(h.b);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
	assert_string_equal(vu_backend_reason(h.b), "twice");
	assert_true(peer_gone(&p));
	peer_close(&p);
	peer_connect(&p, &h);
	peer_up(&p, &shm);
	peer_close(&p);
}

static void
out_of_descriptors_is_waited_for(void **state)
{
	struct rlimit old, low;
	struct pollfd w;
	struct peer p;
	uint64_t begun;

	(void)state;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	peer_connect(&p, &h);
	low = old;
	low.rlim_cur = (rlim_t)p.fd + 1;
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	begun = vu_now_ms();
	host_run(&h); /* ends: nothing is ready until the timer is */
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
	assert_non_null(strstr(h.last_log, "accept"));
	w = (struct pollfd){.fd = vu_backend_fd(h.b), .events = POLLIN};
	/* Or its 50 ms have gone by meanwhile. */
	assert_true(poll(&w, 1, 0) == 0 || vu_now_ms() - begun >= 50);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	host_wait(&h, VU_BACKEND_CONNECTED);
	peer_up(&p, &shm);
	peer_close(&p);
}

static void
settings_that_cannot_be(void **state)
{
	struct vu_backend_config c = h.config;
	static const struct vu_backend_ops none;
	uint32_t fds = count_fds();
	struct vu_backend *b;
	char error[256];

	(void)state;
	assert_int_equal(vu_backend_create(&c, &none, NULL, &b, error, sizeof(error)), -EADDRINUSE);
	assert_non_null(strstr(error, c.socket.path));
	c.queue_pairs = 0;
	assert_int_equal(vu_backend_create(&c, &none, NULL, &b, error, sizeof(error)), -EINVAL);
	assert_non_null(strstr(error, "queue pairs"));
	c.queue_pairs = 17;
	assert_int_equal(vu_backend_create(&c, &none, NULL, &b, error, sizeof(error)), -EINVAL);
	assert_int_equal(count_fds(), fds);
}

/* A frontend that listens, for a backend that is the client. */
static int
frontend_listen(void)
{
	char error[256];
	int l = vu_socket_listen(&h.config.socket, error, sizeof(error));

	assert_true(l >= 0);
	return l;
}

static void
frontend_accept(int l, struct peer *p)
{
	uint32_t i;

	p->h = &h;
	p->fd = -EAGAIN;
	for (i = 0; i < 1000 && p->fd < 0; i++) {
		struct pollfd w = {.fd = vu_backend_fd(h.b), .events = POLLIN};

		if (poll(&w, 1, 50) > 0)
			vu_backend_process(h.b);
		p->fd = vu_socket_accept(l);
	}
	assert_true(p->fd >= 0);
}

static void
a_client_connects_and_comes_back(void **state)
{
	uint32_t fds, i;
	struct peer p;
	int l;

	(void)state;
	shm_init(&shm, GUEST, 65536);
	host_start(&h, 1, true);
	fds = count_fds();
	/* Nobody there yet, for a while: tried again, told once. */
	for (i = 0; i < 4; i++) {
		struct pollfd w = {.fd = vu_backend_fd(h.b), .events = POLLIN};

		assert_int_equal(poll(&w, 1, 5000), 1);
		vu_backend_process(h.b);
	}
	assert_int_equal(h.logs, 1);
	assert_non_null(strstr(h.last_log, "nobody"));
	for (i = 0; i < 5; i++) {
		l = frontend_listen();
		frontend_accept(l, &p);
		peer_up(&p, &shm);
		/* The connection breaks, then the process goes as well; each time it comes back. */
		peer_close(&p);
		assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
		frontend_accept(l, &p);
		peer_up(&p, &shm);
		vu_socket_unlisten(l, h.config.socket.path);
		peer_close(&p);
		assert_int_equal(count_fds(), fds);
	}
	assert_int_equal(vu_backend_stats(h.b)->connects, 10);
	host_stop(&h);
	shm_free(&shm);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_server, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_server_serves_one_at_a_time),
		TEST(the_next_one_waits_while_the_last_words_are_read),
		TEST(messages_of_a_turn_are_bounded),
		TEST(changes_of_a_turn_disturb_the_workers_once),
		TEST(half_a_message_waits),
		TEST(a_peer_that_reads_no_answers_is_not_read),
		TEST(one_that_left_without_reading_does_not_block_the_next),
		TEST(a_thousand_connects_leave_nothing),
		TEST(destroyed_while_a_frontend_is_up),
		TEST(a_callback_may_send_the_frontend_away),
		TEST(nobody_to_send_away),
		TEST(sent_away_while_the_timer_is_due),
		TEST(out_of_descriptors_is_waited_for),
		TEST(settings_that_cannot_be),
		cmocka_unit_test(a_client_connects_and_comes_back),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
