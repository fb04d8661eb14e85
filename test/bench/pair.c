/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * Both ends of lib/virtqueue on two CPUs, or in turns on one. Prints one number: millions of
 * packets a second. `pair --help` lists the options.
 *
 * For another tree of the library than this one, L:
 *	gcc -O3 -march=native -std=c11 -D_GNU_SOURCE -fno-strict-aliasing -pthread \
 *		-I L/lib/virtqueue test/bench/pair*.c L/lib/virtqueue/vq_*.c -o pair
 */

#include "pair.h"

#define WARM_NS  20000000ull
#define DRAIN_NS 2000000000ull

const char program[] = "pair";

static const char usage[] =
	"usage: pair [--mode loop|tx|rx] [--size BYTES|imix] [--ring N] [--turn N] [--burst N]\n"
	"            [--no-in-order] [--no-mrg] [--event-idx] [--chain] [--indirect]\n"
	"            [--read-header] [--write BYTES] [--in-flight N] [--cpus A,B]\n"
	"            [--seconds S | --packets N] [--one-thread]\n"
	"  --turn       frames that the device takes at a time, 1..256 (64)\n"
	"  --burst      packets that the driver handles at a time, 1..256 (32)\n"
	"  --chain      the header in a descriptor of its own; --indirect: through a table\n"
	"  --write      bytes of a frame that the driver writes in tx mode (64)\n"
	"  --in-flight  packets that circulate in loop mode (as many as surely fit)\n";

static void
take_size(const struct arg *arg, const char *text)
{
	const bool imix = strcmp(text, "imix") == 0;

	*(uint32_t *)arg->to = imix ? 0 : parse_number(arg->name, text, FRAME_MIN, FRAME_MAX);
}

static void
take_indirect(const struct arg *arg, const char *text)
{
	struct options *o = arg->to;

	(void)text;
	o->chain = true;
	o->features |= VQ_FEATURE(INDIRECT_DESC);
}

static void
take_packets(const struct arg *arg, const char *text)
{
	struct options *o = arg->to;

	o->packets = parse_number(arg->name, text, 1, UINT32_MAX);
	o->run_ns = 0;
}

/* So many circulating packets that the receive ring has a buffer for each whatever the driver's
 * refill rule leaves out, and the transmit ring has room. */
static uint32_t
most_in_flight(const struct options *o)
{
	uint32_t budget = o->ring < VQ_REFILL_BUDGET_DEFAULT ? o->ring : VQ_REFILL_BUDGET_DEFAULT;
	uint32_t posted = o->ring - budget / 2;
	uint32_t room =
		o->chain && !(o->features & VQ_FEATURE(INDIRECT_DESC)) ? o->ring / 2 : o->ring;

	return posted < room ? posted : room;
}

static void
parse(struct options *o, int argc, char **argv)
{
	const struct arg args[] = {
		{"mode", take_mode, &o->mode, VALUED},
		{"size", take_size, &o->size, VALUED},
		{"ring", take_power, &o->ring, VALUED, 2, VQ_SIZE_MAX},
		{"turn", take_number, &o->turn, VALUED, 1, BURST_MAX},
		{"burst", take_number, &o->burst, VALUED, 1, BURST_MAX},
		{"no-in-order", take_bits, &o->features, false, 0, VQ_FEATURE(IN_ORDER)},
		{"no-mrg", take_bits, &o->features, false, 0, VQ_FEATURE(MRG_RXBUF)},
		{"event-idx", take_bits, &o->features, false, VQ_FEATURE(EVENT_IDX), 0},
		{"chain", take_flag, &o->chain, false, true},
		{"indirect", take_indirect, o},
		{"read-header", take_flag, &o->read_header, false, true},
		{"write", take_number, &o->write, VALUED, FRAME_MIN, FRAME_MAX},
		{"in-flight", take_number, &o->in_flight, VALUED, 1, VQ_SIZE_MAX},
		{"cpus", take_cpus, o->cpus, VALUED},
		{"seconds", take_seconds, &o->run_ns, VALUED},
		{"packets", take_packets, o, VALUED},
		{"one-thread", take_flag, &o->one_thread, false, true},
	};

	*o = (struct options){
		.size = 64,
		.ring = 1024,
		.turn = 64,
		.burst = 32,
		.write = 64,
		.features = VQ_FEATURE(VERSION_1) | VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(IN_ORDER),
		.cpus = {0, 1},
		.run_ns = 1000000000ull,
	};
	parse_args(args, sizeof(args) / sizeof(args[0]), usage, argc, argv);
	if (o->in_flight == 0)
		o->in_flight = most_in_flight(o);
	if (o->mode == MODE_LOOP && o->in_flight > most_in_flight(o))
		bad_use("--in-flight %u: with this ring at most %u", o->in_flight,
			most_in_flight(o));
}

