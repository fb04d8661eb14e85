/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What the operator asks for, checked as far as that is possible without the ports. No DPDK.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "problem.h"

/** Sizes are those of an mbuf: without the frame check sequence. */
#define SIZE_LEAST  60
#define SIZE_MOST   65535
#define SIZE_VERIFY 64 /* the least with --verify */
#define SIZES_MAX   (SIZE_MOST - SIZE_LEAST + 1)
#define FLOWS_MAX   65536
#define QUEUES_MAX  64
#define BURST_MAX   1024
#define WINDOW_MAX  (1u << 20)
#define GROUP_MAX   1000000
#define RATE_MAX    1000000000
#define DESCS_MAX   32768
#define MBUFS_MAX   (1u << 24)
#define MTU_MAX     (SIZE_MOST - 14)
#define ROOM_LEAST  64 /* of an mbuf, without its headroom */
#define ROOM_MOST   (UINT16_MAX - 128)
#define MS_MAX      3600000
#define SECONDS_MAX 86400
#define SPELL_MAX   60000000 /* us */
#define PORT_MAX    64

struct mac {
	bool given;
	uint8_t bytes[6];
};

struct options {
	char tx[PORT_MAX], rx[PORT_MAX]; /**< port number or name; "": not this direction */
	uint64_t rate;                   /**< frames a second; 0: as fast as it goes */
	uint64_t count;                  /**< frames; 0: no limit */
	uint64_t duration_us;            /**< 0: no limit */
	uint64_t warmup_us;
	uint64_t on_us, off_us; /**< shape on-off; off_us is 0: always on */
	uint32_t group;         /**< shape bursts: frames due together; else 1 */
	uint32_t burst;         /**< frames a call of tx_burst and rx_burst */
	uint32_t window;        /**< frames in flight at most; 0: open loop */
	uint32_t flows;
	uint32_t queues;
	uint32_t rx_descs, tx_descs; /**< 0: the driver's choice */
	uint32_t mbufs;              /**< of each pool; 0: enough for the rings */
	uint32_t mtu;                /**< 0: what the longest frame needs */
	uint32_t mbuf_size;          /**< data room of the receive mbufs; 0: enough for a frame */
	uint32_t stream;
	uint32_t drain_ms;
	uint32_t away_us, away_every_us;     /**< the receiver's absences; 0: none */
	uint32_t starve_us, starve_every_us; /**< it holds all mbufs; 0: never */
	uint64_t seed;                       /**< of what is random */
	uint32_t late_us; /**< from when on a deadline or a poll counts as late */
	uint32_t link_s;
	bool shift; /**< a late schedule is moved, not caught up with */
	bool verify;
	bool global; /**< one sequence for all flows */
	bool announce;
	bool time_calls;
	bool sleep; /**< the receiver, on its interrupts */
	bool keep_armed;
	bool help, version;
	struct mac src, dst;
	uint32_t nsizes;
	uint16_t sizes[SIZES_MAX]; /**< used in turn */
	const char *size_text;     /**< as given */
	const char *shape_text;
	const char *json; /**< a file, or NULL */
};

void options_init(struct options *o);

/** @return 0 or -EINVAL */
int options_parse(struct options *o, int argc, char *const *argv, struct problem *problem);

/** Does the word name an option that takes a value? For those put before "--". */
bool options_has(const char *word);

void options_print_help(FILE *to);

/** Bytes of the longest frame. */
uint32_t options_longest(const struct options *o);

#endif
