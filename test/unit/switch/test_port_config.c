/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "unit.h"

#include "feature_bits.h"
#include "port_config.h"
#include "vq_wire.h"

#define PATH_107                                                                                   \
	"/0123456789012345678901234567890123456789012345678901234567890123456789"                  \
	"012345678901234567890123456789012345"

static void
defaults(void **state)
{
	struct port_config p;
	struct problem problem;

	(void)state;
	assert_int_equal(port_config_parse(&p, "vm0,path=/run/vm0", &problem), 0);
	assert_string_equal(p.name, "vm0");
	assert_string_equal(p.path, "/run/vm0");
	assert_string_equal(p.dev, "");
	assert_false(p.client);
	assert_int_equal(p.loopback, LOOPBACK_OFF);
	assert_true(p.owner == (uid_t)-1 && p.group == (gid_t)-1 && p.perm == 0);
	assert_int_equal(p.queues, 0);
	assert_int_equal(p.mtu, 0);
	assert_true(p.mrg_rxbuf && p.in_order && p.indirect && p.event_idx);
}

static void
every_key(void **state)
{
	struct port_config p;
	struct problem problem;

	(void)state;
	assert_int_equal(port_config_parse(&p,
				 "a_1,path=s,mode=server,owner=0,group=root,perm=0640,queues=16,"
				 "loopback=on,mtu=9000,mrg_rxbuf=off,in_order=off,indirect=off,"
				 "event_idx=off,usecs=50,coalesce=static,frames=32",
				 &problem),
		0);
	assert_int_equal(p.owner, 0);
	assert_int_equal(p.group, 0);
	assert_int_equal(p.perm, 0640);
	assert_int_equal(p.queues, 16);
	assert_int_equal(p.mtu, 9000);
	assert_int_equal(p.loopback, LOOPBACK_ON);
	assert_false(p.mrg_rxbuf || p.in_order || p.indirect || p.event_idx);
	assert_int_equal(p.coalesce.mode, COALESCE_STATIC);
	assert_int_equal(p.coalesce.frames, 32);
	assert_int_equal(p.coalesce.usecs, 50);
	assert_int_equal(port_config_parse(&p, "a,path=s,coalesce=adaptive", &problem), 0);
	assert_int_equal(p.coalesce.mode, COALESCE_ADAPTIVE);
	assert_int_equal(port_config_parse(&p, "c,path=s,mode=client", &problem), 0);
	assert_int_equal(p.coalesce.mode, COALESCE_AS_SWITCH);
	assert_true(p.client);
	assert_int_equal(port_config_parse(&p, "up,dev=net_tap0,mtu=1500,queues=2", &problem), 0);
	assert_string_equal(p.dev, "net_tap0");
}

static void
the_longest_path(void **state)
{
	struct port_config p;
	struct problem problem;

	(void)state;
	assert_int_equal(strlen(PATH_107), 107);
	assert_int_equal(port_config_parse(&p, "a,path=" PATH_107, &problem), 0);
	assert_int_equal(port_config_parse(&p, "a,path=" PATH_107 "x", &problem), -EINVAL);
	assert_words(problem.text, (const char *[]){"path", "107", "108", NULL});
}

