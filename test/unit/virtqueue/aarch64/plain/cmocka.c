/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include "cmocka.h"

static jmp_buf out;

void
plain_fail(const char *file, int line, const char *format, ...)
{
	va_list args;

	printf("%s:%d: ", file, line);
	va_start(args, format);
	vprintf(format, args);
	va_end(args);
	printf("\n");
	longjmp(out, 1);
}

void
plain_equal(uint64_t a, uint64_t b, const char *text, const char *file, int line)
{
	if (a != b)
		plain_fail(file, line, "%s: 0x%llx and 0x%llx", text, (unsigned long long)a,
			(unsigned long long)b);
}

void
plain_memory(const void *a, const void *b, size_t n, const char *text, const char *file, int line)
{
	if (memcmp(a, b, n) != 0)
		plain_fail(file, line, "%s: not in all %zu bytes", text, n);
}

static int
run_one(const struct CMUnitTest *t)
{
	void *state = NULL;
	volatile int failed = 1;

	if (setjmp(out) == 0) {
		if (t->setup == NULL || t->setup(&state) == 0) {
			t->test(&state);
			failed = 0;
		}
	}
	if (setjmp(out) != 0)
		return 1;
	if (t->teardown != NULL && t->teardown(&state) != 0)
		failed = 1;
	return failed;
}

int
plain_run(const struct CMUnitTest *tests, size_t n, int (*setup)(void **state),
	int (*teardown)(void **state))
{
	volatile int failed = 0;
	void *state = NULL;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (setjmp(out) != 0 || (setup != NULL && setup(&state) != 0))
		return 1;
	for (size_t i = 0; i < n; i++) {
		int bad = run_one(&tests[i]);

		printf("%s %s\n", bad ? "failed" : "passed", tests[i].name);
		failed += bad;
	}
	if (setjmp(out) != 0)
		return 1;
	if (teardown != NULL && teardown(&state) != 0)
		failed++;
	return failed;
}
