/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The limit: what two CPUs can do at all with the frames of `pair`, over the barest ring that hands
 * over buffers of the guest's. A slot is pointer and length, written by the guest and, where the
 * host fills the buffer, the length by the host; each side publishes one index a burst. No ids, no
 * chains, nothing checked that the peer wrote, no features, no notifications.
 *
 * The copies are those of `pair`, one a frame, made by the host:
 *	tx	out of the guest's buffer into memory of the host's
 *	rx	out of memory of the host's into the guest's buffer
 *	loop	out of the buffer sent into a buffer posted
 * A packet header of zeros is written in front of a frame that goes in, as the host of a virtqueue
 * does (--no-header: not). --no-copy moves slots and indices alone and touches no frame.
 * The guest does what it does in `pair`: looks at the first line of what comes, writes two
 * addresses and the number of what it forwards (--write bytes of what it makes), takes buffers from
 * a pool, last in first out. Both fetch ahead what `pair` fetches. Prints million packets a second.
 */

#include <stdatomic.h>
#include <stdbool.h>

#include "args.h"
#include "cpu.h"
#include "packet.h"
#include "vq_order.h"

#define WARM_NS 20000000ull
#define OWN     252 /* frames in the host's memory */

const char program[] = "limit";

static const char usage[] =
	"usage: limit [--mode loop|tx|rx] [--size BYTES] [--ring N] [--turn N] [--burst N]\n"
	"             [--write BYTES] [--no-header] [--no-copy] [--cpus A,B] [--seconds S]\n";

struct slot {
	struct packet *packet;
	uint32_t len;
};

struct ring {
	_Alignas(BENCH_APART) _Atomic(uint32_t) guest; /* slots that the guest has handed over */
	_Alignas(BENCH_APART) _Atomic(uint32_t) host;  /* and the host given back */
	_Alignas(BENCH_APART) struct slot *slots;
	uint32_t size, mask;
};

/* One side's view of a ring. */
struct view {
	struct ring *r;
	uint32_t next;           /* slot to hand over (guest), to give back (host) */
	uint32_t back;           /* guest: slot to take back */
	uint32_t seen;           /* the peer's index when last read */
	struct packet **packets; /* guest: what is in each slot, not read from there */
};

struct options {
	enum mode mode;
	uint32_t size, ring, turn, burst, write;
	bool header, copy;
	int cpus[2];
	uint64_t run_ns;
};

enum phase {
	WARM,
	MEASURE,
	STOP,
};

static struct options o = {
	.size = 64,
	.ring = 1024,
	.turn = 64,
	.burst = 32,
	.write = 64,
	.header = true,
	.copy = true,
	.cpus = {0, 1},
	.run_ns = 1000000000ull,
};
static _Alignas(BENCH_APART) _Atomic(uint32_t) phase;
static struct ring tx_ring, rx_ring;

static _Alignas(BENCH_APART) struct {
	struct view tx, rx;
	struct pool pool;
	uint64_t sent, received, seq_next;
	uint64_t begin_ns, end_ns, begin_count, end_count;
	uint8_t front[FRAME_MAX];
} guest;

static _Alignas(BENCH_APART) struct {
	struct view tx, rx;
	struct packet *own;
	uint64_t seq_next;
} host;

static void __attribute__((noreturn)) fail(const char *what, uint64_t got, uint64_t expected)
{
	fprintf(stderr, "limit: the ring does not work: %s: %llu instead of %llu\n", what,
		(unsigned long long)got, (unsigned long long)expected);
	exit(1);
}

/* The guest. */

static inline void
hand_over(struct view *v, struct packet *m, uint32_t len)
{
	struct slot *s = &v->r->slots[v->next & v->r->mask];

	v->packets[v->next & v->r->mask] = m;
	/* What stands there already costs nothing: as our ring does it. */
	if (s->packet != m)
		s->packet = m;
	if (s->len != len)
		s->len = len;
	v->next++;
}

