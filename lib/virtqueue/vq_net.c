/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>

#include "vq_net.h"

struct vq_net_burst *
vq_net_burst_create(uint32_t burst, uint32_t nsegs)
{
	struct vq_net_burst *b = calloc(1, sizeof(*b));

	if (b == NULL)
		return NULL;
	b->burst = burst;
	b->nsegs = nsegs;
	b->chains = calloc(burst, sizeof(*b->chains));
	b->segs = calloc(nsegs, sizeof(*b->segs));
	b->frames = calloc(burst, sizeof(*b->frames));
	/* Whole lines: a head is copied to and from at once. */
	b->heads = aligned_alloc(VQ_NET_HEAD, (size_t)burst * VQ_NET_HEAD);
	if (b->chains == NULL || b->segs == NULL || b->frames == NULL || b->heads == NULL) {
		vq_net_burst_destroy(b);
		return NULL;
	}
	return b;
}

void
vq_net_burst_destroy(struct vq_net_burst *b)
{
	if (b == NULL)
		return;
	free(b->chains);
	free(b->segs);
	free(b->frames);
	free(b->heads);
	free(b);
}

void
vq_frame_read(const struct vq_frame *f, uint32_t off, void *to, uint32_t len)
{
	const struct vq_seg *s = f->segs;
	uint8_t *out = to;
	uint32_t pos;

	if (off < f->head_len) {
		uint32_t n = f->head_len - off < len ? f->head_len - off : len;

		/* All of it is the common case, and no call. */
		if (__builtin_expect(n == VQ_NET_HEAD, 1))
			memcpy(out, f->head, VQ_NET_HEAD);
		else
			memcpy(out, f->head + off, n);
		out += n;
		off += n;
		len -= n;
	}
	if (len == 0)
		return;
	pos = f->skip + off;
	while (pos >= s->len)
		pos -= (s++)->len;
	for (;;) {
		uint32_t n = s->len - pos < len ? s->len - pos : len;

		memcpy(out, s->base + pos, n);
		out += n;
		len -= n;
		if (len == 0)
			return;
		pos = 0;
		s++;
	}
}

/* See a transmit chain as a frame behind its header, and take the private copy of its first bytes.
 */
static __attribute__((noinline)) void
view_any(const struct vq_chain *c, const struct vq_seg *segs, uint32_t hdr_len, struct vq_frame *f,
	uint8_t *head)
{
	const struct vq_seg *s = segs + c->seg;
	uint32_t nseg = c->nseg;
	uint32_t skip = hdr_len;

	f->head_len = 0;
	f->len = 0;
	if (c->fault != VQ_DEVICE_OK) {
		f->status = VQ_NET_BAD_CHAIN;
		return;
	}
	if (c->len < hdr_len + VQ_NET_FRAME_MIN) {
		f->status = VQ_NET_RUNT;
		return;
	}
	while (skip >= s->len) {
		skip -= s->len;
		s++;
		nseg--;
	}
	f->status = VQ_NET_OK;
	f->segs = s;
	f->nseg = nseg;
	f->skip = skip;
	f->len = c->len - hdr_len;
	f->head = head;
	vq_frame_read(f, 0, head, f->len < VQ_NET_HEAD ? f->len : VQ_NET_HEAD);
	f->head_len = f->len < VQ_NET_HEAD ? (uint16_t)f->len : VQ_NET_HEAD;
}

/* The common shape: header and frame in one piece, the frame no shorter than a head. */
static inline void
view(const struct vq_chain *c, const struct vq_seg *segs, uint32_t hdr_len, struct vq_frame *f,
	uint8_t *head)
{
	const struct vq_seg *s = segs + c->seg;

	if (__builtin_expect(c->nseg != 1 || c->len < hdr_len + VQ_NET_HEAD, 0)) {
		view_any(c, segs, hdr_len, f, head);
		return;
	}
	memcpy(head, s->base + hdr_len, VQ_NET_HEAD);
	*f = (struct vq_frame){
		.head = head,
		.segs = s,
		.len = c->len - hdr_len,
		.skip = hdr_len,
		.nseg = 1,
		.head_len = VQ_NET_HEAD,
		.status = VQ_NET_OK,
	};
}

