/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include "host.h"

#define GUEST UINT64_C(0x100000000)
#define BYTES UINT64_C(65536)

static struct host h;
static struct peer p;
static struct shm shm[3];
static uint32_t fds_before, maps_before;

static int
setup(void **state)
{
	uint32_t i;

	(void)state;
	fds_before = count_fds();
	host_start(&h, 1, false);
	for (i = 0; i < COUNT_OF(shm); i++)
		shm_init(&shm[i], GUEST + i * UINT64_C(0x10000000), BYTES);
	maps_before = count_maps();
	peer_connect(&p, &h);
	peer_negotiate(&p, VQ_FEATURE(VERSION_1));
	return 0;
}

static int
teardown(void **state)
{
	uint32_t i;

	(void)state;
	peer_close(&p);
	assert_int_equal(count_maps(), maps_before);
	host_stop(&h);
	for (i = 0; i < COUNT_OF(shm); i++)
		shm_free(&shm[i]);
	assert_int_equal(count_fds(), fds_before);
	return 0;
}

static const struct vu_ring *
ring(uint32_t i)
{
	return vu_backend_ring(h.b, i);
}

/* The backend's view of a guest address, through a ring. */
static uint8_t *
host_at(uint64_t guest)
{
	uint32_t hint = 0;
	uint64_t avail;

	return vq_mem_translate(ring(0)->vq.mem, &hint, guest, &avail);
}

static void
start(uint32_t nregions)
{
	assert_int_equal(peer_ask_table(&p, shm, nregions), 0);
	peer_start_ring(&p, &shm[0], 0, 0);
	peer_start_ring(&p, &shm[0], 1, 0);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
}

static void
both_sides_see_the_same_bytes(void **state)
{
	uint32_t i;

	(void)state;
	start(3);
	assert_int_equal(count_maps(), maps_before + 3);
	for (i = 0; i < 3; i++) {
		uint8_t *first = host_at(shm[i].region.guest);
		uint8_t *last = host_at(shm[i].region.guest + BYTES - 1);

		assert_non_null(first);
		assert_ptr_equal(last, first + BYTES - 1);
		shm[i].at[0] = (uint8_t)(i + 1);
		*last = (uint8_t)(i + 100);
		assert_int_equal(*first, i + 1);
		assert_int_equal(shm[i].at[BYTES - 1], i + 100);
		assert_null(host_at(shm[i].region.guest + BYTES));
		assert_null(host_at(shm[i].region.guest - 1));
	}
}

static void
an_identical_table_changes_nothing(void **state)
{
	const struct vq_mem *mem;
	uint32_t quiesces;
	struct shm again[2];
	int copy;

	(void)state;
	start(2);
	mem = ring(0)->vq.mem;
	quiesces = h.quiesces;
	assert_int_equal(peer_ask_table(&p, shm, 2), 0);
	/* In another order, and by another descriptor of the same file, it is the same still. */
	copy = dup(shm[0].fd);
	again[0] = shm[1];
	again[1] = shm[0];
	again[1].fd = copy;
	assert_int_equal(peer_ask_table(&p, again, 2), 0);
	close(copy);
	assert_int_equal(h.quiesces, quiesces);
	assert_ptr_equal(ring(0)->vq.mem, mem);
	assert_int_equal(count_maps(), maps_before + 2);
	/* The same addresses of another file are not. */
	again[0] = shm[0];
	again[0].fd = shm[2].fd;
	again[1] = shm[1];
	assert_int_equal(peer_ask_table(&p, again, 2), 0);
	assert_int_equal(h.quiesces, quiesces + 1);
	shm[2].at[5] = 0xee;
	assert_int_equal(*host_at(GUEST + 5), 0xee);
}

