/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Addresses on their way to the control thread: guests that invent some, and one that does not. */

#include "unit.h"

#include <rte_cycles.h>

#include "turn_board.h"

#define PORTS 6
/* Ports that invent addresses; port 0 does not. */
#define FIRST 1

static struct board board;
/* A second one, of which only its end of learning is used. */
static struct worker other;

static uint64_t
mac_of(uint32_t port, uint32_t i)
{
	return UINT64_C(2) | (uint64_t)port << 8 | (uint64_t)i << 16;
}

static void
begin_with(uint32_t addresses)
{
	static struct switch_config config;

	switch_config_init(&config);
	config.nports = PORTS;
	config.addresses = addresses;
	assert_int_equal(board_init(&board, &config), 0);
	memset(&other, 0, sizeof(other));
	other.sw = &board.sw;
}

static int
begin(void **state)
{
	(void)state;
	begin_with(ADDRESSES_DEFAULT);
	return 0;
}

static int
begin_large(void **state)
{
	(void)state;
	begin_with(1000000);
	return 0;
}

static int
end(void **state)
{
	(void)state;
	board_free(&board);
	return 0;
}

/* So much later that a worker has forgotten what it sent. */
static void
later(struct worker *w)
{
	w->now += rte_get_tsc_hz();
}

static void
invent(struct worker *w, uint32_t port, uint32_t first, uint32_t n)
{
	uint32_t i;

	for (i = first; i < first + n; i++)
		learn(w, mac_of(port, i), port);
}

static void
write_all(void)
{
	while (learning_take(&board.sw.learning, board.sw.fdb, 1))
		;
	assert_true(rte_ring_empty(board.sw.learning.ring));
}

/* So many addresses of port 0 are in the table, and so many of each other. */
static void
assert_known(uint32_t of_0, uint32_t of_others)
{
	uint32_t n[PORTS] = {0};
	struct fdb_shown shown;
	uint32_t i;

	for (i = 0; i < fdb_places(board.sw.fdb); i++)
		if (fdb_show(board.sw.fdb, i, &shown))
			n[shown.port]++;
	assert_int_equal(n[0], of_0);
	for (i = 1; i < PORTS; i++)
		assert_int_equal(n[i], of_others);
}

static uint64_t
lost(void)
{
	return atomic_load(&board.sw.learning.lost);
}

/* The others invent addresses for as long as the control thread is away. */
static void
one_among_many(void **state)
{
	const uint32_t share = board.sw.learning.share, rounds = 20;
	struct worker *w = board.workers[0];
	uint32_t round, port;

	(void)state;
	for (round = 0; round < rounds; round++) {
		for (port = FIRST; port < PORTS; port++) {
			invent(w, port, round * share, share);
			invent(&other, port, (rounds + round) * share, share);
		}
		later(w);
		later(&other);
	}
	assert_true(lost() == (PORTS - FIRST) * (2 * rounds - 1) * (uint64_t)share);
	learn(w, mac_of(0, 0), 0);
	assert_true(lost() == (PORTS - FIRST) * (2 * rounds - 1) * (uint64_t)share);
	write_all();
	assert_known(1, share);
}

/* Each has its share at once, and again when that was written; no more by what came between. */
static void
all_at_once(void **state)
{
	const uint32_t share = board.sw.learning.share;
	struct worker *w = board.workers[0];
	uint32_t round, port;

	(void)state;
	for (round = 0; round < 3; round++) {
		for (port = 0; port < PORTS; port++) {
			invent(w, port, 2 * round * share, share / 2);
			invent(&other, port, (2 * round + 1) * share, share);
		}
		later(w);
		later(&other);
		assert_int_equal(rte_ring_count(board.sw.learning.ring), PORTS * share);
		assert_true(lost() == (round + 1) * PORTS * (uint64_t)(share / 2));
		write_all();
		assert_known((round + 1) * share, (round + 1) * share);
	}
}

/* However fast they are written, a worker sends no more of a port for a while. */
static void
at_a_rate(void **state)
{
	const uint32_t share = board.sw.learning.share;
	struct worker *w = board.workers[0];
	uint32_t port;

	(void)state;
	for (port = FIRST; port < PORTS; port++)
		invent(w, port, 0, share);
	write_all();
	for (port = FIRST; port < PORTS; port++)
		invent(w, port, share, 1);
	assert_true(rte_ring_empty(board.sw.learning.ring));
	assert_true(lost() == PORTS - FIRST);
	learn(w, mac_of(0, 0), 0);
	later(w);
	for (port = FIRST; port < PORTS; port++)
		invent(w, port, share, 1);
	write_all();
	assert_known(1, share + 1);
	assert_true(lost() == PORTS - FIRST);
}

#define TEST(name)  cmocka_unit_test_setup_teardown(name, begin, end)
#define LARGE(name) cmocka_unit_test_setup_teardown(name, begin_large, end)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(one_among_many),
		LARGE(one_among_many),
		TEST(all_at_once),
		LARGE(all_at_once),
		TEST(at_a_rate),
	};

	if (board_eal("test_switch_learn", 64) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
