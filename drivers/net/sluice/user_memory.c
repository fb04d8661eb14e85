/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The application's memory, as regions that the backend maps: runs of pages that lie side by side
 * both in our address space and in one file. Descriptors carry our own virtual addresses.
 *
 * DPDK tells of memory that comes and goes with its memory lock held, hence the lock order in
 * sluice.h.
 */

#include <errno.h>
#include <string.h>

#include <rte_eal_memconfig.h>
#include <rte_errno.h>
#include <rte_memory.h>

#include "sluice_control.h"
#include "user.h"

#define REMEDY "run with --single-file-segments, or with fewer and larger hugepages"

/* Regions of one memory table message; a backend that takes more is told of differences. */
#define TABLE_REGIONS 8

/* A walk over all pages, without those that are about to go. */
struct walk {
	struct user_memory *memory;
	uintptr_t gone, gone_end;
	const struct user_memory *keep; /* regions that do not grow; NULL: none */
};

/* Does a region that is to stay as it is end here? */
static bool
kept_end(const struct user_memory *keep, uintptr_t addr)
{
	uint32_t i;

	for (i = 0; keep != NULL && i < RTE_MIN(keep->count, (uint32_t)USER_REGIONS_MAX); i++) {
		if (keep->regions[i].user + keep->regions[i].size == addr)
			return true;
	}
	return false;
}

static bool
continues(const struct vu_region *r, uintptr_t addr, int fd, size_t offset)
{
	return r->fd == fd && r->user + r->size == addr && r->offset + r->size == offset;
}

static int
add_page(const struct rte_memseg_list *list, const struct rte_memseg *page, void *arg)
{
	struct walk *walk = arg;
	struct user_memory *memory = walk->memory;
	uintptr_t addr = (uintptr_t)page->addr;
	struct vu_region *last;
	size_t offset;
	int fd;

	/* External memory has no file that we know of; mbufs there cannot be used with this port.
	 */
	if (list->external || (addr >= walk->gone && addr < walk->gone_end))
		return 0;
	fd = rte_memseg_get_fd_thread_unsafe(page);
	if (fd < 0 || rte_memseg_get_fd_offset_thread_unsafe(page, &offset) < 0) {
		memory->err = -ENOTSUP;
		return 1;
	}
	last = memory->count == 0 || memory->count > USER_REGIONS_MAX
		       ? NULL
		       : &memory->regions[memory->count - 1];
	if (last != NULL && continues(last, addr, fd, offset) && !kept_end(walk->keep, addr)) {
		last->size += page->len;
		return 0;
	}
	if (memory->count < USER_REGIONS_MAX)
		memory->regions[memory->count] = (struct vu_region){
			.guest = addr,
			.user = addr,
			.size = page->len,
			.offset = offset,
			.fd = fd,
		};
	memory->count++;
	return 0;
}

static void
walk_pages(struct walk *walk)
{
	walk->memory->count = 0;
	walk->memory->err = 0;
	(void)rte_memseg_walk_thread_unsafe(add_page, walk);
}

/*
 * With DPDK's memory lock held, and ours. A region that grew would have to be taken from the
 * backend and given anew, with rings running in it; where there are slots enough, what is new is a
 * region of its own instead.
 */
static void
take_stock(struct user_conn *conn, const void *gone, size_t gone_len)
{
	uint32_t slots = conn->fe != NULL ? vu_frontend_mem_slots(conn->fe) : 0;
	struct walk walk = {
		.memory = &conn->memory,
		.gone = (uintptr_t)gone,
		.gone_end = (uintptr_t)gone + gone_len,
		.keep = slots > TABLE_REGIONS ? &conn->before : NULL,
	};

	conn->before = conn->memory;
	walk_pages(&walk);
	if (walk.keep != NULL && conn->memory.count > slots) {
		walk.keep = NULL;
		walk_pages(&walk);
	}
}

int
user_memory_show(struct user_conn *conn)
{
	const struct user_memory *memory = &conn->memory;
	uint32_t slots = vu_frontend_mem_slots(conn->fe);
	int err;

	if (memory->err != 0)
		return sluice_refuse(conn->dev, -EINVAL,
			"DPDK's memory has no files to share with a backend: run without "
			"--huge-unlink "
			"and --legacy-mem, or with --in-memory");
	if (memory->count > RTE_MIN(slots, (uint32_t)USER_REGIONS_MAX))
		return sluice_refuse(conn->dev, -E2BIG,
			"DPDK's memory has %u regions, the backend takes %u: " REMEDY,
			memory->count, slots);
	err = vu_frontend_set_memory(conn->fe, memory->regions, memory->count);
	if (err == -E2BIG || err == -EREMOTEIO)
		return sluice_refuse(conn->dev, -E2BIG,
			"the backend refuses DPDK's memory of %u regions: " REMEDY, memory->count);
	return err;
}

static void
memory_event(enum rte_mem_event event, const void *addr, size_t len, void *arg)
{
	struct user_conn *conn = arg;
	struct sluice_dev *dev = conn->dev;
	int err;

	pthread_mutex_lock(&dev->lock);
	/* Memory that goes is still there now. */
	take_stock(conn, addr, event == RTE_MEM_EVENT_FREE ? len : 0);
	if (conn->fe != NULL && conn->agreed) {
		vu_frontend_set_deadline(conn->fe, USER_TIMEOUT_MS);
		err = user_memory_show(conn);
		if (err != 0) {
			SLUICE_LOG(ERR, dev->name, "memory changed: %s",
				sluice_absent(dev, err) ? rte_strerror(-err) : dev->why);
			/* Buffers that the backend does not have would be lost: the control thread
			 * finds the link gone, and tries again with what there is. */
			conn->lost = true;
			sluice_control_wake(dev);
		}
	}
	pthread_mutex_unlock(&dev->lock);
}

int
user_memory_start(struct user_conn *conn)
{
	struct sluice_dev *dev = conn->dev;

	snprintf(conn->event_name, sizeof(conn->event_name), "sluice_%u", dev->data->port_id);
	if (rte_mem_event_callback_register(conn->event_name, memory_event, conn) != 0) {
		conn->event_name[0] = '\0';
		/* Memory that does not change has no events. */
		if (rte_errno != ENOTSUP) {
			SLUICE_LOG(ERR, dev->name, "cannot follow DPDK's memory: %s",
				rte_strerror(rte_errno));
			return -rte_errno;
		}
	}
	rte_mcfg_mem_read_lock();
	pthread_mutex_lock(&dev->lock);
	take_stock(conn, NULL, 0);
	pthread_mutex_unlock(&dev->lock);
	rte_mcfg_mem_read_unlock();
	return 0;
}

void
user_memory_stop(struct user_conn *conn)
{
	if (conn->event_name[0] != '\0')
		(void)rte_mem_event_callback_unregister(conn->event_name, conn);
	conn->event_name[0] = '\0';
}
