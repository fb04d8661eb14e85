/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The turn of a switch's worker, as it is in the switch, over guests of this process, in one
 * thread: made for counting instructions (instr.py), and for what a clock says of costs that grow.
 * Guest 0 sends to the others that are busy, which send back what they get; all other guests are
 * there and do nothing. Prints what was counted, and at the end one number: millions of packets a
 * second of the turns alone. `turn --help` lists the options.
 */

#include <rte_cycles.h>

#include "pair.h"
#include "turn_board.h"

/* Turns after which a frame that was not lost has come back. */
#define DRAIN_TURNS 100000
/* As many as testpmd has by default, about. */
#define MBUFS 16384
/* The clock counts in slices, of which the first are to warm up and the median counts: whatever
 * takes the CPU away meanwhile makes a few of them longer. */
#define SLICES 64
#define WARM   8

const char program[] = "turn";

static const char usage[] =
	"usage: turn [--ports N] [--destinations N] [--addresses N] [--size BYTES] [--ring N]\n"
	"            [--burst N] [--loopback on|mbuf] [--no-in-order] [--no-mrg] [--packets N]\n"
	"            [--by-turns]\n"
	"  --ports         guests, 2..64 (2)\n"
	"  --destinations  guests that guest 0 sends to in turns (1)\n"
	"  --addresses     learned, shared between the busy guests (one each)\n"
	"  --burst         packets that a guest handles at a time, 1..256 (32)\n"
	"  --loopback      guest 0 gets its own frames back, and is alone busy; mbuf: two copies\n"
	"  --packets       that the worker takes (1000000)\n"
	"  --by-turns      quiet guests wait for their turn, however long turns take: no clock\n";

struct turn {
	struct options o; /* of every guest */
	uint32_t ports;
	uint32_t destinations;
	uint32_t addresses; /* in all; 0: one for each that is busy */
	enum loopback loopback;
	uint32_t busy; /* guests, from number 0 on */
	uint32_t each; /* addresses of each */
	struct board board;
	struct pair guests[PORTS_MAX];
	/* What each has sent that was given addresses: entries of the available ring, and frames.
	 */
	uint16_t addressed[PORTS_MAX];
	uint64_t frames[PORTS_MAX];
	double slices[SLICES];
	bool by_turns; /* the clock decides nothing */
};

static void
fail(const char *what)
{
	fprintf(stderr, "turn: %s\n", what);
	exit(1);
}

static void
take_loopback(const struct arg *arg, const char *text)
{
	const bool mbuf = strcmp(text, "mbuf") == 0;

	if (!mbuf && strcmp(text, "on") != 0)
		bad_use("--%s %s: not on or mbuf", arg->name, text);
	*(enum loopback *)arg->to = mbuf ? LOOPBACK_MBUF : LOOPBACK_ON;
}

static void
take_packets(const struct arg *arg, const char *text)
{
	*(uint64_t *)arg->to = parse_number(arg->name, text, 8192, UINT32_MAX);
}

static void
parse(struct turn *t, int argc, char **argv)
{
	const struct arg args[] = {
		{"ports", take_number, &t->ports, VALUED, 2, PORTS_MAX},
		{"destinations", take_number, &t->destinations, VALUED, 1, PORTS_MAX - 1},
		{"addresses", take_number, &t->addresses, VALUED, 1, ADDRESSES_MAX},
		{"size", take_number, &t->o.size, VALUED, FRAME_MIN, FRAME_MAX},
		{"ring", take_power, &t->o.ring, VALUED, 64, VQ_SIZE_MAX},
		{"burst", take_number, &t->o.burst, VALUED, 1, BURST_MAX},
		{"loopback", take_loopback, &t->loopback, VALUED},
		{"no-in-order", take_bits, &t->o.features, false, 0, VQ_FEATURE(IN_ORDER)},
		{"no-mrg", take_bits, &t->o.features, false, 0, VQ_FEATURE(MRG_RXBUF)},
		{"packets", take_packets, &t->o.packets, VALUED},
		{"by-turns", take_flag, &t->by_turns, false, true},
	};

	t->o = (struct options){
		.mode = MODE_LOOP,
		.size = 64,
		.ring = 256,
		.burst = 32,
		.features = VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(IN_ORDER),
		.packets = 1000000,
	};
	t->ports = 2;
	t->destinations = 1;
	parse_args(args, sizeof(args) / sizeof(args[0]), usage, argc, argv);
	if (t->destinations >= t->ports)
		bad_use("--destinations %u: with --ports %u at most %u", t->destinations, t->ports,
			t->ports - 1);
	t->busy = t->loopback != LOOPBACK_OFF ? 1 : 1 + t->destinations;
	t->each = t->addresses / t->busy > 0 ? t->addresses / t->busy : 1;
	/* What circulates finds a buffer, also when all of it is with one guest. */
	t->o.in_flight = t->o.ring - VQ_REFILL_BUDGET_DEFAULT / 2;
	if (t->busy == 2)
		t->o.in_flight /= 2;
	t->o.any_order = t->busy > 2;
}

static uint64_t
mac_of(uint32_t port, uint32_t i)
{
	return UINT64_C(2) | (uint64_t)port << 8 | (uint64_t)i << 16;
}

static void
put_mac(uint8_t *to, uint64_t mac)
{
	memcpy(to, &mac, 6);
}

