/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * When the driver tries to reach its backend again: user_connect.c alone, with a clock, sockets and
 * a link that are made up. Nothing is waited for.
 */

/* cmocka wants these before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <poll.h>

#include "sluice_control.h"
#include "user.h"
#include "vu_frontend.h"

/* A backend that is there again is tried no later than this; one that did not answer holds locks
 * for as long as it is waited for, and may have this for a pause. */
#define MOST_MS        1000
#define MOST_SILENT_MS 10000
#define TRIES          20

/* Of descriptors, which nobody uses. */
#define LISTENING 100
#define CONNECTED 101

int sluice_logtype;

static struct sluice_dev dev;
static uint64_t now_ms;
static uint32_t attempts;
static int connecting; /* what comes of it */
static int up;         /* likewise, then */
static int link_lost;
static uint8_t frontend;

int __wrap_clock_gettime(clockid_t id, struct timespec *ts);

int
__wrap_clock_gettime(clockid_t id, struct timespec *ts)
{
	(void)id;
	ts->tv_sec = (time_t)(now_ms / 1000);
	ts->tv_nsec = (long)(now_ms % 1000) * 1000000;
	return 0;
}

int
vu_socket_connect(const char *path)
{
	(void)path;
	attempts++;
	return connecting;
}

int
vu_socket_accept(int listen_fd)
{
	assert_int_equal(listen_fd, LISTENING);
	attempts++;
	return connecting;
}

int
vu_socket_listen(const struct vu_socket_config *config, char *error, size_t len)
{
	(void)config;
	(void)error;
	(void)len;
	return LISTENING;
}

void
vu_socket_unlisten(int fd, const char *path)
{
	(void)fd;
	(void)path;
}

int
vu_frontend_open(int fd, uint32_t timeout_ms, struct vu_frontend **out)
{
	assert_int_equal(fd, CONNECTED);
	(void)timeout_ms;
	*out = (void *)&frontend;
	return 0;
}

void
vu_frontend_close(struct vu_frontend *f)
{
	(void)f;
}

int
vu_frontend_check(struct vu_frontend *f)
{
	(void)f;
	return link_lost;
}

int
vu_frontend_fd(const struct vu_frontend *f)
{
	(void)f;
	return CONNECTED;
}

void
vu_frontend_set_deadline(struct vu_frontend *f, uint32_t ms)
{
	(void)f;
	(void)ms;
}

int
sluice_up(struct sluice_dev *d)
{
	d->up = up == 0;
	return up;
}

int
sluice_down(struct sluice_dev *d)
{
	d->up = false;
	return 0;
}

int
sluice_quiesce(struct sluice_dev *d)
{
	(void)d;
	return 0;
}

int
sluice_refuse(struct sluice_dev *d, int err, const char *format, ...)
{
	(void)d;
	(void)format;
	return err;
}

bool
sluice_absent(const struct sluice_dev *d, int err)
{
	(void)d;
	(void)err;
	return true;
}

const struct sluice_ring *
sluice_broken(const struct sluice_dev *d)
{
	(void)d;
	return NULL;
}

void
sluice_idle(struct sluice_dev *d)
{
	(void)d;
}

int
sluice_control_start(struct sluice_dev *d)
{
	(void)d;
	return 0;
}

void
sluice_control_stop(struct sluice_dev *d)
{
	(void)d;
}

int
user_memory_start(struct user_conn *conn)
{
	(void)conn;
	return 0;
}

void
user_memory_stop(struct user_conn *conn)
{
	(void)conn;
}

static void
begin(bool server)
{
	dev = (struct sluice_dev){.name = "net_sluice_user0",
		.started = true,
		.args = {.path = "/nowhere", .server = server}};
	now_ms = 1000000;
	attempts = 0;
	up = link_lost = 0;
	assert_int_equal(user_conn_create(&dev), 0);
}

static void
end(void)
{
	user_conn_destroy(&dev);
}

/* As the control thread does, until it tries again. @return after how many milliseconds */
static uint64_t
until_next_attempt(void)
{
	const uint64_t from = now_ms;
	const uint32_t before = attempts;
	uint32_t i;

	for (i = 0; attempts == before && i < 100; i++) {
		struct pollfd fd = {.fd = -1};
		const int ms = user_conn_prepare_wait(&dev, &fd);

		/* What would wake it is that somebody has come, or that the link is gone. */
		if (ms > 0 && fd.fd < 0)
			now_ms += (uint64_t)ms;
		(void)user_conn_turn(&dev);
	}
	assert_int_equal(attempts, before + 1);
	return now_ms - from;
}

/* Soon at first, later each time, never too late. */
static void
expect_schedule(uint64_t first)
{
	uint64_t before = first, pause;
	uint32_t i;

	assert_in_range(first, 0, MOST_MS / 10);
	for (i = 0; i < TRIES; i++, before = pause) {
		pause = until_next_attempt();
		assert_in_range(pause, before, MOST_MS);
	}
	assert_true(before > first);
}

static void
a_backend_that_is_not_there(void **state)
{
	(void)state;
	begin(false);
	connecting = -ECONNREFUSED;
	assert_int_equal(user_conn_try(&dev), -ECONNREFUSED);
	expect_schedule(until_next_attempt());
	end();
}

/* It comes and goes; one that stayed for long is as good as new. */
static void
a_backend_that_leaves(void **state)
{
	uint32_t i;

	(void)state;
	begin(false);
	connecting = CONNECTED;
	assert_int_equal(user_conn_try(&dev), 0);
	for (i = 0; i < TRIES; i++) {
		link_lost = -ECONNRESET;
		assert_int_equal(user_conn_turn(&dev), SLUICE_EVENT_LINK);
		assert_false(dev.up);
		link_lost = 0;
		assert_in_range(until_next_attempt(), 0, MOST_MS);
		assert_true(dev.up);
	}
	now_ms += 60000;
	link_lost = -ECONNRESET;
	connecting = -ENOENT;
	assert_int_equal(user_conn_turn(&dev), SLUICE_EVENT_LINK);
	expect_schedule(until_next_attempt());
	end();
}

static void
a_backend_that_fails(void **state)
{
	(void)state;
	begin(false);
	connecting = CONNECTED;
	up = -EPROTO;
	assert_int_equal(user_conn_try(&dev), -EPROTO);
	expect_schedule(until_next_attempt());
	up = -ETIMEDOUT;
	(void)until_next_attempt();
	assert_in_range(until_next_attempt(), MOST_MS + 1, MOST_SILENT_MS);
	/* Once it answers it is one like all others. */
	up = -EPROTO;
	(void)until_next_attempt();
	assert_in_range(until_next_attempt(), 0, MOST_MS);
	end();
}

/* Where we listen, whoever comes is taken at once, but after a pause that is no longer. */
static void
a_backend_that_comes(void **state)
{
	struct pollfd fd = {.fd = -1};

	(void)state;
	begin(true);
	connecting = -EAGAIN;
	assert_int_equal(user_conn_try(&dev), -EAGAIN);
	assert_in_range(until_next_attempt(), 0, MOST_MS / 10);
	assert_int_equal(user_conn_prepare_wait(&dev, &fd), -1);
	assert_int_equal(fd.fd, LISTENING);
	connecting = CONNECTED;
	up = -EPROTO;
	expect_schedule(until_next_attempt());
	end();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_backend_that_is_not_there),
		cmocka_unit_test(a_backend_that_leaves),
		cmocka_unit_test(a_backend_that_fails),
		cmocka_unit_test(a_backend_that_comes),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
