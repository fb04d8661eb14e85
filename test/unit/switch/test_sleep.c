/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * A worker that falls asleep all the time, a guest that posts just then, and views that change
 * under both. A lost wakeup is a state: the worker sleeps, something is there, no bell is rung.
 */

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <rte_pause.h>

#include "sleeper.h"

#define ROUNDS 5000
/* Fewer while views change: each change waits for the worker. */
#define ROUNDS_OF(changes) ((changes) ? ROUNDS / 5 : ROUNDS)
/* Looks at a ring that does not move before it is asked why, and how often. */
#define PATIENCE 1000
#define ASKED    200

static _Atomic(bool) done;

static void *
work(void *arg)
{
	struct worker *w = fix.worker;
	uint64_t random = 1;

	(void)arg;
	come_online();
	while (!atomic_load(&fix.sw.stop)) {
		if (take_turn() != 0) {
			w->sleeper.ticks =
				rnd_below(&random, 3) == 0 ? 0 : rnd_below(&random, 30000);
			continue;
		}
		sleep_if_idle(w);
		/* Whatever came of it: the control thread waits for us again. */
		assert_true(fix.sw.views.readers->qsbr_cnt[0].cnt != 0);
		assert_false(w->sleeper.armed);
	}
	rte_rcu_qsbr_thread_offline(fix.sw.views.readers, 0);
	return NULL;
}

static void *
control(void *arg)
{
	const struct timespec pause = {.tv_nsec = 300000};
	uint64_t random = 2;

	(void)arg;
	while (!atomic_load(&done)) {
		withdraw();
		if (rnd_below(&random, 4) == 0)
			nanosleep(&pause, NULL);
		publish(1 + rnd_below(&random, ALL));
		nanosleep(&pause, NULL);
	}
	withdraw();
	publish(ALL);
	return NULL;
}

/* Asleep under the published view, with a frame in a ring of it and no bell rung? */
static void
look_why(uint32_t i)
{
	const struct timespec pause = {.tv_nsec = 1000000};
	const struct sleeper *s = &fix.worker->sleeper;
	uint64_t sleeps = atomic_load(&s->sleeps);
	uint32_t asked;

	/* Whoever is on its way comes out of it. */
	for (asked = 0; asked < ASKED; asked++) {
		if (atomic_load(&s->wakes) >= sleeps || rings_a_bell(s->event) ||
			rings_a_bell(fix.kicks[i]))
			return;
		nanosleep(&pause, NULL);
	}
	fail_msg("ring %u waits for a worker that sleeps", i);
}

static void
wait_for(uint32_t i, bool changes)
{
	uint32_t looks = 0;

	while (!given_back(i)) {
		sched_yield();
		/* While views change, this ring may be in none for some time. */
		if (++looks % PATIENCE == 0 && !changes)
			look_why(i);
	}
}

static void
play_guest(bool changes)
{
	uint64_t random = 3;
	uint32_t round, i, spin;

	for (round = 0; round < ROUNDS_OF(changes); round++) {
		i = rnd_below(&random, RINGS);
		post(i);
		wait_for(i, changes);
		for (spin = rnd_below(&random, 300); spin != 0; spin--)
			rte_pause();
	}
}

static uint64_t
kicks_counted(uint32_t i)
{
	uint64_t sum[COUNTERS] = {0};

	stats_add_port(&fix.sw.stats, i, sum);
	return sum[COUNT_KICKS];
}

static void
expect_counters(bool changes)
{
	const struct sleeper *s = &fix.worker->sleeper;
	uint64_t sleeps = atomic_load(&s->sleeps);
	uint32_t i;

	print_message("%lu sleeps, %lu spurious wakes, %lu and %lu kicks\n", (unsigned long)sleeps,
		(unsigned long)atomic_load(&s->spurious_wakes), (unsigned long)fix.sent[0],
		(unsigned long)fix.sent[1]);
	assert_true(sleeps == atomic_load(&s->wakes));
	assert_true(sleeps > ROUNDS_OF(changes) / 100);
	if (!changes)
		assert_true(atomic_load(&fix.flushes) == sleeps);
	for (i = 0; i < RINGS; i++)
		assert_true(kicks_counted(i) == fix.sent[i]);
}

static void
play(uint64_t features, bool suppress, bool changes)
{
	pthread_t threads[2];
	uint32_t i;

	fixture_init(VQ_FEATURE(VERSION_1) | features, suppress);
	publish(ALL);
	atomic_store(&done, false);
	assert_int_equal(pthread_create(&threads[0], NULL, work, NULL), 0);
	if (changes)
		assert_int_equal(pthread_create(&threads[1], NULL, control, NULL), 0);
	play_guest(changes);
	atomic_store(&done, true);
	if (changes)
		assert_int_equal(pthread_join(threads[1], NULL), 0);
	/* What was kicked is taken before it sleeps again. */
	for (i = 0; i < RINGS; i++) {
		post(i);
		wait_for(i, false);
	}
	while (rings_a_bell(fix.kicks[0]) || rings_a_bell(fix.kicks[1]))
		sched_yield();
	atomic_store(&fix.sw.stop, true);
	sleep_wake_all(&fix.sw);
	assert_int_equal(pthread_join(threads[0], NULL), 0);
	expect_counters(changes);
	fixture_free();
}

