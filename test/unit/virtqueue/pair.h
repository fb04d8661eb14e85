/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * Both ends of one ring in one process.
 */
#ifndef PAIR_H
#define PAIR_H

#include "guest.h"
#include "vq_device.h"
#include "vq_driver.h"

struct pair {
	const struct guest *guest;
	struct vq_driver driver;
	struct vq_device device;
	uint32_t size;
	uint64_t features;
	uint8_t *ring;
	void *priv;
};

struct pair_config {
	uint32_t size;
	uint64_t features;
	uint16_t base;       /* both ends have come this far */
	uint32_t table_len;  /* entries of an indirect table; 0: none */
	uint64_t table_addr; /* guest memory for them, in one region, aligned to 16 */
};

/** Every size a ring may have, by number. */
#define PAIR_SIZES 16u

static inline uint32_t
pair_size(uint32_t i)
{
	return UINT32_C(1) << i;
}

/** Where a ring of this size may stand so that something wraps soon, by number. */
#define PAIR_BASES 8u
/* How many a test tries: a ring comes to each by real traffic, which takes its time. */
#ifndef BASES
#define BASES PAIR_BASES
#endif
uint16_t pair_base(uint32_t size, uint32_t i);

/** Note what is being tried; pair_said(), a teardown function, prints it if the test failed in it.
 */
void pair_say(const char *format, ...) __attribute__((format(printf, 1, 2)));
void pair_say_nothing(void);
int pair_said(void **state);

void pair_init(struct pair *p, const struct guest *g, const struct pair_config *config);
void pair_free(struct pair *p);

/** Another device on the ring, where the last one stopped. */
void pair_restart_device(struct pair *p);

/** Nothing is in flight at either end, all descriptors are free, neither is broken. */
void pair_expect_level(const struct pair *p);

/**
 * Add `len` bytes of guest memory as one chain, cut into descriptors at the given offsets.
 * @param cuts ascending, each within 1..len-1
 */
void pair_add(struct pair *p, uint64_t addr, uint32_t len, const uint32_t *cuts, uint32_t ncuts,
	bool write, bool indirect, void *cookie);

#endif