/* Slots that are going to be written soon. */
static inline void
expect_slots(const struct view *v, uint32_t n)
{
	for (uint32_t i = 0; i < n; i += 64 / sizeof(struct slot))
		vq_prefetch_write((uintptr_t)&v->r->slots[(v->next + i) & v->r->mask]);
}

static inline void
guest_publish(struct view *v)
{
	atomic_store_explicit(&v->r->guest, v->next, memory_order_release);
}

/* How many the host has given back, at most n. */
static inline uint32_t
given_back(struct view *v, uint32_t n)
{
	if (v->seen - v->back < n)
		v->seen = atomic_load_explicit(&v->r->host, memory_order_acquire);
	return v->seen - v->back < n ? v->seen - v->back : n;
}

static void
guest_post(void)
{
	struct view *v = &guest.rx;
	uint32_t want = o.ring - (v->next - v->back);

	if (want <= 32)
		return;
	for (; want != 0; want--) {
		struct packet *m;

		if (pool_get(&guest.pool, &m, 1) != 1)
			fail("buffers in the pool", 0, 1);
		hand_over(v, m, FRAME_MAX);
	}
	guest_publish(v);
}

static uint32_t
guest_receive(struct packet **packets)
{
	struct view *v = &guest.rx;
	uint32_t n = given_back(v, o.burst);

	expect_slots(v, o.burst);
	for (uint32_t i = 0; i < n; i++)
		vq_prefetch_write((uintptr_t)v->packets[(v->back + i) & v->r->mask]->data);
	for (uint32_t i = 0; i < n; i++) {
		packets[i] = v->packets[(v->back + i) & v->r->mask];
		packets[i]->len = v->r->slots[(v->back + i) & v->r->mask].len;
	}
	v->back += n;
	guest_post();
	for (uint32_t i = 0; i < n; i++) {
		uint64_t seq;

		if (packets[i]->len != o.size)
			fail("length of a frame", packets[i]->len, o.size);
		if (!o.copy)
			continue;
		seq = frame_seq(packets[i]->data);
		if (seq != guest.seq_next)
			fail("number at the guest", seq, guest.seq_next);
		guest.seq_next++;
		if (seq % CHECK_EVERY == 0 &&
			frame_check_body(packets[i]->data, 0, o.size) != o.size)
			fail("body of a frame", 0, 1);
	}
	guest.received += n;
	return n;
}

static void
guest_reap(void)
{
	struct view *v = &guest.tx;
	uint32_t n = given_back(v, o.ring);

	for (uint32_t i = 0; i < n; i++)
		pool_put(&guest.pool, &v->packets[(v->back + i) & v->r->mask], 1);
	v->back += n;
}

/* All of them, when there is room. */
static bool
guest_send(struct packet **packets, uint32_t n)
{
	struct view *v = &guest.tx;
	uint32_t room = o.ring - (v->next - v->back);

	expect_slots(v, n);
	if (room < o.ring / 4 || room < n) {
		guest_reap();
		if (o.ring - (v->next - v->back) < n)
			return false;
	}
	for (uint32_t i = 0; i < n; i++)
		hand_over(v, packets[i], packets[i]->len);
	guest_publish(v);
	guest.sent += n;
	return true;
}

static void
make_frames(struct packet **packets, uint32_t n)
{
	const uint32_t write = o.write < o.size ? o.write : o.size;

	for (uint32_t i = 0; i < n; i++) {
		packets[i]->len = o.size;
		if (!o.copy)
			continue;
		if (write == 64)
			memcpy(packets[i]->data, guest.front, 64);
		else
			memcpy(packets[i]->data, guest.front, write);
		frame_set_seq(packets[i]->data, guest.seq_next++);
	}
}

static void
guest_turn(void)
{
	static struct packet *held[BURST_MAX];
	static uint32_t nheld;

	switch (o.mode) {
	case MODE_LOOP:
		if (nheld == 0) {
			nheld = guest_receive(held);
			for (uint32_t i = 0; i < nheld && o.copy; i++)
				frame_turn_round(held[i]->data, guest.sent + i);
		}
		break;
	case MODE_TX:
		if (nheld == 0) {
			nheld = pool_get(&guest.pool, held, o.burst);
			make_frames(held, nheld);
		}
		break;
	case MODE_RX:
		pool_put(&guest.pool, held, guest_receive(held));
		return;
	}
	if (nheld != 0 && guest_send(held, nheld))
		nheld = 0;
}

