/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Both ends in one process and one thread, over a covering array of what a ring can be: frames from
 * one guest to another as the switch moves them, with one copy. Every frame is checked for order
 * and content, the fate of each is foretold, and at the end nothing is missing anywhere.
 */

#include <stdlib.h>
#include <string.h>

#include "covering.h"
#include "pair.h"
#include "vq_net.h"

enum factor {
	F_SIZE,
	F_BASE,
	F_IN_ORDER,
	F_INDIRECT,
	F_EVENT_IDX,
	F_MERGEABLE,
	F_HEADER,
	F_PIECES,
	F_BURST,
	F_LENGTH,
	F_BUFFER,
	F_REGIONS,
	FACTORS,
};

static const uint64_t headers[] = {0, VQ_FEATURE(VERSION_1), VQ_FEATURE(HASH_REPORT)};
static const uint32_t piece_counts[] = {1, 2, 3, 7};
static const uint32_t bursts[] = {1, 3, 32, 64};
/* Shortest and longest frame. */
static const uint32_t lengths[][2] = {{14, 100}, {60, 1514}, {1400, 9000}};
static const uint32_t buffers[] = {256, 1526, 9100};

static const uint32_t levels[FACTORS] = {
	[F_SIZE] = PAIR_SIZES,
	[F_BASE] = BASES,
	[F_IN_ORDER] = 2,
	[F_INDIRECT] = 2,
	[F_EVENT_IDX] = 2,
	[F_MERGEABLE] = 2,
	[F_HEADER] = COUNT_OF(headers),
	[F_PIECES] = COUNT_OF(piece_counts),
	[F_BURST] = COUNT_OF(bursts),
	[F_LENGTH] = COUNT_OF(lengths),
	[F_BUFFER] = COUNT_OF(buffers),
	[F_REGIONS] = 2,
};

#define SLOTS  160u /* packets that a guest has memory for */
#define STRIDE 9216u
#define PIECES 7u
#ifndef FRAMES
#define FRAMES 800u
#endif
#define BURST_MAX 64u

/* A guest with a ring and memory for SLOTS packets behind the indirect tables. */
struct end {
	struct guest guest;
	struct pair pair;
	uint64_t slots;
	uint32_t free_slots[SLOTS];
	uint32_t nfree;
};

struct run {
	uint64_t random;
	uint64_t features;
	uint32_t hdr_len, size, pieces, burst, shortest, longest, buffer;
	bool mergeable, indirect;
	struct end a, b;
	struct vq_net_burst *take, *put;
	struct vq_net_copied copied;
	/* Frames on their way, oldest first, and their lengths. */
	uint32_t sent, seen, received, dropped;
	uint32_t len[FRAMES];
	bool fate[FRAMES]; /* by number: delivered? */
	uint32_t next;     /* number of the next one that b must see */
	uint32_t posted;   /* buffers that b has in its ring and the switch has not used */
	uint64_t bytes;
	bool b_sleeps, dev_sleeps;
};

static void
end_init(struct end *e, const struct run *r, uint16_t base, uint32_t regions)
{
	uint64_t table = r->indirect ? (uint64_t)r->size * PIECES * 16 : 0;
	uint64_t bytes = table + (uint64_t)SLOTS * STRIDE;
	struct pair_config config = {.size = r->size,
		.features = r->features,
		.base = base,
		.table_len = r->indirect ? PIECES : 0,
		.table_addr = GUEST_BASE};

	/* Of several regions the first holds the tables, and their seams fall anywhere else. */
	guest_init(&e->guest, regions, regions == 1 ? bytes : table + bytes / regions + 77, 0);
	pair_init(&e->pair, &e->guest, &config);
	e->slots = GUEST_BASE + table;
	for (uint32_t i = 0; i < SLOTS; i++)
		e->free_slots[i] = i;
	e->nfree = SLOTS;
}

static void
end_free(struct end *e)
{
	pair_free(&e->pair);
	guest_free(&e->guest);
}

