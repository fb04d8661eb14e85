/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Probing: devices that are refused, each with one line and without a trace, and what is said of
 * those that are not. A neighbour goes on all the while. */

#include <errno.h>
#include <string.h>

#include "pci_port.h"

static struct pci_port p, neighbour;

/* And it is as the one before us has left it. */
static void
reset_never_ends(struct pci_mock *m)
{
	m->reset_stuck = true;
	m->status = VPCI_ACKNOWLEDGE | VPCI_DRIVER | VPCI_FEATURES_OK | VPCI_DRIVER_OK;
	pci_mock_put16(&m->config[VPCI_COMMAND], VPCI_COMMAND_MASTER);
}

static void
registers_dead(struct pci_mock *m)
{
	m->dead = true;
}

static void
unplugged(struct pci_mock *m)
{
	m->gone = true;
}

static void
legacy(struct pci_mock *m)
{
	pci_mock_put16(&m->config[VPCI_STATUS], 0);
}

static void
no_version_1(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(VERSION_1);
}

static void
no_access_platform(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(ACCESS_PLATFORM);
}

static void
refuses_features(struct pci_mock *m)
{
	m->refuses_features = true;
}

static void
no_queues(struct pci_mock *m)
{
	m->num_queues = 0;
}

static void
one_queue(struct pci_mock *m)
{
	m->num_queues = 1;
}

static void
set_size(struct pci_mock *m, uint32_t queue, uint16_t size)
{
	m->queues[queue].max = size;
	m->queues[queue].size = size;
}

static void
empty_queue(struct pci_mock *m)
{
	set_size(m, 1, 0);
}

static void
odd_queue(struct pci_mock *m)
{
	set_size(m, 0, 100);
}

static void
long_queue(struct pci_mock *m)
{
	set_size(m, 1, 65535);
}

static void
no_control_queue(struct pci_mock *m)
{
	m->num_queues = 2;
}

static void
short_control_queue(struct pci_mock *m)
{
	set_size(m, 2, 1);
}

static void
doorbell_outside(struct pci_mock *m)
{
	m->queues[1].notify_off = 16;
}

static void
doorbell_outside_for_data(struct pci_mock *m)
{
	m->offered |= VQ_FEATURE(NOTIFICATION_DATA);
	pci_mock_put32(pci_mock_cap(m, VPCI_CAP_NOTIFY) + VPCI_CAP_LENGTH, 6);
}

static void
keeps_changing(struct pci_mock *m)
{
	m->generations = -1;
}

static void
no_pairs(struct pci_mock *m)
{
	pci_mock_pairs(m, 0);
	m->num_queues = 3;
}

static void
too_many_pairs(struct pci_mock *m)
{
	pci_mock_pairs(m, 40000);
	m->num_queues = 65535;
}

static void
fewer_queues_than_pairs(struct pci_mock *m)
{
	pci_mock_pairs(m, 3);
	m->num_queues = 5;
}

static void
configuration_ends(struct pci_mock *m, uint32_t len)
{
	pci_mock_put32(pci_mock_cap(m, VPCI_CAP_DEVICE) + VPCI_CAP_LENGTH, len);
}

static void
configuration_without_mac(struct pci_mock *m)
{
	configuration_ends(m, 5);
}

static void
configuration_without_status(struct pci_mock *m)
{
	configuration_ends(m, 7);
}

static void
configuration_without_pairs(struct pci_mock *m)
{
	pci_mock_pairs(m, 2);
	configuration_ends(m, 8);
}

static void
configuration_without_mtu(struct pci_mock *m)
{
	m->offered |= VQ_FEATURE(MTU);
	configuration_ends(m, 10);
}

