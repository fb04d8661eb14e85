/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Receive interrupts that the driver moderates itself, where no device can: a sleep that a timer
 * ends, or the number of frames, and never one that somebody has to hope for.
 */

#include <string.h>
#include <sys/timerfd.h>
#include <time.h>

#include "sluice.h"

#include "sleeper.h"

#define TIMEOUT_MS 5000
/* A setting that no test lives to see the end of: see setup_long(). */
#define LONG    "coalesce=static,coalesce_frames=4,coalesce_usecs=100000"
#define LONG_US 1000000000
/* One that a test waits for in earnest. */
#define SHORT    "coalesce=static,coalesce_frames=4,coalesce_usecs=20000"
#define SHORT_US 20000

static const struct rig_config port_off = {.interrupts = true};
static const struct rig_config port_flags = {.args = LONG, .interrupts = true};
static const struct rig_config port_event_idx = {.args = LONG ",event_idx=1", .interrupts = true};
static const struct rig_config port_short = {.args = SHORT, .interrupts = true};
static const struct rig_config port_short_event_idx = {
	.args = SHORT ",event_idx=1", .interrupts = true};
static const struct rig_config port_adaptive = {
	.args = "coalesce=adaptive,event_idx=1", .interrupts = true};
static const struct rig_config port_polled = {.args = LONG};
static const struct rig_config port_pairs = {
	.args = LONG ",queues=2", .rxq = 2, .txq = 2, .interrupts = true};

static struct sluice_rxq *
rxq(uint16_t queue)
{
	return rte_eth_devices[r.port].data->rx_queues[queue];
}

static uint64_t
now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000000000 + (uint64_t)ts.tv_nsec;
}

static int
setup_long(void **state)
{
	struct sluice_dev *dev;

	(void)setup(state);
	dev = rte_eth_devices[r.port].data->dev_private;
	if (dev->args.coalesce == SLUICE_COALESCE_STATIC)
		dev->args.coalesce_static.usecs = LONG_US;
	return 0;
}

/* Does the timer run? */
static bool
ticks(uint16_t queue)
{
	struct itimerspec left;

	assert_int_equal(timerfd_gettime(rxq(queue)->coalesce.timer, &left), 0);
	return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
}

/* To sleep, `us` after the last time that there was something. */
static void
arm_after(uint16_t queue, uint64_t us)
{
	rxq(queue)->coalesce.event_ns = now_ns() - us * 1000;
	arm(queue);
}

/* The time of the timer is over. */
static void
let_it_end(uint16_t queue)
{
	const struct itimerspec at = {.it_value.tv_nsec = 1};
	struct sluice_coalesce *c = &rxq(queue)->coalesce;

	assert_true(ticks(queue));
	c->until_ns = now_ns();
	assert_int_equal(timerfd_settime(c->timer, 0, &at, NULL), 0);
	assert_int_equal(woken(TIMEOUT_MS), queue + 1);
}

/* Woken by a frame, taken, and to sleep again, with such frames so far apart. */
static void
hold_at(uint64_t us)
{
	const uint64_t before = rig_xstat(&r, "rx_q0_intr_held");

	(void)send_one();
	disarm(0);
	assert_int_equal(receive(0), 1);
	(void)woken(0);
	arm_after(0, us);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_held"), before + 1);
}

/* A second, which without EVENT_IDX makes four of it for the four frames. */
static void
hold(void)
{
	hold_at(1000000);
	assert_true(ticks(0));
}

/* Armed for the next frame, which comes, wakes and is taken. */
static void
assert_asked_for_the_next(void)
{
	assert_false(ticks(0));
	assert_int_equal(woken(0), 0);
	assert_true(send_one());
	assert_int_equal(woken(0), 1);
	disarm(0);
	assert_int_equal(receive(0), 1);
}

/* The descriptor that the application sleeps on is the eventfd of the ring, and nothing is held. */
static void
test_off(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_dev_rx_intr_ctl_q_get_fd(r.port, 0), rxq(0)->ring.call);
	assert_int_equal(rxq(0)->coalesce.timer, -1);
	settle();
	arm_after(0, 1);
	assert_int_equal(woken(0), 0);
	assert_true(send_one());
	assert_int_equal(woken(0), 1);
	assert_int_equal(receive(0), 1);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_held"), 0);
	arm(0);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_events"), 2);
	arm(0);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_events"), 2);
}

/* Without receive interrupts there is nothing to moderate. */
static void
test_polled(void **state)
{
	(void)state;
	assert_int_equal(rxq(0)->coalesce.timer, -1);
	assert_false(send_one());
	assert_int_equal(receive(0), 1);
}