static void
setup_run(struct run *r, const uint8_t *level)
{
	uint16_t base;

	memset(r, 0, sizeof(*r));
	r->random = 1;
	for (uint32_t i = 0; i < FACTORS; i++)
		r->random = r->random * 16 + level[i] + 1;
	r->size = pair_size(level[F_SIZE]);
	r->mergeable = level[F_MERGEABLE];
	r->indirect = level[F_INDIRECT];
	r->features = headers[level[F_HEADER]] | (r->mergeable ? VQ_FEATURE(MRG_RXBUF) : 0) |
		      (r->indirect ? VQ_FEATURE(INDIRECT_DESC) : 0) |
		      (level[F_EVENT_IDX] ? VQ_FEATURE(EVENT_IDX) : 0) |
		      (level[F_IN_ORDER] ? VQ_FEATURE(IN_ORDER) : 0);
	r->hdr_len = vq_net_hdr_len(r->features);
	r->pieces = piece_counts[level[F_PIECES]];
	/* No chain is longer than the ring, with an indirect table neither. */
	if (r->pieces > r->size)
		r->pieces = r->size;
	r->burst = bursts[level[F_BURST]];
	r->shortest = lengths[level[F_LENGTH]][0];
	r->longest = lengths[level[F_LENGTH]][1];
	r->buffer = buffers[level[F_BUFFER]];
	base = pair_base(r->size, level[F_BASE]);
	end_init(&r->a, r, base, level[F_REGIONS] ? 3 : 1);
	end_init(&r->b, r, base, level[F_REGIONS] ? 3 : 1);
	r->take = vq_net_burst_create(r->burst, 16 * BURST_MAX);
	r->put = vq_net_burst_create(2 * BURST_MAX, 8 * BURST_MAX);
	assert_non_null(r->take);
	assert_non_null(r->put);
	pair_say("size %u base %u features 0x%lx pieces %u burst %u frames %u..%u buffers %u%s",
		r->size, base, (unsigned long)r->features, r->pieces, r->burst, r->shortest,
		r->longest, r->buffer, level[F_REGIONS] ? " over regions" : "");
}

static uint32_t
pick_slot(struct run *r, struct end *e)
{
	uint32_t i = rnd_below(&r->random, e->nfree);
	uint32_t slot = e->free_slots[i];

	e->free_slots[i] = e->free_slots[--e->nfree];
	return slot;
}

static uint64_t
slot_at(const struct end *e, uint32_t slot)
{
	return e->slots + slot * STRIDE;
}

/* Cut `len` bytes at random into at most r->pieces descriptors. */
static uint32_t
random_cuts(struct run *r, uint32_t len, uint32_t *cuts)
{
	uint32_t n = 0, at = 0;

	while (n + 1 < r->pieces && at + 1 < len) {
		uint32_t most = rnd_below(&r->random, 2) ? 16 : len;

		at += 1 + rnd_below(&r->random, most < len - at - 1 ? most : len - at - 1);
		if (at >= len)
			break;
		cuts[n++] = at;
	}
	return n;
}

/* Guest a sends up to a burst, and wakes the switch if that sleeps. */
static void
send(struct run *r)
{
	struct vq_driver *q = &r->a.pair.driver;
	uint32_t n = 1 + rnd_below(&r->random, r->burst), sent = 0;
	static uint8_t packet[STRIDE];
	bool notify;

	while (n-- != 0 && r->sent < FRAMES && r->a.nfree != 0) {
		uint32_t len = r->shortest + rnd_below(&r->random, r->longest - r->shortest + 1);
		uint32_t cuts[PIECES], ncuts = random_cuts(r, r->hdr_len + len, cuts);
		uint32_t slot;

		if (vq_driver_free(q) < (r->indirect && ncuts != 0 ? 1 : ncuts + 1))
			break;
		slot = pick_slot(r, &r->a);
		memset(packet, 0, r->hdr_len);
		frame_make(packet + r->hdr_len, len, r->sent);
		guest_write(&r->a.guest, slot_at(&r->a, slot), packet, r->hdr_len + len);
		pair_add(&r->a.pair, slot_at(&r->a, slot), r->hdr_len + len, cuts, ncuts, false,
			r->indirect && ncuts != 0, (void *)(uintptr_t)(slot + 1));
		r->len[r->sent++] = len;
		sent++;
	}
	vq_driver_publish(q);
	notify = vq_driver_need_notify(q);
	/* No notification is lost. */
	if (r->dev_sleeps && sent != 0) {
		assert_true(notify);
		vq_device_disarm(&r->a.pair.device);
		r->dev_sleeps = false;
	}
}

