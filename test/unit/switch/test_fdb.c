/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The forwarding table: who may add how much to it, and what is forgotten. */

#include <errno.h>
#include <pthread.h>

#include "unit.h"

#include "fdb.h"
#include "flow.h"

#define SIZE     ADDRESSES_DEFAULT
#define PORT_MAX (SIZE / 2)

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
	return e != NULL ? (int)fdb_port(e, mac) : -1;
}

static uint64_t
entries(const struct fdb *f)
{
	struct fdb_shown shown;
	uint64_t used = 0;
	uint32_t i;

	for (i = 0; i < fdb_places(f); i++)
		used += fdb_show(f, i, &shown);
	assert_true(used == atomic_load(&fdb_counters(f)->entries));
	return used;
}

/* Look at all of the table once. */
static void
age_all(struct fdb *f, uint32_t second, uint32_t age)
{
	uint32_t i;

	for (i = 0; i < FDB_AGE_STEPS; i++)
		fdb_age(f, second, age);
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
	*state = fdb_create(SIZE);
	return *state != NULL ? 0 : -1;
}

static int
tear_down(void **state)
{
	fdb_free(*state);
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
		assert_int_equal(fdb_port(found[i], macs[i]), i);
		assert_int_equal(fdb_port(found[i], macs[i] ^ UINT64_C(1) << 40), FDB_UNKNOWN);
	}
}

static void
one_port_gets_half(void **state)
{
	struct fdb *f = *state;

	learn_many(f, 1, 0, PORT_MAX, 1);
	assert_int_equal(fdb_learn(f, mac_of(1, PORT_MAX), 1, 1), -ENOSPC);
	assert_int_equal(port_of(f, mac_of(1, PORT_MAX)), -1);
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
	learn_many(f, 1, 0, PORT_MAX - 2, 1);
	assert_int_equal(fdb_learn(f, mac_of(2, 0), 1, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(2, 1), 1, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, PORT_MAX), 1, 1), -ENOSPC);
	/* A guest that moved is found where it is, even so: above the limit then. */
	assert_int_equal(fdb_learn(f, mac_of(2, 2), 1, 1), 0);
	assert_int_equal(port_of(f, mac_of(2, 2)), 1);
	assert_int_equal(fdb_learn(f, mac_of(1, PORT_MAX + 1), 1, 1), -ENOSPC);
	/* Given back, until it is below. */
	assert_int_equal(fdb_learn(f, mac_of(2, 2), 2, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, PORT_MAX + 1), 1, 1), -ENOSPC);
	assert_int_equal(fdb_learn(f, mac_of(2, 1), 2, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, PORT_MAX + 1), 1, 1), 0);
	assert_int_equal(fdb_learn(f, mac_of(1, PORT_MAX + 2), 1, 1), -ENOSPC);
}

static void
a_full_table(void **state)
{
	struct fdb *f = *state;

	learn_many(f, 1, 0, PORT_MAX, 1);
	learn_many(f, 2, 0, PORT_MAX, 1);
	assert_int_equal(entries(f), SIZE);
	assert_int_equal(fdb_learn(f, mac_of(3, 0), 3, 1), -ENOSPC);
	assert_int_equal(atomic_load(&fdb_counters(f)->full), 1);
	/* What is in it can move. */
	assert_int_equal(fdb_learn(f, mac_of(2, 7), 3, 1), 0);
	assert_int_equal(port_of(f, mac_of(2, 7)), 3);
	assert_int_equal(port_of(f, mac_of(1, PORT_MAX - 1)), 1);
}