static void
flags(void **state)
{
	(void)state;
	play(0, true, false);
}

static void
event_idx(void **state)
{
	(void)state;
	play(VQ_FEATURE(EVENT_IDX), true, false);
}

static void
flags_and_views_that_change(void **state)
{
	(void)state;
	play(0, true, true);
}

static void
event_idx_and_views_that_change(void **state)
{
	(void)state;
	play(VQ_FEATURE(EVENT_IDX), true, true);
}

static void
flags_and_no_suppression(void **state)
{
	(void)state;
	play(0, false, false);
}

static void
event_idx_and_no_suppression(void **state)
{
	(void)state;
	play(VQ_FEATURE(EVENT_IDX), false, false);
}

static void
no_suppression_and_views_that_change(void **state)
{
	(void)state;
	play(0, false, true);
	play(VQ_FEATURE(EVENT_IDX), false, true);
}

/*
 * A worker that is never idle: a frame is kicked for, or not; each kick is counted in the next
 * second. Rings that come anew are asked as well, a dead one is left alone.
 */
static void
stay_awake(uint64_t features, bool suppress)
{
	uint64_t kicks = 0;
	uint32_t round, i;

	fixture_init(VQ_FEATURE(VERSION_1) | features, suppress);
	come_online();
	for (round = 0; round < 100; round++) {
		if (round % 10 == 0) {
			rte_rcu_qsbr_thread_offline(fix.sw.views.readers, 0);
			withdraw();
			publish(ALL);
			rte_rcu_qsbr_thread_online(fix.sw.views.readers, 0);
			(void)take_turn();
		}
		i = round % RINGS;
		post(i);
		kicks += !suppress;
		assert_true(fix.sent[0] + fix.sent[1] == kicks);
		fix.worker->second += round % 2;
		assert_int_equal(take_turn(), 1);
		assert_true(given_back(i));
		if (round % 2 != 0)
			assert_true(kicks_counted(0) + kicks_counted(1) == kicks);
	}
	/* Alive, it would be asked again. */
	vq_device_disarm(fix.rings[0].vq);
	atomic_store(&fix.rings[0].dead, true);
	(void)take_turn();
	post(0);
	assert_true(fix.sent[0] + fix.sent[1] == kicks);
	assert_int_equal(take_turn(), 1);
	assert_true(given_back(0));
	rte_rcu_qsbr_thread_offline(fix.sw.views.readers, 0);
	fixture_free();
}

static void
kicks_while_awake(void **state)
{
	(void)state;
	stay_awake(0, false);
	stay_awake(VQ_FEATURE(EVENT_IDX), false);
	stay_awake(0, true);
	stay_awake(VQ_FEATURE(EVENT_IDX), true);
}

/* Whatever is given for a kick descriptor: nobody waits for it, nothing is made of its bytes. */
static void
kicks_of_any_kind(void **state)
{
	int blocking = eventfd(0, 0), counting = eventfd(5, EFD_NONBLOCK);
	int file = memfd_create("file", 0), set = epoll_create1(0), ends[2];

	(void)state;
	assert_int_equal(pipe(ends), 0);
	assert_int_equal(sleep_take_kicks(-1), 0);
	assert_int_equal(sleep_take_kicks(blocking), 0);
	assert_int_equal(sleep_take_kicks(ends[0]), 0);
	assert_int_equal(sleep_take_kicks(ends[1]), 0);
	assert_int_equal(sleep_take_kicks(file), 0);
	assert_int_equal(sleep_take_kicks(set), 0);
	assert_int_equal(sleep_take_kicks(counting), 5);
	assert_int_equal(sleep_take_kicks(counting), 0);

	assert_false(sleep_is_eventfd(-1));
	assert_false(sleep_is_eventfd(file));
	assert_false(sleep_is_eventfd(ends[0]));
	assert_false(sleep_is_eventfd(set));
	assert_true(sleep_is_eventfd(blocking));
	close(set);
	close(blocking);
	close(counting);
	close(file);
	close(ends[0]);
	close(ends[1]);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kicks_of_any_kind),
		cmocka_unit_test(flags),
		cmocka_unit_test(event_idx),
		cmocka_unit_test(flags_and_no_suppression),
		cmocka_unit_test(event_idx_and_no_suppression),
		cmocka_unit_test(flags_and_views_that_change),
		cmocka_unit_test(event_idx_and_views_that_change),
		cmocka_unit_test(no_suppression_and_views_that_change),
		cmocka_unit_test(kicks_while_awake),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