/* Guest b posts some buffers; sometimes few, sometimes none. */
static void
post(struct run *r)
{
	struct vq_driver *q = &r->b.pair.driver;
	uint32_t n = rnd_below(&r->random, rnd_below(&r->random, 2) ? 4 : 2 * r->burst + 8);

	while (n-- != 0 && r->b.nfree != 0) {
		uint32_t cuts[PIECES], ncuts = random_cuts(r, r->buffer, cuts);
		uint32_t slot;

		if (vq_driver_free(q) < (r->indirect && ncuts != 0 ? 1 : ncuts + 1))
			break;
		slot = pick_slot(r, &r->b);
		pair_add(&r->b.pair, slot_at(&r->b, slot), r->buffer, cuts, ncuts, true,
			r->indirect && ncuts != 0, (void *)(uintptr_t)(slot + 1));
		r->posted++;
	}
	vq_driver_publish(q);
	(void)vq_driver_need_notify(q);
}

/* What must become of a frame, by what b has posted. */
static enum vq_net_status
foretell(struct run *r, uint32_t len)
{
	uint32_t need = (r->hdr_len + len + r->buffer - 1) / r->buffer;

	if (!r->mergeable && need > 1)
		return r->posted != 0 ? VQ_NET_TOO_BIG : VQ_NET_NO_BUFFERS;
	if (need > r->posted)
		return r->posted == r->size ? VQ_NET_TOO_BIG : VQ_NET_NO_BUFFERS;
	r->posted -= need;
	return VQ_NET_OK;
}

/* A turn of the switch. */
static void
forward(struct run *r)
{
	struct vq_device *from = &r->a.pair.device, *to = &r->b.pair.device;
	uint32_t n = vq_net_take(from, r->take, r->burst, r->hdr_len);
	const struct vq_frame *frames[BURST_MAX];
	uint8_t status[BURST_MAX];
	uint32_t published;
	enum vq_call call;

	assert_true(n <= r->burst);
	for (uint32_t i = 0; i < n; i++) {
		frames[i] = &r->take->frames[i];
		assert_int_equal(frames[i]->status, VQ_NET_OK);
		assert_int_equal(frames[i]->len, r->len[r->seen + i]);
	}
	published = vq_net_put(to, r->put, frames, n, r->hdr_len, r->mergeable, status, &r->copied);
	for (uint32_t i = 0; i < n; i++, r->seen++) {
		assert_int_equal(status[i], foretell(r, frames[i]->len));
		r->fate[r->seen] = status[i] == VQ_NET_OK;
		if (status[i] == VQ_NET_OK)
			r->bytes += frames[i]->len;
		else
			r->dropped++;
	}
	call = vq_device_call(to, published, 0);
	if (published == 0)
		assert_int_equal(call, VQ_CALL_NONE);
	if (r->b_sleeps && published != 0) {
		assert_int_equal(call, VQ_CALL_MAKE);
		vq_driver_disarm(&r->b.pair.driver);
		r->b_sleeps = false;
	}
	assert_int_equal(vq_net_release(from, r->take, n), n);
	(void)vq_device_call(from, n, 0);
	if (n == 0 && !r->dev_sleeps)
		r->dev_sleeps = !vq_device_arm(from);
}

/* Guest a takes its packets back. */
static void
reap_sent(struct run *r)
{
	void *c[BURST_MAX];
	uint32_t n =
		vq_driver_reap(&r->a.pair.driver, c, NULL, 1 + rnd_below(&r->random, BURST_MAX));

	while (n-- != 0)
		r->a.free_slots[r->a.nfree++] = (uint32_t)(uintptr_t)c[n] - 1;
	assert_int_equal(r->a.pair.driver.fault, VQ_DRIVER_OK);
}

/* The next buffer of b, appended to what there is of a packet. */
static bool
next_piece(struct run *r, uint8_t *packet, uint32_t *len)
{
	uint32_t slot, piece;
	void *c;

	if (vq_driver_reap(&r->b.pair.driver, &c, &piece, 1) == 0)
		return false;
	slot = (uint32_t)(uintptr_t)c - 1;
	guest_read(&r->b.guest, slot_at(&r->b, slot), packet + *len, piece);
	r->b.free_slots[r->b.nfree++] = slot;
	*len += piece;
	return true;
}

