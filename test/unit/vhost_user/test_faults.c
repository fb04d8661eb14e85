/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * System calls and allocations that fail, one after the other: the library says so, leaves nothing
 * behind, and works when they work again. The linker puts the functions below in their place
 * (--wrap), by the names that they have with the file offsets of 64 bits that meson asks for.
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "connected.h"
#include "vu_frontend.h"

/* The n-th call of a function from now on fails with this. 0: none. */
struct fault {
	uint32_t at;
	int err;
};

/* A wrapped function: its declarations, the fault of its own, and what it does. */
#define WRAP(type, name, parameters, arguments, failed)                                            \
	type __real_##name parameters;                                                             \
	type __wrap_##name parameters;                                                             \
	static struct fault fault_##name;                                                          \
	type __wrap_##name parameters                                                              \
	{                                                                                          \
		return strikes(&fault_##name) ? (failed) : __real_##name arguments;                \
	}

static bool
strikes(struct fault *f)
{
	if (f->at == 0 || --f->at != 0)
		return false;
	errno = f->err;
	return true;
}

/* clang-format off */
WRAP(void *, malloc, (size_t size), (size), NULL)
WRAP(void *, calloc, (size_t n, size_t size), (n, size), NULL)
WRAP(int, epoll_create1, (int flags), (flags), -1)
WRAP(int, epoll_ctl, (int epfd, int op, int fd, struct epoll_event *ev), (epfd, op, fd, ev), -1)
WRAP(int, timerfd_create, (int clock, int flags), (clock, flags), -1)
WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
WRAP(int, connect, (int fd, const struct sockaddr *sa, socklen_t len), (fd, sa, len), -1)
WRAP(int, bind, (int fd, const struct sockaddr *sa, socklen_t len), (fd, sa, len), -1)
WRAP(int, listen, (int fd, int backlog), (fd, backlog), -1)
WRAP(int, accept4, (int fd, struct sockaddr *sa, socklen_t *len, int flags),
	(fd, sa, len, flags), -1)
WRAP(int, fchmod, (int fd, mode_t mode), (fd, mode), -1)
WRAP(int, chmod, (const char *path, mode_t mode), (path, mode), -1)
WRAP(int, fchownat, (int dir, const char *path, uid_t uid, gid_t gid, int flags),
	(dir, path, uid, gid, flags), -1)
WRAP(ssize_t, recvmsg, (int fd, struct msghdr *mh, int flags), (fd, mh, flags), -1)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *mh, int flags), (fd, mh, flags), -1)
WRAP(void *, mmap64, (void *at, size_t len, int prot, int flags, int fd, off_t offset),
	(at, len, prot, flags, fd, offset), MAP_FAILED)
/* clang-format on */

int __real_lstat64(const char *path, struct stat *st);
int __wrap_lstat64(const char *path, struct stat *st);
static struct fault fault_lstat, fault_another_file;

int
__wrap_lstat64(const char *path, struct stat *st)
{
	int ret = strikes(&fault_lstat) ? -1 : __real_lstat64(path, st);

	if (ret == 0 && strikes(&fault_another_file))
		st->st_ino++;
	return ret;
}

int __real_fstat64(int fd, struct stat *st);
int __wrap_fstat64(int fd, struct stat *st);
static struct fault fault_fstat, fault_odd_block;

int
__wrap_fstat64(int fd, struct stat *st)
{
	int ret = strikes(&fault_fstat) ? -1 : __real_fstat64(fd, st);

	if (ret == 0 && strikes(&fault_odd_block))
		st->st_blksize = 5000;
	return ret;
}

int __real_poll(struct pollfd *fds, nfds_t n, int timeout);
int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
static struct fault fault_poll;
static int longest_poll; /* that was asked for */

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	if (timeout > longest_poll)
		longest_poll = timeout;
	return strikes(&fault_poll) ? -1 : __real_poll(fds, n, timeout);
}

int __real_fcntl64(int fd, int command, ...);
int __wrap_fcntl64(int fd, int command, ...);
static struct fault fault_fcntl;

int
__wrap_fcntl64(int fd, int command, ...)
{
	va_list ap;
	int argument = 0;

	if (strikes(&fault_fcntl))
		return -1;
	va_start(ap, command);
	if (command == F_SETFL) /* the only one of the library's that has one */
		argument = va_arg(ap, int);
	va_end(ap);
	return __real_fcntl64(fd, command, argument);
}

int __real_open64(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);
static struct fault fault_open;

int
__wrap_open64(const char *path, int flags, ...)
{
	/* The library never creates a file by it. */
	return strikes(&fault_open) ? -1 : __real_open64(path, flags);
}

