/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Both ends in one process and one thread, chain by chain: every ring size, every base around the
 * wrap, chains of one descriptor to as many as the ring has, direct and through indirect tables,
 * completed in order, out of order, and in IN_ORDER batches. Each buffer is a cell of its own with
 * a margin around it; each byte and each cookie is accounted for.
 */

#include <stdlib.h>
#include <string.h>

#include "covering.h"
#include "pair.h"

#define CELL   32u
#define CELLS  (2 * VQ_SIZE_MAX + 256)
#define CHAINS 4096u
#define LISTED 192u /* chain lengths of a row */
#define MARGIN 0x5c
#define BURST  64u
#define SEGS   (2 * VQ_SIZE_MAX)

#ifndef REPEAT
#define REPEAT 3u
#endif

enum factor {
	F_SIZE,
	F_BASE,
	F_IN_ORDER,
	F_EVENT_IDX,
	F_SHAPE,
	F_WRITE,
	F_SHUFFLED,
	F_BURST,
	F_ARRAY,
	F_REGIONS,
	FACTORS,
};

enum shape {
	DIRECT,
	INDIRECT,
	MIXED,
	SHAPES,
};

static const uint32_t bursts[] = {1, 7, BURST};
static const uint32_t arrays[] = {1, 5, BURST};

static const uint32_t levels[FACTORS] = {
	[F_SIZE] = PAIR_SIZES,
	[F_BASE] = BASES,
	[F_IN_ORDER] = 2,
	[F_EVENT_IDX] = 2,
	[F_SHAPE] = SHAPES,
	[F_WRITE] = 2,
	[F_SHUFFLED] = 2,
	[F_BURST] = COUNT_OF(bursts),
	[F_ARRAY] = COUNT_OF(arrays),
	[F_REGIONS] = 2,
};

/* A chain on its way; which bytes it has follows from its number. */
struct sent {
	uint32_t *cells;
	uint32_t ndesc;
	uint32_t len;
	bool in_flight;
};

struct run {
	uint64_t random;
	struct guest guest;
	struct pair pair;
	uint32_t size, shape, burst, array;
	bool write, in_order, ordered;
	uint32_t lens[LISTED]; /* what chain lengths to send, in descriptors */
	uint32_t nlens;
	uint32_t total, added, seen, back; /* chains: to send, added, handed out, come back */
	uint64_t descriptors;
	struct sent sent[CHAINS];
	struct vq_chain held[CHAINS]; /* handed out and not completed */
	uint32_t held_number[CHAINS];
	uint32_t nheld;
	uint32_t free_cells[CELLS];
	uint32_t nfree;
};

static struct vq_seg segs[SEGS];
static struct vq_sg sg[VQ_SIZE_MAX];

static uint32_t
mix(uint32_t a, uint32_t b)
{
	uint32_t x = (a + 1) * 0x9e3779b1u ^ (b + 1) * 0x85ebca6bu;

	x ^= x >> 15;
	x *= 0x2c1b3c6du;
	return x ^ x >> 13;
}

/* Byte i of chain `number`. */
static uint8_t
content(uint32_t number, uint32_t i)
{
	return (uint8_t)(mix(number, i >> 2) >> (i & 3) * 8);
}

/* Where in its cell descriptor k of a chain lies. Some are empty, never the first. */
static uint32_t
offset_of(uint32_t number, uint32_t k)
{
	return 1 + mix(~number, k) % 8;
}

static uint32_t
length_of(uint32_t number, uint32_t k)
{
	return k == 0 ? 1 + mix(number, ~k) % 16 : mix(number, ~k) % 17;
}

/* What the device writes into a receive chain: all of it as often as not. */
static uint32_t
written(const struct run *r, uint32_t number)
{
	uint32_t len = r->sent[number].len;

	if (!r->write)
		return 0;
	return mix(number, 77) % 2 ? len : mix(number, 78) % (len + 1);
}

