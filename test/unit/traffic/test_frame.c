/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "unit.h"

#include <rte_mbuf.h>

#include "frame.h"

static const uint8_t src[6] = {0x02, 0x51, 0, 0, 0, 1}, dst[6] = {0x02, 0x51, 0, 0, 0, 2};
static struct options o;
static struct frame_maker maker;
static uint8_t bytes[SIZE_MOST];

static void
make_maker(bool verify)
{
	options_init(&o);
	o.verify = verify;
	o.stream = 77;
	frame_maker_init(&maker, &o, src, dst, false);
}

static void
write_frame(const struct frame_maker *m, uint8_t *frame, uint32_t flow, uint32_t sequence,
	uint64_t tsc, uint32_t size)
{
	struct rte_mbuf mbuf = {
		.buf_addr = frame, .data_len = (uint16_t)size, .pkt_len = size, .nb_segs = 1};

	frame_write(m, &mbuf, flow, sequence, tsc);
}

/* A frame in one to three buffers, as it may be received. */
static enum frame_kind
read_split(const struct frame_maker *m, uint8_t *frame, uint32_t size, uint32_t a, uint32_t b,
	uint32_t flows, struct frame_info *info)
{
	const uint32_t at[] = {0, a, b, size};
	struct rte_mbuf parts[3];
	uint32_t i;

	memset(parts, 0, sizeof(parts));
	for (i = 0; i < 3; i++) {
		parts[i].buf_addr = frame + at[i];
		parts[i].data_len = (uint16_t)(at[i + 1] - at[i]);
		parts[i].next = i < 2 ? &parts[i + 1] : NULL;
	}
	parts[0].pkt_len = size;
	parts[0].nb_segs = 3;
	return frame_read(m, parts, flows, info);
}

static enum frame_kind
read_whole(uint8_t *frame, uint32_t size, struct frame_info *info)
{
	return read_split(&maker, frame, size, size, size, o.flows, info);
}

static uint32_t
word(const uint8_t *at)
{
	return (uint32_t)at[0] << 8 | at[1];
}

/* RFC 1071, a byte pair at a time. */
static uint32_t
sum_of(const uint8_t *at, uint32_t len, uint32_t sum)
{
	for (; len > 1; len -= 2, at += 2)
		sum += word(at);
	if (len == 1)
		sum += (uint32_t)at[0] << 8;
	while (sum > 0xffff)
		sum = (sum & 0xffff) + (sum >> 16);
	return sum;
}

static void
assert_checksums(const uint8_t *frame, uint32_t size)
{
	uint32_t pseudo = 17 + (size - 34);

	assert_int_equal(sum_of(frame + 14, 20, 0), 0xffff);
	assert_int_equal(word(frame + 16), size - 14);
	assert_int_equal(word(frame + 38), size - 34);
	assert_int_not_equal(word(frame + 40), 0);
	assert_int_equal(sum_of(frame + 34, size - 34, sum_of(frame + 26, 8, pseudo)), 0xffff);
}

/* Each of the usual ones, some of the others. */
static uint32_t
next_size(uint32_t size)
{
	return size < 9600 || size == SIZE_MOST ? size + 1 : RTE_MIN(size + 1009, SIZE_MOST);
}

static void
every_size(bool verify)
{
	const uint32_t least = verify ? SIZE_VERIFY : SIZE_LEAST;
	struct frame_info info;
	uint32_t size, i;

	make_maker(verify);
	o.flows = FLOWS_MAX;
	frame_prepare(bytes, sizeof(bytes));
	for (size = least, i = 0; size <= SIZE_MOST; size = next_size(size), i++) {
		uint32_t flow = i * 7919 % FLOWS_MAX, number = i * 0x9e3779b9;
		uint64_t tsc = i * UINT64_C(0x9e3779b97f4a7c15);

		/* The same bytes over and over, as an mbuf is used. */
		write_frame(&maker, bytes, flow, number, tsc, size);
		assert_checksums(bytes, size);
		assert_memory_equal(bytes, dst, 6);
		assert_memory_equal(bytes + 6, src, 6);
		assert_int_equal(read_whole(bytes, size, &info), FRAME_GOOD);
		assert_int_equal(info.flow, flow);
		assert_int_equal(info.sequence, number);
		assert_true(info.sent == tsc);
	}
}

