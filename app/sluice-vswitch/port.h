/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A port, of whatever kind, as the control thread and telemetry see it.
 */
#ifndef PORT_H
#define PORT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_cycles.h>

#include "port_config.h"
#include "view.h"

struct vswitch;
struct port;

enum port_state {
	PORT_DOWN,      /**< no guest */
	PORT_CONNECTED, /**< a guest talks to us, its rings do not run */
	PORT_UP,
};

/** What took a port away from a guest in the middle of things. */
enum port_fault {
	PORT_FAULT_NONE,
	PORT_FAULT_MEMORY, /**< an access to its memory faulted */
	PORT_FAULT_CALL,   /**< a call to it waited */
};

/** What a kind of port can do. All on the control thread. */
struct port_ops {
	void (*destroy)(struct port *p);
	/** Say what workers may reach now. @return 0 or -ENOMEM */
	int (*view)(struct port *p, struct view *v);
	/** A few times a second; NULL: nothing to do. @param now port_clock() */
	void (*tick)(struct port *p, uint64_t now);
	/** What to wait for, and what to do then; NULL: nothing. */
	int (*fd)(const struct port *p);
	void (*process)(struct port *p);
};

struct port {
	struct vswitch *sw;
	const struct port_config *config;
	uint32_t id;
	const struct port_ops *ops; /**< NULL: not made */
	void *impl;
	/* For telemetry, which runs in a thread of its own. */
	_Atomic(uint32_t) state; /**< enum port_state */
	_Atomic(int32_t) node;   /**< NUMA node of the guest's memory or the device; -1: unknown */
	_Atomic(uint64_t) features;
	_Atomic(uint64_t) protocol;
	_Atomic(uint32_t) queue_pairs; /**< in use */
	_Atomic(uint64_t) connects;
	_Atomic(uint64_t) bad_messages;
	/** enum port_fault: set by a worker; then the control thread takes the port down. */
	_Atomic(uint32_t) fault;
};

/** Make what p->config says. In server mode the socket listens on return. @return 0 or -errno */
int vhost_port_create(struct port *p, struct problem *problem);
/** How calls to the guest of a vhost-user port are moderated. Any thread. */
const struct coalesce_config *vhost_port_coalesce(const struct port *p);
/** The profile that adaptive coalescing has found for a ring. Any thread. */
uint32_t vhost_port_profile(const struct port *p, uint32_t ring);
int eth_port_create(struct port *p, struct problem *problem);

/** Milliseconds since some time or other. */
static inline uint64_t
port_clock(void)
{
	return rte_get_tsc_cycles() / (rte_get_tsc_hz() / 1000);
}

const char *port_state_name(enum port_state state);

#endif