static void
forgotten_when_old(void **state)
{
	struct fdb *f = *state;
	struct fdb_entry *e;
	uint64_t refreshed = mac_of(1, 3);

	learn_many(f, 1, 0, 1000, 100);
	learn_many(f, 2, 0, 10, 105);
	fdb_lookup(f, &refreshed, 1, &e);
	fdb_touch(e, 110);
	age_all(f, 110, 10);
	assert_int_equal(entries(f), 1010);
	age_all(f, 111, 10);
	assert_int_equal(entries(f), 11);
	assert_int_equal(atomic_load(&fdb_counters(f)->aged), 999);
	assert_int_equal(port_of(f, mac_of(1, 2)), -1);
	assert_int_equal(port_of(f, refreshed), 1);
	assert_int_equal(port_of(f, mac_of(2, 9)), 2);
	/* Heard a second later than it is for us: not old. */
	fdb_touch(e, 112);
	age_all(f, 111, 0);
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
		learn_many(f, 1, round * PORT_MAX, PORT_MAX, round * 100);
		learn_many(f, 2, round * PORT_MAX, PORT_MAX, round * 100);
		assert_int_equal(entries(f), SIZE);
		age_all(f, round * 100 + 50, 10);
		assert_int_equal(entries(f), 0);
	}
	assert_int_equal(atomic_load(&fdb_counters(f)->full), 0);
}

/* Who keeps what it found sees the address move, go, and another in its place. */
static void
kept_by_who_found_it(void **state)
{
	struct fdb *f = *state;
	uint64_t mac = mac_of(1, 1);
	struct fdb_entry *e;
	uint32_t i;

	assert_int_equal(fdb_learn(f, mac, 1, 100), 0);
	fdb_lookup(f, &mac, 1, &e);
	assert_int_equal(fdb_port(e, mac), 1);
	assert_int_equal(fdb_learn(f, mac, 2, 100), 0);
	assert_int_equal(fdb_port(e, mac), 2);
	age_all(f, 200, 50);
	assert_int_equal(fdb_port(e, mac), FDB_UNKNOWN);
	/* What comes there is not taken for it. */
	for (i = 0; i < 100 * PORT_MAX && atomic_load(&e->word) == 0; i++) {
		const uint32_t second = 300 + i / PORT_MAX * 100;

		/* A table full of others may have none there: then these go and more come. */
		if (i % PORT_MAX == 0)
			age_all(f, second, 50);
		assert_int_equal(fdb_learn(f, mac_of(3, i), 3, second), 0);
	}
	assert_true(atomic_load(&e->word) != 0);
	assert_int_equal(fdb_port(e, mac), FDB_UNKNOWN);
	/* Touched by mistake: that is all. */
	fdb_touch(e, 201);
	assert_int_equal(port_of(f, mac), -1);
	assert_int_equal(fdb_learn(f, mac, 4, 200), 0);
	assert_int_equal(port_of(f, mac), 4);
}

/* No address at all, and the free places, are nothing. */
static void
nothing_is_not_found(void **state)
{
	struct fdb *f = *state;

	assert_int_equal(port_of(f, 0), -1);
	learn_many(f, 1, 0, PORT_MAX, 1);
	assert_int_equal(port_of(f, 0), -1);
}

/* As small as it gets, full, and again with others: buckets overflow, and addresses lie behind. */
static void
small_and_full(void **state)
{
	struct fdb *f = fdb_create(ADDRESSES_MIN);
	uint32_t round, i;

	(void)state;
	assert_non_null(f);
	for (round = 0; round < 2000; round++) {
		for (i = 0; i < ADDRESSES_MIN; i++)
			assert_int_equal(
				fdb_learn(f, mac_of(i % 2, round << 8 | i), i % 2, round * 2), 0);
		assert_int_equal(fdb_learn(f, mac_of(3, round << 8), 3, round * 2), -ENOSPC);
		for (i = 0; i < ADDRESSES_MIN; i++)
			assert_int_equal(port_of(f, mac_of(i % 2, round << 8 | i)), i % 2);
		assert_int_equal(port_of(f, mac_of(3, round << 8)), -1);
		/* All but a few that are heard again. */
		for (i = 0; i < ADDRESSES_MIN; i += 16)
			assert_int_equal(
				fdb_learn(f, mac_of(i % 2, round << 8 | i), i % 2, round * 2 + 1),
				0);
		age_all(f, round * 2 + 1, 0);
		assert_int_equal(entries(f), ADDRESSES_MIN / 16);
		age_all(f, round * 2 + 2, 0);
		assert_int_equal(entries(f), 0);
	}
	fdb_free(f);
}

