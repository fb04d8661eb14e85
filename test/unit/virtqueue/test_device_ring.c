/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The device side: start, indices, wrap, resume, completion, and rings that are malformed. */

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "fake_driver.h"

#define IN_ORDER VQ_FEATURE(IN_ORDER)

static uint32_t
peek(struct fake_driver *f, struct vq_chain *c, uint32_t n)
{
	static struct vq_seg segs[64];

	assert_true(n <= 64);
	return vq_device_peek(&f->q, false, c, n, segs, 64, 0);
}

static void
bad_configurations_are_refused(void **state)
{
	_Alignas(64) static uint8_t block[4096];
	static const uint32_t sizes[] = {0, 3, 257, 32769, 65536, UINT32_MAX};
	struct vq_device_config good = {.size = 16,
		.desc = block,
		.avail = block + 1024,
		.used = block + 2048,
		.mem = fake_guest.mem};
	struct vq_device_config c;
	struct vq_device q;

	(void)state;
	assert_int_equal(vq_device_init(&q, &good), 0);
	for (uint32_t i = 0; i < COUNT_OF(sizes); i++) {
		c = good;
		c.size = sizes[i];
		assert_int_equal(vq_device_init(&q, &c), -EINVAL);
	}
	c = good;
	c.mem = NULL;
	assert_int_equal(vq_device_init(&q, &c), -EINVAL);
	c = good;
	c.desc = NULL;
	assert_int_equal(vq_device_init(&q, &c), -EINVAL);
	c.desc = block + 8;
	assert_int_equal(vq_device_init(&q, &c), -EINVAL);
	c = good;
	c.avail = NULL;
	assert_int_equal(vq_device_init(&q, &c), -EINVAL);
	c.avail = block + 1025;
	assert_int_equal(vq_device_init(&q, &c), -EINVAL);
	c.avail = block + 1026;
	assert_int_equal(vq_device_init(&q, &c), 0);
	c = good;
	c.used = NULL;
	assert_int_equal(vq_device_init(&q, &c), -EINVAL);
	c.used = block + 2050;
	assert_int_equal(vq_device_init(&q, &c), -EINVAL);
	c.used = block + 2052;
	assert_int_equal(vq_device_init(&q, &c), 0);
}

static void
faults_have_names(void **state)
{
	(void)state;
	for (int i = 0; i < VQ_DEVICE_FAULTS; i++)
		assert_true(strlen(vq_device_fault_name((enum vq_device_fault)i)) >= 4);
}

/* Broken: nothing more comes, what is out may still be completed, another start helps. */
static void
end_broken(struct fake_driver *f, enum vq_device_fault fault)
{
	struct vq_chain c[8];
	uint16_t out = f->q.outstanding;

	assert_int_equal(f->q.fault, fault);
	f->avail_idx = vq_device_base(&f->q);
	fake_driver_expose_n(f, 1);
	assert_int_equal(peek(f, c, 8), 0);
	assert_false(vq_device_arm(&f->q));
	vq_device_disarm(&f->q);
	for (uint16_t i = 0; i < out; i++)
		vq_device_complete(&f->q, i, 0);
	assert_int_equal(vq_device_publish(&f->q), out);
	assert_int_equal(f->q.outstanding, 0);
	assert_int_equal(f->q.fault, fault);

	f->avail_idx = vq_device_base(&f->q);
	fake_driver_restart(f, fake_guest.mem, f->avail_idx);
	fake_driver_expose_n(f, 2);
	assert_int_equal(f->q.fault, VQ_DEVICE_OK);
	assert_int_equal(peek(f, c, 8), 2);
	fake_driver_free(f);
}

static void
index_leaps(void **state)
{
	static const uint16_t bases[] = {0, 5, 65530, 65535, 32768};
	static const uint16_t leaps[] = {9, 10, 16, 255, 256, 32767, 32768, 65528, 65535};

	(void)state;
	for (uint32_t b = 0; b < COUNT_OF(bases); b++) {
		for (uint32_t i = 0; i < COUNT_OF(leaps); i++) {
			struct vq_chain c[16];
			struct fake_driver f;

			fake_driver_begin(&f, 8, 0, bases[b]);
			memset(f.avail->ring, 0, 16);
			vq_publish_index(&f.avail->idx, (uint16_t)(bases[b] + leaps[i]));
			assert_int_equal(peek(&f, c, 16), 0);
			end_broken(&f, VQ_RING_INDEX);

			/* A full ring is none. */
			fake_driver_begin(&f, 8, 0, bases[b]);
			fake_driver_expose_n(&f, 8);
			assert_int_equal(peek(&f, c, 16), 8);
			assert_int_equal(f.q.fault, VQ_DEVICE_OK);
			fake_driver_free(&f);
		}
	}
}

