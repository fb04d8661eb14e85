/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * A frontend that wants to break us: random bytes, random messages, any number of descriptors.
 * After each blow a worker would use the rings, nothing is left behind, and the neighbour is
 * served.
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "host.h"

#define GUEST UINT64_C(0x100000000)
#define SHMS  3

static struct host h, neighbour;
static struct peer friendly;
static struct shm shm[SHMS];
static int events[2];
static uint32_t fds_before, maps_before;

static int
setup(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < SHMS; i++)
		shm_init(&shm[i], GUEST + i * UINT64_C(65536), 65536);
	events[0] = eventfd(0, EFD_CLOEXEC);
	events[1] = open("/dev/null", O_RDWR | O_CLOEXEC);
	host_start(&neighbour, 1, false);
	peer_connect(&friendly, &neighbour);
	peer_up(&friendly, &shm[0]);
	host_start(&h, 2, false);
	fds_before = count_fds();
	maps_before = count_maps();
	return 0;
}

static int
teardown(void **state)
{
	uint32_t i;

	(void)state;
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
	assert_int_equal(count_fds(), fds_before);
	assert_int_equal(count_maps(), maps_before);
	/* Nobody disturbed the neighbour, who answers still. */
	assert_int_equal(vu_backend_state(neighbour.b), VU_BACKEND_UP);
	assert_int_equal(vu_backend_stats(neighbour.b)->bad_messages, 0);
	assert_int_equal(peer_get_u64(&friendly, VU_GET_QUEUE_NUM), 1);
	host_stop(&h);
	peer_close(&friendly);
	host_stop(&neighbour);
	for (i = 0; i < SHMS; i++)
		shm_free(&shm[i]);
	close(events[0]);
	close(events[1]);
	return 0;
}

/* What a worker does with a ring that it was shown. */
static void
use_rings(void)
{
	struct vq_chain chains[4];
	struct vq_seg segs[16];
	uint32_t i;

	for (i = 0; i < vu_backend_rings(h.b); i++) {
		struct vu_ring *r = vu_backend_ring(h.b, i);
		uint64_t one = 1;
		uint32_t n;

		if (r->ready) {
			n = vq_device_peek(&r->vq, i & 1 ? false : true, chains, 4, segs, 16, 0);
			while (n-- != 0)
				vq_device_rewind(&r->vq, 1);
			vq_device_publish(&r->vq);
		}
		if (r->call >= 0 && write(r->call, &one, sizeof(one)) < 0)
			assert_int_equal(errno, EAGAIN);
	}
}

/* A fresh connection is answered at once, whatever was before it. */
static void
expect_service(void)
{
	struct peer p;

	host_run(&h);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
	assert_int_equal(count_fds(), fds_before);
	assert_int_equal(count_maps(), maps_before);
	peer_connect(&p, &h);
	peer_up(&p, &shm[1]);
	use_rings();
	peer_close(&p);
}

static void
random_bytes(void **state)
{
	uint64_t seed = 1;
	uint32_t round;

	(void)state;
	for (round = 0; round < 300; round++) {
		struct peer p;
		uint32_t i;

		peer_connect(&p, &h);
		for (i = 0; i < 20; i++) {
			uint8_t bytes[600];
			uint32_t len = 1 + rnd_below(&seed, sizeof(bytes));
			uint32_t j;

			for (j = 0; j < len; j++)
				bytes[j] = (uint8_t)rnd(&seed);
			/* Often enough something that begins well. */
			if (len >= 12 && rnd_below(&seed, 2) == 0) {
				struct vu_header hdr = {
					.request = rnd_below(&seed, 45),
					.flags = VU_FLAG_VERSION | (rnd_below(&seed, 2) ? 8 : 0),
					.size = rnd_below(&seed, len),
				};

				memcpy(bytes, &hdr, sizeof(hdr));
			}
			if (!peer_raw(&p, bytes, len, &shm[0].fd, rnd_below(&seed, 2)))
				break;
			host_run(&h);
			use_rings();
		}
		peer_close(&p);
		expect_service();
	}
}

/* Numbers that hurt. */
static uint64_t
evil(uint64_t *seed)
{
	static const uint64_t numbers[] = {0, 1, 2, 3, 4, 7, 8, 15, 16, 255, 256, 257, 0x1ff, 4095,
		4096, 32768, 32769, 65535, 65536, 0x10000 + 1, 0x7fffffff, 0x80000000, 0xffffffff,
		UINT64_C(1) << 32, INT64_MAX, UINT64_C(1) << 63, UINT64_MAX - 4095, UINT64_MAX};
	const struct shm *s = &shm[rnd_below(seed, SHMS)];

	switch (rnd_below(seed, 4)) {
	case 0:
		return numbers[rnd_below(seed, COUNT_OF(numbers))];
	case 1:
		return s->region.user + rnd_below(seed, 20) * UINT64_C(4096) + rnd_below(seed, 3);
	case 2:
		return s->region.guest + rnd_below(seed, 20) * UINT64_C(4096) + rnd_below(seed, 3);
	default:
		return rnd(seed);
	}
}

