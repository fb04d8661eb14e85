/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "host.h"

static struct {
	int in, out; /* what goes into `in` comes out of `out` */
	struct peer peer;
} w;
static struct vu_rx rx; /* at `out` */
static struct vu_tx tx; /* at `in` */
static uint8_t flat[sizeof(struct vu_header) + VU_PAYLOAD_MAX];
static uint32_t len; /* of the message in `flat` */
static uint32_t fds_before;

static void
wire_open(void)
{
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s), 0);
	w.in = s[0];
	w.out = s[1];
	w.peer = (struct peer){.fd = s[0]};
}

/* What came in half is forgotten, with its descriptors. */
static void
wire_close(void)
{
	vu_rx_reset(&rx);
	vu_tx_reset(&tx);
	/* An end that left is closed already. */
	if (w.in >= 0)
		close(w.in);
	if (w.out >= 0)
		close(w.out);
}

/* A new connection, for what ended the old one. */
static void
wire_again(void)
{
	wire_close();
	wire_open();
}

/* A memory table with recognisable content, flat as on the wire. */
static void
make_message(void)
{
	struct vu_header hdr = {
		.request = VU_SET_MEM_TABLE,
		.flags = VU_FLAG_VERSION | VU_FLAG_NEED_REPLY,
		.size = sizeof(struct vu_wire_table),
	};
	uint32_t i;

	memcpy(flat, &hdr, sizeof(hdr));
	for (i = 0; i < hdr.size; i++)
		flat[sizeof(hdr) + i] = (uint8_t)(i * 7 + 1);
	len = sizeof(hdr) + hdr.size;
}

static int
setup(void **state)
{
	(void)state;
	fds_before = count_fds();
	make_message();
	wire_open();
	return 0;
}

static int
teardown(void **state)
{
	(void)state;
	wire_close();
	assert_int_equal(count_fds(), fds_before);
	return 0;
}

static void
expect_message(void)
{
	assert_memory_equal(&rx.msg.hdr, flat, sizeof(rx.msg.hdr));
	assert_memory_equal(rx.msg.payload.bytes, flat + sizeof(rx.msg.hdr), rx.msg.hdr.size);
}

static void
every_split_gives_the_same_message(void **state)
{
	uint32_t cut;

	(void)state;
	for (cut = 0; cut <= len; cut++) {
		assert_int_equal(vu_rx_poll(&rx, w.out), 0);
		if (cut != 0)
			assert_int_equal(write(w.in, flat, cut), cut);
		assert_int_equal(vu_rx_poll(&rx, w.out), cut == len);
		if (cut != len) {
			assert_int_equal(write(w.in, flat + cut, len - cut), len - cut);
			assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		}
		/* Whole stays whole, and takes nothing of the next one. */
		assert_int_equal(write(w.in, flat, 1), 1);
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		expect_message();
		assert_int_equal(rx.msg.nfds, 0);
		vu_rx_next(&rx);
		assert_int_equal(vu_rx_poll(&rx, w.out), 0);
		assert_int_equal(write(w.in, flat + 1, len - 1), len - 1);
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		expect_message();
		vu_rx_next(&rx);
	}
}

static void
messages_without_payload(void **state)
{
	struct vu_header hdr[3] = {
		{VU_GET_FEATURES, VU_FLAG_VERSION, 0},
		{VU_SET_OWNER, VU_FLAG_VERSION, 0},
		{VU_GET_QUEUE_NUM, VU_FLAG_VERSION, 0},
	};
	uint32_t i;

	(void)state;
	assert_int_equal(write(w.in, hdr, sizeof(hdr)), sizeof(hdr));
	for (i = 0; i < COUNT_OF(hdr); i++) {
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		assert_int_equal(rx.msg.hdr.request, hdr[i].request);
		vu_rx_next(&rx);
	}
	assert_int_equal(vu_rx_poll(&rx, w.out), 0);
}

static void
a_short_payload_is_not_completed_from_the_one_before(void **state)
{
	struct vu_header hdr = {VU_SET_OWNER, VU_FLAG_VERSION, 0};

	(void)state;
	assert_int_equal(write(w.in, flat, len), len);
	assert_int_equal(vu_rx_poll(&rx, w.out), 1);
	vu_rx_next(&rx);
	assert_int_equal(write(w.in, &hdr, sizeof(hdr)), sizeof(hdr));
	assert_int_equal(vu_rx_poll(&rx, w.out), 1);
	assert_int_equal(rx.msg.payload.u64, 0);
}

