/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The device side: chains of every shape, right and wrong. */

#include <stdlib.h>

#include "fake_driver.h"

#define NEXT     VQ_DESC_NEXT
#define WRITE    VQ_DESC_WRITE
#define TABLE    VQ_DESC_INDIRECT
#define INDIRECT VQ_FEATURE(INDIRECT_DESC)

#define SIZE   8
#define REGION FAKE_REGION
/* Two regions side by side, at BASE and BASE + REGION; nothing behind them. */
#define BASE GUEST_BASE
#define END  (GUEST_BASE + 2 * REGION)
#define AT   (GUEST_BASE + 0x800) /* where tables lie */

struct shape {
	uint64_t addr;
	uint32_t len;
	uint16_t flags;
	uint16_t next;
};

struct bad {
	const char *what;
	enum vq_device_fault fault;
	bool not_offered; /* the driver uses INDIRECT without having it */
	struct shape desc[4];
	struct shape table[4]; /* at AT */
};

/* For a queue that the device reads. */
static const struct bad bad_chains[] = {
	{"loop of one", VQ_CHAIN_LOOP, false, {{BASE, 16, NEXT, 0}}, {{0}}},
	{"loop of two", VQ_CHAIN_LOOP, false, {{BASE, 16, NEXT, 1}, {BASE, 16, NEXT, 0}}, {{0}}},
	{"loop behind the head", VQ_CHAIN_LOOP, false, {{BASE, 16, NEXT, 1}, {BASE, 16, NEXT, 1}},
		{{0}}},
	{"loop of nothing", VQ_CHAIN_LOOP, false, {{BASE, 0, NEXT, 0}}, {{0}}},
	{"next is the size", VQ_CHAIN_NEXT, false, {{BASE, 16, NEXT, SIZE}}, {{0}}},
	{"next is 65535", VQ_CHAIN_NEXT, false, {{BASE, 16, NEXT, 1}, {BASE, 16, NEXT, 65535}},
		{{0}}},
	{"address 0", VQ_CHAIN_ADDRESS, false, {{0, 16, 0, 0}}, {{0}}},
	{"address below", VQ_CHAIN_ADDRESS, false, {{BASE - 1, 16, 0, 0}}, {{0}}},
	{"address behind", VQ_CHAIN_ADDRESS, false, {{END, 1, 0, 0}}, {{0}}},
	{"length runs past the end", VQ_CHAIN_ADDRESS, false, {{END - 16, 17, 0, 0}}, {{0}}},
	{"length is the most", VQ_CHAIN_ADDRESS, false, {{BASE, UINT32_MAX, 0, 0}}, {{0}}},
	{"wraps", VQ_CHAIN_ADDRESS, false, {{UINT64_MAX - 15, 32, 0, 0}}, {{0}}},
	{"wraps into memory", VQ_CHAIN_ADDRESS, false, {{UINT64_MAX, UINT32_MAX, 0, 0}}, {{0}}},
	{"empty at address 0", VQ_CHAIN_ADDRESS, false, {{0, 0, 0, 0}}, {{0}}},
	{"empty behind the end", VQ_CHAIN_ADDRESS, false, {{BASE, 16, NEXT, 1}, {END, 0, 0, 0}},
		{{0}}},
	{"second descriptor unmapped", VQ_CHAIN_ADDRESS, false,
		{{BASE, 16, NEXT, 1}, {BASE - 1, 1, 0, 0}}, {{0}}},
	{"wrong direction", VQ_CHAIN_DIRECTION, false, {{BASE, 16, WRITE, 0}}, {{0}}},
	{"wrong direction and empty", VQ_CHAIN_DIRECTION, false, {{BASE, 0, WRITE, 0}}, {{0}}},
	{"wrong direction behind", VQ_CHAIN_DIRECTION, false,
		{{BASE, 16, NEXT, 1}, {BASE, 16, WRITE, 0}}, {{0}}},
	{"table not offered", VQ_CHAIN_INDIRECT, true, {{AT, 16, TABLE, 0}}, {{BASE, 16, 0, 0}}},
	{"empty table", VQ_CHAIN_INDIRECT, false, {{AT, 0, TABLE, 0}}, {{BASE, 16, 0, 0}}},
	{"table of half an entry", VQ_CHAIN_INDIRECT, false, {{AT, 8, TABLE, 0}},
		{{BASE, 16, 0, 0}}},
	{"table of an odd length", VQ_CHAIN_INDIRECT, false, {{AT, 17, TABLE, 0}},
		{{BASE, 16, 0, 0}}},
	{"table of nearly 4 GiB", VQ_CHAIN_INDIRECT, false, {{AT, UINT32_MAX, TABLE, 0}},
		{{BASE, 16, 0, 0}}},
	{"table and next", VQ_CHAIN_INDIRECT, false, {{AT, 16, TABLE | NEXT, 1}, {BASE, 16, 0, 0}},
		{{BASE, 16, 0, 0}}},
	{"table in a table", VQ_CHAIN_INDIRECT, false, {{AT, 16, TABLE, 0}}, {{AT, 16, TABLE, 0}}},
	{"table in a table, behind", VQ_CHAIN_INDIRECT, false, {{AT, 32, TABLE, 0}},
		{{BASE, 16, NEXT, 1}, {AT, 16, TABLE, 0}}},
	{"table at address 0", VQ_CHAIN_ADDRESS, false, {{0, 16, TABLE, 0}}, {{0}}},
	{"table behind the end", VQ_CHAIN_ADDRESS, false, {{END, 16, TABLE, 0}}, {{0}}},
	{"table over the end", VQ_CHAIN_ADDRESS, false, {{END - 8, 16, TABLE, 0}}, {{0}}},
	{"table wraps", VQ_CHAIN_ADDRESS, false, {{UINT64_MAX - 15, 32, TABLE, 0}}, {{0}}},
	{"loop in a table", VQ_CHAIN_LOOP, false, {{AT, 32, TABLE, 0}},
		{{BASE, 16, NEXT, 1}, {BASE, 16, NEXT, 0}}},
	{"next behind the table", VQ_CHAIN_NEXT, false, {{AT, 32, TABLE, 0}},
		{{BASE, 16, NEXT, 2}, {BASE, 16, 0, 0}, {BASE, 16, 0, 0}}},
	{"next of a table within the ring only", VQ_CHAIN_NEXT, false, {{AT, 16, TABLE, 0}},
		{{BASE, 16, NEXT, 1}, {BASE, 16, 0, 0}}},
	{"address in a table", VQ_CHAIN_ADDRESS, false, {{AT, 16, TABLE, 0}}, {{END, 1, 0, 0}}},
	{"direction in a table", VQ_CHAIN_DIRECTION, false, {{AT, 16, TABLE, 0}},
		{{BASE, 16, WRITE, 0}}},
};

