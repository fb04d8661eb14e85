/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <rte_errno.h>
#include <rte_string_fns.h>

#include "sluice_control.h"
#include "user.h"
#include "vu_time.h"

/* Pauses between attempts to reach a backend, and how long a link must last to start over. */
#define PAUSE_MIN_MS 10
#define PAUSE_MAX_MS 1000
/* Pause after a backend that does not answer: attempts hold the lock that others want, too. */
#define PAUSE_SILENT_MS 10000

void
user_conn_drop(struct user_conn *conn)
{
	vu_frontend_close(conn->fe);
	conn->fe = NULL;
	conn->agreed = false;
	conn->lost = false;
}

/* Say why there is no link, unless that was the last thing said. */
static void
say_failure(struct user_conn *conn, int err)
{
	struct sluice_dev *dev = conn->dev;

	if (err == -EAGAIN && conn->listen >= 0)
		(void)sluice_refuse(dev, err,
			"waiting for a backend at %s: link down until it comes", conn->socket.path);
	else if (err == -ENOENT || err == -ECONNREFUSED || err == -EAGAIN)
		(void)sluice_refuse(dev, err, "no backend at %s (%s): link down until there is one",
			conn->socket.path, rte_strerror(-err));
	else if (err == -ETIMEDOUT)
		(void)sluice_refuse(dev, err,
			"the backend at %s does not answer: link down until it does",
			conn->socket.path);
	else if (sluice_absent(dev, err))
		(void)sluice_refuse(dev, err, "backend at %s: %s: link down, trying again",
			conn->socket.path, rte_strerror(-err));
	if (strcmp(conn->said, dev->why) == 0)
		return;
	(void)strlcpy(conn->said, dev->why, sizeof(conn->said));
	SLUICE_LOG(NOTICE, dev->name, "%s", dev->why);
}

static int
open_connection(struct user_conn *conn)
{
	int fd = conn->listen >= 0 ? vu_socket_accept(conn->listen)
				   : vu_socket_connect(conn->socket.path);

	return fd < 0 ? fd : vu_frontend_open(fd, USER_TIMEOUT_MS, &conn->fe);
}

static int
attempt(struct user_conn *conn)
{
	struct sluice_dev *dev = conn->dev;
	int err = 0;

	dev->why[0] = '\0';
	if (conn->fe == NULL)
		err = open_connection(conn);
	if (err == 0) {
		vu_frontend_set_deadline(conn->fe, USER_TIMEOUT_MS);
		err = sluice_up(dev);
	}
	if (err != 0)
		user_conn_drop(conn);
	if (err != 0 && !sluice_absent(dev, err) && dev->why[0] == '\0')
		(void)sluice_refuse(dev, err, "the backend at %s cannot be used: %s",
			conn->socket.path,
			err == -EREMOTEIO ? "it refuses a request" : rte_strerror(-err));
	return err;
}

/* The next attempt has to wait, longer each time, but for a link that has lasted. */
static void
pause_attempts(struct user_conn *conn, uint64_t now, int err)
{
	conn->next_ms = now + (err == -ETIMEDOUT ? PAUSE_SILENT_MS : conn->pause_ms);
	conn->pause_ms = RTE_MIN(conn->pause_ms * 2, (uint32_t)PAUSE_MAX_MS);
}

int
user_conn_try(struct sluice_dev *dev)
{
	struct user_conn *conn = user_conn_of(dev);
	int err;

	/* A connection that was kept over a stop may have gone without notice. */
	if (conn->fe != NULL && vu_frontend_check(conn->fe) != 0)
		user_conn_drop(conn);
	err = attempt(conn);
	conn->up_ms = vu_now_ms();
	if (err == 0) {
		conn->said[0] = '\0';
		SLUICE_LOG(NOTICE, dev->name, "link up");
		return 0;
	}
	if (sluice_absent(dev, err))
		say_failure(conn, err);
	pause_attempts(conn, conn->up_ms, err);
	return err;
}

/* Is the backend still there and honest? */
static bool
link_is_good(struct user_conn *conn, char *reason, size_t len)
{
	const struct sluice_ring *ring = conn->dev->up ? sluice_broken(conn->dev) : NULL;
	int err = conn->lost ? -EPROTO : vu_frontend_check(conn->fe);

	if (ring != NULL)
		snprintf(reason, len, "the backend broke the rules of ring %u (%s)", ring->index,
			vq_driver_fault_name(atomic_load(&ring->fault)));
	else if (conn->lost)
		snprintf(reason, len, "the backend does not have our memory");
	else if (err == -ECONNRESET)
		snprintf(reason, len, "backend left %s", conn->socket.path);
	else if (err != 0)
		snprintf(reason, len, "backend at %s: %s", conn->socket.path, rte_strerror(-err));
	return ring == NULL && err == 0;
}

