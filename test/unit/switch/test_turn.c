/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The turn of a worker over guests of this process: where frames go, and what is counted. */

#include <stdlib.h>

#include "receiver.h"

#include "turn_board.h"

#define PORTS  4
#define SIZE   64
#define BUFFER 1600
#define HDR    12
/* Room for a frame of any length in its sender's memory. */
#define SLOT  0x10100u
#define LEN   100
#define MBUFS 64

static const uint64_t features =
	VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(IN_ORDER);

struct sender {
	struct guest memory;
	struct pair pair;
	uint32_t next; /* slot */
};

static struct board board;
static struct receiver receivers[PORTS];
static struct sender senders[PORTS];

/* An address of a port. */
static uint64_t
mac_of(uint32_t port, uint32_t i)
{
	return UINT64_C(2) | (uint64_t)port << 8 | (uint64_t)i << 16;
}

static void
begin_with(uint32_t mtu_of_last, enum loopback loopback_of_first)
{
	struct pair_config pair = {.size = SIZE, .features = features};
	static struct switch_config config;
	uint32_t i;

	switch_config_init(&config);
	config.nports = PORTS;
	config.ports[PORTS - 1].mtu = mtu_of_last;
	config.ports[0].loopback = loopback_of_first;
	assert_int_equal(board_init(&board, &config), 0);
	for (i = 0; i < PORTS; i++) {
		receiver_init(&receivers[i], SIZE, features, SIZE, SIZE);
		receiver_fill(&receivers[i], BUFFER);
		senders[i].next = 0;
		guest_init(&senders[i].memory, 1, SIZE * SLOT, 0);
		pair_init(&senders[i].pair, &senders[i].memory, &pair);
		board.ports[i] = (struct board_port){&receivers[i].pair.device,
			&senders[i].pair.device, senders[i].memory.mem, features};
	}
	assert_int_equal(board_publish(&board), 0);
	/* Each has said something. */
	for (i = 0; i < PORTS; i++)
		assert_int_equal(board_learn(&board, mac_of(i, 0), i), 0);
}

static int
begin(void **state)
{
	(void)state;
	begin_with(LEN, LOOPBACK_OFF);
	return 0;
}

static int
begin_loopback(void **state)
{
	(void)state;
	begin_with(0, LOOPBACK_MBUF);
	assert_int_equal(board_pool(&board, MBUFS), 0);
	return 0;
}

static int
end(void **state)
{
	uint64_t sum[COUNTERS] = {0};
	uint32_t i;

	(void)state;
	for (i = 0; i < PORTS; i++) {
		stats_add_port(&board.sw.stats, i, sum);
		receiver_free(&receivers[i]);
		pair_free(&senders[i].pair);
		guest_free(&senders[i].memory);
	}
	board_free(&board);
	return ledger_difference(sum) == 0 ? 0 : -1;
}

static uint64_t
counted(uint32_t port, enum counter c)
{
	uint64_t sum[COUNTERS] = {0};

	stats_add_port(&board.sw.stats, port, sum);
	return sum[c];
}

/* The frame with a number, between two addresses. */
static void
make(uint8_t *frame, uint32_t len, uint32_t seq, uint64_t to, uint64_t from)
{
	frame_make(frame, len, seq);
	memcpy(frame, &to, 6);
	memcpy(frame + 6, &from, 6);
}

/* Show the switch a frame; an `len` below that of an Ethernet header is a runt. */
static void
send_len(uint32_t port, uint32_t len, uint32_t seq, uint64_t to, uint64_t from)
{
	static uint8_t packet[HDR + SLOT];
	struct sender *s = &senders[port];
	uint64_t at = GUEST_BASE + s->next * SLOT;
	void *cookie;

	s->next = (s->next + 1) % SIZE;
	while (vq_driver_reap(&s->pair.driver, &cookie, NULL, 1) == 1)
		;
	assert_true(vq_driver_free(&s->pair.driver) != 0);
	memset(packet, 0, HDR);
	make(packet + HDR, len < FRAME_MIN ? FRAME_MIN : len, seq, to, from);
	guest_write(&s->memory, at, packet, HDR + len);
	pair_add(&s->pair, at, HDR + len, NULL, 0, false, false, s);
	vq_driver_publish(&s->pair.driver);
}

