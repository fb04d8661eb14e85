/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What every virtqueue test needs: cmocka, the memory of a guest in separate allocations (so that
 * the address sanitizer sees one byte too many), frames that can be checked, random numbers.
 */
#ifndef GUEST_H
#define GUEST_H

/* cmocka wants these before its own header. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include "vq_mem.h"

#define GUEST_BASE    UINT64_C(0x4000000000)
#define GUEST_REGIONS 8

#define COUNT_OF(a) ((uint32_t)(sizeof(a) / sizeof((a)[0])))

/** Regions follow each other in the guest's address space, each is an allocation of its own here.
 */
struct guest {
	struct vq_mem *mem;
	uint32_t count;
	struct vq_mem_region regions[GUEST_REGIONS];
	uint64_t sparse; /* bytes of the last region, when that is guest_add_sparse()'s */
};

/** `count` regions of `bytes` each, the first at GUEST_BASE, `gap` unmapped bytes behind each. */
void guest_init(struct guest *g, uint32_t count, uint64_t bytes, uint64_t gap);
void guest_free(struct guest *g);

/**
 * One region more, behind a gap: zeroes, of which only the pages that are touched take memory, so
 * that it may be larger than the machine's. @return its guest address
 */
uint64_t guest_add_sparse(struct guest *g, uint64_t bytes);

/** The byte at a guest address, which must be mapped. */
uint8_t *guest_at(const struct guest *g, uint64_t addr);
void guest_write(const struct guest *g, uint64_t addr, const void *from, uint32_t len);
void guest_read(const struct guest *g, uint64_t addr, void *to, uint32_t len);
void guest_fill(const struct guest *g, uint64_t addr, uint8_t value, uint32_t len);

/** Shortest frame that frame_make() makes: a sequence number and a CRC, and an Ethernet header. */
#define FRAME_MIN 14

/** Fill a frame of `len` bytes whose content depends on `seq` and `len` alone. */
void frame_make(uint8_t *frame, uint32_t len, uint32_t seq);

/** Is this the frame that frame_make() made of `seq` and `len`? */
bool frame_ok(const uint8_t *frame, uint32_t len, uint32_t seq);

/** Repeatable random numbers. */
uint64_t rnd(uint64_t *state);

/** One of 0..n-1. */
uint32_t rnd_below(uint64_t *state, uint32_t n);

#endif
