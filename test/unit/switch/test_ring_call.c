/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Calls to a guest, moderated by what adaptive coalescing has found for its ring. */

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "unit.h"

#include "fault.h"
#include "worker.h"

#define SIZE 64
#define PORT 3
#define US   1000 /* ticks of a microsecond */

static struct {
	struct vq_desc desc[SIZE];
	uint16_t avail[3 + SIZE];
	uint8_t used[6 + 8 * SIZE] __attribute__((aligned(4)));
} memory __attribute__((aligned(64)));

static struct vq_mem *mem;
static struct vq_device vq;
static struct vring ring;
static struct worker *worker;
static struct port_counters counters[PORTS_MAX];
static struct view view;

void
fault_mark_port(struct worker *w, uint32_t port, enum port_fault fault)
{
	(void)w;
	(void)port;
	(void)fault;
	abort();
}

static int
begin(void **state)
{
	const struct vq_mem_region region = {1 << 20, sizeof(memory), (uint8_t *)&memory};
	struct vq_device_config config = {
		.size = SIZE,
		.desc = memory.desc,
		.avail = memory.avail,
		.used = memory.used,
	};

	(void)state;
	memset(&memory, 0, sizeof(memory));
	memset(counters, 0, sizeof(counters));
	worker = aligned_alloc(64, RTE_ALIGN_CEIL(sizeof(*worker), 64));
	assert_non_null(worker);
	memset(worker, 0, sizeof(*worker));
	worker->counters = counters;
	worker->now = 1;
	worker->view = &view;
	view.ports[PORT].nheld = 1;
	view.ports[PORT].held[0] = &ring;
	assert_int_equal(vq_mem_create(&region, 1, &mem), 0);
	config.mem = mem;
	assert_int_equal(vq_device_init(&vq, &config), 0);
	ring = (struct vring){.port = PORT, .vq = &vq, .adaptive = true};
	ring.call = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_true(ring.call >= 0);
	vq_adapt_init(&ring.adapt, UINT64_C(1000) * US);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	close(ring.call);
	vq_mem_destroy(mem);
	free(worker);
	return 0;
}

static uint64_t
counted(enum counter c)
{
	return atomic_load(&counters[PORT].value[c]);
}

/* A burst of one frame, `usecs` after the last one. */
static enum vq_call
burst(uint32_t usecs)
{
	enum vq_call decision;

	worker->now += (uint64_t)usecs * US;
	decision = decide_call(worker, &ring, 1, 1000);
	call_ring(worker, &ring, decision, 1);
	return decision;
}

static uint64_t
called(void)
{
	uint64_t n = 0;

	return read(ring.call, &n, sizeof(n)) == sizeof(n) ? n : 0;
}

/* 50 frames a millisecond: after 64 calls and the one that they count from, 64 us are tried. */
static void
make_it_moderate(void)
{
	for (uint32_t i = 0; i <= VQ_ADAPT_EVENTS; i++) {
		assert_int_equal(ring.profile, 0);
		assert_int_equal(burst(20), VQ_CALL_MAKE);
	}
	assert_int_equal(ring.profile, 2);
	assert_int_equal(counted(COUNT_PROFILE_CHANGES), 1);
	assert_int_equal(called(), VQ_ADAPT_EVENTS + 1);
}

static void
a_profile_is_put_to_use(void **state)
{
	(void)state;
	make_it_moderate();
	assert_int_equal(vq.coalesce.params.ticks, vq_adapt_profiles[2].usecs * US);
	/* Half of this ring. */
	assert_int_equal(vq.coalesce.params.frames, SIZE / 2);
	assert_int_equal(burst(20), VQ_CALL_DEFERRED);
	assert_int_equal(burst(vq_adapt_profiles[2].usecs - 1), VQ_CALL_DEFERRED);
	assert_int_equal(called(), 0);
	assert_int_equal(burst(1), VQ_CALL_MAKE);
	assert_int_equal(called(), 1);
	assert_int_equal(counted(COUNT_CALLS_DEFERRED), 2);
}

static void
one_is_deferred_until_it_is_due(void **state)
{
	(void)state;
	make_it_moderate();
	assert_int_equal(burst(20), VQ_CALL_DEFERRED);
	worker->now += (vq_adapt_profiles[2].usecs - 1) * US;
	serve_deferred(worker, false);
	assert_int_equal(called(), 0);
	worker->now += US;
	serve_deferred(worker, false);
	assert_int_equal(called(), 1);
	serve_deferred(worker, false);
	assert_int_equal(called(), 0);
}

static void
a_pause_ends_moderation_at_once(void **state)
{
	(void)state;
	make_it_moderate();
	assert_int_equal(burst(VQ_ADAPT_IDLE_MS * 1000), VQ_CALL_MAKE);
	assert_int_equal(ring.profile, 0);
	assert_int_equal(counted(COUNT_PROFILE_CHANGES), 2);
}

/* A worker that goes to sleep makes the call; it is an event like any other. */
static void
a_flush_is_an_event(void **state)
{
	uint32_t i;

	(void)state;
	make_it_moderate();
	for (i = 0; i <= VQ_ADAPT_EVENTS; i++) {
		assert_int_equal(ring.profile, 2);
		assert_int_equal(burst(20), VQ_CALL_DEFERRED);
		serve_deferred(worker, true);
		assert_int_equal(called(), 1);
	}
	/* Nothing is better for it. */
	assert_int_equal(ring.profile, 0);
}

/* A guest that polls is not called, and nothing can be learned from that. */
static void
suppressed_calls_are_no_events(void **state)
{
	uint32_t i;

	(void)state;
	memory.avail[0] = VQ_AVAIL_NO_INTERRUPT;
	for (i = 0; i < 10 * VQ_ADAPT_EVENTS; i++)
		assert_int_equal(burst(20), VQ_CALL_SUPPRESSED);
	assert_int_equal(ring.profile, 0);
	assert_int_equal(called(), 0);
}

static void
others_are_left_alone(void **state)
{
	const struct vq_coalesce_params params = {.frames = 4, .ticks = 1000 * US};
	uint32_t i;

	(void)state;
	ring.adaptive = false;
	vq_coalesce_set(&vq.coalesce, &params);
	for (i = 1; i <= 100 * 4; i++)
		assert_int_equal(burst(1), i % 4 == 0 ? VQ_CALL_MAKE : VQ_CALL_DEFERRED);
	assert_int_equal(called(), 100);
	assert_int_equal(vq.coalesce.params.frames, 4);
	assert_int_equal(counted(COUNT_PROFILE_CHANGES), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_profile_is_put_to_use, begin, end),
		cmocka_unit_test_setup_teardown(one_is_deferred_until_it_is_due, begin, end),
		cmocka_unit_test_setup_teardown(a_pause_ends_moderation_at_once, begin, end),
		cmocka_unit_test_setup_teardown(a_flush_is_an_event, begin, end),
		cmocka_unit_test_setup_teardown(suppressed_calls_are_no_events, begin, end),
		cmocka_unit_test_setup_teardown(others_are_left_alone, begin, end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