static void
the_table_may_change_under_traffic(void **state)
{
	struct vu_ring *r = vu_backend_ring(h.b, 1);
	struct shm grown[3] = {shm[0], shm[1], shm[2]};
	const void *desc;
	struct vq_avail *avail;

	(void)state;
	start(1);
	/* As after some traffic. */
	r->vq.avail_idx = 40;
	r->vq.used_idx = 41;
	r->vq.published = 41;
	r->vq.bad_chains[VQ_CHAIN_LOOP] = 3;
	desc = r->vq.desc;
	/* More of it: no address of a ring follows, no index moves. */
	assert_int_equal(peer_ask_table(&p, grown, 3), 0);
	assert_true(r->ready);
	assert_int_equal(r->vq.avail_idx, 40);
	assert_int_equal(r->vq.used_idx, 41);
	assert_int_equal(r->vq.bad_chains[VQ_CHAIN_LOOP], 3);
	assert_ptr_equal(r->vq.desc, desc); /* the mapping that is known was kept */
	assert_non_null(host_at(grown[2].region.guest));
	/* The same bytes at another guest address: mapped anew, the ring goes along. */
	grown[0].region.guest += BYTES;
	assert_int_equal(peer_ask_table(&p, grown, 1), 0);
	assert_int_equal(count_maps(), maps_before + 1);
	assert_true(r->ready);
	assert_int_equal(r->vq.avail_idx, 40);
	avail = r->vq.avail;
	vq_store(&avail->idx, 4711);
	assert_int_equal(shm[0].at[4096 + 1024 + 2] | shm[0].at[4096 + 1024 + 3] << 8, 4711);
	assert_null(host_at(GUEST));
}

static void
a_ring_without_memory_waits_for_it(void **state)
{
	struct vu_ring *r = vu_backend_ring(h.b, 1);

	(void)state;
	start(1);
	r->vq.avail_idx = 40;
	assert_int_equal(peer_ask_table(&p, &shm[1], 1), 0);
	assert_false(r->ready);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_CONNECTED);
	assert_non_null(strstr(h.last_log, "memory"));
	assert_int_equal(peer_ask_table(&p, shm, 2), 0);
	assert_true(r->ready);
	assert_int_equal(r->vq.avail_idx, 40);
	assert_int_equal(peer_get_base(&p, 1), 40);
}

static void
expect_refused(const struct shm *s, uint32_t count)
{
	const struct vq_mem *mem = ring(0)->vq.mem;
	uint32_t quiesces = h.quiesces;
	uint32_t maps = count_maps();
	uint32_t fds = count_fds();

	assert_int_equal(peer_ask_table(&p, s, count), 1);
	assert_ptr_equal(ring(0)->vq.mem, mem);
	assert_int_equal(h.quiesces, quiesces);
	assert_int_equal(count_maps(), maps);
	assert_int_equal(count_fds(), fds);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	assert_non_null(host_at(GUEST));
}

static void
regions_that_cannot_be(void **state)
{
	struct shm bad[3];
	uint32_t which;

	(void)state;
	start(2);
	/* Alone, and as the last one behind good ones that were not there before. */
	for (which = 0; which < 3; which++) {
		struct vu_wire_region *r = &bad[which].region;
		uint32_t i;

		for (i = 0; i < 9; i++) {
			memcpy(bad, shm, sizeof(bad));
			/* Else a known region would be found again, as it should. */
			bad[0].region.guest += BYTES;
			switch (i) {
			case 0:
				r->size = 0;
				break;
			case 1:
				r->guest = UINT64_MAX - BYTES + 2;
				break;
			case 2:
				r->user = UINT64_MAX - BYTES + 2;
				break;
			case 3:
				r->size = BYTES + 1; /* past the end of the file: SIGBUS */
				break;
			case 4:
				r->offset = 1;
				break;
			case 5:
				r->offset = UINT64_MAX - BYTES + 1;
				break;
			case 6:
				r->offset = INT64_MAX;
				break;
			case 7:
				r->size = UINT64_MAX;
				break;
			case 8:
				r->size = UINT64_MAX;
				r->guest = 0;
				r->user = 0;
				break;
			}
			expect_refused(bad, which + 1);
		}
	}
}

static void
regions_that_overlap(void **state)
{
	struct shm bad[2];

	(void)state;
	start(2);
	memcpy(bad, shm, sizeof(bad));
	bad[1].region.guest = bad[0].region.guest + BYTES - 1;
	expect_refused(bad, 2);
	bad[1].region.guest = bad[0].region.guest - BYTES + 1;
	expect_refused(bad, 2);
	bad[1].region.guest = bad[0].region.guest;
	expect_refused(bad, 2);
	/* In the frontend's addresses: a ring would have two places. */
	memcpy(bad, shm, sizeof(bad));
	bad[1].region.user = bad[0].region.user + BYTES - 1;
	expect_refused(bad, 2);
	bad[1].region.user = bad[0].region.user;
	expect_refused(bad, 2);
	/* The same one twice, known or not. */
	bad[0] = shm[0];
	bad[1] = shm[0];
	expect_refused(bad, 2);
	bad[0] = shm[2];
	bad[1] = shm[2];
	expect_refused(bad, 2);
}