/* The first frame of an idle link wakes at once, however often it is the first. */
static void
test_after_a_pause(void **state)
{
	int i;

	(void)state;
	settle();
	for (i = 0; i < 2 * RIG_RING; i++) {
		/* A little longer than the setting. */
		arm_after(0, SHORT_US + 1);
		assert_asked_for_the_next();
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_held"), 0);
}

/* The timer ends the sleep: with frames, and then without, whereupon the device is asked again. */
static void
test_ended_by_the_timer(void **state)
{
	int i;

	(void)state;
	settle();
	for (i = 0; i < 10; i++) {
		hold_at(100);
		assert_false(send_one());
		assert_int_equal(woken(TIMEOUT_MS), 1);
		disarm(0);
		assert_int_equal(receive(0), 1);
		arm_after(0, 100);
		assert_int_equal(woken(TIMEOUT_MS), 1);
		assert_int_equal(receive(0), 0);
		arm(0);
		assert_asked_for_the_next();
		assert_int_equal(woken(0), 0);
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_held"), 2 * i);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), 0);
}

/* Frames that came before the application slept wait for the timer too, and no longer. */
static void
test_frames_that_came_before(void **state)
{
	(void)state;
	settle();
	(void)send_one();
	assert_int_equal(receive(0), 1);
	(void)send_one();
	(void)woken(0);
	arm_after(0, 1000000);
	assert_int_equal(woken(0), 0);
	let_it_end(0);
	assert_int_equal(receive(0), 1);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), 0);
}

/* As many as the setting says: at once. */
static void
test_enough_frames_came_before(void **state)
{
	int i;

	(void)state;
	settle();
	(void)send_one();
	assert_int_equal(receive(0), 1);
	for (i = 0; i < 4; i++)
		(void)send_one();
	(void)woken(0);
	arm_after(0, 1000000);
	assert_int_equal(woken(0), 1);
	assert_false(ticks(0));
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), 1);
	assert_int_equal(receive(0), 4);
	/* Nothing is left of it. */
	arm_after(0, 1000000);
	assert_int_equal(woken(0), 0);
}

/* With EVENT_IDX the device counts them. */
static void
test_ended_by_the_number(void **state)
{
	int i;

	(void)state;
	settle();
	for (i = 0; i < 3 * RIG_RING; i++) {
		hold();
		assert_false(send_one());
		assert_false(send_one());
		assert_false(send_one());
		assert_true(send_one());
		assert_int_equal(woken(0), 1);
		disarm(0);
		assert_false(ticks(0));
		assert_int_equal(receive(0), 4);
		assert_int_equal(woken(0), 0);
	}
}

/* Without it, the time is cut to what so many take at the rate at which they come. */
static void
test_ended_by_the_rate(void **state)
{
	struct itimerspec left;

	(void)state;
	settle();
	hold();
	/* Two a second, four. */
	assert_int_equal(timerfd_gettime(rxq(0)->coalesce.timer, &left), 0);
	assert_in_range(left.it_value.tv_sec, 0, 4);
	let_it_end(0);
}

/* Never longer than half of the buffers last: the ring must not run dry in its sleep. */
static void
test_few_buffers(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1], *got[RIG_RING];
	uint32_t i, n = 0;

	(void)state;
	settle();
	while ((held[n] = rte_pktmbuf_alloc(r.pool)) != NULL)
		n++;
	for (i = 0; i < RIG_RING - 4; i++) {
		(void)send_one();
		assert_int_equal(rte_eth_rx_burst(r.port, 0, &got[i], 1), 1);
	}
	(void)woken(0);
	/* Three are left. */
	arm_after(0, 1000000);
	assert_false(ticks(0));
	assert_true(send_one());
	assert_int_equal(woken(0), 1);
	assert_int_equal(receive(0), 1);
	rte_pktmbuf_free_bulk(held, n);
	rte_pktmbuf_free_bulk(got, RIG_RING - 4);
	arm_after(0, 1000000);
	assert_true(ticks(0));
}

/* Who asks for no more interrupts gets none from the timer either. */
static void
test_disarmed(void **state)
{
	(void)state;
	settle();
	hold();
	disarm(0);
	assert_false(ticks(0));
	disarm(0);
	/* The rest of the time, since nothing has come. */
	arm(0);
	assert_true(ticks(0));
	disarm(0);
	assert_false(ticks(0));
	assert_int_equal(woken(0), 0);
	assert_false(send_one());
	assert_int_equal(receive(0), 1);
}

static void
test_each_queue_for_itself(void **state)
{
	(void)state;
	settle();
	arm(1);
	hold();
	assert_false(ticks(1));
	/* The application was woken by the other one, and arms both again. */
	disarm(0);
	disarm(1);
	arm(0);
	arm(1);
	assert_true(ticks(0));
	assert_false(ticks(1));
	assert_false(send_one());
	let_it_end(0);
	assert_int_equal(receive(0), 1);
	assert_int_equal(receive(1), 0);
}

/* A backend that goes and comes back within such a sleep. */
static void
test_backend_that_goes(void **state)
{
	int i;

	(void)state;
	settle();
	for (i = 0; i < 5; i++) {
		hold();
		host_thread_stop(&r.h);
		vu_backend_disconnect(r.h.b, "test");
		rig_wait_link(&r, false);
		if (i % 2 != 0) {
			arm(0);
			assert_false(ticks(0));
		}
		host_thread_start(&r.h);
		rig_wait_link(&r, true);
		assert_int_equal(woken(TIMEOUT_MS), 1);
		assert_true(send_one());
		assert_int_equal(woken(0), 1);
		assert_int_equal(receive(0), 1);
	}
}