static const struct {
	const char *name;
	pci_port_shape shape;
	int err;
	const char *why; /* is part of the line */
} refused[] = {
#define CASE(shape) #shape, shape
	{CASE(reset_never_ends), -ETIMEDOUT, "reset does not end"},
	{CASE(registers_dead), -ETIMEDOUT, "reset does not end"},
	{CASE(unplugged), -EINVAL, "leads to 0xfc"},
	{CASE(legacy), -ENOTSUP, "legacy device"},
	{CASE(no_version_1), -ENOTSUP, "does not offer VERSION_1"},
	{CASE(no_access_platform), -ENOTSUP, "run with --iova-mode=pa"},
	{CASE(refuses_features), -EINVAL, "refuses the features"},
	{CASE(no_queues), -EINVAL, "no queue 0"},
	{CASE(one_queue), -EINVAL, "no queue 1"},
	{CASE(empty_queue), -EINVAL, "no queue 1"},
	{CASE(odd_queue), -EINVAL, "queue 0 has 100 entries"},
	{CASE(long_queue), -EINVAL, "queue 1 has 65535 entries"},
	{CASE(no_control_queue), -EINVAL, "no queue 2"},
	{CASE(short_control_queue), -EINVAL, "control queue has one entry"},
	{CASE(doorbell_outside), -EINVAL, "doorbell of its queue 1"},
	{CASE(doorbell_outside_for_data), -EINVAL, "doorbell of its queue 1"},
	{CASE(keeps_changing), -EINVAL, "keeps changing"},
	{CASE(no_pairs), -EINVAL, "no queue pairs"},
	{CASE(too_many_pairs), -EINVAL, "no queue 80000"},
	{CASE(fewer_queues_than_pairs), -EINVAL, "no queue 5"},
	{CASE(configuration_without_mac), -EINVAL, "too short"},
	{CASE(configuration_without_status), -EINVAL, "too short"},
	{CASE(configuration_without_pairs), -EINVAL, "too short"},
	{CASE(configuration_without_mtu), -EINVAL, "too short"},
#undef CASE
};

static void
test_devices_that_are_refused(void **state)
{
	uint32_t i;
	int err;

	(void)state;
	pci_port_up(&neighbour, NULL, &(struct rig_config){0});
	for (i = 0; i < COUNT_OF(refused); i++) {
		pci_port_create(&p, refused[i].shape);
		err = pci_port_probe(&p, NULL);
		if (err != refused[i].err || pci_port_log_lines(&p, "") != 1 ||
			pci_port_log_lines(&p, refused[i].why) != 1)
			fail_msg("%s: %d, %u lines", refused[i].name, err,
				pci_port_log_lines(&p, ""));
		assert_null(p.eth);
		/* It is reset, or cannot do anything. */
		assert_true(p.m.status == 0 || !pci_mock_masters(&p.m));
		pci_port_down(&p);
		pci_port_assert_works(&neighbour);
	}
	assert_int_equal(pci_port_log_lines(&neighbour, ""), 0);
	pci_port_down(&neighbour);
}

/* Not to be held up: the bus waits, and other devices behind it. */
static void
test_a_device_that_hangs_is_waited_for_once(void **state)
{
	struct timespec before, after;

	(void)state;
	pci_port_create(&p, reset_never_ends);
	pci_mock_stop_clock(true);
	clock_gettime(CLOCK_MONOTONIC, &before);
	assert_int_equal(pci_port_probe(&p, NULL), -ETIMEDOUT);
	clock_gettime(CLOCK_MONOTONIC, &after);
	pci_mock_stop_clock(false);
	assert_in_range(after.tv_sec - before.tv_sec, 3, 4);
	pci_port_down(&p);
}

static void
a_few_changes(struct pci_mock *m)
{
	m->generations = 9;
	m->reset_looks = 3;
}

static void
test_what_a_good_device_has(void **state)
{
	struct rte_eth_dev_info info;
	struct rte_ether_addr mac;

	(void)state;
	pci_port_create(&p, a_few_changes);
	assert_int_equal(pci_port_probe(&p, NULL), 0);
	assert_int_equal(pci_port_log_lines(&p, ""), 0);
	/* Untouched until it is started. */
	assert_int_equal(p.m.status, 0);
	assert_int_equal(rte_eth_dev_info_get(p.r.port, &info), 0);
	assert_int_equal(info.max_rx_queues, 1);
	assert_int_equal(info.max_tx_queues, 1);
	assert_int_equal(info.rx_desc_lim.nb_max, PCI_MOCK_SIZE);
	assert_int_equal(info.tx_desc_lim.nb_max, PCI_MOCK_SIZE);
	assert_int_equal(info.default_rxportconf.ring_size, PCI_MOCK_SIZE);
	assert_int_equal(info.default_txportconf.ring_size, PCI_MOCK_SIZE);
	assert_int_equal(info.max_mtu, 65535 - 18);
	assert_true(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER);
	assert_int_equal(rte_eth_macaddr_get(p.r.port, &mac), 0);
	assert_memory_equal(&mac, &p.m.net[VPCI_NET_MAC], 6);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.ring = 128}), -EINVAL);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.rxq = 2}), -EINVAL);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.ring = 64}), 0);
	pci_port_down(&p);
}

