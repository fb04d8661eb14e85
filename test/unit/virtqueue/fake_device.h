/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * A driver's queue whose device is the test: the used ring is written by hand, right or wrong.
 */
#ifndef FAKE_DEVICE_H
#define FAKE_DEVICE_H

#include "guest.h"
#include "vq_driver.h"

#define TABLE_ADDR UINT64_C(0x7700000000)

struct fake_device {
	struct vq_driver q;
	struct vq_layout layout;
	uint8_t *ring;
	void *priv;
	struct vq_desc *table;
	uint32_t size;
	uint16_t avail_idx; /* next available entry to take */
	uint16_t used_idx;  /* next used entry to write */
};

/** A queue with indirect tables of `table_len` entries (0: none). */
void fake_device_init(struct fake_device *f, uint32_t size, uint64_t features, uint32_t table_len);
void fake_device_free(struct fake_device *f);

/** Is there a chain that the driver has published and that was not taken? */
bool fake_device_has(const struct fake_device *f);

/** Take the next available head; there must be one. */
uint16_t fake_device_take(struct fake_device *f);

/** Write a used entry, not yet published. */
void fake_device_use(struct fake_device *f, uint32_t id, uint32_t len);

/** Leave a used entry out, full of what must not be read. */
void fake_device_skip(struct fake_device *f);

/** Publish what was written. */
void fake_device_publish(struct fake_device *f);

/** The cookie of chain number n. */
void *cookie(uint32_t n);
uint32_t cookie_number(void *c);

#endif