/* To be fired once the connection is there. */
static void
arm(struct fault *f, uint32_t at, int err)
{
	*f = (struct fault){at, err};
}

static int
listen_with(struct fault *f, uint32_t at, int err, char *error, size_t len)
{
	struct vu_socket_config config = h.config.socket;
	uint32_t fds = count_fds();
	int fd;

	strcat(config.path, "2");
	config.mode = 0600;
	error[0] = '\0';
	arm(f, at, err);
	fd = vu_socket_listen(&config, error, len);
	f->at = 0;
	if (fd >= 0) {
		vu_socket_unlisten(fd, config.path);
		fd = 0;
	} else {
		assert_non_null(strstr(error, config.path));
		assert_null(strchr(error, '\n'));
	}
	assert_int_equal(count_fds(), fds);
	assert_int_equal(access(config.path, F_OK), -1);
	return fd;
}

static void
a_socket_that_cannot_be_made(void **state)
{
	char error[256];

	(void)state;
	assert_int_equal(listen_with(&fault_socket, 1, EMFILE, error, sizeof(error)), -EMFILE);
	assert_int_equal(listen_with(&fault_fchmod, 1, EPERM, error, sizeof(error)), -EPERM);
	assert_int_equal(listen_with(&fault_bind, 1, EACCES, error, sizeof(error)), -EACCES);
	assert_int_equal(listen_with(&fault_listen, 1, ENOBUFS, error, sizeof(error)), -ENOBUFS);
	assert_int_equal(listen_with(&fault_chmod, 1, EPERM, error, sizeof(error)), -EPERM);
	assert_int_equal(listen_with(&fault_fchownat, 1, EPERM, error, sizeof(error)), -EPERM);
	assert_int_equal(listen_with(&fault_lstat, 1, EACCES, error, sizeof(error)), -EACCES);
	assert_non_null(strstr(error, "what is there"));
	/* The handle for owner and mode; without a lock on the directory it goes on. */
	assert_int_equal(listen_with(&fault_open, 2, ENFILE, error, sizeof(error)), -ENFILE);
	assert_int_equal(listen_with(&fault_open, 1, EACCES, error, sizeof(error)), 0);
}

/* A socket is there, and what becomes of it between our looks. */
static int
replace_with(struct fault *f, uint32_t at, int err)
{
	struct vu_socket_config config = h.config.socket;
	char error[256];
	int fd;

	arm(f, at, err);
	fd = vu_socket_listen(&config, error, sizeof(error));
	f->at = 0;
	return fd;
}

static void
a_socket_that_is_there(void **state)
{
	uint32_t fds = count_fds();

	(void)state;
	/* It is served, by the backend of this test. */
	assert_int_equal(replace_with(&fault_connect, 1, EPROTOTYPE), -EADDRINUSE);
	assert_int_equal(replace_with(&fault_connect, 1, EAGAIN), -EADDRINUSE);
	assert_int_equal(replace_with(&fault_connect, 1, EACCES), -EACCES);
	/* Gone when we ask for it: then bind() says that it was not. */
	assert_int_equal(replace_with(&fault_connect, 1, ENOENT), -EADDRINUSE);
	/* Dead, and gone or not to be seen when we look again. */
	fault_connect = (struct fault){1, ECONNREFUSED};
	assert_int_equal(replace_with(&fault_lstat, 2, EACCES), -EACCES);
	fault_connect = (struct fault){1, ECONNREFUSED};
	assert_int_equal(replace_with(&fault_lstat, 2, ENOENT), -EADDRINUSE);
	assert_int_equal(replace_with(&fault_socket, 2, EMFILE), -EMFILE);
	/* Another has come in its place meanwhile. */
	fault_connect = (struct fault){1, ECONNREFUSED};
	assert_int_equal(replace_with(&fault_another_file, 2, 0), -EADDRINUSE);
	assert_int_equal(count_fds(), fds);
}

static int
create_with(struct fault *f, uint32_t at, int err)
{
	static const struct vu_backend_ops none;
	struct vu_backend_config config = h.config;
	struct vu_backend *b = NULL;
	uint32_t fds = count_fds();
	char error[256] = "";
	int ret;

	strcat(config.socket.path, "2");
	arm(f, at, err);
	ret = vu_backend_create(&config, &none, NULL, &b, error, sizeof(error));
	f->at = 0;
	assert_non_null(strstr(error, config.socket.path));
	assert_null(b);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(access(config.socket.path, F_OK), -1);
	return ret;
}

