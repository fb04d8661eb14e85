/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Both ends of lib/virtqueue as a benchmark, without DPDK: the driver end does what the poll-mode
 * driver does at the ring, the device end what a worker of the switch does.
 */
#ifndef PAIR_H
#define PAIR_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "args.h"
#include "cpu.h"
#include "packet.h"
#include "vq_device.h"
#include "vq_driver.h"
#include "vq_net.h"
#include "vq_refill.h"

/* Numbers of frames repeat their size and pattern after so many, unless they circulate. */
#define PERIOD 252
/* One frame in so many is compared byte by byte. */
#define CHECK_EVERY 4096

struct options {
	enum mode mode;
	uint32_t size;  /* of a frame; 0: imix */
	uint32_t ring;  /* entries */
	uint32_t turn;  /* frames that the device takes at most at a time */
	uint32_t burst; /* packets that the driver handles at a time */
	uint32_t write; /* bytes of the frame that the driver writes in tx mode */
	uint32_t in_flight;
	uint64_t features;
	bool chain; /* the header in a descriptor of its own */
	bool read_header;
	bool one_thread;
	bool any_order; /* frames of several senders: their numbers have no order */
	int cpus[2];
	uint64_t run_ns;  /* 0: `packets` instead */
	uint64_t packets; /* to measure, without warming up */
};

enum phase {
	WARM,    /* running, not measured */
	MEASURE, /* the driver's counter counts */
	STOP,    /* nothing new is sent */
	END,     /* nothing is under way: the device may go */
};

/** Private to the driver's thread. */
struct driver_end {
	struct vq_driver tx, rx;
	struct vq_refill refill;
	struct pool pool;
	uint32_t free_thresh;
	uint64_t zero_addr;             /* a header of zeros, for --chain */
	struct packet *held[BURST_MAX]; /* not sent yet, the ring was full */
	uint32_t nheld;
	uint64_t sent, received, seq_next, notified;
	uint64_t begin_ns, end_ns, begin_count, end_count;
};

/** Private to the device's thread. */
struct device_end {
	struct vq_device tx, rx;
	struct vq_mem *mem;
	struct vq_net_burst *take, *put;
	const struct vq_frame *frames[BURST_MAX];
	uint8_t status[BURST_MAX];
	struct vq_net_copied copied;
	/* tx and rx mode: frames in memory of its own. */
	struct packet *own;
	struct vq_seg own_segs[PERIOD];
	struct vq_frame own_frames[PERIOD];
	uint64_t taken, delivered, seq_next, calls;
	uint32_t headers; /* a sum, so that reading them is not left out */
};

struct pair {
	struct options o;
	uint32_t period;
	uint32_t sizes[12];       /* of frame number mod period mod 12 */
	uint8_t front[FRAME_MAX]; /* what the driver writes in tx mode */
	uint64_t guest_base;      /* what to add to a pointer for the address in descriptors */
	_Alignas(BENCH_APART) _Atomic(uint32_t) phase;
	_Alignas(BENCH_APART) _Atomic(uint64_t) device_lost; /* by the device, receive ring full */
	_Atomic(bool) device_stopped;                        /* rx mode: delivered is final */
	_Alignas(BENCH_APART) struct driver_end driver;
	_Alignas(BENCH_APART) struct device_end device;
};

/* pair_check.c */
/** Print and end: what was measured was no working ring. */
void pair_fail(const char *what, uint64_t got, uint64_t expected) __attribute__((noreturn));
uint32_t pair_size_of(const struct pair *p, uint64_t seq);
/** Fill a frame but for its number: its body says which number it has. */
void pair_fill_body(const struct pair *p, uint8_t *frame, uint64_t seq, uint32_t len);
/** Compare a frame with what was sent under its number. */
void pair_check_frame(const struct pair *p, const uint8_t *frame, uint32_t len);
/** After the run: nothing lost that was not counted, no buffer leaked, no end broken. */
void pair_check_end(struct pair *p);

/* pair_setup.c */
/** Memory, rings, pool; the receive ring filled. */
void pair_setup(struct pair *p);

/* pair_driver.c */
/** A receive and a transmit burst, as far as the mode has them. */
void driver_turn(struct pair *p);
/** In loop mode: send what is to circulate. */
void driver_prime(struct pair *p);
/** After STOP: take back what comes. @return true when nothing is under way */
bool driver_drain(struct pair *p);
/** The parts whose instructions are counted, by name. */
void driver_rx_post(struct driver_end *d, const struct pair *p, uint32_t consumed);

/* pair_device.c */
void device_turn(struct pair *p);

#endif
