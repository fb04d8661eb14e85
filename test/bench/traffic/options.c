/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include "options.h"
#include "values.h"

#define DURATION_DEFAULT_US 10000000

void
options_init(struct options *o)
{
	memset(o, 0, sizeof(*o));
	o->group = 1;
	o->burst = 32;
	o->flows = 1;
	o->queues = 1;
	o->stream = 1;
	o->drain_ms = 100;
	o->late_us = 100;
	o->link_s = 10;
	o->seed = 1;
	o->nsizes = 1;
	o->sizes[0] = SIZE_LEAST;
	o->size_text = "60";
	o->shape_text = "even";
}

static int
take_port(char *out, const char *option, const char *text, struct problem *p)
{
	if (strlen(text) >= PORT_MAX)
		return problem(p, "%s: the name is %zu bytes long: at most %d are possible", option,
			strlen(text), PORT_MAX - 1);
	memcpy(out, text, strlen(text) + 1);
	return 0;
}

static int
take_rate(struct options *o, const char *option, const char *text, struct problem *p)
{
	if (strcmp(text, "max") == 0) {
		o->rate = 0;
		return 0;
	}
	if (value_scaled(option, text, RATE_MAX, &o->rate, p) == 0)
		return 0;
	return problem(p,
		"%s: \"%s\" is no rate: give frames a second, 1..%d, such as 250k or "
		"1.5M, or max",
		option, text, RATE_MAX);
}

static int
take_choice(const char *option, const char *text, const char *no, const char *yes, bool *out,
	struct problem *p)
{
	if (strcmp(text, no) != 0 && strcmp(text, yes) != 0)
		return problem(p, "%s: \"%s\" is not known: give %s or %s", option, text, no, yes);
	*out = strcmp(text, yes) == 0;
	return 0;
}

enum key {
	KEY_TX,
	KEY_RX,
	KEY_RATE,
	KEY_SHAPE,
	KEY_BURST,
	KEY_WINDOW,
	KEY_WHEN_LATE,
	KEY_LATE,
	KEY_COUNT,
	KEY_DURATION,
	KEY_WARMUP,
	KEY_DRAIN,
	KEY_AWAY,
	KEY_AWAY_EVERY,
	KEY_STARVE,
	KEY_STARVE_EVERY,
	KEY_SEED,
	KEY_SLEEP,
	KEY_KEEP_ARMED,
	KEY_TIME_CALLS,
	KEY_SIZE,
	KEY_FLOWS,
	KEY_SEQUENCE,
	KEY_STREAM,
	KEY_VERIFY,
	KEY_SRC_MAC,
	KEY_DST_MAC,
	KEY_ANNOUNCE,
	KEY_QUEUES,
	KEY_RX_DESCS,
	KEY_TX_DESCS,
	KEY_MBUFS,
	KEY_MBUF_SIZE,
	KEY_MTU,
	KEY_LINK,
	KEY_JSON,
	KEY_HELP,
	KEY_VERSION,
	KEYS,
};

