/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "unit.h"

#include "options.h"

static struct options o;
static struct problem problem_found;

/* Words apart by spaces. */
static int
parse(const char *text)
{
	static char copy[512];
	char *argv[32], *rest = copy, *word;
	int argc = 0;

	memcpy(copy, text, strlen(text) + 1);
	while ((word = strsep(&rest, " ")) != NULL)
		if (word[0] != '\0')
			argv[argc++] = word;
	options_init(&o);
	return options_parse(&o, argc, argv, &problem_found);
}

static void
bad(const char *text, const char *one, const char *two)
{
	const char *words[] = {one, two, NULL};

	if (parse(text) == 0)
		fail_msg("\"%s\" was taken", text);
	assert_words(problem_found.text, words);
	assert_null(strchr(problem_found.text, '\n'));
}

static void
bad_ones_are_named(void **state)
{
	(void)state;
	bad("", "--tx", "--rx");
	bad("--colour red --tx 0", "--colour", "--help");
	bad("hello", "hello", "--help");
	bad("--tx", "--tx", "missing value");
	bad("--tx=", "--tx", "missing value");
	bad("--tx 0 --verify=1", "--verify", "no value");
	bad("--tx 0 --rate fast", "--rate", "fast");
	bad("--tx 0 --rate 0", "--rate", "1..");
	bad("--tx 0 --rate 1.2345k", "--rate", "1.2345k");
	bad("--tx 0 --rate -5", "--rate", "-5");
	bad("--tx 0 --rate 5kk", "--rate", "5kk");
	bad("--tx 0 --rate 1M5", "--rate", "1M5");
	bad("--tx 0 --rate 2000M", "--rate", "2000M");
	bad("--tx 0 --rate 99999999999999999999999", "--rate", "99999999999999999999999");
	bad("--tx 0 --shape round", "--shape", "on-off");
	bad("--tx 0 --shape bursts:0 --rate 1k", "--shape", "1..");
	bad("--tx 0 --shape bursts:8", "--shape", "--rate max");
	bad("--tx 0 --shape on-off:5", "--shape", "on-off:MS:MS");
	bad("--tx 0 --shape on-off:5:x", "--shape", "\"x\"");
	bad("--tx 0 --shape on-off::5", "--shape", "\"\"");
	bad("--tx 0 --shape on-off:0:5", "--shape", "0");
	bad("--tx 0 --burst 0", "--burst", "1..1024");
	bad("--tx 0 --burst 1025", "--burst", "1025");
	bad("--tx 0 --burst 4x", "--burst", "4x");
	bad("--tx 0 --window 8", "--window", "--rx");
	bad("--rx 0 --window 8", "--window", "--tx");
	bad("--tx 0 --when-late never", "never", "shift");
	bad("--tx 0 --late 0", "--late", "0");
	bad("--tx 0 --count 0", "--count", "0");
	bad("--tx 0 --duration 0", "--duration", "0");
	bad("--tx 0 --duration 1.2.3", "--duration", "1.2.3");
	bad("--tx 0 --duration 0.1234567", "--duration", "0.1234567");
	bad("--tx 0 --duration 90000", "--duration", "86400");
	bad("--tx 0 --warmup soon", "--warmup", "soon");
	bad("--tx 0 --drain -1", "--drain", "-1");
	bad("--tx 0 --size 59", "--size", "60..65535");
	bad("--tx 0 --size 65536", "--size", "65536");
	bad("--tx 0 --size 100-80", "--size", "backwards");
	bad("--tx 0 --size 100-", "--size", "\"\"");
	bad("--tx 0 --size -100", "--size", "-100");
	bad("--tx 0 --size 60,,70", "--size", "\"\"");
	bad("--tx 0 --size big", "--size", "big");
	bad("--tx 0 --size 60 --verify", "--size", "64");
	bad("--tx 0 --verify", "--size", "64");
	bad("--tx 0 --flows 0", "--flows", "0");
	bad("--tx 0 --flows 65537", "--flows", "65536");
	bad("--tx 0 --sequence both", "both", "global");
	bad("--tx 0 --sequence global --queues 2 --flows 2", "--sequence", "--queues 1");
	bad("--tx 0 --queues 4 --flows 3", "--queues", "--flows 4");
	bad("--tx 0 --queues 65 --flows 100", "--queues", "65");
	bad("--tx 0 --stream 65536", "--stream", "65536");
	bad("--tx 0 --src-mac 02:00", "--src-mac", "02:00");
	bad("--tx 0 --src-mac 03:00:00:00:00:01", "--src-mac", "group");
	bad("--tx 0 --dst-mac 02:00:00:00:00:0g", "--dst-mac", "0g");
	bad("--tx 0 --dst-mac 02:00:00:00:00:001", "--dst-mac", "001");
	bad("--tx 0 --announce", "--announce", "--rx");
	bad("--tx 0 --rx-descs 0", "--rx-descs", "0");
	bad("--tx 0 --tx-descs 40000", "--tx-descs", "40000");
	bad("--tx 0 --mbufs 3", "--mbufs", "3");
	bad("--tx 0 --link forever", "--link", "forever");
	bad("--tx 0 --away 100", "--away", "--rx");
	bad("--rx 0 --away 100", "--away", "--away-every");
	bad("--rx 0 --away-every 100", "--away-every", "--away");
	bad("--rx 0 --away 0 --away-every 100", "--away", "1..");
	bad("--rx 0 --away 5 --away-every 60000001", "--away-every", "60000000");
	bad("--tx 0 --time-calls", "--time-calls", "--rx");
	bad("--tx 0 --sleep", "--sleep", "--rx");
	bad("--tx 0 --rx 0 --keep-armed", "--keep-armed", "--sleep");
	bad("--tx 0 --mtu 67", "--mtu", "68..65521");
	bad("--tx 0 --mtu 65522", "--mtu", "65522");
	bad("--tx 0 --mbuf-size 63", "--mbuf-size", "64..65407");
	bad("--rx 0 --starve 100", "--starve", "--starve-every");
	bad("--tx 0 --starve 100 --starve-every 9", "--starve", "--rx");
	bad("--tx 0 --seed x", "--seed", "\"x\"");
	bad("--tx nnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnnn", "--tx",
		"63");
}