uint32_t
vq_net_take(struct vq_device *q, struct vq_net_burst *b, uint32_t n, uint32_t hdr_len)
{
	uint32_t i;

	n = vq_device_peek(q, false, b->chains, n, b->segs, b->nsegs, 0);
	for (i = 0; i < n; i++)
		view(&b->chains[i], b->segs, hdr_len, &b->frames[i], b->heads[i]);
	return n;
}

uint32_t
vq_net_release(struct vq_device *q, const struct vq_net_burst *b, uint32_t n)
{
	vq_device_complete_tx(q, b->chains, n);
	return vq_device_publish(q);
}

/* Where the next byte of a frame goes: a position in the receive chains. */
struct sink {
	struct vq_seg *seg;
	uint32_t off;
};

static inline void
sink_write(struct sink *to, const uint8_t *from, uint32_t len)
{
	while (len != 0) {
		uint32_t room = to->seg->len - to->off;
		uint32_t n;

		if (room == 0) {
			to->seg++;
			to->off = 0;
			continue;
		}
		n = room < len ? room : len;
		/* A guest that gets its own frames back may have them lie in these buffers. */
		memmove(to->seg->base + to->off, from, n);
		to->off += n;
		from += n;
		len -= n;
	}
}

/* The one copy: a frame from wherever it lies into receive buffers. */
static void
copy_frame(struct sink *to, const struct vq_frame *f, struct vq_net_copied *copied)
{
	uint32_t left = f->len - f->head_len;
	uint32_t pos = f->skip + f->head_len;
	const struct vq_seg *s = f->segs;

	copied->copied += f->len;
	sink_write(to, f->head, f->head_len);
	if (left == 0)
		return;
	while (pos >= s->len)
		pos -= (s++)->len;
	for (;;) {
		uint32_t n = s->len - pos < left ? s->len - pos : left;

		sink_write(to, s->base + pos, n);
		left -= n;
		if (left == 0)
			return;
		pos = 0;
		s++;
	}
}

/* The header before a packet that takes `buffers` buffers; no offload is offered, so all else is 0.
 */
static inline void
make_header(uint8_t hdr[VQ_NET_HDR_MAX], uint32_t hdr_len, uint32_t buffers)
{
	const struct vq_net_hdr h = {.num_buffers = (uint16_t)buffers};

	memset(hdr, 0, VQ_NET_HDR_MAX);
	if (hdr_len >= sizeof(h))
		memcpy(hdr, &h, sizeof(h));
}

/* Receive chains that were peeked and not used yet: a window that moves over the ring. */
struct window {
	struct vq_device *q;
	struct vq_net_burst *b;
	uint32_t hdr_len;
	uint32_t least;    /* bytes that the first chain of a packet must have */
	uint32_t first;    /* oldest unused chain in b->chains */
	uint32_t end;      /* behind the newest */
	uint32_t ahead;    /* chains worth peeking for at once */
	uint64_t walk_end; /* q->walked from which on no more is peeked in this call */
};

/*
 * Descriptors that one call walks: as many as the segments of its frames, and some. Only malformed
 * chains and empty buffers come to more, and they may not cost other guests the time of a worker.
 */
static uint64_t
walk_end(const struct vq_device *q, const struct vq_net_burst *b, uint32_t n)
{
	return q->walked + (uint64_t)b->nsegs * (n + 1) + 16 * b->burst;
}

/* Peek more chains; makes room by moving what is unused to the front. */
static bool
window_grow(struct window *w)
{
	struct vq_net_burst *b = w->b;
	uint32_t seg = 0, n, want;

	if (w->q->walked >= w->walk_end)
		return false;
	if (w->first == w->end) {
		w->first = w->end = 0;
	} else if (w->first != 0) {
		uint32_t from = b->chains[w->first].seg;
		const struct vq_chain *last = &b->chains[w->end - 1];

		memmove(b->segs, b->segs + from,
			(last->seg + last->nseg - from) * sizeof(*b->segs));
		memmove(b->chains, b->chains + w->first, (w->end - w->first) * sizeof(*b->chains));
		w->end -= w->first;
		w->first = 0;
		for (uint32_t i = 0; i < w->end; i++)
			b->chains[i].seg -= from;
	}
	if (w->end != 0)
		seg = b->chains[w->end - 1].seg + b->chains[w->end - 1].nseg;
	want = w->ahead > w->end ? w->ahead - w->end : 1;
	if (want > b->burst - w->end)
		want = b->burst - w->end;
	if (want == 0)
		return false;
	n = vq_device_peek(w->q, true, b->chains + w->end, want, b->segs, b->nsegs, seg);
	w->end += n;
	return n != 0;
}