/* What is handed out is not the driver's to make available again. */
static void
index_leaps_over_outstanding_chains(void **state)
{
	(void)state;
	for (uint32_t out = 1; out <= 8; out++) {
		for (uint32_t more = 0; more <= 9; more++) {
			struct vq_chain c[16];
			struct fake_driver f;

			fake_driver_begin(&f, 8, 0, 65533);
			fake_driver_expose_n(&f, out);
			assert_int_equal(peek(&f, c, 16), out);
			fake_driver_expose_n(&f, more);
			if (out + more <= 8) {
				assert_int_equal(peek(&f, c, 16), more);
				assert_int_equal(f.q.fault, VQ_DEVICE_OK);
				fake_driver_free(&f);
				continue;
			}
			assert_int_equal(peek(&f, c, 16), 0);
			end_broken(&f, VQ_RING_INDEX);
		}
	}
}

/* The chains before it are handed out; it is a malformed ring all the same. */
static void
heads_out_of_range(void **state)
{
	static const uint16_t heads[] = {8, 9, 16, 255, 32768, 65535};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(heads); i++) {
		for (uint32_t before = 0; before < 4; before++) {
			struct vq_chain c[8];
			struct fake_driver f;

			fake_driver_begin(&f, 8, 0, 65534);
			fake_driver_expose_n(&f, before);
			fake_driver_expose(&f, heads[i]);
			fake_driver_expose_n(&f, 2);
			assert_int_equal(peek(&f, c, 8), before);
			for (uint32_t k = 0; k < before; k++)
				assert_int_equal(c[k].fault, VQ_DEVICE_OK);
			end_broken(&f, VQ_RING_HEAD);
		}
	}
}

/* The same head twice is the driver's own loss: two chains over one buffer, completed twice. */
static void
a_head_twice(void **state)
{
	struct vq_chain c[8];
	struct fake_driver f;

	(void)state;
	fake_driver_begin(&f, 8, 0, 0);
	fake_driver_expose(&f, 3);
	fake_driver_expose(&f, 3);
	fake_driver_publish(&f);
	assert_int_equal(peek(&f, c, 8), 2);
	vq_device_complete_tx(&f.q, c, 2);
	assert_int_equal(vq_device_publish(&f.q), 2);
	fake_driver_expect_used(&f, 3, 0);
	fake_driver_expect_used(&f, 3, 0);
	fake_driver_free(&f);
}

/* What is put back comes again, in its place; the base counts what is not completed. */
static void
rewind_and_base(void **state)
{
	struct vq_chain c[8];
	struct fake_driver f;

	(void)state;
	fake_driver_begin(&f, 8, 0, 65533);
	assert_int_equal(vq_device_base(&f.q), 65533);
	fake_driver_expose_n(&f, 6);
	assert_int_equal(vq_device_base(&f.q), 65533);
	assert_int_equal(peek(&f, c, 6), 6);
	assert_int_equal(vq_device_base(&f.q), 65533);
	vq_device_rewind(&f.q, 4);
	assert_int_equal(f.q.outstanding, 2);
	vq_device_complete(&f.q, c[0].head, 0);
	assert_int_equal(vq_device_base(&f.q), 65534);
	assert_int_equal(peek(&f, c, 8), 4);
	assert_int_equal(c[0].head, 65535 & 7);
	assert_int_equal(c[3].head, 2);
	vq_device_rewind(&f.q, 4);
	vq_device_rewind(&f.q, 0);
	vq_device_complete(&f.q, 65534 & 7, 0);
	assert_int_equal(vq_device_base(&f.q), 65535);
	assert_int_equal(f.q.outstanding, 0);
	/* Asking twice is harmless. */
	assert_int_equal(vq_device_base(&f.q), 65535);
	fake_driver_free(&f);
}