static void
descriptors_come_with_their_message(void **state)
{
	int fds[VU_FDS_MAX];
	uint32_t n, i, before;
	int kept;

	(void)state;
	for (i = 0; i < VU_FDS_MAX; i++)
		fds[i] = eventfd(i, EFD_CLOEXEC);
	before = count_fds();
	for (n = 0; n <= VU_FDS_MAX; n++) {
		/* Two messages at once: the second one's descriptors must not leak into the first.
		 */
		assert_true(peer_raw(&w.peer, flat, len, fds, n));
		assert_true(peer_raw(&w.peer, flat, len, fds, VU_FDS_MAX - n));
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		assert_int_equal(rx.msg.nfds, n);
		for (i = 0; i < n; i++)
			assert_true(fcntl(rx.msg.fds[i], F_GETFD) & FD_CLOEXEC);
		vu_rx_next(&rx);
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		assert_int_equal(rx.msg.nfds, VU_FDS_MAX - n);
		vu_rx_next(&rx);
		assert_int_equal(count_fds(), before);
	}
	/* One that is taken stays open. */
	assert_true(peer_raw(&w.peer, flat, len, fds, 2));
	assert_int_equal(vu_rx_poll(&rx, w.out), 1);
	kept = vu_msg_take_fd(&rx.msg, 1);
	vu_rx_next(&rx);
	assert_int_equal(count_fds(), before + 1);
	assert_true(fcntl(kept, F_GETFD) >= 0);
	close(kept);
	for (i = 0; i < VU_FDS_MAX; i++)
		close(fds[i]);
}

/* What else the kernel attaches, if it is asked to. */
static void
credentials_are_no_descriptors(void **state)
{
	int on = 1;

	(void)state;
	assert_int_equal(setsockopt(w.out, SOL_SOCKET, SO_PASSCRED, &on, sizeof(on)), 0);
	assert_true(peer_raw(&w.peer, flat, len, NULL, 0));
	assert_int_equal(vu_rx_poll(&rx, w.out), 1);
	assert_int_equal(rx.msg.nfds, 0);
	expect_message();
}

static void
too_many_descriptors_are_all_closed(void **state)
{
	static const uint32_t counts[] = {VU_FDS_MAX + 1, VU_FDS_MAX + 2, 64, 253};
	int fds[253];
	uint32_t i, before;

	(void)state;
	for (i = 0; i < COUNT_OF(fds); i++)
		fds[i] = i == 0 ? eventfd(0, EFD_CLOEXEC) : fds[0];
	before = count_fds();
	for (i = 0; i < COUNT_OF(counts); i++) {
		assert_true(peer_raw(&w.peer, flat, len, fds, counts[i]));
		assert_int_equal(vu_rx_poll(&rx, w.out), -EPROTO);
		wire_again();
		assert_int_equal(count_fds(), before);
	}
	close(fds[0]);
}

static void
descriptors_in_pieces_count_together(void **state)
{
	int fds[VU_FDS_MAX];
	uint32_t i;

	(void)state;
	for (i = 0; i < VU_FDS_MAX; i++)
		fds[i] = i == 0 ? eventfd(0, EFD_CLOEXEC) : fds[0];
	assert_true(peer_raw(&w.peer, flat, 5, fds, 4));
	assert_int_equal(vu_rx_poll(&rx, w.out), 0);
	assert_true(peer_raw(&w.peer, flat + 5, 20, fds, 4));
	assert_int_equal(vu_rx_poll(&rx, w.out), 0);
	assert_int_equal(rx.msg.nfds, 8);
	assert_true(peer_raw(&w.peer, flat + 25, len - 25, fds, 1));
	assert_int_equal(vu_rx_poll(&rx, w.out), -EPROTO);
	close(fds[0]);
}

static void
a_cut_message_is_a_lost_connection(void **state)
{
	int fd = eventfd(0, EFD_CLOEXEC);
	uint32_t before = count_fds();
	uint32_t cut;

	(void)state;
	for (cut = 0; cut < len; cut += 3) {
		if (cut != 0)
			assert_true(peer_raw(&w.peer, flat, cut, &fd, 1));
		close(w.in);
		w.in = -1;
		assert_int_equal(vu_rx_poll(&rx, w.out), -ECONNRESET);
		wire_again();
		assert_int_equal(count_fds(), before);
	}
	close(fd);
}

static void
expect_header(uint32_t request, uint32_t flags, uint32_t size, int result)
{
	struct vu_header hdr = {request, flags, size};

	assert_int_equal(write(w.in, &hdr, sizeof(hdr)), sizeof(hdr));
	assert_int_equal(vu_rx_poll(&rx, w.out), result);
	wire_again();
}

static void
bad_headers(void **state)
{
	(void)state;
	expect_header(1, VU_FLAG_VERSION, VU_PAYLOAD_MAX, 0);
	expect_header(1, VU_FLAG_VERSION, VU_PAYLOAD_MAX + 1, -EMSGSIZE);
	expect_header(1, VU_FLAG_VERSION, UINT32_MAX, -EMSGSIZE);
	expect_header(1, VU_FLAG_VERSION, INT32_MAX, -EMSGSIZE);
	expect_header(1, 0, 0, -EPROTO);
	expect_header(1, 2, 0, -EPROTO);
	expect_header(1, 3, 0, -EPROTO);
	expect_header(1, VU_FLAG_REPLY, 0, -EPROTO);
	/* Bits that we do not know are none of the codec's business, nor are requests. */
	expect_header(1, VU_FLAG_VERSION | 0xfff0, 0, 1);
	expect_header(UINT32_MAX, VU_FLAG_VERSION, 0, 1);
}