static void
send_frame(uint32_t port, uint32_t seq, uint64_t to)
{
	send_len(port, LEN, seq, to, mac_of(port, 0));
}

static void
expect_len(uint32_t port, uint32_t len, uint32_t seq, uint64_t to, uint64_t from)
{
	static uint8_t frame[SLOT];

	make(frame, len, seq, to, from);
	receiver_expect(&receivers[port], frame, len, (HDR + len + BUFFER - 1) / BUFFER);
}

static void
expect_frame(uint32_t port, uint32_t seq, uint64_t to, uint32_t sender)
{
	expect_len(port, LEN, seq, to, mac_of(sender, 0));
}

static void
expect_no_more(void)
{
	uint32_t i;

	for (i = 0; i < PORTS; i++)
		receiver_expect_none(&receivers[i]);
}

static void
forget_all(void)
{
	uint32_t i;

	for (i = 0; i < FDB_AGE_STEPS; i++)
		fdb_age(board.sw.fdb, board.workers[0]->second + 1000, 10);
}

static void
a_burst_to_one(void **state)
{
	const uint64_t to = mac_of(1, 0);
	uint32_t i;

	(void)state;
	for (i = 0; i < 40; i++)
		send_frame(0, i, to);
	assert_int_equal(board_turn(&board), 40);
	for (i = 0; i < 40; i++)
		expect_frame(1, i, to, 0);
	expect_no_more();
	assert_true(counted(0, COUNT_RX_PACKETS) == 40);
	assert_true(counted(0, COUNT_RX_BYTES) == 40 * LEN);
	assert_true(counted(0, COUNT_BYTES_SNAPSHOT) == 40 * VQ_NET_HEAD);
	assert_true(counted(0, COUNT_DELIVERED) == 40);
	assert_true(counted(1, COUNT_TX_PACKETS) == 40);
	assert_true(counted(1, COUNT_TX_BYTES) == 40 * LEN);
	assert_true(counted(1, COUNT_BYTES_COPIED) == 40 * LEN);
}

/* What was found for the last burst is no longer so. */
static void
an_address_moves(void **state)
{
	const uint64_t to = mac_of(1, 0);

	(void)state;
	send_frame(0, 1, to);
	assert_int_equal(board_turn(&board), 1);
	expect_frame(1, 1, to, 0);
	assert_int_equal(board_learn(&board, to, 2), 0);
	send_frame(0, 2, to);
	assert_int_equal(board_turn(&board), 1);
	expect_frame(2, 2, to, 0);
	/* To its sender's side. */
	assert_int_equal(board_learn(&board, to, 0), 0);
	send_frame(0, 3, to);
	assert_int_equal(board_turn(&board), 1);
	assert_true(counted(0, COUNT_DROP + DROP_FILTERED) == 1);
	expect_no_more();
}

static void
an_address_ages(void **state)
{
	const uint64_t to = mac_of(1, 0);
	struct fdb_entry *place;
	uint32_t i;

	(void)state;
	fdb_lookup(board.sw.fdb, &to, 1, &place);
	send_frame(0, 1, to);
	assert_int_equal(board_turn(&board), 1);
	expect_frame(1, 1, to, 0);
	forget_all();
	/* In the very place that it had is another, of another port. */
	for (i = 1; atomic_load(&place->word) == 0; i++)
		if (board_learn(&board, mac_of(2, i), 2) < 0)
			forget_all();
	send_frame(0, 2, to);
	assert_int_equal(board_turn(&board), 1);
	for (i = 1; i < PORTS; i++)
		expect_frame(i, 2, to, 0);
	expect_no_more();
	assert_true(counted(0, COUNT_REPLICAS) == PORTS - 2);
}

static void
the_receiver_goes(void **state)
{
	const uint64_t to = mac_of(1, 0);
	struct board_port port = board.ports[1];

	(void)state;
	send_frame(0, 1, to);
	assert_int_equal(board_turn(&board), 1);
	expect_frame(1, 1, to, 0);
	board.ports[1].rx = NULL;
	assert_int_equal(board_publish(&board), 0);
	send_frame(0, 2, to);
	assert_int_equal(board_turn(&board), 1);
	assert_true(counted(0, COUNT_DROP + DROP_LINK_DOWN) == 1);
	board.ports[1] = port;
	assert_int_equal(board_publish(&board), 0);
	send_frame(0, 3, to);
	assert_int_equal(board_turn(&board), 1);
	expect_frame(1, 3, to, 0);
	expect_no_more();
}

