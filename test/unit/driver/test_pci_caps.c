/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The walk over a device's capabilities: what is taken, and what is refused with which words. */

#include <errno.h>
#include <string.h>

#include "pci_mock.h"

#define COMMON VPCI_CAP_COMMON
#define NOTIFY VPCI_CAP_NOTIFY
#define DEVICE VPCI_CAP_DEVICE
#define BAR    PCI_MOCK_BAR

static struct pci_mock m;
static struct pci_caps caps;
static char why[256];

static int
walk(void)
{
	struct pci_access access = pci_mock_access(&m);

	memset(&caps, 0xaa, sizeof(caps));
	why[0] = '\0';
	return pci_caps_walk(&access, m.bars, &caps, why, sizeof(why));
}

static void
assert_window(const struct pci_window *window, uint32_t offset, uint32_t len)
{
	assert_ptr_equal(window->base, m.memory + offset);
	assert_int_equal(window->len, len);
}

static void
assert_found(void)
{
	assert_window(&caps.common, PCI_MOCK_COMMON, VPCI_COMMON_LEN_RESET);
	assert_window(&caps.device, PCI_MOCK_DEVICE, PCI_MOCK_NET_BYTES);
	assert_window(&caps.notify, PCI_MOCK_NOTIFY, PCI_MOCK_BAR_BYTES - PCI_MOCK_NOTIFY);
	assert_int_equal(caps.notify_multiplier, 4);
	assert_int_equal(caps.msix_vectors, 3);
}

/* The first pointer of the list, past the MSI-X capability. */
static void
lead_to(uint8_t at)
{
	m.config[m.config[VPCI_CAPS_FIRST] + 1] = at;
}

static void
shape(uint8_t type, uint8_t field, uint32_t value)
{
	pci_mock_put32(pci_mock_cap(&m, type) + field, value);
}

/* A second one of a type, before the good one. */
static uint8_t *
put_before(uint8_t type, uint8_t bar, uint32_t offset, uint32_t len)
{
	uint8_t second = m.config[m.config[VPCI_CAPS_FIRST] + 1];
	uint8_t *cap = pci_mock_add_virtio(&m, 0xc0, type, bar, offset, len);
	uint8_t *last = m.config;

	/* Out of its place at the end of the list, into the second. */
	for (last += m.config[VPCI_CAPS_FIRST]; last[1] != 0xc0;)
		last = &m.config[last[1]];
	last[1] = 0;
	cap[1] = second;
	lead_to(0xc0);
	return cap;
}

/* Fine, each of them. */

static void
as_it_is(void)
{
}

static void
io_bar_first(void)
{
	put_before(COMMON, 0, 0, VPCI_COMMON_LEN);
	m.bars[0].len = 64;
}

static void
reserved_bar_6(void)
{
	put_before(COMMON, 6, 0, VPCI_COMMON_LEN);
}

static void
reserved_bar_255(void)
{
	put_before(NOTIFY, 255, 0, 64)[VPCI_CAP_LEN] = 0;
}

static void
unknown_type(void)
{
	put_before(5, BAR, UINT32_MAX, UINT32_MAX);
	pci_mock_add_virtio(&m, 0, 77, 3, 0, 0);
}

/* The two lowest bits of a pointer are reserved. */
static void
low_bits_of_pointers(void)
{
	m.config[VPCI_CAPS_FIRST] |= 3;
}

static void
other_capabilities(void)
{
	pci_mock_add_cap(&m, 0xf8, 0x01, 8);
	pci_mock_add_cap(&m, 0xfc, 0x05, 4);
}

static void
duplicate_behind(void)
{
	pci_mock_add_virtio(&m, 0, COMMON, BAR, 0x80, VPCI_COMMON_LEN);
	pci_mock_add_virtio(&m, 0, NOTIFY, BAR, 0x80, 2);
	pci_mock_add_virtio(&m, 0, DEVICE, BAR, 0x80, 2);
}

