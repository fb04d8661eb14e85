/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The application behind a fuzzed backend: it uses the rings as a worker would, and sees to it that
 * nothing changes behind its back. The rules are checked at every message, by the linker's --wrap.
 */
#ifndef FUZZ_VU_APP_H
#define FUZZ_VU_APP_H

#include "fuzz_vu.h"
#include "vu_backend_impl.h"

#define APP_RINGS 4
#define APP_FEATURES                                                                               \
	(VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(INDIRECT_DESC) |               \
		VQ_FEATURE(IN_ORDER) | VQ_FEATURE(EVENT_IDX) | VQ_FEATURE(MQ) | VQ_FEATURE(MTU))

/** What a worker may rely on between update() and quiesce(). */
struct app_view {
	struct vu_ring rings[APP_RINGS];
	uint64_t features;
	uint16_t mtu;
	const struct vq_mem *mem;
	uint32_t regions;
	struct vu_mapping *maps[VU_MEM_SLOTS];
};

struct app {
	struct vu_backend *b;
	int listen;    /* ours, for a backend that is the client */
	bool quiesced; /* between quiesce() and update() */
	bool leave;    /* send the frontend away in the next update() */
	bool failed;   /* how the last message ended */
	uint32_t quiesces;
	uint32_t told_calls; /* rings of which call_changed() was told in this message */
	bool told_mtu;
	uint32_t answers;     /* that the backend has given on this connection */
	struct app_view seen; /* at the last update(), and after the last turn of a worker */
};

/** A backend on a socket of its own, as server or as client. */
void app_start(struct app *a, bool client);
/** At the end of the program: no file is left behind. */
void app_stop(struct app *a);
/** A connection to it, as the frontend. */
int app_connect(struct app *a);
/** One turn of the backend. @return false: there is nothing to do */
bool app_turn(struct app *a);
/** All it can do, which is bounded. */
void app_run(struct app *a);
/** Send the frontend away. */
void app_leave(struct app *a);
/** What workers do: look at the chains of each ring, and complete them or put them back. */
void app_work(struct app *a, bool complete, uint32_t burst);
/** Nobody is connected: nothing may be left. */
void app_expect_nothing(struct app *a);

#endif
