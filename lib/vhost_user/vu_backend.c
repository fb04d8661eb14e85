/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "vu_backend_impl.h"
#include "vu_time.h"

/* Messages handled in one turn: the other ports come next. */
#define MESSAGES_PER_TURN 32
/* Connections refused in one turn while a frontend is served. */
#define REFUSALS_PER_TURN 4
/* Back-off between attempts to connect, or to accept when descriptors have run out. */
#define RETRY_MIN_MS 50
#define RETRY_MAX_MS 800
/* Log lines about a peer: so many at once, then one a second. */
#define LOG_BURST 10

/* What an epoll event is about. */
enum source {
	SOURCE_LISTEN,
	SOURCE_CONN,
	SOURCE_TIMER,
	SOURCES,
};

void
vu_backend_log(struct vu_backend *b, int level, const char *format, ...)
{
	uint64_t now = vu_now_ms();
	uint64_t earned = (now - b->log_ms) / 1000;
	char text[256];
	va_list ap;
	int n;

	if (earned != 0) {
		b->log_ms += earned * 1000;
		b->log_tokens = earned > LOG_BURST - b->log_tokens
					? LOG_BURST
					: b->log_tokens + (uint32_t)earned;
	}
	if (b->log_tokens == 0) {
		b->log_dropped++;
		return;
	}
	b->log_tokens--;
	va_start(ap, format);
	n = vsnprintf(text, sizeof(text), format, ap);
	va_end(ap);
	if (b->log_dropped != 0 && n >= 0 && (size_t)n < sizeof(text))
		snprintf(text + n, sizeof(text) - (size_t)n, " (%u lines before it not logged)",
			b->log_dropped);
	b->log_dropped = 0;
	if (b->ops->log != NULL)
		b->ops->log(b->priv, level, text);
}

void
vu_backend_touch(struct vu_backend *b)
{
	if (b->quiesced)
		return;
	b->quiesced = true;
	b->ops->quiesce(b->priv);
}

static void
publish(struct vu_backend *b)
{
	if (!b->quiesced)
		return;
	b->quiesced = false;
	b->ops->update(b->priv);
}

static int
watch(struct vu_backend *b, int op, int fd, uint32_t events, enum source source)
{
	struct epoll_event ev = {.events = events, .data.u32 = source};

	return epoll_ctl(b->epoll, op, fd, &ev) < 0 ? -errno : 0;
}

static void
set_timer(struct vu_backend *b, uint32_t ms)
{
	struct itimerspec t = {
		.it_value.tv_sec = ms / 1000,
		.it_value.tv_nsec = (long)(ms % 1000) * 1000000,
	};

	timerfd_settime(b->timer, 0, &t, NULL);
}

/* Come back later, each time a little later. */
static void
retry(struct vu_backend *b)
{
	set_timer(b, b->retry_ms);
	b->retry_ms = b->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : b->retry_ms * 2;
}

static void
drop(struct vu_backend *b, const char *why)
{
	if (b->conn < 0)
		return;
	if (why != b->reason)
		snprintf(b->reason, sizeof(b->reason), "%s", why);
	vu_backend_touch(b);
	close(b->conn); /* which takes it out of epoll as well */
	b->conn = -1;
	vu_rx_reset(&b->rx);
	vu_tx_reset(&b->tx);
	vu_rings_close(b);
	vu_memory_clear(b);
	b->protocol_features = 0;
	b->stats.disconnects++;
	publish(b);
	if (b->config.socket.client)
		retry(b);
}

static void
adopt(struct vu_backend *b, int fd)
{
	int err = watch(b, EPOLL_CTL_ADD, fd, EPOLLIN, SOURCE_CONN);

	if (err != 0) {
		vu_backend_log(b, 0, "%s: cannot watch the connection: %s", b->config.socket.path,
			strerror(-err));
		close(fd);
		return;
	}
	b->conn = fd;
	b->conn_events = EPOLLIN;
	b->disconnect = false;
	b->stats.connects++;
	vu_backend_touch(b);
	publish(b);
}

static void
try_connect(struct vu_backend *b)
{
	int fd = vu_socket_connect(b->config.socket.path);

	if (fd >= 0)
		adopt(b, fd);
	else if (fd != b->last_error)
		vu_backend_log(b, 2, "%s: nobody there yet (%s), trying again",
			b->config.socket.path, strerror(-fd));
	b->last_error = fd >= 0 ? 0 : fd;
	if (b->conn < 0)
		retry(b);
}