/* What comes behind the one that is taken does not matter. */
static void
bad_duplicate_behind(void)
{
	pci_mock_add_virtio(&m, 0, COMMON, BAR, UINT32_MAX, UINT32_MAX);
}

/* Refused. */

static void
loop_to_itself(void)
{
	m.config[0x50 + 1] = 0x50;
}

static void
loop_to_the_first(void)
{
	pci_mock_cap(&m, NOTIFY)[1] = m.config[VPCI_CAPS_FIRST];
}

static void
pointer_into_the_header(void)
{
	lead_to(0x3c);
}

static void
first_pointer_into_the_header(void)
{
	m.config[VPCI_CAPS_FIRST] = 3;
}

static void
short_common(void)
{
	pci_mock_cap(&m, COMMON)[VPCI_CAP_LEN] = VPCI_CAP_BYTES - 1;
}

static void
short_notify(void)
{
	pci_mock_cap(&m, NOTIFY)[VPCI_CAP_LEN] = VPCI_CAP_NOTIFY_LEN - 1;
}

static void
common_too_small(void)
{
	shape(COMMON, VPCI_CAP_LENGTH, VPCI_COMMON_LEN - 1);
}

static void
length_zero(void)
{
	shape(DEVICE, VPCI_CAP_LENGTH, 0);
}

static void
notify_of_one_byte(void)
{
	shape(NOTIFY, VPCI_CAP_LENGTH, 1);
}

static void
past_the_bar(void)
{
	shape(NOTIFY, VPCI_CAP_LENGTH, PCI_MOCK_BAR_BYTES - PCI_MOCK_NOTIFY + 1);
}

static void
offset_past_the_bar(void)
{
	shape(DEVICE, VPCI_CAP_OFFSET, PCI_MOCK_BAR_BYTES);
}

/* offset + length is 0x10 in 32 bits. */
static void
sum_wraps(void)
{
	shape(DEVICE, VPCI_CAP_OFFSET, UINT32_MAX - 0xfff + 0xc);
	shape(DEVICE, VPCI_CAP_LENGTH, 0x1004);
}

static void
common_misaligned(void)
{
	shape(COMMON, VPCI_CAP_OFFSET, 2);
}

static void
device_misaligned(void)
{
	shape(DEVICE, VPCI_CAP_OFFSET, PCI_MOCK_DEVICE + 2);
}

static void
notify_misaligned(void)
{
	shape(NOTIFY, VPCI_CAP_OFFSET, PCI_MOCK_NOTIFY + 1);
	shape(NOTIFY, VPCI_CAP_LENGTH, 8);
}

/* Only its first four bytes are in configuration space, and what is behind is not the last one's.
 */
static void
at_the_very_end(void)
{
	uint8_t *device = pci_mock_cap(&m, DEVICE);

	lead_to((uint8_t)(device - m.config));
	device[1] = 0xfc;
	m.bars[0] = m.bars[BAR];
	m.config[0xfc] = VPCI_CAP_VENDOR;
	m.config[0xfe] = VPCI_CAP_BYTES;
	m.config[0xff] = COMMON;
}

static void
without_common(void)
{
	lead_to(pci_mock_cap(&m, COMMON)[1]);
}

static void
without_notify(void)
{
	pci_mock_cap(&m, NOTIFY)[VPCI_CAP_TYPE] = 77;
}

static void
without_device(void)
{
	pci_mock_cap(&m, DEVICE)[VPCI_CAP_TYPE] = 77;
}

static void
only_in_io_bar(void)
{
	pci_mock_cap(&m, COMMON)[VPCI_CAP_BAR] = 0;
}

static void
only_in_reserved_bar(void)
{
	pci_mock_cap(&m, DEVICE)[VPCI_CAP_BAR] = 7;
}

/* Mapped, and nothing in it. */
static void
empty_bar(void)
{
	m.bars[1].addr = m.memory;
	pci_mock_cap(&m, DEVICE)[VPCI_CAP_BAR] = 1;
}

static void
legacy_without_list(void)
{
	pci_mock_put16(&m.config[VPCI_STATUS], 0);
}