/* The chain, with its direction turned round for a queue that the device writes. */
static void
write_bad(struct fake_driver *f, const struct bad *b, bool write)
{
	for (uint32_t i = 0; i < COUNT_OF(b->table); i++) {
		const struct shape *s = &b->table[i];

		put_entry(&fake_guest, AT, i, s->addr, s->len, s->flags ^ (write ? WRITE : 0),
			s->next);
	}
	for (uint32_t i = 0; i < COUNT_OF(b->desc); i++) {
		const struct shape *s = &b->desc[i];

		fake_driver_desc(f, i, s->addr, s->len, s->flags ^ (write ? WRITE : 0), s->next);
	}
}

/* Handed out with its fault, counted, completed with 0 in its turn; its neighbours are untouched.
 */
static void
every_bad_chain(void **state)
{
	(void)state;
	for (uint32_t i = 0; i < 2 * COUNT_OF(bad_chains); i++) {
		const struct bad *b = &bad_chains[i / 2];
		bool write = i % 2;
		struct vq_chain c[4];
		struct vq_seg segs[64];
		struct fake_driver f;
		uint64_t sum = 0;

		fake_driver_init(&f, fake_guest.mem, SIZE, b->not_offered ? 0 : INDIRECT, 0xfffe);
		write_bad(&f, b, write);
		fake_driver_desc(&f, 6, BASE + 0x100, 60, write ? WRITE : 0, 0);
		fake_driver_desc(&f, 7, BASE + 0x200, 70, write ? WRITE : 0, 0);
		fake_driver_expose(&f, 6);
		fake_driver_expose(&f, 0);
		fake_driver_expose(&f, 7);
		fake_driver_publish(&f);
		assert_int_equal(vq_device_peek(&f.q, write, c, 4, segs, 64, 0), 3);
		if (c[1].fault != b->fault)
			fail_msg("%s: %s", b->what, vq_device_fault_name(c[1].fault));
		assert_int_equal(c[1].len, 0);
		assert_int_equal(c[1].nseg, 0);
		assert_int_equal(c[1].head, 0);
		for (uint32_t k = 0; k <= 2; k += 2) {
			assert_int_equal(c[k].fault, VQ_DEVICE_OK);
			assert_int_equal(c[k].head, k == 0 ? 6 : 7);
			assert_int_equal(c[k].len, k == 0 ? 60 : 70);
			assert_int_equal(c[k].nseg, 1);
			assert_ptr_equal(segs[c[k].seg].base,
				guest_at(&fake_guest, BASE + (k == 0 ? 0x100 : 0x200)));
			assert_int_equal(segs[c[k].seg].len, c[k].len);
		}
		assert_int_equal(f.q.fault, VQ_DEVICE_OK);
		for (uint32_t k = 0; k < VQ_DEVICE_FAULTS; k++)
			sum += f.q.bad_chains[k];
		assert_int_equal(sum, 1);
		assert_int_equal(f.q.bad_chains[b->fault], 1);
		for (uint32_t k = 0; k < 3; k++)
			vq_device_complete(&f.q, c[k].head, c[k].len);
		assert_int_equal(vq_device_publish(&f.q), 3);
		fake_driver_expect_used(&f, 6, 60);
		fake_driver_expect_used(&f, 0, 0);
		fake_driver_expect_used(&f, 7, 70);
		fake_driver_expect_none(&f);
		fake_driver_free(&f);
	}
}

