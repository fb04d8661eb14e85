/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Our frontend, with a backend that is somebody else's: interop_frontend SOCKET [FRAMES]
 * Negotiates, shows memory, starts the first pair, sends FRAMES frames and wants them back with
 * their addresses swapped (testpmd's macswap), stops, and all of that again: on the same connection
 * and on a new one. Without FRAMES nobody need forward. Prints what was negotiated; 0 if all is
 * well.
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "vq_driver.h"
#include "vu_frontend.h"

#define RING       256
#define BUFFER     2048
#define HEADER     12
#define SHM_BYTES  (UINT64_C(4) << 20)
#define RX_BUFFERS UINT64_C(0x100000) /* where in the memory */
#define TX_BUFFERS UINT64_C(0x200000)
#define ROUNDS     3
#define WAIT_MS    10000
#define WANTED                                                                                     \
	(VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(IN_ORDER) |                    \
		VQ_FEATURE(INDIRECT_DESC))

struct queue {
	struct vq_driver vq;
	struct vq_layout layout;
	uint8_t *ring;
	void *priv;
	int kick, call;
};

static uint8_t *shm;
static int shm_fd;
static struct queue queues[2]; /* receive, transmit */

static int
failed(const char *what, int err)
{
	fprintf(stderr, "interop_frontend: %s: %s\n", what, strerror(-err));
	return 1;
}

static int
make_memory(void)
{
	uint32_t i;

	shm_fd = memfd_create("interop", MFD_CLOEXEC);
	if (shm_fd < 0 || ftruncate(shm_fd, (off_t)SHM_BYTES) < 0)
		return -errno;
	shm = mmap(NULL, SHM_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, shm_fd, 0);
	if (shm == MAP_FAILED)
		return -errno;
	for (i = 0; i < 2; i++) {
		struct queue *q = &queues[i];

		vq_layout(RING, &q->layout);
		q->ring = shm + i * UINT64_C(65536);
		q->priv = aligned_alloc(16, (vq_driver_private_bytes(RING) + 15) & ~(size_t)15);
		q->kick = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		q->call = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
		if (q->priv == NULL || q->kick < 0 || q->call < 0)
			return -ENOMEM;
	}
	return 0;
}

static int
start(struct vu_frontend *f, uint64_t features)
{
	uint32_t i;
	int err;

	for (i = 0; i < 2; i++) {
		struct queue *q = &queues[i];
		struct vq_driver_config c = {
			.size = RING, .features = features, .ring = q->ring, .priv = q->priv};
		struct vu_ring_addr addr;

		err = vq_driver_init(&q->vq, &c);
		addr = (struct vu_ring_addr){
			.desc = (uintptr_t)q->ring + q->layout.desc,
			.avail = (uintptr_t)q->ring + q->layout.avail,
			.used = (uintptr_t)q->ring + q->layout.used,
		};
		if (err == 0)
			err = vu_frontend_start_ring(f, i, RING, 0, &addr, q->kick, q->call);
		if (err != 0)
			return err;
	}
	for (i = 0; i < 2; i++) {
		err = vu_frontend_enable_ring(f, i, true);
		if (err != 0)
			return err;
	}
	return vu_frontend_driver_ok(f);
}

static void
kick(struct queue *q)
{
	uint64_t one = 1;

	vq_driver_publish(&q->vq);
	if (vq_driver_need_notify(&q->vq) && write(q->kick, &one, sizeof(one)) < 0)
		perror("kick");
}

static uint32_t
frame_len(uint32_t seq)
{
	return 60 + seq * 37 % 1400;
}

static void
make_frame(uint8_t *at, uint32_t seq)
{
	uint32_t i;

	memset(at, 0, HEADER);
	for (i = 0; i < frame_len(seq); i++)
		at[HEADER + i] = (uint8_t)(i + seq);
	at[HEADER] = 2; /* locally administered, unicast, both */
	at[HEADER + 6] = 2;
}

static int
check_frame(const uint8_t *at, uint32_t len, uint32_t seq)
{
	uint8_t want[HEADER + 1500], mac[6];

	make_frame(want, seq);
	memcpy(mac, want + HEADER, 6);
	memcpy(want + HEADER, want + HEADER + 6, 6);
	memcpy(want + HEADER + 6, mac, 6);
	if (len == HEADER + frame_len(seq) && at[10] == 1 && at[11] == 0 &&
		memcmp(at + HEADER, want + HEADER, frame_len(seq)) == 0)
		return 0;
	fprintf(stderr, "interop_frontend: frame %u of %u bytes came back as %u bytes\n", seq,
		HEADER + frame_len(seq), len);
	return -EBADMSG;
}

/* All in order: one connection, one queue, one forwarder. */
static int
exchange(uint32_t frames)
{
	struct vq_driver *rx = &queues[0].vq, *tx = &queues[1].vq;
	uint32_t sent = 0, got = 0, idle = 0, i;
	void *cookie;
	uint32_t len;

	for (i = 0; i < RING; i++) {
		uint8_t *at = shm + RX_BUFFERS + (size_t)i * BUFFER;

		vq_driver_add(rx, (uintptr_t)at, BUFFER, VQ_DESC_WRITE, at);
	}
	kick(&queues[0]);
	while (got < frames) {
		while (sent < frames && sent - got < 32 && vq_driver_free(tx) != 0) {
			uint8_t *at = shm + TX_BUFFERS + (size_t)(sent % RING) * BUFFER;

			make_frame(at, sent);
			vq_driver_add(tx, (uintptr_t)at, HEADER + frame_len(sent), 0, at);
			sent++;
		}
		kick(&queues[1]);
		while (vq_driver_reap(tx, &cookie, NULL, 1) != 0)
			;
		if (vq_driver_reap(rx, &cookie, &len, 1) == 0) {
			poll(NULL, 0, 1);
			if (rx->fault != 0 || tx->fault != 0 || idle++ > WAIT_MS) {
				fprintf(stderr, "interop_frontend: %u sent, %u back\n", sent, got);
				return -ETIMEDOUT;
			}
			continue;
		}
		idle = 0;
		if (check_frame(cookie, len, got) != 0)
			return -EBADMSG;
		got++;
		vq_driver_add(rx, (uintptr_t)cookie, BUFFER, VQ_DESC_WRITE, cookie);
		kick(&queues[0]);
	}
	return 0;
}

static int
stop(struct vu_frontend *f)
{
	uint16_t base = 0;
	uint32_t i;
	int err = 0;

	for (i = 0; i < 2 && err == 0; i++)
		err = vu_frontend_enable_ring(f, i, false);
	for (i = 0; i < 2 && err == 0; i++) {
		err = vu_frontend_stop_ring(f, i, &base);
		/* The backend has taken no more than there was. */
		if (err == 0 && (uint16_t)(queues[i].vq.avail_idx - base) > RING)
			err = -ERANGE;
	}
	return err;
}

static int
open_frontend(const char *path, struct vu_frontend **f)
{
	int fd = -ENOENT;
	uint32_t i;

	for (i = 0; i < 100 && fd < 0; i++) {
		fd = vu_socket_connect(path);
		if (fd < 0)
			poll(NULL, 0, 100);
	}
	return fd < 0 ? fd : vu_frontend_open(fd, WAIT_MS, f);
}

static int
session(const char *path, uint32_t frames)
{
	struct vu_region region = {
		.guest = (uintptr_t)shm,
		.user = (uintptr_t)shm,
		.size = SHM_BYTES,
		.fd = shm_fd,
	};
	struct vu_frontend *f;
	uint64_t features = 0;
	uint32_t have = 0, i;
	int err = open_frontend(path, &f);

	if (err != 0)
		return failed("connect", err);
	err = vu_frontend_negotiate(f, WANTED, 1, &features, &have);
	if (err == 0)
		err = vu_frontend_set_features(f, features);
	if (err != 0)
		return failed("negotiate", err);
	printf("features 0x%llx protocol 0x%llx queue pairs %u slots %u\n",
		(unsigned long long)features, (unsigned long long)vu_frontend_protocol_features(f),
		have, vu_frontend_mem_slots(f));
	for (i = 0; i < ROUNDS; i++) {
		err = vu_frontend_set_memory(f, &region, 1);
		if (err != 0)
			return failed("memory", err);
		err = start(f, features);
		if (err != 0)
			return failed("start", err);
		err = exchange(frames);
		if (err != 0)
			return failed("exchange", err);
		err = stop(f);
		if (err != 0)
			return failed("stop", err);
	}
	vu_frontend_close(f);
	return 0;
}

int
main(int argc, char **argv)
{
	uint32_t i;
	int err;

	if (argc != 2 && argc != 3) {
		fprintf(stderr, "usage: %s SOCKET [FRAMES]\n", argv[0]);
		return 2;
	}
	err = make_memory();
	if (err != 0)
		return failed("memory", err);
	for (i = 0; i < ROUNDS; i++) {
		if (session(argv[1], argc == 3 ? (uint32_t)atoi(argv[2]) : 0) != 0)
			return 1;
	}
	printf("interop_frontend: OK\n");
	return 0;
}
