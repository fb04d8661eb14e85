/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * As much of cmocka as the tests of lib/virtqueue use, in plain C, for machines that we compile for
 * and that have no cmocka: the same test files run there. A failed assertion ends its test.
 */
#ifndef PLAIN_CMOCKA_H
#define PLAIN_CMOCKA_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

struct CMUnitTest {
	const char *name;
	void (*test)(void **state);
	int (*setup)(void **state);
	int (*teardown)(void **state);
};

int plain_run(const struct CMUnitTest *tests, size_t n, int (*setup)(void **state),
	int (*teardown)(void **state));
_Noreturn void plain_fail(const char *file, int line, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
void plain_equal(uint64_t a, uint64_t b, const char *text, const char *file, int line);
void plain_memory(
	const void *a, const void *b, size_t n, const char *text, const char *file, int line);

#define cmocka_unit_test_setup_teardown(f, s, t)                                                   \
	{                                                                                          \
#f, f, s, t                                                                        \
	}
#define cmocka_unit_test_teardown(f, t) cmocka_unit_test_setup_teardown(f, NULL, t)
#define cmocka_unit_test(f)             cmocka_unit_test_setup_teardown(f, NULL, NULL)
#define cmocka_run_group_tests(tests, s, t)                                                        \
	plain_run(tests, sizeof(tests) / sizeof((tests)[0]), s, t)

#define print_message(...)         printf(__VA_ARGS__)
#define print_error(...)           printf(__VA_ARGS__)
#define fail_msg(...)              plain_fail(__FILE__, __LINE__, __VA_ARGS__)
#define assert_true(c)             ((c) ? (void)0 : plain_fail(__FILE__, __LINE__, "%s", #c))
#define assert_false(c)            assert_true(!(c))
#define assert_non_null(p)         assert_true((p) != NULL)
#define assert_null(p)             assert_true((p) == NULL)
#define assert_ptr_equal(a, b)     assert_true((const void *)(a) == (const void *)(b))
#define assert_ptr_not_equal(a, b) assert_true((const void *)(a) != (const void *)(b))
#define assert_int_equal(a, b)                                                                     \
	plain_equal((uint64_t)(a), (uint64_t)(b), #a " is " #b, __FILE__, __LINE__)
#define assert_int_not_equal(a, b)   assert_true((uint64_t)(a) != (uint64_t)(b))
#define assert_memory_equal(a, b, n) plain_memory(a, b, n, #a " is " #b, __FILE__, __LINE__)

#endif