/* A chain alone in the ring, all of it right: `n` pieces of these lengths. */
static void
expect_chain(struct fake_driver *f, uint32_t len, const struct vq_seg *want, uint32_t n)
{
	struct vq_seg segs[64];
	struct vq_chain c;

	fake_driver_expose(f, 0);
	fake_driver_publish(f);
	assert_int_equal(vq_device_peek(&f->q, false, &c, 1, segs, 64, 0), 1);
	assert_int_equal(c.fault, VQ_DEVICE_OK);
	assert_int_equal(c.head, 0);
	assert_int_equal(c.len, len);
	assert_int_equal(c.nseg, n);
	for (uint32_t i = 0; i < n; i++) {
		assert_ptr_equal(segs[c.seg + i].base, want[i].base);
		assert_int_equal(segs[c.seg + i].len, want[i].len);
	}
	vq_device_complete(&f->q, c.head, 0);
	assert_int_equal(vq_device_publish(&f->q), 1);
	fake_driver_expect_used(f, 0, 0);
}

static struct vq_seg
seg_at(uint64_t addr, uint32_t len)
{
	struct vq_seg s = {.base = guest_at(&fake_guest, addr), .len = len};

	return s;
}

static void
empty_descriptors_with_an_address(void **state)
{
	struct fake_driver f;
	struct vq_seg want[2] = {seg_at(BASE, 5), seg_at(BASE + 9, 6)};

	(void)state;
	fake_driver_init(&f, fake_guest.mem, SIZE, INDIRECT, 0);
	fake_driver_desc(&f, 0, BASE, 0, NEXT, 1);
	fake_driver_desc(&f, 1, BASE, 5, NEXT, 2);
	fake_driver_desc(&f, 2, END - 1, 0, NEXT, 3);
	fake_driver_desc(&f, 3, BASE + 9, 6, NEXT, 4);
	fake_driver_desc(&f, 4, BASE, 0, 0, 0);
	expect_chain(&f, 11, want, 2);
	fake_driver_desc(&f, 0, BASE, 0, 0, 0);
	expect_chain(&f, 0, NULL, 0);
	fake_driver_free(&f);
}

static void
buffers_cross_regions(void **state)
{
	struct vq_seg want[3] = {seg_at(BASE + REGION - 7, 7), seg_at(BASE + REGION, 93)};
	struct fake_driver f;

	(void)state;
	fake_driver_init(&f, fake_guest.mem, SIZE, 0, 0);
	fake_driver_desc(&f, 0, BASE + REGION - 7, 100, 0, 0);
	expect_chain(&f, 100, want, 2);
	/* Both in full, to the last byte. */
	want[0] = seg_at(BASE, REGION);
	want[1] = seg_at(BASE + REGION, REGION);
	fake_driver_desc(&f, 0, BASE, 2 * REGION, 0, 0);
	expect_chain(&f, 2 * REGION, want, 2);
	/* Up to the seam and from it: one piece each. */
	fake_driver_desc(&f, 0, BASE, REGION, NEXT, 1);
	fake_driver_desc(&f, 1, BASE + REGION, REGION, 0, 0);
	expect_chain(&f, 2 * REGION, want, 2);
	fake_driver_free(&f);
}