static void
different_sizes(struct pci_mock *m)
{
	pci_mock_pairs(m, 4);
	set_size(m, 0, 32768);
	set_size(m, 2, 32);
	set_size(m, 3, 16);
	set_size(m, 7, 1024);
	/* No data goes through that one. */
	set_size(m, 8, 2);
}

static void
test_the_smallest_ring_is_the_limit(void **state)
{
	struct rte_eth_dev_info info;

	(void)state;
	pci_port_create(&p, different_sizes);
	assert_int_equal(pci_port_probe(&p, "queue_size=512"), 0);
	assert_int_equal(rte_eth_dev_info_get(p.r.port, &info), 0);
	assert_int_equal(info.max_rx_queues, 4);
	assert_int_equal(info.rx_desc_lim.nb_max, 32);
	assert_int_equal(info.default_rxportconf.ring_size, 32);
	assert_int_equal(info.tx_desc_lim.nb_max, 16);
	assert_int_equal(info.default_txportconf.ring_size, 16);
	pci_port_down(&p);
}

/* Pairs without a control queue to switch them on are none. */
static void
pairs_without_control(struct pci_mock *m)
{
	pci_mock_pairs(m, 2);
	m->offered &= ~VQ_FEATURE(CTRL_VQ);
}

static void
test_pairs_need_a_control_queue(void **state)
{
	struct rte_eth_dev_info info;

	(void)state;
	pci_port_up(&p, pairs_without_control, &(struct rig_config){0});
	assert_int_equal(rte_eth_dev_info_get(p.r.port, &info), 0);
	assert_int_equal(info.max_rx_queues, 1);
	assert_true(!(p.m.accepted & (VQ_FEATURE(MQ) | VQ_FEATURE(CTRL_RX))));
	pci_port_assert_works(&p);
	pci_port_down(&p);
}

static void
not_mergeable(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(MRG_RXBUF);
}

/* A device that does not merge buffers gets chains of them. */
static void
test_long_frames_without_merging(void **state)
{
	static const uint8_t sent[9018] = {1};
	struct rte_eth_dev_info info;
	struct rte_mbuf *m;

	(void)state;
	pci_port_up(&p, not_mergeable, &(struct rig_config){.mtu = 9000, .scatter = true});
	assert_int_equal(rte_eth_dev_info_get(p.r.port, &info), 0);
	assert_true(info.rx_offload_capa & RTE_ETH_RX_OFFLOAD_SCATTER);
	assert_int_equal(rig_send(&p.r, sent, sizeof(sent), -1), 1);
	assert_int_equal(rte_eth_rx_burst(p.r.port, 0, &m, 1), 1);
	assert_int_equal(rte_mbuf_check(m, 1, NULL), 0);
	assert_int_equal(m->nb_segs, 5);
	assert_int_equal(m->pkt_len, sizeof(sent));
	rte_pktmbuf_free(m);
	pci_port_assert_works(&p);
	pci_port_down(&p);
}

static void
multicast_mac(struct pci_mock *m)
{
	m->net[VPCI_NET_MAC] |= 1;
}

static void
zero_mac(struct pci_mock *m)
{
	memset(&m->net[VPCI_NET_MAC], 0, 6);
}

static void
no_mac(struct pci_mock *m)
{
	m->offered &= ~VQ_FEATURE(MAC);
}

static void
test_addresses_that_no_port_can_have(void **state)
{
	static const pci_port_shape shapes[] = {multicast_mac, zero_mac, no_mac};
	struct rte_ether_addr mac;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(shapes); i++) {
		pci_port_create(&p, shapes[i]);
		assert_int_equal(pci_port_probe(&p, NULL), 0);
		assert_int_equal(rte_eth_macaddr_get(p.r.port, &mac), 0);
		assert_true(rte_is_local_admin_ether_addr(&mac));
		assert_true(rte_is_valid_assigned_ether_addr(&mac));
		assert_memory_not_equal(&mac, &p.m.net[VPCI_NET_MAC], 6);
		pci_port_down(&p);
	}
}