static void
make_switch(struct turn *t)
{
	static struct switch_config config;
	struct board *b = &t->board;
	uint32_t i, k;

	config.nports = t->ports;
	config.addresses = RTE_MAX(t->addresses, (uint32_t)ADDRESSES_DEFAULT);
	config.ports[0].loopback = t->loopback;
	if (board_eal("turn", 256) < 0 || board_init(b, &config) < 0)
		fail("no memory for the switch");
	if (t->loopback == LOOPBACK_MBUF && board_pool(b, MBUFS) < 0)
		fail("no memory for mbufs");
	for (i = 0; i < t->ports; i++) {
		struct pair *g = &t->guests[i];

		g->o = t->o;
		pair_setup(g);
		b->ports[i] = (struct board_port){
			&g->device.rx, &g->device.tx, g->device.mem, t->o.features};
	}
	if (board_publish(b) < 0)
		fail("no memory for a view");
	if (t->by_turns)
		b->workers[0]->quiet = UINT64_MAX;
	for (i = 0; i < t->busy; i++)
		for (k = 0; k < t->each; k++)
			if (board_learn(b, mac_of(i, k), i) < 0)
				bad_use("--addresses %u: more than the table takes", t->addresses);
}

/* Give addresses to what guest i has posted since the last time: all of its own and of the others',
 * in an order that no prefetcher knows. */
static void
address_frames(struct turn *t, uint32_t i)
{
	const struct pair *g = &t->guests[i];
	const struct vq_driver *q = &g->driver.tx;

	for (; t->addressed[i] != q->avail_idx; t->addressed[i]++) {
		const uint16_t id = q->avail->ring[t->addressed[i] & q->mask];
		uint8_t *frame = (uint8_t *)(uintptr_t)(q->desc[id].addr - g->guest_base) + HDR_LEN;
		const uint64_t n = t->frames[i]++;
		const uint32_t to =
			i != 0 || t->busy == 1 ? 0 : 1 + (uint32_t)(n % t->destinations);
		const uint32_t of = (uint32_t)((n / t->destinations * 2654435761u) % t->each);

		put_mac(frame, mac_of(to, of));
		put_mac(frame + 6, mac_of(i, (t->each - 1 - of)));
	}
}

static uint64_t
taken(const struct turn *t)
{
	return atomic_load_explicit(&t->board.workers[0]->packets, memory_order_relaxed);
}

/* @return ticks a packet, in turns, of all until so many packets have been taken */
static double
run_until(struct turn *t, uint64_t packets)
{
	const uint64_t before = taken(t);
	uint64_t ticks = 0, from;
	uint32_t i;

	while (taken(t) < packets) {
		for (i = 0; i < t->busy; i++) {
			driver_turn(&t->guests[i]);
			address_frames(t, i);
		}
		from = rte_rdtsc();
		(void)board_turn(&t->board);
		ticks += rte_rdtsc() - from;
	}
	return taken(t) != before ? (double)ticks / (double)(taken(t) - before) : 0;
}

static int
compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Let the guests take what is under way, then look whether all of it has come. */
static void
drain(struct turn *t)
{
	uint64_t sent, received;
	uint32_t turns = 0, i;

	do {
		if (turns++ == DRAIN_TURNS)
			fail("frames were lost");
		(void)board_turn(&t->board);
		sent = received = 0;
		for (i = 0; i < t->busy; i++) {
			struct driver_end *d = &t->guests[i].driver;

			(void)driver_drain(&t->guests[i]);
			sent += d->sent;
			received += d->received;
		}
	} while (sent != received || taken(t) != sent);
}

static void
count_one(void *cookie, void *arg)
{
	*(uint32_t *)arg += cookie != NULL;
}

static void
check(struct turn *t)
{
	uint64_t sum[COUNTERS] = {0};
	uint32_t i;

	for (i = 0; i < t->ports; i++) {
		struct pair *g = &t->guests[i];
		uint32_t posted = 0;

		stats_add_port(&t->board.sw.stats, i, sum);
		if (g->device.tx.fault != VQ_DEVICE_OK || g->device.rx.fault != VQ_DEVICE_OK ||
			g->driver.tx.fault != VQ_DRIVER_OK || g->driver.rx.fault != VQ_DRIVER_OK)
			fail("a ring is broken");
		(void)vq_driver_detach_all(&g->driver.rx, count_one, &posted);
		if (g->driver.pool.nfree + posted != g->driver.pool.total)
			fail("a guest has lost buffers");
	}
	if (ledger_difference(sum) != 0 || ledger_dropped(sum) != 0 ||
		sum[COUNT_RX_PACKETS] != taken(t) || sum[COUNT_TX_PACKETS] != taken(t) ||
		sum[COUNT_TX_BYTES] != taken(t) * t->o.size)
		fail("the ledger is wrong");
}

int
main(int argc, char **argv)
{
	static struct turn turn;
	struct turn *t = &turn;
	uint32_t i;

	parse(t, argc, argv);
	make_switch(t);
	for (i = 0; i < t->busy && (i == 0 || t->busy == 2); i++)
		driver_prime(&t->guests[i]);
	for (i = 0; i < t->busy; i++)
		address_frames(t, i);
	for (i = 0; i < SLICES; i++)
		t->slices[i] = run_until(t, t->o.packets * (i + 1) / SLICES);
	qsort(t->slices + WARM, SLICES - WARM, sizeof(t->slices[0]), compare);
	drain(t);
	check(t);
	printf("%llu packets, %llu turns\n%.4f\n", (unsigned long long)taken(t),
		(unsigned long long)atomic_load(&t->board.workers[0]->turns),
		(double)rte_get_tsc_hz() / t->slices[(WARM + SLICES) / 2] / 1e6);
	return 0;
}