static uint64_t
cell_at(uint32_t cell)
{
	return GUEST_BASE + (uint64_t)cell * CELL;
}

/* A cell as the driver made it, or as the device has to leave it; `at` is the chain's byte there.
 */
static void
cell_image(uint8_t *image, uint32_t number, uint32_t k, uint32_t at, uint32_t filled)
{
	uint32_t len = length_of(number, k);
	uint8_t *to = image + offset_of(number, k);

	memset(image, MARGIN, CELL);
	for (uint32_t i = 0; i < len && at + i < filled; i++)
		to[i] = content(number, at + i);
}

static bool
fits(const struct run *r, uint32_t ndesc, bool indirect)
{
	return vq_driver_free(&r->pair.driver) >= (indirect ? 1 : ndesc) && r->nfree >= ndesc;
}

/* Add the next chain, or say that there is no room. */
static bool
add(struct run *r)
{
	struct vq_driver *q = &r->pair.driver;
	uint32_t number = r->added;
	uint32_t ndesc = r->lens[number % r->nlens];
	bool indirect = r->shape == INDIRECT || (r->shape == MIXED && mix(number, 5) % 2);
	uint16_t flags = r->write ? VQ_DESC_WRITE : 0;
	void *cookie = (void *)(uintptr_t)(number + 1);
	struct sent *s = &r->sent[number];

	if (number == r->total || !fits(r, ndesc, indirect))
		return false;
	*s = (struct sent){.cells = malloc(ndesc * sizeof(uint32_t)), .ndesc = ndesc};
	assert_non_null(s->cells);
	s->in_flight = true;
	for (uint32_t k = 0; k < ndesc; k++) {
		uint8_t image[CELL];

		s->cells[k] = r->free_cells[--r->nfree];
		sg[k].addr = cell_at(s->cells[k]) + offset_of(number, k);
		sg[k].len = length_of(number, k);
		cell_image(image, number, k, s->len, r->write ? 0 : UINT32_MAX);
		guest_write(&r->guest, cell_at(s->cells[k]), image, CELL);
		s->len += sg[k].len;
	}
	if (indirect)
		vq_driver_add_indirect(q, sg, ndesc, flags, cookie);
	else if (ndesc == 1 && number % 2)
		vq_driver_add(q, sg[0].addr, sg[0].len, flags, cookie);
	else
		vq_driver_add_chain(q, sg, ndesc, flags, cookie);
	r->added++;
	r->descriptors += ndesc;
	return true;
}

/* The device has a chain: read it, or write it. */
static void
use(struct run *r, const struct vq_chain *c, uint32_t number)
{
	uint32_t at = 0, to = written(r, number);

	assert_int_equal(c->fault, VQ_DEVICE_OK);
	assert_int_equal(c->len, r->sent[number].len);
	for (uint32_t i = 0; i < c->nseg; i++) {
		const struct vq_seg *s = &segs[c->seg + i];

		assert_true(s->len != 0);
		for (uint32_t k = 0; k < s->len; k++, at++) {
			if (r->write && at < to)
				s->base[k] = content(number, at);
			else if (!r->write && s->base[k] != content(number, at))
				fail_msg("byte %u of chain %u is another", at, number);
		}
	}
	assert_int_equal(at, c->len);
}

static void
take(struct run *r)
{
	uint32_t n = vq_device_peek(&r->pair.device, r->write, r->held + r->nheld,
		CHAINS - r->nheld < r->burst ? CHAINS - r->nheld : r->burst, segs, SEGS, 0);

	for (uint32_t i = 0; i < n; i++) {
		r->held_number[r->nheld + i] = r->seen;
		use(r, &r->held[r->nheld + i], r->seen++);
	}
	r->nheld += n;
	/* Some go back and come again. */
	if (n != 0 && rnd_below(&r->random, 4) == 0) {
		n = rnd_below(&r->random, n + 1);
		vq_device_rewind(&r->pair.device, n);
		r->seen -= n;
		r->nheld -= n;
	}
}

