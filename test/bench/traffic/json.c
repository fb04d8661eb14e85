/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>

#include <rte_version.h>

#include <jansson.h>

#include "results.h"
#include "xstats.h"

/* All flows, or if there are more of them only so many of those with losses. */
#define FLOWS_WRITTEN 1024

static void
put(json_t *object, const char *name, uint64_t value)
{
	json_object_set_new(object, name, json_integer((json_int_t)value));
}

static void
put_real(json_t *object, const char *name, double value)
{
	json_object_set_new(object, name, json_real(value));
}

static void
put_text(json_t *object, const char *name, const char *value)
{
	json_object_set_new(object, name, value != NULL ? json_string(value) : json_null());
}

static void
put_mac(json_t *object, const char *name, const uint8_t b[6])
{
	json_object_set_new(object, name,
		json_sprintf("%02x:%02x:%02x:%02x:%02x:%02x", b[0], b[1], b[2], b[3], b[4], b[5]));
}

static double
ns(uint64_t ticks)
{
	return results_seconds(ticks) * 1e9;
}

/* What `unit` ticks are 1 of. */
static json_t *
values(const struct histogram *h, double unit)
{
	static const struct {
		const char *name;
		uint32_t permille;
	} points[] = {{"p50", 500}, {"p90", 900}, {"p99", 990}, {"p99_9", 999}};
	json_t *o = json_object(), *buckets = json_array();
	uint32_t i;

	put(o, "count", h->count);
	put_real(o, "min", h->count != 0 ? (double)h->min * unit : 0);
	for (i = 0; i < sizeof(points) / sizeof(points[0]); i++)
		put_real(o, points[i].name,
			(double)histogram_percentile(h, points[i].permille) * unit);
	put_real(o, "max", (double)h->max * unit);
	put_real(o, "mean", h->count != 0 ? (double)h->sum * unit / (double)h->count : 0);
	for (i = 0; i < HISTOGRAM_BUCKETS; i++)
		if (h->buckets[i] != 0)
			json_array_append_new(
				buckets, json_pack("[f, I]", (double)histogram_lowest(i) * unit,
						 (json_int_t)h->buckets[i]));
	json_object_set_new(o, "buckets", buckets);
	return o;
}

static json_t *
times(const struct histogram *h)
{
	return values(h, ns(1));
}

static json_t *
ticks(const struct histogram *h)
{
	return values(h, 1);
}

static json_t *
parameters(const struct results *res)
{
	const struct options *o = res->run->options;
	json_t *p = json_object();

	put_text(p, "tx", o->tx[0] != '\0' ? o->tx : NULL);
	put_text(p, "rx", o->rx[0] != '\0' ? o->rx : NULL);
	put(p, "rate", o->rate);
	put_text(p, "shape", o->shape_text);
	put(p, "burst", o->burst);
	put(p, "window", o->window);
	put_text(p, "when_late", o->shift ? "shift" : "burst");
	put(p, "late_us", o->late_us);
	put(p, "count", o->count);
	put_real(p, "duration_s", (double)o->duration_us / 1e6);
	put_real(p, "warmup_s", (double)o->warmup_us / 1e6);
	put(p, "drain_ms", o->drain_ms);
	put(p, "away_us", o->away_us);
	put(p, "away_every_us", o->away_every_us);
	put(p, "starve_us", o->starve_us);
	put(p, "starve_every_us", o->starve_every_us);
	put(p, "seed", o->seed);
	json_object_set_new(p, "sleep", json_boolean(o->sleep));
	json_object_set_new(p, "keep_armed", json_boolean(o->keep_armed));
	json_object_set_new(p, "time_calls", json_boolean(o->time_calls));
	put_text(p, "size", o->size_text);
	put(p, "flows", o->flows);
	put_text(p, "sequence", o->global ? "global" : "flow");
	put(p, "stream", o->stream);
	json_object_set_new(p, "verify", json_boolean(o->verify));
	json_object_set_new(p, "announce", json_boolean(o->announce));
	put(p, "queues", o->queues);
	put_mac(p, "src_mac", res->run->src);
	put_mac(p, "dst_mac", res->run->dst);
	put(p, "loops", res->run->nloops);
	put(p, "tsc_hz", rte_get_tsc_hz());
	put_text(p, "dpdk", rte_version());
	return p;
}