static void
a_chain_as_long_as_the_ring(void **state)
{
	struct vq_seg want[SIZE];
	struct fake_driver f;

	(void)state;
	fake_driver_init(&f, fake_guest.mem, SIZE, INDIRECT, 0);
	for (uint16_t i = 0; i < SIZE; i++) {
		want[i] = seg_at(BASE + i * 32u, i + 1u);
		fake_driver_desc(
			&f, i, BASE + i * 32u, i + 1u, i + 1 < SIZE ? NEXT : 0, (uint16_t)(i + 1));
		put_entry(&fake_guest, AT, i, BASE + i * 32u, i + 1u, i + 1 < SIZE ? NEXT : 0,
			(uint16_t)(i + 1));
	}
	expect_chain(&f, 36, want, SIZE);
	fake_driver_desc(&f, 0, AT, SIZE * 16, TABLE, 0);
	expect_chain(&f, 36, want, SIZE);
	/* A table may be longer than what is used of it. */
	fake_driver_desc(&f, 0, AT, 20 * 16, TABLE, 0);
	expect_chain(&f, 36, want, SIZE);
	fake_driver_free(&f);
}

/* A table may end a direct chain; together they are no longer than the ring. */
static void
a_table_behind_descriptors(void **state)
{
	struct vq_seg want[3] = {seg_at(BASE, 5), seg_at(BASE + 32, 6), seg_at(BASE + 64, 7)};
	struct vq_seg segs[64];
	struct vq_chain c;
	struct fake_driver f;

	(void)state;
	fake_driver_init(&f, fake_guest.mem, SIZE, INDIRECT, 0);
	fake_driver_desc(&f, 0, BASE, 5, NEXT, 1);
	fake_driver_desc(&f, 1, AT, 32, TABLE, 0);
	put_entry(&fake_guest, AT, 0, BASE + 32, 6, NEXT, 1);
	put_entry(&fake_guest, AT, 1, BASE + 64, 7, 0, 0);
	expect_chain(&f, 18, want, 3);

	fake_driver_desc(&f, 1, AT, SIZE * 16, TABLE, 0);
	for (uint16_t i = 0; i < SIZE; i++)
		put_entry(&fake_guest, AT, i, BASE, 1, i + 1 < SIZE ? NEXT : 0, (uint16_t)(i + 1));
	fake_driver_expose(&f, 0);
	fake_driver_publish(&f);
	assert_int_equal(vq_device_peek(&f.q, false, &c, 1, segs, 64, 0), 1);
	assert_int_equal(c.fault, VQ_CHAIN_LOOP);
	fake_driver_free(&f);
}

/* Wherever a table lies: unaligned, and with any of its bytes on the seam of two regions. */
static void
tables_at_every_address(void **state)
{
	struct vq_seg want[3];
	struct fake_driver f;

	(void)state;
	want[0] = seg_at(BASE, 5);
	want[1] = seg_at(BASE + 32, 6);
	want[2] = seg_at(BASE + REGION + 0x400, 7);
	fake_driver_init(&f, fake_guest.mem, SIZE, INDIRECT, 0);
	for (uint64_t at = BASE + REGION - 56; at < BASE + REGION + 8; at++) {
		/* Backwards, so that the order of the links counts and not that of the entries. */
		put_entry(&fake_guest, at, 0, BASE, 5, NEXT, 2);
		put_entry(&fake_guest, at, 1, BASE + REGION + 0x400, 7, 0, 0xffff);
		put_entry(&fake_guest, at, 2, BASE + 32, 6, NEXT, 1);
		fake_driver_desc(&f, 0, at, 48, TABLE, 0);
		expect_chain(&f, 18, want, 3);
	}
	fake_driver_free(&f);
}

/* Host addresses far beyond any memory: translated, never touched. */
#define NOWHERE ((uint8_t *)(uintptr_t)0x100000000000)

static struct vq_mem *
map(uint64_t addr, uint64_t size)
{
	struct vq_mem_region r[2] = {{addr, size, NOWHERE}, {0, 0x1000, NOWHERE}};
	struct vq_mem *mem;

	assert_int_equal(vq_mem_create(r, 2, &mem), 0);
	return mem;
}

