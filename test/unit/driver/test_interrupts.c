/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Receive interrupts: an application that sleeps is woken for every frame, and for whatever else
 * would let it sleep for ever; one that does not want to be called is not.
 */

#include <inttypes.h>
#include <poll.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <rte_interrupts.h>
#include <rte_pause.h>

#include "rig.h"
#include "sluice.h"

static struct rig r;
static uint8_t frame[9018];
static int epfd;

static const struct rig_config port_flags = {.interrupts = true};
static const struct rig_config port_event_idx = {.args = "event_idx=1", .interrupts = true};
static const struct rig_config port_small_budget = {.args = "refill_budget=8", .interrupts = true};
static const struct rig_config port_plain = {.args = "mrg_rxbuf=0", .interrupts = true};
static const struct rig_config port_absent = {.interrupts = true, .absent = true};
static const struct rig_config port_jumbo = {.scatter = true, .mtu = 9000, .interrupts = true};
static const struct rig_config port_without = {0};
static const struct rig_config port_pairs = {
	.args = "queues=2", .rxq = 2, .txq = 2, .interrupts = true};

static void
watch(uint16_t queue)
{
	assert_int_equal(rte_eth_dev_rx_intr_ctl_q(r.port, queue, epfd, RTE_INTR_EVENT_ADD,
				 (void *)(uintptr_t)(queue + 1)),
		0);
}

static int
setup(void **state)
{
	const struct rig_case *c = *state;
	uint16_t i;

	rig_up(c->r, &c->config);
	epfd = epoll_create1(EPOLL_CLOEXEC);
	assert_true(epfd >= 0);
	for (i = 0; c->config.interrupts && i < RTE_MAX(c->config.rxq, 1); i++)
		watch(i);
	return 0;
}

static int
teardown(void **state)
{
	const struct rig_case *c = *state;

	rig_down(c->r);
	close(epfd);
	return 0;
}

/* Would a sleep end by itself? 0 or the queue + 1; -1: both of two. */
static int
woken(int timeout_ms)
{
	struct rte_epoll_event events[4];
	int n = rte_epoll_wait(epfd, events, COUNT_OF(events), timeout_ms);

	assert_in_range(n, 0, 2);
	if (n == 2)
		return -1;
	return n == 0 ? 0 : (int)(uintptr_t)events[0].epdata.data;
}

static void
arm(uint16_t queue)
{
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, queue), 0);
}

static void
disarm(uint16_t queue)
{
	assert_int_equal(rte_eth_dev_rx_intr_disable(r.port, queue), 0);
}

static uint16_t
receive(uint16_t queue)
{
	struct rte_mbuf *pkts[RIG_RING];
	uint16_t n = rte_eth_rx_burst(r.port, queue, pkts, RIG_RING);

	rte_pktmbuf_free_bulk(pkts, n);
	return n;
}

/* A frame into queue 0; is it called? */
static bool
send_one(void)
{
	rig_pattern(frame, 60, 5);
	rig_send(&r, frame, 60, -1);
	return rig_call(&r, 0);
}

/* With EVENT_IDX the first call of a ring is made whatever the driver wants. */
static void
settle(void)
{
	(void)send_one();
	assert_int_equal(receive(0), 1);
	(void)woken(0);
}

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

/* It sleeps when the backend comes; nobody arms the ring again, and frames wake it all the same. */
static void
assert_woken_by_the_link(void)
{
	rig_wait_link(&r, true);
	assert_int_equal(woken(5000), 1);
	assert_int_equal(receive(0), 0);
	assert_true(send_one());
	assert_int_equal(woken(0), 1);
	disarm(0);
	assert_int_equal(receive(0), 1);
	assert_false(send_one());
	assert_int_equal(receive(0), 1);
}

static void
test_armed_before_the_backend_comes(void **state)
{
	(void)state;
	arm(0);
	assert_int_equal(woken(0), 0);
	rig_backend_restart(&r);
	assert_woken_by_the_link();
}

