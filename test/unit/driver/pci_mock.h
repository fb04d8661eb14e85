/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A virtio-pci network device in memory: a configuration space of bytes that a test shapes,
 * registers that behave as the specification wants of a device (virtio 1.3, sections 2.1 and
 * 4.1.4), and a control queue that answers. Every misbehaviour is a knob. No DPDK.
 *
 * The device also watches the driver: what a driver must not do is a violation, which
 * pci_mock_destroy() asserts there was none of. It takes its turn whenever the driver looks at the
 * clock, which it does wherever it waits; and where the device never does what is waited for, each
 * look takes longer, so that nobody has to wait in earnest.
 */
#ifndef PCI_MOCK_H
#define PCI_MOCK_H

#include <pthread.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* setjmp.h before cmocka.h */
#include <setjmp.h>

#include <cmocka.h>

#include "pci_caps.h"
#include "pci_wire.h"
#include "vq_device.h"

#define COUNT_OF(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))

/** The memory BAR, and where in it the structures lie; notifications end with the BAR. */
#define PCI_MOCK_BAR       4
#define PCI_MOCK_COMMON    0x000
#define PCI_MOCK_ISR       0x100
#define PCI_MOCK_DEVICE    0x200
#define PCI_MOCK_NOTIFY    0x300
#define PCI_MOCK_BAR_BYTES 0x340
#define PCI_MOCK_NET_BYTES 12
/** Queues that are told apart; those behind the last are like that. */
#define PCI_MOCK_QUEUES 9
#define PCI_MOCK_SIZE   64
/** Commands of the control queue that are remembered. */
#define PCI_MOCK_COMMANDS 64

/** What the device does with a command. */
enum pci_mock_answer {
	PCI_MOCK_ANSWERS,
	PCI_MOCK_SILENT,
	PCI_MOCK_REFUSES,
	PCI_MOCK_REFUSES_COALESCE, /**< commands of that class alone */
	PCI_MOCK_SILENT_COALESCE,
	PCI_MOCK_SLOW_COALESCE, /**< answers after 900 ms */
	PCI_MOCK_WRONG_ID,
	PCI_MOCK_TOO_LONG, /**< says to have written more than there is */
	PCI_MOCK_WRITES_NOTHING,
};

struct pci_mock_command {
	uint8_t class, command;
	uint8_t data[12];
	uint32_t len; /**< of the data */
};

/** Moderation of interrupts (5.1.6.5.10). */
struct pci_mock_coalesce {
	uint32_t max_packets, max_usecs;
};

struct pci_mock_queue {
	/* The device's. */
	uint16_t max;
	uint16_t notify_off;
	/* Registers. */
	uint16_t size, vector, enable, reset;
	uint64_t desc, driver, device;
	/* While it is enabled: the device's end of the ring. */
	struct vq_device vq;
	struct pci_mock_coalesce coalesce;
	uint32_t starts; /* times it was enabled */
};

struct pci_mock {
	pthread_mutex_t lock;
	uint8_t config[VPCI_CONFIG_LEN];
	uint8_t *memory;
	struct pci_bar bars[VPCI_BARS];
	struct pci_mock *next;

	/* What it has. */
	uint64_t offered;
	uint16_t num_queues;
	uint8_t net[PCI_MOCK_NET_BYTES]; /* struct virtio_net_config */
	uint32_t ctrl;                   /* which queue is for control */
	struct pci_mock_queue queues[PCI_MOCK_QUEUES];

	/* Knobs. */
	bool reset_stuck;      /* a reset never ends, nothing stops */
	uint32_t reset_looks;  /* looks at the status until a reset ends */
	bool refuses_features; /* FEATURES_OK does not stick */
	bool size_fixed;       /* the size register does not take */
	bool never_enables;
	bool no_vectors;       /* vectors read back as 0xffff */
	bool vectors_read_0;   /* as a device without MSI-X may have it */
	int generations;       /* changes of the configuration while it is read; -1: for ever */
	bool ring_reset_stuck; /* a reset of a queue never ends */
	bool needs_reset;      /* at DRIVER_OK */
	bool dead;             /* registers read as ones */
	bool gone;             /* unplugged: configuration space reads as ones, too */
	bool hides;            /* its identity alone reads so */
	bool unreadable;       /* configuration space cannot be read */
	enum pci_mock_answer answer;

	/* Registers. */
	uint8_t status, generation;
	uint32_t device_select, driver_select;
	uint64_t accepted; /* features of the driver */
	uint16_t queue_select, config_vector;
	uint32_t resetting; /* looks left */