static void
a_mixed_burst(void **state)
{
	const uint64_t unknown = mac_of(9, 9), reserved = UINT64_C(0x0000c28001);
	uint32_t i;

	(void)state;
	send_frame(0, 0, mac_of(1, 0));
	send_frame(0, 1, mac_of(2, 0));
	send_frame(0, 2, mac_of(1, 0));
	send_frame(0, 3, unknown);
	send_frame(0, 4, mac_of(0, 0));
	send_frame(0, 5, reserved);
	send_len(0, FRAME_MIN - 1, 6, mac_of(1, 0), mac_of(0, 0));
	send_frame(0, 7, mac_of(1, 0));
	assert_int_equal(board_turn(&board), 8);
	expect_frame(1, 0, mac_of(1, 0), 0);
	expect_frame(1, 2, mac_of(1, 0), 0);
	expect_frame(2, 1, mac_of(2, 0), 0);
	for (i = 1; i < PORTS; i++)
		expect_frame(i, 3, unknown, 0);
	expect_frame(1, 7, mac_of(1, 0), 0);
	expect_no_more();
	assert_true(counted(0, COUNT_DROP + DROP_FILTERED) == 2);
	assert_true(counted(0, COUNT_DROP + DROP_RUNT) == 1);
	assert_true(counted(0, COUNT_DELIVERED) == 7);
}

/* By bursts and within one: what was found for one address is not taken for another. */
static void
two_destinations(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < 10; i++) {
		send_frame(0, i, mac_of(1 + i % 2, 0));
		assert_int_equal(board_turn(&board), 1);
		expect_frame(1 + i % 2, i, mac_of(1 + i % 2, 0), 0);
	}
	for (i = 0; i < 10; i++)
		send_frame(0, i, mac_of(1 + i % 2, 0));
	assert_int_equal(board_turn(&board), 10);
	for (i = 0; i < 10; i++)
		expect_frame(1 + i % 2, i, mac_of(1 + i % 2, 0), 0);
	expect_no_more();
}

/* Many addresses, all of one port: the burst goes there as it is. */
static void
many_addresses_of_one_port(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 1; i < 20; i++) {
		assert_int_equal(board_learn(&board, mac_of(0, i), 0), 0);
		assert_int_equal(board_learn(&board, mac_of(1, i), 1), 0);
		send_len(0, LEN, i, mac_of(1, i), mac_of(0, 20 - i));
	}
	assert_int_equal(board_turn(&board), 19);
	for (i = 1; i < 20; i++)
		expect_len(1, LEN, i, mac_of(1, i), mac_of(0, 20 - i));
	expect_no_more();
	assert_int_equal(rte_ring_count(board.sw.learning.ring), 0);
}

/* One that its receiver may not get, among others that it may. */
static void
one_of_them_is_too_long(void **state)
{
	const uint64_t to = mac_of(3, 0);

	(void)state;
	send_len(0, 60, 1, to, mac_of(0, 0));
	send_len(0, LEN + 19, 2, to, mac_of(0, 0));
	send_len(0, LEN + 18, 3, to, mac_of(0, 0));
	assert_int_equal(board_turn(&board), 3);
	expect_len(3, 60, 1, to, mac_of(0, 0));
	expect_len(3, LEN + 18, 3, to, mac_of(0, 0));
	expect_no_more();
	assert_true(counted(0, COUNT_DROP + DROP_TOO_BIG) == 1);
}

static void
bytes_of_a_turn_are_bounded(void **state)
{
	const uint32_t len = 65400, fit = TURN_BYTES / len;
	uint32_t i;

	(void)state;
	for (i = 0; i < fit + 1; i++)
		send_len(0, len, i, mac_of(1, 0), mac_of(0, 0));
	assert_int_equal(board_turn(&board), fit);
	assert_true(counted(0, COUNT_RX_BYTES) == (uint64_t)fit * len);
	assert_int_equal(board_turn(&board), 1);
	assert_true(counted(0, COUNT_RX_PACKETS) == fit + 1);
}