/* Stopped and started anywhere: nothing twice, nothing left out, the used index taken anew. */
static void
resume_at_any_base(void **state)
{
	uint64_t random = 31;

	(void)state;
	for (uint32_t size = 1; size <= VQ_SIZE_MAX; size *= 2) {
		static const uint16_t bases[] = {0, 1, 32767, 32768, 65530, 65535};

		for (uint32_t b = 0; b < COUNT_OF(bases); b++) {
			uint16_t next = bases[b];
			struct fake_driver f;

			fake_driver_begin(&f, size, 0, bases[b]);
			for (uint32_t round = 0; round < 20; round++) {
				uint32_t room = size - (uint16_t)(f.avail_idx - next);
				struct vq_chain c[16];
				uint32_t n, done;

				fake_driver_expose_n(
					&f, rnd_below(&random, (room < 40 ? room : 40) + 1));
				n = peek(&f, c, 16);
				done = rnd_below(&random, n + 1);
				for (uint32_t i = 0; i < done; i++, next++) {
					assert_int_equal(c[i].head, next & (size - 1));
					assert_int_equal(c[i].len, 1 + c[i].head % 2048);
					vq_device_complete(&f.q, c[i].head, 0);
				}
				(void)vq_device_publish(&f.q);
				for (uint32_t i = 0; i < done; i++)
					fake_driver_expect_used(&f, c[i].head, 0);
				fake_driver_expect_none(&f);
				/* With chains still handed out. */
				fake_driver_restart(&f, fake_guest.mem, vq_device_base(&f.q));
				assert_int_equal(vq_device_base(&f.q), next);
			}
			assert_int_equal(f.q.fault, VQ_DEVICE_OK);
			fake_driver_free(&f);
		}
	}
}

/* The used index need not be the base: the ring says where it stands. */
static void
used_index_is_taken_from_the_ring(void **state)
{
	static const uint16_t at[] = {0, 1, 7, 65535, 32768};

	(void)state;
	for (uint32_t i = 0; i < COUNT_OF(at); i++) {
		struct vq_chain c[8];
		struct fake_driver f;

		fake_driver_begin(&f, 8, 0, 100);
		vq_publish_index(&f.used->idx, at[i]);
		f.used_idx = at[i];
		fake_driver_restart(&f, fake_guest.mem, 100);
		fake_driver_expose_n(&f, 3);
		assert_int_equal(vq_device_publish(&f.q), 0);
		assert_int_equal(peek(&f, c, 8), 3);
		vq_device_complete_tx(&f.q, c, 3);
		fake_driver_expect_none(&f);
		assert_int_equal(vq_device_publish(&f.q), 3);
		assert_int_equal(vq_load(&f.used->idx), (uint16_t)(at[i] + 3));
		for (uint32_t k = 0; k < 3; k++)
			fake_driver_expect_used(&f, c[k].head, 0);
		fake_driver_free(&f);
	}
}

/* More than 65,536 chains through every size. */
static void
indices_wrap_at_every_size(void **state)
{
	(void)state;
	for (uint32_t row = 0; row < 32; row++) {
		uint64_t features = row % 2 ? IN_ORDER : 0;
		uint32_t size = 1u << row / 2;
		uint64_t random = size;
		struct fake_driver f;

		fake_driver_begin(&f, size, features, 0);
		for (uint32_t total = 0; total < 70000;) {
			uint32_t room = size - (uint16_t)(f.avail_idx - f.used_idx);
			struct vq_chain c[64];
			uint32_t n;

			fake_driver_expose_n(&f, rnd_below(&random, (room < 100 ? room : 100) + 1));
			n = peek(&f, c, 1 + rnd_below(&random, 64));
			for (uint32_t i = 0; i < n; i++)
				assert_int_equal(c[i].head, (total + i) & (size - 1));
			total += n;
			vq_device_complete_tx(&f.q, c, n);
			assert_int_equal(vq_device_publish(&f.q), n);
			if (n != 0 && features) {
				fake_driver_expect_used(&f, c[n - 1].head, 0);
				f.used_idx = (uint16_t)(f.used_idx + n - 1);
			}
			for (uint32_t i = 0; i < n && !features; i++)
				fake_driver_expect_used(&f, c[i].head, 0);
			fake_driver_expect_none(&f);
		}
		assert_int_equal(f.q.fault, VQ_DEVICE_OK);
		fake_driver_free(&f);
	}
}

/* IN_ORDER: one entry for a batch, at its first place, with its last head; no other is written. */
static void
one_used_entry_for_a_batch(void **state)
{
	(void)state;
	for (uint32_t n = 0; n <= 8; n++) {
		struct vq_chain c[8];
		struct fake_driver f;

		fake_driver_begin(&f, 8, IN_ORDER, 65533);
		fake_driver_expose_n(&f, 8);
		assert_int_equal(peek(&f, c, 8), 8);
		memset(f.used->ring, 0xcc, 64);
		vq_device_complete_tx(&f.q, c, n);
		assert_int_equal(f.q.outstanding, 8 - n);
		assert_int_equal(vq_device_publish(&f.q), n);
		assert_int_equal(vq_load(&f.used->idx), (uint16_t)(65533 + n));
		for (uint32_t i = 0; i < 8; i++) {
			const struct vq_used_elem *e = &f.used->ring[(65533 + i) & 7];

			if (i == 0 && n != 0) {
				assert_int_equal(e->id, c[n - 1].head);
				assert_int_equal(e->len, 0);
			} else {
				assert_int_equal(e->id, 0xcccccccc);
				assert_int_equal(e->len, 0xcccccccc);
			}
		}
		fake_driver_free(&f);
	}
}

