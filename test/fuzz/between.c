/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdbool.h>
#include <string.h>

#include "arena.h"
#include "between.h"

/* The most changes of one input. */
#define CHANGES 32
/* Loads that are remembered, to know one of the same bytes again. */
#define RECENT 16

/* Loads of one call: more have no end. */
#define LOADS_MAX 20000000u

/* Of `kind`: at a load of bytes that were loaded before in this call, and at no other. */
#define AGAIN 8

struct change {
	uint8_t wait; /* loads in question before it */
	uint8_t kind;
	uint64_t value;
};

static struct change changes[CHANGES];
static uint32_t nchanges, next_change, waited;
static struct between now;
static bool inside;
static const void *moving;
static uint16_t moving_by;
static struct {
	uintptr_t from, to;
} recent[RECENT];
static uint32_t nrecent;

/* Four bytes each: wait, kind, value. How many there are is the last byte of the input. */
void
between_start(struct input *in)
{
	nchanges = 0;
	nrecent = 0;
	next_change = 0;
	waited = 0;
	inside = false;
	moving = NULL;
	memset(&now, 0, sizeof(now));
	if (in->at == in->end)
		return;
	in->end--;
	for (uint32_t n = *in->end % CHANGES; n != 0 && in->end - in->at >= 4; n--) {
		const uint8_t *p = in->end -= 4;

		changes[nchanges].wait = p[1] & AGAIN ? p[0] % 4 : p[0];
		changes[nchanges].kind = p[1];
		changes[nchanges].value = (uint64_t)p[2] | (uint64_t)p[3] << 8;
		nchanges++;
	}
}

void
between_advance(const void *index, uint16_t by)
{
	moving = index;
	moving_by = by;
}

void
between_enter(void)
{
	memset(&now, 0, sizeof(now));
	memset(recent, 0, sizeof(recent));
	inside = true;
}

struct between
between_leave(void)
{
	inside = false;
	return now;
}

/* What shall stand there instead: the low bytes count. */
static uint64_t
changed(const struct change *c, uint64_t old, size_t bytes)
{
	uint32_t shift = (c->kind >> 4) * 8 % (uint32_t)(bytes * 8);

	switch (c->kind & 7) {
	case 0:
		return c->value;
	case 1:
		return ~UINT64_C(0) - c->value;
	case 2:
		return old ^ c->value << shift;
	case 3:
		return old + c->value;
	case 4:
		return old - c->value;
	case 5: /* a 16-bit field of it, say flags or next */
		return (old & ~(UINT64_C(0xffff) << shift)) | c->value << shift;
	case 6: /* a 32-bit field of it, say an id or a length */
		return (old & ~(UINT64_C(0xffffffff) << shift)) | c->value << shift;
	default:
		return UINT64_C(0x8000800080008000) >> (c->value & 63);
	}
}

static bool
loaded_before(const void *addr, size_t bytes)
{
	uintptr_t from = (uintptr_t)addr, to = from + bytes;
	bool found = false;

	for (uint32_t i = 0; i < RECENT; i++)
		if (recent[i].from < to && from < recent[i].to)
			found = true;
	recent[nrecent % RECENT].from = from;
	recent[nrecent++ % RECENT].to = to;
	return found;
}

static void
load(void *addr, size_t bytes)
{
	const struct change *c;
	uint64_t v = 0;
	bool again;

	if (!inside)
		return;
	MUST(++now.loads < LOADS_MAX);
	if (!arena_holds(addr))
		return;
	now.shared++;
	if (addr == moving) {
		uint16_t index;

		memcpy(&index, addr, sizeof(index));
		index = (uint16_t)(index + moving_by);
		memcpy(addr, &index, sizeof(index));
		now.changes++;
	}
	if (next_change == nchanges)
		return;
	again = loaded_before(addr, bytes);
	c = &changes[next_change];
	if (c->kind & AGAIN && !again)
		return;
	if (waited++ < c->wait)
		return;
	waited = 0;
	next_change++;
	now.changes++;
	if (bytes > sizeof(v))
		bytes = sizeof(v);
	memcpy(&v, addr, bytes);
	v = changed(c, v, bytes);
	memcpy(addr, &v, bytes);
}

/* What the compiler calls before each load, by its size. */
#define HOOK(bytes, type)                                                                          \
	void __sanitizer_cov_load##bytes(type *addr);                                              \
	void __sanitizer_cov_load##bytes(type *addr)                                               \
	{                                                                                          \
		load(addr, bytes);                                                                 \
	}

HOOK(1, uint8_t)
HOOK(2, uint16_t)
HOOK(4, uint32_t)
HOOK(8, uint64_t)
HOOK(16, __uint128_t)
