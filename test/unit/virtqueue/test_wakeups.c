/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * No wakeup is lost: two threads pass chains back and forth and go to sleep as often as they can,
 * just when the other one may be publishing. Either sleeps on a bell which only the other one
 * rings, and only if the library says so. Both asleep with no bell rung is a wakeup that was lost:
 * that is seen as such, at once, not by a time. A second kind of bell is an eventfd, whose sleeper
 * gives up after a time that only a lost wakeup takes.
 */

#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "covering.h"
#include "pair.h"
#include "yields.h"

#ifndef WAKEUP_CHAINS
#define WAKEUP_CHAINS 20000u
#endif
/* On a machine that has other things to do a row is shorter. */
#define ROW_SECONDS   1
#define CHAINS_LEAST  200u
#define LOST_SECONDS  20
#define EVENTFD_SHARE 10u
#define BURST         16u
#define BUFFER        64u
#define BUFFERS       512u

enum factor {
	F_SIZE,
	F_WINDOW,
	F_BASE,
	F_EVENT_IDX,
	F_IN_ORDER,
	F_WRITE,
	F_HELD,
	F_SPIN,
	F_EVENTFD,
	FACTORS,
};

static const uint32_t sizes[] = {1, 2, 8, 64, 512};
/* Chains on their way at most: strictly back and forth, or more of them. */
static const uint32_t windows[] = {1, 3, BUFFERS};
static const uint16_t bases[] = {0, 65000};
static const uint32_t held_counts[] = {0, 5};
/* Looks at the ring before sleep, at most. */
static const uint32_t spins[] = {3, 20, 100};

static const uint32_t levels[FACTORS] = {
	[F_SIZE] = COUNT_OF(sizes),
	[F_WINDOW] = COUNT_OF(windows),
	[F_BASE] = COUNT_OF(bases),
	[F_EVENT_IDX] = 2,
	[F_IN_ORDER] = 2,
	[F_WRITE] = 2,
	[F_HELD] = COUNT_OF(held_counts),
	[F_SPIN] = COUNT_OF(spins),
	[F_EVENTFD] = 2,
};

struct bell {
	atomic_bool rung;
	_Atomic(uint32_t) turns; /* odd: its owner is asleep */
	int fd;                  /* -1: none */
};

struct world {
	struct guest guest;
	struct pair pair;
	struct bell kick, call; /* of the device, of the driver */
	uint32_t window, spins, chains;
	bool write;
	atomic_bool done;
	_Atomic(int) failed_line;
	atomic_bool lost;
	/* Of the driver's thread. */
	struct timespec until;
	uint64_t driver_random;
	uint32_t added, back;
	/* Of the device's thread. */
	uint64_t device_random;
	uint32_t seen;
	uint64_t sleeps[2];
};

/* Nobody asserts in a thread: the line of what fails is noted, and both give up. */
#define check(w, ok) check_line(w, ok, __LINE__)

static void
check_line(struct world *w, bool ok, int line)
{
	int none = 0;

	if (!ok)
		atomic_compare_exchange_strong(&w->failed_line, &none, line);
}

static void
ring_bell(struct bell *b)
{
	uint64_t one = 1;

	if (b->fd < 0)
		atomic_store(&b->rung, true);
	else if (write(b->fd, &one, sizeof(one)) != sizeof(one))
		abort();
}

/* Both asleep and nobody rung: as long as `other` sleeps it rings nobody, nor do we. */
static bool
is_lost(const struct bell *own, const struct bell *other)
{
	uint32_t turn = atomic_load(&other->turns);

	return turn % 2 == 1 && !atomic_load(&own->rung) && !atomic_load(&other->rung) &&
	       atomic_load(&other->turns) == turn;
}

/* Sleep until the own bell is rung. */
static void
sleep_on(struct world *w, struct bell *own, const struct bell *other)
{
	if (own->fd >= 0) {
		struct pollfd p = {.fd = own->fd, .events = POLLIN};
		uint64_t count;

		if (poll(&p, 1, LOST_SECONDS * 1000) != 1)
			atomic_store(&w->lost, true);
		else if (read(own->fd, &count, sizeof(count)) != sizeof(count))
			abort();
		return;
	}
	atomic_fetch_add(&own->turns, 1);
	for (uint32_t i = 1; !atomic_load(&own->rung) && !atomic_load(&w->lost); i++) {
		if (i % 64 == 0)
			sched_yield();
		if (is_lost(own, other))
			atomic_store(&w->lost, true);
	}
	/* Awake first, then take the bell: is_lost() relies on it. */
	atomic_fetch_add(&own->turns, 1);
	atomic_store(&own->rung, false);
}

