/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "guest.h"

/* Host addresses are never followed here: any pointer will do. */
static uint8_t *
host(uintptr_t at)
{
	return (uint8_t *)at;
}

static struct vq_mem_region
region(uint64_t addr, uint64_t size, uintptr_t at)
{
	struct vq_mem_region r = {.addr = addr, .size = size, .host = host(at)};

	return r;
}

static void
expect(const struct vq_mem *mem, uint32_t *hint, uint64_t addr, uintptr_t at, uint64_t avail)
{
	uint64_t have = 0;

	assert_ptr_equal(vq_mem_translate(mem, hint, addr, &have), host(at));
	if (at != 0)
		assert_int_equal(have, avail);
}

static void
no_regions_translate_nothing(void **state)
{
	struct vq_mem *mem = NULL;
	uint32_t hint = 0;

	(void)state;
	assert_int_equal(vq_mem_create(NULL, 0, &mem), 0);
	expect(mem, &hint, 0, 0, 0);
	expect(mem, &hint, UINT64_MAX, 0, 0);
	vq_mem_destroy(mem);
	vq_mem_destroy(NULL);
}

static void
regions_come_in_any_order(void **state)
{
	struct vq_mem_region r[] = {
		region(0x9000, 0x1000, 0x500000),
		region(0x1000, 0x1000, 0x700000),
		region(0x3000, 0x2000, 0x600000),
	};
	struct vq_mem *mem;
	uint32_t hint = 0;

	(void)state;
	assert_int_equal(vq_mem_create(r, COUNT_OF(r), &mem), 0);
	for (uint32_t i = 1; i < mem->count; i++)
		assert_true(mem->regions[i - 1].addr < mem->regions[i].addr);
	expect(mem, &hint, 0x0fff, 0, 0);
	expect(mem, &hint, 0x1000, 0x700000, 0x1000);
	expect(mem, &hint, 0x1fff, 0x700fff, 1);
	expect(mem, &hint, 0x2000, 0, 0);
	expect(mem, &hint, 0x2fff, 0, 0);
	expect(mem, &hint, 0x3000, 0x600000, 0x2000);
	expect(mem, &hint, 0x4fff, 0x601fff, 1);
	expect(mem, &hint, 0x5000, 0, 0);
	expect(mem, &hint, 0x9001, 0x500001, 0xfff);
	expect(mem, &hint, 0xa000, 0, 0);
	expect(mem, &hint, 0, 0, 0);
	expect(mem, &hint, UINT64_MAX, 0, 0);
	vq_mem_destroy(mem);
}

/* Neighbours are two regions: a translation ends where the first does. */
static void
a_buffer_crosses_in_two_steps(void **state)
{
	struct vq_mem_region r[] = {
		region(0x1000, 0x1000, 0x700000),
		region(0x2000, 0x1000, 0x100000),
	};
	struct vq_mem *mem;
	uint32_t hint = 0;

	(void)state;
	assert_int_equal(vq_mem_create(r, COUNT_OF(r), &mem), 0);
	expect(mem, &hint, 0x1ff0, 0x700ff0, 0x10);
	expect(mem, &hint, 0x2000, 0x100000, 0x1000);
	vq_mem_destroy(mem);
}

/* The hint is only a guess: any value, also of another map, gives the same answer. */
static void
a_stale_hint_does_no_harm(void **state)
{
	static const uint32_t hints[] = {0, 1, 2, 3, 511, UINT32_MAX};
	struct vq_mem_region r[] = {
		region(0x1000, 0x1000, 0x700000),
		region(0x2000, 0x1000, 0x100000),
		region(0x8000, 0x1000, 0x200000),
	};
	struct vq_mem *mem;

	(void)state;
	assert_int_equal(vq_mem_create(r, COUNT_OF(r), &mem), 0);
	for (uint32_t i = 0; i < COUNT_OF(hints); i++) {
		for (uint32_t k = 0; k < COUNT_OF(r); k++) {
			uint32_t hint = hints[i];

			expect(mem, &hint, r[k].addr + 5, (uintptr_t)r[k].host + 5, 0xffb);
			assert_int_equal(hint, k);
			hint = hints[i];
			expect(mem, &hint, 0x5000, 0, 0);
			assert_int_equal(hint, hints[i]);
		}
	}
	vq_mem_destroy(mem);
}

