/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <time.h>

#include "pci_regs.h"
#include "pci_wire.h"
#include "vq_wire.h"
#include "vu_time.h"

/* Longest wait for a reset, and the pause between two looks. */
#define RESET_MS       3000
#define RESET_PAUSE_NS 100000
/* Reads of a configuration that changes meanwhile. */
#define GENERATIONS 100

static uint32_t
load(const struct pci_regs *r, uint32_t at, uint32_t width)
{
	return r->access.load(r->access.priv, r->caps.common.base + at, width);
}

static void
store(const struct pci_regs *r, uint32_t at, uint32_t width, uint32_t value)
{
	r->access.store(r->access.priv, r->caps.common.base + at, width, value);
}

static void
store64(const struct pci_regs *r, uint32_t at, uint64_t value)
{
	store(r, at, 4, (uint32_t)value);
	store(r, at + 4, 4, (uint32_t)(value >> 32));
}

bool
pci_gone(const struct pci_regs *r)
{
	uint16_t vendor;

	return r->access.read_config(r->access.priv, &vendor, sizeof(vendor), VPCI_VENDOR_ID) !=
		       (int)sizeof(vendor) ||
	       vendor == UINT16_MAX;
}

uint8_t
pci_status(const struct pci_regs *r)
{
	return (uint8_t)load(r, VPCI_COMMON_STATUS, 1);
}

void
pci_add_status(const struct pci_regs *r, uint8_t bits)
{
	store(r, VPCI_COMMON_STATUS, 1, pci_status(r) | bits);
}

/* Wait until a register reads 0. */
static int
wait_zero(const struct pci_regs *r, uint32_t at, uint32_t width)
{
	const struct timespec pause = {.tv_nsec = RESET_PAUSE_NS};
	const uint64_t end = vu_now_ms() + RESET_MS;

	while (load(r, at, width) != 0) {
		if (vu_now_ms() >= end)
			return -ETIMEDOUT;
		nanosleep(&pause, NULL);
	}
	return 0;
}

void
pci_bus_master(const struct pci_regs *r, bool on)
{
	uint16_t command;

	/* Of a device that is not there, all bits are read as set. */
	if (r->access.read_config(r->access.priv, &command, sizeof(command), VPCI_COMMAND) !=
			(int)sizeof(command) ||
		command == UINT16_MAX)
		return;
	command = (uint16_t)(on ? command | VPCI_COMMAND_MASTER : command & ~VPCI_COMMAND_MASTER);
	(void)r->access.write_config(r->access.priv, &command, sizeof(command), VPCI_COMMAND);
}

int
pci_reset(const struct pci_regs *r)
{
	store(r, VPCI_COMMON_STATUS, 1, 0);
	return wait_zero(r, VPCI_COMMON_STATUS, 1);
}

uint64_t
pci_device_features(const struct pci_regs *r)
{
	uint64_t features;

	store(r, VPCI_COMMON_DEVICE_FEATURE_SELECT, 4, 1);
	features = (uint64_t)load(r, VPCI_COMMON_DEVICE_FEATURE, 4) << 32;
	store(r, VPCI_COMMON_DEVICE_FEATURE_SELECT, 4, 0);
	return features | load(r, VPCI_COMMON_DEVICE_FEATURE, 4);
}

int
pci_set_features(const struct pci_regs *r, uint64_t features)
{
	store(r, VPCI_COMMON_DRIVER_FEATURE_SELECT, 4, 0);
	store(r, VPCI_COMMON_DRIVER_FEATURE, 4, (uint32_t)features);
	store(r, VPCI_COMMON_DRIVER_FEATURE_SELECT, 4, 1);
	store(r, VPCI_COMMON_DRIVER_FEATURE, 4, (uint32_t)(features >> 32));
	pci_add_status(r, VPCI_FEATURES_OK);
	return pci_status(r) & VPCI_FEATURES_OK ? 0 : -EINVAL;
}

