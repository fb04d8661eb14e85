/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * How long a backend lets a peer wait: what it sets its timer to is written down here, and the
 * timer expires at once. Nothing is measured, so that no machine is too slow for it.
 */

#include <errno.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>

#include "host.h"
#include "vu_socket.h"

/* Nobody who has come waits longer to be seen. */
#define MOST_MS 1000
#define TRIES   12

static struct host h;
static uint64_t pauses[TRIES]; /* ms */
static uint32_t npauses;
static bool no_descriptors;

int __real_timerfd_settime(
	int fd, int flags, const struct itimerspec *value, struct itimerspec *before);
int __wrap_timerfd_settime(
	int fd, int flags, const struct itimerspec *value, struct itimerspec *before);
int __real_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags);
int __wrap_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags);

int
__wrap_timerfd_settime(int fd, int flags, const struct itimerspec *value, struct itimerspec *before)
{
	const struct itimerspec at_once = {.it_value.tv_nsec = 1};

	assert_true(npauses < TRIES);
	pauses[npauses++] = (uint64_t)value->it_value.tv_sec * 1000 +
			    (uint64_t)value->it_value.tv_nsec / 1000000;
	return __real_timerfd_settime(fd, flags, &at_once, before);
}

int
__wrap_accept4(int fd, struct sockaddr *sa, socklen_t *len, int flags)
{
	if (!no_descriptors)
		return __real_accept4(fd, sa, len, flags);
	errno = EMFILE;
	return -1;
}

/* Something is due: let the backend see to it. */
static void
next_turn(void)
{
	struct pollfd w = {.fd = vu_backend_fd(h.b), .events = POLLIN};

	assert_int_equal(poll(&w, 1, 10000), 1);
	vu_backend_process(h.b);
}

/* At first soon, then later each time, but never too late. */
static void
expect_schedule(void)
{
	uint32_t i;

	assert_in_range(pauses[0], 1, MOST_MS / 10);
	for (i = 1; i < npauses; i++)
		assert_in_range(pauses[i], pauses[i - 1], MOST_MS);
	assert_true(pauses[npauses - 1] > pauses[0]);
}

static void
a_client_tries_within_a_second(void **state)
{
	struct peer p = {.h = &h};
	char error[256];
	uint32_t i;
	int l;

	(void)state;
	npauses = 0;
	host_start(&h, 1, true);
	/* Each pause ends in an attempt, and each that fails begins another. */
	for (i = 1; i < TRIES; i++) {
		assert_int_equal(npauses, i);
		next_turn();
	}
	expect_schedule();
	/* Somebody listens, and the next attempt finds them. */
	l = vu_socket_listen(&h.config.socket, error, sizeof(error));
	assert_true(l >= 0);
	next_turn();
	assert_int_equal(npauses, TRIES);
	assert_int_equal(vu_backend_stats(h.b)->connects, 1);
	/* One that said something and left is as good as new. */
	p.fd = vu_socket_accept(l);
	assert_true(p.fd >= 0);
	(void)peer_get_u64(&p, VU_GET_FEATURES);
	npauses = 0;
	peer_close(&p);
	assert_int_equal(npauses, 1);
	assert_in_range(pauses[0], 1, MOST_MS / 10);
	vu_socket_unlisten(l, h.config.socket.path);
	host_stop(&h);
}

static void
a_server_without_descriptors_looks_within_a_second(void **state)
{
	struct peer p;
	uint32_t i;

	(void)state;
	npauses = 0;
	host_start(&h, 1, false);
	no_descriptors = true;
	peer_connect(&p, &h);
	/* In turns: it sees that somebody is there, looks away, and is woken again. */
	while (npauses < TRIES)
		next_turn();
	expect_schedule();
	no_descriptors = false;
	for (i = 0; vu_backend_stats(h.b)->connects == 0 && i < 2; i++)
		next_turn();
	assert_int_equal(vu_backend_stats(h.b)->connects, 1);
	peer_close(&p);
	host_stop(&h);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_client_tries_within_a_second),
		cmocka_unit_test(a_server_without_descriptors_looks_within_a_second),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
