/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What the fuzz targets of lib/vhost_user share: a script of records of 16 bytes that mutate well,
 * a collection of descriptors to attach to messages, sending them in any shape, and the counts of
 * what the process holds.
 */
#ifndef FUZZ_VU_H
#define FUZZ_VU_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "input.h"
#include "vu_wire.h"

#define COUNT_OF(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))

/** One step of a script; what its fields mean is up to the target. */
struct record {
	uint8_t op, a, b, c;
	uint32_t x;
	uint64_t y;
};

_Static_assert(sizeof(struct record) == 16, "record");

/** More steps say nothing new, and a run has to end. */
#define SCRIPT_MAX 64

struct script {
	const uint8_t *at;
	size_t left;
	uint32_t steps;
};

/** The next record, the rest filled up with zeros. false: the script is over. */
bool script_next(struct script *s, struct record *r);

/** libFuzzer's custom mutator, by whole records: insert, copy, erase, swap, and change one. */
size_t fuzz_mutate_records(uint8_t *data, size_t size, size_t max_size, unsigned int seed);

/* Memory files that a frontend may show, each at a user and at a guest address of its own. */
enum {
	FILE_PLAIN,
	FILE_OTHER,
	FILE_SEALED, /* may neither shrink nor grow */
	FILE_SPARSE, /* larger than one frontend may show */
	FILES_GOOD,
	FILE_NO_WRITE = FILES_GOOD, /* sealed against writing */
	FILE_EMPTY,
	FILE_ODD, /* not of whole pages */
	FILE_READ_ONLY,
	FILES,
};

/* Bytes of the good files (but for the sparse one, of which so many are used). */
#define FILE_BYTES    UINT64_C(65536)
#define FILE_GUEST(i) (UINT64_C(0x100000000) + (uint64_t)(i)*UINT64_C(0x100000))
#define FILE_USER(i)  (UINT64_C(0x7f0000000000) + (uint64_t)(i)*UINT64_C(0x100000))

/* Everything that may travel with a message: the files above, then these. */
enum {
	FD_EVENT = FILES,
	FD_EVENT_OTHER,
	FD_NULL,
	FD_SOCKET,
	FD_PIPE_READ,
	FD_PIPE_WRITE,
	FD_EPOLL,
	FD_TIMER,
	FD_DIRECTORY,
	FDS,
};

/** Open them all, once. */
void fuzz_fds_open(void);
/** One of them, whatever the number. */
int fuzz_fd(uint32_t kind);
/** Forget what was written into the files and events. */
void fuzz_fds_clean(void);
/** The harness's own view of a good file. */
uint8_t *fuzz_file(uint32_t kind);

/** Most descriptors that the kernel lets travel at once. */
#define SEND_FDS_MAX 253

/** sendmsg() with descriptors. @return false if not all of it was taken */
bool fuzz_send(int fd, const void *bytes, size_t len, const int *fds, uint32_t nfds);

/** Numbers that hurt, and any other: `kind` chooses what `y` is relative to. */
uint64_t fuzz_number(uint8_t kind, uint64_t y);

/** Open descriptors below 256. */
uint32_t fuzz_count_fds(void);

#endif
