/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <inttypes.h>

#include "results.h"

#define FLOWS_SHOWN 8

static double
us(uint64_t ticks)
{
	return results_seconds(ticks) * 1e6;
}

static double
percent(uint64_t part, uint64_t whole)
{
	return whole != 0 ? 100.0 * (double)part / (double)whole : 0;
}

static double
rate(uint64_t frames, double seconds)
{
	return seconds > 0 ? (double)frames / seconds : 0;
}

static void
print_times(const char *what, const struct histogram *h, FILE *to)
{
	if (h->count == 0)
		return;
	fprintf(to,
		"%-10s us: min %.2f, p50 %.2f, p90 %.2f, p99 %.2f, p99.9 %.2f, max %.2f, mean "
		"%.2f\n",
		what, us(h->min), us(histogram_percentile(h, 500)),
		us(histogram_percentile(h, 900)), us(histogram_percentile(h, 990)),
		us(histogram_percentile(h, 999)), us(h->max), us(h->sum) / (double)h->count);
}

static void
print_what(const struct results *res, FILE *to)
{
	const struct options *o = res->run->options;
	const struct ports *ports = res->run->ports;

	fprintf(to, "stream %u: %s -> %s, %s bytes, %u flow%s, %u queue%s, ", o->stream,
		ports->tx != NULL ? ports->tx->name : "(elsewhere)",
		ports->rx != NULL ? ports->rx->name : "(elsewhere)", o->size_text, o->flows,
		o->flows == 1 ? "" : "s", o->queues, o->queues == 1 ? "" : "s");
	if (ports->tx == NULL)
		fprintf(to, "receiver only\n");
	else if (o->rate == 0)
		fprintf(to, "max rate, ");
	else
		fprintf(to, "%" PRIu64 "/s, ", o->rate);
	if (ports->tx == NULL)
		return;
	fprintf(to, "%s, burst %u, ", o->shape_text, o->burst);
	if (o->window != 0)
		fprintf(to, "closed loop of %u\n", o->window);
	else
		fprintf(to, "open loop\n");
}

static void
print_sender(const struct results *res, FILE *to)
{
	const struct sender *s = &res->run->sender;

	fprintf(to,
		"offered    %14" PRIu64 " = sent %" PRIu64 " + refused %" PRIu64
		" (%.4f %%) in %.3f s: sent %.0f/s\n",
		s->offered, s->sent, s->refused, percent(s->refused, s->offered), res->sending_s,
		rate(s->sent, res->sending_s));
	if (s->short_calls != 0 || s->no_mbuf != 0)
		fprintf(to,
			"port full  %14" PRIu64 " of %" PRIu64 " calls; retried %" PRIu64
			" frames, no mbuf for %" PRIu64 "\n",
			s->short_calls, s->calls, s->retries, s->no_mbuf);
	if (s->window_resets != 0)
		fprintf(to,
			"window     %14" PRIu64 " times given up after silence, %" PRIu64
			" frames written off\n",
			s->window_resets, s->written_off);
}

static void
print_sleeper(const struct sleeper *s, FILE *to)
{
	fprintf(to,
		"sleeps     %14" PRIu64 ", %.2f us in all; woken %" PRIu64 " (for nothing %" PRIu64
		"), something else was due %" PRIu64 ", timed out %" PRIu64 " (missed %" PRIu64
		")\n",
		s->sleeps, us(s->asleep), s->wakes, s->spurious, s->deadlines, s->timeouts,
		s->missed);
}

static void
print_receiver(const struct results *res, FILE *to)
{
	const struct receiver *r = &res->run->receiver;

	if (res->both)
		fprintf(to,
			"sent       %14" PRIu64 " = received %" PRIu64 " + lost %" PRIu64
			" (%.4f %%): received %.0f/s\n",
			res->run->sender.sent, res->received, res->lost,
			percent(res->lost, res->run->sender.sent),
			rate(res->received, res->receiving_s));
	else
		fprintf(to,
			"received   %14" PRIu64 " and missed %" PRIu64
			" below the last number: received %.0f/s\n",
			res->received, res->lost, rate(res->received, res->receiving_s));
	fprintf(to,
		"lost       %14" PRIu64 " in %" PRIu64 " events, the longest of %" PRIu64
		"; came too late %" PRIu64 "\n",
		res->lost, res->loss_events, res->longest_loss, res->too_late);
	fprintf(to,
		"reordered  %14" PRIu64 ", distance %" PRIu64 " at most; duplicates %" PRIu64 "\n",
		res->reordered, res->max_distance, res->duplicates);
	fprintf(to,
		"bad        %14" PRIu64 ": length %" PRIu64 ", header %" PRIu64 ", content %" PRIu64
		", number %" PRIu64 "; not ours: foreign %" PRIu64 ", late warm-up %" PRIu64 "\n",
		res->bad, r->kinds[FRAME_BAD_LENGTH], r->kinds[FRAME_BAD_HEADER],
		r->kinds[FRAME_BAD_CONTENT], res->invalid, r->kinds[FRAME_FOREIGN],
		r->kinds[FRAME_WARMUP]);
	print_times("latency", &r->latency, to);
	if (r->before_sent != 0)
		fprintf(to,
			"latency    %14" PRIu64
			" frames arrived before they were sent: the TSCs of "
			"these CPUs disagree\n",
			r->before_sent);
	if (r->options->time_calls) {
		print_times("rx_burst", &r->timed.gave, to);
		print_times("  empty", &r->timed.empty, to);
	}
	if (r->options->sleep)
		print_sleeper(&res->run->sleeper, to);
	if (r->options->starve_us != 0) {
		fprintf(to,
			"starved    %14" PRIu64 " times, %.2f us in all; mbufs taken %" PRIu64
			", frames kept %" PRIu64 "\n",
			r->starve.spells.count, us(r->starve.spells.total), r->starve.taken,
			r->starve.kept);
		print_times("after dry", &r->timed.after_dry, to);
	}
	if (r->options->away_us != 0)
		fprintf(to, "away       %14" PRIu64 " times, %.2f us in all\n", r->away.count,
			us(r->away.total));
	fprintf(to, "silence    %14.2f us the longest, at %.6f s; our own stalls in it %.2f us\n",
		us(r->silence), results_moment(res, r->silence_at), us(r->silence_stalled));
}

