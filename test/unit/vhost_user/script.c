/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <sys/socket.h>
#include <unistd.h>

#include "script.h"

struct peer script;
struct vu_frontend *f;
static uint32_t fds_before;

int
script_setup(void **state)
{
	int s[2];

	(void)state;
	fds_before = count_fds();
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s), 0);
	script = (struct peer){.fd = s[1]};
	assert_int_equal(vu_frontend_open(s[0], SCRIPT_TIMEOUT_MS, &f), 0);
	return 0;
}

int
script_teardown(void **state)
{
	(void)state;
	vu_frontend_close(f);
	if (script.fd >= 0)
		close(script.fd);
	assert_int_equal(count_fds(), fds_before);
	return 0;
}

void
say(uint32_t request, uint64_t value)
{
	union vu_payload u = {.u64 = value};

	assert_true(peer_send(&script, request, REPLY, &u, sizeof(u.u64), NULL, 0));
}

struct vu_msg
hear(uint32_t request)
{
	struct vu_rx rx = {0};
	struct vu_msg m;

	assert_int_equal(vu_rx_poll(&rx, script.fd), 1);
	assert_int_equal(rx.msg.hdr.request, request);
	m = rx.msg;
	vu_rx_next(&rx);
	return m;
}

void
hear_nothing(void)
{
	struct vu_rx rx = {0};

	assert_int_equal(vu_rx_poll(&rx, script.fd), 0);
}

int
negotiate(uint64_t *features, uint32_t *have)
{
	return vu_frontend_negotiate(f, VQ_FEATURE(VERSION_1), 1, features, have);
}

void
agree(uint64_t protocol)
{
	uint64_t features;
	uint32_t have;

	say(VU_GET_FEATURES, VQ_FEATURE(VERSION_1) | BIT30);
	say(VU_GET_PROTOCOL_FEATURES, protocol);
	if (protocol & VU_PROTOCOL(REPLY_ACK))
		say(VU_SET_OWNER, 0);
	assert_int_equal(negotiate(&features, &have), 0);
	hear(VU_GET_FEATURES);
	hear(VU_GET_PROTOCOL_FEATURES);
	assert_int_equal(hear(VU_SET_PROTOCOL_FEATURES).payload.u64, protocol);
	hear(VU_SET_OWNER);
}