static bool
over(const struct world *w)
{
	return atomic_load(&w->lost) || atomic_load(&w->failed_line) != 0;
}

static uint64_t
buffer_at(uint32_t number)
{
	return GUEST_BASE + (number % BUFFERS) * BUFFER;
}

/* Add what the window takes; how much at a time is left to chance. */
static bool
driver_add(struct world *w)
{
	struct vq_driver *q = &w->pair.driver;
	uint32_t n = 1 + rnd_below(&w->driver_random, BURST);
	uint32_t before = w->added;

	while (n-- != 0 && w->added < w->chains && w->added - w->back < w->window &&
		vq_driver_free(q) != 0) {
		uint8_t *p = guest_at(&w->guest, buffer_at(w->added));

		if (!w->write)
			memcpy(p, &w->added, 4);
		vq_driver_add(q, buffer_at(w->added), BUFFER, w->write ? VQ_DESC_WRITE : 0,
			(void *)(uintptr_t)(w->added + 1));
		w->added++;
	}
	vq_driver_publish(q);
	if (vq_driver_need_notify(q))
		ring_bell(&w->kick);
	return w->added != before;
}

static bool
driver_reap(struct world *w)
{
	uint32_t lens[BURST], n;
	void *c[BURST];

	n = vq_driver_reap(&w->pair.driver, c, w->write ? lens : NULL, BURST);
	for (uint32_t i = 0; i < n; i++, w->back++) {
		uint32_t number;

		check(w, (uintptr_t)c[i] == (uintptr_t)w->back + 1);
		if (!w->write)
			continue;
		memcpy(&number, guest_at(&w->guest, buffer_at(w->back)), 4);
		check(w, lens[i] == 4 && number == w->back);
	}
	check(w, w->pair.driver.fault == VQ_DRIVER_OK);
	return n != 0;
}

/* A row ends early where the machine has no time. */
static void
watch_the_clock(struct world *w)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	if (now.tv_sec > w->until.tv_sec && w->added >= CHAINS_LEAST && w->added < w->chains)
		w->chains = w->added;
}

static void *
driver_thread(void *arg)
{
	struct world *w = arg;
	uint32_t spin = 0;

	for (uint32_t turn = 0; w->back < w->chains && !over(w); turn++) {
		bool busy = driver_add(w);

		busy |= driver_reap(w);
		if (turn % 64 == 0)
			watch_the_clock(w);
		if (busy || spin != 0) {
			spin = busy ? rnd_below(&w->driver_random, w->spins + 1) : spin - 1;
			continue;
		}
		if (!vq_driver_arm(&w->pair.driver) && w->back < w->chains) {
			w->sleeps[0]++;
			sleep_on(w, &w->call, &w->kick);
		}
		vq_driver_disarm(&w->pair.driver);
	}
	atomic_store(&w->done, true);
	ring_bell(&w->kick);
	return NULL;
}

static void
call(struct world *w, enum vq_call decision)
{
	if (decision == VQ_CALL_MAKE)
		ring_bell(&w->call);
}

static bool
device_turn(struct world *w, uint64_t now)
{
	struct vq_device *q = &w->pair.device;
	struct vq_chain c[BURST];
	struct vq_seg segs[BURST];
	uint32_t n = vq_device_peek(q, w->write, c, BURST, segs, BURST, 0);

	for (uint32_t i = 0; i < n; i++, w->seen++) {
		uint32_t number = w->seen;

		check(w, c[i].fault == VQ_DEVICE_OK && c[i].len == BUFFER);
		if (w->write)
			memcpy(segs[c[i].seg].base, &w->seen, 4);
		else
			memcpy(&number, segs[c[i].seg].base, 4);
		check(w, number == w->seen);
		if (w->write)
			vq_device_complete(q, c[i].head, 4);
	}
	if (!w->write)
		vq_device_complete_tx(q, c, n);
	call(w, vq_device_call(q, vq_device_publish(q), now));
	check(w, q->fault == VQ_DEVICE_OK);
	return n != 0;
}

static void
device_loop(struct world *w)
{
	uint32_t spin = 0;

	for (uint64_t turn = 0; !atomic_load(&w->done) && !over(w); turn++) {
		bool busy = device_turn(w, turn);

		if (busy || spin != 0) {
			spin = busy ? rnd_below(&w->device_random, w->spins + 1) : spin - 1;
			continue;
		}
		call(w, vq_device_call_flush(&w->pair.device));
		if (!vq_device_arm(&w->pair.device) && !atomic_load(&w->done)) {
			w->sleeps[1]++;
			sleep_on(w, &w->kick, &w->call);
		}
		vq_device_disarm(&w->pair.device);
	}
}

