/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The forwarding table: who may add how much to it, and what is forgotten. */

#include <rte_eal.h>

#include "unit.h"

#include "fdb.h"

static struct view_domain domain;

static uint64_t
mac_of(uint32_t port, uint32_t i)
{
	return (uint64_t)i << 24 | (uint64_t)port << 16 | 2;
}

/* The port that an address is found at; -1: not found. */
static int
port_of(const struct fdb *f, uint64_t mac)
{
	struct fdb_entry *e;

	fdb_lookup(f, &mac, 1, &e);
	return e != NULL ? (int)atomic_load(&e->port) : -1;
}

static uint64_t
entries(const struct fdb *f)
{
	uint64_t used = 0;
	uint32_t i;

	for (i = 0; i < FDB_SIZE; i++)
		used += atomic_load(&fdb_at(f, i)->used);
	assert_true(used == atomic_load(&fdb_counters(f)->entries));
	return used;
}

/* Learn n addresses of a port, from number `first` on; all have room. */
static void
learn_many(struct fdb *f, uint8_t port, uint32_t first, uint32_t n, uint32_t second)
{
	uint32_t i;

	for (i = 0; i < n; i++)
		assert_int_equal(fdb_learn(f, mac_of(port, first + i), port, second), 0);
}

static int
set_up(void **state)
{
	if (view_domain_init(&domain, 1) != 0)
		return -1;
	*state = fdb_create(&domain);
	return *state != NULL ? 0 : -1;
}

static int
tear_down(void **state)
{
	fdb_free(*state);
	view_domain_free(&domain);
	return 0;
}

static void
learned_and_moved(void **state)
{
	struct fdb *f = *state;

	assert_int_equal(port_of(f, mac_of(1, 1)), -1);
	assert_int_equal(fdb_learn(f, mac_of(1, 1), 1, 5), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, 1), 1, 6), 0);
	assert_int_equal(port_of(f, mac_of(1, 1)), 1);
	assert_int_equal(fdb_learn(f, mac_of(1, 1), 9, 7), 0);
	assert_int_equal(port_of(f, mac_of(1, 1)), 9);
	assert_int_equal(entries(f), 1);
	assert_int_equal(atomic_load(&fdb_counters(f)->learned), 1);
	assert_int_equal(atomic_load(&fdb_counters(f)->moved), 1);
}

static void
looked_up_by_the_burst(void **state)
{
	struct fdb *f = *state;
	struct fdb_entry *found[FDB_BULK_MAX];
	uint64_t macs[FDB_BULK_MAX];
	uint32_t i;

	for (i = 0; i < FDB_BULK_MAX; i++) {
		macs[i] = mac_of(3, i);
		if (i % 3 == 0)
			assert_int_equal(fdb_learn(f, macs[i], (uint8_t)i, 1), 0);
	}
	fdb_lookup(f, macs, FDB_BULK_MAX, found);
	for (i = 0; i < FDB_BULK_MAX; i++) {
		if (i % 3 != 0) {
			assert_null(found[i]);
			continue;
		}
		assert_non_null(found[i]);
		assert_int_equal(atomic_load(&found[i]->port), i);
		assert_true(atomic_load(&found[i]->mac) == macs[i]);
	}
}

static void
one_port_gets_half(void **state)
{
	struct fdb *f = *state;

	learn_many(f, 1, 0, FDB_PORT_MAX, 1);
	assert_int_equal(fdb_learn(f, mac_of(1, FDB_PORT_MAX), 1, 1), -ENOSPC);
	assert_int_equal(port_of(f, mac_of(1, FDB_PORT_MAX)), -1);
	assert_int_equal(atomic_load(&fdb_counters(f)->full), 1);
	/* What it has it keeps, and may refresh. */
	assert_int_equal(fdb_learn(f, mac_of(1, 0), 1, 2), 0);
	assert_int_equal(fdb_learn(f, mac_of(2, 0), 2, 1), 0);
}