/* In the order of the help text. A line break in the text of one begins a line of its own. */
static const struct {
	const char *name;
	const char *value; /* NULL: takes none */
	const char *help;
} known[KEYS] = {
	[KEY_TX] = {"--tx", "PORT", "send from this port: a number, or a name such as net_ring0"},
	[KEY_RX] = {"--rx", "PORT", "receive at this port; it may be the one that sends"},
	[KEY_RATE] = {"--rate", "PPS|max",
		"frames a second: 250000, 250k, 1.5M (max)\n"
		"max: as fast as the port takes them"},
	[KEY_SHAPE] = {"--shape", "SHAPE",
		"even: frames evenly spaced (the default)\n"
		"bursts:N: N frames due together, then a gap\n"
		"on-off:MS:MS: evenly spaced at --rate for a time, then none"},
	[KEY_BURST] = {"--burst", "N", "frames a call of tx_burst and of rx_burst at most (32)"},
	[KEY_WINDOW] = {"--window", "N",
		"closed loop: at most N frames in flight. After a second without an\n"
		"arrival those in flight are written off (0: open loop)"},
	[KEY_WHEN_LATE] = {"--when-late", "burst|shift",
		"frames due while the sender stalled: all at once (burst, the\n"
		"default), or move the schedule if it was longer than --late"},
	[KEY_LATE] = {"--late", "US", "report frames and polls later than this (100)"},
	[KEY_COUNT] = {"--count", "N", "stop after N frames"},
	[KEY_DURATION] = {"--duration", "S", "stop after S seconds (10 if there is no --count)"},
	[KEY_WARMUP] = {"--warmup", "S", "before, send for S seconds that do not count"},
	[KEY_DRAIN] = {"--drain", "MS",
		"receive so long after the last frame was sent (100); for 150 ms at\n"
		"most once all of them are there"},
	[KEY_AWAY] = {"--away", "US", "the receiver does not poll for so long, now and then"},
	[KEY_AWAY_EVERY] = {"--away-every", "US",
		"the mean of the pauses in between; they are uniform in [0.5, 1.5] of it"},
	[KEY_STARVE] = {"--starve", "US",
		"the receiver takes all mbufs that its pool has left for so long"},
	[KEY_STARVE_EVERY] = {"--starve-every", "US", "as above"},
	[KEY_SEED] = {"--seed", "N", "of these pauses: the same seed gives the same ones (1)"},
	[KEY_SLEEP] = {"--sleep", NULL,
		"the receiver sleeps on its interrupts when it finds nothing; if its\n"
		"lcore sends too, until the next frame is due at most. An lcore\n"
		"that only sends sleeps until then"},
	[KEY_KEEP_ARMED] = {"--keep-armed", NULL,
		"with --sleep: do not take interrupts back while polling"},
	[KEY_TIME_CALLS] = {"--time-calls", NULL, "say how long the calls of rx_burst take"},
	[KEY_SIZE] = {"--size", "N|A-B|N,N,..|imix",
		"bytes of a frame without its check sequence, 60..65535, used in\n"
		"turn; imix is 7 of 60, 4 of 590, 1 of 1514 (60)"},
	[KEY_FLOWS] = {"--flows", "N", "different UDP/IPv4 5-tuples, used in turn (1)"},
	[KEY_SEQUENCE] = {"--sequence", "flow|global",
		"number the frames of each flow (the default), or all of them"},
	[KEY_STREAM] = {"--stream", "N", "number of the stream; a receiver takes only its own (1)"},
	[KEY_VERIFY] = {"--verify", NULL,
		"another payload in each frame and a CRC over it; both sides need it"},
	[KEY_SRC_MAC] = {"--src-mac", "MAC", "(that of the port that sends)"},
	[KEY_DST_MAC] = {"--dst-mac", "MAC",
		"(that of the port that receives, else 02:00:00:00:00:01)"},
	[KEY_ANNOUNCE] = {"--announce", NULL,
		"first send one broadcast frame from the port that receives, so that\n"
		"a switch learns where its address is"},
	[KEY_QUEUES] = {"--queues", "N", "queues each way; flow F uses queue F modulo N (1)"},
	[KEY_RX_DESCS] = {"--rx-descs", "N", "receive ring (the driver's default)"},
	[KEY_TX_DESCS] = {"--tx-descs", "N", "transmit ring (the driver's default)"},
	[KEY_MBUFS] = {"--mbufs", "N", "mbufs of each of the two pools (enough for the rings)"},
	[KEY_MBUF_SIZE] = {"--mbuf-size", "N",
		"bytes that a receive mbuf takes (a frame of 9600 at most, else 2048);\n"
		"a longer frame takes several, where the port can do that"},
	[KEY_MTU] = {"--mtu", "N", "of the ports (what the longest frame needs, 1500 at least)"},
	[KEY_LINK] = {"--link", "S", "wait so long for the link (10)"},
	[KEY_JSON] = {"--json", "FILE", "write the results there too"},
	[KEY_HELP] = {"--help", NULL, "or -h: this text"},
	[KEY_VERSION] = {"--version", NULL, "of Sluice and DPDK"},
};

