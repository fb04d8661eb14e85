/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The registers: what a device that keeps the specification does, and the knobs. */

#include <string.h>

#include "pci_mock.h"

/* How far a look at something that never comes takes the clock. */
#define STUCK_MS 250

/* Bytes of the register at an offset: each is read and written in one piece (4.1.3.1). */
static const uint8_t widths[VPCI_COMMON_LEN_RESET] = {
	[VPCI_COMMON_DEVICE_FEATURE_SELECT] = 4,
	[VPCI_COMMON_DEVICE_FEATURE] = 4,
	[VPCI_COMMON_DRIVER_FEATURE_SELECT] = 4,
	[VPCI_COMMON_DRIVER_FEATURE] = 4,
	[VPCI_COMMON_CONFIG_VECTOR] = 2,
	[VPCI_COMMON_NUM_QUEUES] = 2,
	[VPCI_COMMON_STATUS] = 1,
	[VPCI_COMMON_GENERATION] = 1,
	[VPCI_COMMON_QUEUE_SELECT] = 2,
	[VPCI_COMMON_QUEUE_SIZE] = 2,
	[VPCI_COMMON_QUEUE_VECTOR] = 2,
	[VPCI_COMMON_QUEUE_ENABLE] = 2,
	[VPCI_COMMON_QUEUE_NOTIFY_OFF] = 2,
	[VPCI_COMMON_QUEUE_DESC] = 4,
	[VPCI_COMMON_QUEUE_DESC + 4] = 4,
	[VPCI_COMMON_QUEUE_DRIVER] = 4,
	[VPCI_COMMON_QUEUE_DRIVER + 4] = 4,
	[VPCI_COMMON_QUEUE_DEVICE] = 4,
	[VPCI_COMMON_QUEUE_DEVICE + 4] = 4,
	[VPCI_COMMON_QUEUE_RESET] = 2,
};

static struct pci_mock_queue *
selected(struct pci_mock *m)
{
	uint32_t i = m->queue_select;

	return &m->queues[i < PCI_MOCK_QUEUES ? i : PCI_MOCK_QUEUES - 1];
}

static void
reset_queue(struct pci_mock_queue *q)
{
	*q = (struct pci_mock_queue){
		.max = q->max,
		.notify_off = q->notify_off,
		.size = q->max,
		.vector = VPCI_NO_VECTOR,
		.starts = q->starts,
	};
}

static void
reset(struct pci_mock *m)
{
	uint32_t i;

	for (i = 0; i < PCI_MOCK_QUEUES; i++)
		reset_queue(&m->queues[i]);
	m->status = 0;
	m->accepted = 0;
	m->config_vector = VPCI_NO_VECTOR;
	m->called = false;
	m->avail_idx = 0;
	m->used_idx = 0;
	m->coalesce = (struct pci_mock_coalesce){0};
	m->resets++;
}

static uint8_t
load_status(struct pci_mock *m)
{
	if (m->resetting == 0)
		return m->status;
	if (m->reset_stuck)
		pci_mock_pass_ms(STUCK_MS);
	else if (--m->resetting == 0)
		reset(m);
	/* Of a device that had been reset before, too. */
	return m->resetting != 0 ? m->status | VPCI_ACKNOWLEDGE : m->status;
}

static uint32_t
load_common(struct pci_mock *m, uint32_t at)
{
	const struct pci_mock_queue *q = selected(m);

	switch (at) {
	case VPCI_COMMON_DEVICE_FEATURE:
		return m->device_select < 2 ? (uint32_t)(m->offered >> 32 * m->device_select) : 0;
	case VPCI_COMMON_CONFIG_VECTOR:
		return m->vectors_read_0 ? 0 : m->config_vector;
	case VPCI_COMMON_NUM_QUEUES:
		return m->num_queues;
	case VPCI_COMMON_STATUS:
		return load_status(m);
	case VPCI_COMMON_GENERATION:
		if (m->generations != 0)
			m->generation++;
		if (m->generations > 0)
			m->generations--;
		return m->generation;
	case VPCI_COMMON_QUEUE_SIZE:
		return m->queue_select < m->num_queues ? q->size : 0;
	case VPCI_COMMON_QUEUE_VECTOR:
		return m->vectors_read_0 ? 0 : q->vector;
	case VPCI_COMMON_QUEUE_ENABLE:
		return q->enable;
	case VPCI_COMMON_QUEUE_NOTIFY_OFF:
		return q->notify_off;
	case VPCI_COMMON_QUEUE_RESET:
		if (q->reset)
			pci_mock_pass_ms(STUCK_MS);
		return q->reset;
	default:
		pci_mock_violate(m, "register 0x%x read", at);
		return 0;
	}
}