/* Give the backend up. @return whether the link was up and is down now */
static bool
leave(struct user_conn *conn, const char *reason)
{
	struct sluice_dev *dev = conn->dev;
	const bool was_up = dev->up;
	uint64_t now = vu_now_ms();

	if (was_up) {
		/* The rings are ours again only when no burst is in them. */
		if (sluice_quiesce(dev) != 0)
			return false;
		SLUICE_LOG(NOTICE, dev->name, "link down: %s", reason);
	}
	user_conn_drop(conn);
	if (was_up)
		(void)sluice_down(dev);
	if (now - conn->up_ms > PAUSE_MAX_MS)
		conn->pause_ms = PAUSE_MIN_MS;
	pause_attempts(conn, now, 0);
	return was_up;
}

/* From the control thread, when an attempt is due. */
static bool
retry(struct user_conn *conn)
{
	int err = attempt(conn);
	uint64_t now = vu_now_ms();

	if (err == 0) {
		conn->up_ms = now;
		conn->said[0] = '\0';
		SLUICE_LOG(NOTICE, conn->dev->name, "link up");
		return true;
	}
	if (err == -EAGAIN && conn->listen >= 0)
		return false; /* nobody has come yet */
	say_failure(conn, err);
	pause_attempts(conn, now, err);
	return false;
}

uint32_t
user_conn_turn(struct sluice_dev *dev)
{
	struct user_conn *conn = user_conn_of(dev);
	char reason[128];

	if (conn->fe != NULL) {
		if (!link_is_good(conn, reason, sizeof(reason)))
			return leave(conn, reason) ? SLUICE_EVENT_LINK : 0;
		/* We may have been woken for something else: that is no time to be idle in. */
		if (dev->up && vu_now_ms() >= conn->idle_ms) {
			sluice_idle(dev);
			conn->idle_ms = vu_now_ms() + SLUICE_LOOK_MS;
		}
		return 0;
	}
	if (dev->started && vu_now_ms() >= conn->next_ms && retry(conn))
		return SLUICE_EVENT_LINK;
	return 0;
}

int
user_conn_prepare_wait(struct sluice_dev *dev, struct pollfd *fd)
{
	struct user_conn *conn = user_conn_of(dev);
	uint64_t now = vu_now_ms();
	int until_next = conn->next_ms > now ? (int)(conn->next_ms - now) : 0;

	if (conn->fe != NULL) {
		fd->fd = vu_frontend_fd(conn->fe);
		fd->events = POLLIN | POLLRDHUP;
		return dev->up ? SLUICE_LOOK_MS : -1;
	}
	if (!dev->started)
		return -1;
	/* As server, the listening socket tells when to try, but not within a pause. */
	if (conn->listen >= 0 && until_next == 0) {
		fd->fd = conn->listen;
		return -1;
	}
	return until_next;
}

/* As client: nothing there yet is fine, something else than a socket will never become one. */
static int
check_path(const struct sluice_dev *dev)
{
	struct stat st;

	if (dev->args.server || stat(dev->args.path, &st) < 0 || S_ISSOCK(st.st_mode))
		return 0;
	SLUICE_LOG(ERR, dev->name, "path=%s is not a socket: give the one that the backend makes",
		dev->args.path);
	return -ENOTSOCK;
}

int
user_conn_create(struct sluice_dev *dev)
{
	struct user_conn *conn;
	char error[256];
	int err = check_path(dev);

	if (err != 0)
		return err;
	conn = calloc(1, sizeof(*conn));

	if (conn == NULL)
		return -ENOMEM;
	dev->transport_priv = conn;
	conn->dev = dev;
	conn->listen = -1;
	conn->pause_ms = PAUSE_MIN_MS;
	conn->socket.client = !dev->args.server;
	conn->socket.owner = (uid_t)-1;
	conn->socket.group = (gid_t)-1;
	(void)strlcpy(conn->socket.path, dev->args.path, sizeof(conn->socket.path));
	if (dev->args.server) {
		conn->listen = vu_socket_listen(&conn->socket, error, sizeof(error));
		err = RTE_MIN(conn->listen, 0);
		if (err != 0)
			SLUICE_LOG(ERR, dev->name, "%s", error);
	}
	if (err == 0)
		err = sluice_control_start(dev);
	if (err == 0)
		err = user_memory_start(conn);
	if (err != 0)
		user_conn_destroy(dev);
	return err;
}

void
user_conn_destroy(struct sluice_dev *dev)
{
	struct user_conn *conn = user_conn_of(dev);

	if (conn == NULL)
		return;
	/* A change of memory wakes the thread. */
	user_memory_stop(conn);
	sluice_control_stop(dev);
	user_conn_drop(conn);
	vu_socket_unlisten(conn->listen, conn->socket.path);
	dev->transport_priv = NULL;
	free(conn);
}