static json_t *
sender_json(const struct results *res)
{
	const struct sender *s = &res->run->sender;
	json_t *o = json_object();

	put(o, "offered", s->offered);
	put(o, "sent", s->sent);
	put(o, "refused", s->refused);
	put(o, "sent_bytes", s->sent_bytes);
	put_real(o, "seconds", res->sending_s);
	put(o, "calls", s->calls);
	put(o, "short_calls", s->short_calls);
	put(o, "retries", s->retries);
	put(o, "no_mbuf", s->no_mbuf);
	put(o, "window_resets", s->window_resets);
	put(o, "written_off", s->written_off);
	put(o, "late_frames", s->late_frames);
	put_real(o, "shifted_us", ns(s->pacer.shifted) / 1e3);
	json_object_set_new(o, "lateness_ns", times(&s->lateness));
	return o;
}

/* `counted`: what the values of the entries are, ticks or numbers. */
static json_t *
longest_json(const struct results *res, const struct longest *l, bool in_ticks)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < l->n; i++) {
		json_t *o = json_object();

		put_real(o, "at_s", results_moment(res, l->entry[i].at));
		if (in_ticks) {
			put_real(o, "us", ns(l->entry[i].value) / 1e3);
		} else {
			put(o, "frames", l->entry[i].value);
			put(o, "flow", l->entry[i].which);
		}
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *
calls_json(const struct results *res)
{
	const struct calls *c = &res->run->receiver.timed;
	json_t *list = json_array(), *o = json_object();
	uint32_t i;

	json_object_set_new(o, "gave_ns", times(&c->gave));
	json_object_set_new(o, "gave_cycles", ticks(&c->gave));
	json_object_set_new(o, "empty_ns", times(&c->empty));
	json_object_set_new(o, "empty_cycles", ticks(&c->empty));
	for (i = 0; i < c->longest.n; i++) {
		const struct longest_entry *e = &c->longest.entry[i];

		json_array_append_new(
			list, json_pack("{s:f, s:f, s:I, s:i}", "at_s", results_moment(res, e->at),
				      "ns", ns(e->value), "cycles", (json_int_t)e->value, "frames",
				      (int)e->which));
	}
	json_object_set_new(o, "longest", list);
	if (res->run->options->starve_us != 0) {
		json_object_set_new(o, "after_dry_ns", times(&c->after_dry));
		json_object_set_new(o, "after_dry_cycles", ticks(&c->after_dry));
	}
	return o;
}

static json_t *
sleep_json(const struct sleeper *s)
{
	json_t *o = json_object();

	put(o, "caught", s->caught);
	put(o, "sleeps", s->sleeps);
	put(o, "wakes", s->wakes);
	put(o, "spurious", s->spurious);
	put(o, "deadlines", s->deadlines);
	put(o, "timeouts", s->timeouts);
	put(o, "missed", s->missed);
	put_real(o, "asleep_s", results_seconds(s->asleep));
	return o;
}

static json_t *
receiver_json(const struct results *res)
{
	const struct receiver *r = &res->run->receiver;
	json_t *o = json_object();

	put(o, "frames", r->frames);
	put(o, "calls", r->calls);
	put(o, "received", res->received);
	put(o, "received_bytes", r->received_bytes);
	put_real(o, "seconds", res->receiving_s);
	put(o, "lost", res->lost);
	put(o, "loss_events", res->loss_events);
	put(o, "longest_loss", res->longest_loss);
	put(o, "too_late", res->too_late);
	put(o, "reordered", res->reordered);
	put(o, "max_distance", res->max_distance);
	put(o, "duplicates", res->duplicates);
	put(o, "bad_length", r->kinds[FRAME_BAD_LENGTH]);
	put(o, "bad_header", r->kinds[FRAME_BAD_HEADER]);
	put(o, "bad_content", r->kinds[FRAME_BAD_CONTENT]);
	put(o, "bad_number", res->invalid);
	put(o, "foreign", r->kinds[FRAME_FOREIGN]);
	put(o, "late_warmup", r->kinds[FRAME_WARMUP]);
	put(o, "before_sent", r->before_sent);
	put(o, "absences", r->away.count);
	put_real(o, "away_us", ns(r->away.total) / 1e3);
	put(o, "starvations", r->starve.spells.count);
	put_real(o, "starved_us", ns(r->starve.spells.total) / 1e3);
	put(o, "starve_taken", r->starve.taken);
	put(o, "starve_kept", r->starve.kept);
	json_object_set_new(o, "latency_ns", times(&r->latency));
	if (r->options->sleep)
		json_object_set_new(o, "sleep", sleep_json(&res->run->sleeper));
	if (r->options->time_calls)
		json_object_set_new(o, "rx_calls", calls_json(res));
	json_object_set_new(o, "gaps", longest_json(res, &r->gaps, false));
	json_object_set_new(o, "silence",
		json_pack("{s:f, s:f, s:f}", "us", ns(r->silence) / 1e3, "at_s",
			results_moment(res, r->silence_at), "stalled_us",
			ns(r->silence_stalled) / 1e3));
	return o;
}

static json_t *
stalls_json(const struct results *res)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < res->run->nloops; i++) {
		const struct loop *l = &res->run->loops[i];
		json_t *o = json_object();

		put(o, "lcore", l->lcore);
		json_object_set_new(o, "sends", json_boolean(l->sends));
		json_object_set_new(o, "receives", json_boolean(l->receives));
		put_real(o, "cpu_s", l->cpu_s);
		put_real(o, "wall_s", l->wall_s);
		put(o, "count", l->stalls.count);
		put_real(o, "total_us", ns(l->stalls.total) / 1e3);
		json_object_set_new(o, "longest", longest_json(res, &l->stalls.longest, true));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *
flow_json(const struct flow_result *f)
{
	json_t *o = json_object();

	put(o, "flow", f->flow);
	put(o, "sent", f->sent);
	put(o, "received", f->received);
	put(o, "lost", f->lost);
	if (f->sequence != NULL) {
		put(o, "loss_events", f->sequence->loss_events);
		put(o, "longest_loss", f->sequence->longest_loss);
		put(o, "too_late", f->sequence->too_late);
		put(o, "reordered", f->sequence->reordered);
		put(o, "max_distance", f->sequence->max_distance);
		put(o, "duplicates", f->sequence->duplicates);
	}
	return o;
}

static json_t *
flows_json(const struct results *res)
{
	uint32_t flows = res->run->options->flows, i;
	json_t *list = json_array();
	struct flow_result f;

	for (i = 0; i < flows && json_array_size(list) < FLOWS_WRITTEN; i++) {
		results_flow(res, i, &f);
		if (flows <= FLOWS_WRITTEN || f.lost != 0)
			json_array_append_new(list, flow_json(&f));
	}
	return list;
}

static json_t *
xstats_json(const struct port *port)
{
	json_t *o = json_object();
	struct xstats x;
	uint32_t i;

	if (xstats_read(&x, port->id) < 0)
		return o;
	for (i = 0; i < x.n; i++)
		put(o, x.names[i].name, x.values[i].value);
	xstats_free(&x);
	return o;
}

static json_t *
ports_json(const struct results *res)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < 2; i++) {
		const struct port *port = &res->run->ports->port[i];
		struct rte_eth_stats now;
		json_t *o;

		if (!port->used || rte_eth_stats_get(port->id, &now) != 0)
			continue;
		o = json_object();
		put_text(o, "name", port->name);
		put_text(o, "driver", port->driver);
		put(o, "rx_descs", port->rx_descs);
		put(o, "tx_descs", port->tx_descs);
		put(o, "mtu", port->mtu);
		put(o, "rx_room", res->run->ports->rx_room);
		json_object_set_new(o, "scatter", json_boolean(port->scatter));
		put(o, "opackets", now.opackets - port->before.opackets);
		put(o, "ipackets", now.ipackets - port->before.ipackets);
		put(o, "imissed", now.imissed - port->before.imissed);
		put(o, "ierrors", now.ierrors - port->before.ierrors);
		put(o, "oerrors", now.oerrors - port->before.oerrors);
		put(o, "rx_nombuf", now.rx_nombuf - port->before.rx_nombuf);
		/* Since they could not be cleared, they are not of the measured time. */
		if (port->cleared)
			json_object_set_new(o, "xstats", xstats_json(port));
		json_array_append_new(list, o);
	}
	return list;
}