static void
files_that_cannot_be_memory(void **state)
{
	struct shm bad = shm[0];
	char name[] = "/proc/self/fd/0123456789";
	int pipes[2];

	(void)state;
	start(1);
	bad.fd = eventfd(0, EFD_CLOEXEC);
	expect_refused(&bad, 1);
	close(bad.fd);
	assert_int_equal(pipe2(pipes, O_CLOEXEC), 0);
	bad.fd = pipes[0];
	expect_refused(&bad, 1);
	close(pipes[0]);
	close(pipes[1]);
	bad.fd = open("/dev/zero", O_RDWR | O_CLOEXEC);
	expect_refused(&bad, 1);
	close(bad.fd);
	/* Read only. */
	bad = shm[2];
	snprintf(name, sizeof(name), "/proc/self/fd/%d", shm[2].fd);
	bad.fd = open(name, O_RDONLY | O_CLOEXEC);
	assert_true(bad.fd >= 0);
	expect_refused(&bad, 1);
	close(bad.fd);
}

static void
not_here(int fd, const char *why)
{
	print_message("%s\n", why);
	if (fd >= 0)
		close(fd);
	skip();
}

/* Behind a file of a file system waits whoever serves that. */
static void
a_file_of_a_file_system(void **state)
{
	struct shm bad = shm[0];

	(void)state;
	start(1);
	bad.fd = open(".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (bad.fd < 0 || fcntl(bad.fd, F_GET_SEALS) >= 0)
		not_here(bad.fd, "the only file system here is in memory");
	assert_int_equal(ftruncate(bad.fd, (off_t)bad.size), 0);
	expect_refused(&bad, 1);
	close(bad.fd);
}

/* A sparse file is free for the frontend, our address space is not. */
static void
more_memory_than_one_may_show(void **state)
{
	struct shm huge = shm[0];
	struct shm two[2];

	(void)state;
	start(1);
	huge.fd = memfd_create("sparse", MFD_CLOEXEC);
	assert_int_equal(ftruncate(huge.fd, INT64_C(1) << 42), 0);
	huge.region.size = (UINT64_C(1) << 40) + 4096;
	expect_refused(&huge, 1);
	huge.region.size = (UINT64_C(1) << 39) + 4096;
	two[0] = two[1] = huge;
	two[1].region.guest += UINT64_C(1) << 41;
	two[1].region.user += UINT64_C(1) << 41;
	expect_refused(two, 2);
	close(huge.fd);
}

static void
tables_of_a_wrong_shape(void **state)
{
	union vu_payload u = {.table = {.count = 1}};
	int fds[VU_FDS_MAX];
	uint32_t i, n;

	(void)state;
	start(1);
	for (i = 0; i < VU_FDS_MAX; i++)
		fds[i] = shm[1].fd;
	u.table.regions[0] = shm[1].region;
	for (n = 0; n <= VU_FDS_MAX; n++) {
		if (n != 1)
			assert_int_equal(peer_ask(&p, VU_SET_MEM_TABLE, &u, 40, fds, n), 1);
	}
	u.table.count = 2; /* of which one is there */
	assert_int_equal(peer_ask(&p, VU_SET_MEM_TABLE, &u, 40, fds, 2), 1);
	u.table.count = 9;
	assert_int_equal(peer_ask(&p, VU_SET_MEM_TABLE, &u, 8 + 9 * 32, fds, 8), 1);
	u.table.count = UINT32_MAX;
	assert_int_equal(peer_ask(&p, VU_SET_MEM_TABLE, &u, 264, fds, 8), 1);
	u.table.count = 0x8000001; /* times 32 is 32 again, in 32 bits */
	assert_int_equal(peer_ask(&p, VU_SET_MEM_TABLE, &u, 40, fds, 1), 1);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	/* A payload of the full size with fewer regions is what some frontends send. */
	u.table.count = 1;
	u.table.regions[0] = shm[0].region;
	fds[0] = shm[0].fd;
	assert_int_equal(peer_ask(&p, VU_SET_MEM_TABLE, &u, 264, fds, 1), 0);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	/* No memory at all. */
	assert_int_equal(peer_ask_table(&p, NULL, 0), 0);
	assert_int_equal(count_maps(), maps_before);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_CONNECTED);
}

