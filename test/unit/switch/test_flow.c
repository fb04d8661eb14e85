/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "unit.h"

#include "flow.h"

/* Ethernet, IPv4, UDP: 02::0a from 02::0b, 10.0.0.1:1000 to 10.0.0.2:2000. */
static const uint8_t udp4[64] = {0x02, 0, 0, 0, 0, 0x0a, 0x02, 0, 0, 0, 0, 0x0b, 0x08, 0x00, 0x45,
	0, 0, 50, 0, 1, 0, 0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x03, 0xe8, 0x07, 0xd0, 0, 30,
	0, 0};

static const uint8_t udp6[64] = {0x02, 0, 0, 0, 0, 0x0a, 0x02, 0, 0, 0, 0, 0x0b, 0x86, 0xdd, 0x60,
	0, 0, 0, 0, 16, 17, 64, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0xfd, 0, 0, 0, 0,
	0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 0x03, 0xe8, 0x07, 0xd0};

static uint32_t
changed(const uint8_t *frame, uint32_t at, uint8_t value, uint32_t len)
{
	uint8_t copy[64];

	memcpy(copy, frame, 64);
	copy[at] = value;
	return flow_hash(copy, len);
}

static void
addresses(void **state)
{
	const uint8_t bytes[] = {0x01, 0x80, 0xc2, 0x00, 0x00, 0x0e};
	uint64_t mac = mac_at(bytes);

	(void)state;
	assert_true(mac == UINT64_C(0x0e0000c28001));
	assert_true(mac_is_group(mac));
	assert_true(mac_is_reserved(mac));
	assert_true(mac_is_reserved(UINT64_C(0x0f0000c28001)));
	assert_false(mac_is_reserved(UINT64_C(0x100000c28001)));
	assert_false(mac_is_reserved(UINT64_C(0x0e0001c28001)));
	assert_true(mac_is_group(UINT64_C(0xffffffffffff)));
	assert_false(mac_is_reserved(UINT64_C(0xffffffffffff)));
	assert_false(mac_is_group(UINT64_C(0x0b0000000002)));
}

static void
the_tuple_tells_flows_apart(void **state)
{
	uint32_t h = flow_hash(udp4, 64);
	const uint32_t in4[] = {5, 11, 23, 29, 33, 35, 37};
	const uint32_t in6[] = {5, 11, 20, 37, 53, 55, 57};
	size_t i;

	(void)state;
	assert_int_equal(h, flow_hash(udp4, 64));
	for (i = 0; i < COUNT_OF(in4); i++)
		assert_int_not_equal(h, changed(udp4, in4[i], 6, 64));
	h = flow_hash(udp6, 64);
	for (i = 0; i < COUNT_OF(in6); i++)
		assert_int_not_equal(h, changed(udp6, in6[i], 6, 64));
}

static void
what_differs_within_a_flow_does_not_count(void **state)
{
	uint32_t h = flow_hash(udp4, 64);

	(void)state;
	assert_int_equal(h, changed(udp4, 17, 200, 64)); /* length */
	assert_int_equal(h, changed(udp4, 19, 77, 64));  /* identification */
	assert_int_equal(h, changed(udp4, 22, 3, 64));   /* time to live */
	assert_int_equal(h, changed(udp4, 60, 3, 64));   /* payload */
	assert_int_equal(flow_hash(udp6, 64), changed(udp6, 19, 99, 64));
	assert_int_equal(flow_hash(udp6, 64), changed(udp6, 21, 9, 64));
}

static void
fragments_stay_together(void **state)
{
	uint8_t first[64], second[64];

	(void)state;
	memcpy(first, udp4, 64);
	memcpy(second, udp4, 64);
	first[20] = 0x20;              /* more fragments */
	second[21] = 0x10;             /* offset */
	memset(second + 34, 0x55, 20); /* no ports here */
	assert_int_equal(flow_hash(first, 64), flow_hash(second, 64));
	/* May not be fragmented: is none. */
	first[20] = 0x40;
	assert_int_equal(flow_hash(first, 64), flow_hash(udp4, 64));
}

static void
behind_a_tag(void **state)
{
	uint8_t tagged[64] = {0};
	uint32_t h;

	(void)state;
	memcpy(tagged, udp4, 12);
	tagged[12] = 0x81;
	tagged[15] = 7;
	memcpy(tagged + 16, udp4 + 12, 48);
	h = flow_hash(tagged, 64);
	assert_int_not_equal(h, flow_hash(udp4, 64));
	assert_int_not_equal(h, changed(tagged, 15, 8, 64)); /* another VLAN */
	assert_int_equal(h, changed(tagged, 14, 0xe0, 64));  /* priority */
	assert_int_not_equal(h, changed(tagged, 41, 6, 64)); /* a port */
}

/* Exactly as many bytes as there are: the sanitizer watches the end. */
static void
nothing_behind_the_end_is_read(void **state)
{
	const uint8_t *const frames[] = {udp4, udp6};
	uint32_t len, kind, tag;

	(void)state;
	for (kind = 0; kind < 2; kind++) {
		for (tag = 0; tag < 2; tag++) {
			for (len = 14; len <= 64; len++) {
				uint8_t *exact = test_malloc(len);

				memcpy(exact, frames[kind], len);
				if (tag && len >= 18) {
					memmove(exact + 16, exact + 12, len - 16);
					exact[12] = 0x81;
					exact[13] = 0;
				}
				(void)flow_hash(exact, len);
				/* A header that claims to be as long as it can. */
				if (len > 14) {
					exact[14] = 0x4f;
					(void)flow_hash(exact, len);
				}
				test_free(exact);
			}
		}
	}
}

static void
flows_spread(void **state)
{
	uint32_t hits[4] = {0};
	uint32_t port;

	(void)state;
	for (port = 0; port < 256; port++)
		hits[changed(udp4, 35, (uint8_t)port, 64) % 4]++;
	for (port = 0; port < 4; port++)
		assert_in_range(hits[port], 32, 96);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(addresses),
		cmocka_unit_test(the_tuple_tells_flows_apart),
		cmocka_unit_test(what_differs_within_a_flow_does_not_count),
		cmocka_unit_test(fragments_stay_together),
		cmocka_unit_test(behind_a_tag),
		cmocka_unit_test(nothing_behind_the_end_is_read),
		cmocka_unit_test(flows_spread),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