static void
bell_init(struct bell *b, bool fd)
{
	b->fd = fd ? eventfd(0, EFD_CLOEXEC) : -1;
	assert_true(!fd || b->fd >= 0);
}

static void
world_init(struct world *w, const uint8_t *level)
{
	struct vq_coalesce_params params = {.frames = held_counts[level[F_HELD]], .ticks = 20};
	struct pair_config config = {.size = sizes[level[F_SIZE]],
		.base = bases[level[F_BASE]],
		.features = VQ_FEATURE(VERSION_1) |
			    (level[F_EVENT_IDX] ? VQ_FEATURE(EVENT_IDX) : 0) |
			    (level[F_IN_ORDER] ? VQ_FEATURE(IN_ORDER) : 0)};

	memset(w, 0, sizeof(*w));
	guest_init(&w->guest, 1, BUFFERS * BUFFER, 0);
	pair_init(&w->pair, &w->guest, &config);
	vq_coalesce_set(&w->pair.device.coalesce, &params);
	bell_init(&w->kick, level[F_EVENTFD]);
	bell_init(&w->call, level[F_EVENTFD]);
	w->window = windows[level[F_WINDOW]];
	w->spins = spins[level[F_SPIN]];
	w->write = level[F_WRITE];
	w->chains = level[F_EVENTFD] ? WAKEUP_CHAINS / EVENTFD_SHARE : WAKEUP_CHAINS;
	w->driver_random = 11;
	w->device_random = 22;
	clock_gettime(CLOCK_MONOTONIC, &w->until);
	w->until.tv_sec += ROW_SECONDS;
	pair_say("size %u base %u features 0x%lx %s, %u on their way, %u held, %u spins, %s",
		config.size, config.base, (unsigned long)config.features,
		w->write ? "receive" : "transmit", w->window, params.frames, w->spins,
		level[F_EVENTFD] ? "eventfd" : "bell");
}

static void
world_free(struct world *w)
{
	if (w->kick.fd >= 0)
		close(w->kick.fd);
	if (w->call.fd >= 0)
		close(w->call.fd);
	pair_free(&w->pair);
	guest_free(&w->guest);
}

static void
run(struct world *w)
{
	pthread_t thread;

	yields_on(true);
	assert_int_equal(pthread_create(&thread, NULL, driver_thread, w), 0);
	device_loop(w);
	ring_bell(&w->call);
	assert_int_equal(pthread_join(thread, NULL), 0);
	yields_on(false);

	if (atomic_load(&w->lost))
		fail_msg("a wakeup was lost: %u added, %u seen, %u back", w->added, w->seen,
			w->back);
	if (atomic_load(&w->failed_line) != 0)
		fail_msg("failed at line %d", atomic_load(&w->failed_line));
	assert_int_equal(w->back, w->chains);
	assert_int_equal(w->seen, w->chains);
	pair_expect_level(&w->pair);
}

static uint64_t chains, sleeps[2];

static void
run_row(const uint8_t *level)
{
	static struct world w;

	world_init(&w, level);
	run(&w);
	chains += w.chains;
	sleeps[0] += w.sleeps[0];
	sleeps[1] += w.sleeps[1];
	world_free(&w);
	pair_say_nothing();
}

static void
expect_sleeps(void)
{
	print_message("%lu chains; the driver slept %lu times, the device %lu\n",
		(unsigned long)chains, (unsigned long)sleeps[0], (unsigned long)sleeps[1]);
	assert_true(sleeps[0] != 0 && sleeps[1] != 0);
	chains = sleeps[0] = sleeps[1] = 0;
}

static void
every_pair_of_settings(void **state)
{
	static struct covering rows;

	(void)state;
	covering_make(&rows, levels, FACTORS);
	for (uint32_t i = 0; i < rows.rows; i++)
		run_row(rows.level[i]);
	expect_sleeps();
}

/* One chain back and forth: either end arms about when the other one answers. */
static void
back_and_forth(void **state)
{
	(void)state;
	for (uint8_t i = 0; i < 8 * COUNT_OF(spins); i++) {
		const uint8_t level[FACTORS] = {
			[F_SIZE] = i / 4 % 2 * 3,
			[F_EVENT_IDX] = i % 2,
			[F_WRITE] = i / 2 % 2,
			[F_SPIN] = i / 8,
		};

		run_row(level);
	}
	expect_sleeps();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(every_pair_of_settings, pair_said),
		cmocka_unit_test_teardown(back_and_forth, pair_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