static uint16_t offered_mtu;

static void
an_mtu(struct pci_mock *m)
{
	m->offered |= VQ_FEATURE(MTU);
	pci_mock_put16(&m->net[VPCI_NET_MTU], offered_mtu);
}

static void
test_the_device_limits_the_mtu(void **state)
{
	static const struct {
		uint16_t offered, max;
	} cases[] = {{9000, 9000}, {1200, 1200}, {68, 68}, {67, 65517}, {0, 65517}, {65535, 65517}};
	struct rte_eth_dev_info info;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(cases); i++) {
		offered_mtu = cases[i].offered;
		pci_port_create(&p, an_mtu);
		assert_int_equal(pci_port_probe(&p, NULL), 0);
		assert_int_equal(rte_eth_dev_info_get(p.r.port, &info), 0);
		assert_int_equal(info.max_mtu, cases[i].max);
		assert_int_equal(info.max_rx_pktlen - info.max_mtu, 18);
		pci_port_down(&p);
	}
	offered_mtu = 1200;
	pci_port_create(&p, an_mtu);
	assert_int_equal(pci_port_probe(&p, NULL), 0);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.mtu = 1201}), -EINVAL);
	assert_int_equal(rig_configure(&p.r, &(struct rig_config){.mtu = 1200}), 0);
	assert_int_equal(rte_eth_dev_start(p.r.port), 0);
	assert_int_equal(rte_eth_dev_set_mtu(p.r.port, 1201), -EINVAL);
	assert_int_equal(rte_eth_dev_set_mtu(p.r.port, 1199), 0);
	pci_port_assert_works(&p);
	pci_port_down(&p);
}

static int
parse(const char *text, enum sluice_args_of of, struct sluice_devargs *args)
{
	pci_port_log_clear();
	return sluice_devargs_parse("mock0", text, of, args);
}

static void
test_device_arguments(void **state)
{
	static const char *const of_containers[] = {"path=/run/a", "server=1", "queues=2",
		"mac=02:00:00:00:00:01", "cq=1", "iface=eth0", "packed_vq=0"};
	struct sluice_devargs args;
	const struct pci_port line = {.name = "mock0"};
	uint32_t i;

	(void)state;
	assert_int_equal(parse("sluice=0", SLUICE_ARGS_PCI, &args), 0);
	assert_true(args.declined);
	assert_int_equal(parse("vdpa=1", SLUICE_ARGS_PCI, &args), 0);
	assert_true(args.declined);
	assert_int_equal(parse("sluice=1,vdpa=1", SLUICE_ARGS_PCI, &args), 0);
	assert_true(args.declined);
	/* What else is there is for whom the device is left to. */
	assert_int_equal(parse("sw-live-migration=1,vdpa=1,queues=4", SLUICE_ARGS_PCI, &args), 0);
	assert_true(args.declined);
	assert_int_equal(parse("vdpa=0,sluice=1", SLUICE_ARGS_PCI, &args), 0);
	assert_false(args.declined);
	assert_int_equal(parse(NULL, SLUICE_ARGS_PCI, &args), 0);
	assert_false(args.declined);
	assert_int_equal(pci_port_log_lines(&line, ""), 0);
	assert_int_equal(parse("sluice=2", SLUICE_ARGS_PCI, &args), -EINVAL);
	assert_int_equal(pci_port_log_lines(&line, "sluice=2: must be 0 or 1"), 1);
	assert_int_equal(parse("mrg_rxbufs=1", SLUICE_ARGS_PCI, &args), -EINVAL);
	assert_int_equal(pci_port_log_lines(&line, "unknown device argument 'mrg_rxbufs'"), 1);
	for (i = 0; i < COUNT_OF(of_containers); i++) {
		assert_int_equal(parse(of_containers[i], SLUICE_ARGS_PCI, &args), -EINVAL);
		assert_int_equal(pci_port_log_lines(&line, "unknown device argument"), 1);
		assert_int_equal(pci_port_log_lines(&line, ""), 1);
	}
	/* Nor do containers know what is for PCI only. */
	assert_int_equal(parse("path=/run/a,vdpa=1", SLUICE_ARGS_USER, &args), -EINVAL);
	/* Of net_virtio. */
	assert_int_equal(parse("speed=10000,vectorized=1", SLUICE_ARGS_PCI, &args), 0);
	assert_int_equal(pci_port_log_lines(&line, "no effect here: speed, vectorized"), 1);
}