static void
store_status(struct pci_mock *m, uint8_t value)
{
	if (value == 0) {
		m->resetting = m->reset_looks + 1;
		if (!m->reset_stuck && m->reset_looks == 0) {
			m->resetting = 0;
			reset(m);
		}
		return;
	}
	if (m->resetting != 0)
		pci_mock_violate(m, "status 0x%x written before a reset has ended", value);
	if ((value & m->status) != m->status)
		pci_mock_violate(m, "status 0x%x written over 0x%x", value, m->status);
	if ((value & VPCI_DRIVER_OK) && !(m->status & VPCI_FEATURES_OK))
		pci_mock_violate(m, "DRIVER_OK without FEATURES_OK");
	if ((value & VPCI_FEATURES_OK) && (m->accepted & ~m->offered))
		pci_mock_violate(m, "features that are not offered");
	if (m->refuses_features || (m->accepted & ~m->offered))
		value &= (uint8_t)~VPCI_FEATURES_OK;
	if (m->needs_reset && (value & VPCI_DRIVER_OK))
		value |= VPCI_NEEDS_RESET;
	m->status = value;
}

static void
enable(struct pci_mock *m, struct pci_mock_queue *q)
{
	const struct vq_device_config config = {
		.size = q->size,
		.features = m->accepted,
		.desc = (void *)(uintptr_t)q->desc,
		.avail = (void *)(uintptr_t)q->driver,
		.used = (void *)(uintptr_t)q->device,
		.mem = m->mem,
	};

	if (!(m->status & VPCI_FEATURES_OK) || !pci_mock_masters(m))
		pci_mock_violate(m, "queue %u enabled too early", m->queue_select);
	if (m->queue_select >= PCI_MOCK_QUEUES || vq_device_init(&q->vq, &config) != 0) {
		pci_mock_violate(m, "queue %u enabled without a ring", m->queue_select);
		return;
	}
	/* It wants to be notified. */
	(void)vq_device_arm(&q->vq);
	q->enable = !m->never_enables;
	pci_mock_begin_coalesce(m, q);
	q->starts++;
}

static void
store_half(uint64_t *value, bool high, uint32_t half)
{
	if (high)
		*value = (uint32_t)*value | (uint64_t)half << 32;
	else
		*value = (*value & ~(uint64_t)UINT32_MAX) | half;
}

static void
store_queue(struct pci_mock *m, uint32_t at, uint32_t value)
{
	struct pci_mock_queue *q = selected(m);

	if (q->enable && at != VPCI_COMMON_QUEUE_RESET)
		pci_mock_violate(m, "register 0x%x written of an enabled queue", at);
	switch (at) {
	case VPCI_COMMON_QUEUE_SIZE:
		if (!m->size_fixed)
			q->size = (uint16_t)value;
		break;
	case VPCI_COMMON_QUEUE_VECTOR:
		q->vector = m->no_vectors ? VPCI_NO_VECTOR : (uint16_t)value;
		break;
	case VPCI_COMMON_QUEUE_ENABLE:
		if (value != 1)
			pci_mock_violate(m, "%u written to queue_enable", value);
		enable(m, q);
		break;
	case VPCI_COMMON_QUEUE_RESET:
		if (value != 1 || !(m->accepted & VQ_FEATURE(RING_RESET)))
			pci_mock_violate(m, "%u written to queue_reset", value);
		m->ring_resets++;
		if (m->ring_reset_stuck)
			q->reset = 1;
		else
			reset_queue(q);
		break;
	default:
		store_half(at < VPCI_COMMON_QUEUE_DRIVER   ? &q->desc
			   : at < VPCI_COMMON_QUEUE_DEVICE ? &q->driver
							   : &q->device,
			at % 8 != 0, value);
		break;
	}
}