static void
frames_have_right_checksums(void **state)
{
	(void)state;
	every_size(false);
	every_size(true);
}

/* The sum of which no more than one in 65,536 is 0, found by trying. */
static void
a_checksum_of_zero_is_sent_as_ones(void **state)
{
	uint32_t number;

	(void)state;
	make_maker(false);
	frame_prepare(bytes, 60);
	for (number = 0; number < 200000; number++) {
		write_frame(&maker, bytes, 0, number, 0, 60);
		assert_int_not_equal(word(bytes + 40), 0);
		if (word(bytes + 40) == 0xffff)
			break;
	}
	assert_true(number < 200000);
	assert_checksums(bytes, 60);
}

static void
tuples_are_different(void **state)
{
	static uint8_t seen[FLOWS_MAX * 4 / 8];
	uint32_t flow;

	(void)state;
	make_maker(false);
	memset(seen, 0, sizeof(seen));
	for (flow = 0; flow < FLOWS_MAX; flow++) {
		uint32_t at;

		write_frame(&maker, bytes, flow, 0, 0, 60);
		assert_true(bytes[26] == 198 && bytes[27] == 18);
		assert_true(bytes[30] == 198 && bytes[31] == 19);
		assert_true(word(bytes + 34) >= 32768);
		at = ((uint32_t)bytes[29] - 1) << 16 | word(bytes + 34);
		assert_true(at < sizeof(seen) * 8);
		assert_int_equal(seen[at / 8] >> (at % 8) & 1, 0);
		seen[at / 8] |= (uint8_t)(1 << (at % 8));
	}
}

/* Received in pieces, cut anywhere. */
static void
split_anywhere(void **state)
{
	struct frame_info info;
	uint32_t size, a, b;

	(void)state;
	make_maker(true);
	for (size = 64; size <= 201; size += 137) {
		frame_prepare(bytes, size);
		write_frame(&maker, bytes, 0, 123, 456, size);
		for (a = 0; a <= size; a++)
			for (b = a; b <= size; b++) {
				memset(&info, 0, sizeof(info));
				assert_int_equal(read_split(&maker, bytes, size, a, b, 1, &info),
					FRAME_GOOD);
				assert_int_equal(info.sequence, 123);
			}
	}
}

/* Of mbufs that have been other parts of other frames: the same bytes as in one piece. */
static void
cut_at_a_period(bool verify, uint32_t size)
{
	enum { SEGMENTS = SIZE_MOST / FRAME_PERIOD + 1 };
	static uint8_t parts[SEGMENTS][FRAME_PERIOD];
	static struct frame_maker used;
	struct rte_mbuf mbufs[SEGMENTS];
	uint32_t n = (size + FRAME_PERIOD - 1) / FRAME_PERIOD, left = size, i;
	struct frame_info info;

	make_maker(false);
	used = maker;
	make_maker(verify);
	memset(mbufs, 0, sizeof(mbufs));
	for (i = 0; i < n; i++) {
		frame_prepare(parts[i], FRAME_PERIOD);
		write_frame(&used, parts[i], 0, 77, 88, FRAME_PERIOD);
		mbufs[i].buf_addr = parts[i];
		mbufs[i].data_len = (uint16_t)RTE_MIN(left, (uint32_t)FRAME_PERIOD);
		mbufs[i].next = i + 1 < n ? &mbufs[i + 1] : NULL;
		left -= mbufs[i].data_len;
		if (i > 0)
			frame_prepare_segment(parts[i]);
	}
	mbufs[0].pkt_len = size;
	mbufs[0].nb_segs = (uint16_t)n;
	frame_prepare(bytes, size);
	write_frame(&maker, bytes, 0, 5, 6, size);
	frame_write(&maker, mbufs, 0, 5, 6);
	for (i = 0; i < n; i++)
		assert_memory_equal(parts[i], bytes + i * FRAME_PERIOD, mbufs[i].data_len);
	assert_int_equal(frame_read(&maker, mbufs, 1, &info), FRAME_GOOD);
	/* A part that is missing shows, and so do two that changed places. */
	if (verify && n > 2) {
		mbufs[1].buf_addr = parts[2];
		mbufs[2].buf_addr = parts[1];
		if (mbufs[1].data_len == mbufs[2].data_len)
			assert_int_equal(frame_read(&maker, mbufs, 1, &info), FRAME_BAD_CONTENT);
	}
}

