/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * One line about bad input: the thing, and the remedy.
 */
#ifndef PROBLEM_H
#define PROBLEM_H

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct problem {
	char text[768];
};

/** Say what is wrong. @return -EINVAL, for `return problem(...)`. */
__attribute__((format(printf, 2, 3))) static inline int
problem(struct problem *p, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	(void)vsnprintf(p->text, sizeof(p->text), format, args);
	va_end(args);
	return -EINVAL;
}

/** Put the place in front of a problem found by somebody who did not know it. @return -EINVAL. */
static inline int
problem_at(struct problem *p, const char *place)
{
	struct problem inner = *p;

	return problem(p, "%.200s: %.550s", place, inner.text);
}

#endif