static uint64_t
counted(const struct pair *p)
{
	return p->o.mode == MODE_TX ? p->driver.sent : p->driver.received;
}

static void
mark(const struct pair *p, uint64_t *ns, uint64_t *count)
{
	*ns = now_ns();
	*count = counted(p);
}

/* What belongs to this thread, and the other end's turn when there is but one thread. */
static inline void
turns(struct pair *p)
{
	driver_turn(p);
	if (p->o.one_thread)
		device_turn(p);
}

static void
run_driver(struct pair *p)
{
	struct driver_end *d = &p->driver;
	uint64_t limit;

	if (p->o.mode == MODE_LOOP)
		driver_prime(p);
	if (p->o.run_ns != 0)
		while (atomic_load_explicit(&p->phase, memory_order_relaxed) == WARM)
			turns(p);
	mark(p, &d->begin_ns, &d->begin_count);
	if (p->o.run_ns != 0) {
		while (atomic_load_explicit(&p->phase, memory_order_relaxed) == MEASURE)
			turns(p);
	} else {
		while (counted(p) - d->begin_count < p->o.packets)
			turns(p);
		atomic_store(&p->phase, STOP);
	}
	mark(p, &d->end_ns, &d->end_count);

	limit = now_ns() + DRAIN_NS;
	while (!driver_drain(p)) {
		if (p->o.one_thread)
			device_turn(p);
		if (now_ns() > limit)
			pair_fail("packets that came back", d->received, d->sent);
	}
	atomic_store(&p->phase, END);
}

static void *
driver_thread(void *arg)
{
	struct pair *p = arg;

	stay_on_cpu(program, p->o.cpus[0]);
	run_driver(p);
	return NULL;
}

static void *
device_thread(void *arg)
{
	struct pair *p = arg;

	stay_on_cpu(program, p->o.cpus[1]);
	while (atomic_load_explicit(&p->phase, memory_order_relaxed) != END)
		device_turn(p);
	return NULL;
}

static void
start(pthread_t *thread, void *(*run)(void *), struct pair *p)
{
	if (pthread_create(thread, NULL, run, p) != 0) {
		fprintf(stderr, "pair: cannot start a thread\n");
		exit(1);
	}
}

int
main(int argc, char **argv)
{
	static struct pair pair;
	struct pair *p = &pair;
	const struct driver_end *d = &p->driver;
	pthread_t driver, device;

	parse(&p->o, argc, argv);
	pair_setup(p);
	start(&driver, driver_thread, p);
	if (!p->o.one_thread)
		start(&device, device_thread, p);
	if (p->o.run_ns != 0) {
		sleep_ns(WARM_NS);
		atomic_store(&p->phase, MEASURE);
		sleep_ns(p->o.run_ns);
		atomic_store(&p->phase, STOP);
	}
	pthread_join(driver, NULL);
	if (!p->o.one_thread)
		pthread_join(device, NULL);
	pair_check_end(p);
	printf("%.4f\n",
		(double)(d->end_count - d->begin_count) * 1e3 / (double)(d->end_ns - d->begin_ns));
	return 0;
}
