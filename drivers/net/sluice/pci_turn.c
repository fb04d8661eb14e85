/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <poll.h>
#include <stdio.h>

#include "pci.h"
#include "pci_wire.h"
#include "sluice_control.h"
#include "vu_time.h"

/* Pause before a device that failed is tried again, and between looks at a stopped port's. */
#define PAUSE_MS 1000

/* Does the device have a link? One that cannot say has. */
static bool
device_link(const struct sluice_dev *dev)
{
	uint16_t status;

	if (!(dev->features & VQ_FEATURE(STATUS)))
		return true;
	/* One that keeps changing says nothing new. */
	if (pci_net_config(&pci_of(dev)->regs, VPCI_NET_STATUS, &status, sizeof(status)) != 0)
		return atomic_load(&dev->link);
	return (status & VPCI_NET_LINK_UP) != 0;
}

static int
pci_try(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);
	int err = sluice_up(dev);

	/* However it ends: attempts have a pause between them. */
	p->next_ms = vu_now_ms() + PAUSE_MS;
	if (err == 0)
		atomic_store(&dev->link, device_link(dev));
	else
		(void)pci_device_leave(dev);
	return err;
}

int
pci_start(struct sluice_dev *dev)
{
	pci_of(dev)->lost = false;
	return pci_try(dev);
}

int
pci_prepare_wait(struct sluice_dev *dev, struct pollfd *fd)
{
	const struct pci_device *p = pci_of(dev);
	const uint64_t now = vu_now_ms();

	RTE_SET_USED(fd);
	if (p->gone)
		return -1;
	if (dev->up)
		return SLUICE_LOOK_MS;
	if (!dev->started || p->lost)
		return PAUSE_MS;
	return p->next_ms > now ? (int)(p->next_ms - now) : 0;
}

/* Take the rings away. @return what changed; nothing if a burst does not end */
static uint32_t
take_down(struct sluice_dev *dev, const char *reason)
{
	if (sluice_quiesce(dev) != 0)
		return 0;
	SLUICE_LOG(NOTICE, dev->name, "link down: %s", reason);
	(void)pci_device_leave(dev);
	(void)sluice_down(dev);
	return SLUICE_EVENT_LINK;
}

static uint32_t
unplugged(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);
	uint32_t events = 0;

	if (dev->up) {
		events = take_down(dev, "the device has been unplugged");
		if (events == 0)
			return 0;
	}
	/* One whose rings alone are stopped takes commands no more. */
	(void)pci_device_leave(dev);
	p->gone = true;
	sluice_intr_wake(dev);
	return events | SLUICE_EVENT_REMOVED;
}

/* Is the device fit to go on? */
static bool
is_fit(struct sluice_dev *dev, char *reason, size_t len)
{
	const struct sluice_ring *ring = sluice_broken(dev);
	uint8_t status = pci_status(&pci_of(dev)->regs);

	if (ring != NULL)
		snprintf(reason, len, "the device broke the rules of ring %u (%s)", ring->index,
			vq_driver_fault_name(atomic_load(&ring->fault)));
	else if (status & VPCI_NEEDS_RESET)
		snprintf(reason, len, "the device needs a reset (status 0x%x)", status);
	else if (!(status & VPCI_DRIVER_OK))
		snprintf(reason, len, "the device was reset behind our back (status 0x%x)", status);
	else
		return true;
	return false;
}

/* Has the device only not come to itself yet? Anything else it will not get over. */
static bool
may_recover(int err)
{
	return err == -ETIMEDOUT || err == -EIO;
}

static uint32_t
retry(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);
	char before[sizeof(dev->why)];
	int err;

	memcpy(before, dev->why, sizeof(before));
	err = pci_try(dev);
	if (err == 0) {
		p->recovering = false;
		SLUICE_LOG(NOTICE, dev->name, "recovered, link %s",
			atomic_load(&dev->link) ? "up" : "down: the device says so");
		return SLUICE_EVENT_RECOVERED | (atomic_load(&dev->link) ? SLUICE_EVENT_LINK : 0);
	}
	if (!may_recover(err)) {
		p->recovering = false;
		p->lost = true;
		SLUICE_LOG(ERR, dev->name, "%s: link down for good: close the port", dev->why);
		sluice_intr_wake(dev);
		return SLUICE_EVENT_LOST;
	}
	/* Once, not every second. */
	if (strcmp(before, dev->why) != 0)
		SLUICE_LOG(ERR, dev->name, "%s: link down, trying again", dev->why);
	return 0;
}

/* The port was stopped: there is nothing to recover any more. */
static uint32_t
ended(struct pci_device *p)
{
	uint32_t events = p->recovering ? SLUICE_EVENT_LOST : 0;

	p->recovering = false;
	return events;
}

uint32_t
pci_turn(struct sluice_dev *dev)
{
	struct pci_device *p = pci_of(dev);
	const uint64_t now = vu_now_ms();
	char reason[128];
	uint32_t events;
	bool link;

	if (p->gone)
		return 0;
	/* First, and in configuration space: the registers of a device that is not there may be
	 * memory that is not there. */
	if (pci_gone(&p->regs))
		return unplugged(dev);
	if (!dev->started)
		return ended(p);
	if (!dev->up)
		return !p->lost && now >= p->next_ms ? retry(dev) : 0;
	/* The application has started the port anew. */
	if (p->recovering) {
		p->recovering = false;
		return SLUICE_EVENT_RECOVERED;
	}
	if (!is_fit(dev, reason, sizeof(reason))) {
		dev->why[0] = '\0';
		events = take_down(dev, reason);
		p->recovering = events != 0;
		return p->recovering ? events | SLUICE_EVENT_RECOVERING : 0;
	}
	if (now >= p->idle_ms) {
		sluice_idle(dev);
		sluice_coalesce_look(dev);
		p->idle_ms = now + SLUICE_LOOK_MS;
	}
	/* One that does not answer has been logged, and goes on with what it has. */
	(void)sluice_coalesce_tell(dev);
	link = device_link(dev);
	if (link == atomic_load(&dev->link))
		return 0;
	atomic_store(&dev->link, link);
	/* Who sleeps until there is a link. */
	if (link)
		sluice_intr_wake(dev);
	SLUICE_LOG(NOTICE, dev->name, "link %s", link ? "up" : "down: the device says so");
	return SLUICE_EVENT_LINK;
}