static const struct {
	const char *text;
	const char *words[4];
} bad[] = {
	{"", {"name"}},
	{",path=s", {"name"}},
	{"path=s", {"name", "path=s"}},
	{"a", {"path", "dev"}},
	{"a-b,path=s", {"a-b", "letters"}},
	{"a\nb,path=s", {"name \"a\\nb\"", "letters"}},
	{"a,path=s,\033[1mqueues=1", {"\\x1b[1mqueues"}},
	{"0123456789012345678901234567890x,path=s", {"31"}},
	{"a,path=s,", {"key"}},
	{"a,,path=s", {"key"}},
	{"a,=x,path=s", {"key"}},
	{"a,path", {"path", "missing value"}},
	{"a,path=", {"path", "missing value"}},
	{"a,path=s,path=t", {"path", "twice"}},
	{"a,path=s,colour=red", {"colour", "known are"}},
	{"a,path=s,PATH=t", {"PATH"}},
	{"a,path=s,dev=d", {"path", "dev"}},
	{"a,path=s,mode=x", {"mode=x", "server", "client"}},
	{"a,path=s,owner=no_such_user_here", {"no_such_user_here"}},
	{"a,path=s,owner=4294967295", {"owner", "range"}},
	{"a,path=s,group=no_such_group_here", {"no_such_group_here"}},
	{"a,path=s,perm=0", {"perm=0"}},
	{"a,path=s,perm=08", {"perm=08", "octal"}},
	{"a,path=s,perm=1000", {"perm=1000"}},
	{"a,path=s,perm=-1", {"perm=-1"}},
	{"a,path=s,queues=0", {"queues", "1..16"}},
	{"a,path=s,queues=17", {"queues", "1..16"}},
	{"a,path=s,queues=+1", {"queues", "number"}},
	{"a,path=s,queues=1x", {"queues", "1x"}},
	{"a,path=s,queues= 1", {"queues", "number"}},
	{"a,path=s,queues=99999999999999999999", {"queues", "range"}},
	{"a,path=s,mtu=67", {"mtu", "68"}},
	{"a,path=s,mtu=65518", {"mtu", "65517"}},
	{"a,path=s,loopback=1", {"loopback=1", "on, off or mbuf"}},
	{"a,path=s,mode=client,perm=0600", {"perm", "mode=client"}},
	{"a,path=s,mode=client,owner=0", {"owner", "mode=client"}},
	{"a,dev=d,loopback=on", {"loopback", "dev="}},
	{"a,dev=d,mode=server", {"mode", "dev="}},
	{"a,dev=d,coalesce=off", {"coalesce", "dev="}},
	{"a,path=s,coalesce=often", {"coalesce", "often", "adaptive"}},
	{"a,path=s,coalesce=static,frames=8", {"static", "usecs=N"}},
	{"a,path=s,coalesce=static,frames=32769,usecs=1", {"frames", "32768"}},
	{"a,path=s,coalesce=adaptive,usecs=8", {"adaptive", "usecs"}},
	{"a,path=s,frames=8,usecs=8", {"frames", "coalesce=static"}},
};

static void
bad_ones(void **state)
{
	size_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(bad); i++) {
		struct port_config p;
		struct problem problem = {{0}};

		if (port_config_parse(&p, bad[i].text, &problem) != -EINVAL)
			fail_msg("\"%s\" was taken", bad[i].text);
		assert_words(problem.text, bad[i].words);
		assert_null(strchr(problem.text, '\n'));
	}
}

static void
a_long_value_stays_one_line(void **state)
{
	struct port_config p;
	struct problem problem;
	char text[4096] = "a,path=";

	(void)state;
	memset(text + 7, 'x', sizeof(text) - 8);
	assert_int_equal(port_config_parse(&p, text, &problem), -EINVAL);
	assert_true(strlen(problem.text) < sizeof(problem.text));
	assert_int_equal(problem_at(&problem, text), -EINVAL);
	assert_true(strlen(problem.text) < sizeof(problem.text));
}

static void
features_follow_the_keys(void **state)
{
	const uint64_t chosen = VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(IN_ORDER) |
				VQ_FEATURE(INDIRECT_DESC) | VQ_FEATURE(EVENT_IDX);
	/* Nothing that the data path would have to do and does not. */
	const uint64_t never = VQ_FEATURE(CSUM) | VQ_FEATURE(GUEST_CSUM) | VQ_FEATURE(HOST_TSO4) |
			       VQ_FEATURE(HOST_TSO6) | VQ_FEATURE(GUEST_TSO4) |
			       VQ_FEATURE(GUEST_TSO6) | VQ_FEATURE(RING_PACKED) |
			       VQ_FEATURE(ACCESS_PLATFORM) | VQ_FEATURE(HASH_REPORT);
	struct port_config p;
	struct problem problem;

	(void)state;
	assert_int_equal(port_config_init(&p, "a", &problem), 0);
	assert_true((offered_features(&p) & chosen) == chosen);
	assert_true((offered_features(&p) & never) == 0);
	assert_true(offered_features(&p) & VQ_FEATURE(VERSION_1));
	p.mrg_rxbuf = p.in_order = p.indirect = p.event_idx = false;
	assert_true((offered_features(&p) & (chosen | never)) == 0);
}

static void
names_of_features(void **state)
{
	char text[64];

	(void)state;
	feature_names(0, text, sizeof(text));
	assert_string_equal(text, "");
	feature_names(VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF) | UINT64_C(1) << 63, text,
		sizeof(text));
	assert_string_equal(text, "MRG_RXBUF VERSION_1 BIT_63");
	feature_names(UINT64_MAX, text, sizeof(text));
	assert_true(strlen(text) < sizeof(text));
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(defaults),
		cmocka_unit_test(every_key),
		cmocka_unit_test(the_longest_path),
		cmocka_unit_test(bad_ones),
		cmocka_unit_test(a_long_value_stays_one_line),
		cmocka_unit_test(features_follow_the_keys),
		cmocka_unit_test(names_of_features),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
