/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Receive interrupts: an application that sleeps is woken for every frame, and for want of buffers;
 * one that does not want to be called is not.
 */

#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <rte_pause.h>

#include "sleeper.h"

static const struct rig_config port_flags = {.interrupts = true};
static const struct rig_config port_event_idx = {.args = "event_idx=1", .interrupts = true};
static const struct rig_config port_small_budget = {.args = "refill_budget=8", .interrupts = true};
static const struct rig_config port_plain = {.args = "mrg_rxbuf=0", .interrupts = true};
static const struct rig_config port_jumbo = {.scatter = true, .mtu = 9000, .interrupts = true};
/* Moderated: every sleep may end by a timer, too. */
static const struct rig_config port_moderated = {
	.args = "coalesce=static,coalesce_frames=4,coalesce_usecs=60", .interrupts = true};
static const struct rig_config port_moderated_event_idx = {
	.args = "coalesce=static,coalesce_frames=4,coalesce_usecs=60,event_idx=1",
	.interrupts = true};
static const struct rig_config port_adaptive = {.args = "coalesce=adaptive", .interrupts = true};
static const struct rig_config port_pairs = {
	.args = "queues=2", .rxq = 2, .txq = 2, .interrupts = true};

static void
test_woken_by_a_frame(void **state)
{
	int i;

	(void)state;
	settle();
	for (i = 0; i < 3 * RIG_RING; i++) {
		arm(0);
		assert_int_equal(woken(0), 0);
		assert_true(send_one());
		assert_int_equal(woken(0), 1);
		disarm(0);
		assert_int_equal(receive(0), 1);
		assert_int_equal(woken(0), 0);
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_armed"), i);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), 0);
}

/* It came after the last look of the application and before the ring was armed. */
static void
test_frame_that_came_before(void **state)
{
	int i;

	(void)state;
	settle();
	for (i = 0; i < 3 * RIG_RING; i++) {
		assert_false(send_one());
		arm(0);
		assert_int_equal(woken(0), 1);
		disarm(0);
		assert_int_equal(receive(0), 1);
		assert_int_equal(woken(0), 0);
	}
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_armed"), i);
	assert_int_equal(rig_xstat(&r, "rx_q0_intr_at_once"), i);
}

static void
test_not_called_while_it_polls(void **state)
{
	int i;

	(void)state;
	settle();
	for (i = 0; i < 3 * RIG_RING; i++) {
		assert_false(send_one());
		assert_int_equal(receive(0), 1);
	}
	arm(0);
	disarm(0);
	disarm(0);
	assert_false(send_one());
	assert_int_equal(receive(0), 1);
	assert_int_equal(woken(0), 0);
}

static void
test_each_queue_for_itself(void **state)
{
	struct vq_chain chain;
	struct vq_device *q;
	struct vq_seg seg;

	(void)state;
	arm(0);
	arm(1);
	assert_int_equal(woken(0), 0);
	assert_true(send_one());
	assert_int_equal(woken(0), 1);
	q = rig_ring(&r, 2);
	assert_int_equal(vq_device_peek(q, true, &chain, 1, &seg, 1, 0), 1);
	memset(seg.base, 0, 12);
	((struct vq_net_hdr *)(void *)seg.base)->num_buffers = 1;
	vq_device_complete(q, chain.head, 12 + 60);
	vq_device_publish(q);
	assert_true(rig_call(&r, 2));
	assert_int_equal(woken(0), 2);
	assert_int_equal(receive(1), 1);
	arm(0);
	arm(1);
	assert_int_equal(woken(0), 1);
	assert_int_equal(receive(0), 1);
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, 2), -EINVAL);
	assert_int_equal(rte_eth_dev_rx_intr_disable(r.port, 2), -EINVAL);
}

static void
test_by_its_descriptor(void **state)
{
	struct pollfd p = {.events = POLLIN};
	uint64_t count;

	(void)state;
	assert_int_equal(rte_eth_dev_rx_intr_ctl_q(r.port, 0, epfd, RTE_INTR_EVENT_DEL, NULL), 0);
	p.fd = rte_eth_dev_rx_intr_ctl_q_get_fd(r.port, 0);
	assert_true(p.fd >= 0);
	arm(0);
	assert_int_equal(poll(&p, 1, 0), 0);
	assert_true(send_one());
	assert_int_equal(poll(&p, 1, 0), 1);
	assert_int_equal(read(p.fd, &count, sizeof(count)), sizeof(count));
	assert_int_equal(woken(0), 0);
	assert_int_equal(receive(0), 1);
}

/* Take all mbufs there are. */
static uint32_t
dry_pool(struct rte_mbuf **held)
{
	uint32_t n;

	for (n = 0; (held[n] = rte_pktmbuf_alloc(r.pool)) != NULL; n++)
		;
	return n;
}

/* Nobody posts buffers while the application sleeps: it must not, without any in the ring. */
static void
test_a_ring_without_buffers(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1], *got[RIG_RING];
	uint32_t i, n;

	(void)state;
	settle(); /* and one slot of the ring is empty */
	n = dry_pool(held);
	for (i = 0; i < RIG_RING - 1; i++) {
		arm(0);
		assert_int_equal(woken(0), 0);
		assert_true(send_one());
		assert_int_equal(woken(0), 1);
		assert_int_equal(rte_eth_rx_burst(r.port, 0, &got[i], 1), 1);
	}
	for (i = 0; i < 3; i++) {
		arm(0);
		assert_int_equal(woken(0), 1);
		disarm(0);
		assert_int_equal(receive(0), 0);
	}
	/* They come back, and the call that arms the ring posts them, all at once. */
	rte_pktmbuf_free_bulk(held, n);
	rte_pktmbuf_free_bulk(got, RIG_RING - 1);
	arm(0);
	assert_int_equal(woken(0), 0);
	assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
	assert_true(send_one());
	assert_int_equal(woken(0), 1);
	assert_int_equal(receive(0), 1);
}