static void
store_common(struct pci_mock *m, uint32_t at, uint32_t value)
{
	switch (at) {
	case VPCI_COMMON_DEVICE_FEATURE_SELECT:
		m->device_select = value;
		break;
	case VPCI_COMMON_DRIVER_FEATURE_SELECT:
		m->driver_select = value;
		break;
	case VPCI_COMMON_DRIVER_FEATURE:
		if (m->status & VPCI_FEATURES_OK)
			pci_mock_violate(m, "features written after FEATURES_OK");
		store_half(&m->accepted, m->driver_select == 1, value);
		break;
	case VPCI_COMMON_CONFIG_VECTOR:
		m->config_vector = m->no_vectors ? VPCI_NO_VECTOR : (uint16_t)value;
		break;
	case VPCI_COMMON_STATUS:
		store_status(m, (uint8_t)value);
		break;
	case VPCI_COMMON_QUEUE_SELECT:
		m->queue_select = (uint16_t)value;
		break;
	case VPCI_COMMON_DEVICE_FEATURE:
	case VPCI_COMMON_NUM_QUEUES:
	case VPCI_COMMON_GENERATION:
	case VPCI_COMMON_QUEUE_NOTIFY_OFF:
		pci_mock_violate(m, "register 0x%x written", at);
		break;
	default:
		store_queue(m, at, value);
		break;
	}
}

/* Is it a register of the common configuration, whole? */
static bool
is_common(struct pci_mock *m, uint32_t at, uint32_t width)
{
	if (at >= VPCI_COMMON_LEN_RESET)
		return false;
	if (widths[at] != width)
		pci_mock_violate(m, "%u bytes of register 0x%x", width, at);
	return true;
}

static bool
is_there(struct pci_mock *m)
{
	m->accesses++;
	if (m->gone)
		pci_mock_violate(m, "registers of a device that is gone");
	if (m->gone || m->dead)
		pci_mock_pass_ms(STUCK_MS);
	return !m->gone && !m->dead;
}

uint32_t
pci_mock_load(void *priv, const volatile void *at, uint32_t width)
{
	struct pci_mock *m = priv;
	uint32_t offset = (uint32_t)((uintptr_t)at - (uintptr_t)m->memory);
	uint32_t value = UINT32_MAX >> (32 - 8 * width);

	pthread_mutex_lock(&m->lock);
	if (is_there(m)) {
		value = 0;
		if (is_common(m, offset - PCI_MOCK_COMMON, width))
			value = load_common(m, offset - PCI_MOCK_COMMON);
		else if (offset < PCI_MOCK_DEVICE ||
			 offset + width > PCI_MOCK_DEVICE + PCI_MOCK_NET_BYTES ||
			 offset % width != 0)
			pci_mock_violate(m, "%u bytes read at 0x%x", width, offset);
		else
			memcpy(&value, m->net + (offset - PCI_MOCK_DEVICE), width);
	}
	pthread_mutex_unlock(&m->lock);
	return value;
}

void
pci_mock_store(void *priv, volatile void *at, uint32_t width, uint32_t value)
{
	struct pci_mock *m = priv;
	uint32_t offset = (uint32_t)((uintptr_t)at - (uintptr_t)m->memory);

	pthread_mutex_lock(&m->lock);
	if (is_there(m)) {
		if (is_common(m, offset - PCI_MOCK_COMMON, width))
			store_common(m, offset - PCI_MOCK_COMMON, value);
		else
			pci_mock_violate(m, "%u bytes written at 0x%x", width, offset);
	}
	pthread_mutex_unlock(&m->lock);
}
