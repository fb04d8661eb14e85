/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A device's queue whose driver is the test: descriptors and the available ring are written by
 * hand, right or wrong. The three areas are allocations of their own, of exactly the size of the
 * specification.
 */
#ifndef FAKE_DRIVER_H
#define FAKE_DRIVER_H

#include "guest.h"
#include "vq_device.h"

struct fake_driver {
	struct vq_device q;
	struct vq_desc *desc;
	struct vq_avail *avail;
	struct vq_used *used;
	uint32_t size;
	uint64_t features;
	uint16_t avail_idx; /* next available entry to fill */
	uint16_t used_idx;  /* next used entry to look at */
};

/** Guest memory that the tests of a file share: two regions of so many bytes, side by side. */
#define FAKE_REGION 0x1000u
extern struct guest fake_guest;
int fake_guest_setup(void **state);
int fake_guest_teardown(void **state);

/** A ring that stands at `base`, with a device on it. */
void fake_driver_init(struct fake_driver *f, const struct vq_mem *mem, uint32_t size,
	uint64_t features, uint16_t base);

/** The same in fake_guest, each descriptor a buffer of its own: id i has i + 1 bytes (mod 2048). */
void fake_driver_begin(struct fake_driver *f, uint32_t size, uint64_t features, uint16_t base);
void fake_driver_free(struct fake_driver *f);

/** Another device on the same ring, from `base`. */
void fake_driver_restart(struct fake_driver *f, const struct vq_mem *mem, uint16_t base);

void fake_driver_desc(struct fake_driver *f, uint32_t id, uint64_t addr, uint32_t len,
	uint16_t flags, uint16_t next);

/** Make a head available, not yet published. */
void fake_driver_expose(struct fake_driver *f, uint16_t head);

/** Make n heads available, in ring order, and publish. */
void fake_driver_expose_n(struct fake_driver *f, uint32_t n);
void fake_driver_publish(struct fake_driver *f);

/** The next used entry must be there, and be this. */
void fake_driver_expect_used(struct fake_driver *f, uint32_t id, uint32_t len);

/** No used entry must be there. */
void fake_driver_expect_none(const struct fake_driver *f);

/** A descriptor of an indirect table in guest memory. */
void put_entry(const struct guest *g, uint64_t table, uint32_t i, uint64_t addr, uint32_t len,
	uint16_t flags, uint16_t next);

#endif
