/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <dirent.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "host.h"

/* Turns in which a backend must have become quiet, whatever a test sent. */
#define TURNS_MAX 10000

static void
on_quiesce(void *priv)
{
	struct host *h = priv;

	assert_false(h->quiesced);
	h->quiesced = true;
	h->quiesces++;
}

static void
on_update(void *priv)
{
	struct host *h = priv;

	assert_true(h->quiesced);
	h->quiesced = false;
	h->updates++;
	if (h->disconnect != NULL) {
		const char *why = h->disconnect;

		h->disconnect = NULL;
		vu_backend_disconnect(h->b, why);
	}
}

static void
on_call_changed(void *priv, uint32_t i)
{
	struct host *h = priv;

	assert_false(h->quiesced);
	assert_true(vu_backend_ring(h->b, i)->ready);
	h->calls_changed++;
}

static void
on_mtu_changed(void *priv)
{
	struct host *h = priv;

	assert_false(h->quiesced);
	h->mtus_changed++;
}

static void
on_log(void *priv, int level, const char *text)
{
	struct host *h = priv;

	assert_in_range(level, 0, 2);
	snprintf(h->last_log, sizeof(h->last_log), "%s", text);
	h->logs++;
}

static const struct vu_backend_ops host_ops = {
	.quiesce = on_quiesce,
	.update = on_update,
	.log = on_log,
};

const struct vu_backend_ops host_telling_ops = {
	.quiesce = on_quiesce,
	.update = on_update,
	.call_changed = on_call_changed,
	.mtu_changed = on_mtu_changed,
	.log = on_log,
};

static void
create(struct host *h)
{
	char error[256] = "";
	int err = vu_backend_create(&h->config, h->ops, h, &h->b, error, sizeof(error));

	if (err != 0)
		fail_msg("vu_backend_create: %s", error);
	assert_true(vu_backend_fd(h->b) >= 0);
}

void
host_start(struct host *h, uint32_t queue_pairs, bool client)
{
	memset(h, 0, sizeof(*h));
	h->ops = &host_ops;
	snprintf(h->dir, sizeof(h->dir), "/tmp/sluice-unit-XXXXXX");
	assert_non_null(mkdtemp(h->dir));
	h->config = (struct vu_backend_config){
		.socket = {.client = client, .owner = (uid_t)-1, .group = (gid_t)-1},
		.features = HOST_FEATURES,
		.queue_pairs = queue_pairs,
		.mtu = 9000,
	};
	snprintf(h->config.socket.path, sizeof(h->config.socket.path), "%s/s", h->dir);
	create(h);
}

void
host_restart(struct host *h)
{
	assert_int_equal(mkdir(h->dir, 0700), 0);
	create(h);
}

void
host_stop(struct host *h)
{
	vu_backend_destroy(h->b);
	assert_false(h->quiesced);
	assert_int_equal(h->quiesces, h->updates);
	/* Nothing of ours is left in the directory. */
	assert_int_equal(rmdir(h->dir), 0);
}

static bool
readable(int fd, int timeout_ms)
{
	struct pollfd p = {.fd = fd, .events = POLLIN};

	return poll(&p, 1, timeout_ms) > 0;
}

void
host_run(struct host *h)
{
	uint32_t turns = 0;

	while (readable(vu_backend_fd(h->b), 0)) {
		vu_backend_process(h->b);
		assert_false(h->quiesced);
		assert_in_range(turns++, 0, TURNS_MAX);
	}
}

void
host_wait(struct host *h, enum vu_backend_state state)
{
	uint32_t i;

	for (i = 0; i < 1000 && vu_backend_state(h->b) != state; i++) {
		if (readable(vu_backend_fd(h->b), 50))
			vu_backend_process(h->b);
	}
	assert_int_equal(vu_backend_state(h->b), state);
}

static void *
work(void *arg)
{
	struct host *h = arg;
	struct pollfd p[2] = {
		{.fd = vu_backend_fd(h->b), .events = POLLIN},
		{.fd = h->stop, .events = POLLIN},
	};

	do {
		poll(p, 2, -1);
		if (p[0].revents != 0)
			vu_backend_process(h->b);
	} while (p[1].revents == 0);
	return NULL;
}

void
host_thread_start(struct host *h)
{
	h->stop = eventfd(0, EFD_CLOEXEC);
	assert_true(h->stop >= 0);
	assert_int_equal(pthread_create(&h->thread, NULL, work, h), 0);
}

void
host_thread_stop(struct host *h)
{
	uint64_t one = 1;

	assert_int_equal(write(h->stop, &one, sizeof(one)), sizeof(one));
	pthread_join(h->thread, NULL);
	close(h->stop);
}