static void
test_backend_that_goes_while_it_sleeps(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 5; i++) {
		arm(0);
		/* As it finds the link: up, or down already. */
		host_thread_stop(&r.h);
		vu_backend_disconnect(r.h.b, "test");
		rig_wait_link(&r, false);
		if (i % 2 != 0)
			arm(0);
		host_thread_start(&r.h);
		assert_woken_by_the_link();
	}
}

static void
test_disarmed_while_the_link_is_down(void **state)
{
	(void)state;
	arm(0);
	host_thread_stop(&r.h);
	vu_backend_disconnect(r.h.b, "test");
	rig_wait_link(&r, false);
	disarm(0);
	host_thread_start(&r.h);
	rig_wait_link(&r, true);
	assert_false(send_one());
	assert_int_equal(receive(0), 1);
	assert_int_equal(woken(0), 0);
}

/* Registrations stay; who sleeps over a stop is woken by the start. */
static void
test_stop_and_start(void **state)
{
	int i;

	(void)state;
	for (i = 0; i < 20; i++) {
		if (i % 2 == 0)
			arm(0);
		assert_int_equal(rte_eth_dev_stop(r.port), 0);
		if (i % 2 != 0)
			arm(0);
		assert_int_equal(rte_eth_dev_start(r.port), 0);
		assert_woken_by_the_link();
	}
}

static void
test_configured_anew(void **state)
{
	const struct rig_config without = {0}, with = {.interrupts = true};
	const struct rte_eth_conf no_interrupts = {0};
	int i;

	(void)state;
	for (i = 0; i < 3; i++) {
		assert_int_equal(rte_eth_dev_stop(r.port), 0);
		assert_int_equal(rig_configure(&r, &without), 0);
		assert_int_equal(rte_eth_dev_start(r.port), 0);
		rig_wait_link(&r, true);
		assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, 0), -ENOTSUP);
		assert_int_equal(rte_eth_dev_rx_intr_disable(r.port, 0), -ENOTSUP);
		assert_int_equal(rte_eth_dev_rx_intr_ctl_q_get_fd(r.port, 0), -1);
		assert_true(
			rte_eth_dev_rx_intr_ctl_q(r.port, 0, epfd, RTE_INTR_EVENT_ADD, NULL) < 0);
		assert_false(send_one());
		assert_int_equal(receive(0), 1);
		assert_int_equal(rte_eth_dev_stop(r.port), 0);
		assert_int_equal(rig_configure(&r, &with), 0);
		assert_int_equal(rte_eth_dev_start(r.port), 0);
		rig_wait_link(&r, true);
		watch(0);
		arm(0);
		assert_int_equal(woken(0), 0);
		assert_true(send_one());
		assert_int_equal(woken(0), 1);
		assert_int_equal(receive(0), 1);
	}
	/* The queues stay as they are, and are not set up again. */
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(rte_eth_dev_configure(r.port, 1, 1, &no_interrupts), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	assert_int_equal(rte_eth_dev_rx_intr_ctl_q_get_fd(r.port, 0), -1);
	assert_false(send_one());
	assert_int_equal(receive(0), 1);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(rig_configure(&r, &with), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	watch(0);
	/* A receive queue that is set up again has another eventfd; it is not armed. */
	arm(0);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(
		rte_eth_rx_queue_setup(r.port, 0, RIG_RING, SOCKET_ID_ANY, NULL, r.pool), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	watch(0);
	assert_false(send_one());
	assert_int_equal(woken(0), 0);
	arm(0);
	assert_int_equal(woken(0), 1);
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

static void
test_not_configured(void **state)
{
	(void)state;
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, 0), -ENOTSUP);
	assert_int_equal(rte_eth_dev_rx_intr_disable(r.port, 0), -ENOTSUP);
	assert_int_equal(
		rte_eth_dev_rx_intr_ctl_q(r.port, 0, epfd, RTE_INTR_EVENT_ADD, NULL), -ENOTSUP);
	assert_int_equal(rte_eth_dev_rx_intr_ctl_q_get_fd(r.port, 0), -1);
	assert_false(send_one());
	assert_int_equal(receive(0), 1);
}

static int
too_few_vectors(struct sluice_dev *dev)
{
	return sluice_refuse(dev, -ENOTSUP, "too few vectors");
}

static void
test_a_transport_without(void **state)
{
	struct sluice_dev *dev = rte_eth_devices[r.port].data->dev_private;
	const struct sluice_transport *usual = dev->transport;
	struct sluice_transport other = *usual;

	(void)state;
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	dev->transport = &other;
	other.rx_intr_check = too_few_vectors;
	assert_int_equal(rig_configure(&r, &port_flags), -ENOTSUP);
	assert_string_equal(dev->why, "too few vectors");
	other.rx_intr_start = NULL;
	assert_int_equal(rig_configure(&r, &port_flags), -ENOTSUP);
	assert_int_equal(rig_configure(&r, &port_without), 0);
	assert_int_equal(rte_eth_dev_start(r.port), 0);
	rig_wait_link(&r, true);
	assert_int_equal(rte_eth_dev_rx_intr_enable(r.port, 0), -ENOTSUP);
	assert_false(send_one());
	assert_int_equal(receive(0), 1);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	dev->transport = usual;
}

#define SLEEPS     20000
#define TIMEOUT_MS 500

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
		if (woken(TIMEOUT_MS) == 0 && rte_eth_rx_queue_count(r.port, 0) != 0)
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
	print_message("woken at once: %" PRIu64 "\n", rig_xstat(&r, "rx_q0_intr_at_once"));
}