static void
receive(struct run *r)
{
	static uint8_t packet[2 * STRIDE];
	uint32_t len = 0;

	while (next_piece(r, packet, &len)) {
		uint16_t n = 1;

		if (r->hdr_len >= 12)
			memcpy(&n, packet + 10, 2);
		if (!r->mergeable)
			assert_int_equal(n, 1);
		for (uint32_t i = 1; i < n; i++)
			assert_true(next_piece(r, packet, &len));
		while (r->next < r->seen && !r->fate[r->next])
			r->next++;
		assert_true(r->next < r->seen);
		assert_int_equal(len, r->hdr_len + r->len[r->next]);
		if (!frame_ok(packet + r->hdr_len, len - r->hdr_len, r->next))
			fail_msg("frame %u is damaged", r->next);
		r->next++;
		r->received++;
		len = 0;
	}
	assert_int_equal(r->b.pair.driver.fault, VQ_DRIVER_OK);
	if (!r->b_sleeps)
		r->b_sleeps = !vq_driver_arm(&r->b.pair.driver);
}

static void
count_cookie(void *c, void *arg)
{
	uint32_t *n = arg;

	assert_true((uintptr_t)c >= 1 && (uintptr_t)c <= SLOTS);
	(*n)++;
}

static void
expect_level(struct run *r)
{
	uint32_t left = 0;

	assert_int_equal(r->received + r->dropped, FRAMES);
	assert_int_equal(r->copied.copied, r->bytes);
	assert_int_equal(r->copied.delivered, r->bytes);
	pair_expect_level(&r->a.pair);
	assert_int_equal(r->a.nfree, SLOTS);
	assert_int_equal(vq_driver_inflight(&r->b.pair.driver), r->posted);
	assert_int_equal(r->b.nfree + r->posted, SLOTS);
	assert_int_equal(r->b.pair.device.outstanding, 0);
	assert_int_equal(r->b.pair.device.fault, VQ_DEVICE_OK);
	assert_int_equal(vq_driver_detach_all(&r->b.pair.driver, count_cookie, &left), r->posted);
	assert_int_equal(left, r->posted);
	for (uint32_t i = 0; i < VQ_DEVICE_FAULTS; i++) {
		assert_int_equal(r->a.pair.device.bad_chains[i], 0);
		assert_int_equal(r->b.pair.device.bad_chains[i], 0);
	}
}

static void
run_row(struct run *r)
{
	for (uint32_t turn = 0; r->received + r->dropped < FRAMES; turn++) {
		assert_true(turn < 100 * FRAMES);
		switch (rnd_below(&r->random, 6)) {
		case 0:
			send(r);
			break;
		case 1:
			post(r);
			break;
		case 2:
			forward(r);
			break;
		case 3:
			reap_sent(r);
			break;
		case 4:
			receive(r);
			break;
		default:
			/* Another device where the last one stopped: nothing is lost. */
			if (rnd_below(&r->random, 16) != 0)
				break;
			pair_restart_device(&r->a.pair);
			pair_restart_device(&r->b.pair);
			r->dev_sleeps = false;
			break;
		}
	}
	while (vq_driver_inflight(&r->a.pair.driver) != 0)
		reap_sent(r);
	receive(r);
	expect_level(r);
}

static void
every_pair_of_settings(void **state)
{
	static struct covering rows;
	static struct run r;
	uint32_t delivered = 0, dropped = 0;

	(void)state;
	covering_make(&rows, levels, FACTORS);
	for (uint32_t i = 0; i < rows.rows; i++) {
		setup_run(&r, rows.level[i]);
		run_row(&r);
		delivered += r.received;
		dropped += r.dropped;
		vq_net_burst_destroy(r.take);
		vq_net_burst_destroy(r.put);
		end_free(&r.a);
		end_free(&r.b);
	}
	print_message("%u rows, %u frames delivered, %u dropped as foretold\n", rows.rows,
		delivered, dropped);
	assert_true(delivered > dropped / 2);
	pair_say_nothing();
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_teardown(every_pair_of_settings, pair_said),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