static struct vu_wire_region
some_region(uint64_t *seed)
{
	struct vu_wire_region r = shm[rnd_below(seed, SHMS)].region;

	switch (rnd_below(seed, 10)) {
	case 0:
		r.guest = evil(seed);
		break;
	case 1:
		r.user = evil(seed);
		break;
	case 2:
		r.size = evil(seed);
		break;
	case 3:
		r.offset = evil(seed);
		break;
	case 4:
		r.size = 4096 * (1 + rnd_below(seed, 16));
		r.offset = 65536 - r.size;
		break;
	default:
		break;
	}
	return r;
}

static bool
send_something(struct peer *p, uint64_t *seed)
{
	uint32_t request = rnd_below(seed, 46);
	const struct shm *s = &shm[rnd_below(seed, SHMS)];
	uint32_t index = rnd_below(seed, 8) != 0 ? rnd_below(seed, 4) : (uint32_t)evil(seed);
	uint32_t size = 8, nfds = 0;
	uint32_t flags = VU_FLAG_VERSION | VU_FLAG_NEED_REPLY;
	union vu_payload u;
	int fds[64];
	uint32_t i;

	memset(&u, 0, sizeof(u));
	for (i = 0; i < COUNT_OF(fds); i++)
		fds[i] = events[rnd_below(seed, 8) == 0];
	u.u64 = evil(seed);
	switch (request) {
	case VU_SET_FEATURES:
		if (rnd_below(seed, 4) != 0)
			u.u64 = HOST_FEATURES & rnd(seed);
		u.u64 |= VQ_FEATURE(PROTOCOL_FEATURES);
		break;
	case VU_SET_PROTOCOL_FEATURES:
		u.u64 = rnd_below(seed, 4) != 0 ? UINT64_C(0x1a019) : evil(seed);
		break;
	case VU_SET_MEM_TABLE:
		u.table.count = 1 + rnd_below(seed, 8);
		nfds = u.table.count;
		for (i = 0; i < 8; i++) {
			u.table.regions[i] = some_region(seed);
			fds[i] = shm[rnd_below(seed, SHMS)].fd;
		}
		size = 8 + u.table.count * 32;
		break;
	case VU_ADD_MEM_REG:
	case VU_REM_MEM_REG:
		u.single.region = some_region(seed);
		fds[0] = shm[rnd_below(seed, SHMS)].fd;
		nfds = 1;
		size = sizeof(u.single);
		break;
	case VU_SET_VRING_NUM:
	case VU_SET_VRING_BASE:
	case VU_SET_VRING_ENABLE:
	case VU_GET_VRING_BASE:
		u.state.index = index;
		u.state.num = rnd_below(seed, 2) ? UINT32_C(1) << rnd_below(seed, 16)
						 : (uint32_t)evil(seed);
		break;
	case VU_SET_VRING_ADDR:
		u.addr = (struct vu_wire_addr){.index = index,
			.desc = ring_desc(s, index % 8),
			.avail = ring_avail(s, index % 8),
			.used = ring_used(s, index % 8)};
		if (rnd_below(seed, 4) == 0)
			u.addr.used = evil(seed);
		size = sizeof(u.addr);
		break;
	case VU_SET_VRING_KICK:
	case VU_SET_VRING_CALL:
	case VU_SET_VRING_ERR:
		nfds = rnd_below(seed, 2);
		u.u64 = index | (nfds == 0 ? VU_VRING_NOFD : 0);
		break;
	case VU_GET_FEATURES:
	case VU_GET_PROTOCOL_FEATURES:
	case VU_GET_QUEUE_NUM:
	case VU_GET_MAX_MEM_SLOTS:
	case VU_GET_STATUS:
	case VU_RESET_OWNER:
	case VU_RESET_DEVICE:
		size = 0;
		break;
	default:
		break;
	}
	/* Now and then the frame of the message is wrong as well. */
	switch (rnd_below(seed, 60)) {
	case 0:
		size = rnd_below(seed, VU_PAYLOAD_MAX + 1);
		break;
	case 1:
		nfds = rnd_below(seed, 9);
		break;
	case 2:
		nfds = rnd_below(seed, COUNT_OF(fds));
		break;
	case 3:
		flags = rnd_below(seed, 16);
		break;
	case 4:
		request = (uint32_t)rnd(seed);
		break;
	default:
		break;
	}
	return peer_send(p, request, flags, &u, size, fds, nfds);
}

