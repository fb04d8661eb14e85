/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * rx_sleep: an application that sleeps on the receive interrupts of one port whenever its queues
 * are empty, and says whether it was woken for every frame. In a guest's initramfs too: it needs
 * nothing but DPDK.
 *
 * A wakeup is missed when a frame lies in a queue, and no interrupt comes for it: then only the end
 * of the time-out finds it. The next frame would wake it all the same, so whoever sends must wait
 * for each frame to come back (--echo) before the next one.
 */

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include <rte_cycles.h>
#include <rte_eal.h>
#include <rte_errno.h>
#include <rte_ethdev.h>
#include <rte_interrupts.h>
#include <rte_mbuf.h>
#include <rte_random.h>

#define EXIT_USAGE 2
#define BURST      32
#define QUEUES_MAX 16
/* How long an interrupt may take to arrive for a frame that is there already. */
#define GRACE_MS 300

static struct {
	uint64_t count; /* frames, then it ends; 0: at SIGTERM */
	uint32_t queues;
	uint32_t ring;
	uint32_t timeout_ms;
	uint32_t mbufs;
	uint32_t linger_us;
	bool echo;
} options = {.queues = 1, .ring = 256, .timeout_ms = 2000, .mbufs = 4095};

static struct {
	uint64_t frames, by_queue[QUEUES_MAX];
	uint64_t echoed, not_echoed;
	uint64_t sleeps;
	uint64_t wakes;    /* sleeps that an interrupt ended */
	uint64_t spurious; /* of these: no frame was there */
	uint64_t timeouts; /* sleeps that ended by themselves */
	uint64_t missed;   /* of these: a frame was there, and no interrupt came for it */
} seen;

static const char help[] = "Usage: rx_sleep [EAL options] -- [options]\n"
			   "Sleep on the receive interrupts of the first port; print what was seen "
			   "as one line of JSON.\n"
			   "  --count N       end after N frames (default 0: at SIGTERM)\n"
			   "  --queues N      receive queues, 1 to 16 (default 1)\n"
			   "  --ring N        descriptors of a queue (default 256)\n"
			   "  --mbufs N       buffers in all (default 4095)\n"
			   "  --timeout-ms N  longest sleep (default 2000)\n"
			   "  --echo          send each frame back, with its addresses swapped\n";

static atomic_bool stop;

static void
on_signal(int number)
{
	(void)number;
	atomic_store(&stop, true);
}

static int
complain(const char *what, const char *why)
{
	fprintf(stderr, "rx_sleep: %s: %s\n", what, why);
	return -1;
}

static int
read_number(const char *name, const char *text, uint64_t least, uint64_t most, uint64_t *value)
{
	char why[96];
	char *end;

	snprintf(why, sizeof(why), "a number from %" PRIu64 " to %" PRIu64 ", not \"%s\"", least,
		most, text == NULL ? "" : text);
	if (text == NULL || text[0] < '0' || text[0] > '9')
		return complain(name, why);
	errno = 0;
	*value = strtoull(text, &end, 10);
	if (errno != 0 || *end != '\0' || *value < least || *value > most)
		return complain(name, why);
	return 0;
}

static int
read_options(int argc, char *const *argv)
{
	static const struct {
		const char *name;
		uint64_t least, most;
		uint32_t *value;
	} numbers[] = {
		{"--queues", 1, QUEUES_MAX, &options.queues},
		{"--ring", 1, 32768, &options.ring},
		{"--mbufs", 1, 1 << 20, &options.mbufs},
		{"--timeout-ms", 1, 600000, &options.timeout_ms},
		{"--linger-us", 0, 1000000, &options.linger_us},
	};
	uint64_t value;
	uint32_t k;
	int i;

	for (i = 1; i < argc; i++) {
		for (k = 0; k < RTE_DIM(numbers) && strcmp(argv[i], numbers[k].name) != 0; k++)
			;
		if (k < RTE_DIM(numbers)) {
			if (read_number(argv[i], argv[i + 1], numbers[k].least, numbers[k].most,
				    &value) != 0)
				return -1;
			*numbers[k].value = (uint32_t)value;
			i++;
		} else if (strcmp(argv[i], "--count") == 0) {
			if (read_number(argv[i], argv[i + 1], 0, UINT64_MAX, &options.count) != 0)
				return -1;
			i++;
		} else if (strcmp(argv[i], "--echo") == 0) {
			options.echo = true;
		} else {
			return complain(argv[i], "no such option: see --help");
		}
	}
	return 0;
}

