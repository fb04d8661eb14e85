/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Everything in which DPDK releases from 22.11 to 26.07 differ for this driver, and nothing else.
 */
#ifndef SLUICE_DPDK_COMPAT_H
#define SLUICE_DPDK_COMPAT_H

#include <pthread.h>
#include <stdbool.h>

#include <ethdev_driver.h>
#include <ethdev_vdev.h>
#include <rte_version.h>

/* Control threads: rte_thread_create_control() is there since 23.07 and stable since 23.11, which
 * dropped rte_ctrl_thread_create(). */
#if RTE_VERSION >= RTE_VERSION_NUM(23, 11, 0, 0)
#include <rte_thread.h>
typedef rte_thread_t sluice_thread;
#define SLUICE_THREAD_RESULT    uint32_t
#define SLUICE_THREAD_RETURN    0
#define SLUICE_THREAD_NAME_SIZE RTE_THREAD_NAME_SIZE

static inline int
sluice_thread_create(sluice_thread *thread, const char *name, rte_thread_func fn, void *arg)
{
	return rte_thread_create_control(thread, name, fn, arg);
}

static inline void
sluice_thread_join(sluice_thread thread)
{
	(void)rte_thread_join(thread, NULL);
}

static inline void
sluice_thread_detach(sluice_thread thread)
{
	(void)rte_thread_detach(thread);
}

static inline bool
sluice_thread_is_self(sluice_thread thread)
{
	return rte_thread_equal(thread, rte_thread_self());
}
#else
#include <rte_lcore.h>
typedef pthread_t sluice_thread;
#define SLUICE_THREAD_RESULT    void *
#define SLUICE_THREAD_RETURN    NULL
#define SLUICE_THREAD_NAME_SIZE RTE_MAX_THREAD_NAME_LEN

static inline int
sluice_thread_create(sluice_thread *thread, const char *name, void *(*fn)(void *), void *arg)
{
	return rte_ctrl_thread_create(thread, name, NULL, fn, arg);
}

static inline void
sluice_thread_join(sluice_thread thread)
{
	(void)pthread_join(thread, NULL);
}

static inline void
sluice_thread_detach(sluice_thread thread)
{
	(void)pthread_detach(thread);
}

static inline bool
sluice_thread_is_self(sluice_thread thread)
{
	return pthread_equal(thread, pthread_self()) != 0;
}
#endif

/* Statistics of queues: 25.11 moved them out of struct rte_eth_stats, into an argument of the op.
 */
#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
typedef struct eth_queue_stats sluice_queue_stats;
#define SLUICE_STATS_GET(fn)                                                                       \
	static int fn##_op(struct rte_eth_dev *dev, struct rte_eth_stats *stats,                   \
		struct eth_queue_stats *queues)                                                    \
	{                                                                                          \
		return fn(dev, stats, queues);                                                     \
	}
#else
typedef struct rte_eth_stats sluice_queue_stats;
#define SLUICE_STATS_GET(fn)                                                                       \
	static int fn##_op(struct rte_eth_dev *dev, struct rte_eth_stats *stats)                   \
	{                                                                                          \
		return fn(dev, stats, stats);                                                      \
	}
#endif

/* Since 24.03 a transmit queue can be asked how full it is. */
static inline void
sluice_set_tx_queue_count(struct rte_eth_dev *dev, int (*fn)(void *queue))
{
#if RTE_VERSION >= RTE_VERSION_NUM(24, 3, 0, 0)
	dev->tx_queue_count = fn;
#else
	RTE_SET_USED(dev);
	RTE_SET_USED(fn);
#endif
}

/* What the rx_queue_count op returns: 25.11 can tell of errors. */
#if RTE_VERSION >= RTE_VERSION_NUM(25, 11, 0, 0)
typedef int sluice_rx_count;
#else
typedef uint32_t sluice_rx_count;
#endif

/* Where an mbuf has its IOVA. 23.03 gave the choice a name of its own; without the field, IOVA are
 * virtual addresses. */
#ifndef RTE_IOVA_IN_MBUF
#define RTE_IOVA_IN_MBUF RTE_IOVA_AS_PA
#endif
#if RTE_IOVA_IN_MBUF
#define SLUICE_MBUF_IOVA buf_iova
#else
#define SLUICE_MBUF_IOVA buf_addr
#endif

/* The version that this was compiled with against the one that is loaded; INTERNAL symbols promise
 * nothing from one to the next. */
static inline bool
sluice_dpdk_matches(void)
{
	return rte_version_year() == RTE_VER_YEAR && rte_version_month() == RTE_VER_MONTH &&
	       rte_version_minor() == RTE_VER_MINOR && rte_version_release() == RTE_VER_RELEASE;
}

#endif
