/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Our backend, for a frontend that is somebody else's: interop_backend SOCKET [client]
 * Sends back every frame on the queue pair that it came from. Prints a line when the first pair is
 * up, when the frontend goes, and, when its input ends, how many frames went back.
 */

#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "vq_net.h"
#include "vu_backend.h"

#define QUEUE_PAIRS 4
#define BURST       32

static struct vu_backend *backend;
static struct vq_net_burst *taking, *putting;
static struct vq_net_copied copied;
static uint64_t back, lost;

static void
on_quiesce(void *priv)
{
	(void)priv; /* there is one thread */
}

static void
on_update(void *priv)
{
	enum vu_backend_state now = vu_backend_state(backend);
	enum vu_backend_state *last = priv;
	uint32_t i, pairs = 0;

	for (i = 0; i < vu_backend_rings(backend); i += 2)
		pairs += vu_backend_ring(backend, i)->ready;
	if (now == VU_BACKEND_UP)
		printf("up features 0x%llx protocol 0x%llx pairs %u\n",
			(unsigned long long)vu_backend_features(backend),
			(unsigned long long)vu_backend_protocol_features(backend), pairs);
	else if (now == VU_BACKEND_DOWN && *last != now)
		printf("down %s\n", vu_backend_reason(backend));
	else if (now == VU_BACKEND_CONNECTED && *last == VU_BACKEND_UP)
		printf("stopped\n");
	*last = now;
	fflush(stdout);
}

static void
on_log(void *priv, int level, const char *text)
{
	(void)priv;
	printf("log %d %s\n", level, text);
	fflush(stdout);
}

static void
call(struct vu_ring *r, uint32_t n)
{
	uint64_t one = 1;

	if (vq_device_call(&r->vq, n, 0) == VQ_CALL_MAKE && r->call >= 0 &&
		write(r->call, &one, sizeof(one)) < 0)
		perror("call");
}

/* One turn over a pair. @return frames taken */
static uint32_t
echo(uint32_t pair)
{
	struct vu_ring *rx = vu_backend_ring(backend, 2 * pair);
	struct vu_ring *tx = vu_backend_ring(backend, 2 * pair + 1);
	uint64_t features = vu_backend_features(backend);
	uint32_t hdr = vq_net_hdr_len(features);
	const struct vq_frame *frames[BURST];
	uint8_t status[BURST];
	uint32_t n, i, good = 0;

	if (!rx->ready || !tx->ready || !rx->enabled)
		return 0;
	n = vq_net_take(&tx->vq, taking, BURST, hdr);
	for (i = 0; i < n; i++) {
		if (taking->frames[i].status == VQ_NET_OK)
			frames[good++] = &taking->frames[i];
	}
	call(rx, vq_net_put(&rx->vq, putting, frames, good, hdr, features & VQ_FEATURE(MRG_RXBUF),
			 status, &copied));
	for (i = 0; i < good; i++) {
		if (status[i] == VQ_NET_OK)
			back++;
		else
			lost++;
	}
	lost += n - good;
	call(tx, vq_net_release(&tx->vq, taking, n));
	return n;
}

static void
run(void)
{
	struct pollfd p[2] = {
		{.fd = vu_backend_fd(backend), .events = POLLIN},
		{.fd = STDIN_FILENO, .events = POLLIN},
	};
	uint32_t taken = 0, i;

	/* Asleep for a millisecond when there was nothing: a test is no reason to spin. */
	while (p[1].revents == 0) {
		poll(p, 2, taken != 0 ? 0 : 1);
		if (p[0].revents != 0)
			vu_backend_process(backend);
		taken = 0;
		for (i = 0; i < QUEUE_PAIRS; i++)
			taken += echo(i);
	}
}

int
main(int argc, char **argv)
{
	const struct vu_backend_ops ops = {
		.quiesce = on_quiesce, .update = on_update, .log = on_log};
	struct vu_backend_config config = {
		.socket = {.owner = (uid_t)-1, .group = (gid_t)-1},
		.features = VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF) |
			    VQ_FEATURE(INDIRECT_DESC) | VQ_FEATURE(IN_ORDER) | VQ_FEATURE(MQ),
		.queue_pairs = QUEUE_PAIRS,
	};
	enum vu_backend_state last = VU_BACKEND_DOWN;
	char error[256];

	if ((argc != 2 && argc != 3) || strlen(argv[1]) > VU_PATH_MAX) {
		fprintf(stderr, "usage: %s SOCKET [client]\n", argv[0]);
		return 2;
	}
	memcpy(config.socket.path, argv[1], strlen(argv[1]));
	config.socket.client = argc == 3;
	taking = vq_net_burst_create(BURST, BURST * 8);
	putting = vq_net_burst_create(BURST * 8, BURST * 8);
	if (taking == NULL || putting == NULL)
		return 1;
	if (vu_backend_create(&config, &ops, &last, &backend, error, sizeof(error)) != 0) {
		fprintf(stderr, "interop_backend: %s\n", error);
		return 1;
	}
	printf("ready\n");
	fflush(stdout);
	run();
	printf("back %llu lost %llu\n", (unsigned long long)back, (unsigned long long)lost);
	vu_backend_destroy(backend);
	vq_net_burst_destroy(taking);
	vq_net_burst_destroy(putting);
	return 0;
}
