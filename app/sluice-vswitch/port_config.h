/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What the operator says about one port, on the command line or in a file: the same keys, the same
 * checks. No DPDK.
 */
#ifndef PORT_CONFIG_H
#define PORT_CONFIG_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "coalesce_config.h"
#include "problem.h"
#include "vu_socket.h"

#define PORTS_MAX     64
#define PORT_NAME_MAX 31
#define PORT_DEV_MAX  63
/** Queue pairs of a port. */
#define PAIRS_MAX    16
#define PORT_MTU_MIN 68
#define PORT_MTU_MAX 65517 /* a frame of 65,535 bytes with one VLAN tag */

/** What becomes of what a guest sends. */
enum loopback {
	LOOPBACK_OFF,  /**< it is switched */
	LOOPBACK_ON,   /**< it comes back */
	LOOPBACK_MBUF, /**< the same with two copies, by way of an mbuf */
};

struct port_config {
	char name[PORT_NAME_MAX + 1];
	char path[VU_PATH_MAX + 1]; /**< of a vhost-user port, else "" */
	char dev[PORT_DEV_MAX + 1]; /**< of an ethdev port, else "" */
	bool client;                /**< the switch connects; else it listens */
	uid_t owner;                /**< (uid_t)-1: leave */
	gid_t group;                /**< (gid_t)-1: leave */
	mode_t perm;                /**< 0: leave to the umask */
	uint32_t queues;            /**< pairs offered; 0: not said */
	uint32_t mtu;               /**< 0: not said */
	enum loopback loopback;
	bool mrg_rxbuf;
	bool in_order;
	bool indirect;
	bool event_idx;
	struct coalesce_config coalesce;
	uint32_t given; /* which keys were said, to refuse one that is said twice */
};

/** Start a port with its name and the defaults. @return 0 or -EINVAL */
int port_config_init(struct port_config *p, const char *name, struct problem *problem);

/** Take one key. @return 0 or -EINVAL */
int port_config_set(
	struct port_config *p, const char *key, const char *value, struct problem *problem);

/** After the last key: do they go together? @return 0 or -EINVAL */
int port_config_check(const struct port_config *p, struct problem *problem);

/** Parse NAME,key=value,.. as --port takes it, and check it. @return 0 or -EINVAL */
int port_config_parse(struct port_config *p, const char *text, struct problem *problem);

/** A whole decimal number within bounds. @return 0 or -EINVAL, with `what` named in the problem */
int parse_whole(const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *out,
	struct problem *problem);

/** "on" or "off". @return 0 or -EINVAL, with `key` named in the problem */
int parse_switch(const char *key, const char *value, bool *out, struct problem *problem);

#endif