static void
a_stranger_is_announced(void **state)
{
	const uint64_t stranger = mac_of(0, 7);
	void *message;
	uint32_t i;

	(void)state;
	for (i = 0; i < 10; i++)
		send_len(0, LEN, i, mac_of(1, 0), stranger);
	assert_int_equal(board_turn(&board), 10);
	assert_int_equal(rte_ring_dequeue(board.sw.learning.ring, &message), 0);
	assert_true((uint64_t)(uintptr_t)message == (stranger | UINT64_C(1) << 48));
	assert_true(rte_ring_empty(board.sw.learning.ring));
	/* Known somewhere else: it has moved. */
	send_len(2, LEN, 0, mac_of(1, 0), mac_of(0, 0));
	assert_int_equal(board_turn(&board), 1);
	assert_int_equal(rte_ring_dequeue(board.sw.learning.ring, &message), 0);
	assert_true((uint64_t)(uintptr_t)message == (mac_of(0, 0) | UINT64_C(3) << 48));
}

/* One that stays busy, and turns in which the others have nothing. */
static void
keep_busy(uint32_t turns)
{
	uint32_t i;

	for (i = 0; i < turns; i++) {
		send_frame(0, i, mac_of(1, 0));
		assert_int_equal(board_turn(&board), 1);
		expect_frame(1, i, mac_of(1, 0), 0);
		receiver_fill(&receivers[1], BUFFER);
	}
}

static uint64_t
busy_ones(void)
{
	return view_current(&board.sw.views)->workers[0].busy[0];
}

static void
a_quiet_queue_is_found(void **state)
{
	const uint64_t to = mac_of(3, 0);
	uint32_t turns, late = 0, when;

	(void)state;
	board.workers[0]->quiet = UINT64_MAX; /* turns count, not the time */
	for (when = 0; when < QUIET_TURNS; when++) {
		keep_busy(QUIET_LOOKS + 1 + when);
		/* Nobody but the one that sends. */
		assert_int_equal(busy_ones(), 1);
		send_frame(2, when, to);
		for (turns = 1; turns <= QUIET_TURNS; turns++) {
			send_frame(0, turns, mac_of(1, 0));
			if (board_turn(&board) == 2)
				break;
			expect_frame(1, turns, mac_of(1, 0), 0);
		}
		assert_in_range(turns, 1, QUIET_TURNS);
		expect_frame(1, turns, mac_of(1, 0), 0);
		receiver_fill(&receivers[1], BUFFER);
		expect_frame(3, when, to, 2);
		late += turns > 1;
		/* From now on it is looked at in every turn. */
		assert_int_equal(busy_ones(), 1 | 1 << 2);
		send_frame(2, 99, to);
		assert_int_equal(board_turn(&board), 1);
		expect_frame(3, 99, to, 2);
		receiver_fill(&receivers[3], BUFFER);
	}
	assert_true(late != 0);
	expect_no_more();
}

/* Turns that take long: all are looked at in each. */
static void
a_quiet_queue_does_not_wait_for_others(void **state)
{
	const uint64_t to = mac_of(3, 0);
	uint32_t when;

	(void)state;
	board.workers[0]->quiet = 0;
	for (when = 0; when < QUIET_TURNS; when++) {
		keep_busy(QUIET_LOOKS + 1 + when);
		assert_int_equal(busy_ones(), 1);
		send_frame(2, when, to);
		send_frame(0, when, mac_of(1, 0));
		assert_int_equal(board_turn(&board), 2);
		expect_frame(1, when, mac_of(1, 0), 0);
		receiver_fill(&receivers[1], BUFFER);
		expect_frame(3, when, to, 2);
		receiver_fill(&receivers[3], BUFFER);
	}
	expect_no_more();
}

static void
where_all_are_quiet_none_waits(void **state)
{
	const uint64_t to = mac_of(3, 0);
	uint32_t i;

	(void)state;
	for (i = 0; i < QUIET_TURNS; i++) {
		keep_busy(QUIET_LOOKS + 1 + i);
		assert_int_equal(busy_ones(), 1);
		assert_int_equal(board_turn(&board), 0);
		send_frame(2, i, to);
		assert_int_equal(board_turn(&board), 1);
		expect_frame(3, i, to, 2);
	}
	expect_no_more();
}

