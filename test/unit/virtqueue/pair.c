/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pair.h"

#define CUTS_MAX 511

static char said[256];

uint16_t
pair_base(uint32_t size, uint32_t i)
{
	const uint32_t bases[PAIR_BASES] = {
		0, 1, 65536 - size / 2, 65535, 65536 - size, 65536 - size - 1, 32767, 32768};

	return (uint16_t)bases[i];
}

void
pair_say(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	vsnprintf(said, sizeof(said), format, args);
	va_end(args);
}

void
pair_say_nothing(void)
{
	said[0] = '\0';
}

int
pair_said(void **state)
{
	(void)state;
	if (said[0] != '\0')
		print_error("with: %s\n", said);
	return 0;
}

/* Come this far by real traffic. */
static void
advance(struct pair *p, uint32_t count)
{
	while (count != 0) {
		uint32_t n = count < p->size ? count : p->size;
		struct vq_chain c[64];
		struct vq_seg segs[64];
		void *cookies[64];

		if (n > 64)
			n = 64;
		for (uint32_t i = 0; i < n; i++)
			vq_driver_add(&p->driver, GUEST_BASE, 1, 0, NULL);
		vq_driver_publish(&p->driver);
		(void)vq_driver_need_notify(&p->driver);
		assert_int_equal(vq_device_peek(&p->device, false, c, n, segs, 64, 0), n);
		vq_device_complete_tx(&p->device, c, n);
		(void)vq_device_call(&p->device, vq_device_publish(&p->device), 0);
		assert_int_equal(vq_driver_reap(&p->driver, cookies, NULL, n), n);
		count -= n;
	}
}

static void
start_device(struct pair *p, uint16_t base)
{
	struct vq_device_config config = {.size = p->size,
		.features = p->features,
		.base = base,
		.desc = p->driver.desc,
		.avail = p->driver.avail,
		.used = p->driver.used,
		.mem = p->guest->mem};

	assert_int_equal(vq_device_init(&p->device, &config), 0);
}

void
pair_init(struct pair *p, const struct guest *g, const struct pair_config *config)
{
	struct vq_driver_config c = {.size = config->size,
		.features = config->features,
		.table_len = config->table_len,
		.table_addr = config->table_addr};
	struct vq_layout layout;

	memset(p, 0, sizeof(*p));
	p->guest = g;
	p->size = config->size;
	p->features = config->features;
	assert_int_equal(vq_layout(config->size, &layout), 0);
	p->ring = aligned_alloc(VQ_CACHE_LINE, layout.bytes);
	p->priv = malloc(vq_driver_private_bytes(config->size));
	c.ring = p->ring;
	c.priv = p->priv;
	if (config->table_len != 0)
		c.table = (struct vq_desc *)(void *)guest_at(g, config->table_addr);
	assert_int_equal(vq_driver_init(&p->driver, &c), 0);
	start_device(p, 0);
	advance(p, config->base);
	pair_restart_device(p);
}

void
pair_free(struct pair *p)
{
	free(p->ring);
	free(p->priv);
	memset(p, 0, sizeof(*p));
}

void
pair_restart_device(struct pair *p)
{
	start_device(p, vq_device_base(&p->device));
}

void
pair_expect_level(const struct pair *p)
{
	assert_int_equal(p->driver.fault, VQ_DRIVER_OK);
	assert_int_equal(p->device.fault, VQ_DEVICE_OK);
	assert_int_equal(vq_driver_free(&p->driver), p->size);
	assert_int_equal(vq_driver_inflight(&p->driver), 0);
	assert_int_equal(vq_driver_pending(&p->driver), 0);
	assert_int_equal(p->device.outstanding, 0);
	assert_int_equal(p->device.avail_idx, p->driver.avail_idx);
	assert_int_equal(p->device.used_idx, p->driver.used_idx);
	assert_int_equal(p->device.published, p->driver.used_idx);
}

void
pair_add(struct pair *p, uint64_t addr, uint32_t len, const uint32_t *cuts, uint32_t ncuts,
	bool write, bool indirect, void *cookie)
{
	uint16_t flags = write ? VQ_DESC_WRITE : 0;
	struct vq_sg sg[CUTS_MAX + 1];
	uint32_t from = 0;

	assert_true(ncuts <= CUTS_MAX);
	for (uint32_t i = 0; i <= ncuts; i++) {
		uint32_t to = i < ncuts ? cuts[i] : len;

		sg[i].addr = addr + from;
		sg[i].len = to - from;
		from = to;
	}
	if (indirect)
		vq_driver_add_indirect(&p->driver, sg, ncuts + 1, flags, cookie);
	else if (ncuts != 0)
		vq_driver_add_chain(&p->driver, sg, ncuts + 1, flags, cookie);
	else
		vq_driver_add(&p->driver, addr, len, flags, cookie);
}