static int
take(struct options *o, enum key key, const char *v, struct problem *p)
{
	const char *name = known[key].name;

	switch (key) {
	case KEY_TX:
		return take_port(o->tx, name, v, p);
	case KEY_RX:
		return take_port(o->rx, name, v, p);
	case KEY_RATE:
		return take_rate(o, name, v, p);
	case KEY_SHAPE:
		return value_shape(name, v, o, p);
	case KEY_BURST:
		return value_number32(name, v, 1, BURST_MAX, &o->burst, p);
	case KEY_WINDOW:
		return value_number32(name, v, 0, WINDOW_MAX, &o->window, p);
	case KEY_WHEN_LATE:
		return take_choice(name, v, "burst", "shift", &o->shift, p);
	case KEY_LATE:
		return value_number32(name, v, 1, 1000000, &o->late_us, p);
	case KEY_COUNT:
		return value_number(name, v, 1, UINT64_C(1) << 48, &o->count, p);
	case KEY_DURATION:
		return value_seconds(name, v, &o->duration_us, p);
	case KEY_WARMUP:
		return value_seconds(name, v, &o->warmup_us, p);
	case KEY_DRAIN:
		return value_number32(name, v, 0, MS_MAX, &o->drain_ms, p);
	case KEY_AWAY:
		return value_number32(name, v, 1, SPELL_MAX, &o->away_us, p);
	case KEY_AWAY_EVERY:
		return value_number32(name, v, 1, SPELL_MAX, &o->away_every_us, p);
	case KEY_STARVE:
		return value_number32(name, v, 1, SPELL_MAX, &o->starve_us, p);
	case KEY_STARVE_EVERY:
		return value_number32(name, v, 1, SPELL_MAX, &o->starve_every_us, p);
	case KEY_SEED:
		return value_number(name, v, 0, INT64_MAX, &o->seed, p);
	case KEY_SLEEP:
		o->sleep = true;
		return 0;
	case KEY_KEEP_ARMED:
		o->keep_armed = true;
		return 0;
	case KEY_TIME_CALLS:
		o->time_calls = true;
		return 0;
	case KEY_SIZE:
		return value_sizes(name, v, o, p);
	case KEY_FLOWS:
		return value_number32(name, v, 1, FLOWS_MAX, &o->flows, p);
	case KEY_SEQUENCE:
		return take_choice(name, v, "flow", "global", &o->global, p);
	case KEY_STREAM:
		return value_number32(name, v, 0, UINT16_MAX, &o->stream, p);
	case KEY_VERIFY:
		o->verify = true;
		return 0;
	case KEY_SRC_MAC:
		return value_mac(name, v, &o->src, p);
	case KEY_DST_MAC:
		return value_mac(name, v, &o->dst, p);
	case KEY_ANNOUNCE:
		o->announce = true;
		return 0;
	case KEY_QUEUES:
		return value_number32(name, v, 1, QUEUES_MAX, &o->queues, p);
	case KEY_RX_DESCS:
		return value_number32(name, v, 1, DESCS_MAX, &o->rx_descs, p);
	case KEY_TX_DESCS:
		return value_number32(name, v, 1, DESCS_MAX, &o->tx_descs, p);
	case KEY_MBUFS:
		return value_number32(name, v, 64, MBUFS_MAX, &o->mbufs, p);
	case KEY_MBUF_SIZE:
		return value_number32(name, v, ROOM_LEAST, ROOM_MOST, &o->mbuf_size, p);
	case KEY_MTU:
		return value_number32(name, v, 68, MTU_MAX, &o->mtu, p);
	case KEY_LINK:
		return value_number32(name, v, 0, SECONDS_MAX, &o->link_s, p);
	case KEY_JSON:
		o->json = v;
		return 0;
	case KEY_HELP:
		o->help = true;
		return 0;
	case KEY_VERSION:
		o->version = true;
		return 0;
	case KEYS:
		break;
	}
	return -EINVAL;
}

/* @return KEYS if the word, alone or with =value behind it, is none */
static enum key
find(const char *word)
{
	size_t len = strcspn(word, "=");
	enum key key;

	if (strcmp(word, "-h") == 0)
		return KEY_HELP;
	for (key = 0; key < KEYS; key++)
		if (strlen(known[key].name) == len && strncmp(word, known[key].name, len) == 0)
			break;
	return key;
}

bool
options_has(const char *word)
{
	return find(word) < KEY_HELP;
}

/* What is so now and then: for how long, and how often. */
static int
check_spells(const struct options *o, enum key length, uint32_t us, enum key every,
	uint32_t every_us, struct problem *p)
{
	if (us == 0 && every_us == 0)
		return 0;
	if (o->rx[0] == '\0')
		return problem(
			p, "%s: no port receives: give --rx", known[us != 0 ? length : every].name);
	if (us == 0 || every_us == 0)
		return problem(p, "%s: give %s US with it", known[us != 0 ? length : every].name,
			known[us != 0 ? every : length].name);
	return 0;
}

