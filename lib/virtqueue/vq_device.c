/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <string.h>

#include "vq_device.h"

static const char *const fault_names[VQ_DEVICE_FAULTS] = {
	[VQ_DEVICE_OK] = "none",
	[VQ_CHAIN_LOOP] = "chain longer than the ring",
	[VQ_CHAIN_NEXT] = "next descriptor out of range",
	[VQ_CHAIN_ADDRESS] = "buffer outside the memory table",
	[VQ_CHAIN_DIRECTION] = "descriptor of the wrong direction",
	[VQ_CHAIN_INDIRECT] = "bad indirect table",
	[VQ_CHAIN_SEGMENTS] = "chain of too many pieces",
	[VQ_CHAIN_SHORT] = "receive chain too short for a packet to begin in",
	[VQ_RING_INDEX] = "available index beyond the ring",
	[VQ_RING_HEAD] = "available entry out of range",
};

const char *
vq_device_fault_name(enum vq_device_fault fault)
{
	return fault_names[fault];
}

int
vq_device_init(struct vq_device *q, const struct vq_device_config *config)
{
	if (!vq_size_ok(config->size) || config->mem == NULL)
		return -EINVAL;
	if (config->desc == NULL || (uintptr_t)config->desc % 16 != 0 || config->avail == NULL ||
		(uintptr_t)config->avail % 2 != 0 || config->used == NULL ||
		(uintptr_t)config->used % 4 != 0)
		return -EINVAL;

	memset(q, 0, sizeof(*q));
	q->desc = config->desc;
	q->avail = config->avail;
	q->used = config->used;
	q->mem = config->mem;
	q->size = config->size;
	q->mask = (uint16_t)(config->size - 1);
	q->avail_idx = config->base;
	q->avail_seen = config->base;
	q->first_byte = config->first_byte;
	q->used_idx = vq_load(&q->used->idx);
	q->published = q->used_idx;
	/* Nobody knows what was decided before: whoever sleeps set its event within a ring. */
	q->call_idx = (uint16_t)(q->used_idx - q->size);
	q->event_idx = (config->features & VQ_FEATURE(EVENT_IDX)) != 0;
	q->in_order = (config->features & VQ_FEATURE(IN_ORDER)) != 0;
	q->indirect = (config->features & VQ_FEATURE(INDIRECT_DESC)) != 0;
	vq_device_disarm(q);
	return 0;
}

/* 8 bytes at any address, read exactly once. */
struct once64 {
	volatile uint64_t v;
} __attribute__((packed));

static inline struct vq_desc
read_desc(const void *from)
{
	const struct once64 *p = from;
	union {
		uint64_t w[2];
		struct vq_desc d;
	} u = {.w = {p[0].v, p[1].v}};

	return u.d;
}

/*
 * Descriptors walked in one batch: as many as may have a segment, and some for each chain. Empty
 * ones and malformed chains would make the work of a batch unbounded otherwise.
 */
#define STEPS_PER_CHAIN 4

/* A chain under construction. */
struct walk {
	struct vq_seg *segs;
	uint32_t room;  /* segments that may still be written */
	uint32_t steps; /* descriptors that may still be looked at */
	uint32_t nseg;
	uint64_t len;
	uint16_t direction; /* VQ_DESC_WRITE or 0: what every descriptor must be */
};

/* Append a descriptor's buffer, which may cross regions. */
static enum vq_device_fault
append(struct vq_device *q, struct walk *w, const struct vq_desc *d)
{
	uint64_t addr = d->addr;
	uint64_t left = d->len;

	/* Empty buffers need no segment, but time. */
	if (w->steps == 0)
		return VQ_CHAIN_SEGMENTS;
	w->steps--;
	if ((d->flags & VQ_DESC_WRITE) != w->direction)
		return VQ_CHAIN_DIRECTION;
	/* The last byte has an address; the one behind it need not have one. */
	if (left != 0 && addr + (left - 1) < addr)
		return VQ_CHAIN_ADDRESS;
	w->len += left;
	do {
		uint64_t have;
		uint8_t *base = vq_mem_translate(q->mem, &q->mem_hint, addr, &have);

		/* An empty buffer needs an address all the same. */
		if (base == NULL)
			return VQ_CHAIN_ADDRESS;
		if (left == 0)
			return VQ_DEVICE_OK;
		if (w->nseg == w->room)
			return VQ_CHAIN_SEGMENTS;
		if (have > left)
			have = left;
		w->segs[w->nseg].base = base;
		w->segs[w->nseg].len = (uint32_t)have;
		w->nseg++;
		addr += have;
		left -= have;
	} while (left != 0);
	return VQ_DEVICE_OK;
}