static void
bad_tables_are_refused(void **state)
{
	const struct {
		int error;
		uint32_t count;
		struct vq_mem_region r[3];
	} cases[] = {
		/* empty */
		{-EINVAL, 1, {region(0x1000, 0, 0x1000)}},
		/* wraps in the guest, and here */
		{-EINVAL, 1, {region(UINT64_MAX, 2, 0x1000)}},
		{-EINVAL, 1, {region(0x1000, UINT64_MAX, 0)}},
		{-EINVAL, 1, {region(0x1000, 0x1000, UINTPTR_MAX)}},
		{-EINVAL, 1, {region(0, UINT64_MAX, 0x1000)}},
		/* overlaps: by a byte, the same, inside, behind another */
		{-EINVAL, 2, {region(0x1000, 0x1001, 0x1000), region(0x2000, 1, 0x9000)}},
		{-EINVAL, 2, {region(0x1000, 1, 0x1000), region(0x1000, 1, 0x9000)}},
		{-EINVAL, 2, {region(0x1800, 0x10, 0x1000), region(0x1000, 0x1000, 0x9000)}},
		{-EINVAL, 3,
			{region(0x9000, 0x10, 0x1000), region(0x1000, 0x10, 0x2000),
				region(0x900f, 0x10, 0x3000)}},
		/* just not, and up to the last address */
		{0, 2, {region(0x1000, 0x1000, 0x1000), region(0x2000, 1, 0x9000)}},
		{0, 1, {region(UINT64_MAX, 1, 0x1000)}},
		{0, 1, {region(UINT64_MAX - 0xfff, 0x1000, 0x1000)}},
		/* the same memory twice is legal */
		{0, 2, {region(0x1000, 0x1000, 0x1000), region(0x2000, 0x1000, 0x1000)}},
	};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
		struct vq_mem *mem = (struct vq_mem *)(uintptr_t)0x55;

		if (vq_mem_create(cases[i].r, cases[i].count, &mem) != cases[i].error)
			fail_msg("case %u", i);
		if (cases[i].error == 0)
			vq_mem_destroy(mem);
		else
			assert_ptr_equal(mem, (void *)(uintptr_t)0x55);
	}
}

static void
the_last_address_translates(void **state)
{
	struct vq_mem_region r = region(UINT64_MAX - 0xfff, 0x1000, 0x10000);
	struct vq_mem *mem;
	uint32_t hint = 0;

	(void)state;
	assert_int_equal(vq_mem_create(&r, 1, &mem), 0);
	expect(mem, &hint, UINT64_MAX, 0x10fff, 1);
	expect(mem, &hint, UINT64_MAX - 0xfff, 0x10000, 0x1000);
	expect(mem, &hint, 0, 0, 0);
	vq_mem_destroy(mem);
}

/* The most that fits, found by search from any hint; one more is refused. */
static void
five_hundred_and_twelve_regions(void **state)
{
	struct vq_mem_region *r = calloc(VQ_MEM_REGIONS_MAX + 1, sizeof(*r));
	struct vq_mem *mem = NULL;
	uint64_t random = 5;
	uint32_t hint = 0;

	(void)state;
	assert_non_null(r);
	for (uint32_t i = 0; i <= VQ_MEM_REGIONS_MAX; i++)
		r[i] = region(0x10000 + i * 0x2000, 0x1000, 0x1000000 + i * 0x1000);
	for (uint32_t i = 0; i < VQ_MEM_REGIONS_MAX; i++) {
		uint32_t k = rnd_below(&random, VQ_MEM_REGIONS_MAX);
		struct vq_mem_region swap = r[i];

		r[i] = r[k];
		r[k] = swap;
	}
	assert_int_equal(vq_mem_create(r, VQ_MEM_REGIONS_MAX + 1, &mem), -E2BIG);
	assert_int_equal(vq_mem_create(r, UINT32_MAX, &mem), -E2BIG);
	assert_null(mem);
	assert_int_equal(vq_mem_create(r, VQ_MEM_REGIONS_MAX, &mem), 0);
	for (uint32_t n = 0; n < 20000; n++) {
		uint32_t i = rnd_below(&random, VQ_MEM_REGIONS_MAX);
		uint32_t off = rnd_below(&random, 0x2000);
		uint64_t addr = 0x10000 + i * 0x2000 + off;

		if (off < 0x1000)
			expect(mem, &hint, addr, 0x1000000 + i * 0x1000 + off, 0x1000 - off);
		else
			expect(mem, &hint, addr, 0, 0);
	}
	vq_mem_destroy(mem);
	free(r);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(no_regions_translate_nothing),
		cmocka_unit_test(regions_come_in_any_order),
		cmocka_unit_test(a_buffer_crosses_in_two_steps),
		cmocka_unit_test(a_stale_hint_does_no_harm),
		cmocka_unit_test(bad_tables_are_refused),
		cmocka_unit_test(the_last_address_translates),
		cmocka_unit_test(five_hundred_and_twelve_regions),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
