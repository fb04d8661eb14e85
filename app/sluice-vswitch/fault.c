/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <signal.h>

#include "fault.h"
#include "vswitch.h"
#include "worker.h"

static _Thread_local struct worker *volatile this_worker;
static _Thread_local sigjmp_buf *volatile this_guard;

/* Whose memory is it? PORTS_MAX: none of a guest. */
static uint32_t
port_of_address(const struct view *v, const void *address)
{
	uint32_t port, i;

	for (port = 0; port < PORTS_MAX; port++) {
		const struct vq_mem *mem = v->ports[port].mem;

		if (mem == NULL)
			continue;
		for (i = 0; i < mem->count; i++)
			if ((uintptr_t)address - (uintptr_t)mem->regions[i].host <
				mem->regions[i].size)
				return port;
	}
	return PORTS_MAX;
}

static void
on_sigbus(int number, siginfo_t *info, void *context)
{
	struct worker *w = this_worker;
	sigjmp_buf *guard = this_guard;

	RTE_SET_USED(context);
	if (w != NULL && w->view != NULL) {
		uint32_t port = port_of_address(w->view, info->si_addr);

		if (port < PORTS_MAX) {
			w->fault_port = port;
			siglongjmp(w->env, 1);
		}
	}
	if (guard != NULL)
		siglongjmp(*guard, 1);
	/* Not ours: back to where it happened, to happen once more and end us. */
	signal(number, SIG_DFL);
}

int
fault_init(void)
{
	/* No mask is saved or restored on the way out of the handler, so none may be changed. */
	const struct sigaction action = {
		.sa_sigaction = on_sigbus,
		.sa_flags = SA_SIGINFO | SA_NODEFER,
	};

	return sigaction(SIGBUS, &action, NULL) == 0 ? 0 : -errno;
}

void
fault_set_worker(struct worker *w)
{
	this_worker = w;
}

void
fault_set_guard(sigjmp_buf *env)
{
	this_guard = env;
}

void
fault_mark_port(struct worker *w, uint32_t port, enum port_fault fault)
{
	const struct view *v = w->view;
	uint32_t i, j;

	for (i = 0; i < v->ports[port].nrx; i++)
		atomic_store_explicit(&v->ports[port].rx[i]->dead, true, memory_order_relaxed);
	for (i = 0; i < v->nworkers; i++)
		for (j = 0; j < v->workers[i].ninlets; j++)
			if (v->workers[i].inlets[j].ring != NULL &&
				v->workers[i].inlets[j].port == port)
				atomic_store_explicit(&v->workers[i].inlets[j].ring->dead, true,
					memory_order_relaxed);
	atomic_store_explicit(&w->sw->ports[port].fault, fault, memory_order_release);
}