/* An entry of an indirect table, which may lie across two regions. */
static enum vq_device_fault
read_entry(struct vq_device *q, uint64_t addr, struct vq_desc *out)
{
	uint8_t bytes[sizeof(*out)];
	uint64_t have;
	const uint8_t *p = vq_mem_translate(q->mem, &q->mem_hint, addr, &have);

	if (p == NULL)
		return VQ_CHAIN_ADDRESS;
	if (have >= sizeof(*out)) {
		*out = read_desc(p);
		return VQ_DEVICE_OK;
	}
	for (uint32_t i = 0; i < sizeof(bytes); i++) {
		p = vq_mem_translate(q->mem, &q->mem_hint, addr + i, &have);
		if (p == NULL)
			return VQ_CHAIN_ADDRESS;
		bytes[i] = *(const volatile uint8_t *)p;
	}
	memcpy(out, bytes, sizeof(bytes));
	return VQ_DEVICE_OK;
}

/* `steps` descriptors stand before the table; all together are no more than the ring has. */
static enum vq_device_fault
walk_table(struct vq_device *q, struct walk *w, const struct vq_desc *table, uint32_t steps)
{
	uint32_t n = table->len / sizeof(struct vq_desc);
	uint32_t i = 0;

	if (!q->indirect || (table->flags & VQ_DESC_NEXT) || n == 0 ||
		table->len % sizeof(struct vq_desc) != 0)
		return VQ_CHAIN_INDIRECT;
	if (table->addr + (table->len - 1) < table->addr)
		return VQ_CHAIN_ADDRESS;
	for (; steps < q->size; steps++) {
		enum vq_device_fault fault;
		struct vq_desc d;

		fault = read_entry(q, table->addr + (uint64_t)i * sizeof(d), &d);
		if (fault == VQ_DEVICE_OK && (d.flags & VQ_DESC_INDIRECT))
			fault = VQ_CHAIN_INDIRECT;
		if (fault == VQ_DEVICE_OK)
			fault = append(q, w, &d);
		if (fault != VQ_DEVICE_OK)
			return fault;
		if (!(d.flags & VQ_DESC_NEXT))
			return VQ_DEVICE_OK;
		i = d.next;
		if (i >= n)
			return VQ_CHAIN_NEXT;
	}
	return VQ_CHAIN_LOOP;
}

static enum vq_device_fault
walk_chain(struct vq_device *q, struct walk *w, struct vq_desc d)
{
	uint32_t steps;

	for (steps = 0; steps < q->size; steps++) {
		enum vq_device_fault fault;

		/* A table may end a direct chain; nothing may follow it. */
		if (d.flags & VQ_DESC_INDIRECT)
			return walk_table(q, w, &d, steps);
		fault = append(q, w, &d);
		if (fault != VQ_DEVICE_OK)
			return fault;
		if (!(d.flags & VQ_DESC_NEXT))
			return VQ_DEVICE_OK;
		if (d.next >= q->size)
			return VQ_CHAIN_NEXT;
		d = read_desc(&q->desc[d.next]);
	}
	return VQ_CHAIN_LOOP;
}

/*
 * Any shape. `steps` is what is left of the descriptors, `most`, that one batch may walk.
 * false: no room or no time left behind other chains, its turn comes with the next batch.
 */
static __attribute__((noinline)) bool
any_chain(struct vq_device *q, uint16_t direction, struct vq_desc d, struct vq_chain *c,
	struct vq_seg *segs, uint32_t nsegs, uint32_t *steps, uint32_t most)
{
	struct walk w = {
		.segs = segs + c->seg,
		.room = nsegs - c->seg < UINT16_MAX ? nsegs - c->seg : UINT16_MAX,
		.steps = *steps,
		.direction = direction,
	};
	const bool first = *steps == most;
	enum vq_device_fault fault = walk_chain(q, &w, d);

	q->walked += *steps - w.steps + 1;
	*steps = w.steps;
	if (w.len > UINT32_MAX)
		fault = VQ_CHAIN_SEGMENTS;
	if (fault == VQ_CHAIN_SEGMENTS &&
		((w.nseg == w.room && c->seg != 0) || (w.steps == 0 && !first)))
		return false;
	c->fault = (uint16_t)fault;
	if (fault != VQ_DEVICE_OK) {
		q->bad_chains[fault]++;
		w.nseg = 0;
		w.len = 0;
	}
	c->len = (uint32_t)w.len;
	c->nseg = (uint16_t)w.nseg;
	return true;
}