static void
forget_held(struct run *r, uint32_t from, uint32_t n)
{
	memmove(r->held + from, r->held + from + n, (r->nheld - from - n) * sizeof(*r->held));
	memmove(r->held_number + from, r->held_number + from + n,
		(r->nheld - from - n) * sizeof(*r->held_number));
	r->nheld -= n;
}

static void
complete(struct run *r)
{
	struct vq_device *q = &r->pair.device;
	uint32_t n = rnd_below(&r->random, r->nheld + 1);

	if (!r->write && r->ordered) {
		vq_device_complete_tx(q, r->held, n);
		forget_held(r, 0, n);
	} else {
		for (uint32_t i = 0; i < n; i++) {
			uint32_t which = r->ordered ? 0 : rnd_below(&r->random, r->nheld);

			vq_device_complete(
				q, r->held[which].head, written(r, r->held_number[which]));
			forget_held(r, which, 1);
		}
	}
	assert_int_equal(vq_device_publish(q), n);
	(void)vq_device_call(q, n, 0);
}

/* A cookie has come back: once, in its turn, and every cell of its chain is as it has to be. */
static void
take_back(struct run *r, uint32_t number, uint32_t len)
{
	struct sent *s = &r->sent[number];
	uint32_t filled = r->write ? written(r, number) : UINT32_MAX;
	uint32_t at = 0;

	assert_true(number < r->added && s->in_flight);
	if (r->ordered)
		assert_int_equal(number, r->back);
	if (r->write)
		assert_int_equal(len, written(r, number));
	for (uint32_t k = 0; k < s->ndesc; k++) {
		uint8_t want[CELL], got[CELL];

		cell_image(want, number, k, at, filled);
		guest_read(&r->guest, cell_at(s->cells[k]), got, CELL);
		if (memcmp(want, got, CELL) != 0)
			fail_msg("descriptor %u of chain %u: other bytes", k, number);
		at += length_of(number, k);
		r->free_cells[r->nfree++] = s->cells[k];
	}
	free(s->cells);
	s->in_flight = false;
	r->back++;
}

static void
reap(struct run *r)
{
	uint32_t lens[BURST], n;
	void *c[BURST];

	n = vq_driver_reap(&r->pair.driver, c, r->write ? lens : NULL, r->array);
	assert_true(n <= r->array);
	for (uint32_t i = 0; i < n; i++)
		take_back(r, (uint32_t)(uintptr_t)c[i] - 1, r->write ? lens[i] : 0);
	assert_int_equal(r->pair.driver.fault, VQ_DRIVER_OK);
}

/* Another device: chains handed out and not completed come again. */
static void
restart(struct run *r)
{
	/* Where the ring is resumed is a number, so what is out must be the newest. */
	if (!r->ordered && r->nheld != 0)
		return;
	pair_restart_device(&r->pair);
	r->seen -= r->nheld;
	r->nheld = 0;
}

/* Every length of a small ring; of a large one the ends, the middle and some between. */
static void
list_lengths(struct run *r)
{
	uint32_t size = r->size;

	r->nlens = 0;
	if (size <= 64) {
		for (uint32_t n = 1; n <= size; n++)
			r->lens[r->nlens++] = n;
	} else {
		const uint32_t ends[] = {1, size, 2, size - 1, size / 2, size / 2 + 1, 3, size / 3};

		for (uint32_t i = 0; i < COUNT_OF(ends); i++)
			r->lens[r->nlens++] = ends[i];
		for (uint32_t i = 0; i < 40; i++)
			r->lens[r->nlens++] = 1 + rnd_below(&r->random, size < 500 ? size : 40);
	}
	for (uint32_t i = r->nlens; i > 1; i--) {
		uint32_t k = rnd_below(&r->random, i), other = r->lens[i - 1];

		r->lens[i - 1] = r->lens[k];
		r->lens[k] = other;
	}
	/* Small rings go round some times. */
	r->total = r->nlens * REPEAT;
	if (r->total < 100)
		r->total = 100;
}

