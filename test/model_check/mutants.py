# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Faults that the proofs must find: in a copy of the library, one text becomes another."""

from dataclasses import dataclass


@dataclass
class Mutant:
    name: str
    proof: str
    file: str
    old: str
    new: str
    # A second place of the same file.
    also: tuple = ()


MUTANTS = [
    Mutant("event-by-one", "event", "vq_order.h",
           "(uint16_t)(now - event - 1) <", "(uint16_t)(now - event) <"),
    Mutant("event-field", "layout", "vq_layout.c",
           "size * sizeof(uint16_t) + sizeof(uint16_t) + VQ_CACHE_LINE - 4",
           "size * sizeof(uint16_t)"),
    Mutant("bound", "refill", "vq_refill.h",
           "return free < most ? free : most;", "return most;"),
    Mutant("empty-call", "refill", "vq_refill.h",
           "consumed != 0 && free <= budget / 2", "free <= budget / 2"),
    Mutant("saturation", "coalesce", "vq_coalesce.h",
           "c->pending + n < c->pending ? UINT32_MAX : c->pending + n", "c->pending + n"),
    Mutant("overlap-check", "map-2", "vq_mem.c",
           "mem->regions[i].addr - mem->regions[i - 1].addr < mem->regions[i - 1].size",
           "mem->regions[i].addr == mem->regions[i - 1].addr"),
    Mutant("wrap-check", "map-1", "vq_mem.c",
           "r->size == 0 || r->addr + (r->size - 1) < r->addr", "r->size == 0"),
    Mutant("last-byte", "translate-1", "vq_mem.h",
           "if (__builtin_expect(off < r->size, 1))", "if (__builtin_expect(off <= r->size, 1))"),
    Mutant("used-id-check", "driver-reap-transmit-2", "vq_driver.c",
           "return id < q->size && q->slots[id].ndesc != 0;", "return id < q->size;"),
    Mutant("used-id-range", "driver-reap-transmit-2", "vq_driver.c",
           "return id < q->size && q->slots[id].ndesc != 0;",
           "return q->slots[id & 0xff].ndesc != 0;"),
    Mutant("index-check", "driver-reap-receive-2-in-order", "vq_driver.h",
           "if (have > vq_driver_inflight(q))", "if (have > q->size)"),
    Mutant("expected-id", "driver-reap-transmit-2", "vq_driver.h",
           "if (__builtin_expect(done->used[i].id != done->id + i, 0))", "if (false)"),
    Mutant("out-of-step", "driver-reap-transmit-2", "vq_driver.c",
           "		q->in_step = q->fixed = false;\n", "		q->fixed = false;\n"),
    Mutant("taken-marks", "driver-reap-receive-2", "vq_driver.h",
           "		vq_driver_set_slot(&slots[i], 0, 0);\n", "		continue;\n"),
    Mutant("end-of-chain", "driver-add-2", "vq_driver.c",
           "q->slots[d - q->desc].next = id;", ""),
    Mutant("forgetting", "driver-detach-2", "vq_driver.c",
           "		q->slots[i].ndesc = 0;\n		fn(", "		fn("),
    Mutant("seen-index", "driver-init-1", "vq_driver.c",
           "q->free_tail = (uint16_t)q->size;", "q->free_tail = (uint16_t)(q->size + 1);"),
    Mutant("publishing", "driver-signals-2", "vq_driver.h",
           "		q->published = q->avail_idx;\n", "		q->published++;\n"),
    Mutant("rewinding", "device-step-2", "vq_device.h",
           "	q->outstanding = (uint16_t)(q->outstanding - n);\n", ""),
    Mutant("batch-length", "device-step-2", "vq_device.c",
           "q->used_idx = (uint16_t)(q->used_idx + n - 1);",
           "q->used_idx = (uint16_t)(q->used_idx + n);"),
    Mutant("mask", "device-step-2", "vq_device.h",
           "&q->used->ring[q->used_idx & q->mask]", "&q->used->ring[q->used_idx]"),
    Mutant("next-range", "device-chain-1-0", "vq_device.c",
           "		if (d.next >= q->size)\n			return VQ_CHAIN_NEXT;\n", ""),
    Mutant("room", "device-chain-1-0", "vq_device.c",
           "		if (w->nseg == w->room)\n			return VQ_CHAIN_SEGMENTS;\n", ""),
    Mutant("cut-at-region", "device-chain-1-0", "vq_device.c",
           "		if (have > left)\n			have = left;\n",
           "		have = left;\n"),
    Mutant("second-look", "calls-flags-2", "vq_driver.c",
           "return q->fault == VQ_DRIVER_OK && vq_load_index(&q->used->idx) != q->used_idx;",
           "return false;"),
    Mutant("held-call", "calls-event-2", "vq_device.c",
           "		old = (uint16_t)(q->published - q->size);\n", ""),
    Mutant("decision-for-all", "calls-event-2", "vq_device.c",
           "uint16_t old = q->call_idx;", "uint16_t old = (uint16_t)(q->published - 1);"),
    Mutant("second-look", "kicks-event-2", "vq_device.c",
           "return q->fault == VQ_DEVICE_OK && vq_load_index(&q->avail->idx) != q->avail_idx;",
           "return false;"),
    Mutant("look-after-arming", "calls-event-1", "vq_driver.c",
           "	if (q->event_idx)\n		vq_store(vq_used_event(q->avail, q->size), q->used_idx);",
           "	const uint16_t seen = vq_load_index(&q->used->idx);\n\n	if (q->event_idx)\n"
           "		vq_store(vq_used_event(q->avail, q->size), q->used_idx);",
           ("vq_load_index(&q->used->idx) != q->used_idx;", "seen != q->used_idx;")),
    Mutant("publishing-before-looking", "kicks-flags-2", "vq_driver.h",
           "		vq_publish_index(&q->avail->idx, q->avail_idx);\n", "",
           ("	return !(vq_load(&q->used->flags) & VQ_USED_NO_NOTIFY);",
            "	old = vq_load(&q->used->flags);\n"
            "	vq_publish_index(&q->avail->idx, q->published);\n"
            "	return !(old & VQ_USED_NO_NOTIFY);")),
    Mutant("header-split", "net-take-1", "vq_net.c",
           "	while (skip >= s->len) {", "	while (skip > s->len) {"),
    Mutant("runt-check", "net-take-1", "vq_net.c",
           "if (c->len < hdr_len + VQ_NET_FRAME_MIN) {", "if (c->len == 0) {"),
    Mutant("head-check", "device-peek-1", "vq_device.c",
           "		if (__builtin_expect(head > mask, 0)) {", "		if (false) {"),
    Mutant("room", "device-peek-1", "vq_device.c",
           "hot.size - off >= d.len && seg < nsegs", "hot.size - off >= d.len"),
    Mutant("region-end", "device-peek-1", "vq_device.c",
           "hot.size - off >= d.len && seg < nsegs", "seg < nsegs"),
    Mutant("leaping-index", "device-peek-1", "vq_device.c",
           "	if (have + ours > q->size) {", "	if (have > q->size) {"),
    Mutant("mapped-whole", "device-entry", "vq_device.c",
           "if (have >= sizeof(*out)) {", "if (have >= 1) {"),
]