/* Do they go together? */
static int
check(struct options *o, struct problem *p)
{
	uint32_t i;

	if (o->tx[0] == '\0' && o->rx[0] == '\0')
		return problem(p, "no port: give --tx PORT, --rx PORT, or both");
	if (o->window != 0 && (o->tx[0] == '\0' || o->rx[0] == '\0'))
		return problem(p, "--window: what is in flight is known only to who sends and "
				  "receives: give --tx and --rx");
	if (o->announce && o->rx[0] == '\0')
		return problem(p, "--announce: no port receives: give --rx");
	if (check_spells(o, KEY_AWAY, o->away_us, KEY_AWAY_EVERY, o->away_every_us, p) < 0 ||
		check_spells(o, KEY_STARVE, o->starve_us, KEY_STARVE_EVERY, o->starve_every_us, p) <
			0)
		return -EINVAL;
	if (o->sleep && o->rx[0] == '\0')
		return problem(p, "--sleep: no port receives: give --rx");
	if (o->keep_armed && !o->sleep)
		return problem(p, "--keep-armed: nobody asks for interrupts: give --sleep with it");
	if (o->time_calls && o->rx[0] == '\0')
		return problem(p, "--time-calls: no port receives: give --rx");
	if (o->flows < o->queues)
		return problem(p, "--queues: %u queues need as many flows: give --flows %u or more",
			o->queues, o->queues);
	if (o->global && o->queues > 1)
		return problem(p, "--sequence global: frames of several queues have no order: give "
				  "--queues 1");
	if (o->group > 1 && o->rate == 0)
		return problem(
			p, "--shape %s: there is no gap at --rate max: give a rate", o->shape_text);
	for (i = 0; i < o->nsizes && o->verify; i++)
		if (o->sizes[i] < SIZE_VERIFY)
			return problem(p, "--size %s: --verify needs %d bytes at least",
				o->size_text, SIZE_VERIFY);
	if (o->src.given && (o->src.bytes[0] & 1) != 0)
		return problem(p, "--src-mac: a group address is nobody's: give one with an even "
				  "first byte");
	if (o->count == 0 && o->duration_us == 0)
		o->duration_us = DURATION_DEFAULT_US;
	return 0;
}

int
options_parse(struct options *o, int argc, char *const *argv, struct problem *p)
{
	int i;

	for (i = 0; i < argc; i++) {
		enum key key = find(argv[i]);
		const char *value = strchr(argv[i], '=');

		if (key == KEYS)
			return problem(
				p, "unknown option \"%s\": see sluice-traffic --help", argv[i]);
		if (known[key].value == NULL && value != NULL)
			return problem(
				p, "%s takes no value: leave \"%s\" out", known[key].name, value);
		if (known[key].value != NULL) {
			if (value != NULL)
				value++;
			else if (++i < argc)
				value = argv[i];
			if (value == NULL || value[0] == '\0')
				return problem(p, "%s: missing value: give %s", known[key].name,
					known[key].value);
		}
		if (take(o, key, value, p) < 0)
			return -EINVAL;
	}
	return o->help || o->version ? 0 : check(o, p);
}

void
options_print_help(FILE *to)
{
	enum key key;

	fprintf(to, "usage: sluice-traffic [EAL options] -- [options]\n\n"
		    "Sends numbered frames through any ethdev and says what became of them.\n\n");
	for (key = 0; key < KEYS; key++) {
		const char *text = known[key].help, *end;
		char name[48];

		snprintf(name, sizeof(name), "%s %s", known[key].name,
			known[key].value != NULL ? known[key].value : "");
		for (; (end = strchr(text, '\n')) != NULL; text = end + 1) {
			fprintf(to, "  %-27s %.*s\n", name, (int)(end - text), text);
			name[0] = '\0';
		}
		fprintf(to, "  %-27s %s\n", name, text);
	}
	fprintf(to, "\nOne worker lcore does both directions in turn, two do one each; the main "
		    "lcore waits.\n"
		    "Exit status: 0 it ran (losses are a result), 1 it did not, 2 bad options.\n"
		    "Example: sluice-traffic --lcores 0@1,1@1 --no-pci --no-huge -m 256 --vdev "
		    "net_ring0 -- \\\n"
		    "             --tx net_ring0 --rx net_ring0 --rate 100k --duration 2\n");
}

uint32_t
options_longest(const struct options *o)
{
	uint32_t longest = 0, i;

	for (i = 0; i < o->nsizes; i++)
		if (o->sizes[i] > longest)
			longest = o->sizes[i];
	return longest;
}