static void
setup_run(struct run *r, const uint8_t *level)
{
	struct pair_config config = {0};

	memset(r, 0, sizeof(*r));
	r->random = 1;
	for (uint32_t i = 0; i < FACTORS; i++)
		r->random = r->random * 16 + level[i] + 1;
	r->size = config.size = pair_size(level[F_SIZE]);
	config.base = pair_base(r->size, level[F_BASE]);
	r->in_order = level[F_IN_ORDER];
	r->ordered = r->in_order || !level[F_SHUFFLED];
	r->write = level[F_WRITE];
	r->shape = level[F_SHAPE];
	r->burst = bursts[level[F_BURST]];
	r->array = arrays[level[F_ARRAY]];
	config.features = VQ_FEATURE(VERSION_1) | (r->in_order ? VQ_FEATURE(IN_ORDER) : 0) |
			  (level[F_EVENT_IDX] ? VQ_FEATURE(EVENT_IDX) : 0) |
			  (r->shape != DIRECT ? VQ_FEATURE(INDIRECT_DESC) : 0);
	/* Of several regions the seams lie anywhere in cells and buffers. */
	if (level[F_REGIONS])
		guest_init(&r->guest, 7, (uint64_t)CELLS * CELL / 7 + 5, 0);
	else
		guest_init(&r->guest, 1, (uint64_t)CELLS * CELL, 0);
	if (r->shape != DIRECT) {
		config.table_len = r->size;
		config.table_addr = guest_add_sparse(
			&r->guest, (uint64_t)r->size * r->size * sizeof(struct vq_desc));
	}
	pair_init(&r->pair, &r->guest, &config);
	while (r->nfree < CELLS) {
		uint32_t k = rnd_below(&r->random, ++r->nfree);

		r->free_cells[r->nfree - 1] = r->free_cells[k];
		r->free_cells[k] = r->nfree - 1;
	}
	list_lengths(r);
	assert_true(r->total <= CHAINS);
	pair_say("size %u base %u %s %s features 0x%lx burst %u array %u%s%s", r->size, config.base,
		r->write ? "receive" : "transmit", r->ordered ? "in turn" : "shuffled",
		(unsigned long)config.features, r->burst, r->array,
		r->shape == MIXED ? " mixed" : "", level[F_REGIONS] ? " over regions" : "");
}

static void
run_row(struct run *r)
{
	for (uint32_t turn = 0; r->back < r->total; turn++) {
		assert_true(turn < 1000 * CHAINS);
		switch (rnd_below(&r->random, 4)) {
		case 0:
			for (uint32_t n = rnd_below(&r->random, 2 * BURST); n != 0 && add(r);)
				n--;
			vq_driver_publish(&r->pair.driver);
			(void)vq_driver_need_notify(&r->pair.driver);
			break;
		case 1:
			take(r);
			break;
		case 2:
			complete(r);
			break;
		default:
			reap(r);
			if (rnd_below(&r->random, 16) == 0)
				restart(r);
			break;
		}
	}
	pair_expect_level(&r->pair);
	assert_int_equal(r->nfree, CELLS);
	for (uint32_t i = 0; i < VQ_DEVICE_FAULTS; i++)
		assert_int_equal(r->pair.device.bad_chains[i], 0);
}

static void
every_pair_of_settings(void **state)
{
	uint64_t chains = 0, descriptors = 0;
	static struct covering rows;
	static struct run r;

	(void)state;
	covering_make(&rows, levels, FACTORS);
	for (uint32_t i = 0; i < rows.rows; i++) {
		setup_run(&r, rows.level[i]);
		run_row(&r);
		chains += r.total;
		descriptors += r.descriptors;
		pair_free(&r.pair);
		guest_free(&r.guest);
	}
	pair_say_nothing();
	print_message("%u rows, %lu chains of %lu descriptors\n", rows.rows, (unsigned long)chains,
		(unsigned long)descriptors);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(every_pair_of_settings, pair_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
