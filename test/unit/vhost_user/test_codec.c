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

struct wire {
	int in, out; /* what goes into `in` comes out of `out` */
	struct peer peer;
};

static void
wire_init(struct wire *w)
{
	int s[2];

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, s), 0);
	w->in = s[0];
	w->out = s[1];
	w->peer = (struct peer){.fd = s[0]};
}

static void
wire_free(struct wire *w)
{
	close(w->in);
	close(w->out);
}

/* A memory table with recognisable content, flat as on the wire. */
static uint32_t
make_message(uint8_t *flat)
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
	return sizeof(hdr) + hdr.size;
}

static void
expect_message(const struct vu_rx *rx, const uint8_t *flat)
{
	assert_memory_equal(&rx->msg.hdr, flat, sizeof(rx->msg.hdr));
	assert_memory_equal(rx->msg.payload.bytes, flat + sizeof(rx->msg.hdr), rx->msg.hdr.size);
}

static void
every_split_gives_the_same_message(void **state)
{
	uint8_t flat[sizeof(struct vu_header) + VU_PAYLOAD_MAX];
	uint32_t len = make_message(flat);
	struct vu_rx rx = {0};
	struct wire w;
	uint32_t cut;

	(void)state;
	wire_init(&w);
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
		expect_message(&rx, flat);
		assert_int_equal(rx.msg.nfds, 0);
		vu_rx_next(&rx);
		assert_int_equal(vu_rx_poll(&rx, w.out), 0);
		assert_int_equal(write(w.in, flat + 1, len - 1), len - 1);
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		expect_message(&rx, flat);
		vu_rx_next(&rx);
	}
	wire_free(&w);
}

static void
messages_without_payload(void **state)
{
	struct vu_header hdr[3] = {
		{VU_GET_FEATURES, VU_FLAG_VERSION, 0},
		{VU_SET_OWNER, VU_FLAG_VERSION, 0},
		{VU_GET_QUEUE_NUM, VU_FLAG_VERSION, 0},
	};
	struct vu_rx rx = {0};
	struct wire w;
	uint32_t i;

	(void)state;
	wire_init(&w);
	assert_int_equal(write(w.in, hdr, sizeof(hdr)), sizeof(hdr));
	for (i = 0; i < COUNT_OF(hdr); i++) {
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		assert_int_equal(rx.msg.hdr.request, hdr[i].request);
		vu_rx_next(&rx);
	}
	assert_int_equal(vu_rx_poll(&rx, w.out), 0);
	wire_free(&w);
}

static void
a_short_payload_is_not_completed_from_the_one_before(void **state)
{
	uint8_t flat[sizeof(struct vu_header) + VU_PAYLOAD_MAX];
	uint32_t len = make_message(flat);
	struct vu_header hdr = {VU_SET_OWNER, VU_FLAG_VERSION, 0};
	struct vu_rx rx = {0};
	struct wire w;

	(void)state;
	wire_init(&w);
	assert_int_equal(write(w.in, flat, len), len);
	assert_int_equal(vu_rx_poll(&rx, w.out), 1);
	vu_rx_next(&rx);
	assert_int_equal(write(w.in, &hdr, sizeof(hdr)), sizeof(hdr));
	assert_int_equal(vu_rx_poll(&rx, w.out), 1);
	assert_int_equal(rx.msg.payload.u64, 0);
	wire_free(&w);
}

static void
descriptors_come_with_their_message(void **state)
{
	uint8_t flat[sizeof(struct vu_header) + VU_PAYLOAD_MAX];
	uint32_t len = make_message(flat);
	struct vu_rx rx = {0};
	int fds[VU_FDS_MAX];
	struct wire w;
	uint32_t n, i, before;
	int kept;

	(void)state;
	wire_init(&w);
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
	wire_free(&w);
}

static void
too_many_descriptors_are_all_closed(void **state)
{
	static const uint32_t counts[] = {VU_FDS_MAX + 1, VU_FDS_MAX + 2, 64, 253};
	uint8_t flat[sizeof(struct vu_header) + VU_PAYLOAD_MAX];
	uint32_t len = make_message(flat);
	int fds[253];
	uint32_t i, before;

	(void)state;
	for (i = 0; i < COUNT_OF(fds); i++)
		fds[i] = i == 0 ? eventfd(0, EFD_CLOEXEC) : fds[0];
	before = count_fds();
	for (i = 0; i < COUNT_OF(counts); i++) {
		struct vu_rx rx = {0};
		struct wire w;

		wire_init(&w);
		assert_true(peer_raw(&w.peer, flat, len, fds, counts[i]));
		assert_int_equal(vu_rx_poll(&rx, w.out), -EPROTO);
		vu_rx_reset(&rx);
		wire_free(&w);
		assert_int_equal(count_fds(), before);
	}
	close(fds[0]);
}

static void
descriptors_in_pieces_count_together(void **state)
{
	uint8_t flat[sizeof(struct vu_header) + VU_PAYLOAD_MAX];
	uint32_t len = make_message(flat);
	struct vu_rx rx = {0};
	int fds[VU_FDS_MAX];
	uint32_t i, before;
	struct wire w;

	(void)state;
	for (i = 0; i < VU_FDS_MAX; i++)
		fds[i] = i == 0 ? eventfd(0, EFD_CLOEXEC) : fds[0];
	before = count_fds();
	wire_init(&w);
	assert_true(peer_raw(&w.peer, flat, 5, fds, 4));
	assert_int_equal(vu_rx_poll(&rx, w.out), 0);
	assert_true(peer_raw(&w.peer, flat + 5, 20, fds, 4));
	assert_int_equal(vu_rx_poll(&rx, w.out), 0);
	assert_int_equal(rx.msg.nfds, 8);
	assert_true(peer_raw(&w.peer, flat + 25, len - 25, fds, 1));
	assert_int_equal(vu_rx_poll(&rx, w.out), -EPROTO);
	vu_rx_reset(&rx);
	wire_free(&w);
	assert_int_equal(count_fds(), before);
	close(fds[0]);
}