void
peer_connect(struct peer *p, struct host *h)
{
	p->h = h;
	p->fd = vu_socket_connect(h->config.socket.path);
	assert_true(p->fd >= 0);
}

void
peer_close(struct peer *p)
{
	close(p->fd);
	p->fd = -1;
	host_run(p->h);
}

bool
peer_raw(struct peer *p, const void *bytes, size_t len, const int *fds, uint32_t nfds)
{
	uint8_t control[CMSG_SPACE(253 * sizeof(int))] = {0};
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};
	ssize_t n;

	if (nfds != 0) {
		struct cmsghdr *c;

		mh.msg_control = control;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), fds, nfds * sizeof(int));
	}
	do {
		n = sendmsg(p->fd, &mh, MSG_NOSIGNAL);
		if (n < 0 && errno == EAGAIN)
			host_run(p->h); /* its buffer is full */
	} while (n < 0 && errno == EAGAIN);
	if (n < 0)
		return false;
	assert_int_equal(n, len);
	return true;
}

bool
peer_send(struct peer *p, uint32_t request, uint32_t flags, const union vu_payload *payload,
	uint32_t size, const int *fds, uint32_t nfds)
{
	struct vu_header hdr = {.request = request, .flags = flags, .size = size};
	uint8_t flat[sizeof(hdr) + VU_PAYLOAD_MAX];

	memcpy(flat, &hdr, sizeof(hdr));
	if (size != 0)
		memcpy(flat + sizeof(hdr), payload->bytes, size);
	return peer_raw(p, flat, sizeof(hdr) + size, fds, nfds);
}

bool
peer_take(struct peer *p, struct vu_msg *out)
{
	struct vu_rx rx = {0};
	int got;

	host_run(p->h);
	got = vu_rx_poll(&rx, p->fd);
	if (got != 1)
		return false;
	assert_int_equal(rx.msg.nfds, 0); /* our backend sends none */
	assert_int_equal(rx.msg.hdr.flags, VU_FLAG_VERSION | VU_FLAG_REPLY);
	*out = rx.msg;
	return true;
}

bool
peer_gone(struct peer *p)
{
	uint8_t byte;
	ssize_t n;

	host_run(p->h);
	while ((n = recv(p->fd, &byte, 1, MSG_DONTWAIT)) > 0)
		;
	return n == 0 || errno == ECONNRESET;
}

int
peer_ask(struct peer *p, uint32_t request, const union vu_payload *payload, uint32_t size,
	const int *fds, uint32_t nfds)
{
	struct vu_msg m;

	peer_send(p, request, VU_FLAG_VERSION | VU_FLAG_NEED_REPLY, payload, size, fds, nfds);
	if (!peer_take(p, &m))
		return -1;
	assert_int_equal(m.hdr.request, request);
	assert_int_equal(m.hdr.size, sizeof(uint64_t));
	return (int)m.payload.u64;
}

int
peer_ask_u64(struct peer *p, uint32_t request, uint64_t value)
{
	union vu_payload u = {.u64 = value};

	return peer_ask(p, request, &u, sizeof(u.u64), NULL, 0);
}

int
peer_ask_state(struct peer *p, uint32_t request, uint32_t index, uint32_t num)
{
	union vu_payload u = {.state = {.index = index, .num = num}};

	return peer_ask(p, request, &u, sizeof(u.state), NULL, 0);
}

int
peer_ask_fd(struct peer *p, uint32_t request, uint64_t value, int fd)
{
	union vu_payload u = {.u64 = value};

	return peer_ask(p, request, &u, sizeof(u.u64), &fd, fd < 0 ? 0 : 1);
}

int
peer_ask_addr(struct peer *p, uint32_t index, uint64_t desc, uint64_t avail, uint64_t used)
{
	union vu_payload u = {
		.addr = {.index = index, .desc = desc, .avail = avail, .used = used},
	};

	return peer_ask(p, VU_SET_VRING_ADDR, &u, sizeof(u.addr), NULL, 0);
}

uint64_t
peer_get_u64(struct peer *p, uint32_t request)
{
	struct vu_msg m;

	assert_true(peer_send(p, request, VU_FLAG_VERSION, NULL, 0, NULL, 0));
	assert_true(peer_take(p, &m));
	assert_int_equal(m.hdr.request, request);
	assert_int_equal(m.hdr.size, sizeof(uint64_t));
	return m.payload.u64;
}

uint32_t
peer_get_base(struct peer *p, uint32_t index)
{
	union vu_payload u = {.state.index = index};
	struct vu_msg m;

	assert_true(peer_send(p, VU_GET_VRING_BASE, VU_FLAG_VERSION, &u, sizeof(u.state), NULL, 0));
	assert_true(peer_take(p, &m));
	assert_int_equal(m.hdr.request, VU_GET_VRING_BASE);
	assert_int_equal(m.hdr.size, sizeof(u.state));
	assert_int_equal(m.payload.state.index, index);
	return m.payload.state.num;
}

