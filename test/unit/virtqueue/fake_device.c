/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>

#include "fake_device.h"

void
fake_device_init(struct fake_device *f, uint32_t size, uint64_t features, uint32_t table_len)
{
	struct vq_driver_config config = {.size = size, .features = features};

	memset(f, 0, sizeof(*f));
	assert_int_equal(vq_layout(size, &f->layout), 0);
	f->size = size;
	f->ring = aligned_alloc(VQ_CACHE_LINE, f->layout.bytes);
	f->priv = malloc(vq_driver_private_bytes(size));
	if (table_len != 0)
		f->table = malloc((size_t)size * table_len * sizeof(struct vq_desc));
	/* Whatever was there before must not matter. */
	memset(f->ring, 0xee, f->layout.bytes);
	memset(f->priv, 0xee, vq_driver_private_bytes(size));
	config.ring = f->ring;
	config.priv = f->priv;
	config.table = f->table;
	config.table_len = table_len;
	config.table_addr = TABLE_ADDR;
	assert_int_equal(vq_driver_init(&f->q, &config), 0);
}

void
fake_device_free(struct fake_device *f)
{
	free(f->ring);
	free(f->priv);
	free(f->table);
	memset(f, 0, sizeof(*f));
}

bool
fake_device_has(const struct fake_device *f)
{
	return vq_load_index(&f->q.avail->idx) != f->avail_idx;
}

uint16_t
fake_device_take(struct fake_device *f)
{
	assert_true(fake_device_has(f));
	return vq_load(&f->q.avail->ring[f->avail_idx++ & (f->size - 1)]);
}

void
fake_device_use(struct fake_device *f, uint32_t id, uint32_t len)
{
	struct vq_used_elem *e = &f->q.used->ring[f->used_idx++ & (f->size - 1)];

	e->id = id;
	e->len = len;
}

void
fake_device_skip(struct fake_device *f)
{
	fake_device_use(f, 0xdeadbeef, 0xfeedface);
}

void
fake_device_publish(struct fake_device *f)
{
	vq_publish_index(&f->q.used->idx, f->used_idx);
}

void *
cookie(uint32_t n)
{
	return (void *)(uintptr_t)(n + 1);
}

uint32_t
cookie_number(void *c)
{
	return (uint32_t)(uintptr_t)c - 1;
}
