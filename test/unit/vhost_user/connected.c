/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "connected.h"

struct host h;
struct peer p;
struct shm shm;
static uint32_t fds_before, maps_before;

int
connected_setup(void **state)
{
	(void)state;
	fds_before = count_fds();
	maps_before = count_maps();
	host_start(&h, 2, false);
	shm_init(&shm, GUEST, 65536);
	peer_connect(&p, &h);
	host_run(&h);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_CONNECTED);
	return 0;
}

int
connected_teardown(void **state)
{
	(void)state;
	peer_close(&p);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
	host_stop(&h);
	shm_free(&shm);
	assert_int_equal(count_fds(), fds_before);
	assert_int_equal(count_maps(), maps_before);
	return 0;
}