static void
print_own_faults(const struct results *res, FILE *to)
{
	const struct run *run = res->run;
	uint32_t i;

	if (run->ports->tx != NULL && run->options->rate != 0) {
		print_times("late by", &run->sender.lateness, to);
		fprintf(to, "late       %14" PRIu64 " frames sent more than %u us late\n",
			run->sender.late_frames, run->options->late_us);
		if (run->options->shift)
			fprintf(to, "shifted    %14.2f us in all: the schedule gave way\n",
				us(run->sender.pacer.shifted));
	}
	for (i = 0; i < run->nloops; i++) {
		const struct loop *l = &run->loops[i];
		const struct longest *longest = &l->stalls.longest;

		fprintf(to,
			"stalls     %14" PRIu64 " of the %s above %u us, %.2f us in all, the "
			"longest %.2f us at %.6f s\n",
			l->stalls.count,
			!l->sends     ? "receiver"
			: l->receives ? "program"
				      : "sender",
			run->options->late_us, us(l->stalls.total),
			longest->n != 0 ? us(longest->entry[0].value) : 0,
			longest->n != 0 ? results_moment(res, longest->entry[0].at) : 0);
		if (run->options->sleep)
			fprintf(to, "CPU time   %14.6f s of %.6f s\n", l->cpu_s, l->wall_s);
	}
}

/* The flows with the greatest losses. */
static void
print_flows(const struct results *res, FILE *to)
{
	struct flow_result worst[FLOWS_SHOWN], f;
	uint32_t n = 0, i, at;

	for (i = 0; i < res->run->options->flows; i++) {
		results_flow(res, i, &f);
		if (f.lost == 0 || (n == FLOWS_SHOWN && f.lost <= worst[n - 1].lost))
			continue;
		for (at = n < FLOWS_SHOWN ? n++ : n - 1; at > 0 && worst[at - 1].lost < f.lost;
			at--)
			worst[at] = worst[at - 1];
		worst[at] = f;
	}
	for (i = 0; i < n && res->run->options->flows > 1; i++)
		fprintf(to,
			"flow %-5u %14" PRIu64 " lost, sent %" PRIu64 ", received %" PRIu64 "\n",
			worst[i].flow, worst[i].lost, worst[i].sent, worst[i].received);
}

static void
print_port(const struct port *port, FILE *to)
{
	struct rte_eth_stats now;

	if (!port->used || rte_eth_stats_get(port->id, &now) != 0)
		return;
	fprintf(to,
		"%s says: opackets %" PRIu64 ", ipackets %" PRIu64 ", imissed %" PRIu64
		", ierrors %" PRIu64 ", oerrors %" PRIu64 ", rx_nombuf %" PRIu64
		" (rings: %u receive, %u transmit)\n",
		port->name, now.opackets - port->before.opackets,
		now.ipackets - port->before.ipackets, now.imissed - port->before.imissed,
		now.ierrors - port->before.ierrors, now.oerrors - port->before.oerrors,
		now.rx_nombuf - port->before.rx_nombuf, port->rx_descs, port->tx_descs);
}

void
results_print(const struct results *res, FILE *to)
{
	const struct ports *ports = res->run->ports;

	print_what(res, to);
	if (ports->tx != NULL)
		print_sender(res, to);
	if (ports->rx != NULL)
		print_receiver(res, to);
	print_own_faults(res, to);
	if (ports->rx != NULL)
		print_flows(res, to);
	print_port(&ports->port[0], to);
	print_port(&ports->port[1], to);
	fflush(to);
}
