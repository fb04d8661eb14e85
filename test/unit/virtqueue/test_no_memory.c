/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Each allocation of the library fails once: it says so and leaves nothing behind (the address
 * sanitizer looks), and works when there is memory. The linker puts the functions below in their
 * place (--wrap).
 */

#include <errno.h>
#include <stdlib.h>

#include "guest.h"
#include "vq_net.h"

static uint32_t fails_at; /* the n-th call from now on fails; 0: none */

static bool
fails(void)
{
	return fails_at != 0 && --fails_at == 0;
}

#define WRAP(name, parameters, arguments)                                                          \
	void *__real_##name parameters;                                                            \
	void *__wrap_##name parameters;                                                            \
	void *__wrap_##name parameters                                                             \
	{                                                                                          \
		return fails() ? NULL : __real_##name arguments;                                   \
	}

/* clang-format off */
WRAP(malloc, (size_t size), (size))
WRAP(calloc, (size_t n, size_t size), (n, size))
WRAP(aligned_alloc, (size_t to, size_t size), (to, size))
/* clang-format on */

static void
for_a_burst(void **state)
{
	struct vq_net_burst *b = NULL;
	uint32_t failed = 0;

	(void)state;
	while (b == NULL) {
		fails_at = failed + 1;
		b = vq_net_burst_create(4, 8);
		failed += b == NULL;
		assert_true(failed < 100);
	}
	/* The structure and what it points to. */
	assert_int_equal(failed, 5);
	fails_at = 0;
	vq_net_burst_destroy(b);
}

static void
for_a_memory_map(void **state)
{
	static uint8_t bytes[64];
	const struct vq_mem_region region = {
		.addr = GUEST_BASE, .size = sizeof(bytes), .host = bytes};
	struct vq_mem *mem = NULL;

	(void)state;
	fails_at = 1;
	assert_int_equal(vq_mem_create(&region, 1, &mem), -ENOMEM);
	assert_null(mem);
	assert_int_equal(vq_mem_create(&region, 1, &mem), 0);
	vq_mem_destroy(mem);
}

int
main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(for_a_burst),
		cmocka_unit_test(for_a_memory_map),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