/* Addresses of others that it claims count as well, and do not open the door to more. */
static void
stolen_addresses_count(void **state)
{
	struct fdb *f = *state;

	learn_many(f, 2, 0, 4, 1);
	learn_many(f, 1, 0, FDB_PORT_MAX - 2, 1);
	assert_int_equal(fdb_learn(f, mac_of(2, 0), 1, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(2, 1), 1, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, FDB_PORT_MAX), 1, 1), -ENOSPC);
	/* A guest that moved is found where it is, even so: above the limit then. */
	assert_int_equal(fdb_learn(f, mac_of(2, 2), 1, 1), 0);
	assert_int_equal(port_of(f, mac_of(2, 2)), 1);
	assert_int_equal(fdb_learn(f, mac_of(1, FDB_PORT_MAX + 1), 1, 1), -ENOSPC);
	/* Given back, until it is below. */
	assert_int_equal(fdb_learn(f, mac_of(2, 2), 2, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, FDB_PORT_MAX + 1), 1, 1), -ENOSPC);
	assert_int_equal(fdb_learn(f, mac_of(2, 1), 2, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, FDB_PORT_MAX + 1), 1, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, FDB_PORT_MAX + 2), 1, 1), -ENOSPC);
}

static void
a_full_table(void **state)
{
	struct fdb *f = *state;

	learn_many(f, 1, 0, FDB_PORT_MAX, 1);
	learn_many(f, 2, 0, FDB_PORT_MAX, 1);
	assert_int_equal(entries(f), FDB_SIZE);
	assert_int_equal(fdb_learn(f, mac_of(3, 0), 3, 1), -ENOSPC);
	assert_int_equal(atomic_load(&fdb_counters(f)->full), 1);
	/* What is in it can move. */
	assert_int_equal(fdb_learn(f, mac_of(2, 7), 3, 1), 0);
	assert_int_equal(port_of(f, mac_of(2, 7)), 3);
	assert_int_equal(port_of(f, mac_of(1, FDB_PORT_MAX - 1)), 1);
}

static void
forgotten_when_old(void **state)
{
	struct fdb *f = *state;
	struct fdb_entry *e;
	uint64_t refreshed = mac_of(1, 3);

	/* More than are removed in one go. */
	learn_many(f, 1, 0, 1000, 100);
	learn_many(f, 2, 0, 10, 105);
	fdb_lookup(f, &refreshed, 1, &e);
	fdb_touch(e, 110);
	fdb_age(f, 110, 10);
	assert_int_equal(entries(f), 1010);
	fdb_age(f, 111, 10);
	assert_int_equal(entries(f), 11);
	assert_int_equal(atomic_load(&fdb_counters(f)->aged), 999);
	assert_int_equal(port_of(f, mac_of(1, 2)), -1);
	assert_int_equal(port_of(f, refreshed), 1);
	assert_int_equal(port_of(f, mac_of(2, 9)), 2);
	/* Heard a second later than it is for us: not old. */
	fdb_touch(e, 112);
	fdb_age(f, 111, 0);
	assert_int_equal(port_of(f, refreshed), 1);
	assert_int_equal(entries(f), 1);
}

/* Removed and learned again, as often as it takes to use every place of the hash more than once:
 * nothing is lost on the way, and the port's share is its own again. */
static void
places_come_back(void **state)
{
	struct fdb *f = *state;
	uint32_t round;

	for (round = 0; round < 6; round++) {
		learn_many(f, 1, round * FDB_PORT_MAX, FDB_PORT_MAX, round * 100);
		learn_many(f, 2, round * FDB_PORT_MAX, FDB_PORT_MAX, round * 100);
		assert_int_equal(entries(f), FDB_SIZE);
		fdb_age(f, round * 100 + 50, 10);
		assert_int_equal(entries(f), 0);
	}
	assert_int_equal(atomic_load(&fdb_counters(f)->full), 0);
}

int
main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(learned_and_moved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(looked_up_by_the_burst, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_port_gets_half, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stolen_addresses_count, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_full_table, set_up, tear_down),
		cmocka_unit_test_setup_teardown(forgotten_when_old, set_up, tear_down),
		cmocka_unit_test_setup_teardown(places_come_back, set_up, tear_down),
	};
	static char name[] = "test_switch_fdb", private[] = "--no-shconf", no_huge[] = "--no-huge",
		    mem[] = "-m64", no_pci[] = "--no-pci", telemetry[] = "--no-telemetry",
		    lcores[] = "--lcores=0@0";
	char *eal[] = {name, private, no_huge, mem, no_pci, telemetry, lcores, NULL};

	(void)argc;
	(void)argv;
	if (rte_eal_init(COUNT_OF(eal) - 1, eal) < 0)
		return 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