void
peer_negotiate(struct peer *p, uint64_t features)
{
	uint64_t protocol = peer_get_u64(p, VU_GET_PROTOCOL_FEATURES);

	assert_true(protocol & VU_PROTOCOL(REPLY_ACK));
	assert_int_equal(peer_ask_u64(p, VU_SET_PROTOCOL_FEATURES, protocol), 0);
	assert_int_equal(
		peer_ask_u64(p, VU_SET_FEATURES, features | VQ_FEATURE(PROTOCOL_FEATURES)), 0);
}

void
shm_init(struct shm *s, uint64_t guest, uint64_t size)
{
	s->fd = memfd_create("unit", MFD_CLOEXEC);
	assert_true(s->fd >= 0);
	assert_int_equal(ftruncate(s->fd, (off_t)size), 0);
	s->at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, s->fd, 0);
	assert_ptr_not_equal(s->at, MAP_FAILED);
	s->size = size;
	s->region = (struct vu_wire_region){
		.guest = guest,
		.size = size,
		.user = (uintptr_t)s->at,
	};
}

void
shm_free(struct shm *s)
{
	munmap(s->at, s->size);
	close(s->fd);
}

int
peer_ask_table(struct peer *p, const struct shm *s, uint32_t count)
{
	union vu_payload u = {.table.count = count};
	int fds[VU_TABLE_REGIONS];
	uint32_t i;

	for (i = 0; i < count; i++) {
		u.table.regions[i] = s[i].region;
		fds[i] = s[i].fd;
	}
	return peer_ask(p, VU_SET_MEM_TABLE, &u,
		(uint32_t)(offsetof(struct vu_wire_table, regions) +
			   count * sizeof(u.table.regions[0])),
		fds, count);
}

int
peer_ask_region(struct peer *p, uint32_t request, const struct vu_wire_region *r, int fd)
{
	union vu_payload u = {.single.region = *r};

	return peer_ask(p, request, &u, sizeof(u.single), &fd, fd < 0 ? 0 : 1);
}

uint64_t
ring_desc(const struct shm *s, uint32_t i)
{
	return s->region.user + UINT64_C(4096) * i;
}

uint64_t
ring_avail(const struct shm *s, uint32_t i)
{
	return ring_desc(s, i) + 1024;
}

uint64_t
ring_used(const struct shm *s, uint32_t i)
{
	return ring_desc(s, i) + 2048;
}

void
peer_start_ring(struct peer *p, const struct shm *s, uint32_t i, uint16_t base)
{
	assert_int_equal(peer_ask_state(p, VU_SET_VRING_NUM, i, RING_SIZE), 0);
	assert_int_equal(peer_ask_state(p, VU_SET_VRING_BASE, i, base), 0);
	assert_int_equal(
		peer_ask_addr(p, i, ring_desc(s, i), ring_avail(s, i), ring_used(s, i)), 0);
	assert_int_equal(peer_ask_fd(p, VU_SET_VRING_CALL, i | VU_VRING_NOFD, -1), 0);
	assert_int_equal(peer_ask_fd(p, VU_SET_VRING_KICK, i | VU_VRING_NOFD, -1), 0);
}

void
peer_up(struct peer *p, const struct shm *s)
{
	uint32_t i;

	peer_negotiate(p, VQ_FEATURE(VERSION_1));
	assert_int_equal(peer_ask_table(p, s, 1), 0);
	for (i = 0; i < 2; i++) {
		peer_start_ring(p, s, i, 0);
		assert_int_equal(peer_ask_state(p, VU_SET_VRING_ENABLE, i, 1), 0);
	}
	assert_int_equal(vu_backend_state(p->h->b), VU_BACKEND_UP);
}

uint32_t
count_fds(void)
{
	DIR *d = opendir("/proc/self/fd");
	uint32_t n = 0;

	assert_non_null(d);
	while (readdir(d) != NULL)
		n++;
	closedir(d);
	return n;
}

uint32_t
count_maps(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	char line[512];
	uint32_t n = 0;

	assert_non_null(f);
	/* Only shared files: the allocator comes and goes as it likes. */
	while (fgets(line, sizeof(line), f) != NULL)
		n += strstr(line, "/memfd:") != NULL;
	fclose(f);
	return n;
}

uint64_t
rnd(uint64_t *state)
{
	uint64_t z = *state += UINT64_C(0x9e3779b97f4a7c15); /* splitmix64 */

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

uint32_t
rnd_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)(rnd(state) % n);
}