static void
good_ones_are_taken(void **state)
{
	const uint8_t mac[6] = {0x02, 0x51, 0xab, 0, 0, 0xff};

	(void)state;
	assert_int_equal(parse("--tx 0 --rx=net_ring1 --rate 1.5M --burst=16 --window 64 --flows "
			       "65536 --queues 4 --count 100 --verify --size 64-70 --stream 9"),
		0);
	assert_string_equal(o.tx, "0");
	assert_string_equal(o.rx, "net_ring1");
	assert_int_equal(o.rate, 1500000);
	assert_int_equal(o.burst, 16);
	assert_int_equal(o.window, 64);
	assert_int_equal(o.flows, 65536);
	assert_int_equal(o.queues, 4);
	assert_int_equal(o.count, 100);
	assert_int_equal(o.duration_us, 0); /* the count is enough */
	assert_int_equal(o.nsizes, 7);
	assert_int_equal(o.sizes[6], 70);
	assert_int_equal(options_longest(&o), 70);
	assert_true(o.verify);
	assert_int_equal(parse("--tx 0 --rate 250k --shape bursts:40 --duration 0.25 --warmup 1 "
			       "--size 60,1514,64 --src-mac 02:51:aB:00:00:fF --when-late shift"),
		0);
	assert_int_equal(o.rate, 250000);
	assert_int_equal(o.group, 40);
	assert_int_equal(o.duration_us, 250000);
	assert_int_equal(o.warmup_us, 1000000);
	assert_int_equal(o.nsizes, 3);
	assert_int_equal(options_longest(&o), 1514);
	assert_true(o.src.given && !o.dst.given && o.shift);
	assert_memory_equal(o.src.bytes, mac, 6);
	assert_int_equal(parse("--rx 3 --rate max --shape on-off:5:20 --sequence global"), 0);
	assert_int_equal(o.rate, 0);
	assert_int_equal(o.on_us, 5000);
	assert_int_equal(o.off_us, 20000);
	assert_int_equal(o.group, 1);
	assert_true(o.global);
	assert_int_equal(o.duration_us, 10000000);
	assert_int_equal(parse("--rx 0 --away 640 --away-every 5000 --seed 9"), 0);
	assert_int_equal(o.away_us, 640);
	assert_int_equal(o.away_every_us, 5000);
	assert_int_equal(o.seed, 9);
	assert_int_equal(parse("--help"), 0);
	assert_true(o.help);
	assert_int_equal(parse("--size 60-65535 --tx 0"), 0);
	assert_int_equal(o.nsizes, SIZES_MAX);
}

static void
imix(void **state)
{
	uint32_t of[3] = {0}, i;

	(void)state;
	assert_int_equal(parse("--tx 0 --size imix"), 0);
	assert_int_equal(o.nsizes, 12);
	for (i = 0; i < 12; i++)
		of[o.sizes[i] == 60 ? 0 : o.sizes[i] == 590 ? 1 : 2]++;
	assert_int_equal(of[0], 7);
	assert_int_equal(of[1], 4);
	assert_int_equal(of[2], 1);
}

static void
ours_are_known(void **state)
{
	(void)state;
	assert_true(options_has("--tx"));
	assert_true(options_has("--tx=0"));
	assert_false(options_has("--txx"));
	assert_false(options_has("--vdev"));
	assert_false(options_has("--help")); /* EAL has that, too */
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(bad_ones_are_named),
		cmocka_unit_test(good_ones_are_taken),
		cmocka_unit_test(imix),
		cmocka_unit_test(ours_are_known),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
