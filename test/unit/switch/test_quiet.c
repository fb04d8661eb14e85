/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Which queues of a worker are looked at, with so many that their bits fill words or just not. */

#include "pair.h"

#include "turn_board.h"

#define MOST 130
#define HDR  12
#define LEN  60

static struct board board;
static struct guest memory;
static struct pair senders[MOST];
static struct vring rings[MOST];
static uint32_t ninlets;

/* All queues are of one port, and what it sends is taken and dropped. */
static int
begin(void **state)
{
	const struct pair_config ring = {.size = 4, .features = VQ_FEATURE(VERSION_1)};
	static struct switch_config config;
	static uint8_t packet[HDR + LEN];
	struct view *v = view_create(1);
	uint32_t i;

	(void)state;
	switch_config_init(&config);
	config.nports = 1;
	assert_int_equal(board_init(&board, &config), 0);
	guest_init(&memory, 1, sizeof(packet), 0);
	frame_make(packet + HDR, LEN, 0);
	guest_write(&memory, GUEST_BASE, packet, sizeof(packet));
	v->ports[0].hdr_len = HDR;
	for (i = 0; i < ninlets; i++) {
		const struct inlet in = {.discard = true, .ring = &rings[i]};

		pair_init(&senders[i], &memory, &ring);
		rings[i] = (struct vring){.call = -1, .kick = -1, .vq = &senders[i].device};
		assert_int_equal(view_add_inlet(v, 0, &in), 0);
	}
	board_show(&board, v);
	board.workers[0]->quiet = UINT64_MAX; /* turns count, not the time */
	return 0;
}

static int
end(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < ninlets; i++)
		pair_free(&senders[i]);
	guest_free(&memory);
	board_free(&board);
	return 0;
}

static void
send_one(uint32_t i)
{
	void *cookie;

	while (vq_driver_reap(&senders[i].driver, &cookie, NULL, 1) == 1)
		;
	pair_add(&senders[i], GUEST_BASE, HDR + LEN, NULL, 0, false, false, &board);
	vq_driver_publish(&senders[i].driver);
}

static const struct view_worker *
mine(void)
{
	return &view_current(&board.sw.views)->workers[0];
}

/* These two are busy, and no other. */
static void
expect_busy(uint32_t a, uint32_t b)
{
	uint32_t i;

	for (i = 0; i < view_words(mine()); i++) {
		const uint64_t expected = (a / 64 == i ? UINT64_C(1) << a % 64 : 0) |
					  (b / 64 == i ? UINT64_C(1) << b % 64 : 0);

		assert_true(mine()->busy[i] == expected);
	}
}

/* One is busy until the others are quiet. */
static void
keep_busy(uint32_t busy)
{
	uint32_t i;

	for (i = 0; i <= QUIET_LOOKS; i++) {
		send_one(busy);
		assert_int_equal(board_turn(&board), 1);
	}
	expect_busy(busy, busy);
}

/* Each quiet queue has its turn, whichever is busy, and is busy at once. */
static void
a_quiet_queue_is_found(void **state)
{
	const uint32_t busy = ninlets - 1;
	uint32_t i, turns;

	(void)state;
	assert_int_equal(mine()->ninlets, ninlets);
	assert_int_equal(view_words(mine()), (ninlets + 63) / 64);
	for (i = 0; i < ninlets; i++) {
		keep_busy(busy);
		send_one(i);
		for (turns = 1; turns <= QUIET_TURNS; turns++) {
			if (i != busy)
				send_one(busy);
			if (board_turn(&board) == 1 + (i != busy))
				break;
		}
		assert_in_range(turns, 1, QUIET_TURNS);
		expect_busy(busy, i);
		/* From now on in every turn. */
		send_one(i);
		assert_int_equal(board_turn(&board), 1);
	}
}

/* What a new view brings is looked at in the first turn, all of it and once. */
static void
all_are_busy_at_first(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < ninlets; i++)
		send_one(i);
	assert_int_equal(board_turn(&board), ninlets);
	for (i = 0; i < ninlets; i++)
		send_one(i);
	assert_int_equal(board_turn(&board), ninlets);
	assert_int_equal(board_turn(&board), 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(a_quiet_queue_is_found, begin, end),
		cmocka_unit_test_setup_teardown(all_are_busy_at_first, begin, end),
	};
	const uint32_t numbers[] = {1, 64, 65, MOST};
	char name[32];
	uint32_t i;
	int failed = 0;

	if (board_eal("test_switch_quiet", 64) < 0)
		return 1;
	for (i = 0; i < COUNT_OF(numbers); i++) {
		ninlets = numbers[i];
		snprintf(name, sizeof(name), "%u queues", ninlets);
		failed += cmocka_run_group_tests_name(name, tests, NULL, NULL);
	}
	return failed;
}
