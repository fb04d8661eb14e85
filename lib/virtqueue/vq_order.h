/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The memory orders a split ring needs, named by purpose, and the two notification rules that both
 * ends share. C11 atomics throughout; right on x86-64 and aarch64.
 *
 * The pairs, each barrier with the one at the other end that it meets:
 *
 * - [A] vq_driver_publish() stores avail->idx (release); vq_device_peek() loads it (acquire)
 *   before the entries. With it come descriptors, entries and the bytes to transmit; and the
 *   driver has read what it received before the device writes that buffer and used entry again.
 *
 * - [B] vq_device_publish() stores used->idx (release); vq_driver_reap() and vq_driver_done() load
 *   it (acquire) before the entries. With it come used entries and the bytes received; and the
 * device has read descriptors and bytes to transmit before the driver writes that slot and buffer
 * again.
 *
 * - [C] vq_driver_need_notify() and vq_device_call(), after publishing, fence fully, then read
 *   the wish of the other end; vq_device_arm() and vq_driver_arm() write the wish, fence fully,
 *   then look at the index again. One of the two sees the other: no notification is lost
 *   (2.7.7, 2.7.10).
 *
 * Everything else in shared memory is plain or relaxed, and ordered by [A] and [B]. Disarming has
 * no barrier: a wish seen late is a notification too many, never one too few.
 * test/model_check/litmus checks each pair, and that no barrier can be left out.
 */
#ifndef VQ_ORDER_H
#define VQ_ORDER_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/** Read the index that the other end publishes; entries below it may then be read. Pairs [A], [B].
 */
static inline uint16_t
vq_load_index(const _Atomic(uint16_t) *idx)
{
	return atomic_load_explicit((_Atomic(uint16_t) *)(uintptr_t)idx, memory_order_acquire);
}

/** Publish an index after the entries below it. Pairs [A], [B]. */
static inline void
vq_publish_index(_Atomic(uint16_t) *idx, uint16_t value)
{
	atomic_store_explicit(idx, value, memory_order_release);
}

/** Between publishing and reading the peer's wish, and between arming and looking again. Pair [C].
 */
static inline void
vq_notify_fence(void)
{
	atomic_thread_fence(memory_order_seq_cst);
}

/** A shared field of which only the value matters: flags, events, entries below an index. */
static inline uint16_t
vq_load(const _Atomic(uint16_t) *p)
{
	return atomic_load_explicit((_Atomic(uint16_t) *)(uintptr_t)p, memory_order_relaxed);
}

static inline void
vq_store(_Atomic(uint16_t) *p, uint16_t value)
{
	atomic_store_explicit(p, value, memory_order_relaxed);
}

/** Store only where another value stands: the line stays shared when nothing changes. */
static inline void
vq_store_unless_equal(_Atomic(uint16_t) *p, uint16_t value)
{
	if (vq_load(p) != value)
		vq_store(p, value);
}

/** Fetch a line. Any address will do: nothing is read. */
static inline void
vq_prefetch_read(uintptr_t at)
{
	__builtin_prefetch((const void *)at);
}

/**
 * Fetch a line that is going to be written, so that it comes with the right to write. The compiler
 * makes a plain fetch of __builtin_prefetch(p, 1) for the oldest x86-64, though the instruction
 * works or does nothing on all of them.
 */
static inline void
vq_prefetch_write(uintptr_t at)
{
#ifdef __x86_64__
	__asm__ volatile("prefetchw (%0)" : : "r"(at));
#else
	__builtin_prefetch((const void *)at, 1);
#endif
}

/**
 * EVENT_IDX (2.7.7.2): did the index pass `event` on its way from `old` to `now`?
 * All three are free-running and may have wrapped.
 */
static inline bool
vq_event_passed(uint16_t event, uint16_t now, uint16_t old)
{
	return (uint16_t)(now - event - 1) < (uint16_t)(now - old);
}

#endif