static void
random_messages(void **state)
{
	uint64_t seed = 2;
	uint32_t round, ups = 0;

	(void)state;
	for (round = 0; round < 400; round++) {
		struct peer p;
		uint32_t i;

		peer_connect(&p, &h);
		host_run(&h);
		/* One half of them begin like an honest one. */
		if (round & 1)
			peer_up(&p, &shm[0]);
		for (i = 0; i < 200; i++) {
			struct vu_msg m;

			if (!send_something(&p, &seed))
				break;
			host_run(&h);
			use_rings();
			ups += vu_backend_state(h.b) == VU_BACKEND_UP;
			while (peer_take(&p, &m))
				;
			assert_in_range(count_fds(), fds_before, fds_before + 2 + 3 * 4);
		}
		peer_close(&p);
		expect_service();
	}
	/* Else all of it was thrown out at the door. */
	assert_true(ups > 1000);
	assert_true(vu_backend_stats(h.b)->bad_messages > 1000);
}

/* Every cut of an honest conversation, the descriptors with it. */
static void
cut_anywhere(void **state)
{
	uint8_t flat[1024];
	uint32_t len = 0, cut;
	uint64_t bit30 = VQ_FEATURE(PROTOCOL_FEATURES);
	struct vu_header hdr;

	(void)state;
	hdr = (struct vu_header){VU_SET_FEATURES, VU_FLAG_VERSION, 8};
	memcpy(flat + len, &hdr, sizeof(hdr));
	memcpy(flat + len + sizeof(hdr), &bit30, 8);
	len += sizeof(hdr) + 8;
	hdr = (struct vu_header){VU_SET_MEM_TABLE, VU_FLAG_VERSION, 40};
	memcpy(flat + len, &hdr, sizeof(hdr));
	memcpy(flat + len + sizeof(hdr), &(uint32_t[2]){1, 0}, 8);
	memcpy(flat + len + sizeof(hdr) + 8, &shm[0].region, 32);
	len += sizeof(hdr) + 40;
	for (cut = 1; cut <= len; cut++) {
		struct peer p;

		peer_connect(&p, &h);
		/* The descriptor belongs to whatever part it comes with. */
		assert_true(peer_raw(&p, flat, cut, &shm[0].fd, 1));
		host_run(&h);
		if (cut < len && peer_raw(&p, flat + cut, len - cut, &shm[0].fd, 1))
			host_run(&h);
		peer_close(&p);
		expect_service();
	}
}

/* One message of this header, and what the backend thinks of it. */
static void
expect_end(uint32_t flags, uint32_t size, const char *why)
{
	uint8_t flat[sizeof(struct vu_header) + 1024] = {0};
	struct vu_header hdr = {VU_GET_FEATURES, flags, size};
	struct peer p;

	memcpy(flat, &hdr, sizeof(hdr));
	peer_connect(&p, &h);
	peer_up(&p, &shm[0]);
	assert_true(peer_raw(&p, flat, sizeof(flat), &shm[0].fd, 1));
	assert_true(peer_gone(&p));
	assert_non_null(strstr(vu_backend_reason(h.b), why));
	peer_close(&p);
	expect_service();
}

static void
oversized_messages(void **state)
{
	static const uint32_t sizes[] = {VU_PAYLOAD_MAX + 1, 4096, 65536, INT32_MAX, UINT32_MAX};
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(sizes); i++)
		expect_end(VU_FLAG_VERSION, sizes[i], "oversized");
}

static void
messages_of_another_version(void **state)
{
	(void)state;
	expect_end(0, 0, "version");
	expect_end(2, 0, "version");
	expect_end(3, 0, "version");
	expect_end(VU_FLAG_REPLY, 0, "version");
	expect_end(VU_FLAG_VERSION | VU_FLAG_REPLY, 0, "version or direction");
}

static void
any_number_of_descriptors_on_any_message(void **state)
{
	static const uint32_t numbers[] = {0, 1, 2, 7, 8, 9, 16, 63, 253};
	static const union vu_payload zeros;
	uint32_t request, i, fds;
	int many[253];
	struct peer p;

	(void)state;
	for (i = 0; i < COUNT_OF(many); i++)
		many[i] = i % 3 == 0 ? shm[0].fd : events[i % 2];
	peer_connect(&p, &h);
	peer_up(&p, &shm[1]);
	fds = count_fds();
	for (request = 0; request <= VU_REQUESTS; request++) {
		for (i = 0; i < COUNT_OF(numbers); i++) {
			peer_send(&p, request, VU_FLAG_VERSION, &zeros, 8, many, numbers[i]);
			host_run(&h);
			use_rings();
			/* What it kept are a kick, a call and an error descriptor of ring 0. */
			assert_in_range(count_fds(), fds - 1, fds + 3);
			if (vu_backend_state(h.b) != VU_BACKEND_DOWN)
				continue;
			peer_close(&p);
			expect_service();
			peer_connect(&p, &h);
			peer_up(&p, &shm[1]);
		}
	}
	peer_close(&p);
	expect_service();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(random_bytes),
		TEST(random_messages),
		TEST(cut_anywhere),
		TEST(oversized_messages),
		TEST(messages_of_another_version),
		TEST(any_number_of_descriptors_on_any_message),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
