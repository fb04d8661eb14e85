/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "guest.h"
#include "vq_wire.h"

static void
length_follows_the_features(void **state)
{
	static const struct {
		uint64_t features;
		uint32_t len;
	} cases[] = {
		{0, 10},
		{~(VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(VERSION_1) | VQ_FEATURE(HASH_REPORT)), 10},
		{VQ_FEATURE(MRG_RXBUF), 12},
		{VQ_FEATURE(VERSION_1), 12},
		{VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF), 12},
		{VQ_FEATURE(VERSION_1) | VQ_FEATURE(HASH_REPORT), 20},
		{VQ_FEATURE(HASH_REPORT), 20},
		{UINT64_MAX, 20},
	};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(cases); i++) {
		assert_int_equal(vq_net_hdr_len(cases[i].features), cases[i].len);
		assert_true(vq_net_hdr_len(cases[i].features) <= VQ_NET_HDR_MAX);
	}
}

static void
fields_lie_where_the_specification_says(void **state)
{
	(void)state;
	assert_int_equal(offsetof(struct vq_net_hdr, gso_type), 1);
	assert_int_equal(offsetof(struct vq_net_hdr, hdr_len), 2);
	assert_int_equal(offsetof(struct vq_net_hdr, gso_size), 4);
	assert_int_equal(offsetof(struct vq_net_hdr, csum_start), 6);
	assert_int_equal(offsetof(struct vq_net_hdr, csum_offset), 8);
	assert_int_equal(offsetof(struct vq_net_hdr, num_buffers), 10);
	assert_int_equal(offsetof(struct vq_desc, len), 8);
	assert_int_equal(offsetof(struct vq_desc, flags), 12);
	assert_int_equal(offsetof(struct vq_desc, next), 14);
	assert_int_equal(offsetof(struct vq_avail, idx), 2);
	assert_int_equal(offsetof(struct vq_used, idx), 2);
}

static void
feature_masks_are_single_bits(void **state)
{
	(void)state;
	assert_int_equal(VQ_FEATURE(CSUM), 1);
	assert_int_equal(VQ_FEATURE(MRG_RXBUF), UINT64_C(0x8000));
	assert_int_equal(VQ_FEATURE(INDIRECT_DESC), UINT64_C(0x10000000));
	assert_int_equal(VQ_FEATURE(EVENT_IDX), UINT64_C(0x20000000));
	assert_int_equal(VQ_FEATURE(VERSION_1), UINT64_C(0x100000000));
	assert_int_equal(VQ_FEATURE(IN_ORDER), UINT64_C(0x800000000));
	assert_int_equal(VQ_FEATURE(HASH_REPORT), UINT64_C(0x200000000000000));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(length_follows_the_features),
		cmocka_unit_test(fields_lie_where_the_specification_says),
		cmocka_unit_test(feature_masks_are_single_bits),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
