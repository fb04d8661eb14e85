/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Something happens at each moment on the way to sleep and out of it: before and behind every call
 * that sleep.c makes to arm a ring, to take it back, and to wait. One thread is all of them, so
 * each moment is met exactly. A wait that nothing would have ended is what must not be.
 */

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "sleeper.h"

/* Linked in place of what sleep.c calls. */
bool __real_vq_device_arm(struct vq_device *q);
void __real_vq_device_disarm(struct vq_device *q);
int __real_epoll_wait(int set, struct epoll_event *events, int n, int timeout);
bool __wrap_vq_device_arm(struct vq_device *q);
void __wrap_vq_device_disarm(struct vq_device *q);
int __wrap_epoll_wait(int set, struct epoll_event *events, int n, int timeout);

static uint32_t moment;      /* that have gone by */
static uint32_t due;         /* the one at which something happens */
static void (*happen)(void); /* what; NULL: it has happened */
static uint32_t waits;       /* begun with nothing to do */

static bool at_ring;   /* in the memory of a guest */
static sigjmp_buf env; /* where a fault goes */

static void
moment_comes(void)
{
	void (*what)(void) = happen;

	if (what == NULL || moment++ != due)
		return;
	happen = NULL;
	what();
}

bool
__wrap_vq_device_arm(struct vq_device *q)
{
	bool found;

	at_ring = true;
	moment_comes();
	found = __real_vq_device_arm(q);
	moment_comes();
	at_ring = false;
	return found;
}

void
__wrap_vq_device_disarm(struct vq_device *q)
{
	at_ring = true;
	moment_comes();
	__real_vq_device_disarm(q);
	moment_comes();
	at_ring = false;
}

/* Nobody else will do anything: what is not there by now never will be. */
static int
wait_for_good(int set, struct epoll_event *events, int n)
{
	int ret = __real_epoll_wait(set, events, n, 0);

	/* Offline, it must not hold anything. */
	assert_null(fix.worker->view);
	assert_true(fix.sw.views.readers->qsbr_cnt[0].cnt == 0);
	if (ret != 0)
		return ret;
	if (happen == NULL)
		fail_msg("asleep for good: it came at moment %u", due);
	waits++;
	errno = EINTR;
	return -1;
}

int
__wrap_epoll_wait(int set, struct epoll_event *events, int n, int timeout)
{
	int ret;

	moment_comes();
	ret = timeout < 0 ? wait_for_good(set, events, n)
			  : __real_epoll_wait(set, events, n, timeout);
	moment_comes();
	return ret;
}

static uint32_t ring; /* that something happens to */
static struct view *old;

static void
a_frame_comes(void)
{
	post(ring);
}

/* As view_replace() does it, but the worker, who is us, is not waited for. */
static void
a_view_comes(void)
{
	const struct inlet in = {.port = 0, .ring = &fix.rings[0], .wakes = true};
	struct view *v = view_create(1);

	/* The guest gives another kick descriptor, which the worker has under the old one's number.
	 */
	close(fix.kicks[0]);
	fix.kicks[0] = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	assert_int_equal(dup2(fix.kicks[0], fix.rings[0].kick), fix.rings[0].kick);
	assert_non_null(v);
	assert_int_equal(view_add_inlet(v, 0, &in), 0);
	v->serial = ++fix.sw.views.serial;
	old = atomic_exchange(&fix.sw.views.current, v);
	fix.sw.views.published(fix.sw.views.published_priv);
}

static void
the_end_comes(void)
{
	atomic_store(&fix.sw.stop, true);
	sleep_wake_all(&fix.sw);
}

/* In the memory of a guest, so at a ring only. As worker.c has it: the port is dead, and on. */
static void
a_fault_comes(void)
{
	if (!at_ring) {
		happen = a_fault_comes;
		due = moment;
		return;
	}
	at_ring = false;
	atomic_store(&fix.rings[ring].dead, true);
	siglongjmp(env, 1);
}

