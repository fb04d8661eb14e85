/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Unix sockets of vhost-user, on either end: listen or connect, non-blocking, close-on-exec.
 */
#ifndef VU_SOCKET_H
#define VU_SOCKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/** Longest path of a socket, without the terminating 0 (sockaddr_un). */
#define VU_PATH_MAX 107

struct vu_socket_config {
	char path[VU_PATH_MAX + 1];
	bool client; /**< connect to path; else listen there */
	uid_t owner; /**< of a listening socket; (uid_t)-1: leave */
	gid_t group; /**< (gid_t)-1: leave */
	mode_t mode; /**< permissions of a listening socket, e.g. 0660; 0: leave to the umask */
};

/**
 * Listen. A socket that nobody serves is replaced, one that somebody serves is refused, anything
 * that is not a socket is never touched.
 * @return descriptor, or -EADDRINUSE (served), -ENOTSOCK (in the way, not a socket),
 *   -ENAMETOOLONG, or what the system said; `error` gets one line with the remedy
 */
int vu_socket_listen(const struct vu_socket_config *config, char *error, size_t error_len);

/** Accept one connection: non-blocking, close-on-exec. @return descriptor or a negative errno */
int vu_socket_accept(int listen_fd);

/**
 * Start to connect. @return descriptor (connected), or a negative errno (-ENOENT, -ECONNREFUSED,
 * -EAGAIN: try later)
 */
int vu_socket_connect(const char *path);

/** Close the listening socket and remove it, if it is still the one that we made. */
void vu_socket_unlisten(int listen_fd, const char *path);

#endif
