/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "host.h"
#include "vu_socket.h"

static char dir[64];
static struct vu_socket_config config;
static char error[256];

static int
setup(void **state)
{
	(void)state;
	snprintf(dir, sizeof(dir), "/tmp/sluice-unit-XXXXXX");
	assert_non_null(mkdtemp(dir));
	config = (struct vu_socket_config){.owner = (uid_t)-1, .group = (gid_t)-1};
	snprintf(config.path, sizeof(config.path), "%s/s", dir);
	error[0] = '\0';
	return 0;
}

/* Each test leaves nothing behind, and so does the library. */
static int
teardown(void **state)
{
	(void)state;
	assert_int_equal(rmdir(dir), 0);
	return 0;
}

static int
do_listen(void)
{
	return vu_socket_listen(&config, error, sizeof(error));
}

static void
expect_refusal(int err, const char *in_text)
{
	uint32_t before = count_fds();

	error[0] = '\0';
	assert_int_equal(do_listen(), err);
	assert_non_null(strstr(error, in_text));
	assert_null(strchr(error, '\n'));
	assert_int_equal(count_fds(), before);
}

static void
listen_connect_accept(void **state)
{
	int l = do_listen();
	int c, a;

	(void)state;
	assert_true(l >= 0);
	assert_int_equal(vu_socket_accept(l), -EAGAIN);
	c = vu_socket_connect(config.path);
	assert_true(c >= 0);
	a = vu_socket_accept(l);
	assert_true(a >= 0);
	assert_true(fcntl(l, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(c, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(a, F_GETFD) & FD_CLOEXEC);
	assert_true(fcntl(l, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(c, F_GETFL) & O_NONBLOCK);
	assert_true(fcntl(a, F_GETFL) & O_NONBLOCK);
	assert_int_equal(write(c, "x", 1), 1);
	close(c);
	close(a);
	vu_socket_unlisten(l, config.path);
	assert_int_equal(access(config.path, F_OK), -1);
}

static void
a_dead_socket_is_replaced(void **state)
{
	struct sockaddr_un sa = {.sun_family = AF_UNIX};
	int s = socket(AF_UNIX, SOCK_STREAM, 0);
	int l, c;

	(void)state;
	/* As after kill -9: the file stays, nobody listens. */
	memcpy(sa.sun_path, config.path, sizeof(sa.sun_path));
	assert_int_equal(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
	close(s);
	assert_int_equal(access(config.path, F_OK), 0);
	assert_int_equal(vu_socket_connect(config.path), -ECONNREFUSED);
	l = do_listen();
	assert_true(l >= 0);
	c = vu_socket_connect(config.path);
	assert_true(c >= 0);
	close(c);
	vu_socket_unlisten(l, config.path);
}

static void
a_live_socket_is_refused_and_left_alone(void **state)
{
	int l = do_listen();
	int c, i;
	int full[64];

	(void)state;
	assert_true(l >= 0);
	expect_refusal(-EADDRINUSE, config.path);
	/* Also when its backlog is full and a connection attempt has no answer. */
	for (i = 0; i < (int)COUNT_OF(full); i++) {
		full[i] = vu_socket_connect(config.path);
		if (full[i] < 0)
			break;
	}
	assert_int_equal(full[i], -EAGAIN);
	expect_refusal(-EADDRINUSE, config.path);
	while (i-- > 0)
		close(full[i]);
	while ((c = vu_socket_accept(l)) >= 0)
		close(c);
	c = vu_socket_connect(config.path);
	assert_true(c >= 0);
	close(c);
	vu_socket_unlisten(l, config.path);
}

static void
what_is_not_a_socket_is_never_touched(void **state)
{
	struct stat st;
	int fd;

	(void)state;
	fd = open(config.path, O_CREAT | O_WRONLY, 0600);
	assert_int_equal(write(fd, "data", 4), 4);
	close(fd);
	expect_refusal(-ENOTSOCK, config.path);
	assert_int_equal(stat(config.path, &st), 0);
	assert_int_equal(st.st_size, 4);
	assert_int_equal(unlink(config.path), 0);

	assert_int_equal(mkdir(config.path, 0700), 0);
	expect_refusal(-ENOTSOCK, config.path);
	assert_int_equal(rmdir(config.path), 0);

	/* A link is not followed, wherever it leads. */
	assert_int_equal(symlink("/dev/null", config.path), 0);
	expect_refusal(-ENOTSOCK, config.path);
	assert_int_equal(unlink(config.path), 0);
}

static void
paths_that_cannot_be(void **state)
{
	char longest[VU_PATH_MAX + 1];
	int l;

	(void)state;
	memset(config.path, 'x', sizeof(config.path));
	expect_refusal(-ENAMETOOLONG, "too long");
	assert_int_equal(vu_socket_connect(config.path), -ENAMETOOLONG);

	config.path[0] = '\0';
	expect_refusal(-EINVAL, "empty");
	assert_int_equal(vu_socket_connect(config.path), -EINVAL);

	snprintf(config.path, sizeof(config.path), "%s/none/s", dir);
	expect_refusal(-ENOENT, config.path);
	assert_int_equal(vu_socket_connect(config.path), -ENOENT);

	/* 107 bytes is the longest that fits, and works. */
	memset(longest, 'y', sizeof(longest));
	memcpy(longest, dir, strlen(dir));
	longest[strlen(dir)] = '/';
	longest[VU_PATH_MAX] = '\0';
	memcpy(config.path, longest, sizeof(longest));
	l = do_listen();
	assert_true(l >= 0);
	vu_socket_unlisten(l, config.path);
	assert_int_equal(access(longest, F_OK), -1);
}

static mode_t
mode_of(const char *path)
{
	struct stat st;

	assert_int_equal(lstat(path, &st), 0);
	return st.st_mode & 07777;
}

static void
the_mode_is_as_asked_whatever_the_umask(void **state)
{
	static const mode_t modes[] = {0600, 0660, 0666, 0770, 0777};
	static const mode_t masks[] = {0, 022, 077, 0777};
	mode_t before = umask(022);
	uint32_t i, j;
	int l;

	(void)state;
	for (i = 0; i < COUNT_OF(modes); i++) {
		for (j = 0; j < COUNT_OF(masks); j++) {
			umask(masks[j]);
			config.mode = modes[i];
			l = do_listen();
			assert_true(l >= 0);
			assert_int_equal(mode_of(config.path), modes[i]);
			vu_socket_unlisten(l, config.path);
		}
	}
	/* Not asked for: the umask decides. */
	config.mode = 0;
	umask(027);
	l = do_listen();
	assert_int_equal(mode_of(config.path), 0777 & ~027);
	vu_socket_unlisten(l, config.path);
	umask(before);
}

static void
owner_and_group(void **state)
{
	struct stat st;
	int l;

	(void)state;
	config.owner = getuid();
	config.group = getgid();
	l = do_listen();
	assert_true(l >= 0);
	vu_socket_unlisten(l, config.path);
	config.owner = 12345;
	config.group = 12346;
	config.mode = 0660;
	l = do_listen();
	if (geteuid() == 0) {
		assert_true(l >= 0);
		assert_int_equal(stat(config.path, &st), 0);
		assert_int_equal(st.st_uid, 12345);
		assert_int_equal(st.st_gid, 12346);
		vu_socket_unlisten(l, config.path);
	} else {
		/* Refused, with nothing left behind. */
		assert_int_equal(l, -EPERM);
		assert_non_null(strstr(error, config.path));
		assert_int_equal(access(config.path, F_OK), -1);
	}
}

static void
unlisten_leaves_what_is_not_ours(void **state)
{
	int l = do_listen();
	int other, fd;

	(void)state;
	/* Somebody removed ours and listens in its place. */
	assert_true(l >= 0);
	assert_int_equal(unlink(config.path), 0);
	other = do_listen();
	assert_true(other >= 0);
	vu_socket_unlisten(l, config.path);
	assert_int_equal(access(config.path, F_OK), 0);
	vu_socket_unlisten(other, config.path);
	assert_int_equal(access(config.path, F_OK), -1);

	/* Somebody put a file there. */
	l = do_listen();
	assert_int_equal(unlink(config.path), 0);
	fd = open(config.path, O_CREAT | O_WRONLY, 0600);
	close(fd);
	vu_socket_unlisten(l, config.path);
	assert_int_equal(unlink(config.path), 0);

	/* Gone already; none at all. */
	l = do_listen();
	assert_int_equal(unlink(config.path), 0);
	vu_socket_unlisten(l, config.path);
	vu_socket_unlisten(-1, config.path);
}

static void *
race(void *arg)
{
	char text[256];

	*(int *)arg = vu_socket_listen(&config, text, sizeof(text));
	return NULL;
}

static void
of_two_that_start_at_once_one_listens(void **state)
{
	uint32_t round;

	(void)state;
	for (round = 0; round < 200; round++) {
		struct sockaddr_un sa = {.sun_family = AF_UNIX};
		int s = socket(AF_UNIX, SOCK_STREAM, 0);
		pthread_t t[2];
		int r[2], i;

		memcpy(sa.sun_path, config.path, sizeof(sa.sun_path));
		assert_int_equal(bind(s, (struct sockaddr *)&sa, sizeof(sa)), 0);
		close(s);
		for (i = 0; i < 2; i++)
			assert_int_equal(pthread_create(&t[i], NULL, race, &r[i]), 0);
		for (i = 0; i < 2; i++)
			pthread_join(t[i], NULL);
		/* Exactly one has it, and the path leads to that one. */
		assert_true((r[0] >= 0) != (r[1] >= 0));
		assert_int_equal(r[0] < 0 ? r[0] : r[1], -EADDRINUSE);
		s = vu_socket_connect(config.path);
		assert_true(s >= 0);
		close(s);
		vu_socket_unlisten(r[0] >= 0 ? r[0] : r[1], config.path);
	}
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(listen_connect_accept),
		TEST(a_dead_socket_is_replaced),
		TEST(a_live_socket_is_refused_and_left_alone),
		TEST(what_is_not_a_socket_is_never_touched),
		TEST(paths_that_cannot_be),
		TEST(the_mode_is_as_asked_whatever_the_umask),
		TEST(owner_and_group),
		TEST(unlisten_leaves_what_is_not_ours),
		TEST(of_two_that_start_at_once_one_listens),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