static void
legacy_with_msix_only(void)
{
	lead_to(0);
}

static void
no_list_at_all(void)
{
	m.config[VPCI_CAPS_FIRST] = 0;
}

static void
unreadable(void)
{
	m.unreadable = true;
}

static void
unplugged(void)
{
	m.gone = true;
}

static const struct {
	void (*shape)(void);
	int err;
	const char *why; /* is part of the reason */
} cases[] = {
	{as_it_is, 0, ""},
	{io_bar_first, 0, ""},
	{reserved_bar_6, 0, ""},
	{reserved_bar_255, 0, ""},
	{unknown_type, 0, ""},
	{low_bits_of_pointers, 0, ""},
	{other_capabilities, 0, ""},
	{duplicate_behind, 0, ""},
	{bad_duplicate_behind, 0, ""},
	{loop_to_itself, -EINVAL, "leads to 0x50,"},
	{loop_to_the_first, -EINVAL, "leads to 0x40,"},
	{pointer_into_the_header, -EINVAL, "leads to 0x3c,"},
	{first_pointer_into_the_header, -EINVAL, "leads to 0x0,"},
	{short_common, -EINVAL, "common capability at 0x50 has 15 bytes of 16"},
	{short_notify, -EINVAL, "notification capability at 0x80 has 19 bytes of 20"},
	{common_too_small, -EINVAL, "common capability at 0x50 (offset 0x0, length 0x37)"},
	{length_zero, -EINVAL, "device capability at 0x70 (offset 0x200, length 0x0)"},
	{notify_of_one_byte, -EINVAL, "notification capability at 0x80 (offset 0x300, length 0x1)"},
	{past_the_bar, -EINVAL, "does not fit into BAR 4 of 0x340 bytes"},
	{offset_past_the_bar, -EINVAL, "offset 0x340, length 0xc"},
	{sum_wraps, -EINVAL, "offset 0xfffff00c, length 0x1004"},
	{common_misaligned, -EINVAL, "common capability at 0x50"},
	{device_misaligned, -EINVAL, "device capability at 0x70"},
	{notify_misaligned, -EINVAL, "notification capability at 0x80"},
	{at_the_very_end, -EINVAL, "common capability at 0xfc (offset 0x0, length 0x0)"},
	{without_common, -EINVAL, "no common capability in a memory BAR"},
	{without_notify, -EINVAL, "no notification capability in a memory BAR"},
	{without_device, -EINVAL, "no device capability in a memory BAR"},
	{only_in_io_bar, -EINVAL, "no common capability in a memory BAR"},
	{only_in_reserved_bar, -EINVAL, "no device capability in a memory BAR"},
	{empty_bar, -EINVAL, "BAR 1 of 0x0 bytes"},
	{legacy_without_list, -ENOTSUP, "legacy device"},
	{legacy_with_msix_only, -ENOTSUP, "legacy device"},
	{no_list_at_all, -ENOTSUP, "legacy device"},
	{unreadable, -EIO, "cannot be read at 0x6"},
	{unplugged, -EINVAL, "leads to 0xfc,"},
};

static void
every_case(void **state)
{
	static const struct pci_caps nothing;
	uint32_t i;
	int err;

	(void)state;
	for (i = 0; i < COUNT_OF(cases); i++) {
		pci_mock_create(&m);
		cases[i].shape();
		err = walk();
		if (err != cases[i].err || strstr(why, cases[i].why) == NULL)
			fail_msg("case %u: %d, \"%s\"; expected: %d, \"%s\"", i, err, why,
				cases[i].err, cases[i].why);
		if (err == 0)
			assert_found();
		else
			assert_memory_equal(&caps, &nothing, sizeof(caps));
		assert_null(strchr(why, '\n'));
		pci_mock_destroy(&m);
	}
}

