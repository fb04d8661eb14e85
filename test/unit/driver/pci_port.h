/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A port of net_sluice over the mocked device: what rig.h has for containers, here for PCI. The
 * frames of rig_send() and rig_take() go through the rings that the driver wrote to the registers.
 */
#ifndef PCI_PORT_H
#define PCI_PORT_H

#include "rig.h"
#include "pci_mock.h"

#include <ethdev_pci.h>

#include "sluice.h"

/** What the bus knows of us. */
extern struct rte_pci_driver *pci_port_driver;

struct pci_port {
	struct rig r; /* first */
	struct pci_mock m;
	struct rte_device device;
	struct rte_eth_dev *eth;      /* NULL: there is no port */
	struct rte_intr_handle *intr; /* NULL: the bus has no vectors to give */
	char name[16];
	bool first; /* of this program */
	bool used;  /* until it is down */
	/* What there was before. */
	uint32_t fds, zones;
	uint64_t allocated;
	/* Events that the application was told of. */
	_Atomic(uint32_t) link_events, removed_events, recovering_events, recovered_events,
		lost_events;
};

/** How a case shapes its device, before anything looks at it; may be NULL. */
typedef void (*pci_port_shape)(struct pci_mock *m);

/** DPDK, then the tests. @return exit status */
int pci_port_main(const struct CMUnitTest *tests, size_t n);

/** A device and a pool; no port yet. */
void pci_port_create(struct pci_port *p, pci_port_shape shape);
/** As vfio-pci has them: before it is probed. */
void pci_port_give_vectors(struct pci_port *p);
/** Did the driver enable them? Or may it not? */
extern bool pci_port_vectors_on, pci_port_vectors_fail;
/** Times that it changed its mind. */
extern uint32_t pci_port_vectors_changes;
/** The driver's threads look by themselves no more: they wait to be woken. */
extern _Atomic(bool) pci_port_only_events;
/** Probe as the bus would. @return what pci_device_create() does */
int pci_port_probe(struct pci_port *p, const char *args);
/** The two, and a started port, with vectors if it is to have interrupts; its commands are
 * forgotten.
 */
void pci_port_up(struct pci_port *p, pci_port_shape shape, const struct rig_config *config);
/** Stop and close. */
void pci_port_close(struct pci_port *p);
/** Close, if it is open. Everything is back: mbufs, memory, descriptors; no rule was broken. */
void pci_port_down(struct pci_port *p);

/** With a shape of its own: up, test, down. */
struct pci_port_case {
	struct pci_port *p;
	pci_port_shape shape;
	struct rig_config config;
};

#define PCI_PORT_TEST(port, how, conf, test)                                                       \
	cmocka_unit_test_prestate_setup_teardown(test, pci_port_setup, pci_port_teardown,          \
		&((struct pci_port_case){.p = (port), .shape = (how), .config = conf}))

int pci_port_setup(void **state);
int pci_port_teardown(void **state);

/** A frame each way, through the first pair. */
void pci_port_assert_works(struct pci_port *p);

/** A frame of the pool, and one that is transmitted. */
struct rte_mbuf *pci_port_frame(const struct pci_port *p);
void pci_port_transmit(struct pci_port *p);
/** Every receive buffer is posted, every transmit descriptor is free. */
void pci_port_assert_rings_are_whole(const struct pci_port *p);

/** Let the control thread take turns, and time pass, until the link is so. */
void pci_port_wait_link(struct pci_port *p, bool up);
/** The same, until the application was told of so many changes of the link. */
void pci_port_wait_events(struct pci_port *p, uint32_t link_events);
/** The test has callbacks of its own. */
void pci_port_ignore_events(struct pci_port *p);
/** Pull the device out, at a moment when nobody is at its registers. */
void pci_port_unplug(struct pci_port *p);
/** Let it take a turn that begins now. */
void pci_port_turn(struct pci_port *p);

/** Forget what was logged. */
void pci_port_log_clear(void);
/** Lines of this device since, that contain `part`. */
uint32_t pci_port_log_lines(const struct pci_port *p, const char *part);

#endif
