/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * All that a worker may reach, as one object behind one pointer. Nobody changes a view that is
 * published, but for the notes that each worker keeps about its own inlets: the control thread
 * makes another, publishes it, and waits until every worker has passed a quiescent state; what only
 * the old one named may then be changed or freed.
 */
#ifndef VIEW_H
#define VIEW_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_common.h>
#include <rte_rcu_qsbr.h>
#include <rte_spinlock.h>

#include "port_config.h"
#include "vq_adapt.h"
#include "vq_device.h"

/** A ring of a vhost-user port, as workers see it. Lives as long as its port. */
struct vring {
	rte_spinlock_t lock; /**< receive queues: more than one worker may deliver */
	_Atomic(int) call;   /**< the port's own duplicate; -1: never call */
	int kick;            /**< the same, to sleep on; -1: cannot */
	struct vq_device *vq;
	uint16_t port;
	_Atomic(bool) dead; /**< its memory went away: leave it alone */
	/** Coalescing holds a call back: 1 + the worker that found so last, which asks again; 0 */
	_Atomic(uint32_t) deferred;
	bool adaptive; /**< calls are moderated as the load has it */
	struct vq_adapt adapt;
	_Atomic(uint8_t) profile; /**< adapt.profile, for telemetry */
} __rte_cache_aligned;

/** A queue that frames are taken from. */
struct inlet {
	uint16_t port;
	uint16_t queue;     /**< of the ethdev; for a ring its queue pair */
	bool discard;       /**< started but disabled: take and drop */
	bool wakes;         /**< a worker may sleep until it has something */
	struct vring *ring; /**< NULL: an ethdev queue */
};

enum view_kind { VIEW_NONE, VIEW_VHOST, VIEW_ETH };

/** A port that frames are delivered to. */
struct view_port {
	enum view_kind kind; /**< VIEW_NONE: not there */
	enum loopback loopback;
	uint32_t max_len; /**< longest frame it may get */
	/* vhost-user */
	bool mergeable;
	uint32_t hdr_len;
	uint32_t nrx;
	struct vring *rx[PAIRS_MAX];      /**< receive queues that are enabled */
	struct vring *rx_pair[PAIRS_MAX]; /**< the same by queue pair, else NULL */
	uint32_t nheld;
	struct vring *held[2 * PAIRS_MAX]; /**< queues whose calls coalescing may hold back */
	const struct vq_mem *mem;
	/* ethdev */
	uint16_t dev;
	uint16_t ntx;             /**< transmit queues; worker n uses n % ntx */
	rte_spinlock_t *tx_locks; /**< one a queue where workers share them, else NULL */
	bool multi_segs;          /**< takes chains of mbufs */
};

/** What one worker does in a turn. Each array has cache lines of its own. */
struct view_worker {
	struct inlet *inlets;
	uint32_t ninlets;
	bool polls; /**< one of them does not wake it */
	/* The worker's own notes about the inlets, which it alone reads; at first all are busy. */
	uint64_t *busy; /**< had something not long ago, by bit */
	uint8_t *empty; /**< looks in a row that found nothing, as far as they are counted */
};

/** Words of `busy`. */
static inline uint32_t
view_words(const struct view_worker *w)
{
	return (w->ninlets + 63) / 64;
}

struct view {
	uint64_t members; /**< ports that frames are switched to, by bit */
	uint64_t eth;     /**< ports that are ethdevs */
	struct view_port ports[PORTS_MAX];
	uint64_t serial; /**< no other view has it; 0: not published yet */
	uint32_t nworkers;
	struct view_worker workers[];
};

/** An empty one. @return NULL without memory */
struct view *view_create(uint32_t nworkers);
void view_free(struct view *v);

/** While it is built: give a worker a queue. @return 0 or -ENOMEM */
int view_add_inlet(struct view *v, uint32_t worker, const struct inlet *inlet);

/** The published view and who reads it. */
struct view_domain {
	_Atomic(struct view *) current;
	struct rte_rcu_qsbr *readers;
	/** Called every few milliseconds while view_synchronize() waits; NULL: nothing to do. */
	void (*waiting)(void *priv);
	void *waiting_priv;
	/** Called when another view is there, before old ones are waited for; NULL: nothing to do.
	 */
	void (*published)(void *priv);
	void *published_priv;
	uint64_t serial; /**< of the last view published */
};

/** @return 0 or -ENOMEM; the first view is an empty one */
int view_domain_init(struct view_domain *d, uint32_t nworkers);
void view_domain_free(struct view_domain *d);

/** Wait until no worker holds what it read before. Control thread; sleeps, does not spin. */
void view_synchronize(struct view_domain *d);

/** Publish `v`, wait, free the one before. Control thread. */
void view_replace(struct view_domain *d, struct view *v);

/** The view to use until the next quiescent state. Worker. */
static inline const struct view *
view_current(const struct view_domain *d)
{
	return atomic_load_explicit(
		(_Atomic(struct view *) *)(uintptr_t)&d->current, memory_order_acquire);
}

#endif