static void
a_cut_message_is_a_lost_connection(void **state)
{
	uint8_t flat[sizeof(struct vu_header) + VU_PAYLOAD_MAX];
	uint32_t len = make_message(flat);
	int fd = eventfd(0, EFD_CLOEXEC);
	uint32_t before = count_fds();
	uint32_t cut;

	(void)state;
	for (cut = 0; cut < len; cut += 3) {
		struct vu_rx rx = {0};
		struct wire w;

		wire_init(&w);
		if (cut != 0)
			assert_true(peer_raw(&w.peer, flat, cut, &fd, 1));
		close(w.in);
		assert_int_equal(vu_rx_poll(&rx, w.out), -ECONNRESET);
		vu_rx_reset(&rx);
		close(w.out);
		assert_int_equal(count_fds(), before);
	}
	close(fd);
}

static void
expect_header(uint32_t request, uint32_t flags, uint32_t size, int result)
{
	struct vu_header hdr = {request, flags, size};
	struct vu_rx rx = {0};
	struct wire w;

	wire_init(&w);
	assert_int_equal(write(w.in, &hdr, sizeof(hdr)), sizeof(hdr));
	assert_int_equal(vu_rx_poll(&rx, w.out), result);
	wire_free(&w);
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
	struct vu_rx rx = {0};
	struct vu_tx tx = {0};
	int fd = eventfd(0, EFD_CLOEXEC);
	uint32_t sent = 0, got = 0;
	uint32_t before;
	struct wire w;
	int small = 4096;
	int r;

	(void)state;
	wire_init(&w);
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
	wire_free(&w);
	close(fd);
}

/* Whatever part of a message has gone already, with its descriptors: the rest follows. */
static void
a_partial_write_sends_descriptors_once(void **state)
{
	struct vu_msg m = {.hdr = {VU_SET_MEM_TABLE, VU_FLAG_VERSION, 200}, .nfds = 1};
	struct vu_rx rx = {0};
	struct vu_tx tx = {0};
	int fd = eventfd(0, EFD_CLOEXEC);
	struct wire w;
	uint32_t already;

	(void)state;
	m.fds[0] = fd;
	memset(m.payload.bytes, 0x5a, sizeof(m.payload.bytes));
	for (already = 1; already < sizeof(m.hdr) + 200; already++) {
		uint8_t flat[sizeof(m.hdr) + 200];

		wire_init(&w);
		memcpy(flat, &m.hdr, sizeof(m.hdr));
		memcpy(flat + sizeof(m.hdr), m.payload.bytes, 200);
		assert_true(peer_raw(&w.peer, flat, already, &fd, 1));
		assert_int_equal(vu_tx_push(&tx, &m), 0);
		tx.sent = already;
		assert_int_equal(vu_tx_flush(&tx, w.in), 0);
		assert_int_equal(vu_rx_poll(&rx, w.out), 1);
		assert_int_equal(rx.msg.nfds, 1);
		expect_message(&rx, flat);
		vu_rx_next(&rx);
		wire_free(&w);
	}
	close(fd);
}

static void
sending_to_a_peer_that_left_is_an_error_not_a_signal(void **state)
{
	struct vu_msg m = {.hdr = {VU_SET_OWNER, VU_FLAG_VERSION, 0}};
	struct vu_tx tx = {0};
	struct wire w;

	(void)state;
	wire_init(&w);
	close(w.out);
	assert_int_equal(vu_tx_push(&tx, &m), 0);
	assert_int_equal(vu_tx_flush(&tx, w.in), -ECONNRESET);
	vu_tx_reset(&tx);
	assert_int_equal(vu_tx_flush(&tx, w.in), 0);
	close(w.in);
}

static void
what_cannot_be_sent_is_refused(void **state)
{
	struct vu_msg m = {.hdr = {VU_SET_OWNER, VU_FLAG_VERSION, VU_PAYLOAD_MAX + 1}};
	struct vu_tx tx = {0};

	(void)state;
	assert_int_equal(vu_tx_push(&tx, &m), -EMSGSIZE);
	m.hdr.size = 0;
	m.nfds = VU_FDS_MAX + 1;
	assert_int_equal(vu_tx_push(&tx, &m), -EINVAL);
	assert_int_equal(tx.count, 0);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_split_gives_the_same_message),
		cmocka_unit_test(messages_without_payload),
		cmocka_unit_test(a_short_payload_is_not_completed_from_the_one_before),
		cmocka_unit_test(descriptors_come_with_their_message),
		cmocka_unit_test(too_many_descriptors_are_all_closed),
		cmocka_unit_test(descriptors_in_pieces_count_together),
		cmocka_unit_test(a_cut_message_is_a_lost_connection),
		cmocka_unit_test(bad_headers),
		cmocka_unit_test(sending_waits_for_room_and_goes_on),
		cmocka_unit_test(a_partial_write_sends_descriptors_once),
		cmocka_unit_test(sending_to_a_peer_that_left_is_an_error_not_a_signal),
		cmocka_unit_test(what_cannot_be_sent_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