static void
an_offset_need_not_be_a_page(void **state)
{
	struct shm part = shm[0];

	(void)state;
	part.region.offset = 4096 + 2048;
	part.region.size = 8192;
	assert_int_equal(peer_ask_table(&p, &part, 1), 0);
	assert_int_equal(peer_ask_state(&p, VU_SET_VRING_NUM, 0, RING_SIZE), 0);
	assert_int_equal(peer_ask_addr(&p, 0, part.region.user, part.region.user + 1024,
				 part.region.user + 2048),
		0);
	assert_int_equal(peer_ask_fd(&p, VU_SET_VRING_KICK, VU_VRING_NOFD, -1), 0);
	assert_true(ring(0)->ready);
	shm[0].at[4096 + 2048 + 5] = 0x77;
	assert_int_equal(*host_at(GUEST + 5), 0x77);
	assert_null(host_at(GUEST + 8192));
	/* One that leaves a ring misaligned is not followed there. */
	part.region.offset += 1;
	assert_int_equal(peer_ask_table(&p, &part, 1), 0);
	assert_false(ring(0)->ready);
}

/* Such a file is mapped in whole pages of its own, whatever part of it the region is. */
static void
huge_pages(void **state)
{
	struct shm huge = {.size = UINT64_C(4) << 20};
	uint32_t before = count_maps();

	(void)state;
	huge.fd = memfd_create("huge", MFD_CLOEXEC | MFD_HUGETLB);
	if (huge.fd < 0)
		not_here(-1, "the kernel has no files of huge pages");
	if (ftruncate(huge.fd, (off_t)huge.size) < 0)
		not_here(huge.fd, "huge pages are larger than 2 MiB");
	huge.at = mmap(NULL, huge.size, PROT_READ | PROT_WRITE, MAP_SHARED, huge.fd, 0);
	if (huge.at == MAP_FAILED)
		not_here(huge.fd, "no huge pages are reserved");
	huge.region = (struct vu_wire_region){
		.guest = GUEST,
		.user = (uintptr_t)huge.at + 0x101000,
		.size = 0x200000,
		.offset = 0x101000,
	};
	assert_int_equal(peer_ask_table(&p, &huge, 1), 0);
	peer_start_ring(&p, &huge, 0, 0);
	huge.at[0x101000 + 0x1fffff] = 0x42;
	assert_int_equal(*host_at(GUEST + 0x1fffff), 0x42);
	assert_null(host_at(GUEST + 0x200000));
	assert_int_equal(peer_ask_table(&p, NULL, 0), 0);
	shm_free(&huge);
	assert_int_equal(count_maps(), before);
}

static void
slots(void **state)
{
	struct vu_wire_region r = shm[2].region;
	struct vu_ring *one = vu_backend_ring(h.b, 1);
	uint32_t i;

	(void)state;
	start(1);
	one->vq.avail_idx = 9;
	for (i = 0; i < 16; i++) {
		r.guest = GUEST + 0x40000000 + i * UINT64_C(0x10000);
		r.user = UINT64_C(0x500000000000) + i * UINT64_C(0x10000);
		r.size = 4096;
		r.offset = i * UINT64_C(4096);
		assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &r, shm[2].fd), 0);
		assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &r, shm[2].fd), 1);
		shm[2].at[r.offset] = (uint8_t)i;
		assert_int_equal(*host_at(r.guest), i);
	}
	assert_int_equal(count_maps(), maps_before + 17);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_UP);
	assert_int_equal(one->vq.avail_idx, 9);
	/* What is not there, or not like that, is not removed. */
	r.size = 8192;
	assert_int_equal(peer_ask_region(&p, VU_REM_MEM_REG, &r, -1), 1);
	r.size = 4096;
	r.user++;
	assert_int_equal(peer_ask_region(&p, VU_REM_MEM_REG, &r, -1), 1);
	r.user--;
	/* Some frontends send the descriptor with it: closed. */
	assert_int_equal(peer_ask_region(&p, VU_REM_MEM_REG, &r, shm[2].fd), 0);
	assert_int_equal(peer_ask_region(&p, VU_REM_MEM_REG, &r, -1), 1);
	assert_null(host_at(r.guest));
	assert_int_equal(count_maps(), maps_before + 16);
	/* The one with the rings in it: they stop, and go on when it is back. */
	assert_int_equal(peer_ask_region(&p, VU_REM_MEM_REG, &shm[0].region, -1), 0);
	assert_false(one->ready);
	assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &shm[0].region, -1), 1);
	assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &shm[0].region, shm[0].fd), 0);
	assert_true(one->ready);
	assert_int_equal(one->vq.avail_idx, 9);
	/* A table takes the place of all. */
	assert_int_equal(peer_ask_table(&p, shm, 2), 0);
	assert_int_equal(count_maps(), maps_before + 2);
	assert_true(one->ready);
}