/* The used entry of a lap ago is left alone when it is the same: the page is read-only by then. */
static void
equal_used_entries_are_not_written_again(void **state)
{
	const size_t page = 4096;
	uint8_t *map =
		mmap(NULL, 3 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct vq_used *own;
	struct fake_driver f;

	(void)state;
	assert_ptr_not_equal(map, MAP_FAILED);
	fake_driver_begin(&f, 512, 0, 0);
	own = f.used;
	f.used = (struct vq_used *)(void *)(map + page - 4);
	fake_driver_restart(&f, fake_guest.mem, 0);
	for (uint32_t lap = 0; lap < 4; lap++) {
		for (uint32_t i = 0; i < 512; i += 32) {
			struct vq_chain c[32];

			fake_driver_expose_n(&f, 32);
			assert_int_equal(peek(&f, c, 32), 32);
			for (uint32_t k = 0; k < 32; k++)
				vq_device_complete(&f.q, c[k].head, 76);
			assert_int_equal(vq_device_publish(&f.q), 32);
			for (uint32_t k = 0; k < 32; k++)
				fake_driver_expect_used(&f, i + k, 76);
		}
		assert_int_equal(mprotect(map + page, page, PROT_READ), 0);
	}
	f.used = own;
	fake_driver_free(&f);
	munmap(map, 3 * page);
}

/* The ring is mapped elsewhere, the old mapping gone: it goes on where it stood. */
static void
a_ring_moves(void **state)
{
	struct vq_chain c[8];
	struct fake_driver f, g;

	(void)state;
	fake_driver_begin(&f, 8, 0, 65534);
	fake_driver_expose_n(&f, 6);
	assert_int_equal(peek(&f, c, 3), 3);
	vq_device_complete_tx(&f.q, c, 3);
	(void)vq_device_publish(&f.q);

	fake_driver_begin(&g, 8, 0, 65534);
	memcpy(g.avail, f.avail, vq_avail_bytes(8));
	memcpy(g.used, f.used, vq_used_bytes(8));
	g.q = f.q;
	g.avail_idx = f.avail_idx;
	fake_driver_free(&f);
	vq_device_move(&g.q, g.desc, g.avail, g.used, fake_guest.mem);
	assert_int_equal(peek(&g, c, 8), 3);
	assert_int_equal(c[0].head, 1);
	vq_device_complete_tx(&g.q, c, 3);
	assert_int_equal(vq_device_publish(&g.q), 3);
	for (uint32_t i = 0; i < 6; i++)
		fake_driver_expect_used(&g, (6 + i) & 7, 0);
	fake_driver_expect_none(&g);
	fake_driver_free(&g);
}

/*
 * Entries that name the descriptor of their own place are taken several at a time. Wherever that
 * row ends, at two that are swapped, at a chain of two, at one that is empty or malformed, or at
 * the end of the ring: every chain is handed out in its turn, with its own length and segments.
 */
static void
entries_in_their_own_place(void **state)
{
	enum { SIZE = 16 };
	enum { SWAPPED, CHAIN, EMPTY, BAD, KINDS };
	struct vq_chain c[SIZE];
	struct vq_seg segs[2 * SIZE];

	(void)state;
	for (uint32_t test = 0; test < SIZE * SIZE * KINDS; test++) {
		const uint32_t base = test % SIZE;
		const uint32_t odd = test / SIZE % SIZE; /* a place counted from the base */
		const uint32_t kind = test / SIZE / SIZE;
		struct fake_driver f;
		uint32_t seg = 0;

		fake_driver_begin(&f, SIZE, 0, (uint16_t)base);
		for (uint32_t i = 0; i < SIZE; i++) {
			uint32_t id = (base + i) % SIZE;

			if (kind == SWAPPED && odd + 1 < SIZE && (i == odd || i == odd + 1))
				id = (base + 2 * odd + 1 - i) % SIZE;
			fake_driver_expose(&f, (uint16_t)id);
		}
		if (kind == CHAIN) {
			f.desc[(base + odd) % SIZE].flags = VQ_DESC_NEXT;
			f.desc[(base + odd) % SIZE].next = (uint16_t)((base + odd + 1) % SIZE);
			f.desc[(base + odd + 1) % SIZE].flags = 0;
		} else if (kind == EMPTY) {
			f.desc[(base + odd) % SIZE].len = 0;
		} else if (kind == BAD) {
			f.desc[(base + odd) % SIZE].addr = UINT64_MAX - 3;
		}
		fake_driver_publish(&f);
		assert_int_equal(vq_device_peek(&f.q, false, c, SIZE, segs, 2 * SIZE, 0), SIZE);
		for (uint32_t i = 0; i < SIZE; i++) {
			const uint32_t id = vq_load(&f.avail->ring[(base + i) % SIZE]);
			const bool is_odd = i == odd;
			uint32_t len = f.desc[id].len, nseg = 1;

			if (kind == CHAIN && is_odd) {
				len += f.desc[(id + 1) % SIZE].len;
				nseg = 2;
			} else if ((kind == EMPTY || kind == BAD) && is_odd) {
				len = nseg = 0;
			}
			assert_int_equal(c[i].head, id);
			assert_int_equal(c[i].len, len);
			assert_int_equal(c[i].nseg, nseg);
			assert_int_equal(c[i].seg, seg);
			assert_int_equal(c[i].fault,
				kind == BAD && is_odd ? VQ_CHAIN_ADDRESS : VQ_DEVICE_OK);
			if (nseg != 0) {
				assert_int_equal(segs[seg].len, f.desc[id].len);
				assert_ptr_equal(
					segs[seg].base, guest_at(&fake_guest, f.desc[id].addr));
			}
			seg += nseg;
		}
		fake_driver_free(&f);
	}
}

/*
 * As many chains as there is room for segments, whatever the room, in arrays of exactly that size;
 * the next call goes on where this one had to end.
 */
static void
no_segment_behind_the_array(void **state)
{
	enum { SIZE = 16 };

	(void)state;
	for (uint32_t test = 0; test < (SIZE + 1) * SIZE * 2; test++) {
		const uint32_t nsegs = test % (SIZE + 1);
		const uint32_t seg0 = test / (SIZE + 1) % SIZE;
		const bool write = test / (SIZE + 1) / SIZE != 0;
		struct vq_chain *c = calloc(SIZE, sizeof(*c));
		struct vq_seg *segs = calloc(nsegs, sizeof(*segs));
		struct fake_driver f;
		uint32_t taken = 0;

		if (seg0 >= nsegs) {
			free(c);
			free(segs);
			continue;
		}
		fake_driver_begin(&f, SIZE, 0, (uint16_t)(nsegs + seg0));
		for (uint32_t i = 0; i < SIZE && write; i++)
			f.desc[i].flags = VQ_DESC_WRITE;
		fake_driver_expose_n(&f, SIZE);
		while (taken < SIZE) {
			const uint32_t room = nsegs - seg0;
			const uint32_t left = SIZE - taken;
			const uint32_t want = room < left ? room : left;

			assert_int_equal(
				vq_device_peek(&f.q, write, c, SIZE, segs, nsegs, seg0), want);
			for (uint32_t i = 0; i < want; i++) {
				const uint32_t id = (nsegs + seg0 + taken + i) % SIZE;

				assert_int_equal(c[i].head, id);
				assert_int_equal(c[i].seg, seg0 + i);
				assert_ptr_equal(segs[seg0 + i].base,
					guest_at(&fake_guest, f.desc[id].addr));
			}
			taken += want;
		}
		fake_driver_free(&f);
		free(c);
		free(segs);
	}
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_configurations_are_refused),
		cmocka_unit_test(faults_have_names),
		cmocka_unit_test(index_leaps),
		cmocka_unit_test(index_leaps_over_outstanding_chains),
		cmocka_unit_test(heads_out_of_range),
		cmocka_unit_test(a_head_twice),
		cmocka_unit_test(rewind_and_base),
		cmocka_unit_test(resume_at_any_base),
		cmocka_unit_test(used_index_is_taken_from_the_ring),
		cmocka_unit_test(indices_wrap_at_every_size),
		cmocka_unit_test(one_used_entry_for_a_batch),
		cmocka_unit_test(equal_used_entries_are_not_written_again),
		cmocka_unit_test(a_ring_moves),
		cmocka_unit_test(entries_in_their_own_place),
		cmocka_unit_test(no_segment_behind_the_array),
	};

	return cmocka_run_group_tests(tests, fake_guest_setup, fake_guest_teardown);
}