static void
what_is_taken_may_end_with_the_bar(void **state)
{
	(void)state;
	pci_mock_create(&m);
	shape(COMMON, VPCI_CAP_OFFSET, PCI_MOCK_BAR_BYTES - VPCI_COMMON_LEN);
	shape(COMMON, VPCI_CAP_LENGTH, VPCI_COMMON_LEN);
	shape(DEVICE, VPCI_CAP_OFFSET, PCI_MOCK_BAR_BYTES - 4);
	shape(DEVICE, VPCI_CAP_LENGTH, 1);
	shape(NOTIFY, VPCI_CAP_OFFSET, PCI_MOCK_BAR_BYTES - 2);
	shape(NOTIFY, VPCI_CAP_LENGTH, 2);
	shape(NOTIFY, VPCI_CAP_MULTIPLIER, 0xdeadbeef);
	assert_int_equal(walk(), 0);
	assert_window(&caps.common, PCI_MOCK_BAR_BYTES - VPCI_COMMON_LEN, VPCI_COMMON_LEN);
	assert_window(&caps.device, PCI_MOCK_BAR_BYTES - 4, 1);
	assert_window(&caps.notify, PCI_MOCK_BAR_BYTES - 2, 2);
	assert_int_equal(caps.notify_multiplier, 0xdeadbeef);
	pci_mock_destroy(&m);
}

static void
the_first_that_can_be_used_is_taken(void **state)
{
	(void)state;
	pci_mock_create(&m);
	put_before(COMMON, BAR, 0x80, VPCI_COMMON_LEN);
	assert_int_equal(walk(), 0);
	assert_window(&caps.common, 0x80, VPCI_COMMON_LEN);
	pci_mock_destroy(&m);
}

/* 2048 vectors at most, whatever else stands in that register. */
static void
size_of_the_vector_table(void **state)
{
	static const struct {
		uint16_t control;
		uint32_t vectors;
	} tables[] = {{0, 1}, {0x8002, 3}, {0xc7ff, 2048}, {0xffff, 2048}};
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(tables); i++) {
		pci_mock_create(&m);
		pci_mock_put16(&m.config[m.config[VPCI_CAPS_FIRST] + VPCI_MSIX_CONTROL],
			tables[i].control);
		assert_int_equal(walk(), 0);
		assert_int_equal(caps.msix_vectors, tables[i].vectors);
		pci_mock_destroy(&m);
	}
	pci_mock_create(&m);
	m.config[VPCI_CAPS_FIRST] = 0x50;
	assert_int_equal(walk(), 0);
	assert_int_equal(caps.msix_vectors, 0);
	pci_mock_destroy(&m);
}

static uint32_t
below(uint64_t *random, uint32_t n)
{
	*random = *random * 6364136223846793005 + 1442695040888963407;
	return (uint32_t)(*random >> 33) % n;
}

/* Some bytes are anything: the walk ends, and what it takes lies inside. */
static void
any_bytes_in_the_list(void **state)
{
	uint32_t i, n, found = 0;
	uint64_t random = 1;

	(void)state;
	for (n = 0; n < 20000; n++) {
		pci_mock_create(&m);
		m.bars[0] = m.bars[BAR];
		for (i = 1 + below(&random, 4); i != 0; i--)
			m.config[VPCI_CAPS_FIRST + below(&random, 0xa0 - VPCI_CAPS_FIRST)] =
				(uint8_t)below(&random, 256);
		if (walk() == 0) {
			const struct pci_window *w[] = {&caps.common, &caps.notify, &caps.device};

			found++;
			for (i = 0; i < COUNT_OF(w); i++) {
				assert_true(w[i]->base >= m.memory && w[i]->len != 0);
				assert_true(w[i]->base - m.memory + (uint64_t)w[i]->len <=
					    PCI_MOCK_BAR_BYTES);
			}
		} else {
			assert_true(caps.common.base == NULL && why[0] != '\0');
		}
		pci_mock_destroy(&m);
	}
	assert_in_range(found, n / 4, n * 3 / 4);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_case),
		cmocka_unit_test(what_is_taken_may_end_with_the_bar),
		cmocka_unit_test(the_first_that_can_be_used_is_taken),
		cmocka_unit_test(size_of_the_vector_table),
		cmocka_unit_test(any_bytes_in_the_list),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