/* Has the frontend hung up, with its last messages still to be read? */
static bool
hung_up(int conn)
{
	struct pollfd p = {.fd = conn, .events = POLLRDHUP};

	return poll(&p, 1, 0) > 0;
}

static void
try_accept(struct vu_backend *b)
{
	uint32_t i;
	int fd;

	for (i = 0; i < REFUSALS_PER_TURN; i++) {
		/* The next frontend waits while we clear up after one that has gone. */
		if (b->conn >= 0 && hung_up(b->conn)) {
			if (b->tx.count == 0)
				return;
			drop(b, "the frontend left and does not read its answers");
		}
		fd = vu_socket_accept(b->listen);
		if (fd < 0)
			break;
		if (b->conn < 0) {
			adopt(b, fd);
			continue;
		}
		close(fd);
		vu_backend_log(b, 1, "%s: second frontend refused: one is connected",
			b->config.socket.path);
	}
	if (i == REFUSALS_PER_TURN || fd == -EAGAIN)
		return;
	/* Out of descriptors, say: look away for a while, or epoll would wake us for nothing. */
	vu_backend_log(b, 0, "%s: accept: %s", b->config.socket.path, strerror(-fd));
	watch(b, EPOLL_CTL_MOD, b->listen, 0, SOURCE_LISTEN);
	retry(b);
}

static void
timer_expired(struct vu_backend *b)
{
	uint64_t n;

	if (read(b->timer, &n, sizeof(n)) != (ssize_t)sizeof(n))
		return;
	if (!b->config.socket.client)
		watch(b, EPOLL_CTL_MOD, b->listen, EPOLLIN, SOURCE_LISTEN);
	else if (b->conn < 0)
		try_connect(b);
}

/*
 * Read while there is room for an answer: a peer that does not read its answers is not read. And
 * workers are waited for once a turn, whatever the peer does: other ports want theirs.
 */
static int
read_messages(struct vu_backend *b)
{
	uint32_t i;
	int err = 0;

	b->told = false;
	for (i = 0; i < MESSAGES_PER_TURN && !vu_tx_full(&b->tx) && !b->told && err == 0; i++) {
		err = vu_rx_poll(&b->rx, b->conn);
		if (err == 0)
			return 0;
		if (err < 0) {
			if (err != -ECONNRESET)
				b->stats.bad_messages++;
			return err;
		}
		b->retry_ms = RETRY_MIN_MS;
		err = vu_backend_message(b, &b->rx.msg);
		vu_rx_next(&b->rx);
	}
	return err;
}

static const char *
why_dropped(int err, bool midway)
{
	switch (err) {
	case -ECONNRESET:
		return midway ? "the frontend left in the middle of a message"
			      : "the frontend closed the connection";
	case -EPROTO:
		return "not vhost-user (wrong version or direction), or more descriptors than "
		       "allowed, or than we may have (ulimit -n)";
	case -EMSGSIZE:
		return "oversized message";
	case -ENOTSUP:
		return "the frontend used a request that was not offered";
	default:
		return strerror(-err);
	}
}

/* A change is in effect before its acknowledgement goes out: update first, then send. */
static void
serve(struct vu_backend *b)
{
	bool midway;
	uint32_t want;
	int err = vu_tx_flush(&b->tx, b->conn);

	if (err == 0)
		err = read_messages(b);
	midway = b->rx.got != 0;
	if (err >= 0) {
		publish(b);
		err = vu_tx_flush(&b->tx, b->conn);
	}
	if (err < 0) {
		drop(b, why_dropped(err, midway));
		return;
	}
	want = err == 0 ? EPOLLIN : EPOLLOUT;
	if (want != b->conn_events && watch(b, EPOLL_CTL_MOD, b->conn, want, SOURCE_CONN) == 0)
		b->conn_events = want;
}

static void
take_disconnect(struct vu_backend *b)
{
	if (!b->disconnect)
		return;
	b->disconnect = false;
	drop(b, b->reason);
}

void
vu_backend_process(struct vu_backend *b)
{
	struct epoll_event ev[SOURCES];
	bool due[SOURCES] = {false};
	int n = epoll_wait(b->epoll, ev, SOURCES, 0);
	int i;

	take_disconnect(b);
	for (i = 0; i < n; i++)
		due[ev[i].data.u32] = true;
	b->busy = true;
	/* The connection first: if it ends, the next one need not be refused. */
	if (due[SOURCE_CONN] && b->conn >= 0)
		serve(b);
	if (due[SOURCE_TIMER])
		timer_expired(b);
	if (due[SOURCE_LISTEN])
		try_accept(b);
	b->busy = false;
	take_disconnect(b);
}