static void
back_by_mbufs(void **state)
{
	/* The longest fills as many mbufs as a frame may lie in. */
	const uint32_t lens[] = {FRAME_MIN, 60, LEN, 1514, 65535, 64};
	const uint64_t to = mac_of(1, 0);
	uint64_t bytes = 0;
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(lens); i++) {
		send_len(0, lens[i], i, to, mac_of(0, 0));
		bytes += lens[i];
	}
	send_len(0, FRAME_MIN - 1, 9, to, mac_of(0, 0));
	assert_int_equal(board_turn(&board), COUNT_OF(lens) + 1);
	for (i = 0; i < COUNT_OF(lens); i++)
		expect_len(0, lens[i], i, to, mac_of(0, 0));
	expect_no_more();
	assert_true(counted(0, COUNT_DROP + DROP_RUNT) == 1);
	assert_true(counted(0, COUNT_DELIVERED) == COUNT_OF(lens));
	assert_true(counted(0, COUNT_TX_BYTES) == bytes);
	assert_true(counted(0, COUNT_BYTES_DELIVERED) == bytes);
	assert_true(counted(0, COUNT_BYTES_COPIED) == 2 * bytes);
	assert_int_equal(rte_mempool_avail_count(board.sw.pool), MBUFS);
}

/* A port in loopback takes no part in the switching. */
static void
nothing_comes_from_others(void **state)
{
	(void)state;
	send_frame(1, 0, mac_of(0, 0));
	send_frame(1, 1, mac_of(0, 0));
	assert_int_equal(board_turn(&board), 2);
	expect_no_more();
	assert_true(counted(1, COUNT_DROP + DROP_LINK_DOWN) == 2);
}

static void
back_without_mbufs(void **state)
{
	const uint64_t to = mac_of(1, 0);
	struct rte_mbuf *held[MBUFS];
	uint32_t i;

	(void)state;
	/* Two are left: for the first of three frames, and for a part of one that takes three. */
	assert_int_equal(rte_pktmbuf_alloc_bulk(board.sw.pool, held, MBUFS - 2), 0);
	for (i = 0; i < 3; i++)
		send_len(0, LEN, i, to, mac_of(0, 0));
	assert_int_equal(board_turn(&board), 3);
	expect_len(0, LEN, 0, to, mac_of(0, 0));
	expect_len(0, LEN, 1, to, mac_of(0, 0));
	expect_no_more();
	assert_true(counted(0, COUNT_DROP + DROP_NO_MBUF) == 1);
	send_len(0, 5000, 3, to, mac_of(0, 0));
	assert_int_equal(board_turn(&board), 1);
	expect_no_more();
	assert_true(counted(0, COUNT_DROP + DROP_NO_MBUF) == 2);
	assert_true(counted(0, COUNT_DELIVERED) == 2);
	assert_int_equal(rte_mempool_avail_count(board.sw.pool), 2);
	rte_pktmbuf_free_bulk(held, MBUFS - 2);
	send_len(0, 5000, 4, to, mac_of(0, 0));
	assert_int_equal(board_turn(&board), 1);
	expect_len(0, 5000, 4, to, mac_of(0, 0));
	assert_int_equal(rte_mempool_avail_count(board.sw.pool), MBUFS);
}

#define TEST(name)     cmocka_unit_test_setup_teardown(name, begin, end)
#define LOOPBACK(name) cmocka_unit_test_setup_teardown(name, begin_loopback, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(a_burst_to_one),
		TEST(an_address_moves),
		TEST(an_address_ages),
		TEST(the_receiver_goes),
		TEST(a_mixed_burst),
		TEST(two_destinations),
		TEST(many_addresses_of_one_port),
		TEST(one_of_them_is_too_long),
		TEST(bytes_of_a_turn_are_bounded),
		TEST(a_stranger_is_announced),
		TEST(a_quiet_queue_is_found),
		TEST(a_quiet_queue_does_not_wait_for_others),
		TEST(where_all_are_quiet_none_waits),
		LOOPBACK(back_by_mbufs),
		LOOPBACK(back_without_mbufs),
		LOOPBACK(nothing_comes_from_others),
	};

	if (board_eal("test_switch_turn", 64) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
