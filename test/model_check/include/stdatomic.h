/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * <stdatomic.h> for the model checker, first in its include path: what lib/virtqueue uses of it.
 * Every atomic of the library lies in memory that the peer writes too, so each access goes to a
 * model: hostile.h (any value, at each load) or turns.h (the values of two interleaved threads).
 * The orders are ignored here, which is sequential consistency; test/model_check/litmus has them.
 */
#ifndef MODEL_STDATOMIC_H
#define MODEL_STDATOMIC_H

#define _Atomic(type) type

#define memory_order_relaxed 0
#define memory_order_acquire 2
#define memory_order_release 3
#define memory_order_seq_cst 5

unsigned short model_load(const unsigned short *p);
void model_store(unsigned short *p, unsigned short value);

#define atomic_load_explicit(p, order)         ((void)(order), model_load(p))
#define atomic_store_explicit(p, value, order) ((void)(order), model_store(p, value))
#define atomic_thread_fence(order)             ((void)(order))

#endif
