/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * No wakeup is lost: one end publishes and decides on a notification, the other takes what it sees,
 * arms, looks again and sleeps until the bell; both with the library's functions, in every
 * interleaving of their accesses, from any index. Ring entries have no part in it; a reap or peek
 * is the index it reads and any number of entries up to it.
 */
#include "turns.h"

/* Both ends have functions of these names. */
#define readable    device_readable
#define fault_names device_fault_names
#include "vq_device.c"
#undef readable
#undef fault_names
#include "vq_driver.c"

static struct vq_device device;
static struct vq_driver driver;
static uint16_t first[SHARED];

static void
any_ends(void)
{
	struct vq_device d;
	struct vq_driver v;

	device = d;
	driver = v;
	device.size = driver.size = ANY_SIZE();
	device.mask = driver.mask = (uint16_t)(device.size - 1);
	device.fault = VQ_DEVICE_OK;
	driver.fault = VQ_DRIVER_OK;
	device.event_idx = driver.event_idx = EVENT;
	device.avail = driver.avail = (struct vq_avail *)(void *)avail_ring;
	device.used = driver.used = (struct vq_used *)(void *)used_ring;
	for (uint32_t f = 0; f < SHARED; f++)
		first[f] = nondet_u16();
	first[BELL] = 0;
}

/* In place of vq_used_event() and vq_avail_event(), which the size of the ring moves. */
uint16_t *
used_event(struct vq_avail *avail, uint32_t size)
{
	(void)avail;
	(void)size;
	return &avail_ring[3];
}

uint16_t *
avail_event(struct vq_used *used, uint32_t size)
{
	(void)used;
	(void)size;
	return &used_ring[6];
}

/* The driver sleeps, the device calls; calls may be held back and go at the latest at the end. */
void
prove_calls(void)
{
	bool asleep = nondet_bool();
	uint16_t behind;
	uint32_t turns;

	any_ends();
	driver.avail_idx = (uint16_t)(driver.used_idx + driver.size);
	behind = (uint16_t)(device.published - driver.used_idx);
	driver.used_seen = driver.used_idx;
	device.used_idx = device.published;
	first[USED_IDX] = device.published;
	ASSUME(behind <= device.size && device.coalesce.pending <= UINT32_MAX - 2 * device.size);
	/* Since the last decision as many were published as are pending, or it is a new queue. */
	device.call_idx = (uint16_t)(device.published - device.coalesce.pending);
	if (nondet_bool())
		device.call_idx = (uint16_t)(device.call_idx - device.size);
	if (asleep) {
		/* It armed, and what came since is held back. */
		ASSUME(behind <= device.coalesce.pending);
		first[device.event_idx ? USED_EVENT : AVAIL_FLAGS] =
			device.event_idx ? driver.used_idx : 0;
	}

	begin(first);
	for (turns = 0; turns < TURNS; turns++) {
		uint16_t n = nondet_u16();

		/* No more than are in flight. */
		ASSUME((uint16_t)(device.used_idx - driver.used_idx) + (uint32_t)n <= device.size);
		device.used_idx = (uint16_t)(device.used_idx + n);
		if (vq_device_call(&device, vq_device_publish(&device), nondet_u64()) ==
			VQ_CALL_MAKE)
			put(BELL, 1);
	}
	if (vq_device_call_flush(&device) == VQ_CALL_MAKE)
		put(BELL, 1);

	other_thread();
	for (turns = 0; turns < TURNS; turns++) {
		if (!asleep) {
			uint16_t n = (uint16_t)vq_driver_readable(&driver, any_upto(driver.size));
			uint16_t taken = nondet_u16();

			ASSUME(taken <= n);
			driver.used_idx = (uint16_t)(driver.used_idx + taken);
			asleep = !vq_driver_arm(&driver);
		}
		if (asleep && look(BELL) != 0) {
			put(BELL, 0);
			asleep = false;
			if (nondet_bool())
				vq_driver_disarm(&driver);
		} else if (asleep) {
			break;
		}
	}
	end();
	PROVE(driver.fault == VQ_DRIVER_OK);
	if (asleep && values[ROUNDS - 1][BELL] == 0)
		PROVE(values[ROUNDS - 1][USED_IDX] == driver.used_idx);
	REACH_IF(asleep && values[ROUNDS - 1][BELL] == 1, "about to be woken");
#if TURNS > 1
	REACH_IF(asleep && values[ROUNDS - 1][BELL] == 0 && turns == 1, "woken once, then asleep");
#endif
	REACH_IF(!asleep && device.published < behind, "around the wrap");
}

/* The device sleeps, the driver notifies. */
void
prove_kicks(void)
{
	bool asleep = nondet_bool();
	uint16_t base;
	uint32_t turns;

	any_ends();
	device.outstanding = 0;
	device.used_idx = device.published;
	device.avail_seen = device.avail_idx;
	base = device.avail_idx;
	driver.avail_idx = driver.published;
	first[AVAIL_IDX] = driver.published;
	ASSUME((uint16_t)(driver.published - device.avail_idx) <= device.size);
	/* Every publication was followed by a decision. */
	driver.notify_idx = driver.published;
	if (asleep) {
		ASSUME(device.avail_idx == driver.published);
		first[device.event_idx ? AVAIL_EVENT : USED_FLAGS] =
			device.event_idx ? device.avail_idx : 0;
	}

	begin(first);
	for (turns = 0; turns < TURNS; turns++) {
		uint16_t n = nondet_u16();

		/* No more than the ring has. */
		ASSUME((uint16_t)(driver.avail_idx - base) + (uint32_t)n <= driver.size);
		driver.avail_idx = (uint16_t)(driver.avail_idx + n);
		vq_driver_publish(&driver);
		if (vq_driver_need_notify(&driver))
			put(BELL, 1);
	}

	other_thread();
	for (turns = 0; turns < TURNS; turns++) {
		if (!asleep) {
			uint16_t n = (uint16_t)device_readable(&device, any_upto(device.size));
			uint16_t taken = nondet_u16();

			ASSUME(taken <= n);
			device.avail_idx = (uint16_t)(device.avail_idx + taken);
			asleep = !vq_device_arm(&device);
		}
		if (asleep && look(BELL) != 0) {
			put(BELL, 0);
			asleep = false;
			if (nondet_bool())
				vq_device_disarm(&device);
		} else if (asleep) {
			break;
		}
	}
	end();
	PROVE(device.fault == VQ_DEVICE_OK);
	if (asleep && values[ROUNDS - 1][BELL] == 0)
		PROVE(values[ROUNDS - 1][AVAIL_IDX] == device.avail_idx);
	REACH_IF(asleep && values[ROUNDS - 1][BELL] == 1, "about to be woken");
#if TURNS > 1
	REACH_IF(asleep && values[ROUNDS - 1][BELL] == 0 && turns == 1, "woken once, then asleep");
#endif
	REACH_IF(!asleep && driver.published < base, "around the wrap");
}
