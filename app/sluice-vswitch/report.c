/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <inttypes.h>

#include <jansson.h>

#include "report.h"
#include "worker.h"

static void
print_row(FILE *to, const char *name, const uint64_t c[COUNTERS])
{
	fprintf(to,
		"%-16s %14" PRIu64 " %12" PRIu64 " %14" PRIu64 " %12" PRIu64 " %+11" PRId64
		" %14" PRIu64 "\n",
		name, c[COUNT_RX_PACKETS], c[COUNT_REPLICAS], c[COUNT_DELIVERED], ledger_dropped(c),
		ledger_difference(c), c[COUNT_TX_PACKETS]);
}

/* Everything of a port that is not in its row, and not 0. */
static void
print_rest(FILE *to, const char *name, const uint64_t c[COUNTERS])
{
	const char *space = "";
	uint32_t i;

	for (i = COUNT_DROP; i < COUNTERS; i++) {
		if (c[i] == 0)
			continue;
		if (space[0] == '\0')
			fprintf(to, "%-16s", name);
		space = " ";
		fprintf(to, " %s %" PRIu64, counter_name(i), c[i]);
	}
	if (space[0] != '\0')
		fputc('\n', to);
}

void
report_print(const struct vswitch *sw, FILE *to)
{
	uint64_t sum[COUNTERS] = {0};
	uint32_t i;

	fprintf(to, "%-16s %14s %12s %14s %12s %11s %14s\n", "port", "rx_packets", "replicas",
		"delivered", "dropped", "difference", "tx_packets");
	for (i = 0; i < sw->config.nports; i++) {
		uint64_t c[COUNTERS] = {0};

		stats_add_port(&sw->stats, i, c);
		stats_add_port(&sw->stats, i, sum);
		print_row(to, sw->config.ports[i].name, c);
	}
	print_row(to, "sum", sum);
	for (i = 0; i < sw->config.nports; i++) {
		uint64_t c[COUNTERS] = {0};

		stats_add_port(&sw->stats, i, c);
		print_rest(to, sw->config.ports[i].name, c);
	}
	print_rest(to, "sum", sum);
	fflush(to);
}

static void
set_number(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static json_t *
counters_json(const uint64_t c[COUNTERS])
{
	json_t *o = json_object();
	uint32_t i;

	for (i = 0; i < COUNTERS; i++)
		set_number(o, counter_name(i), c[i]);
	json_object_set_new(o, "difference", json_integer(ledger_difference(c)));
	return o;
}

static json_t *
fdb_json(const struct vswitch *sw)
{
	const struct fdb_counters *c = fdb_counters(sw->fdb);
	json_t *o = json_object();

	set_number(o, "count", atomic_load(&c->entries));
	set_number(o, "learned", atomic_load(&c->learned));
	set_number(o, "moved", atomic_load(&c->moved));
	set_number(o, "aged", atomic_load(&c->aged));
	set_number(o, "full", atomic_load(&c->full));
	set_number(o, "lost", atomic_load(&sw->learning.lost));
	return o;
}

static json_t *
workers_json(const struct vswitch *sw)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < sw->nworkers; i++) {
		struct worker *w = sw->workers[i];
		json_t *o = json_object();

		set_number(o, "lcore", w->lcore);
		set_number(o, "turns", atomic_load(&w->turns));
		set_number(o, "busy_turns", atomic_load(&w->busy_turns));
		set_number(o, "packets", atomic_load(&w->packets));
		set_number(o, "faults", atomic_load(&w->faults));
		set_number(o, "sleeps", atomic_load(&w->sleeper.sleeps));
		set_number(o, "wakes", atomic_load(&w->sleeper.wakes));
		set_number(o, "spurious_wakes", atomic_load(&w->sleeper.spurious_wakes));
		json_array_append_new(list, o);
	}
	return list;
}

int
report_write(const struct vswitch *sw, FILE *to)
{
	uint64_t sum[COUNTERS] = {0};
	json_t *root = json_object();
	json_t *ports = json_object();
	uint32_t i;
	int ret;

	for (i = 0; i < sw->config.nports; i++) {
		const struct port *p = &sw->ports[i];
		uint64_t c[COUNTERS] = {0};
		json_t *o;

		stats_add_port(&sw->stats, i, c);
		stats_add_port(&sw->stats, i, sum);
		o = counters_json(c);
		json_object_set_new(
			o, "state", json_string(port_state_name(atomic_load(&p->state))));
		json_object_set_new(o, "numa_node", json_integer(atomic_load(&p->node)));
		json_object_set_new(ports, p->config->name, o);
	}
	json_object_set_new(root, "ports", ports);
	json_object_set_new(root, "sum", counters_json(sum));
	json_object_set_new(root, "fdb", fdb_json(sw));
	json_object_set_new(root, "workers", workers_json(sw));
	/* The library says only that it failed. */
	errno = 0;
	ret = json_dumpf(root, to, JSON_INDENT(2));
	json_decref(root);
	if (ret != 0 || fputc('\n', to) == EOF || fflush(to) != 0)
		return errno != 0 ? -errno : -EIO;
	return 0;
}
