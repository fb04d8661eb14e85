/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <rte_cycles.h>
#include <rte_lcore.h>
#include <rte_telemetry.h>

#include "flow.h"
#include "telemetry.h"
#include "worker.h"

/* Entries in one answer: it ends at 16 KiB. */
#define FDB_PAGE 200

/* Commands cannot be taken back; after the end there is nothing to read. */
static struct vswitch *shown;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void
add_counters(struct rte_tel_data *d, const uint64_t sum[COUNTERS])
{
	char difference[24];
	uint32_t i;

	for (i = 0; i < COUNTERS; i++)
		rte_tel_data_add_dict_u64(d, counter_name(i), sum[i]);
	/* A string: the numbers of telemetry have no sign, or too few bits. */
	snprintf(difference, sizeof(difference), "%+" PRId64, ledger_difference(sum));
	rte_tel_data_add_dict_string(d, "difference", difference);
}

static int
ports(const struct vswitch *sw, const char *params, struct rte_tel_data *d)
{
	uint32_t i;

	RTE_SET_USED(params);
	rte_tel_data_start_dict(d);
	for (i = 0; i < sw->config.nports; i++)
		rte_tel_data_add_dict_string(d, sw->config.ports[i].name,
			port_state_name(atomic_load(&sw->ports[i].state)));
	return 0;
}

/* The profiles of the receive and of the transmit queues of a port, by queue pair. */
static int
add_profiles(struct rte_tel_data *d, const struct port *p)
{
	static const char *const names[] = {"rx_profiles", "tx_profiles"};
	uint32_t pairs = atomic_load(&p->queue_pairs);
	uint32_t way, i;

	for (way = 0; way < 2; way++) {
		struct rte_tel_data *list = rte_tel_data_alloc();

		if (list == NULL)
			return -ENOMEM;
		rte_tel_data_start_array(list, RTE_TEL_INT_VAL);
		for (i = 0; i < pairs; i++)
			rte_tel_data_add_array_int(list, (int)vhost_port_profile(p, 2 * i + way));
		rte_tel_data_add_dict_container(d, names[way], list, 0);
	}
	return 0;
}

static int
port(const struct vswitch *sw, const char *params, struct rte_tel_data *d)
{
	uint64_t sum[COUNTERS] = {0};
	const struct port *p;
	uint32_t i;

	for (i = 0; i < sw->config.nports; i++)
		if (params != NULL && strcmp(sw->config.ports[i].name, params) == 0)
			break;
	if (i == sw->config.nports)
		return -ENOENT;
	p = &sw->ports[i];
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_string(d, "state", port_state_name(atomic_load(&p->state)));
	stats_add_port(&sw->stats, i, sum);
	add_counters(d, sum);
	rte_tel_data_add_dict_u64(d, "queue_pairs", atomic_load(&p->queue_pairs));
	rte_tel_data_add_dict_int(d, "numa_node", atomic_load(&p->node));
	if (p->config->path[0] != '\0') {
		rte_tel_data_add_dict_u64(d, "features", atomic_load(&p->features));
		rte_tel_data_add_dict_u64(d, "protocol_features", atomic_load(&p->protocol));
		rte_tel_data_add_dict_u64(d, "connects", atomic_load(&p->connects));
		rte_tel_data_add_dict_u64(d, "bad_messages", atomic_load(&p->bad_messages));
		rte_tel_data_add_dict_string(
			d, "coalesce", coalesce_mode_name(vhost_port_coalesce(p)->mode));
		if (vhost_port_coalesce(p)->mode == COALESCE_ADAPTIVE)
			return add_profiles(d, p);
	}
	return 0;
}

static int
ledger(const struct vswitch *sw, const char *params, struct rte_tel_data *d)
{
	uint64_t sum[COUNTERS] = {0};
	uint32_t i;

	RTE_SET_USED(params);
	for (i = 0; i < sw->config.nports; i++)
		stats_add_port(&sw->stats, i, sum);
	rte_tel_data_start_dict(d);
	add_counters(d, sum);
	return 0;
}

static void
add_entry(const struct vswitch *sw, struct rte_tel_data *list, const struct fdb_shown *e)
{
	uint32_t now = (uint32_t)(rte_rdtsc() / rte_get_tsc_hz());
	uint64_t mac = e->mac;
	char text[64];

	/* A worker's second may begin before ours. */
	snprintf(text, sizeof(text), "%02x:%02x:%02x:%02x:%02x:%02x %s %u", (uint8_t)mac,
		(uint8_t)(mac >> 8), (uint8_t)(mac >> 16), (uint8_t)(mac >> 24),
		(uint8_t)(mac >> 32), (uint8_t)(mac >> 40), sw->config.ports[e->port].name,
		now > e->seen ? now - e->seen : 0);
	rte_tel_data_add_array_string(list, text);
}

