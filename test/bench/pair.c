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

#include <getopt.h>

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

enum option_id {
	MODE = 1,
	SIZE,
	RING,
	TURN,
	BURST,
	NO_IN_ORDER,
	NO_MRG,
	EVENT_IDX,
	CHAIN,
	INDIRECT,
	READ_HEADER,
	WRITE,
	IN_FLIGHT,
	CPUS,
	SECONDS,
	PACKETS,
	ONE_THREAD,
	HELP,
};

static const struct option long_options[] = {
	{"mode", required_argument, NULL, MODE},
	{"size", required_argument, NULL, SIZE},
	{"ring", required_argument, NULL, RING},
	{"turn", required_argument, NULL, TURN},
	{"burst", required_argument, NULL, BURST},
	{"no-in-order", no_argument, NULL, NO_IN_ORDER},
	{"no-mrg", no_argument, NULL, NO_MRG},
	{"event-idx", no_argument, NULL, EVENT_IDX},
	{"chain", no_argument, NULL, CHAIN},
	{"indirect", no_argument, NULL, INDIRECT},
	{"read-header", no_argument, NULL, READ_HEADER},
	{"write", required_argument, NULL, WRITE},
	{"in-flight", required_argument, NULL, IN_FLIGHT},
	{"cpus", required_argument, NULL, CPUS},
	{"seconds", required_argument, NULL, SECONDS},
	{"packets", required_argument, NULL, PACKETS},
	{"one-thread", no_argument, NULL, ONE_THREAD},
	{"help", no_argument, NULL, HELP},
	{0},
};

static void
parse_one(struct options *o, enum option_id id)
{
	const char *text = optarg;

	switch (id) {
	case MODE:
		o->mode = parse_mode(text);
		break;
	case SIZE:
		o->size = strcmp(text, "imix") == 0
				  ? 0
				  : parse_number("size", text, FRAME_MIN, FRAME_MAX);
		break;
	case RING:
		o->ring = parse_number("ring", text, 2, VQ_SIZE_MAX);
		if (!vq_size_ok(o->ring))
			bad_use("--ring %s: not a power of two", text);
		break;
	case TURN:
		o->turn = parse_number("turn", text, 1, BURST_MAX);
		break;
	case BURST:
		o->burst = parse_number("burst", text, 1, BURST_MAX);
		break;
	case NO_IN_ORDER:
		o->features &= ~VQ_FEATURE(IN_ORDER);
		break;
	case NO_MRG:
		o->features &= ~VQ_FEATURE(MRG_RXBUF);
		break;
	case EVENT_IDX:
		o->features |= VQ_FEATURE(EVENT_IDX);
		break;
	case CHAIN:
		o->chain = true;
		break;
	case INDIRECT:
		o->chain = true;
		o->features |= VQ_FEATURE(INDIRECT_DESC);
		break;
	case READ_HEADER:
		o->read_header = true;
		break;
	case WRITE:
		o->write = parse_number("write", text, FRAME_MIN, FRAME_MAX);
		break;
	case IN_FLIGHT:
		o->in_flight = parse_number("in-flight", text, 1, VQ_SIZE_MAX);
		break;
	case CPUS:
		parse_cpus(text, o->cpus);
		break;
	case SECONDS:
		o->run_ns = parse_seconds(text);
		break;
	case PACKETS:
		o->packets = parse_number("packets", text, 1, UINT32_MAX);
		o->run_ns = 0;
		break;
	case ONE_THREAD:
		o->one_thread = true;
		break;
	case HELP:
		fputs(usage, stdout);
		exit(0);
	}
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
	int id;

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
	opterr = 0;
	while ((id = getopt_long(argc, argv, "", long_options, NULL)) != -1) {
		if (id == '?' || id == ':')
			bad_use("%s: unknown, or without its value", argv[optind - 1]);
		parse_one(o, (enum option_id)id);
	}
	if (optind != argc)
		bad_use("%s: not an option", argv[optind]);
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
