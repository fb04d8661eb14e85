/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The inline functions of both ends, each once by itself: shapes.py looks at what the compiler
 * makes of them. What is not inline it finds in the library's own objects.
 */
#include "vq_device.h"
#include "vq_driver.h"

bool shape_driver_post(struct vq_driver *q, uint64_t addr, uint32_t len, void *cookie);
enum vq_call shape_device_give(struct vq_device *q, uint16_t head, uint32_t len);
bool shape_gate_enter(_Atomic(uint32_t) *busy, const _Atomic(uint32_t) *open);
void shape_gate_leave(_Atomic(uint32_t) *busy);

bool
shape_driver_post(struct vq_driver *q, uint64_t addr, uint32_t len, void *cookie)
{
	vq_driver_add(q, addr, len, 0, cookie);
	vq_driver_publish(q);
	return vq_driver_need_notify(q);
}

enum vq_call
shape_device_give(struct vq_device *q, uint16_t head, uint32_t len)
{
	vq_device_complete(q, head, len);
	return (enum vq_call)vq_device_publish(q);
}

/* The orders of sluice_gate.h, which needs DPDK. */
bool
shape_gate_enter(_Atomic(uint32_t) *busy, const _Atomic(uint32_t) *open)
{
	atomic_store_explicit(busy, 1, memory_order_seq_cst);
	return atomic_load_explicit((_Atomic(uint32_t) *)(uintptr_t)open, memory_order_seq_cst);
}

void
shape_gate_leave(_Atomic(uint32_t) *busy)
{
	atomic_store_explicit(busy, 0, memory_order_release);
}
