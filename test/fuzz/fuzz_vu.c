/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
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
#include <sys/timerfd.h>
#include <unistd.h>

#include "fuzz_vu.h"

/* libFuzzer's own mutations, for what is inside a record. */
size_t LLVMFuzzerMutate(uint8_t *data, size_t size, size_t max_size);

/* What is freed is used again soon: else each input begins with fresh pages. */
const char *__asan_default_options(void);

static int fds[FDS];
static uint8_t *views[FILES_GOOD];
/* Files and events that went out since the last cleaning. */
static bool used[FDS];

const char *
__asan_default_options(void)
{
	return "quarantine_size_mb=8";
}

bool
script_next(struct script *s, struct record *r)
{
	size_t n = s->left < sizeof(*r) ? s->left : sizeof(*r);

	if (n == 0 || s->steps == SCRIPT_MAX)
		return false;
	memset(r, 0, sizeof(*r));
	memcpy(r, s->at, n);
	s->at += n;
	s->left -= n;
	s->steps++;
	return true;
}

static uint32_t
below(unsigned int *seed, uint32_t n)
{
	*seed = *seed * 1103515245u + 12345u;
	return (*seed >> 8) % n;
}

size_t
fuzz_mutate_records(uint8_t *data, size_t size, size_t max_size, unsigned int seed)
{
	const size_t one = sizeof(struct record);
	uint32_t n = (uint32_t)(size / one);
	uint8_t *from, *to, hold[sizeof(struct record)];

	if (n == 0)
		return LLVMFuzzerMutate(data, size, max_size);
	from = data + below(&seed, n) * one;
	to = data + below(&seed, n) * one;
	switch (below(&seed, 8)) {
	case 0: /* once more, elsewhere */
	case 1:
		if (n < SCRIPT_MAX && (n + 1) * one <= max_size) {
			memcpy(hold, from, one);
			memmove(to + one, to, (size_t)(data + n * one - to));
			memcpy(to, hold, one);
			if (below(&seed, 2) == 0)
				LLVMFuzzerMutate(to, one, one);
			return (n + 1) * one;
		}
		/* fallthrough */
	case 2:
		if (n > 1) {
			memmove(from, from + one, (size_t)(data + n * one - from) - one);
			return (n - 1) * one;
		}
		/* fallthrough */
	case 3:
		memcpy(hold, from, one);
		memcpy(from, to, one);
		memcpy(to, hold, one);
		return n * one;
	case 4: /* all of it, other scripts of the corpus included */
		return LLVMFuzzerMutate(data, size, max_size);
	default:
		LLVMFuzzerMutate(from, one, one);
		return n * one;
	}
}

static int
memory_file(uint64_t size, unsigned int seals)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	MUST(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	MUST(seals == 0 || fcntl(fd, F_ADD_SEALS, seals) == 0);
	return fd;
}

void
fuzz_fds_open(void)
{
	char name[64];
	uint32_t i;
	int two[2];

	fds[FILE_PLAIN] = memory_file(FILE_BYTES, 0);
	fds[FILE_OTHER] = memory_file(FILE_BYTES, 0);
	fds[FILE_SEALED] = memory_file(FILE_BYTES, F_SEAL_SHRINK | F_SEAL_GROW);
	fds[FILE_SPARSE] = memory_file(UINT64_C(1) << 42, 0);
	fds[FILE_NO_WRITE] = memory_file(FILE_BYTES, F_SEAL_WRITE);
	fds[FILE_EMPTY] = memory_file(0, 0);
	fds[FILE_ODD] = memory_file(5000, 0);
	snprintf(name, sizeof(name), "/proc/self/fd/%d", fds[FILE_PLAIN]);
	fds[FILE_READ_ONLY] = open(name, O_RDONLY | O_CLOEXEC);
	fds[FD_EVENT] = eventfd(0, EFD_CLOEXEC);
	fds[FD_EVENT_OTHER] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	fds[FD_NULL] = open("/dev/null", O_RDWR | O_CLOEXEC);
	MUST(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, two) == 0);
	fds[FD_SOCKET] = two[0]; /* the other end stays open, unnamed */
	MUST(pipe2(two, O_CLOEXEC) == 0);
	fds[FD_PIPE_READ] = two[0];
	fds[FD_PIPE_WRITE] = two[1];
	fds[FD_EPOLL] = epoll_create1(EPOLL_CLOEXEC);
	fds[FD_TIMER] = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
	fds[FD_DIRECTORY] = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	for (i = 0; i < FDS; i++)
		MUST(fds[i] >= 0);
	for (i = 0; i < FILES_GOOD; i++) {
		views[i] = mmap(NULL, FILE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fds[i], 0);
		MUST(views[i] != MAP_FAILED);
	}
}