	/* The control queue. */
	bool called; /* and not looked at yet */
	uint16_t avail_idx, used_idx;
	struct pci_mock_command commands[PCI_MOCK_COMMANDS];
	uint32_t ncommands;
	struct pci_mock_coalesce coalesce; /* of all receive queues, as it was last set */

	/* Counts. */
	uint32_t looks;    /* whether it is there, in configuration space */
	uint32_t accesses; /* of registers */
	uint32_t resets;   /* that ended */
	uint32_t ring_resets;
	uint32_t violations;
	char violation[128]; /* the first */

	struct vq_mem *mem; /* addresses are those of this process */
};

/** A good device with one pair of queues and a control queue. */
void pci_mock_create(struct pci_mock *m);
/** The driver kept the rules. */
void pci_mock_destroy(struct pci_mock *m);
struct pci_access pci_mock_access(struct pci_mock *m);

/** Give it this many pairs, with MQ. */
void pci_mock_pairs(struct pci_mock *m, uint16_t pairs);
/** Its virtio capability of a type, to be shaped. */
uint8_t *pci_mock_cap(struct pci_mock *m, uint8_t type);
/** One more capability of `len` bytes; where in configuration space: `at`, 0: behind the last. */
uint8_t *pci_mock_add_cap(struct pci_mock *m, uint8_t at, uint8_t id, uint8_t len);
/** The same, for a structure of virtio. */
uint8_t *pci_mock_add_virtio(
	struct pci_mock *m, uint8_t at, uint8_t type, uint8_t bar, uint32_t offset, uint32_t len);
void pci_mock_put16(uint8_t *at, uint16_t value);
void pci_mock_put32(uint8_t *at, uint32_t value);

/** May the device reach memory? */
bool pci_mock_masters(const struct pci_mock *m);
/** Since the last time: was the queue notified? @param value what was written; may be NULL */
bool pci_mock_notified(struct pci_mock *m, uint32_t queue, uint32_t *value);
/** Bits of the status go, or come, behind the driver's back. */
void pci_mock_set_status(struct pci_mock *m, uint8_t clear, uint8_t set);
void pci_mock_set_link(struct pci_mock *m, bool up);
/** Pulled out. */
void pci_mock_unplug(struct pci_mock *m);
/** Change a knob while a driver runs. */
#define PCI_MOCK_SET(m, knob, value)                                                               \
	do {                                                                                       \
		pthread_mutex_lock(&(m)->lock);                                                    \
		(m)->knob = (value);                                                               \
		pthread_mutex_unlock(&(m)->lock);                                                  \
	} while (0)
#define PCI_MOCK_GET(m, knob)                                                                      \
	({                                                                                         \
		__typeof__((m)->knob) knob_now;                                                    \
                                                                                                   \
		pthread_mutex_lock(&(m)->lock);                                                    \
		knob_now = (m)->knob;                                                              \
		pthread_mutex_unlock(&(m)->lock);                                                  \
		knob_now;                                                                          \
	})

/** The last command of a class and kind, -1: there was none since they were forgotten. */
int pci_mock_last_command(struct pci_mock *m, uint8_t class, uint8_t command);
void pci_mock_forget_commands(struct pci_mock *m);

/** The driver's clock goes on by this. */
void pci_mock_pass_ms(uint32_t ms);
void pci_mock_pass_us(uint32_t us);
/** And by nothing else. */
void pci_mock_stop_clock(bool stop);

/* Inside. Under the lock. */
void pci_mock_violate(struct pci_mock *m, const char *format, ...)
	__attribute__((format(printf, 2, 3)));
bool pci_mock_notified_locked(struct pci_mock *m, uint32_t queue, uint32_t *value);
/* pci_mock_regs.c */
uint32_t pci_mock_load(void *priv, const volatile void *at, uint32_t width);
void pci_mock_store(void *priv, volatile void *at, uint32_t width, uint32_t value);
/* pci_mock_coalesce.c */
#define PCI_MOCK_CLASS_COALESCE 6
/** @return whether the device takes it */
bool pci_mock_set_coalesce(struct pci_mock *m, const struct pci_mock_command *c);
/** A queue begins anew. */
void pci_mock_begin_coalesce(struct pci_mock *m, struct pci_mock_queue *q);
/* pci_mock_ctrl.c */
void pci_mock_enter(struct pci_mock *m);
void pci_mock_leave(struct pci_mock *m);

#endif
