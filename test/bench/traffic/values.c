/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "values.h"

/* 64, 594 and 1518 bytes on the wire, 7 : 4 : 1, the small ones spread. */
static const uint16_t imix[] = {60, 590, 60, 60, 590, 60, 1514, 60, 590, 60, 590, 60};

int
value_number(const char *option, const char *text, uint64_t min, uint64_t max, uint64_t *out,
	struct problem *p)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = isdigit((unsigned char)text[0]) ? strtoull(text, &end, 10) : 0;
	if (!isdigit((unsigned char)text[0]) || *end != '\0')
		return problem(p, "%s: \"%s\" is not a number: give %ju..%ju", option, text,
			(uintmax_t)min, (uintmax_t)max);
	if (errno != 0 || value < min || value > max)
		return problem(p, "%s: %s is out of range: give %ju..%ju", option, text,
			(uintmax_t)min, (uintmax_t)max);
	*out = value;
	return 0;
}

int
value_number32(const char *option, const char *text, uint32_t min, uint32_t max, uint32_t *out,
	struct problem *p)
{
	uint64_t value = 0;

	if (value_number(option, text, min, max, &value, p) < 0)
		return -EINVAL;
	*out = (uint32_t)value;
	return 0;
}

/* Digits with a point somewhere, as a whole number of units of 10^-decimals. @return the rest, or
 * NULL if it is no number, is too large, or is finer than that.
 */
static const char *
decimal(const char *text, uint32_t decimals, uint64_t *out)
{
	uint64_t value = 0;
	bool point = false;

	if (!isdigit((unsigned char)*text))
		return NULL;
	for (; isdigit((unsigned char)*text) || (*text == '.' && !point); text++) {
		if (*text == '.') {
			point = true;
			continue;
		}
		if (point && decimals == 0) {
			if (*text != '0')
				return NULL;
			continue;
		}
		if (value > UINT64_MAX / 1000)
			return NULL;
		value = value * 10 + (uint64_t)(*text - '0');
		decimals -= point;
	}
	for (; decimals > 0; decimals--) {
		if (value > UINT64_MAX / 1000)
			return NULL;
		value *= 10;
	}
	*out = value;
	return text;
}

int
value_scaled(const char *option, const char *text, uint64_t max, uint64_t *out, struct problem *p)
{
	const char *end = text + strspn(text, "0123456789.");
	uint32_t decimals = *end == 'k' ? 3 : *end == 'M' ? 6 : 0;
	const char *rest = decimal(text, decimals, out);

	if (rest == NULL || rest != end || rest[decimals != 0] != '\0')
		return problem(p,
			"%s: \"%s\" is not a whole number: give 1..%ju, such as 250000, 250k "
			"or 1.5M",
			option, text, (uintmax_t)max);
	if (*out == 0 || *out > max)
		return problem(
			p, "%s: %s is out of range: give 1..%ju", option, text, (uintmax_t)max);
	return 0;
}

int
value_seconds(const char *option, const char *text, uint64_t *out, struct problem *p)
{
	const char *rest = decimal(text, 6, out);

	if (rest == NULL || *rest != '\0')
		return problem(
			p, "%s: \"%s\" is no time: give seconds, such as 10 or 0.5", option, text);
	if (*out == 0 || *out > SECONDS_MAX * UINT64_C(1000000))
		return problem(p, "%s: %s is out of range: give more than 0, at most %d seconds",
			option, text, SECONDS_MAX);
	return 0;
}

static int
size_item(const char *option, const char *text, uint32_t *size, struct problem *p)
{
	return value_number32(option, text, SIZE_LEAST, SIZE_MOST, size, p);
}

static int
size_range(const char *option, char *text, struct options *o, struct problem *p)
{
	char *dash = strchr(text, '-');
	uint32_t from = 0, to = 0;

	*dash = '\0';
	if (size_item(option, text, &from, p) < 0 || size_item(option, dash + 1, &to, p) < 0)
		return -EINVAL;
	if (from > to)
		return problem(
			p, "%s: %u-%u is backwards: give the smaller one first", option, from, to);
	for (; from <= to; from++)
		o->sizes[o->nsizes++] = (uint16_t)from;
	return 0;
}

static int
size_list(const char *option, char *text, struct options *o, struct problem *p)
{
	char *item;

	while ((item = strsep(&text, ",")) != NULL) {
		uint32_t size = 0;

		if (o->nsizes == SIZES_MAX)
			return problem(p, "%s: too many sizes: give at most %d", option, SIZES_MAX);
		if (size_item(option, item, &size, p) < 0)
			return -EINVAL;
		o->sizes[o->nsizes++] = (uint16_t)size;
	}
	return 0;
}

int
value_sizes(const char *option, const char *text, struct options *o, struct problem *p)
{
	char *copy;
	int ret;

	o->nsizes = 0;
	o->size_text = text;
	if (strcmp(text, "imix") == 0) {
		o->nsizes = sizeof(imix) / sizeof(imix[0]);
		memcpy(o->sizes, imix, sizeof(imix));
		return 0;
	}
	copy = strdup(text);
	if (copy == NULL)
		return problem(p, "out of memory");
	ret = strchr(copy, '-') != NULL && copy[0] != '-' ? size_range(option, copy, o, p)
							  : size_list(option, copy, o, p);
	free(copy);
	return ret;
}

int
value_shape(const char *option, const char *text, struct options *o, struct problem *p)
{
	char on[16];
	const char *colon;
	uint32_t value = 0;

	o->shape_text = text;
	o->group = 1;
	o->on_us = o->off_us = 0;
	if (strcmp(text, "even") == 0)
		return 0;
	if (strncmp(text, "bursts:", 7) == 0)
		return value_number32(option, text + 7, 1, GROUP_MAX, &o->group, p);
	colon = strncmp(text, "on-off:", 7) == 0 ? strchr(text + 7, ':') : NULL;
	if (colon == NULL || (size_t)(colon - text - 7) >= sizeof(on))
		return problem(p, "%s: \"%s\" is no shape: give even, bursts:N or on-off:MS:MS",
			option, text);
	memcpy(on, text + 7, (size_t)(colon - text - 7));
	on[colon - text - 7] = '\0';
	if (value_number32(option, on, 1, MS_MAX, &value, p) < 0)
		return -EINVAL;
	o->on_us = value * UINT64_C(1000);
	if (value_number32(option, colon + 1, 1, MS_MAX, &value, p) < 0)
		return -EINVAL;
	o->off_us = value * UINT64_C(1000);
	return 0;
}

int
value_mac(const char *option, const char *text, struct mac *out, struct problem *p)
{
	unsigned int b[6], i;
	char tail;

	if (strlen(text) != 17 || strspn(text, "0123456789abcdefABCDEF:") != 17 ||
		sscanf(text, "%2x:%2x:%2x:%2x:%2x:%2x%c", &b[0], &b[1], &b[2], &b[3], &b[4], &b[5],
			&tail) != 6)
		return problem(p,
			"%s: \"%s\" is no address: give six bytes such as "
			"02:51:00:00:00:01",
			option, text);
	for (i = 0; i < 6; i++)
		out->bytes[i] = (uint8_t)b[i];
	out->given = true;
	return 0;
}
