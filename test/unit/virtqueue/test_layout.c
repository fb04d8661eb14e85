/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <string.h>

#include "guest.h"
#include "vq_device.h"
#include "vq_layout.h"

static size_t
line_of(size_t offset)
{
	return offset / VQ_CACHE_LINE;
}

static void
areas_lie_apart_at_every_size(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= VQ_SIZE_MAX; size *= 2) {
		size_t desc_end, avail_end, used_end;
		struct vq_layout l;

		assert_int_equal(vq_layout(size, &l), 0);
		desc_end = l.desc + vq_desc_bytes(size);
		avail_end = l.avail + vq_avail_bytes(size);
		used_end = l.used + vq_used_bytes(size);

		assert_int_equal(l.desc % VQ_CACHE_LINE, 0);
		assert_int_equal((l.avail + 4) % VQ_CACHE_LINE, 0);
		assert_int_equal((l.used + 4) % VQ_CACHE_LINE, 0);
		/* What the specification asks for. */
		assert_int_equal(l.avail % 2, 0);
		assert_int_equal(l.used % 4, 0);
		/* No line has a writer at each end. */
		assert_true(line_of(desc_end - 1) < line_of(l.avail));
		assert_true(line_of(avail_end - 1) < line_of(l.used));
		assert_true(used_end <= l.bytes);
		assert_int_equal(l.bytes % VQ_CACHE_LINE, 0);
		assert_true(l.bytes - used_end < VQ_CACHE_LINE);
	}
}

static void
events_lie_behind_the_rings(void **state)
{
	(void)state;
	for (uint32_t size = 1; size <= VQ_SIZE_MAX; size *= 2) {
		struct vq_layout l;
		static _Alignas(64) uint8_t block[1 << 20];
		struct vq_avail *avail;
		struct vq_used *used;

		assert_int_equal(vq_layout(size, &l), 0);
		assert_true(l.bytes <= sizeof(block));
		avail = (struct vq_avail *)(void *)(block + l.avail);
		used = (struct vq_used *)(void *)(block + l.used);
		assert_ptr_equal(vq_used_event(avail, size), block + l.avail + 4 + 2 * size);
		assert_ptr_equal(vq_avail_event(used, size), block + l.used + 4 + 8 * size);
	}
}

static void
other_sizes_are_refused(void **state)
{
	static const uint32_t sizes[] = {0, 3, 32767, 32769, 65535, 65536, 1u << 31, UINT32_MAX};
	struct vq_layout l, before;

	(void)state;
	memset(&before, 0x5a, sizeof(before));
	l = before;
	for (uint32_t i = 0; i < COUNT_OF(sizes); i++)
		assert_int_equal(vq_layout(sizes[i], &l), -EINVAL);
	assert_memory_equal(&l, &before, sizeof(l));

	for (uint32_t size = 0, ok = 1; size <= 70000; size++) {
		bool good = size == ok && size <= VQ_SIZE_MAX;

		assert_int_equal(vq_size_ok(size) != 0, good);
		if (size == ok)
			ok *= 2;
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(areas_lie_apart_at_every_size),
		cmocka_unit_test(events_lie_behind_the_rings),
		cmocka_unit_test(other_sizes_are_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
