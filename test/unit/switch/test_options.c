/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdio.h>

#include "unit.h"

#include "config.h"

static struct switch_config config;
static struct problem problem_text;

static int
take(const char *const *words)
{
	char *argv[20];
	int argc = 0;

	for (; words[argc] != NULL; argc++)
		argv[argc] = (char *)(uintptr_t)words[argc];
	switch_config_init(&config);
	memset(&problem_text, 0, sizeof(problem_text));
	return switch_config_options(&config, argc, argv, &problem_text);
}

#define TAKE(...) take((const char *[]){__VA_ARGS__, NULL})

static void
all_of_them(void **state)
{
	(void)state;
	assert_int_equal(TAKE("--port", "a,path=s", "--port=b,dev=d", "--ageing", "0", "--coalesce",
				 "static,frames=32,usecs=50", "--report=r.json", "--idle", "sleep",
				 "--idle-usecs=7", "--suppress-kicks", "off"),
		0);
	assert_int_equal(config.nports, 2);
	assert_string_equal(config.ports[0].name, "a");
	assert_string_equal(config.ports[1].dev, "d");
	assert_int_equal(config.ageing, 0);
	assert_int_equal(config.coalesce.mode, COALESCE_STATIC);
	assert_int_equal(config.coalesce.frames, 32);
	assert_int_equal(config.coalesce.usecs, 50);
	assert_string_equal(config.report, "r.json");
	assert_true(config.idle.sleep);
	assert_int_equal(config.idle.usecs, 7);
	assert_false(config.suppress_kicks);
}

static void
defaults(void **state)
{
	(void)state;
	assert_int_equal(TAKE("--port", "a,path=s"), 0);
	assert_int_equal(config.ageing, 300);
	assert_int_equal(config.coalesce.mode, COALESCE_OFF);
	assert_int_equal(config.coalesce.frames, 0);
	assert_string_equal(config.report, "");
	assert_false(config.idle.sleep);
	assert_int_equal(config.idle.usecs, IDLE_USECS_DEFAULT);
	assert_true(config.suppress_kicks);
}

/* Who polls has no use for the time; who goes back to polling need not take it back. */
static void
idle(void **state)
{
	(void)state;
	assert_int_equal(TAKE("--port", "a,path=s", "--idle-usecs", "0", "--idle", "sleep"), 0);
	assert_true(config.idle.sleep);
	assert_int_equal(config.idle.usecs, 0);
	assert_int_equal(TAKE("--port", "a,path=s", "--idle=sleep", "--idle-usecs", "1000000",
				 "--idle", "poll"),
		0);
	assert_false(config.idle.sleep);
	assert_int_equal(TAKE("--idle-usecs", "5", "--help"), 0);
}

static void
help_and_version_need_no_port(void **state)
{
	(void)state;
	assert_int_equal(TAKE("--help"), 0);
	assert_true(config.help);
	assert_int_equal(TAKE("--version"), 0);
	assert_true(config.version);
}

static void
the_last_one_counts(void **state)
{
	(void)state;
	assert_int_equal(TAKE("--port", "a,path=s", "--coalesce", "static,usecs=5,frames=8",
				 "--coalesce", "off", "--ageing", "1", "--ageing", "2",
				 "--suppress-kicks", "off", "--suppress-kicks", "on"),
		0);
	assert_true(config.suppress_kicks);
	assert_int_equal(config.coalesce.frames, 0);
	assert_int_equal(config.ageing, 2);
}

static void
no_more_ports_than_fit(void **state)
{
	struct port_config p;
	char name[16];
	uint32_t i;

	(void)state;
	switch_config_init(&config);
	for (i = 0; i <= PORTS_MAX; i++) {
		snprintf(name, sizeof(name), "p%u,path=s%u", i, i);
		assert_int_equal(port_config_parse(&p, name, &problem_text), 0);
		assert_int_equal(switch_config_add_port(&config, &p, &problem_text),
			i < PORTS_MAX ? 0 : -EINVAL);
	}
	assert_words(problem_text.text, (const char *[]){"64", NULL});
}

