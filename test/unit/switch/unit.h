/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#ifndef UNIT_H
#define UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#define COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))

/** The line must have every one of these words. */
static inline void
assert_words(const char *line, const char *const *words)
{
	for (; *words != NULL; words++)
		if (strstr(line, *words) == NULL)
			fail_msg("\"%s\" is not in \"%s\"", *words, line);
}

#endif