/* How many entries the driver has published that we have not taken, at most n. */
static uint32_t
readable(struct vq_device *q, uint32_t n)
{
	uint32_t have = (uint16_t)(q->avail_seen - q->avail_idx);
	uint32_t ours;

	if (have >= n)
		return n;
	q->avail_seen = vq_load_index(&q->avail->idx);
	have = (uint16_t)(q->avail_seen - q->avail_idx);
	/* What was not published is not the driver's to use again: so a turn has an end. */
	ours = q->outstanding + (uint32_t)(uint16_t)(q->used_idx - q->published);
	if (have + ours > q->size) {
		q->fault = VQ_RING_INDEX;
		return 0;
	}
	return have < n ? have : n;
}

/* A copy of the region that the last translation hit; of no bytes if there is none. */
static inline struct vq_mem_region
last_region(const struct vq_device *q)
{
	const struct vq_mem_region none = {0};

	return q->mem_hint < q->mem->count ? q->mem->regions[q->mem_hint] : none;
}

/*
 * How many of the next n entries name the descriptor of their own place, counted in fours and no
 * further than to the end of the ring. A driver that takes its chains back in order writes the same
 * entries lap after lap; then descriptors are known without looking up each.
 */
static inline uint32_t
in_place(const struct vq_device *q, uint32_t n)
{
	const uint64_t ones = UINT64_C(0x0001000100010001);
	const uint32_t at = q->avail_idx & q->mask;
	uint64_t want = at * ones + UINT64_C(0x0003000200010000);
	uint32_t i;

	if (n > q->size - at)
		n = q->size - at;
	for (i = 0; i + 4 <= n; i += 4, want += 4 * ones) {
		const struct once64 *four = (const void *)(uintptr_t)&q->avail->ring[at + i];

		if (four->v != want)
			break;
	}
	return i;
}

/*
 * The common shape: one descriptor, which lies whole within the region of the last translation.
 * @return where, or NULL: the long way
 */
static inline __attribute__((always_inline)) uint8_t *
whole(const struct vq_desc *d, const struct vq_mem_region *hot, const uint16_t direction)
{
	const uint64_t off = d->addr - hot->addr;
	uint64_t end;

	/* One after the other: each is a compare and a branch that is not taken. */
	if (__builtin_expect(d->flags != direction, 0))
		return NULL;
	if (__builtin_expect(__builtin_add_overflow(off, d->len, &end), 0))
		return NULL;
	if (__builtin_expect(end > hot->size, 0))
		return NULL;
	if (__builtin_expect(d->len == 0, 0))
		return NULL;
	return hot->host + off;
}

/*
 * Fetch the lines that are touched first: of a chain to read, where the packet begins; of one to
 * write, where the packet begins, where a short one ends, and the header, last because it is only
 * read where it lies on another line (put_single_header() in vq_net.c). They may lie behind the
 * chain: fetching reads nothing.
 */
static inline __attribute__((always_inline)) void
prefetch_chain(const uint8_t *base, uint32_t first_byte, const bool write)
{
	const uintptr_t at = (uintptr_t)base;

	if (write) {
		vq_prefetch_write(at + first_byte);
		vq_prefetch_write(at + first_byte + VQ_SHORT_PACKET - 1);
		vq_prefetch_read(at);
	} else {
		vq_prefetch_read(at + first_byte);
	}
}

/* A chain of one segment. */
static inline __attribute__((always_inline)) void
hand_out(struct vq_chain *c, uint32_t head, uint32_t seg, struct vq_seg *s, uint8_t *base,
	uint32_t len)
{
	s->base = base;
	s->len = len;
	c->len = len;
	c->seg = seg;
	c->nseg = 1;
	c->fault = VQ_DEVICE_OK;
	c->head = (uint16_t)head;
}

/* One instance a direction. */
static inline __attribute__((always_inline)) uint32_t
peek(struct vq_device *q, const bool write, struct vq_chain *chains, uint32_t nchains,
	struct vq_seg *segs, uint32_t nsegs, uint32_t seg)
{
	const uint16_t direction = write ? VQ_DESC_WRITE : 0;
	const uint32_t most = nsegs + STEPS_PER_CHAIN * nchains;
	const uint32_t first_byte = q->first_byte;
	const struct vq_desc *desc = q->desc;
	const uint32_t from = q->avail_idx;
	const uint32_t at = from & q->mask;
	struct vq_mem_region hot = last_region(q);
	uint32_t steps = most;
	uint32_t placed, i, n;

