/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_interrupts.h>
#include <rte_malloc.h>
#include <rte_memzone.h>

#include "pci.h"
#include "pci_port.h"
#include "sluice_control.h"

struct rte_pci_driver *pci_port_driver;

void __wrap_rte_pci_register(struct rte_pci_driver *driver);
void __real_rte_pci_register(struct rte_pci_driver *driver);

void
__wrap_rte_pci_register(struct rte_pci_driver *driver)
{
	pci_port_driver = driver;
	__real_rte_pci_register(driver);
}

bool pci_port_vectors_on, pci_port_vectors_fail;
uint32_t pci_port_vectors_changes;

int __wrap_rte_intr_enable(const struct rte_intr_handle *intr);
int __wrap_rte_intr_disable(const struct rte_intr_handle *intr);

int
__wrap_rte_intr_enable(const struct rte_intr_handle *intr)
{
	(void)intr;
	pci_port_vectors_on = !pci_port_vectors_fail;
	pci_port_vectors_changes++;
	return pci_port_vectors_fail ? -1 : 0;
}

int
__wrap_rte_intr_disable(const struct rte_intr_handle *intr)
{
	(void)intr;
	pci_port_vectors_on = false;
	pci_port_vectors_changes++;
	return 0;
}

_Atomic(bool) pci_port_only_events;

int __wrap_poll(struct pollfd *fds, nfds_t n, int timeout);
int __real_poll(struct pollfd *fds, nfds_t n, int timeout);

int
__wrap_poll(struct pollfd *fds, nfds_t n, int timeout)
{
	return __real_poll(fds, n, atomic_load(&pci_port_only_events) ? -1 : timeout);
}

static uint32_t ports; /* that there are */

static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static char log_text[1 << 16];
static size_t log_len;

static ssize_t
log_write(void *cookie, const char *text, size_t len)
{
	(void)cookie;
	pthread_mutex_lock(&log_lock);
	if (len < sizeof(log_text) - log_len) {
		memcpy(log_text + log_len, text, len);
		log_len += len;
	}
	pthread_mutex_unlock(&log_lock);
	/* For whoever looks into a failure. */
	return write(STDERR_FILENO, text, len);
}

void
pci_port_log_clear(void)
{
	pthread_mutex_lock(&log_lock);
	log_len = 0;
	pthread_mutex_unlock(&log_lock);
}

uint32_t
pci_port_log_lines(const struct pci_port *p, const char *part)
{
	char *at, *line, text[sizeof(log_text)];
	size_t len = strlen(p->name);
	uint32_t n = 0;

	pthread_mutex_lock(&log_lock);
	memcpy(text, log_text, log_len);
	text[log_len] = '\0';
	pthread_mutex_unlock(&log_lock);
	for (at = text; (line = strsep(&at, "\n")) != NULL;)
		n += strncmp(line, p->name, len) == 0 && line[len] == ':' &&
		     strstr(line, part) != NULL;
	return n;
}

static FILE *
log_open(void)
{
	const cookie_io_functions_t functions = {.write = log_write};
	FILE *file = fopencookie(NULL, "w", functions);

	if (file != NULL)
		setvbuf(file, NULL, _IOLBF, 0);
	return file;
}

int
pci_port_main(const struct CMUnitTest *tests, size_t n)
{
	FILE *file = log_open();
	int failed;

	if (file == NULL || rte_openlog_stream(file) != 0)
		return 1;
	failed = rig_main(tests, n);
	(void)rte_openlog_stream(NULL);
	fclose(file);
	return failed;
}

static void
count_zone(const struct rte_memzone *zone, void *arg)
{
	(void)zone;
	(*(uint32_t *)arg)++;
}

static uint32_t
count_zones(void)
{
	uint32_t n = 0;

	rte_memzone_walk(count_zone, &n);
	return n;
}

static uint64_t
count_allocated(void)
{
	struct rte_malloc_socket_stats stats;

	assert_int_equal(rte_malloc_get_socket_stats(0, &stats), 0);
	return stats.heap_allocsz_bytes;
}

static struct vq_device *
ring_of(struct rig *r, uint32_t ring)
{
	struct pci_mock *m = &((struct pci_port *)(void *)r)->m;

	assert_int_equal(PCI_MOCK_GET(m, queues[ring].enable), 1);
	return &m->queues[ring].vq;
}

/* DPDK's interrupt thread makes its epoll set anew when a callback goes, in its own time. */
static uint32_t
settled_fds(void)
{
	uint32_t before, now = count_fds(), same = 0;

	while (same < 3) {
		before = now;
		poll(NULL, 0, 1);
		now = count_fds();
		same = now == before ? same + 1 : 0;
	}
	return now;
}

void
pci_port_create(struct pci_port *p, pci_port_shape shape)
{
	/* That one makes what DPDK keeps for all. */
	static bool again;

	/* A test failed before, and its threads are still there. */
	if (p->used)
		abort();
	memset(p, 0, sizeof(*p));
	p->used = true;
	p->first = !again;
	again = true;
	snprintf(p->name, sizeof(p->name), "mock%u", ports++);
	p->r.ring = ring_of;
	p->fds = settled_fds();
	p->zones = count_zones();
	p->allocated = count_allocated();
	pci_mock_create(&p->m);
	if (shape != NULL)
		shape(&p->m);
	p->r.pool = rte_pktmbuf_pool_create(p->name, RIG_POOL, 0, 0, RIG_ROOM, SOCKET_ID_ANY);
	assert_non_null(p->r.pool);
	pci_port_log_clear();
}

