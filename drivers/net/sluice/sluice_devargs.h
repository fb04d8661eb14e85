/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Device arguments of net_sluice_user and net_sluice.
 */
#ifndef SLUICE_DEVARGS_H
#define SLUICE_DEVARGS_H

#include <stdbool.h>
#include <stdint.h>

#include <rte_ether.h>

#include "vq_adapt.h"
#include "vq_refill.h"
#include "vu_socket.h"

/** Which driver's arguments. */
enum sluice_args_of {
	SLUICE_ARGS_USER = 1,
	SLUICE_ARGS_PCI = 2,
};

/** Moderation of receive interrupts. */
enum sluice_coalesce_mode {
	SLUICE_COALESCE_OFF,
	SLUICE_COALESCE_STATIC,
	SLUICE_COALESCE_ADAPTIVE,
};

struct sluice_devargs {
	bool declined; /* PCI: left to another driver */
	char path[VU_PATH_MAX + 1];
	bool server;
	uint32_t queues;     /* pairs */
	uint32_t queue_size; /* default of the application's ring sizes */
	struct rte_ether_addr mac;
	bool has_mac;
	bool mrg_rxbuf, in_order, indirect, event_idx;
	enum vq_refill_mode refill;
	uint32_t refill_budget;
	enum sluice_coalesce_mode coalesce;
	struct vq_adapt_profile coalesce_static; /* zeros: not given */
};

/** Longest that a static setting may leave an application asleep. */
#define SLUICE_COALESCE_USECS_MAX 100000

#define SLUICE_COALESCE_PARAMS                                                                     \
	"coalesce=off|static|adaptive coalesce_frames=<1..32768> coalesce_usecs=<1..100000>"

/** What a user may write, for RTE_PMD_REGISTER_PARAM_STRING. */
#define SLUICE_USER_PARAMS                                                                         \
	"path=<socket> server=0|1 queues=<1..128> queue_size=<1..32768> mac=<xx:xx:xx:xx:xx:xx> "  \
	"mrg_rxbuf=0|1 in_order=0|1 indirect=0|1 event_idx=0|1 refill=budget|half|eager "          \
	"refill_budget=<1..32768> " SLUICE_COALESCE_PARAMS

#define SLUICE_PCI_PARAMS                                                                          \
	"sluice=0|1 vdpa=0|1 queue_size=<1..32768> mrg_rxbuf=0|1 in_order=0|1 indirect=0|1 "       \
	"event_idx=0|1 "                                                                           \
	"refill=budget|half|eager refill_budget=<1..32768> " SLUICE_COALESCE_PARAMS

/**
 * Parse the arguments of a device.
 * @param name of the device, for the log
 * @param text as the user wrote them; NULL is none
 * @return 0, or -EINVAL with one line in the log that names the key and the remedy
 */
int sluice_devargs_parse(
	const char *name, const char *text, enum sluice_args_of of, struct sluice_devargs *out);

#endif
