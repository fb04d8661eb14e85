/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Many descriptors, none left, many tables, floods: what one peer may cost, and what all may. */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connected.h"

#define MANY 1100 /* more than an fd_set has room for */

static int filler[MANY];

static void
fill(void)
{
	uint32_t i;

	for (i = 0; i < MANY; i++) {
		filler[i] = open("/dev/null", O_RDONLY | O_CLOEXEC);
		assert_true(filler[i] >= 0);
	}
}

static void
descriptors_above_1024_are_fine(void **state)
{
	struct rlimit old, high;
	struct peer second;
	uint64_t n = 1;
	uint32_t i;
	int fd;

	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	high = old;
	if (high.rlim_cur < MANY + 200)
		high.rlim_cur = MANY + 200;
	if (high.rlim_cur > high.rlim_max) {
		print_message("only %u descriptors are allowed\n", (uint32_t)high.rlim_max);
		skip();
	}
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &high), 0);
	fill();
	connected_setup(state);
	fd = eventfd(0, EFD_CLOEXEC);
	assert_true(vu_backend_fd(h.b) > 1024 && p.fd > 1024 && fd > 1024);
	peer_up(&p, &shm);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, fd), 0);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, 0, fd), 0);
	assert_true(ring(0)->call > 1024 && ring(0)->kick > 1024);
	assert_int_equal(write(ring(0)->call, &n, sizeof(n)), sizeof(n));
	assert_int_equal(read(fd, &n, sizeof(n)), sizeof(n));
	/* Those who are refused, and the next one. */
	peer_connect(&second, &h);
	assert_true(peer_gone(&second));
	peer_close(&second);
	peer_close(&p);
	peer_connect(&p, &h);
	peer_up(&p, &shm);
	close(fd);
	connected_teardown(state);
	for (i = 0; i < MANY; i++)
		close(filler[i]);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
}

/* The kernel lets none in: that is told, costs this connection, and nothing leaks. */
static void
a_descriptor_for_which_there_is_no_room(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	union vu_payload u = {.u64 = 0};
	struct rlimit old, low;
	uint32_t before;

	(void)state;
	peer_up(&p, &shm);
	before = count_fds();
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &old), 0);
	low = old;
	low.rlim_cur = (rlim_t)fd; /* one less than are open */
	assert_true(peer_send(&p, VU_SET_VRING_CALL, VU_FLAG_VERSION, &u, sizeof(u.u64), &fd, 1));
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
	vu_backend_process(h.b);
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &old), 0);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
	assert_non_null(strstr(vu_backend_reason(h.b), "ulimit"));
	assert_int_equal(count_fds(), before - 1); /* the connection */
	peer_close(&p);
	peer_connect(&p, &h);
	peer_up(&p, &shm);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, fd), 0);
	close(fd);
}

static void
a_thousand_tables_leave_one(void **state)
{
	uint32_t fds, maps, i;
	struct shm two[2];

	(void)state;
	two[0] = shm;
	shm_init(&two[1], GUEST + 0x100000, 65536);
	peer_up(&p, &shm);
	fds = count_fds();
	maps = count_maps();
	for (i = 0; i < 1000; i++) {
		/* Now one region, now two, at another guest address each time. */
		two[0].region.guest = GUEST + (i % 7) * UINT64_C(0x1000000);
		two[1].region.guest = two[0].region.guest + 0x100000;
		assert_int_equal(peer_ask_table(&p, two, 1 + i % 2), 0);
		assert_int_equal(count_maps(), maps + i % 2);
		assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	}
	/* Those that are refused leave as little. */
	two[1].region.size++;
	for (i = 0; i < 1000; i++) {
		two[0].region.guest = GUEST + (8 + i % 7) * UINT64_C(0x1000000);
		assert_int_equal(peer_ask_table(&p, two, 2), 1);
	}
	assert_int_equal(count_maps(), maps + 1);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(peer_ask_table(&p, two, 1), 0);
	assert_int_equal(count_maps(), maps);
	shm_free(&two[1]);
}

/* As much as the socket takes, of messages that are all in order. */
static uint32_t
flood(struct peer *flooder)
{
	struct vu_header hdr = {VU_SET_OWNER, VU_FLAG_VERSION, 0};
	uint32_t n = 0;

	while (send(flooder->fd, &hdr, sizeof(hdr), MSG_DONTWAIT | MSG_NOSIGNAL) > 0)
		n++;
	return n;
}

static void
a_flood_does_not_starve_another(void **state)
{
	struct vu_header question = {VU_GET_FEATURES, VU_FLAG_VERSION, 0};
	uint8_t answer[sizeof(question) + sizeof(uint64_t)];
	struct host neighbour;
	struct peer friendly;
	uint64_t handled;
	uint32_t i;

	(void)state;
	host_start(&neighbour, 1, false);
	peer_connect(&friendly, &neighbour);
	host_run(&neighbour);
	for (i = 0; i < 50; i++) {
		assert_true(flood(&p) != 0 || i != 0);
		assert_int_equal(write(friendly.fd, &question, sizeof(question)), sizeof(question));
		/* One turn each, as in a loop over all ports: 32 of the flood, then the answer. */
		handled = vu_backend_stats(h.b)->messages;
		vu_backend_process(h.b);
		assert_int_equal(vu_backend_stats(h.b)->messages, handled + 32);
		vu_backend_process(neighbour.b);
		assert_int_equal(
			recv(friendly.fd, answer, sizeof(answer), MSG_DONTWAIT), sizeof(answer));
	}
	/* Workers are not disturbed by what changes nothing. */
	assert_int_equal(h.quiesces, 1);
	peer_close(&friendly);
	host_stop(&neighbour);
	host_run(&h);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connected_setup, connected_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(descriptors_above_1024_are_fine),
		TEST(a_descriptor_for_which_there_is_no_room),
		TEST(a_thousand_tables_leave_one),
		TEST(a_flood_does_not_starve_another),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
