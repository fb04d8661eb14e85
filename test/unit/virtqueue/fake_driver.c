/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>

#include "fake_driver.h"

struct guest fake_guest;

int
fake_guest_setup(void **state)
{
	(void)state;
	guest_init(&fake_guest, 2, FAKE_REGION, 0);
	return 0;
}

int
fake_guest_teardown(void **state)
{
	(void)state;
	guest_free(&fake_guest);
	return 0;
}

void
fake_driver_init(struct fake_driver *f, const struct vq_mem *mem, uint32_t size, uint64_t features,
	uint16_t base)
{
	memset(f, 0, sizeof(*f));
	f->size = size;
	f->features = features;
	f->desc = malloc(vq_desc_bytes(size));
	f->avail = malloc(vq_avail_bytes(size));
	f->used = malloc(vq_used_bytes(size));
	memset(f->desc, 0xee, vq_desc_bytes(size));
	memset(f->avail, 0xee, vq_avail_bytes(size));
	memset(f->used, 0xee, vq_used_bytes(size));
	vq_store(&f->avail->flags, 0);
	vq_store(&f->avail->idx, base);
	vq_store(&f->used->flags, 0);
	vq_store(&f->used->idx, base);
	f->avail_idx = base;
	f->used_idx = base;
	fake_driver_restart(f, mem, base);
}

void
fake_driver_begin(struct fake_driver *f, uint32_t size, uint64_t features, uint16_t base)
{
	fake_driver_init(f, fake_guest.mem, size, features, base);
	for (uint32_t i = 0; i < size; i++)
		fake_driver_desc(f, i, GUEST_BASE + i % 1024, 1 + i % 2048, 0, 0);
}

void
fake_driver_restart(struct fake_driver *f, const struct vq_mem *mem, uint16_t base)
{
	struct vq_device_config config = {.size = f->size,
		.features = f->features,
		.base = base,
		.desc = f->desc,
		.avail = f->avail,
		.used = f->used,
		.mem = mem};

	assert_int_equal(vq_device_init(&f->q, &config), 0);
}

void
fake_driver_free(struct fake_driver *f)
{
	free(f->desc);
	free(f->avail);
	free(f->used);
	memset(f, 0, sizeof(*f));
}

void
fake_driver_desc(struct fake_driver *f, uint32_t id, uint64_t addr, uint32_t len, uint16_t flags,
	uint16_t next)
{
	struct vq_desc d = {.addr = addr, .len = len, .flags = flags, .next = next};

	assert_true(id < f->size);
	f->desc[id] = d;
}

void
fake_driver_expose(struct fake_driver *f, uint16_t head)
{
	vq_store(&f->avail->ring[f->avail_idx++ & (f->size - 1)], head);
}

void
fake_driver_expose_n(struct fake_driver *f, uint32_t n)
{
	while (n-- != 0)
		fake_driver_expose(f, f->avail_idx & (f->size - 1));
	fake_driver_publish(f);
}

void
fake_driver_publish(struct fake_driver *f)
{
	vq_publish_index(&f->avail->idx, f->avail_idx);
}

void
fake_driver_expect_used(struct fake_driver *f, uint32_t id, uint32_t len)
{
	const struct vq_used_elem *e = &f->used->ring[f->used_idx & (f->size - 1)];

	assert_int_not_equal(vq_load_index(&f->used->idx), f->used_idx);
	f->used_idx++;
	assert_int_equal(e->id, id);
	assert_int_equal(e->len, len);
}

void
fake_driver_expect_none(const struct fake_driver *f)
{
	assert_int_equal(vq_load_index(&f->used->idx), f->used_idx);
}

void
put_entry(const struct guest *g, uint64_t table, uint32_t i, uint64_t addr, uint32_t len,
	uint16_t flags, uint16_t next)
{
	struct vq_desc d = {.addr = addr, .len = len, .flags = flags, .next = next};

	guest_write(g, table + i * sizeof(d), &d, sizeof(d));
}