uint16_t
pci_num_queues(const struct pci_regs *r)
{
	return (uint16_t)load(r, VPCI_COMMON_NUM_QUEUES, 2);
}

int
pci_queue(const struct pci_regs *r, uint16_t queue, uint32_t doorbell_len, struct pci_queue *out)
{
	const struct pci_window *notify = &r->caps.notify;
	uint64_t at;

	store(r, VPCI_COMMON_QUEUE_SELECT, 2, queue);
	out->size = load(r, VPCI_COMMON_QUEUE_SIZE, 2);
	if (out->size == 0)
		return 0;
	if (!vq_size_ok(out->size))
		return -EINVAL;
	at = (uint64_t)load(r, VPCI_COMMON_QUEUE_NOTIFY_OFF, 2) * r->caps.notify_multiplier;
	if (at + doorbell_len > notify->len || (uintptr_t)(notify->base + at) % doorbell_len != 0)
		return -ERANGE;
	out->doorbell = notify->base + at;
	return 0;
}

int
pci_queue_start(const struct pci_regs *r, uint16_t queue, const struct pci_ring *ring)
{
	store(r, VPCI_COMMON_QUEUE_SELECT, 2, queue);
	store(r, VPCI_COMMON_QUEUE_SIZE, 2, ring->size);
	if (load(r, VPCI_COMMON_QUEUE_SIZE, 2) != ring->size)
		return -ERANGE;
	store64(r, VPCI_COMMON_QUEUE_DESC, ring->desc);
	store64(r, VPCI_COMMON_QUEUE_DRIVER, ring->driver);
	store64(r, VPCI_COMMON_QUEUE_DEVICE, ring->device);
	store(r, VPCI_COMMON_QUEUE_VECTOR, 2, ring->vector);
	/* Without MSI-X there may be no such register. */
	if (ring->vector != VPCI_NO_VECTOR && load(r, VPCI_COMMON_QUEUE_VECTOR, 2) != ring->vector)
		return -EBUSY;
	store(r, VPCI_COMMON_QUEUE_ENABLE, 2, 1);
	return load(r, VPCI_COMMON_QUEUE_ENABLE, 2) == 1 ? 0 : -EIO;
}

int
pci_queue_reset(const struct pci_regs *r, uint16_t queue)
{
	if (r->caps.common.len < VPCI_COMMON_LEN_RESET)
		return -ENOTSUP;
	store(r, VPCI_COMMON_QUEUE_SELECT, 2, queue);
	store(r, VPCI_COMMON_QUEUE_RESET, 2, 1);
	return wait_zero(r, VPCI_COMMON_QUEUE_RESET, 2);
}

int
pci_config_vector(const struct pci_regs *r, uint16_t vector)
{
	store(r, VPCI_COMMON_CONFIG_VECTOR, 2, vector);
	return load(r, VPCI_COMMON_CONFIG_VECTOR, 2) == vector ? 0 : -EBUSY;
}

/* A field is read in one access of its own width, an array byte by byte (4.1.3.1). */
static void
load_field(const struct pci_regs *r, uint32_t at, void *to, uint32_t len)
{
	const volatile uint8_t *from = r->caps.device.base + at;
	uint8_t *bytes = to;
	uint32_t value, i;

	if (len == 2 || len == 4) {
		value = r->access.load(r->access.priv, from, len);
		memcpy(to, &value, len);
		return;
	}
	for (i = 0; i < len; i++)
		bytes[i] = (uint8_t)r->access.load(r->access.priv, from + i, 1);
}

int
pci_net_config(const struct pci_regs *r, uint32_t at, void *to, uint32_t len)
{
	uint32_t generation, n;

	if (at + len > r->caps.device.len)
		return -ERANGE;
	for (n = 0; n < GENERATIONS; n++) {
		generation = load(r, VPCI_COMMON_GENERATION, 1);
		load_field(r, at, to, len);
		if (load(r, VPCI_COMMON_GENERATION, 1) == generation)
			return 0;
	}
	return -EAGAIN;
}
