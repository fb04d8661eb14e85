/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "view.h"

/* Between two looks at the workers. One of them may need the very CPU that we run on. */
#define SYNCHRONIZE_PAUSE_NS 20000
/* So many without an end, and somebody has to look why. */
#define SYNCHRONIZE_PAUSES 50

/* Cache lines of its own, so that no other worker writes to them; all of it 0. */
static void *
lines(size_t size)
{
	void *p;

	size = RTE_ALIGN_CEIL(size, (size_t)RTE_CACHE_LINE_SIZE);
	p = aligned_alloc(RTE_CACHE_LINE_SIZE, size);
	if (p != NULL)
		memset(p, 0, size);
	return p;
}

struct view *
view_create(uint32_t nworkers)
{
	struct view *v = lines(sizeof(*v) + nworkers * sizeof(v->workers[0]));

	if (v != NULL)
		v->nworkers = nworkers;
	return v;
}

void
view_free(struct view *v)
{
	uint32_t i;

	if (v == NULL)
		return;
	for (i = 0; i < v->nworkers; i++) {
		free(v->workers[i].inlets);
		free(v->workers[i].busy);
		free(v->workers[i].empty);
	}
	free(v);
}

/* Make room for one more than n members. @return false without memory, with all as it was */
static bool
grow(void **array, uint32_t n, size_t size)
{
	void *grown;

	if ((n + 1) * size <= RTE_ALIGN_CEIL(n * size, (size_t)RTE_CACHE_LINE_SIZE))
		return true;
	grown = lines((n + 1) * size);
	if (grown == NULL)
		return false;
	if (n != 0)
		memcpy(grown, *array, n * size);
	free(*array);
	*array = grown;
	return true;
}

int
view_add_inlet(struct view *v, uint32_t worker, const struct inlet *inlet)
{
	struct view_worker *w = &v->workers[worker];
	const uint32_t n = w->ninlets;

	if (!grow((void **)&w->inlets, n, sizeof(*w->inlets)) ||
		!grow((void **)&w->busy, view_words(w), sizeof(*w->busy)) ||
		!grow((void **)&w->empty, n, sizeof(*w->empty)))
		return -ENOMEM;
	w->inlets[n] = *inlet;
	w->busy[n / 64] |= UINT64_C(1) << n % 64;
	w->ninlets++;
	w->polls |= !inlet->wakes;
	return 0;
}

int
view_domain_init(struct view_domain *d, uint32_t nworkers)
{
	size_t size = rte_rcu_qsbr_get_memsize(nworkers);
	struct view *empty = view_create(nworkers);

	d->readers = aligned_alloc(RTE_CACHE_LINE_SIZE, RTE_ALIGN_CEIL(size, RTE_CACHE_LINE_SIZE));
	if (empty == NULL || d->readers == NULL || rte_rcu_qsbr_init(d->readers, nworkers) != 0) {
		view_free(empty);
		free(d->readers);
		d->readers = NULL;
		return -ENOMEM;
	}
	d->waiting = NULL;
	d->published = NULL;
	d->serial = empty->serial = 1;
	atomic_init(&d->current, empty);
	return 0;
}

void
view_domain_free(struct view_domain *d)
{
	view_free(atomic_exchange_explicit(&d->current, NULL, memory_order_acquire));
	free(d->readers);
	d->readers = NULL;
}

void
view_synchronize(struct view_domain *d)
{
	uint64_t token = rte_rcu_qsbr_start(d->readers);
	const struct timespec pause = {.tv_nsec = SYNCHRONIZE_PAUSE_NS};
	uint32_t pauses = 0;

	while (rte_rcu_qsbr_check(d->readers, token, false) == 0) {
		nanosleep(&pause, NULL);
		if (++pauses % SYNCHRONIZE_PAUSES == 0 && d->waiting != NULL)
			d->waiting(d->waiting_priv);
	}
}

void
view_replace(struct view_domain *d, struct view *v)
{
	struct view *old;

	v->serial = ++d->serial;
	old = atomic_exchange_explicit(&d->current, v, memory_order_acq_rel);
	if (d->published != NULL)
		d->published(d->published_priv);
	view_synchronize(d);
	view_free(old);
}