static void
a_backend_that_cannot_be_made(void **state)
{
	(void)state;
	assert_int_equal(create_with(&fault_calloc, 1, ENOMEM), -ENOMEM);
	assert_int_equal(create_with(&fault_epoll_create1, 1, EMFILE), -EMFILE);
	assert_int_equal(create_with(&fault_timerfd_create, 1, ENFILE), -ENFILE);
	assert_int_equal(create_with(&fault_epoll_ctl, 1, ENOSPC), -ENOSPC);
	assert_int_equal(create_with(&fault_socket, 1, ENFILE), -ENFILE);
	assert_int_equal(create_with(&fault_epoll_ctl, 2, ENOMEM), -ENOMEM);
}

static void
a_connection_that_cannot_be_watched(void **state)
{
	(void)state;
	peer_close(&p);
	arm(&fault_epoll_ctl, 1, ENOSPC);
	peer_connect(&p, &h);
	assert_true(peer_gone(&p));
	assert_non_null(strstr(h.last_log, "cannot watch"));
	peer_close(&p);
	peer_connect(&p, &h);
	peer_up(&p, &shm);
}

/* A signal, or a connection that is gone again, is no failure. */
static void
calls_that_were_interrupted(void **state)
{
	uint64_t features = HOST_FEATURES | VQ_FEATURE(PROTOCOL_FEATURES);

	(void)state;
	peer_close(&p);
	arm(&fault_accept4, 1, EINTR);
	peer_connect(&p, &h);
	assert_int_equal(peer_get_u64(&p, VU_GET_FEATURES), features);
	assert_int_equal(fault_accept4.at, 0);
	peer_close(&p);
	arm(&fault_accept4, 1, ECONNABORTED);
	peer_connect(&p, &h);
	assert_true(peer_send(&p, VU_GET_FEATURES, VU_FLAG_VERSION, NULL, 0, NULL, 0));
	arm(&fault_recvmsg, 1, EINTR);
	arm(&fault_sendmsg, 1, EINTR);
	host_run(&h);
	assert_int_equal(fault_recvmsg.at | fault_sendmsg.at, 0);
	assert_int_equal(peer_get_u64(&p, VU_GET_FEATURES), features);
	assert_int_equal(vu_backend_stats(h.b)->bad_messages, 0);
}

/* Whatever the socket says, it is told in its words and the next frontend is served. */
static void
a_socket_that_fails(void **state)
{
	(void)state;
	peer_up(&p, &shm);
	assert_true(peer_send(&p, VU_SET_OWNER, VU_FLAG_VERSION, NULL, 0, NULL, 0));
	arm(&fault_recvmsg, 1, ENOMEM);
	assert_true(peer_gone(&p));
	assert_string_equal(vu_backend_reason(h.b), strerror(ENOMEM));
	peer_close(&p);
	peer_connect(&p, &h);
	peer_up(&p, &shm);
	assert_true(peer_send(&p, VU_GET_FEATURES, VU_FLAG_VERSION, NULL, 0, NULL, 0));
	arm(&fault_sendmsg, 1, ENOBUFS);
	vu_backend_process(h.b);
	assert_int_equal(fault_sendmsg.at, 0);
	assert_string_equal(vu_backend_reason(h.b), strerror(ENOBUFS));
	assert_true(peer_gone(&p));
	peer_close(&p);
	peer_connect(&p, &h);
	peer_up(&p, &shm);
}

/* A table that fails in the k-th allocation, or the like, is refused and changes nothing. */
static void
expect_refused_until(struct fault *f, int err, uint32_t times)
{
	struct shm two[2];
	uint32_t k, fds, maps, quiesces;
	int refused = 1;

	two[0] = shm;
	shm_init(&two[1], GUEST + 0x100000, 65536);
	peer_up(&p, &shm);
	fds = count_fds();
	maps = count_maps();
	quiesces = h.quiesces;
	for (k = 1; refused != 0; k++) {
		two[0].region.guest = GUEST + k * UINT64_C(0x1000000);
		arm(f, k, err);
		refused = peer_ask_table(&p, two, 2);
		assert_int_equal(count_fds(), fds);
		assert_int_equal(count_maps(), maps + (refused ? 0 : 1));
		assert_int_equal(h.quiesces, quiesces + (refused ? 0 : 1));
		assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
		assert_true(k == 1 || refused || f->at != 0);
	}
	f->at = 0;
	assert_int_equal(k - 2, times);
	peer_close(&p);
	peer_connect(&p, &h);
	host_run(&h);
	shm_free(&two[1]);
}

static void
memory_for_which_there_is_no_memory(void **state)
{
	(void)state;
	expect_refused_until(&fault_calloc, ENOMEM, 1); /* the list */
	expect_refused_until(&fault_malloc, ENOMEM, 3); /* two mappings and the map */
	expect_refused_until(&fault_mmap64, ENOMEM, 2);
	expect_refused_until(&fault_fstat, EOVERFLOW, 2);
}

