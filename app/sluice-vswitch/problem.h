/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * One line about bad input: the thing, and the remedy.
 */
#ifndef PROBLEM_H
#define PROBLEM_H

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

struct problem {
	char text[768];
};

/** Copy a text so that it stays one line: control characters as \n, \x1b and the like. */
static inline void
problem_one_line(char *to, size_t room, const char *from)
{
	size_t n = 0;

	for (; *from != '\0' && n + sizeof("\\x1b") <= room; from++) {
		if (*from == '\n')
			n += (size_t)sprintf(to + n, "\\n");
		else if (iscntrl((unsigned char)*from))
			n += (size_t)sprintf(to + n, "\\x%02x", (unsigned char)*from);
		else
			to[n++] = *from;
	}
	to[n] = '\0';
}

/** Say what is wrong. @return -EINVAL, for `return problem(...)`. */
__attribute__((format(printf, 2, 3))) static inline int
problem(struct problem *p, const char *format, ...)
{
	char raw[sizeof(p->text)];
	va_list args;

	va_start(args, format);
	(void)vsnprintf(raw, sizeof(raw), format, args);
	va_end(args);
	problem_one_line(p->text, sizeof(p->text), raw);
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
