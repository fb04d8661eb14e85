/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "vu_socket.h"

/* Connections that wait to be accepted; one is served, the others are refused or wait their turn.
 */
#define BACKLOG 8
/* Bound on the wait for the directory's lock, in steps of a millisecond. */
#define LOCK_TRIES 200

static int fail(int err, char *error, size_t len, const char *format, ...)
	__attribute__((format(printf, 4, 5)));

static int
fail(int err, char *error, size_t len, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	if (error != NULL && len != 0)
		vsnprintf(error, len, format, ap);
	va_end(ap);
	return err;
}

static int
make_address(const char *path, struct sockaddr_un *sa)
{
	size_t len = strnlen(path, VU_PATH_MAX + 1);

	if (len == 0)
		return -EINVAL;
	if (len > VU_PATH_MAX)
		return -ENAMETOOLONG;
	memset(sa, 0, sizeof(*sa));
	sa->sun_family = AF_UNIX;
	memcpy(sa->sun_path, path, len);
	return 0;
}

static int
new_socket(void)
{
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);

	return fd < 0 ? -errno : fd;
}

int
vu_socket_connect(const char *path)
{
	struct sockaddr_un sa;
	int err = make_address(path, &sa);
	int fd;

	if (err != 0)
		return err;
	fd = new_socket();
	if (fd < 0)
		return fd;
	/* A Unix socket connects at once or not at all, so there is nothing to wait for. */
	if (connect(fd, (struct sockaddr *)&sa, sizeof(sa)) < 0) {
		err = -errno;
		close(fd);
		return err;
	}
	return fd;
}

int
vu_socket_accept(int listen_fd)
{
	int fd;

	do {
		fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	} while (fd < 0 && (errno == EINTR || errno == ECONNABORTED));
	return fd < 0 ? -errno : fd;
}

/*
 * Probe, unlink and bind are three steps; two processes that start at once could each take the
 * other's new socket for a stale one. A lock on the directory (which leaves no file behind) makes
 * them one step among all that follow this rule. Without a right to read the directory we go on
 * without it. The wait is bounded, since anybody who may read the directory may lock it.
 */
static int
lock_directory(const char *path)
{
	char copy[VU_PATH_MAX + 1];
	const struct timespec step = {.tv_nsec = 1000000};
	int fd, i;

	snprintf(copy, sizeof(copy), "%s", path);
	fd = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return -1;
	for (i = 0; i < LOCK_TRIES && flock(fd, LOCK_EX | LOCK_NB) < 0; i++)
		nanosleep(&step, NULL);
	return fd;
}

static void
unlock_directory(int fd)
{
	if (fd >= 0)
		close(fd);
}

/*
 * Take a dead socket out of the way. Only an attempt to connect tells a dead one from one that is
 * served: the file outlives its process.
 * @return 0 (nothing is there any more), -EADDRINUSE, -ENOTSOCK, or what the system said
 */
static int
remove_stale(const char *path)
{
	struct stat before, after;
	int fd;

	if (lstat(path, &before) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(before.st_mode))
		return -ENOTSOCK;
	fd = vu_socket_connect(path);
	if (fd >= 0) {
		close(fd);
		return -EADDRINUSE;
	}
	if (fd == -EAGAIN || fd == -EPROTOTYPE) /* its backlog is full; it is of another type */
		return -EADDRINUSE;
	if (fd == -ENOENT)
		return 0;
	if (fd != -ECONNREFUSED)
		return fd;
	if (lstat(path, &after) < 0)
		return errno == ENOENT ? 0 : -errno;
	if (after.st_dev != before.st_dev || after.st_ino != before.st_ino)
		return -EADDRINUSE;
	return unlink(path) < 0 && errno != ENOENT ? -errno : 0;
}

/* Owner, group and mode of the file that we just bound, through a handle that follows no link. */
static int
set_permissions(const struct vu_socket_config *config)
{
	char self[32];
	int err = 0;
	int fd;

	if (config->owner == (uid_t)-1 && config->group == (gid_t)-1 && config->mode == 0)
		return 0;
	fd = open(config->path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	snprintf(self, sizeof(self), "/proc/self/fd/%d", fd);
	if (fchownat(fd, "", config->owner, config->group, AT_EMPTY_PATH) < 0)
		err = -errno;
	else if (config->mode != 0 && chmod(self, config->mode) < 0)
		err = -errno;
	close(fd);
	return err;
}

static int
bind_and_listen(int fd, const struct sockaddr_un *sa, const struct vu_socket_config *config,
	char *error, size_t len)
{
	int err;

	/* Whatever the umask: nobody else reaches it before it is as it was asked for. */
	if (config->mode != 0 && fchmod(fd, config->mode & 0600) < 0)
		return fail(-errno, error, len, "%s: fchmod: %s", config->path, strerror(errno));
	if (bind(fd, (const struct sockaddr *)sa, sizeof(*sa)) < 0)
		return fail(-errno, error, len, "%s: cannot make the socket: %s", config->path,
			strerror(errno));
	err = set_permissions(config);
	if (err != 0)
		fail(err, error, len, "%s: cannot set owner, group or mode: %s", config->path,
			strerror(-err));
	else if (listen(fd, BACKLOG) < 0)
		err = fail(
			-errno, error, len, "%s: cannot listen: %s", config->path, strerror(errno));
	if (err != 0)
		unlink(config->path);
	return err;
}

/* What helps, behind what failed. */
static const char *
remedy(int err)
{
	return err == -EMFILE ? ": raise the limit of open files (ulimit -n)" : "";
}

int
vu_socket_listen(const struct vu_socket_config *config, char *error, size_t len)
{
	struct sockaddr_un sa;
	int err = make_address(config->path, &sa);
	int lock, fd;

	if (err == -ENAMETOOLONG)
		return fail(err, error, len,
			"path of the socket is too long (more than %d bytes): choose a shorter one",
			VU_PATH_MAX);
	if (err != 0)
		return fail(err, error, len, "path of the socket is empty: give one");
	fd = new_socket();
	if (fd < 0)
		return fail(fd, error, len, "%s: socket: %s%s", config->path, strerror(-fd),
			remedy(fd));
	lock = lock_directory(config->path);
	err = remove_stale(config->path);
	if (err == 0)
		err = bind_and_listen(fd, &sa, config, error, len);
	else if (err == -EADDRINUSE)
		fail(err, error, len,
			"%s: another process serves this socket: stop it or choose another path",
			config->path);
	else if (err == -ENOTSOCK)
		fail(err, error, len,
			"%s: in the way and not a socket: remove it or choose another path",
			config->path);
	else
		fail(err, error, len, "%s: cannot look at what is there: %s%s", config->path,
			strerror(-err), remedy(err));
	unlock_directory(lock);
	if (err != 0) {
		close(fd);
		return err;
	}
	return fd;
}

/*
 * The file's identity is not kept, and need not be: with our descriptor closed, a socket there that
 * refuses connections is ours or as dead as ours, and one that takes them is somebody else's.
 */
void
vu_socket_unlisten(int listen_fd, const char *path)
{
	int lock;

	if (listen_fd < 0)
		return;
	lock = lock_directory(path);
	close(listen_fd);
	remove_stale(path);
	unlock_directory(lock);
}