void
vu_backend_disconnect(struct vu_backend *b, const char *why)
{
	if (b->conn < 0)
		return;
	if (!b->busy) {
		drop(b, why);
		return;
	}
	/*
	 * From a callback, or after a jump out of vu_backend_process() that never came back to
	 * where this is seen to: the timer makes sure that there is a next turn.
	 */
	snprintf(b->reason, sizeof(b->reason), "%s", why);
	b->disconnect = true;
	set_timer(b, 1);
}

static int
check_config(const struct vu_backend_config *config, char *error, size_t len)
{
	if (config->queue_pairs >= 1 && config->queue_pairs <= VU_RINGS_MAX / 2)
		return 0;
	snprintf(error, len, "%s: %u queue pairs: 1 to %u are possible", config->socket.path,
		config->queue_pairs, (uint32_t)(VU_RINGS_MAX / 2));
	return -EINVAL;
}

static int
open_descriptors(struct vu_backend *b, char *error, size_t len)
{
	int err;

	b->epoll = epoll_create1(EPOLL_CLOEXEC);
	b->timer = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
	if (b->epoll < 0 || b->timer < 0)
		err = -errno;
	else
		err = watch(b, EPOLL_CTL_ADD, b->timer, EPOLLIN, SOURCE_TIMER);
	if (err != 0) {
		snprintf(error, len, "%s: no descriptors: %s: raise the limit (ulimit -n)",
			b->config.socket.path, strerror(-err));
		return err;
	}
	if (b->config.socket.client)
		return 0;
	b->listen = vu_socket_listen(&b->config.socket, error, len);
	if (b->listen < 0)
		return b->listen;
	err = watch(b, EPOLL_CTL_ADD, b->listen, EPOLLIN, SOURCE_LISTEN);
	if (err != 0)
		snprintf(error, len, "%s: epoll: %s", b->config.socket.path, strerror(-err));
	return err;
}

int
vu_backend_create(const struct vu_backend_config *config, const struct vu_backend_ops *ops,
	void *priv, struct vu_backend **out, char *error, size_t error_len)
{
	struct vu_backend *b;
	int err = check_config(config, error, error_len);

	if (err != 0)
		return err;
	b = calloc(1, sizeof(*b));
	if (b == NULL) {
		snprintf(error, error_len, "%s: out of memory", config->socket.path);
		return -ENOMEM;
	}
	b->config = *config;
	b->ops = ops;
	b->priv = priv;
	b->listen = -1;
	b->conn = -1;
	b->retry_ms = RETRY_MIN_MS;
	b->log_tokens = LOG_BURST;
	b->log_ms = vu_now_ms();
	vu_rings_init(b);
	err = open_descriptors(b, error, error_len);
	if (err != 0) {
		vu_backend_destroy(b);
		return err;
	}
	if (config->socket.client)
		retry(b);
	*out = b;
	return 0;
}

void
vu_backend_destroy(struct vu_backend *b)
{
	if (b == NULL)
		return;
	b->config.socket.client = false; /* no way back */
	drop(b, "the port was closed");
	vu_socket_unlisten(b->listen, b->config.socket.path);
	if (b->timer >= 0)
		close(b->timer);
	if (b->epoll >= 0)
		close(b->epoll);
	free(b);
}

int
vu_backend_fd(const struct vu_backend *b)
{
	return b->epoll;
}

enum vu_backend_state
vu_backend_state(const struct vu_backend *b)
{
	if (b->conn < 0)
		return VU_BACKEND_DOWN;
	return b->rings[0].ready && b->rings[1].ready ? VU_BACKEND_UP : VU_BACKEND_CONNECTED;
}

struct vu_ring *
vu_backend_ring(struct vu_backend *b, uint32_t i)
{
	return &b->rings[i];
}

uint32_t
vu_backend_rings(const struct vu_backend *b)
{
	return b->config.queue_pairs * 2;
}

uint64_t
vu_backend_features(const struct vu_backend *b)
{
	return b->features & ~VQ_FEATURE(PROTOCOL_FEATURES);
}

uint64_t
vu_backend_protocol_features(const struct vu_backend *b)
{
	return b->protocol_features;
}

uint16_t
vu_backend_mtu(const struct vu_backend *b)
{
	return b->mtu;
}

const char *
vu_backend_reason(const struct vu_backend *b)
{
	return b->reason;
}

const struct vu_backend_stats *
vu_backend_stats(const struct vu_backend *b)
{
	return &b->stats;
}