static bool
is_seen(void (*what)(void))
{
	if (what == a_frame_comes)
		return given_back(ring);
	return what == the_end_comes || what == a_fault_comes ||
	       fix.worker->view == atomic_load(&fix.sw.views.current);
}

/* Awake, it asks no ring for kicks, or all of them. */
static void
expect_wishes(void)
{
	const bool asks = fix.worker->sleeper.asks;
	const struct view_worker *mine = &fix.worker->view->workers[0];
	uint32_t i;

	assert_false(fix.worker->sleeper.armed);
	for (i = 0; i < mine->ninlets; i++) {
		const struct vq_device *q = mine->inlets[i].ring->vq;

		if (atomic_load(&mine->inlets[i].ring->dead))
			continue;
		if (q->event_idx)
			assert_int_equal(
				asks, vq_load(vq_avail_event(q->used, q->size)) == q->avail_idx);
		else
			assert_int_equal(vq_load(&q->used->flags), asks ? 0 : VQ_USED_NO_NOTIFY);
	}
}

/* The worker's loop, with nothing to do until `what` happens, and then until it has seen to it. */
static void
run(void (*what)(void), uint32_t when)
{
	volatile uint32_t turns = 0;

	happen = what;
	due = when;
	moment = 0;
	if (sigsetjmp(env, 0) != 0) {
		sleep_recover(fix.worker);
		expect_wishes();
	}
	for (;;) {
		uint32_t packets = take_turn();

		if (happen == NULL && is_seen(what))
			break;
		if (packets == 0)
			sleep_if_idle(fix.worker);
		expect_wishes();
		assert_true(turns++ < 100);
	}
}

/* More moments than there are on the way to sleep, out of it, and to the next. */
#define MOMENTS 20

static void
at_each_moment(uint64_t features, bool suppress, void (*what)(void))
{
	uint32_t rings = what == a_frame_comes || what == a_fault_comes ? RINGS : 1;
	uint32_t i;

	waits = 0;
	for (i = 0; i < MOMENTS * rings; i++) {
		fixture_init(VQ_FEATURE(VERSION_1) | features, suppress);
		publish(ALL);
		come_online();
		ring = i % rings;
		run(what, i / rings);
		ring = what == a_fault_comes ? 1 - ring : 0;
		if (what != the_end_comes)
			run(a_frame_comes, i % 7);
		rte_rcu_qsbr_thread_offline(fix.sw.views.readers, 0);
		view_free(old);
		old = NULL;
		fixture_free();
	}
	/* Moments before the first sleep, and behind it. */
	assert_int_not_equal(waits, 0);
}

static void
frames(void **state)
{
	(void)state;
	at_each_moment(0, true, a_frame_comes);
	at_each_moment(VQ_FEATURE(EVENT_IDX), true, a_frame_comes);
}

static void
views(void **state)
{
	(void)state;
	at_each_moment(0, true, a_view_comes);
	at_each_moment(VQ_FEATURE(EVENT_IDX), true, a_view_comes);
}

static void
faults(void **state)
{
	(void)state;
	at_each_moment(0, true, a_fault_comes);
	at_each_moment(VQ_FEATURE(EVENT_IDX), true, a_fault_comes);
}

static void
no_suppression(void **state)
{
	(void)state;
	at_each_moment(0, false, a_frame_comes);
	at_each_moment(VQ_FEATURE(EVENT_IDX), false, a_frame_comes);
	at_each_moment(0, false, a_fault_comes);
	at_each_moment(VQ_FEATURE(EVENT_IDX), false, a_fault_comes);
}

static void
the_end(void **state)
{
	(void)state;
	at_each_moment(0, true, the_end_comes);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames),
		cmocka_unit_test(views),
		cmocka_unit_test(faults),
		cmocka_unit_test(no_suppression),
		cmocka_unit_test(the_end),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
