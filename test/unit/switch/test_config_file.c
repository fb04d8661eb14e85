/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "unit.h"

#include "config.h"

static struct switch_config config;
static struct problem problem_text;
static char name[] = "/tmp/sluice-test-XXXXXX";

static int
make_name(void **state)
{
	int fd = mkstemp(name);

	(void)state;
	return fd < 0 ? -1 : close(fd);
}

static int
remove_name(void **state)
{
	(void)state;
	return unlink(name);
}

static int
take(const char *text)
{
	FILE *f = fopen(name, "w");

	assert_non_null(f);
	assert_true(fputs(text, f) >= 0);
	assert_int_equal(fclose(f), 0);
	switch_config_init(&config);
	memset(&problem_text, 0, sizeof(problem_text));
	return switch_config_read(&config, name, &problem_text);
}

static void
all_of_it(void **state)
{
	(void)state;
	assert_int_equal(
		take("ageing = 60;\n"
		     "coalesce = { mode = \"static\"; frames = 16; usecs = 40; };\n"
		     "idle = \"sleep\";\nidle_usecs = 70;\n"
		     "suppress_kicks = false;\n"
		     "report = \"/tmp/r\";\n"
		     "ports = (\n"
		     "  { name = \"vm0\"; path = \"/run/vm0\"; mode = \"server\"; owner = 0;\n"
		     "    group = \"root\"; perm = \"0660\"; queues = 2; loopback = true; mtu = "
		     "9000;\n"
		     "    mrg_rxbuf = false; in_order = \"off\"; indirect = false; event_idx = "
		     "true;\n"
		     "    coalesce = \"static\"; frames = 4; usecs = 5; },\n"
		     "  { name = \"up0\"; dev = \"net_tap0\"; }\n"
		     ");\n"),
		0);
	assert_int_equal(config.ageing, 60);
	assert_int_equal(config.coalesce.frames, 16);
	assert_int_equal(config.coalesce.usecs, 40);
	assert_true(config.idle.sleep);
	assert_int_equal(config.idle.usecs, 70);
	assert_false(config.suppress_kicks);
	assert_string_equal(config.report, "/tmp/r");
	assert_int_equal(config.nports, 2);
	assert_int_equal(config.ports[0].coalesce.mode, COALESCE_STATIC);
	assert_int_equal(config.ports[0].coalesce.usecs, 5);
	assert_string_equal(config.ports[0].name, "vm0");
	assert_int_equal(config.ports[0].perm, 0660);
	assert_int_equal(config.ports[0].queues, 2);
	assert_int_equal(config.ports[0].mtu, 9000);
	assert_int_equal(config.ports[0].loopback, LOOPBACK_ON);
	assert_true(config.ports[0].event_idx);
	assert_false(config.ports[0].mrg_rxbuf || config.ports[0].in_order);
	assert_string_equal(config.ports[1].dev, "net_tap0");
}

static void
coalescing(void **state)
{
	(void)state;
	assert_int_equal(take("coalesce = \"adaptive\";"), 0);
	assert_int_equal(config.coalesce.mode, COALESCE_ADAPTIVE);
	assert_int_equal(take("coalesce = { frames = 3; mode = \"adaptive\"; };"), 0);
	assert_int_equal(config.coalesce.mode, COALESCE_ADAPTIVE);
	assert_int_equal(config.coalesce.frames, 0);
	assert_int_equal(take("coalesce = \"off\";"), 0);
	assert_int_equal(config.coalesce.frames, 0);
	assert_int_equal(take("coalesce = { mode = \"off\"; frames = 3; };"), 0);
	assert_int_equal(config.coalesce.frames, 0);
	assert_int_equal(take("coalesce = { frames = 3; usecs = 4; };"), 0);
	assert_int_equal(config.coalesce.frames, 3);
}