/* One line each, and what is right. */
static void
test_moderation_arguments(void **state)
{
	static const struct {
		const char *args, *line;
	} wrong[] = {
		{"coalesce=auto", "coalesce=auto: must be off, static or adaptive"},
		{"coalesce=static", "give coalesce_frames and coalesce_usecs too"},
		{"coalesce=static,coalesce_frames=8", "give coalesce_frames and coalesce_usecs"},
		{"coalesce=static,coalesce_usecs=8", "give coalesce_frames and coalesce_usecs too"},
		{"coalesce_frames=8,coalesce_usecs=8", "'coalesce_frames' means something with"},
		{"coalesce=off,coalesce_usecs=8", "'coalesce_usecs' means something with"},
		{"coalesce=adaptive,coalesce_frames=8", "'coalesce_frames' means something with"},
		{"coalesce=static,coalesce_frames=0,coalesce_usecs=8", "coalesce_frames=0: must"},
		{"coalesce=static,coalesce_frames=8,coalesce_usecs=100001", "from 1 to 100000"},
	};
	const struct pci_port line = {.name = "mock0"};
	struct sluice_devargs args;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(wrong); i++) {
		assert_int_equal(parse(wrong[i].args, SLUICE_ARGS_PCI, &args), -EINVAL);
		assert_int_equal(pci_port_log_lines(&line, wrong[i].line), 1);
		assert_int_equal(pci_port_log_lines(&line, ""), 1);
	}
	assert_int_equal(parse(NULL, SLUICE_ARGS_PCI, &args), 0);
	assert_int_equal(args.coalesce, SLUICE_COALESCE_OFF);
	assert_int_equal(parse("coalesce=adaptive", SLUICE_ARGS_PCI, &args), 0);
	assert_int_equal(args.coalesce, SLUICE_COALESCE_ADAPTIVE);
	assert_int_equal(parse("path=/run/a,coalesce_usecs=50,coalesce=static,coalesce_frames=32",
				 SLUICE_ARGS_USER, &args),
		0);
	assert_int_equal(args.coalesce, SLUICE_COALESCE_STATIC);
	assert_int_equal(args.coalesce_static.frames, 32);
	assert_int_equal(args.coalesce_static.usecs, 50);
	/* Of a device that is somebody else's they may mean anything. */
	assert_int_equal(parse("sluice=0,coalesce=static", SLUICE_ARGS_PCI, &args), 0);
	assert_int_equal(pci_port_log_lines(&line, ""), 0);
}

/* What the bus gets to hear. Nothing of the device is looked at. */
static void
test_the_driver_declines(void **state)
{
	struct rte_pci_device device = {.device.name = "0000:00:07.0"};
	struct rte_devargs args = {.args = NULL};
	char text[32];

	(void)state;
	device.device.devargs = &args;
	args.args = strcpy(text, "sluice=0");
	assert_int_equal(pci_port_driver->probe(pci_port_driver, &device), 1);
	args.args = strcpy(text, "vdpa=1");
	assert_int_equal(pci_port_driver->probe(pci_port_driver, &device), 1);
	args.args = strcpy(text, "sluice=no");
	assert_int_equal(pci_port_driver->probe(pci_port_driver, &device), -EINVAL);
	assert_null(rte_eth_dev_allocated("0000:00:07.0"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_devices_that_are_refused),
		cmocka_unit_test(test_a_device_that_hangs_is_waited_for_once),
		cmocka_unit_test(test_what_a_good_device_has),
		cmocka_unit_test(test_the_smallest_ring_is_the_limit),
		cmocka_unit_test(test_pairs_need_a_control_queue),
		cmocka_unit_test(test_long_frames_without_merging),
		cmocka_unit_test(test_addresses_that_no_port_can_have),
		cmocka_unit_test(test_the_device_limits_the_mtu),
		cmocka_unit_test(test_device_arguments),
		cmocka_unit_test(test_moderation_arguments),
		cmocka_unit_test(test_the_driver_declines),
	};

	return pci_port_main(tests, COUNT_OF(tests));
}
