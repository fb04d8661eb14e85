/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A worker: one lcore that takes frames from its queues and delivers them. Its state; who owns what
 * of it is said at each part.
 */
#ifndef WORKER_H
#define WORKER_H

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

#include <rte_mbuf.h>

#include "sleep.h"
#include "stats.h"
#include "view.h"
#include "vq_net.h"

/** Frames in one go, and in one turn from one queue. */
#define BURST 64
/** Bytes in one turn from one queue at most. */
#define TURN_BYTES (256 * 1024)
/** Pieces of the frames of a burst; longer chains count as malformed. */
#define BURST_SEGS 2048

struct vswitch;

/** The burst in hand: frames taken from one queue, and where each has to go. */
struct burst {
	uint32_t n;
	uint32_t from; /**< port */
	/** Copies not yet delivered or dropped: what the ledger still waits for. */
	uint32_t open;
	uint64_t pending; /**< ports with a list that has not been delivered */
	const struct vq_frame *frames[BURST];
	const uint8_t *heads[BURST];
	struct rte_mbuf *mbufs[BURST]; /**< where the frames came from an ethdev */
	bool from_eth;
	uint8_t eth_copies[BURST]; /**< ethdev ports that get the frame */
	uint8_t count[PORTS_MAX];
	uint8_t list[PORTS_MAX][BURST]; /**< indices into `frames`, in order, by port */
};

/** Frames on their way into one receive queue: kept here so that a fault can be made good. */
struct delivery {
	struct vring *volatile ring; /**< NULL: none under way */
	uint32_t to;                 /**< port */
	uint32_t n;
	const struct vq_frame *frames[BURST];
	uint8_t status[BURST];
	struct vq_net_copied copied;
};

/** Mbufs on their way to an ethdev, for the same reason. */
struct eth_delivery {
	uint32_t n;
	struct rte_mbuf *mbufs[BURST];
};

/** What was heard lately, so that a burst from one stranger is one message. */
#define LEARN_FILTER 256

struct learner {
	uint64_t filter[LEARN_FILTER];
	uint8_t sent[PORTS_MAX]; /**< messages since it was emptied, by port */
	uint64_t filter_until;   /**< then it is emptied */
	uint64_t announced;      /**< time of the last wake-up of the control thread */
	bool waiting;            /**< something lies in the ring that was not announced */
};

struct worker {
	struct vswitch *sw;
	uint32_t id;
	uint32_t lcore;
	const struct view *view;        /**< of this turn */
	struct port_counters *counters; /**< by port */
	uint64_t now;                   /**< TSC at the start of the turn */
	uint64_t next_second;
	uint32_t second;
	struct vq_net_burst *take;
	struct vq_net_burst *put;
	struct burst burst;
	struct delivery delivery;
	struct eth_delivery eth;
	struct learner learner;
	struct sleeper sleeper;
	struct vq_seg eth_segs[BURST_SEGS]; /**< of frames that lie in mbufs */
	struct vq_frame eth_frames[BURST];
	uint8_t eth_heads[BURST][VQ_NET_HEAD];
	/* A fault in guest memory comes back to where `env` was set. */
	sigjmp_buf env;
	uint32_t fault_port;
	const struct inlet *volatile inlet; /**< being taken from */
	/* For who looks whether a call of ours waits. */
	pthread_t thread;
	_Atomic(bool) started; /**< `thread` is known, and the view is read */
	_Atomic(bool) calling; /**< in a write to a guest's descriptor */
	uint64_t turn_seen;    /**< the control thread's: at its last look */
	/* For telemetry. */
	_Atomic(uint64_t) turns;
	_Atomic(uint64_t) busy_turns;
	_Atomic(uint64_t) packets;
	_Atomic(uint64_t) faults;
};

/** @return NULL without memory */
struct worker *worker_create(struct vswitch *sw, uint32_t id, uint32_t lcore);
void worker_free(struct worker *w);

/** Body of a worker lcore; returns when sw->stop is set. @param arg struct worker */
int worker_main(void *arg);

/** Take from an ethdev queue and send it on its way. @return frames taken */
uint32_t poll_eth(struct worker *w, const struct inlet *in);

/* forward.c: where do the frames of w->burst go? Then to deliver_burst(). */
void forward_burst(struct worker *w);
/** All frames back to the port they came from. */
void reflect_burst(struct worker *w, uint32_t pair);
/** All frames dropped for one reason. */
void drop_burst(struct worker *w, enum drop reason);
/** Deliver what is pending; may be called again after a fault. */
void deliver_burst(struct worker *w);

/** A copy of frame i arrived nowhere; `to` is the port it was for, or PORTS_MAX. */
void drop_frame(struct worker *w, enum drop reason, uint32_t to, uint32_t copies);
/** `n` copies arrived. */
void delivered_frames(struct worker *w, uint32_t to, uint32_t n, uint64_t bytes);

/* deliver_vhost.c */
void deliver_vhost(struct worker *w, uint32_t to, const uint8_t *list, uint32_t n);
/** Put frames of the burst into one ring. */
void deliver_ring(
	struct worker *w, uint32_t to, struct vring *ring, const uint8_t *list, uint32_t n);
/** After a fault in the middle of it: put the ring right unless it is dead, account, unlock. */
void deliver_ring_recover(struct worker *w);

/* ring_call.c */
/**
 * After what was published to a ring, under its lock if it has one: is its guest to be called?
 * @param bytes of the frames that were published
 */
enum vq_call decide_call(struct worker *w, struct vring *ring, uint32_t published, uint64_t bytes);
/** Make the call, or note that it is deferred. Without the lock. */
void call_ring(struct worker *w, struct vring *ring, enum vq_call decision, uint32_t published);
/** Coalescing held a call back: make it, if it is due or is to be flushed. */
void serve_deferred(struct worker *w, struct vring *ring, bool flush);

/* deliver_eth.c */
void deliver_eth(struct worker *w, uint32_t to, const uint8_t *list, uint32_t n);
/** Take up to BURST frames from an ethdev queue into w->burst. @return how many */
uint32_t take_eth(struct worker *w, const struct inlet *in);
/** Free the mbufs of the burst that no ethdev got. */
void release_eth(struct worker *w);

/* learn.c */
/** An address was heard on a port where it was not known. */
void learn(struct worker *w, uint64_t mac, uint32_t port);
/** Once a turn: wake the control thread if there is something and it is time. */
void learn_announce(struct worker *w);

#endif
