/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What every vhost-user test needs: cmocka, a backend with callbacks that keep the books, a
 * frontend by hand that may send anything, shared memory, and counts of what a process holds.
 */
#ifndef HOST_H
#define HOST_H

/* cmocka wants these before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <pthread.h>

#include "vq_wire.h"
#include "vu_backend.h"
#include "vu_codec.h"

#define COUNT_OF(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))

/** Features that the tests' backends offer. */
#define HOST_FEATURES                                                                              \
	(VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(INDIRECT_DESC) |               \
		VQ_FEATURE(IN_ORDER) | VQ_FEATURE(EVENT_IDX) | VQ_FEATURE(MQ) | VQ_FEATURE(MTU))

/** A backend and what it told us. */
struct host {
	struct vu_backend *b;
	struct vu_backend_config config;
	const struct vu_backend_ops *ops; /* ours; another set is for host_restart() */
	char dir[64];
	bool quiesced; /* between quiesce() and update() */
	uint32_t quiesces;
	uint32_t updates;
	uint32_t calls_changed, mtus_changed; /* by host_telling_ops */
	uint32_t logs;
	const char *disconnect; /* said in the next update(), once */
	char last_log[256];
	pthread_t thread;
	int stop; /* eventfd that ends the thread */
};

/** With the callbacks that a backend may do without. */
extern const struct vu_backend_ops host_telling_ops;

/** A backend on a socket in a directory of its own, as server or as client. */
void host_start(struct host *h, uint32_t queue_pairs, bool client);
/** After host_stop(): the same again, at the same path. */
void host_restart(struct host *h);
void host_stop(struct host *h);
/** Let the backend do all that it can do now. */
void host_run(struct host *h);
/** Let it work until its state is this, for a few seconds at most. */
void host_wait(struct host *h, enum vu_backend_state state);

/** Let the backend work in a thread of its own, for a frontend that waits; and no longer. */
void host_thread_start(struct host *h);
void host_thread_stop(struct host *h);

/** A frontend by hand. */
struct peer {
	int fd;
	struct host *h;
};

void peer_connect(struct peer *p, struct host *h);
void peer_close(struct peer *p);

/** Send raw bytes with descriptors; false if the backend has gone. */
bool peer_raw(struct peer *p, const void *bytes, size_t len, const int *fds, uint32_t nfds);
/** Send a message. `size` bytes of payload are taken from the union. */
bool peer_send(struct peer *p, uint32_t request, uint32_t flags, const union vu_payload *payload,
	uint32_t size, const int *fds, uint32_t nfds);
/** Let the backend work, then take its next message. false: there is none. */
bool peer_take(struct peer *p, struct vu_msg *out);
/** Let the backend work: has it closed the connection? */
bool peer_gone(struct peer *p);

/** Send with need_reply and let the backend work. @return the acknowledgement, or -1: none came */
int peer_ask(struct peer *p, uint32_t request, const union vu_payload *payload, uint32_t size,
	const int *fds, uint32_t nfds);
int peer_ask_u64(struct peer *p, uint32_t request, uint64_t value);
int peer_ask_state(struct peer *p, uint32_t request, uint32_t index, uint32_t num);
int peer_ask_fd(struct peer *p, uint32_t request, uint64_t value, int fd);
int peer_ask_addr(struct peer *p, uint32_t index, uint64_t desc, uint64_t avail, uint64_t used);
/** A request with a reply of one u64; fails the test if none comes. */
uint64_t peer_get_u64(struct peer *p, uint32_t request);
/** GET_VRING_BASE. */
uint32_t peer_get_base(struct peer *p, uint32_t index);

/** All protocol features, SET_FEATURES with the given ones and PROTOCOL_FEATURES. */
void peer_negotiate(struct peer *p, uint64_t features);

/** Shared memory, as a frontend has it. */
struct shm {
	int fd;
	uint8_t *at;
	uint64_t size;
	struct vu_wire_region region;
};

/** `size` bytes at guest address `guest`; the user address is where they are mapped here. */
void shm_init(struct shm *s, uint64_t guest, uint64_t size);
void shm_free(struct shm *s);
/** A table of `count` of them. */
int peer_ask_table(struct peer *p, const struct shm *s, uint32_t count);
int peer_ask_region(struct peer *p, uint32_t request, const struct vu_wire_region *r, int fd);

/** Size of the rings that the tests make. */
#define RING_SIZE 8

/** User addresses of ring i, which lies at 4096 * i in the shared memory. */
uint64_t ring_desc(const struct shm *s, uint32_t i);
uint64_t ring_avail(const struct shm *s, uint32_t i);
uint64_t ring_used(const struct shm *s, uint32_t i);

/** NUM, BASE, ADDR, CALL and KICK without descriptors. */
void peer_start_ring(struct peer *p, const struct shm *s, uint32_t i, uint16_t base);
/** Negotiate, show the memory, start and enable the first pair. */
void peer_up(struct peer *p, const struct shm *s);

/** Open descriptors and mappings of this process. */
uint32_t count_fds(void);
uint32_t count_maps(void);

/** Repeatable random numbers. */
uint64_t rnd(uint64_t *state);
uint32_t rnd_below(uint64_t *state, uint32_t n);

#endif
