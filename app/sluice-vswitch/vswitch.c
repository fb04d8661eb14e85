/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <rte_lcore.h>

#include "log.h"
#include "vswitch.h"
#include "worker.h"

uint32_t
vswitch_worker_for(const struct vswitch *sw, uint32_t port, uint32_t queue, int node)
{
	uint32_t near = 0, n, i;

	for (i = 0; i < sw->nworkers; i++)
		near += (int)rte_lcore_to_socket_id(sw->workers[i]->lcore) == node;
	if (near == 0)
		return (port + queue) % sw->nworkers;
	n = (port + queue) % near;
	for (i = 0; i < sw->nworkers; i++)
		if ((int)rte_lcore_to_socket_id(sw->workers[i]->lcore) == node && n-- == 0)
			break;
	return i;
}

const char *
port_state_name(enum port_state state)
{
	static const char *const names[] = {
		[PORT_DOWN] = "down",
		[PORT_CONNECTED] = "connected",
		[PORT_UP] = "up",
	};

	return names[state];
}

/* A view of all ports; NULL without memory. */
static struct view *
build(struct vswitch *sw)
{
	struct view *v = view_create(sw->nworkers);
	uint32_t i;

	for (i = 0; v != NULL && i < sw->config.nports; i++) {
		struct port *p = &sw->ports[i];

		if (p->ops == NULL || p->ops->view(p, v) == 0)
			continue;
		view_free(v);
		v = NULL;
	}
	return v;
}

void
vswitch_update_view(struct vswitch *sw)
{
	struct view *v = build(sw);

	/* Whoever asks for it is about to change what the old view names: it cannot stay. */
	if (v == NULL)
		rte_exit(1, "sluice-vswitch: out of memory\n");
	view_replace(&sw->views, v);
}