static void
as_many_slots_as_offered(void **state)
{
	struct vu_wire_region r = {.size = 4096};
	uint32_t i;

	(void)state;
	for (i = 0; i < 509; i++) {
		r.guest = i * UINT64_C(0x10000);
		r.user = UINT64_C(0x600000000000) - i * UINT64_C(0x10000);
		assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &r, shm[2].fd), 0);
	}
	r.guest = i * UINT64_C(0x10000);
	r.user = UINT64_C(0x600000000000) - i * UINT64_C(0x10000);
	assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &r, shm[2].fd), 1);
	assert_int_equal(
		peer_ask_region(&p, VU_REM_MEM_REG,
			&(struct vu_wire_region){
				.guest = 0, .size = 4096, .user = UINT64_C(0x600000000000)},
			-1),
		0);
	assert_int_equal(peer_ask_region(&p, VU_ADD_MEM_REG, &r, shm[2].fd), 0);
}

static sigjmp_buf out_of_it;

static void
on_sigbus(int number)
{
	(void)number;
	siglongjmp(out_of_it, 1);
}

/* The file is cut between its mapping and the start of a ring in it; the caller jumps out. */
static void
a_truncated_file_costs_the_connection_only(void **state)
{
	struct sigaction action = {.sa_handler = on_sigbus, .sa_flags = SA_NODEFER}, old;
	uint32_t fds = count_fds();
	union vu_payload u = {.u64 = VU_VRING_NOFD};
	struct pollfd w = {.fd = vu_backend_fd(h.b), .events = POLLIN};

	(void)state;
	assert_int_equal(sigaction(SIGBUS, &action, &old), 0);
	start(3);
	peer_get_base(&p, 0);
	assert_int_equal(ftruncate(shm[0].fd, 0), 0);
	peer_send(&p, VU_SET_VRING_KICK, VU_FLAG_VERSION, &u, sizeof(u.u64), NULL, 0);
	if (sigsetjmp(out_of_it, 0) == 0) {
		vu_backend_process(h.b);
		fail_msg("no SIGBUS");
	}
	sigaction(SIGBUS, &old, NULL);
	vu_backend_disconnect(h.b, "its memory went away");
	/* Workers stay away until it has gone, in the next turn. */
	assert_true(h.quiesced);
	assert_int_equal(poll(&w, 1, 1000), 1);
	host_run(&h);
	assert_false(h.quiesced);
	assert_int_equal(vu_backend_state(h.b), VU_BACKEND_DOWN);
	assert_string_equal(vu_backend_reason(h.b), "its memory went away");
	assert_int_equal(count_maps(), maps_before);
	assert_int_equal(count_fds(), fds - 1);
	/* The next one is served. */
	assert_int_equal(ftruncate(shm[0].fd, (off_t)BYTES), 0);
	close(p.fd);
	peer_connect(&p, &h);
	peer_up(&p, &shm[0]);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int
main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(both_sides_see_the_same_bytes),
		TEST(an_identical_table_changes_nothing),
		TEST(the_table_may_change_under_traffic),
		TEST(a_ring_without_memory_waits_for_it),
		TEST(regions_that_cannot_be),
		TEST(regions_that_overlap),
		TEST(files_that_cannot_be_memory),
		TEST(a_file_of_a_file_system),
		TEST(more_memory_than_one_may_show),
		TEST(tables_of_a_wrong_shape),
		TEST(an_offset_need_not_be_a_page),
		TEST(huge_pages),
		TEST(slots),
		TEST(a_truncated_file_costs_the_connection_only),
		TEST(as_many_slots_as_offered),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
