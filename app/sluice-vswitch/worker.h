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

/**
 * While others are busy, a queue in which so many looks in a row found nothing is looked at in one
 * of QUIET_TURNS turns, and after QUIET_US and a turn at the latest, until it has something. 64
 * ports of which two are busy so cost little more than two.
 */
#define QUIET_LOOKS 64
#define QUIET_TURNS 8
#define QUIET_US    20

struct vswitch;

/** A list of frames, in order. */
typedef const struct vq_frame *frame_list[BURST];

/** The burst in hand: frames taken from one queue, and where each has to go. */
struct burst {
	uint32_t n;
	uint32_t from; /**< port */
	/** Copies not yet delivered or dropped: what the ledger still waits for. */
	uint32_t open;
	uint32_t longest; /**< bytes of a frame */
	uint64_t bytes;   /**< of all frames */
	bool good;        /**< all frames have status VQ_NET_OK */
	bool same;        /**< and the addresses of the first */
	bool from_eth;
	uint64_t pending; /**< ports with a list that has not been delivered */
	/** All of them, one behind the other: frame i is frames[0] + i. */
	const struct vq_frame *const *frames;
	struct rte_mbuf *mbufs[BURST]; /**< where the frames came from an ethdev */
	uint8_t eth_copies[BURST];     /**< then: ethdev ports that get the frame */
	uint8_t count[PORTS_MAX];
	frame_list list[PORTS_MAX];
};

/** Where the addresses of the last burst of a port were found, that a look says more than a search.
 */
struct last_found {
	struct fdb_entry *source;
	struct fdb_entry *target;
};

/** Frames on their way into one receive queue: kept here so that a fault can be made good. */
struct delivery {
	struct vring *volatile ring; /**< NULL: none under way */
	uint32_t to;                 /**< port */
	uint32_t n;
	const struct vq_frame *const *frames; /**< they, and the list, last until it is done */
	union {
		uint8_t status[BURST];
		uint64_t statuses[BURST / 8];
	};
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
	uint16_t sent[PORTS_MAX]; /**< messages since it was emptied, by port */
	uint64_t filter_until;    /**< then it is emptied */
	uint64_t announced;       /**< time of the last wake-up of the control thread */
	bool waiting;             /**< something lies in the ring that was not announced */
};

struct worker {
	struct vswitch *sw;
	uint32_t id;
	uint32_t lcore;
	const struct view *view;        /**< of this turn */
	struct port_counters *counters; /**< by port */
	uint64_t now;                   /**< TSC at the start of the turn */
	uint64_t deferred;              /**< ports with a ring that it deferred a call to, or did */
	uint32_t share; /**< of the queues that are not busy: which is looked at in this turn */
	uint64_t full;  /**< TSC of the last turn in which all were looked at */
	uint64_t quiet; /**< ticks that may pass until they are again */
	bool found;     /**< something, in the last turn */
	uint64_t next_second;
	uint32_t second;
	struct vq_net_burst *take;
	struct vq_net_burst *put;
	struct burst burst;
	frame_list taken;     /**< frames of `take` */
	frame_list eth_taken; /**< eth_frames */
	frame_list spread;    /**< the part of a list that goes to one queue */
	struct last_found last[PORTS_MAX];
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

/** @return NULL with errno: without memory, or without descriptors to sleep on */
struct worker *worker_create(struct vswitch *sw, uint32_t id, uint32_t lcore);
void worker_free(struct worker *w);

/** Body of a worker lcore; returns when sw->stop is set. @param arg struct worker */
int worker_main(void *arg);

/** Once through all its queues. The calling thread is online for RCU. @return frames taken */
uint32_t worker_turn(struct worker *w);

/** Take from an ethdev queue and send it on its way. @return frames taken */
uint32_t poll_eth(struct worker *w, const struct inlet *in);

/* forward.c: where do the frames of w->burst go? Then to deliver_burst(). */
void forward_init(struct worker *w);
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
/** A list of frames to a port. It must last, for a fault to be made good: in `w`. */
void deliver_vhost(struct worker *w, uint32_t to, const struct vq_frame *const *list, uint32_t n);
/** The same, into one ring. */
void deliver_ring(struct worker *w, uint32_t to, struct vring *ring,
	const struct vq_frame *const *list, uint32_t n);
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
/** Make the calls that this worker deferred and that are due, or all of them. */
void serve_deferred(struct worker *w, bool flush);

/* deliver_eth.c */
void deliver_eth(struct worker *w, uint32_t to, const struct vq_frame *const *list, uint32_t n);
/** Into a ring of a guest with two copies, as who has frames in mbufs does it: to measure against.
 */
void deliver_by_mbufs(struct worker *w, uint32_t to, struct vring *ring,
	const struct vq_frame *const *list, uint32_t n);
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