/*
 * A packet cannot begin in a malformed chain, nor in one that does not hold its header (without
 * MRG_RXBUF: the shortest frame with it): completed with 0 as soon as it is the oldest.
 */
static void
window_drop_bad(struct window *w)
{
	while (w->first < w->end) {
		const struct vq_chain *c = &w->b->chains[w->first];

		if (c->fault == VQ_DEVICE_OK) {
			if (c->len >= w->least)
				return;
			w->q->bad_chains[VQ_CHAIN_SHORT]++;
		}
		vq_device_complete(w->q, c->head, 0);
		w->first++;
	}
}

/* The shortage behind a window that would not grow. */
static enum vq_net_status
shortage(const struct window *w)
{
	if (w->q->fault != VQ_DEVICE_OK)
		return VQ_NET_BROKEN;
	if (w->q->walked >= w->walk_end)
		return VQ_NET_NO_BUFFERS;
	/* All the ring, or all that this working space can ever hold of it, and still too small. */
	if (w->end - w->first == w->q->size || w->end - w->first == w->b->burst ||
		w->q->avail_seen != w->q->avail_idx)
		return VQ_NET_TOO_BIG;
	return VQ_NET_NO_BUFFERS;
}

/*
 * Find the chains for a frame at the front of the window: *n of them from w->first. A malformed
 * chain may stand among them; it takes no bytes but counts as a buffer, so that the driver stays in
 * step.
 */
static inline enum vq_net_status
reserve(struct window *w, uint32_t frame_len, bool mergeable, uint32_t *n)
{
	uint64_t total = (uint64_t)w->hdr_len + frame_len;
	uint64_t have = 0;
	uint32_t count = 0;

	window_drop_bad(w);
	for (;;) {
		while (w->first + count < w->end) {
			have += w->b->chains[w->first + count].len;
			count++;
			if (have >= total) {
				*n = count;
				return VQ_NET_OK;
			}
			if (!mergeable)
				return VQ_NET_TOO_BIG;
		}
		if (!window_grow(w))
			return shortage(w);
		if (count == 0)
			window_drop_bad(w);
	}
}

/* Write header and frame over the n chains at the front of the window and complete them. */
static void
fill(struct window *w, const struct vq_frame *f, uint32_t n, struct vq_net_copied *copied)
{
	struct vq_chain *c = &w->b->chains[w->first];
	uint8_t hdr[VQ_NET_HDR_MAX];
	uint32_t left = w->hdr_len + f->len;
	struct sink to;
	uint32_t i;

	make_header(hdr, w->hdr_len, n);
	/* The segments of consecutive chains are consecutive. */
	to.seg = &w->b->segs[c->seg];
	to.off = 0;
	sink_write(&to, hdr, w->hdr_len);
	copy_frame(&to, f, copied);
	copied->delivered += f->len;
	for (i = 0; i < n; i++) {
		uint32_t len = c[i].len < left ? c[i].len : left;

		vq_device_complete(w->q, c[i].head, len);
		left -= len;
	}
	w->first += n;
}

/*
 * The header of a frame in one buffer, as make_header() has it. Written only where it differs: with
 * drivers that keep it on a line in front of the packet's, that line stays where it is.
 */
static inline void
put_single_header(uint8_t *to, uint32_t hdr_len)
{
	static const struct vq_net_hdr h = {.num_buffers = 1};
	const uint64_t zero = 0;
	uint8_t any[VQ_NET_HDR_MAX];
	uint64_t head;
	uint32_t tail, one;

	if (hdr_len == sizeof(h)) {
		memcpy(&head, to, sizeof(head));
		memcpy(&tail, to + sizeof(head), sizeof(tail));
		memcpy(&one, (const uint8_t *)&h + sizeof(head), sizeof(one));
		if (head != zero)
			memcpy(to, &zero, sizeof(zero));
		if (tail != one)
			memcpy(to + sizeof(head), &one, sizeof(one));
		return;
	}
	make_header(any, hdr_len, 1);
	memcpy(to, any, hdr_len);
}