/* The last byte of the address space is one like any other; the one behind it is none. */
static void
the_end_of_the_address_space(void **state)
{
	struct vq_mem *mem = map(UINT64_MAX - 0xfff, 0x1000);
	struct vq_chain c[4];
	struct vq_seg segs[8];
	struct fake_driver f;

	(void)state;
	fake_driver_init(&f, mem, SIZE, 0, 0);
	fake_driver_desc(&f, 0, UINT64_MAX - 15, 16, 0, 0);
	fake_driver_desc(&f, 1, UINT64_MAX - 15, 16, NEXT, 2);
	fake_driver_desc(&f, 2, UINT64_MAX, 1, 0, 0);
	fake_driver_desc(&f, 3, UINT64_MAX - 15, 17, 0, 0);
	fake_driver_desc(&f, 4, UINT64_MAX, 0, 0, 0);
	fake_driver_expose(&f, 0);
	fake_driver_expose(&f, 1);
	fake_driver_expose(&f, 3);
	fake_driver_expose(&f, 4);
	fake_driver_publish(&f);
	assert_int_equal(vq_device_peek(&f.q, false, c, 4, segs, 8, 0), 4);
	assert_int_equal(c[0].fault, VQ_DEVICE_OK);
	assert_int_equal(c[0].len, 16);
	assert_int_equal(c[1].fault, VQ_DEVICE_OK);
	assert_int_equal(c[1].len, 17);
	assert_int_equal(c[1].nseg, 2);
	assert_int_equal(c[2].fault, VQ_CHAIN_ADDRESS);
	assert_int_equal(c[3].fault, VQ_DEVICE_OK);
	fake_driver_free(&f);
	vq_mem_destroy(mem);
}

/* The sum is taken in 64 bits; a chain of 4 GiB is refused, also where it would end a batch. */
static void
chains_of_four_gigabytes(void **state)
{
	struct vq_mem *mem = map(BASE, UINT64_C(1) << 34);
	struct vq_chain c[4];
	struct vq_seg segs[8];
	struct fake_driver f;

	(void)state;
	fake_driver_init(&f, mem, SIZE, 0, 0);
	fake_driver_desc(&f, 0, BASE, UINT32_MAX, 0, 0);
	fake_driver_desc(&f, 1, BASE, 0x80000000, NEXT, 2);
	fake_driver_desc(&f, 2, BASE, 0x80000000, 0, 0);
	fake_driver_desc(&f, 3, BASE, UINT32_MAX, NEXT, 0);
	fake_driver_desc(&f, 4, BASE, 64, 0, 0);
	fake_driver_expose(&f, 0);
	fake_driver_expose(&f, 1);
	fake_driver_expose(&f, 3);
	fake_driver_expose(&f, 4);
	fake_driver_publish(&f);
	assert_int_equal(vq_device_peek(&f.q, false, c, 4, segs, 8, 0), 4);
	assert_int_equal(c[0].fault, VQ_DEVICE_OK);
	assert_int_equal(c[0].len, UINT32_MAX);
	assert_int_equal(c[1].fault, VQ_CHAIN_SEGMENTS);
	assert_int_equal(c[1].len, 0);
	assert_int_equal(c[2].fault, VQ_CHAIN_SEGMENTS);
	assert_int_equal(c[3].fault, VQ_DEVICE_OK);
	/* The array full to the last place by such a chain: it comes again, then alone. */
	vq_device_rewind(&f.q, 4);
	assert_int_equal(vq_device_peek(&f.q, false, c, 4, segs, 3, 0), 1);
	assert_int_equal(vq_device_peek(&f.q, false, c, 4, segs, 3, 0), 3);
	assert_int_equal(c[0].fault, VQ_CHAIN_SEGMENTS);
	assert_int_equal(c[2].fault, VQ_DEVICE_OK);
	fake_driver_free(&f);
	vq_mem_destroy(mem);
}

/* `count` chains of three segments each. */
static void
threes(struct fake_driver *f, uint32_t count)
{
	fake_driver_init(f, fake_guest.mem, 16, 0, 0);
	for (uint16_t i = 0; i < 3 * count; i++)
		fake_driver_desc(f, i, BASE + i, 1, i % 3 == 2 ? 0 : NEXT, (uint16_t)(i + 1));
	for (uint16_t i = 0; i < count; i++)
		fake_driver_expose(f, (uint16_t)(3 * i));
	fake_driver_publish(f);
}

/*
 * Empty buffers need no segments, and a malformed chain gives its segments back: a long ring full
 * of such must not make a batch of any length. Alone and too long, one chain is all of it.
 */
