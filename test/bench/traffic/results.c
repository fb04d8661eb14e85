/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <string.h>

#include <rte_cycles.h>

#include "results.h"

double
results_seconds(uint64_t ticks)
{
	return (double)ticks / (double)rte_get_tsc_hz();
}

double
results_moment(const struct results *res, uint64_t tsc)
{
	return tsc > res->run->start ? results_seconds(tsc - res->run->start) : 0;
}

static void
check(struct results *res, const char *what, uint64_t left, uint64_t right)
{
	res->checks[res->nchecks++] = (struct check){.what = what, .left = left, .right = right};
}

/* Losses are counted number by number, arrivals frame by frame: that they add up to what was sent
 * is no tautology.
 */
static void
gather_receiver(struct results *res, struct run *run)
{
	struct receiver *r = &run->receiver;
	uint64_t of_flows = 0, beyond = 0;
	uint32_t i;

	receiver_finish(r, atomic_load(&run->sending_ended));
	for (i = 0; i < receiver_sequences(r); i++) {
		struct sequence *s = &r->sequences[i];
		uint64_t sent = res->both ? sender_sequence_sent(&run->sender, i) : s->next;

		sequence_finish(s, sent);
		if (s->next > sent)
			beyond += s->next - sent;
		res->received += s->received;
		res->duplicates += s->duplicates;
		res->reordered += s->reordered;
		res->max_distance = RTE_MAX(res->max_distance, s->max_distance);
		res->too_late += s->too_late;
		res->invalid += s->invalid;
		res->lost += s->lost;
		res->loss_events += s->loss_events;
		res->longest_loss = RTE_MAX(res->longest_loss, s->longest_loss);
	}
	for (i = 0; i < r->options->flows; i++)
		of_flows += r->flow_received[i];
	res->bad = r->kinds[FRAME_BAD_LENGTH] + r->kinds[FRAME_BAD_HEADER] +
		   r->kinds[FRAME_BAD_CONTENT] + res->invalid;
	if (r->first_arrival != 0)
		res->receiving_s = results_seconds(r->last_arrival - r->first_arrival);
	check(res, "frames = received + duplicates + too late + bad + foreign + warm-up", r->frames,
		res->received + res->duplicates + res->too_late + res->bad +
			r->kinds[FRAME_FOREIGN] + r->kinds[FRAME_WARMUP]);
	check(res, "received = sum of the flows", res->received, of_flows);
	if (res->both) {
		check(res, "sent = received + lost", run->sender.sent, res->received + res->lost);
		check(res, "numbers received that were never sent = 0", beyond, 0);
	}
}

static void
gather_sender(struct results *res, const struct run *run)
{
	const struct sender *s = &run->sender;
	uint64_t of_flows = 0;
	uint32_t i;

	for (i = 0; i < s->options->flows; i++)
		of_flows += sender_flow_sent(s, i);
	res->sending_s = results_seconds(s->done - s->start);
	check(res, "offered = sent + refused", s->offered, s->sent + s->refused);
	check(res, "sent = sum of the flows", s->sent, of_flows);
}

void
results_gather(struct results *res, struct run *run)
{
	memset(res, 0, sizeof(*res));
	res->run = run;
	res->both = run->ports->tx != NULL && run->ports->rx != NULL;
	if (run->ports->tx != NULL)
		gather_sender(res, run);
	if (run->ports->rx != NULL)
		gather_receiver(res, run);
}

void
results_flow(const struct results *res, uint32_t flow, struct flow_result *out)
{
	const struct run *run = res->run;
	const struct receiver *r = &run->receiver;

	*out = (struct flow_result){.flow = flow};
	if (run->ports->tx != NULL)
		out->sent = sender_flow_sent(&run->sender, flow);
	if (run->ports->rx == NULL)
		return;
	out->received = r->flow_received[flow];
	if (!run->options->global) {
		out->sequence = &r->sequences[flow];
		out->lost = out->sequence->lost;
	} else if (res->both) {
		out->lost = out->sent - out->received;
	}
}

int
results_check(const struct results *res, struct problem *p)
{
	uint32_t i;

	for (i = 0; i < res->nchecks; i++)
		if (res->checks[i].left != res->checks[i].right)
			return problem(p,
				"it does not add up: %s: %ju is not %ju: do not trust "
				"these results",
				res->checks[i].what, (uintmax_t)res->checks[i].left,
				(uintmax_t)res->checks[i].right);
	return 0;
}
