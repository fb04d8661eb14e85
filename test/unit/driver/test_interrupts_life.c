/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Receive interrupts over the life of a port: backends that go and come while the application
 * sleeps, stop and start, configuring anew, ports and devices without them.
 */

#include "sluice.h"

#include "sleeper.h"

static const struct rig_config port_flags = {.interrupts = true};
static const struct rig_config port_absent = {.interrupts = true, .absent = true};
static const struct rig_config port_moderated = {
	.args = "coalesce=static,coalesce_frames=4,coalesce_usecs=60", .interrupts = true};
static const struct rig_config port_without = {0};
static const struct rig_config port_pairs = {
	.args = "queues=2", .rxq = 2, .txq = 2, .interrupts = true};

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

/* Ports come and go with their registrations still there. A backend may hold on to an eventfd. */
static void
test_nothing_is_left(void **state)
{
	const uint64_t one = 1;
	struct epoll_event event;
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
		/* Not even something that EAL would pass over. */
		assert_int_equal(epoll_wait(epfd, &event, 1, 0), 0);
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
	const struct CMUnitTest tests[] = {
		SLEEP_TEST(port_absent, test_armed_before_the_backend_comes),
		SLEEP_TEST(port_flags, test_backend_that_goes_while_it_sleeps),
		SLEEP_TEST(port_flags, test_disarmed_while_the_link_is_down),
		SLEEP_TEST(port_flags, test_stop_and_start),
		SLEEP_TEST(port_moderated, test_backend_that_goes_while_it_sleeps),
		SLEEP_TEST(port_moderated, test_stop_and_start),
		SLEEP_TEST(port_flags, test_configured_anew),
		SLEEP_TEST(port_without, test_not_configured),
		SLEEP_TEST(port_without, test_a_transport_without),
		cmocka_unit_test(test_nothing_is_left),
	};

	return rig_main(tests, COUNT_OF(tests));
}