static void
the_work_of_a_batch_is_bounded(void **state)
{
	enum { RING = 4096, ROOM = 64, CHAINS = 8 };
	struct vq_seg segs[ROOM];
	struct vq_chain c[CHAINS];
	struct fake_driver f;
	uint32_t i;

	(void)state;
	fake_driver_init(&f, fake_guest.mem, RING, 0, 0);
	for (i = 0; i < RING; i++)
		fake_driver_desc(&f, (uint16_t)i, BASE, 0, NEXT, (uint16_t)((i + 1) % RING));
	for (i = 0; i < CHAINS; i++)
		fake_driver_expose(&f, 0);
	fake_driver_publish(&f);
	for (i = 0; i < CHAINS; i++) {
		assert_int_equal(vq_device_peek(&f.q, false, c, CHAINS, segs, ROOM, 0), 1);
		assert_int_equal(c[0].fault, VQ_CHAIN_SEGMENTS);
		vq_device_complete(&f.q, c[0].head, 0);
	}
	assert_int_equal(f.q.bad_chains[VQ_CHAIN_SEGMENTS], CHAINS);
	fake_driver_free(&f);
}

static void
too_many_segments_end_a_batch(void **state)
{
	struct vq_chain c[8];
	struct fake_driver f;

	(void)state;
	for (uint32_t room = 1; room <= 16; room++) {
		/* Of exactly this room: the sanitizer sees one segment too many. */
		struct vq_seg *segs = malloc(room * sizeof(*segs));
		uint32_t got = 0;

		threes(&f, 5);
		while (got < 5) {
			uint32_t n = vq_device_peek(&f.q, false, c, 8, segs, room, 0);
			uint32_t fit = room / 3 < 5 - got ? room / 3 : 5 - got;

			if (room < 3) {
				/* Alone and too long: malformed, and the next one goes. */
				assert_int_equal(n, 5);
				for (uint32_t i = 0; i < n; i++)
					assert_int_equal(c[i].fault, VQ_CHAIN_SEGMENTS);
				assert_int_equal(c[0].nseg, 0);
			} else {
				assert_int_equal(n, fit);
				for (uint32_t i = 0; i < n; i++) {
					assert_int_equal(c[i].fault, VQ_DEVICE_OK);
					assert_int_equal(c[i].seg, 3 * i);
					assert_ptr_equal(segs[3 * i].base,
						guest_at(&fake_guest, BASE + 3 * (got + i)));
				}
			}
			got += n;
		}
		assert_int_equal(f.q.bad_chains[VQ_CHAIN_SEGMENTS], room < 3 ? 5 : 0);
		assert_int_equal(f.q.outstanding, 5);
		fake_driver_free(&f);
		free(segs);
	}
}

/* A second peek appends behind the first one's segments; without room it takes nothing. */
static void
peeks_append(void **state)
{
	struct vq_chain c[8];
	struct vq_seg *segs = malloc(7 * sizeof(*segs));
	struct fake_driver f;

	(void)state;
	threes(&f, 3);
	assert_int_equal(vq_device_peek(&f.q, false, c, 1, segs, 7, 0), 1);
	assert_int_equal(vq_device_peek(&f.q, false, c + 1, 4, segs, 7, 3), 1);
	assert_int_equal(c[1].seg, 3);
	assert_ptr_equal(segs[5].base, guest_at(&fake_guest, BASE + 5));
	assert_int_equal(vq_device_peek(&f.q, false, c + 2, 4, segs, 7, 6), 0);
	assert_int_equal(vq_device_peek(&f.q, false, c + 2, 4, segs, 7, 7), 0);
	assert_int_equal(f.q.bad_chains[VQ_CHAIN_SEGMENTS], 0);
	assert_int_equal(f.q.outstanding, 2);
	assert_int_equal(vq_device_peek(&f.q, false, c + 2, 4, segs, 7, 0), 1);
	assert_int_equal(c[2].fault, VQ_DEVICE_OK);
	fake_driver_free(&f);
	free(segs);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_bad_chain),
		cmocka_unit_test(empty_descriptors_with_an_address),
		cmocka_unit_test(buffers_cross_regions),
		cmocka_unit_test(a_chain_as_long_as_the_ring),
		cmocka_unit_test(a_table_behind_descriptors),
		cmocka_unit_test(tables_at_every_address),
		cmocka_unit_test(the_end_of_the_address_space),
		cmocka_unit_test(chains_of_four_gigabytes),
		cmocka_unit_test(the_work_of_a_batch_is_bounded),
		cmocka_unit_test(too_many_segments_end_a_batch),
		cmocka_unit_test(peeks_append),
	};

	return cmocka_run_group_tests(tests, fake_guest_setup, fake_guest_teardown);
}