/* What a call of DPDK says; a step that fails ends the program. */
static int
check(int err, const char *what)
{
	return err < 0 ? complain(what, rte_strerror(-err)) : 0;
}

static int
set_up(uint16_t port)
{
	const struct rte_eth_conf conf = {.intr_conf.rxq = 1};
	struct rte_mempool *pool;
	uint16_t q;
	int err;

	pool = rte_pktmbuf_pool_create("rx_sleep", options.mbufs, 0, 0, RTE_MBUF_DEFAULT_BUF_SIZE,
		rte_eth_dev_socket_id(port));
	if (pool == NULL)
		return complain("--mbufs", rte_strerror(rte_errno));
	err = check(rte_eth_dev_configure(
			    port, (uint16_t)options.queues, (uint16_t)options.queues, &conf),
		"configuring with receive interrupts");
	for (q = 0; q < options.queues && err == 0; q++) {
		err = check(rte_eth_rx_queue_setup(
				    port, q, (uint16_t)options.ring, SOCKET_ID_ANY, NULL, pool),
			"receive queue");
		if (err == 0)
			err = check(rte_eth_tx_queue_setup(
					    port, q, (uint16_t)options.ring, SOCKET_ID_ANY, NULL),
				"transmit queue");
	}
	if (err == 0)
		err = check(rte_eth_dev_start(port), "starting the port");
	for (q = 0; q < options.queues && err == 0; q++)
		err = check(rte_eth_dev_rx_intr_ctl_q(
				    port, q, RTE_EPOLL_PER_THREAD, RTE_INTR_EVENT_ADD, NULL),
			"interrupt of a receive queue");
	return err;
}

static void
send_back(uint16_t port, uint16_t q, struct rte_mbuf **pkts, uint16_t n)
{
	uint16_t i, sent;

	for (i = 0; i < n; i++) {
		struct rte_ether_hdr *eth = rte_pktmbuf_mtod(pkts[i], struct rte_ether_hdr *);
		struct rte_ether_addr dst = eth->dst_addr;

		eth->dst_addr = eth->src_addr;
		eth->src_addr = dst;
	}
	sent = rte_eth_tx_burst(port, q, pkts, n);
	rte_pktmbuf_free_bulk(pkts + sent, n - sent);
	seen.echoed += sent;
	seen.not_echoed += n - sent;
}

/* All queues once. @return frames */
static uint32_t
poll_queues(uint16_t port)
{
	struct rte_mbuf *pkts[BURST];
	uint32_t total = 0;
	uint16_t q, n;

	for (q = 0; q < options.queues; q++) {
		n = rte_eth_rx_burst(port, q, pkts, BURST);
		seen.by_queue[q] += n;
		total += n;
		if (n != 0 && options.echo)
			send_back(port, q, pkts, n);
		else
			rte_pktmbuf_free_bulk(pkts, n);
	}
	seen.frames += total;
	return total;
}

static bool
frames_wait(uint16_t port)
{
	uint16_t q;

	for (q = 0; q < options.queues; q++) {
		if (rte_eth_rx_queue_count(port, q) > 0)
			return true;
	}
	return false;
}