/* A million of them in the last millisecond. */
static void
come_fast(void)
{
	rxq(0)->coalesce.packets -= 1000000;
	rxq(0)->coalesce.event_ns = now_ns() - 1000000;
}

/* The policy's profile is what the timer is set by. */
static void
test_adaptive(void **state)
{
	(void)state;
	settle();
	arm(0);
	disarm(0);
	(void)send_one();
	assert_int_equal(receive(0), 1);
	(void)woken(0);
	/* None: the device is asked, fast as they may come. */
	come_fast();
	arm(0);
	assert_false(ticks(0));
	assert_true(send_one());
	assert_int_equal(receive(0), 1);
	assert_int_equal(rig_xstat(&r, "rx_q0_coalesce_profile"), 0);
	rxq(0)->coalesce.adapt.profile = VQ_ADAPT_PROFILES - 1;
	come_fast();
	arm(0);
	assert_int_equal(rig_xstat(&r, "rx_q0_coalesce_profile"), VQ_ADAPT_PROFILES - 1);
	assert_int_equal(rig_xstat(&r, "rx_q0_coalesce_changes"), 1);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_held"), 1);
	(void)send_one();
	assert_int_equal(woken(TIMEOUT_MS), 1);
	assert_int_equal(receive(0), 1);
	/* A pause takes it back. */
	rxq(0)->coalesce.adapt.seen -= VQ_ADAPT_IDLE_MS * UINT64_C(1000000);
	come_fast();
	arm(0);
	assert_int_equal(rig_xstat(&r, "rx_q0_coalesce_profile"), 0);
	assert_int_equal(rig_xstat(&r, "rx_q0_coalesce_changes"), 2);
	assert_false(ticks(0));
}

/* Ports come and go in the middle of it, configured with and without. */
static void
test_nothing_is_left(void **state)
{
	struct rig_config without = port_pairs;
	struct epoll_event event;
	uint32_t i, fds = 0;

	(void)state;
	without.interrupts = false;
	for (i = 0; i < 10; i++) {
		rig_up(&r, &port_pairs);
		epfd = epoll_create1(EPOLL_CLOEXEC);
		watch(0);
		watch(1);
		settle();
		hold_at(100);
		if (i % 2 != 0) {
			assert_int_equal(rte_eth_dev_stop(r.port), 0);
			assert_int_equal(rig_configure(&r, &without), 0);
			assert_int_equal(rte_eth_dev_start(r.port), 0);
			rig_wait_link(&r, true);
			assert_int_equal(rxq(0)->coalesce.timer, -1);
			assert_int_equal(rte_eth_dev_stop(r.port), 0);
			assert_int_equal(rig_configure(&r, &port_pairs), 0);
			assert_int_equal(rte_eth_dev_start(r.port), 0);
			rig_wait_link(&r, true);
			watch(0);
			hold_at(100);
		}
		rig_down(&r);
		assert_int_equal(epoll_wait(epfd, &event, 1, 0), 0);
		close(epfd);
		if (i == 1)
			fds = count_fds();
	}
	assert_int_equal(count_fds(), fds);
}

int
main(void)
{
#define MODERATED_TEST(how, test)                                                                  \
	cmocka_unit_test_prestate_setup_teardown(test,                                             \
		(how).args != NULL && strstr((how).args, SHORT) != NULL ? setup : setup_long,      \
		teardown, &((struct rig_case){.r = &r, .config = (how)}))
	const struct CMUnitTest tests[] = {
		MODERATED_TEST(port_off, test_off),
		MODERATED_TEST(port_polled, test_polled),
		MODERATED_TEST(port_short, test_after_a_pause),
		MODERATED_TEST(port_short_event_idx, test_after_a_pause),
		MODERATED_TEST(port_short, test_ended_by_the_timer),
		MODERATED_TEST(port_short_event_idx, test_ended_by_the_timer),
		MODERATED_TEST(port_flags, test_frames_that_came_before),
		MODERATED_TEST(port_event_idx, test_frames_that_came_before),
		MODERATED_TEST(port_flags, test_enough_frames_came_before),
		MODERATED_TEST(port_event_idx, test_enough_frames_came_before),
		MODERATED_TEST(port_event_idx, test_ended_by_the_number),
		MODERATED_TEST(port_flags, test_ended_by_the_rate),
		MODERATED_TEST(port_flags, test_few_buffers),
		MODERATED_TEST(port_event_idx, test_few_buffers),
		MODERATED_TEST(port_event_idx, test_disarmed),
		MODERATED_TEST(port_pairs, test_each_queue_for_itself),
		MODERATED_TEST(port_event_idx, test_backend_that_goes),
		MODERATED_TEST(port_adaptive, test_adaptive),
		cmocka_unit_test(test_nothing_is_left),
	};

	return rig_main(tests, COUNT_OF(tests));
}