	n = readable(q, nchains);
	placed = in_place(q, n < nsegs - seg ? n : nsegs - seg);
	for (i = 0; i < placed; i += 4)
		__builtin_prefetch(&desc[at + i]);
	for (i = placed; i < n; i++) {
		uint16_t head = vq_load(&q->avail->ring[(from + i) & q->mask]);

		if (__builtin_expect(head > q->mask, 0)) {
			q->fault = VQ_RING_HEAD;
			n = i;
			break;
		}
		chains[i].head = head;
		__builtin_prefetch(&desc[head]);
	}
	for (i = 0; i < placed; i++) {
		const struct vq_desc d = read_desc(&desc[at + i]);
		uint8_t *base = whole(&d, &hot, direction);

		if (__builtin_expect(base == NULL, 0))
			break;
		hand_out(&chains[i], at + i, seg + i, &segs[seg + i], base, d.len);
		prefetch_chain(base, first_byte, write);
	}
	seg += i;
	for (; i < n; i++) {
		struct vq_chain *c = &chains[i];
		const uint32_t head = i < placed ? at + i : c->head;
		const struct vq_desc d = read_desc(&desc[head]);
		uint8_t *base = seg < nsegs ? whole(&d, &hot, direction) : NULL;

		if (__builtin_expect(base != NULL, 1)) {
			hand_out(c, head, seg, &segs[seg], base, d.len);
		} else {
			c->head = (uint16_t)head;
			c->seg = seg;
			if (!any_chain(q, direction, d, c, segs, nsegs, &steps, most))
				break;
			hot = last_region(q);
			if (c->nseg == 0)
				continue;
			base = segs[seg].base;
		}
		prefetch_chain(base, first_byte, write);
		seg += c->nseg;
	}
	q->avail_idx = (uint16_t)(from + i);
	q->outstanding = (uint16_t)(q->outstanding + i);
	return i;
}

uint32_t
vq_device_peek(struct vq_device *q, bool write, struct vq_chain *chains, uint32_t nchains,
	struct vq_seg *segs, uint32_t nsegs, uint32_t seg0)
{
	if (q->fault != VQ_DEVICE_OK)
		return 0;
	return write ? peek(q, true, chains, nchains, segs, nsegs, seg0)
		     : peek(q, false, chains, nchains, segs, nsegs, seg0);
}

void
vq_device_complete_tx(struct vq_device *q, const struct vq_chain *chains, uint32_t n)
{
	uint32_t i;

	if (n == 0)
		return;
	if (q->in_order) {
		vq_device_complete(q, chains[n - 1].head, 0);
		q->used_idx = (uint16_t)(q->used_idx + n - 1);
		q->outstanding = (uint16_t)(q->outstanding - (n - 1));
		return;
	}
	for (i = 0; i < n; i++)
		vq_device_complete(q, chains[i].head, 0);
}

/* The driver's wish, for everything published since the last decision. */
static enum vq_call
decide(struct vq_device *q)
{
	uint16_t old = q->call_idx;
	bool wanted;

	/* Held for longer than the index goes round; a driver that sleeps did so within a ring. */
	if (q->coalesce.pending > q->size)
		old = (uint16_t)(q->published - q->size);
	q->call_idx = q->published;
	vq_coalesce_done(&q->coalesce);
	vq_notify_fence();
	if (q->event_idx)
		wanted = vq_event_passed(
			vq_load(vq_used_event(q->avail, q->size)), q->published, old);
	else
		wanted = !(vq_load(&q->avail->flags) & VQ_AVAIL_NO_INTERRUPT);
	return wanted ? VQ_CALL_MAKE : VQ_CALL_SUPPRESSED;
}

enum vq_call
vq_device_call(struct vq_device *q, uint32_t n, uint64_t now)
{
	if (n != 0)
		vq_coalesce_add(&q->coalesce, n, now);
	else if (q->coalesce.pending == 0)
		return VQ_CALL_NONE;
	if (!vq_coalesce_due(&q->coalesce, now))
		return VQ_CALL_DEFERRED;
	return decide(q);
}

enum vq_call
vq_device_call_flush(struct vq_device *q)
{
	return q->coalesce.pending == 0 ? VQ_CALL_NONE : decide(q);
}

bool
vq_device_arm(struct vq_device *q)
{
	if (q->event_idx)
		vq_store(vq_avail_event(q->used, q->size), q->avail_idx);
	else
		vq_store(&q->used->flags, 0);
	vq_notify_fence();
	/* Of a broken queue nothing is ever taken: its worker may sleep. */
	return q->fault == VQ_DEVICE_OK && vq_load_index(&q->avail->idx) != q->avail_idx;
}

void
vq_device_ask(struct vq_device *q)
{
	if (q->event_idx)
		vq_store_unless_equal(vq_avail_event(q->used, q->size), q->avail_idx);
	else
		vq_store_unless_equal(&q->used->flags, 0);
}

void
vq_device_disarm(struct vq_device *q)
{
	if (q->event_idx)
		vq_store(vq_avail_event(q->used, q->size), (uint16_t)(q->avail_idx - 1));
	else
		vq_store_unless_equal(&q->used->flags, VQ_USED_NO_NOTIFY);
}