int
fuzz_fd(uint32_t kind)
{
	kind %= FDS;
	used[kind == FILE_READ_ONLY ? FILE_PLAIN : kind] = true;
	return fds[kind];
}

uint8_t *
fuzz_file(uint32_t kind)
{
	kind %= FILES_GOOD;
	used[kind] = true;
	return views[kind];
}

void
fuzz_fds_clean(void)
{
	uint64_t ignored;
	uint32_t i;

	for (i = 0; i < FILES; i++) {
		if (!used[i] || i == FILE_NO_WRITE || i == FILE_EMPTY)
			continue;
		MUST(fallocate(fds[i], FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 0,
			     i == FILE_SPARSE ? INT64_C(1) << 42 : (off_t)FILE_BYTES) == 0);
	}
	for (i = FD_EVENT; i <= FD_EVENT_OTHER; i++) {
		if (!used[i])
			continue;
		MUST(fcntl(fds[i], F_SETFL, O_NONBLOCK) == 0);
		if (read(fds[i], &ignored, sizeof(ignored)) < 0)
			MUST(errno == EAGAIN);
		MUST(fcntl(fds[i], F_SETFL, i == FD_EVENT ? 0 : O_NONBLOCK) == 0);
	}
	memset(used, 0, sizeof(used));
}

bool
fuzz_send(int fd, const void *bytes, size_t len, const int *list, uint32_t nfds)
{
	union {
		struct cmsghdr align;
		uint8_t bytes[CMSG_SPACE(SEND_FDS_MAX * sizeof(int))];
	} control;
	struct iovec iov = {(void *)(uintptr_t)bytes, len};
	struct msghdr mh = {.msg_iov = &iov, .msg_iovlen = 1};

	if (len == 0)
		return true;
	if (nfds != 0) {
		struct cmsghdr *c;

		mh.msg_control = &control;
		mh.msg_controllen = CMSG_SPACE(nfds * sizeof(int));
		memset(&control, 0, mh.msg_controllen);
		c = CMSG_FIRSTHDR(&mh);
		c->cmsg_level = SOL_SOCKET;
		c->cmsg_type = SCM_RIGHTS;
		c->cmsg_len = CMSG_LEN(nfds * sizeof(int));
		memcpy(CMSG_DATA(c), list, nfds * sizeof(int));
	}
	return sendmsg(fd, &mh, MSG_DONTWAIT | MSG_NOSIGNAL) == (ssize_t)len;
}

uint64_t
fuzz_number(uint8_t kind, uint64_t y)
{
	uint32_t file = (kind >> 4) % FILES;

	switch (kind & 15) {
	case 1:
		return FILE_USER(file) + (y & 0x1ffff);
	case 2:
		return FILE_GUEST(file) + (y & 0x1ffff);
	case 3:
		return UINT64_MAX - (y & 0xffff);
	case 4:
		return INT64_MAX - (y & 0xffff);
	case 5:
		return FILE_BYTES + (uint64_t)(int64_t)(int8_t)y;
	case 6:
		return FILE_BYTES - (y & 0xffff);
	case 7:
		return UINT64_C(1) << (y & 63);
	case 8:
		return (UINT64_C(1) << (y & 63)) - 1;
	case 9:
		return UINT64_C(0x10000) + (y & 0xff);
	case 10:
		return y & 0xff;
	case 11:
		return (UINT64_C(1) << 40) - (y & 0x1ffff); /* what one may show */
	default:
		return y;
	}
}

uint32_t
fuzz_count_fds(void)
{
	struct pollfd p[256];
	uint32_t i, n = 0;

	for (i = 0; i < COUNT_OF(p); i++)
		p[i] = (struct pollfd){.fd = (int)i};
	poll(p, COUNT_OF(p), 0);
	for (i = 0; i < COUNT_OF(p); i++)
		n += !(p[i].revents & POLLNVAL);
	return n;
}