/* Ports come and go with their registrations still there. A backend may hold on to an eventfd. */
static void
test_nothing_is_left(void **state)
{
	const uint64_t one = 1;
	uint32_t i, fds = 0;
	int held;

	(void)state;
	for (i = 0; i < 20; i++) {
		rig_up(&r, &port_pairs);
		epfd = epoll_create1(EPOLL_CLOEXEC);
		watch(0);
		watch(1);
		arm(0);
		held = dup(rte_eth_dev_rx_intr_ctl_q_get_fd(r.port, 0));
		rig_down(&r);
		assert_int_equal(write(held, &one, sizeof(one)), sizeof(one));
		assert_int_equal(woken(0), 0);
		close(held);
		close(epfd);
		if (i == 0)
			fds = count_fds();
	}
	assert_int_equal(count_fds(), fds);
}

int
main(void)
{
#define WITH(how, test)                                                                            \
	cmocka_unit_test_prestate_setup_teardown(                                                  \
		test, setup, teardown, &((struct rig_case){.r = &r, .config = (how)}))
	const struct CMUnitTest tests[] = {
		WITH(port_flags, test_woken_by_a_frame),
		WITH(port_event_idx, test_woken_by_a_frame),
		WITH(port_plain, test_woken_by_a_frame),
		WITH(port_flags, test_frame_that_came_before),
		WITH(port_event_idx, test_frame_that_came_before),
		WITH(port_flags, test_not_called_while_it_polls),
		WITH(port_event_idx, test_not_called_while_it_polls),
		WITH(port_pairs, test_each_queue_for_itself),
		WITH(port_flags, test_by_its_descriptor),
		WITH(port_absent, test_armed_before_the_backend_comes),
		WITH(port_flags, test_backend_that_goes_while_it_sleeps),
		WITH(port_flags, test_disarmed_while_the_link_is_down),
		WITH(port_flags, test_stop_and_start),
		WITH(port_flags, test_configured_anew),
		WITH(port_small_budget, test_a_ring_without_buffers),
		WITH(port_event_idx, test_a_ring_without_buffers),
		WITH(port_jumbo, test_too_few_buffers_for_a_frame),
		WITH(port_without, test_not_configured),
		WITH(port_without, test_a_transport_without),
		WITH(port_flags, test_no_wakeup_is_lost),
		WITH(port_event_idx, test_no_wakeup_is_lost),
		cmocka_unit_test(test_nothing_is_left),
	};

	return rig_main(tests, COUNT_OF(tests));
}
