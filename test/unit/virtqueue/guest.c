/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "guest.h"

void
guest_init(struct guest *g, uint32_t count, uint64_t bytes, uint64_t gap)
{
	memset(g, 0, sizeof(*g));
	assert_true(count <= GUEST_REGIONS);
	for (uint32_t i = 0; i < count; i++) {
		g->regions[i].addr = GUEST_BASE + i * (bytes + gap);
		g->regions[i].size = bytes;
		g->regions[i].host = malloc(bytes);
		assert_non_null(g->regions[i].host);
		memset(g->regions[i].host, 0xa5, bytes);
	}
	g->count = count;
	assert_int_equal(vq_mem_create(g->regions, count, &g->mem), 0);
}

void
guest_free(struct guest *g)
{
	if (g->sparse != 0)
		munmap(g->regions[--g->count].host, g->sparse);
	for (uint32_t i = 0; i < g->count; i++)
		free(g->regions[i].host);
	vq_mem_destroy(g->mem);
	memset(g, 0, sizeof(*g));
}

uint64_t
guest_add_sparse(struct guest *g, uint64_t bytes)
{
	const struct vq_mem_region *last = &g->regions[g->count - 1];
	struct vq_mem_region *r = &g->regions[g->count++];

	assert_true(g->count <= GUEST_REGIONS && g->sparse == 0);
	g->sparse = bytes;
	r->addr = (last->addr + last->size + 2 * UINT64_C(0x1000)) & ~UINT64_C(0xfff);
	r->size = bytes;
	r->host = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	assert_ptr_not_equal(r->host, MAP_FAILED);
	vq_mem_destroy(g->mem);
	assert_int_equal(vq_mem_create(g->regions, g->count, &g->mem), 0);
	return r->addr;
}

/* By hand, not by the code under test. */
uint8_t *
guest_at(const struct guest *g, uint64_t addr)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct vq_mem_region *r = &g->regions[i];

		if (addr >= r->addr && addr < r->addr + r->size)
			return r->host + (addr - r->addr);
	}
	fail_msg("the test itself uses unmapped address 0x%lx", (unsigned long)addr);
	return NULL;
}

/* Bytes from addr to the end of its region, at most len. */
static uint32_t
piece(const struct guest *g, uint64_t addr, uint32_t len)
{
	for (uint32_t i = 0; i < g->count; i++) {
		const struct vq_mem_region *r = &g->regions[i];

		if (addr >= r->addr && addr < r->addr + r->size) {
			uint64_t left = r->addr + r->size - addr;

			return left < len ? (uint32_t)left : len;
		}
	}
	return len;
}

void
guest_write(const struct guest *g, uint64_t addr, const void *from, uint32_t len)
{
	const uint8_t *in = from;

	while (len != 0) {
		uint32_t n = piece(g, addr, len);

		memcpy(guest_at(g, addr), in, n);
		addr += n;
		in += n;
		len -= n;
	}
}

void
guest_read(const struct guest *g, uint64_t addr, void *to, uint32_t len)
{
	uint8_t *out = to;

	while (len != 0) {
		uint32_t n = piece(g, addr, len);

		memcpy(out, guest_at(g, addr), n);
		addr += n;
		out += n;
		len -= n;
	}
}

void
guest_fill(const struct guest *g, uint64_t addr, uint8_t value, uint32_t len)
{
	while (len != 0) {
		uint32_t n = piece(g, addr, len);

		memset(guest_at(g, addr), value, n);
		addr += n;
		len -= n;
	}
}

static uint32_t
crc32_of(const uint8_t *p, uint32_t len)
{
	static uint32_t table[256];
	uint32_t crc = ~0u;

	if (table[1] == 0) {
		for (uint32_t i = 0; i < 256; i++) {
			uint32_t c = i;

			for (int bit = 0; bit < 8; bit++)
				c = (c & 1) ? 0xedb88320u ^ (c >> 1) : c >> 1;
			table[i] = c;
		}
	}
	for (uint32_t i = 0; i < len; i++)
		crc = table[(crc ^ p[i]) & 0xff] ^ (crc >> 8);
	return ~crc;
}

void
frame_make(uint8_t *frame, uint32_t len, uint32_t seq)
{
	uint64_t state = ((uint64_t)seq << 32 | len) + 1;
	uint32_t crc;

	assert_true(len >= FRAME_MIN);
	for (uint32_t i = 8; i < len; i += 8) {
		uint64_t v = rnd(&state);

		memcpy(frame + i, &v, len - i < 8 ? len - i : 8);
	}
	memcpy(frame, &seq, 4);
	crc = crc32_of(frame + 8, len - 8) ^ len;
	memcpy(frame + 4, &crc, 4);
}

bool
frame_ok(const uint8_t *frame, uint32_t len, uint32_t seq)
{
	uint32_t got_seq, got_crc;

	if (len < FRAME_MIN)
		return false;
	memcpy(&got_seq, frame, 4);
	memcpy(&got_crc, frame + 4, 4);
	return got_seq == seq && got_crc == (crc32_of(frame + 8, len - 8) ^ len);
}

/* xorshift64*; the state is never 0. */
uint64_t
rnd(uint64_t *state)
{
	uint64_t x = *state;

	x ^= x >> 12;
	x ^= x << 25;
	x ^= x >> 27;
	*state = x;
	return x * UINT64_C(0x2545f4914f6cdd1d);
}

uint32_t
rnd_below(uint64_t *state, uint32_t n)
{
	return (uint32_t)((rnd(state) >> 32) % n);
}