static void
a_million(void **state)
{
	const uint32_t each = 500000;
	struct fdb *f = fdb_create(2 * each);
	uint64_t macs[FDB_BULK_MAX];
	struct fdb_entry *found[FDB_BULK_MAX];
	uint32_t i, k;

	(void)state;
	assert_non_null(f);
	assert_int_equal(fdb_size(f), 2 * each);
	assert_int_equal(fdb_port_max(f), each);
	/* Memory of one is as the manual says. */
	assert_true((uint64_t)fdb_places(f) / FDB_WAYS * sizeof(struct fdb_bucket) <=
		    (uint64_t)2 * each * 64);
	learn_many(f, 1, 0, each, 1);
	learn_many(f, 2, 0, each, 2);
	assert_int_equal(fdb_learn(f, mac_of(3, 0), 3, 1), -ENOSPC);
	for (i = 0; i < each; i += FDB_BULK_MAX / 2) {
		for (k = 0; k < FDB_BULK_MAX; k++)
			macs[k] = mac_of(1 + k % 2, i + k / 2);
		fdb_lookup(f, macs, FDB_BULK_MAX, found);
		for (k = 0; k < FDB_BULK_MAX; k++)
			assert_int_equal(fdb_port(found[k], macs[k]), 1 + k % 2);
	}
	age_all(f, 3, 1);
	assert_int_equal(entries(f), each);
	assert_int_equal(port_of(f, mac_of(1, 7)), -1);
	assert_int_equal(port_of(f, mac_of(2, 7)), 2);
	fdb_free(f);
}

static _Atomic(bool) stop;

/* Addresses that stay are found at every moment, at a port they were at, whatever happens around.
 */
static void *
look_on(void *arg)
{
	const struct fdb *f = arg;
	uint32_t i;

	while (!atomic_load(&stop))
		for (i = 0; i < ADDRESSES_MIN / 4; i++)
			assert_in_range(port_of(f, mac_of(1, i)), 1, 2);
	return NULL;
}

static void
looked_up_under_change(void **state)
{
	struct fdb *f = fdb_create(ADDRESSES_MIN);
	const uint32_t stay = ADDRESSES_MIN / 4;
	uint32_t round, i;
	pthread_t thread;

	(void)state;
	assert_non_null(f);
	/* Some of those that stay lie behind others that go. */
	learn_many(f, 3, 0, ADDRESSES_MIN / 2, 0);
	learn_many(f, 1, 0, stay, 1);
	atomic_store(&stop, false);
	assert_int_equal(pthread_create(&thread, NULL, look_on, f), 0);
	for (round = 1; round < 5000; round++) {
		for (i = 0; i < stay; i++)
			assert_int_equal(fdb_learn(f, mac_of(1, i), 1 + round % 2, round), 0);
		age_all(f, round, 0);
		assert_int_equal(atomic_load(&fdb_counters(f)->entries), stay);
		learn_many(f, 3, round << 8, ADDRESSES_MIN / 2, round);
	}
	atomic_store(&stop, true);
	assert_int_equal(pthread_join(thread, NULL), 0);
	fdb_free(f);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test_setup_teardown(learned_and_moved, set_up, tear_down),
		cmocka_unit_test_setup_teardown(looked_up_by_the_burst, set_up, tear_down),
		cmocka_unit_test_setup_teardown(one_port_gets_half, set_up, tear_down),
		cmocka_unit_test_setup_teardown(stolen_addresses_count, set_up, tear_down),
		cmocka_unit_test_setup_teardown(a_full_table, set_up, tear_down),
		cmocka_unit_test_setup_teardown(forgotten_when_old, set_up, tear_down),
		cmocka_unit_test_setup_teardown(places_come_back, set_up, tear_down),
		cmocka_unit_test_setup_teardown(kept_by_who_found_it, set_up, tear_down),
		cmocka_unit_test_setup_teardown(nothing_is_not_found, set_up, tear_down),
		cmocka_unit_test(small_and_full),
		cmocka_unit_test(a_million),
		cmocka_unit_test(looked_up_under_change),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