static json_t *
checks_json(const struct results *res)
{
	json_t *list = json_array();
	uint32_t i;

	for (i = 0; i < res->nchecks; i++) {
		const struct check *c = &res->checks[i];

		json_array_append_new(
			list, json_pack("{s:s, s:I, s:I}", "what", c->what, "left",
				      (json_int_t)c->left, "right", (json_int_t)c->right));
	}
	return list;
}

int
results_write_json(const struct results *res, FILE *to)
{
	const struct ports *ports = res->run->ports;
	json_t *o = json_object();
	int ret;

	put_text(o, "bench", "traffic");
	json_object_set_new(o, "parameters", parameters(res));
	if (ports->tx != NULL)
		json_object_set_new(o, "sender", sender_json(res));
	if (ports->rx != NULL) {
		json_object_set_new(o, "receiver", receiver_json(res));
		json_object_set_new(o, "flows", flows_json(res));
	}
	json_object_set_new(o, "stalls", stalls_json(res));
	json_object_set_new(o, "ports", ports_json(res));
	json_object_set_new(o, "checks", checks_json(res));
	errno = 0;
	ret = json_dumpf(o, to, JSON_INDENT(1)) == 0 && fputc('\n', to) != EOF && fflush(to) == 0
		      ? 0
		      : -(errno != 0 ? errno : EIO);
	json_decref(o);
	return ret;
}