void
pci_port_give_vectors(struct pci_port *p)
{
	const int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);

	p->intr = rte_intr_instance_alloc(RTE_INTR_INSTANCE_F_PRIVATE);
	assert_non_null(p->intr);
	assert_true(fd >= 0);
	assert_int_equal(rte_intr_fd_set(p->intr, fd), 0);
	assert_int_equal(rte_intr_type_set(p->intr, RTE_INTR_HANDLE_VFIO_MSIX), 0);
	pci_port_vectors_on = false;
	pci_port_vectors_fail = false;
	pci_port_vectors_changes = 0;
}

static void
take_vectors(struct pci_port *p)
{
	if (p->intr == NULL)
		return;
	assert_false(pci_port_vectors_on);
	close(rte_intr_fd_get(p->intr));
	rte_intr_instance_free(p->intr);
	p->intr = NULL;
}

static const enum rte_eth_event_type events[] = {RTE_ETH_EVENT_INTR_LSC, RTE_ETH_EVENT_INTR_RMV,
	RTE_ETH_EVENT_ERR_RECOVERING, RTE_ETH_EVENT_RECOVERY_SUCCESS,
	RTE_ETH_EVENT_RECOVERY_FAILED};

static int
count_event(uint16_t port, enum rte_eth_event_type event, void *arg, void *ret)
{
	struct pci_port *p = arg;

	(void)port;
	(void)ret;
	if (event == RTE_ETH_EVENT_INTR_LSC)
		atomic_fetch_add(&p->link_events, 1);
	else if (event == RTE_ETH_EVENT_INTR_RMV)
		atomic_fetch_add(&p->removed_events, 1);
	else if (event == RTE_ETH_EVENT_ERR_RECOVERING)
		atomic_fetch_add(&p->recovering_events, 1);
	else if (event == RTE_ETH_EVENT_RECOVERY_FAILED)
		atomic_fetch_add(&p->lost_events, 1);
	else
		atomic_fetch_add(&p->recovered_events, 1);
	return 0;
}

static void
count_events(struct pci_port *p)
{
	uint32_t i;

	for (i = 0; i < COUNT_OF(events); i++)
		assert_int_equal(
			rte_eth_dev_callback_register(p->r.port, events[i], count_event, p), 0);
}

int
pci_port_probe(struct pci_port *p, const char *args)
{
	static struct rte_driver driver = {.name = "net_sluice"};
	const struct pci_access access = pci_mock_access(&p->m);
	struct rte_eth_dev *eth;
	struct sluice_dev *dev;
	int err;

	eth = rte_eth_dev_allocate(p->name);
	assert_non_null(eth);
	eth->data->dev_private = rte_zmalloc(p->name, sizeof(*dev), RTE_CACHE_LINE_SIZE);
	assert_non_null(eth->data->dev_private);
	p->device = (struct rte_device){.name = p->name, .driver = &driver};
	eth->device = &p->device;
	eth->intr_handle = p->intr;
	eth->data->numa_node = SOCKET_ID_ANY;
	dev = sluice_dev_of(eth);
	dev->name = p->name;
	dev->data = eth->data;
	assert_int_equal(sluice_devargs_parse(p->name, args, SLUICE_ARGS_PCI, &dev->args), 0);
	err = pci_device_create(eth, &access, p->m.bars, p->intr);
	if (err != 0) {
		eth->data->mac_addrs = NULL;
		rte_eth_dev_release_port(eth);
		return err;
	}
	rte_eth_dev_probing_finish(eth);
	p->eth = eth;
	p->r.port = eth->data->port_id;
	count_events(p);
	return 0;
}

void
pci_port_up(struct pci_port *p, pci_port_shape shape, const struct rig_config *config)
{
	pci_port_create(p, shape);
	if (config->interrupts)
		pci_port_give_vectors(p);
	assert_int_equal(pci_port_probe(p, config->args), 0);
	assert_int_equal(rig_configure(&p->r, config), 0);
	assert_int_equal(rte_eth_dev_start(p->r.port), 0);
	rig_wait_link(&p->r, true);
	pci_mock_forget_commands(&p->m);
	pci_port_log_clear();
}

void
pci_port_ignore_events(struct pci_port *p)
{
	uint32_t i;

	for (i = 0; i < COUNT_OF(events); i++)
		/* Again while it is being called. */
		while (rte_eth_dev_callback_unregister(p->r.port, events[i], count_event, p) ==
			-EAGAIN)
			poll(NULL, 0, 1);
}

void
pci_port_close(struct pci_port *p)
{
	assert_int_equal(rte_eth_dev_stop(p->r.port), 0);
	pci_port_ignore_events(p);
	assert_int_equal(rte_eth_dev_close(p->r.port), 0);
	p->eth = NULL;
}