/* The host. */

/* How many the guest has handed over, at most n. */
static inline uint32_t
handed_over(struct view *v, uint32_t n)
{
	if (v->seen - v->next < n)
		v->seen = atomic_load_explicit(&v->r->guest, memory_order_acquire);
	return v->seen - v->next < n ? v->seen - v->next : n;
}

static inline void
host_publish(struct view *v, uint32_t n)
{
	v->next += n;
	atomic_store_explicit(&v->r->host, v->next, memory_order_release);
}

static inline struct slot *
slot_at(const struct view *v, uint32_t i)
{
	return &v->r->slots[(v->next + i) & v->r->mask];
}

/* A length that the compiler knows, for the short frame. */
static inline void
copy(uint8_t *to, const uint8_t *from, uint32_t len)
{
	if (len == 64)
		memcpy(to, from, 64);
	else
		memcpy(to, from, len);
}

static void
put(uint32_t i, const uint8_t *from, uint32_t len)
{
	struct slot *s = slot_at(&host.rx, i);

	if (o.copy) {
		uint8_t *to = s->packet->data;

		if (o.header)
			memset(to - HDR_LEN, 0, HDR_LEN);
		copy(to, from, len);
	}
	if (s->len != len)
		s->len = len;
}

static void
host_turn(void)
{
	uint32_t n = o.turn;

	if (o.mode != MODE_RX)
		n = handed_over(&host.tx, n);
	if (o.mode != MODE_TX && n != 0)
		n = handed_over(&host.rx, n);
	if (n == 0)
		return;
	for (uint32_t i = 0; i < n && o.copy; i++) {
		if (o.mode != MODE_RX)
			__builtin_prefetch(slot_at(&host.tx, i)->packet->data);
		if (o.mode != MODE_TX) {
			const uintptr_t data = (uintptr_t)slot_at(&host.rx, i)->packet->data;

			vq_prefetch_write(data - HDR_LEN);
			vq_prefetch_write(data + 63);
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct slot *s = slot_at(&host.tx, i);

		switch (o.mode) {
		case MODE_LOOP:
			put(i, s->packet->data, s->len);
			break;
		case MODE_TX:
			if (!o.copy)
				break;
			copy(host.own[i].data, s->packet->data, s->len);
			if (frame_seq(host.own[i].data) != host.seq_next)
				fail("number at the host", frame_seq(host.own[i].data),
					host.seq_next);
			host.seq_next++;
			break;
		case MODE_RX: {
			uint8_t *frame = host.own[host.seq_next % OWN].data;

			if (o.copy)
				frame_set_seq(frame, host.seq_next);
			host.seq_next++;
			put(i, frame, o.size);
			break;
		}
		}
	}
	if (o.mode != MODE_TX)
		host_publish(&host.rx, n);
	if (o.mode != MODE_RX)
		host_publish(&host.tx, n);
}

/* Around both. */

static void
parse(int argc, char **argv)
{
	static const struct arg args[] = {
		{"mode", take_mode, &o.mode, VALUED},
		{"size", take_number, &o.size, VALUED, FRAME_MIN, FRAME_MAX},
		{"ring", take_power, &o.ring, VALUED, 2, 32768},
		{"turn", take_number, &o.turn, VALUED, 1, BURST_MAX},
		{"burst", take_number, &o.burst, VALUED, 1, BURST_MAX},
		{"write", take_number, &o.write, VALUED, FRAME_MIN, FRAME_MAX},
		{"no-header", take_flag, &o.header, false, false},
		{"no-copy", take_flag, &o.copy, false, false},
		{"cpus", take_cpus, o.cpus, VALUED},
		{"seconds", take_seconds, &o.run_ns, VALUED},
	};

	parse_args(args, sizeof(args) / sizeof(args[0]), usage, argc, argv);
	if (o.burst > o.ring)
		bad_use("--burst %u: more than the ring of %u", o.burst, o.ring);
}

static void
setup_ring(struct ring *r, struct view *g, struct view *h, struct slot *slots)
{
	r->slots = slots;
	r->size = o.ring;
	r->mask = o.ring - 1;
	g->r = h->r = r;
	g->packets = map_memory(program, o.ring * sizeof(g->packets[0]));
}

static void
setup(void)
{
	const uint32_t buffers = 2 * o.ring + 2 * BURST_MAX;
	const size_t slots_bytes = o.ring * sizeof(struct slot);
	uint8_t *memory =
		map_memory(program, 2 * slots_bytes + buffers * sizeof(struct packet) + 64);
	struct packet *packets = (void *)(memory + ((2 * slots_bytes + 63) & ~(size_t)63));

	setup_ring(&tx_ring, &guest.tx, &host.tx, (void *)memory);
	setup_ring(&rx_ring, &guest.rx, &host.rx, (void *)(memory + slots_bytes));
	guest.pool.free = map_memory(program, buffers * sizeof(packets));
	for (uint32_t i = 0; i < buffers; i++) {
		frame_fill_body(packets[i].data, 0, FRAME_MAX);
		guest.pool.free[guest.pool.nfree++] = &packets[buffers - 1 - i];
	}
	guest.pool.total = buffers;
	frame_fill_body(guest.front, 0, FRAME_MAX);
	host.own = map_memory(program, BURST_MAX * sizeof(*host.own));
	for (uint32_t i = 0; i < BURST_MAX; i++)
		frame_fill_body(host.own[i].data, 0, FRAME_MAX);
}

static void
run_phase(enum phase while_in, void (*turn)(void))
{
	while (atomic_load_explicit(&phase, memory_order_relaxed) == (uint32_t)while_in)
		turn();
}

static void *
guest_thread(void *arg)
{
	uint64_t *counter = o.mode == MODE_TX ? &guest.sent : &guest.received;

	(void)arg;
	stay_on_cpu(program, o.cpus[0]);
	if (o.mode != MODE_TX)
		guest_post();
	/* As many as `pair` has under way. */
	for (uint32_t i = o.ring - (o.ring < 64 ? o.ring : 64) / 2; o.mode == MODE_LOOP && i != 0;
		i--) {
		struct packet *m;

		if (pool_get(&guest.pool, &m, 1) != 1)
			fail("buffers to begin with", 0, 1);
		m->len = o.size;
		frame_set_seq(m->data, guest.sent);
		(void)guest_send(&m, 1);
	}
	run_phase(WARM, guest_turn);
	guest.begin_ns = now_ns();
	guest.begin_count = *counter;
	run_phase(MEASURE, guest_turn);
	guest.end_ns = now_ns();
	guest.end_count = *counter;
	return NULL;
}

static void *
host_thread(void *arg)
{
	(void)arg;
	stay_on_cpu(program, o.cpus[1]);
	run_phase(WARM, host_turn);
	run_phase(MEASURE, host_turn);
	return NULL;
}

int
main(int argc, char **argv)
{
	pthread_t threads[2];

	parse(argc, argv);
	setup();
	if (pthread_create(&threads[0], NULL, guest_thread, NULL) != 0 ||
		pthread_create(&threads[1], NULL, host_thread, NULL) != 0) {
		fprintf(stderr, "limit: cannot start a thread\n");
		return 1;
	}
	sleep_ns(WARM_NS);
	atomic_store(&phase, MEASURE);
	sleep_ns(o.run_ns);
	atomic_store(&phase, STOP);
	pthread_join(threads[0], NULL);
	pthread_join(threads[1], NULL);
	printf("%.4f\n", (double)(guest.end_count - guest.begin_count) * 1e3 /
				 (double)(guest.end_ns - guest.begin_ns));
	return 0;
}