/* From place START on, a page; `next` is the START of the page behind it, 0 at the end. */
static int
fdb(const struct vswitch *sw, const char *params, struct rte_tel_data *d)
{
	const struct fdb_counters *c = fdb_counters(sw->fdb);
	struct rte_tel_data *list = rte_tel_data_alloc();
	const uint32_t places = fdb_places(sw->fdb);
	uint32_t start = 0, n = 0, i;
	struct problem ignored;

	if (list == NULL)
		return -ENOMEM;
	if (params != NULL && parse_whole("START", params, 0, places, &start, &ignored) < 0) {
		rte_tel_data_free(list);
		return -EINVAL;
	}
	rte_tel_data_start_array(list, RTE_TEL_STRING_VAL);
	for (i = start; i < places && n < FDB_PAGE; i++) {
		struct fdb_shown e;

		if (!fdb_show(sw->fdb, i, &e))
			continue;
		add_entry(sw, list, &e);
		n++;
	}
	rte_tel_data_start_dict(d);
	rte_tel_data_add_dict_u64(d, "count", atomic_load(&c->entries));
	rte_tel_data_add_dict_u64(d, "size", fdb_size(sw->fdb));
	rte_tel_data_add_dict_u64(d, "learned", atomic_load(&c->learned));
	rte_tel_data_add_dict_u64(d, "moved", atomic_load(&c->moved));
	rte_tel_data_add_dict_u64(d, "aged", atomic_load(&c->aged));
	rte_tel_data_add_dict_u64(d, "full", atomic_load(&c->full));
	rte_tel_data_add_dict_u64(d, "lost", atomic_load(&sw->learning.lost));
	rte_tel_data_add_dict_u64(d, "next", i < places ? i : 0);
	rte_tel_data_add_dict_container(d, "entries", list, 0);
	return 0;
}

static int
workers(const struct vswitch *sw, const char *params, struct rte_tel_data *d)
{
	uint32_t i;

	RTE_SET_USED(params);
	rte_tel_data_start_dict(d);
	for (i = 0; i < sw->nworkers; i++) {
		struct worker *w = sw->workers[i];
		struct rte_tel_data *one = rte_tel_data_alloc();
		char name[24];

		if (one == NULL)
			return -ENOMEM;
		rte_tel_data_start_dict(one);
		rte_tel_data_add_dict_u64(one, "lcore", w->lcore);
		rte_tel_data_add_dict_u64(one, "numa_node", rte_lcore_to_socket_id(w->lcore));
		rte_tel_data_add_dict_u64(one, "turns", atomic_load(&w->turns));
		rte_tel_data_add_dict_u64(one, "busy_turns", atomic_load(&w->busy_turns));
		rte_tel_data_add_dict_u64(one, "packets", atomic_load(&w->packets));
		rte_tel_data_add_dict_u64(one, "faults", atomic_load(&w->faults));
		rte_tel_data_add_dict_u64(one, "sleeps", atomic_load(&w->sleeper.sleeps));
		rte_tel_data_add_dict_u64(one, "wakes", atomic_load(&w->sleeper.wakes));
		rte_tel_data_add_dict_u64(
			one, "spurious_wakes", atomic_load(&w->sleeper.spurious_wakes));
		snprintf(name, sizeof(name), "worker_%u", i);
		rte_tel_data_add_dict_container(d, name, one, 0);
	}
	return 0;
}

static const struct {
	const char *name;
	int (*answer)(const struct vswitch *sw, const char *params, struct rte_tel_data *d);
	const char *help;
} commands[] = {
	{"/sluice/ports", ports, "Names and states of all ports. No parameter."},
	{"/sluice/port", port, "Counters of a port. Parameter: its name."},
	{"/sluice/ledger", ledger, "Sums of the counters of all ports. No parameter."},
	{"/sluice/fdb", fdb, "Forwarding table, a page. Parameter: where to begin, see \"next\"."},
	{"/sluice/workers", workers, "What the workers do. No parameter."},
};

static int
answer(const char *cmd, const char *params, struct rte_tel_data *d)
{
	int ret = -ENODEV;
	size_t i;

	pthread_mutex_lock(&lock);
	for (i = 0; shown != NULL && i < RTE_DIM(commands); i++)
		if (strcmp(commands[i].name, cmd) == 0)
			ret = commands[i].answer(shown, params, d);
	pthread_mutex_unlock(&lock);
	return ret;
}

int
telemetry_init(struct vswitch *sw)
{
	size_t i;

	shown = sw;
	for (i = 0; i < RTE_DIM(commands); i++) {
		int ret = rte_telemetry_register_cmd(commands[i].name, answer, commands[i].help);

		if (ret != 0)
			return ret;
	}
	return 0;
}

void
telemetry_end(void)
{
	pthread_mutex_lock(&lock);
	shown = NULL;
	pthread_mutex_unlock(&lock);
}