/*
 * Frames of the common shape, as many as come in a row: each fits one chain of one segment, and
 * what is not in its head lies in one piece. Header and frame are written together, to one place.
 * Where the queue stands is written with each frame: the next copy may fault.
 * @return how many
 */
static inline __attribute__((always_inline)) uint32_t
fill_run(struct window *w, const struct vq_frame *const *frames, uint32_t n, uint8_t *status,
	struct vq_net_copied *copied, const uint32_t hdr_len)
{
	const struct vq_chain *c = &w->b->chains[w->first];
	const struct vq_seg *segs = w->b->segs;
	struct vq_device *q = w->q;
	struct vq_used_elem *used = q->used->ring;
	const uint32_t mask = q->mask;
	uint32_t used_idx = q->used_idx;
	uint32_t outstanding = q->outstanding;
	uint32_t i;

	if (n > w->end - w->first)
		n = w->end - w->first;
	for (i = 0; i < n; i++, c++) {
		const struct vq_frame *f = frames[i];
		const uint32_t frame_len = f->len;
		const uint32_t head_len = f->head_len;
		const uint64_t len = (uint64_t)frame_len + hdr_len;
		uint8_t *to;

		if (__builtin_expect(c->nseg != 1 || c->len < len, 0))
			break;
		to = segs[c->seg].base;
		if (frame_len != head_len && f->segs->len < (uint64_t)f->skip + frame_len)
			break;
		put_single_header(to, hdr_len);
		to += hdr_len;
		if (__builtin_expect(head_len == VQ_NET_HEAD, 1))
			memcpy(to, f->head, VQ_NET_HEAD);
		else if (head_len != 0)
			memcpy(to, f->head, head_len);
		if (frame_len != head_len)
			memmove(to + head_len, f->segs->base + f->skip + head_len,
				frame_len - head_len);
		vq_device_set_used(&used[used_idx & mask], c->head, (uint32_t)len);
		copied->copied += frame_len;
		copied->delivered += frame_len;
		q->used_idx = (uint16_t)++used_idx;
		q->outstanding = (uint16_t)--outstanding;
		status[i] = VQ_NET_OK;
	}
	w->first += i;
	return i;
}

uint32_t
vq_net_put(struct vq_device *q, struct vq_net_burst *b, const struct vq_frame *const *frames,
	uint32_t n, uint32_t hdr_len, bool mergeable, uint8_t *status, struct vq_net_copied *copied)
{
	struct window w = {.q = q,
		.b = b,
		.hdr_len = hdr_len,
		.least = hdr_len + (mergeable ? 0 : VQ_NET_FRAME_MIN),
		.ahead = n,
		.walk_end = walk_end(q, b, n)};
	uint32_t i;

	(void)window_grow(&w);
	for (i = 0; i < n; i++) {
		enum vq_net_status result;
		uint32_t buffers = 0;

		i += hdr_len == sizeof(struct vq_net_hdr)
			     ? fill_run(&w, frames + i, n - i, status + i, copied,
				       sizeof(struct vq_net_hdr))
			     : fill_run(&w, frames + i, n - i, status + i, copied, hdr_len);
		if (i == n)
			break;
		/* Peek for one buffer a frame; what a frame needs beyond comes as it goes. */
		w.ahead = n - i;
		result = reserve(&w, frames[i]->len, mergeable, &buffers);
		if (result == VQ_NET_OK)
			fill(&w, frames[i], buffers, copied);
		status[i] = (uint8_t)result;
	}
	window_drop_bad(&w);
	/* What goes back comes again, and is counted then. */
	for (i = w.first; i < w.end; i++)
		if (b->chains[i].fault != VQ_DEVICE_OK)
			q->bad_chains[b->chains[i].fault]--;
	vq_device_rewind(q, w.end - w.first);
	return vq_device_publish(q);
}