/* Until an interrupt. @return whether there was one */
static bool
wait_for_interrupt(uint16_t port)
{
	struct rte_epoll_event events[QUEUES_MAX];

	if (rte_epoll_wait_interruptible(
		    RTE_EPOLL_PER_THREAD, events, QUEUES_MAX, (int)options.timeout_ms) > 0)
		return true;
	if (atomic_load(&stop))
		return false;
	seen.timeouts++;
	if (!frames_wait(port))
		return false;
	/* It may have come in this moment: then its interrupt is on its way. */
	if (rte_epoll_wait_interruptible(RTE_EPOLL_PER_THREAD, events, QUEUES_MAX, GRACE_MS) > 0)
		return true;
	seen.missed++;
	fprintf(stderr, "rx_sleep: a wakeup was missed after %" PRIu64 " frames\n", seen.frames);
	return false;
}

static void
linger(void)
{
	if (options.linger_us != 0)
		rte_delay_us_block((unsigned int)rte_rand_max(options.linger_us + 1));
}

static int
sleep_once(uint16_t port)
{
	bool interrupt;
	uint16_t q;

	linger();
	for (q = 0; q < options.queues; q++) {
		if (check(rte_eth_dev_rx_intr_enable(port, q), "enabling an interrupt") != 0)
			return -1;
	}
	linger();
	seen.sleeps++;
	interrupt = wait_for_interrupt(port);
	for (q = 0; q < options.queues; q++) {
		if (check(rte_eth_dev_rx_intr_disable(port, q), "disabling an interrupt") != 0)
			return -1;
	}
	seen.wakes += interrupt;
	if (poll_queues(port) == 0)
		seen.spurious += interrupt;
	return 0;
}

static int
run(uint16_t port)
{
	while (!atomic_load(&stop) && (options.count == 0 || seen.frames < options.count)) {
		if (poll_queues(port) == 0 && sleep_once(port) != 0)
			return -1;
	}
	return 0;
}

static void
print(uint16_t port)
{
	char name[RTE_ETH_NAME_MAX_LEN] = "";
	uint32_t q;

	(void)rte_eth_dev_get_name_by_port(port, name);
	printf("{\"program\": \"rx_sleep\", \"port\": \"%s\", \"frames\": %" PRIu64
	       ", \"frames_by_queue\": [",
		name, seen.frames);
	for (q = 0; q < options.queues; q++)
		printf("%s%" PRIu64, q == 0 ? "" : ", ", seen.by_queue[q]);
	printf("], \"echoed\": %" PRIu64 ", \"not_echoed\": %" PRIu64 ", \"sleeps\": %" PRIu64
	       ", \"wakes\": %" PRIu64 ", \"spurious\": %" PRIu64 ", \"timeouts\": %" PRIu64
	       ", \"missed\": %" PRIu64 "}\n",
		seen.echoed, seen.not_echoed, seen.sleeps, seen.wakes, seen.spurious, seen.timeouts,
		seen.missed);
	fflush(stdout);
}

static int
use_port(void)
{
	uint16_t port = (uint16_t)rte_eth_find_next_owned_by(0, RTE_ETH_DEV_NO_OWNER);
	struct sigaction action = {.sa_handler = on_signal};
	int err;

	if (port >= RTE_MAX_ETHPORTS)
		return complain("no port", "give one, as --vdev or -a");
	(void)sigaction(SIGTERM, &action, NULL);
	(void)sigaction(SIGINT, &action, NULL);
	err = set_up(port);
	if (err == 0) {
		printf("rx_sleep: ready\n");
		fflush(stdout);
		err = run(port);
	}
	if (err == 0)
		print(port);
	(void)rte_eth_dev_stop(port);
	(void)rte_eth_dev_close(port);
	return err;
}

int
main(int argc, char **argv)
{
	int used, err;

	if (argc == 2 && strcmp(argv[1], "--help") == 0) {
		fputs(help, stdout);
		return EXIT_SUCCESS;
	}
	used = rte_eal_init(argc, argv);
	if (used < 0) {
		(void)complain("EAL", rte_strerror(rte_errno));
		return EXIT_FAILURE;
	}
	err = read_options(argc - used, argv + used) != 0 ? EXIT_USAGE
	      : use_port() != 0                           ? EXIT_FAILURE
							  : EXIT_SUCCESS;
	(void)rte_eal_cleanup();
	return err;
}