static void
assert_no_new_fds(const struct pci_port *p)
{
	int i;

	for (i = 0; i < 1000 && count_fds() > p->fds; i++)
		poll(NULL, 0, 1);
	assert_true(count_fds() <= p->fds);
}

void
pci_port_down(struct pci_port *p)
{
	if (p->eth != NULL)
		pci_port_close(p);
	take_vectors(p);
	ports--;
	p->used = false;
	pci_mock_destroy(&p->m);
	assert_int_equal(rte_mempool_avail_count(p->r.pool), RIG_POOL);
	rte_mempool_free(p->r.pool);
	if (!p->first) {
		assert_no_new_fds(p);
		assert_int_equal(count_zones(), p->zones);
		assert_int_equal(count_allocated(), p->allocated);
	}
}

int
pci_port_setup(void **state)
{
	const struct pci_port_case *c = *state;

	pci_port_up(c->p, c->shape, &c->config);
	return 0;
}

int
pci_port_teardown(void **state)
{
	const struct pci_port_case *c = *state;

	pci_port_down(c->p);
	return 0;
}

/* The control thread may be at an idle queue, and keeps bursts out for that long. */
static void
transmit(const struct pci_port *p, struct rte_mbuf *mbuf)
{
	int i;

	for (i = 0; i < 5000 && rte_eth_tx_burst(p->r.port, 0, &mbuf, 1) == 0; i++)
		poll(NULL, 0, 1);
	assert_true(i < 5000);
}

void
pci_port_assert_works(struct pci_port *p)
{
	uint8_t sent[60], got[60];
	struct vq_net_hdr hdr;
	struct rte_mbuf *mbuf;
	uint32_t nseg;

	rig_pattern(sent, sizeof(sent), 3);
	rig_send(&p->r, sent, sizeof(sent), -1);
	assert_int_equal(rte_eth_rx_burst(p->r.port, 0, &mbuf, 1), 1);
	assert_int_equal(rte_pktmbuf_pkt_len(mbuf), sizeof(sent));
	assert_memory_equal(rte_pktmbuf_mtod(mbuf, void *), sent, sizeof(sent));
	transmit(p, mbuf);
	assert_int_equal(rig_take(&p->r, got, sizeof(got), &hdr, &nseg), sizeof(got));
	assert_memory_equal(got, sent, sizeof(sent));
	rig_complete(&p->r);
}

struct rte_mbuf *
pci_port_frame(const struct pci_port *p)
{
	struct rte_mbuf *mbuf = rte_pktmbuf_alloc(p->r.pool);

	assert_non_null(mbuf);
	assert_non_null(rte_pktmbuf_append(mbuf, 60));
	return mbuf;
}

void
pci_port_transmit(struct pci_port *p)
{
	transmit(p, pci_port_frame(p));
}

void
pci_port_assert_rings_are_whole(const struct pci_port *p)
{
	assert_int_equal(
		rte_eth_rx_descriptor_status(p->r.port, 0, RIG_RING - 1), RTE_ETH_RX_DESC_AVAIL);
	assert_int_equal(
		rte_eth_tx_descriptor_status(p->r.port, 0, RIG_RING - 1), RTE_ETH_TX_DESC_DONE);
	assert_int_equal(rig_free(&p->r), RIG_POOL - RIG_RING);
}

void
pci_port_wait_link(struct pci_port *p, bool up)
{
	struct rte_eth_link link = {0};
	int i;

	for (i = 0; i < 5000; i++) {
		assert_int_equal(rte_eth_link_get_nowait(p->r.port, &link), 0);
		if (link.link_status == (up ? RTE_ETH_LINK_UP : RTE_ETH_LINK_DOWN))
			return;
		pci_mock_pass_ms(100);
		sluice_control_wake(sluice_dev_of(p->eth));
		usleep(1000);
	}
	fail_msg("link does not go %s", up ? "up" : "down");
}

void
pci_port_wait_events(struct pci_port *p, uint32_t link_events)
{
	int i;

	for (i = 0; i < 5000 && atomic_load(&p->link_events) < link_events; i++) {
		pci_mock_pass_ms(100);
		sluice_control_wake(sluice_dev_of(p->eth));
		usleep(1000);
	}
	assert_int_equal(atomic_load(&p->link_events), link_events);
}

void
pci_port_unplug(struct pci_port *p)
{
	struct sluice_dev *dev = sluice_dev_of(p->eth);

	pthread_mutex_lock(&dev->lock);
	pci_mock_unplug(&p->m);
	pthread_mutex_unlock(&dev->lock);
}

void
pci_port_turn(struct pci_port *p)
{
	struct sluice_dev *dev = sluice_dev_of(p->eth);
	const uint32_t before = PCI_MOCK_GET(&p->m, looks);
	int i;

	/* One may have begun before. */
	for (i = 0; i < 5000 && PCI_MOCK_GET(&p->m, looks) - before < 2; i++) {
		sluice_control_wake(dev);
		usleep(1000);
	}
	assert_true(i < 5000);
	pthread_mutex_lock(&dev->turn);
	pthread_mutex_unlock(&dev->turn);
}