/* A file system may call anything its block; only a power of two can be one to map by. */
static void
a_block_that_is_none(void **state)
{
	(void)state;
	arm(&fault_odd_block, 1, 0);
	peer_up(&p, &shm);
	assert_int_equal(fault_odd_block.at, 0);
	shm.at[65535] = 0x5a;
	assert_int_equal(*((const uint8_t *)ring(0)->vq.desc + 65535), 0x5a);
}

static void
a_slot_for_which_there_is_no_memory(void **state)
{
	struct vu_wire_region r = shm.region;

	(void)state;
	peer_up(&p, &shm);
	r.guest += 0x1000000;
	r.user += 0x1000000;
	arm(&fault_calloc, 1, ENOMEM);
	assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &r, shm.fd), 1);
	assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &r, shm.fd), 0);
	arm(&fault_calloc, 1, ENOMEM);
	assert_int_equal(peer_ask_region(&p, VU_REM_MEM_REG, &r, -1), 1);
	arm(&fault_malloc, 1, ENOMEM);
	assert_int_equal(peer_ask_region(&p, VU_REM_MEM_REG, &r, -1), 1);
	assert_int_equal(peer_ask_region(&p, VU_REM_MEM_REG, &r, -1), 0);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
}

static void
an_event_descriptor_that_cannot_be_asked(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	uint32_t fds;

	(void)state;
	peer_up(&p, &shm);
	fds = count_fds();
	arm(&fault_fcntl, 1, EBADF);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, fd), 1);
	arm(&fault_fcntl, 2, EPERM);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, fd), 1);
	arm(&fault_fstat, 1, EOVERFLOW);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_CALL, 0, fd), 1);
	assert_int_equal(ring(0)->call, -1);
	assert_int_equal(count_fds(), fds);
	close(fd);
}

static void
a_frontend_that_cannot_be_made(void **state)
{
	struct vu_frontend *f = NULL;
	uint32_t fds = count_fds();
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	arm(&fault_calloc, 1, ENOMEM);
	assert_int_equal(vu_frontend_open(s[0], 100, &f), -ENOMEM);
	arm(&fault_fcntl, 1, EBADF);
	assert_int_equal(vu_frontend_open(s[1], 100, &f), -EINVAL);
	assert_null(f);
	assert_int_equal(count_fds(), fds);
}

static void
a_frontend_whose_wait_fails(void **state)
{
	uint64_t features;
	struct vu_frontend *f;
	uint32_t have;
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(vu_frontend_open(s[0], 1000, &f), 0);
	/* A signal is not the end of a wait, time is. */
	arm(&fault_poll, 1, EINTR);
	assert_int_equal(vu_frontend_negotiate(f, 0, 1, &features, &have), -ETIMEDOUT);
	assert_int_equal(fault_poll.at, 0);
	vu_frontend_close(f);
	close(s[1]);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(vu_frontend_open(s[0], 60000, &f), 0);
	arm(&fault_poll, 1, ENOMEM);
	assert_int_equal(vu_frontend_negotiate(f, 0, 1, &features, &have), -ENOMEM);
	assert_int_equal(vu_frontend_check(f), -ENOMEM);
	vu_frontend_close(f);
	close(s[1]);
}

/* What is left of the sum bounds each wait, however long the connection's own bound is. */
static void
a_wait_ends_with_the_deadline(void **state)
{
	uint64_t features;
	struct vu_frontend *f;
	uint32_t have;
	int s[2];

	(void)state;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, s), 0);
	assert_int_equal(vu_frontend_open(s[0], 60000, &f), 0);
	vu_frontend_set_deadline(f, 50);
	longest_poll = 0;
	assert_int_equal(vu_frontend_negotiate(f, 0, 1, &features, &have), -ETIMEDOUT);
	assert_in_range(longest_poll, 0, 50);
	vu_frontend_close(f);
	close(s[1]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, connected_setup, connected_teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_socket_that_cannot_be_made),
		TEST(a_socket_that_is_there),
		TEST(a_backend_that_cannot_be_made),
		TEST(a_connection_that_cannot_be_watched),
		TEST(calls_that_were_interrupted),
		TEST(a_socket_that_fails),
		TEST(memory_for_which_there_is_no_memory),
		TEST(a_block_that_is_none),
		TEST(a_slot_for_which_there_is_no_memory),
		TEST(an_event_descriptor_that_cannot_be_asked),
		TEST(a_frontend_that_cannot_be_made),
		TEST(a_frontend_whose_wait_fails),
		TEST(a_wait_ends_with_the_deadline),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