static const struct {
	const char *words[6];
	const char *said[4];
} bad[] = {
	{{NULL}, {"no port", "--port", "--config"}},
	{{"hello"}, {"hello"}},
	{{"-p"}, {"-p"}},
	{{"--ports"}, {"--ports"}},
	{{"--port"}, {"--port", "missing value"}},
	{{"--port="}, {"--port", "missing value"}},
	{{"--port", ""}, {"--port", "missing value"}},
	{{"--help=x"}, {"--help", "no value"}},
	{{"--port", "a,path=s", "--port", "a,path=t"}, {"--port a", "\"a\"", "name"}},
	{{"--port", "a,path=s", "--port", "b,path=s"}, {"--port b", "s", "\"a\""}},
	{{"--port", "a,dev=s", "--port", "b,dev=s"}, {"--port b", "s", "\"a\""}},
	{{"--port", "a,path=s", "--ageing", "-1"}, {"--ageing", "-1"}},
	{{"--port", "a,path=s", "--ageing", "1000001"}, {"--ageing", "range"}},
	{{"--port", "a,path=s", "--coalesce", "sometimes"}, {"--coalesce", "sometimes", "static"}},
	{{"--port", "a,path=s", "--coalesce", "static"}, {"frames=N", "usecs=N"}},
	{{"--port", "a,path=s", "--coalesce", "static,frames=8"}, {"frames=N", "usecs=N"}},
	{{"--port", "a,path=s", "--coalesce", "static,frames=0,usecs=1"}, {"frames", "0"}},
	{{"--port", "a,path=s", "--coalesce", "static,frames=8,usecs=1,x=1"}, {"\"x\""}},
	{{"--port", "a,path=s", "--coalesce", "off,frames=8"}, {"off"}},
	{{"--port", "a,path=s", "--coalesce", "adaptive,usecs=8"}, {"adaptive", "usecs"}},
	{{"--port", "a,path=s", "--coalesce", "as the switch"}, {"--coalesce", "adaptive"}},
	{{"--port", "a,path=s", "--coalesce", "static,frames"}, {"frames", "number"}},
	{{"--port", "a,path=s", "--idle"}, {"--idle", "missing value", "poll or sleep"}},
	{{"--port", "a,path=s", "--idle=nap"}, {"--idle", "\"nap\"", "poll or sleep"}},
	{{"--port", "a,path=s", "--idle-usecs=x"}, {"--idle-usecs", "x"}},
	{{"--port", "a,path=s", "--idle-usecs=1000001"}, {"--idle-usecs", "range"}},
	{{"--port", "a,path=s", "--idle-usecs=9"}, {"--idle-usecs", "9", "--idle sleep"}},
	{{"--port", "a,path=s", "--idle=poll", "--idle-usecs=9"}, {"--idle-usecs", "9"}},
	{{"--port", "a,path=s", "--suppress-kicks"}, {"--suppress-kicks", "on or off"}},
	{{"--port", "a,path=s", "--suppress-kicks=no"}, {"--suppress-kicks", "no", "on or off"}},
	{{"--port", "a,path=s", "--report"}, {"--report"}},
	{{"--config", "/no/such/file"}, {"/no/such/file", "No such file"}},
	{{"--config", "/tmp"}, {"/tmp", "directory"}},
};

static void
bad_ones(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(bad); i++) {
		if (take(bad[i].words) != -EINVAL)
			fail_msg("row %zu was taken", i);
		/* "off,frames=8" is neither off nor static; its first word is named. */
		assert_words(problem_text.text, bad[i].said);
		assert_null(strchr(problem_text.text, '\n'));
	}
}

static void
a_forgotten_separator_is_seen(void **state)
{
	(void)state;
	assert_true(switch_config_is_option("--port"));
	assert_true(switch_config_is_option("--ageing=3"));
	assert_false(switch_config_is_option("--vdev"));
	/* These are EAL's as well. */
	assert_false(switch_config_is_option("--help"));
	assert_false(switch_config_is_option("--version"));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(all_of_them),
		cmocka_unit_test(defaults),
		cmocka_unit_test(help_and_version_need_no_port),
		cmocka_unit_test(idle),
		cmocka_unit_test(the_last_one_counts),
		cmocka_unit_test(no_more_ports_than_fit),
		cmocka_unit_test(bad_ones),
		cmocka_unit_test(a_forgotten_separator_is_seen),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