static void
frames_of_several_mbufs(void **state)
{
	const uint32_t sizes[] = {60, 64, 8191, 8192, 8193, 8192 + 63, 8192 + 64, 8192 + 65, 16384,
		16385, 16448, 30001, 65472, 65535};
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(sizes); i++) {
		cut_at_a_period(false, sizes[i]);
		if (sizes[i] >= SIZE_VERIFY)
			cut_at_a_period(true, sizes[i]);
	}
}

/* With --verify no byte behind the addresses can change unseen. */
static void
every_byte_counts(void **state)
{
	struct frame_info info;
	uint32_t size = 333, i;

	(void)state;
	make_maker(true);
	frame_prepare(bytes, size);
	write_frame(&maker, bytes, 0, 5, 6, size);
	for (i = 14; i < size; i++) {
		bytes[i] ^= 0x10;
		assert_int_not_equal(read_whole(bytes, size, &info), FRAME_GOOD);
		bytes[i] ^= 0x10;
	}
	assert_int_equal(read_whole(bytes, size, &info), FRAME_GOOD);
}

/* The UDP checksum does not mind the order of words; the CRC does. */
static void
order_counts(void **state)
{
	struct frame_info info;
	uint8_t word[2];

	(void)state;
	make_maker(true);
	frame_prepare(bytes, 200);
	write_frame(&maker, bytes, 0, 5, 6, 200);
	memcpy(word, bytes + 100, 2);
	memcpy(bytes + 100, bytes + 150, 2);
	memcpy(bytes + 150, word, 2);
	assert_checksums(bytes, 200);
	assert_int_equal(read_whole(bytes, 200, &info), FRAME_BAD_CONTENT);
}

/* A line of one frame does not pass for that of another. */
static void
lines_are_not_exchanged(void **state)
{
	static uint8_t other[512];
	struct frame_info info;
	uint32_t at;

	(void)state;
	make_maker(true);
	frame_prepare(bytes, 512);
	frame_prepare(other, 512);
	write_frame(&maker, other, 0, 6, 6, 512);
	for (at = 64; at < 512; at += 64) {
		write_frame(&maker, bytes, 0, 5, 6, 512);
		memcpy(bytes + at, other + at, 64);
		assert_int_equal(read_whole(bytes, 512, &info), FRAME_BAD_CONTENT);
	}
}

static void
what_is_not_ours(void **state)
{
	struct frame_info info;
	struct frame_maker warm;
	uint32_t len;

	(void)state;
	make_maker(false);
	frame_maker_init(&warm, &o, src, dst, true);
	frame_prepare(bytes, 200);
	write_frame(&warm, bytes, 0, 1, 2, 200);
	assert_int_equal(read_whole(bytes, 200, &info), FRAME_WARMUP);
	write_frame(&maker, bytes, 0, 1, 2, 200);
	assert_int_equal(read_split(&warm, bytes, 200, 200, 200, 1, &info), FRAME_FOREIGN);
	for (len = 0; len < 200; len++)
		assert_int_equal(
			read_whole(bytes, len, &info), len < 46 ? FRAME_FOREIGN : FRAME_BAD_LENGTH);
	write_frame(&maker, bytes, 1, 1, 2, 200);
	assert_int_equal(read_whole(bytes, 200, &info), FRAME_BAD_HEADER); /* flow 1 of 1 */
	write_frame(&maker, bytes, 0, 1, 2, 200);
	bytes[35] ^= 1; /* source port */
	assert_int_equal(read_whole(bytes, 200, &info), FRAME_BAD_HEADER);
	write_frame(&maker, bytes, 0, 1, 2, 200);
	bytes[44] ^= 1; /* stream */
	assert_int_equal(read_whole(bytes, 200, &info), FRAME_FOREIGN);
	memset(bytes, 0, 60);
	assert_int_equal(read_whole(bytes, 60, &info), FRAME_FOREIGN);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(frames_have_right_checksums),
		cmocka_unit_test(a_checksum_of_zero_is_sent_as_ones),
		cmocka_unit_test(tuples_are_different),
		cmocka_unit_test(split_anywhere),
		cmocka_unit_test(frames_of_several_mbufs),
		cmocka_unit_test(every_byte_counts),
		cmocka_unit_test(order_counts),
		cmocka_unit_test(lines_are_not_exchanged),
		cmocka_unit_test(what_is_not_ours),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