static const struct {
	const char *text;
	int line;
	const char *words[4];
} bad[] = {
	{"ageing =;\n", 1, {"syntax"}},
	{"ports = (\n { name = \"a\"; path = \"s\"; }\n", 3, {"syntax"}},
	{"ageing = 1;\nageing = 2;\n", 2, {"dup"}},
	{"\ncolour = 1;\n", 2, {"colour"}},
	{"ports = 3;\n", 1, {"ports", "list"}},
	{"ports = {};\n", 1, {"ports", "list"}},
	{"ports = (\n 3 );\n", 2, {"group"}},
	{"ports = (\n { path = \"s\"; } );\n", 2, {"name"}},
	{"ports = (\n { name = 3; path = \"s\"; } );\n", 2, {"name"}},
	{"ports = (\n { name = \"a b\"; path = \"s\"; } );\n", 2, {"a b", "letters"}},
	{"ports = (\n { name = \"a\"; } );\n", 2, {"port a", "path"}},
	{"ports = (\n { name = \"a\"; path = \"s\";\n\n colour = 1; } );\n", 4, {"colour"}},
	{"ports = (\n { name = \"a\"; path = \"s\";\n perm = 0660; } );\n", 3, {"perm", "quotes"}},
	{"ports = (\n { name = \"a\"; path = \"s\";\n mtu = 1500.5; } );\n", 3, {"mtu"}},
	{"ports = (\n { name = \"a\"; path = \"s\";\n mtu = -1; } );\n", 3, {"mtu", "-1"}},
	{"ports = (\n { name = \"a\"; path = \"s\";\n mtu = (1); } );\n", 3, {"mtu"}},
	{"ports = (\n { name = \"a\"; path = \"s\"; },\n { name = \"a\"; path = \"t\"; } );\n", 3,
		{"port a", "another name"}},
	{"ports = (\n { name = \"a\"; path = \"s\"; },\n { name = \"b\"; path = \"s\"; } );\n", 3,
		{"port b", "\"a\""}},
	{"\nageing = \"x\";\n", 2, {"ageing", "x"}},
	{"\nageing = 1000001;\n", 2, {"ageing", "range"}},
	{"\nidle = \"nap\";\n", 2, {"idle", "nap", "poll or sleep"}},
	{"\nidle = true;\n", 2, {"idle", "on", "poll or sleep"}},
	{"\nidle_usecs = -1;\n", 2, {"idle_usecs", "-1"}},
	{"\nidle_usecs = 1000001;\n", 2, {"idle_usecs", "range"}},
	{"\nsuppress_kicks = 2;\n", 2, {"suppress_kicks", "2", "on or off"}},
	{"\nreport = \"\";\n", 2, {"missing value"}},
	{"coalesce = 3;\n", 1, {"coalesce", "3"}},
	{"coalesce = {\n mode = \"x\"; };\n", 2, {"mode", "x"}},
	{"ports = ( { name = \"a\"; path = \"s\";\n usecs = 0; } );\n", 2, {"usecs", "0"}},
	{"coalesce = {\n colour = 1; };\n", 2, {"colour"}},
	{"coalesce = {\n frames = 3; };\n", 1, {"coalesce", "usecs"}},
	{"coalesce = {\n frames = -3; usecs = 1; };\n", 1, {"coalesce", "frames", "-3"}},
	{"@include \"/no/such/file\"\n", 1, {"include"}},
};

static void
bad_ones(void **state)
{
	char place[64];
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(bad); i++) {
		if (take(bad[i].text) != -EINVAL)
			fail_msg("taken: %s", bad[i].text);
		snprintf(place, sizeof(place), "%s:%d: ", name, bad[i].line);
		if (strncmp(problem_text.text, place, strlen(place)) != 0)
			fail_msg("\"%s\" does not begin with \"%s\"", problem_text.text, place);
		assert_words(problem_text.text, bad[i].words);
		assert_null(strchr(problem_text.text, '\n'));
	}
}

static void
long_strings_are_refused(void **state)
{
	char text[9000] = "report = \"";
	size_t used = strlen(text);

	(void)state;
	memset(text + used, 'x', 8000);
	strcpy(text + used + 8000, "\";\n");
	assert_int_equal(take(text), -EINVAL);
	assert_words(problem_text.text, (const char *[]){":1: ", "report", NULL});
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_it),
		cmocka_unit_test(coalescing),
		cmocka_unit_test(bad_ones),
		cmocka_unit_test(long_strings_are_refused),
	};

	return cmocka_run_group_tests(tests, make_name, remove_name);
}