static void
sending_waits_for_room_and_goes_on(void **state)
{
	struct vu_msg m = {.hdr = {VU_SET_MEM_TABLE, VU_FLAG_VERSION, VU_PAYLOAD_MAX}};
	int fd = eventfd(0, EFD_CLOEXEC);
	uint32_t sent = 0, got = 0;
	uint32_t before;
	int small = 4096;
	int r;

	(void)state;
	setsockopt(w.in, SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
	before = count_fds();
	m.nfds = 1;
	m.fds[0] = fd;
	/* Until the socket takes no more, and then until the queue does not. */
	do {
		memset(m.payload.bytes, (int)(sent & 0xff), VU_PAYLOAD_MAX);
		assert_int_equal(vu_tx_push(&tx, &m), 0);
		sent++;
		r = vu_tx_flush(&tx, w.in);
	} while (r == 0);
	assert_int_equal(r, 1);
	while (!vu_tx_full(&tx)) {
		memset(m.payload.bytes, (int)(sent & 0xff), VU_PAYLOAD_MAX);
		assert_int_equal(vu_tx_push(&tx, &m), 0);
		sent++;
	}
	assert_int_equal(vu_tx_push(&tx, &m), -ENOBUFS);
	/* All of it arrives, in order, each with its descriptor. */
	while (got < sent) {
		uint32_t i;

		assert_in_range(vu_tx_flush(&tx, w.in), 0, 1);
		if (vu_rx_poll(&rx, w.out) != 1)
			continue;
		assert_int_equal(rx.msg.nfds, 1);
		for (i = 0; i < VU_PAYLOAD_MAX; i++)
			assert_int_equal(rx.msg.payload.bytes[i], got & 0xff);
		vu_rx_next(&rx);
		got++;
	}
	assert_int_equal(vu_tx_flush(&tx, w.in), 0);
	assert_int_equal(vu_rx_poll(&rx, w.out), 0);
	assert_int_equal(count_fds(), before);
	close(fd);
}

/* Whatever part of a message has gone already, with its descriptors: the rest follows. */
static void
a_partial_write_sends_descriptors_once(void **state)
{
	struct vu_msg m = {.nfds = 1};
	int fd = eventfd(0, EFD_CLOEXEC);
	uint32_t already;

	(void)state;
	m.fds[0] = fd;
	memcpy(&m.hdr, flat, sizeof(m.hdr));
	memcpy(m.payload.bytes, flat + sizeof(m.hdr), m.hdr.size);
	for (already = 1; already < len; already++) {
		assert_true(peer_raw(&w.peer, flat, already, &fd, 1));
		assert_int_equal(vu_tx_push(&tx, &m), 0);
		tx.sent = already;
		assert_int_equal(vu_tx_flush(&tx, w.in), 0);
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		assert_int_equal(rx.msg.nfds, 1);
		expect_message();
		wire_again();
	}
	close(fd);
}

static void
sending_to_a_peer_that_left_is_an_error_not_a_signal(void **state)
{
	struct vu_msg m = {.hdr = {VU_SET_OWNER, VU_FLAG_VERSION, 0}};

	(void)state;
	close(w.out);
	w.out = -1;
	assert_int_equal(vu_tx_push(&tx, &m), 0);
	assert_int_equal(vu_tx_flush(&tx, w.in), -ECONNRESET);
	vu_tx_reset(&tx);
	assert_int_equal(vu_tx_flush(&tx, w.in), 0);
}

static void
what_cannot_be_sent_is_refused(void **state)
{
	struct vu_msg m = {.hdr = {VU_SET_OWNER, VU_FLAG_VERSION, VU_PAYLOAD_MAX + 1}};

	(void)state;
	assert_int_equal(vu_tx_push(&tx, &m), -EMSGSIZE);
	m.hdr.size = 0;
	m.nfds = VU_FDS_MAX + 1;
	assert_int_equal(vu_tx_push(&tx, &m), -EINVAL);
	assert_int_equal(tx.count, 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_split_gives_the_same_message),
		TEST(messages_without_payload),
		TEST(a_short_payload_is_not_completed_from_the_one_before),
		TEST(descriptors_come_with_their_message),
		TEST(credentials_are_no_descriptors),
		TEST(too_many_descriptors_are_all_closed),
		TEST(descriptors_in_pieces_count_together),
		TEST(a_cut_message_is_a_lost_connection),
		TEST(bad_headers),
		TEST(sending_waits_for_room_and_goes_on),
		TEST(a_partial_write_sends_descriptors_once),
		TEST(sending_to_a_peer_that_left_is_an_error_not_a_signal),
		TEST(what_cannot_be_sent_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