/* One frame of 9018 bytes takes five buffers: with four, the device would drop it and not call. */
static void
test_too_few_buffers_for_a_frame(void **state)
{
	struct rte_mbuf *held[RIG_POOL + 1], *got[RIG_RING];
	uint32_t i, n;

	(void)state;
	settle();
	n = dry_pool(held);
	for (i = 0; i < RIG_RING - 5; i++) {
		arm(0);
		assert_int_equal(woken(0), 0);
		assert_true(send_one());
		assert_int_equal(woken(0), 1);
		assert_int_equal(rte_eth_rx_burst(r.port, 0, &got[i], 1), 1);
	}
	arm(0);
	assert_int_equal(woken(0), 1);
	rte_pktmbuf_free(held[--n]);
	arm(0);
	assert_int_equal(woken(0), 0);
	rig_pattern(frame, sizeof(frame), 9);
	assert_int_equal(rig_send(&r, frame, sizeof(frame), -1), 5);
	assert_true(rig_call(&r, 0));
	assert_int_equal(woken(0), 1);
	assert_int_equal(receive(0), 1);
	rte_pktmbuf_free_bulk(held, n);
	rte_pktmbuf_free_bulk(got, RIG_RING - 5);
}

#define SLEEPS     5000
#define TIMEOUT_MS 500
#define GRACE_MS   5000

static atomic_uint received;
static atomic_uint late; /* frames that no call told of */

/* Sleeps whenever there is nothing, as applications do: armed, and no look afterwards. */
static void *
sleeper(void *arg)
{
	cpu_set_t others;
	uint32_t n = 0;

	/* Not on the CPU that EAL has bound its main thread to, unless there is no other. */
	memset(&others, 0xff, sizeof(others));
	CPU_CLR(0, &others);
	(void)sched_setaffinity(0, sizeof(others), &others);
	while (n < SLEEPS) {
		uint16_t got = receive(0);

		n += got;
		atomic_store(&received, n);
		if (got != 0)
			continue;
		arm(0);
		/* One that came in this moment may still be called for. */
		if (woken(TIMEOUT_MS) == 0 && rte_eth_rx_queue_count(r.port, 0) != 0 &&
			woken(GRACE_MS) == 0)
			atomic_fetch_add(&late, 1);
		disarm(0);
	}
	return arg;
}

/*
 * One frame at a time, at any moment of the sleeper's falling asleep. The next one only when that
 * has arrived: another frame would wake it, too.
 */
static void
test_no_wakeup_is_lost(void **state)
{
	uint64_t seed = 11;
	pthread_t thread;
	uint32_t i, pause;

	(void)state;
	atomic_store(&received, 0);
	atomic_store(&late, 0);
	assert_int_equal(pthread_create(&thread, NULL, sleeper, NULL), 0);
	for (i = 0; i < SLEEPS; i++) {
		/* Nanoseconds as well as microseconds. */
		for (pause = rnd_below(&seed, 1 << rnd_below(&seed, 8)); pause != 0; pause--)
			rte_pause();
		(void)send_one();
		for (pause = 0; atomic_load(&received) <= i; pause++) {
			rte_pause();
			if (pause % 4096 == 4095)
				sched_yield();
		}
	}
	assert_int_equal(pthread_join(thread, NULL), 0);
	assert_int_equal(atomic_load(&late), 0);
	print_message("woken at once: %" PRIu64 ", not asked: %" PRIu64 "\n",
		rig_xstat(&r, "rx_q0_intr_at_once"), rig_xstat(&r, "rx_q0_intr_held"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		SLEEP_TEST(port_flags, test_woken_by_a_frame),
		SLEEP_TEST(port_event_idx, test_woken_by_a_frame),
		SLEEP_TEST(port_plain, test_woken_by_a_frame),
		SLEEP_TEST(port_flags, test_frame_that_came_before),
		SLEEP_TEST(port_event_idx, test_frame_that_came_before),
		SLEEP_TEST(port_flags, test_not_called_while_it_polls),
		SLEEP_TEST(port_event_idx, test_not_called_while_it_polls),
		SLEEP_TEST(port_pairs, test_each_queue_for_itself),
		SLEEP_TEST(port_flags, test_by_its_descriptor),
		SLEEP_TEST(port_small_budget, test_a_ring_without_buffers),
		SLEEP_TEST(port_event_idx, test_a_ring_without_buffers),
		SLEEP_TEST(port_jumbo, test_too_few_buffers_for_a_frame),
		SLEEP_TEST(port_flags, test_no_wakeup_is_lost),
		SLEEP_TEST(port_event_idx, test_no_wakeup_is_lost),
		SLEEP_TEST(port_moderated, test_no_wakeup_is_lost),
		SLEEP_TEST(port_moderated_event_idx, test_no_wakeup_is_lost),
		SLEEP_TEST(port_adaptive, test_no_wakeup_is_lost),
	};

	return rig_main(tests, COUNT_OF(tests));
}
