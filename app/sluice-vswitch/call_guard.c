/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "call_guard.h"
#include "vswitch.h"
#include "worker.h"

/* How long the control thread waits in a write; then again, should the signal have come before. */
#define WRITE_NS 1000000

/* Linux has it, not every C library names it. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

static timer_t timer;
static bool have_timer;

static void
on_signal(int number)
{
	RTE_SET_USED(number);
}

static void
look(void *priv)
{
	call_guard_look(priv);
}

int
call_guard_init(struct vswitch *sw)
{
	/* Without SA_RESTART: the write ends with EINTR. */
	const struct sigaction action = {.sa_handler = on_signal};
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_signo = CALL_GUARD_SIGNAL,
	};

	event.sigev_notify_thread_id = gettid();
	if (sigaction(CALL_GUARD_SIGNAL, &action, NULL) < 0 ||
		timer_create(CLOCK_MONOTONIC, &event, &timer) < 0)
		return -errno;
	have_timer = true;
	sw->views.waiting = look;
	sw->views.waiting_priv = sw;
	return 0;
}

void
call_guard_end(struct vswitch *sw)
{
	sw->views.waiting = NULL;
	if (have_timer)
		timer_delete(timer);
	have_timer = false;
}

int
call_guarded(int fd)
{
	const struct itimerspec often = {{.tv_nsec = WRITE_NS}, {.tv_nsec = WRITE_NS}};
	const struct itimerspec never = {0};
	const uint64_t one = 1;
	int ret = 0;

	if (fd < 0)
		return -EBADF;
	if (timer_settime(timer, 0, &often, NULL) < 0)
		return -errno;
	if (write(fd, &one, sizeof(one)) < 0)
		ret = -errno;
	timer_settime(timer, 0, &never, NULL);
	return ret;
}

void
call_guard_look(const struct vswitch *sw)
{
	uint32_t i;

	for (i = 0; i < sw->nworkers; i++) {
		struct worker *w = sw->workers[i];
		uint64_t turn = atomic_load_explicit(&w->turns, memory_order_relaxed);

		/* One that only waits for its CPU loses nothing by it. */
		if (turn == w->turn_seen && atomic_load_explicit(&w->calling, memory_order_relaxed))
			pthread_kill(w->thread, CALL_GUARD_SIGNAL);
		w->turn_seen = turn;
	}
}
