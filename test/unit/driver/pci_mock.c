/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pci_mock.h"

/* What nobody writes to a doorbell: there is no queue of that number. */
#define SILENCE UINT32_MAX

void
pci_mock_violate(struct pci_mock *m, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	if (m->violations++ == 0)
		vsnprintf(m->violation, sizeof(m->violation), format, ap);
	va_end(ap);
}

void
pci_mock_put16(uint8_t *at, uint16_t value)
{
	memcpy(at, &value, sizeof(value));
}

void
pci_mock_put32(uint8_t *at, uint32_t value)
{
	memcpy(at, &value, sizeof(value));
}

/* Where the pointer to the next capability would stand, and how far capabilities go. */
static uint8_t *
end_of_caps(struct pci_mock *m, uint8_t *behind)
{
	uint8_t *link = &m->config[VPCI_CAPS_FIRST];

	*behind = VPCI_CAPS_MIN;
	while (*link != 0) {
		uint8_t *cap = &m->config[*link];

		if (*link + cap[VPCI_CAP_LEN] > *behind)
			*behind = (uint8_t)(*link + cap[VPCI_CAP_LEN]);
		link = cap + 1;
	}
	return link;
}

uint8_t *
pci_mock_add_cap(struct pci_mock *m, uint8_t at, uint8_t id, uint8_t len)
{
	uint8_t behind, *link = end_of_caps(m, &behind), *cap;

	if (at == 0)
		at = behind;
	*link = at;
	cap = &m->config[at];
	cap[0] = id;
	cap[1] = 0;
	cap[VPCI_CAP_LEN] = len;
	return cap;
}

uint8_t *
pci_mock_add_virtio(
	struct pci_mock *m, uint8_t at, uint8_t type, uint8_t bar, uint32_t offset, uint32_t len)
{
	uint8_t bytes = type == VPCI_CAP_NOTIFY ? VPCI_CAP_NOTIFY_LEN : VPCI_CAP_BYTES;
	uint8_t *cap = pci_mock_add_cap(m, at, VPCI_CAP_VENDOR, bytes);

	cap[VPCI_CAP_TYPE] = type;
	cap[VPCI_CAP_BAR] = bar;
	pci_mock_put32(cap + VPCI_CAP_OFFSET, offset);
	pci_mock_put32(cap + VPCI_CAP_LENGTH, len);
	if (type == VPCI_CAP_NOTIFY)
		pci_mock_put32(cap + VPCI_CAP_MULTIPLIER, 4);
	return cap;
}

uint8_t *
pci_mock_cap(struct pci_mock *m, uint8_t type)
{
	uint8_t at;

	for (at = m->config[VPCI_CAPS_FIRST]; at != 0; at = m->config[at + 1]) {
		if (m->config[at] == VPCI_CAP_VENDOR && m->config[at + VPCI_CAP_TYPE] == type)
			return &m->config[at];
	}
	fail_msg("no capability of type %u", type);
	return NULL;
}

static void
make_config_space(struct pci_mock *m)
{
	uint8_t *msix;

	pci_mock_put16(&m->config[VPCI_VENDOR_ID], VPCI_VENDOR_VIRTIO);
	pci_mock_put16(&m->config[VPCI_STATUS], VPCI_STATUS_CAPS);
	msix = pci_mock_add_cap(m, 0, VPCI_CAP_MSIX, 12);
	/* In place of a length it has a size: 3 entries. */
	pci_mock_put16(msix + VPCI_MSIX_CONTROL, 2);
	pci_mock_add_virtio(
		m, 0x50, VPCI_CAP_COMMON, PCI_MOCK_BAR, PCI_MOCK_COMMON, VPCI_COMMON_LEN_RESET);
	pci_mock_add_virtio(m, 0, VPCI_CAP_ISR, PCI_MOCK_BAR, PCI_MOCK_ISR, 1);
	pci_mock_add_virtio(
		m, 0, VPCI_CAP_DEVICE, PCI_MOCK_BAR, PCI_MOCK_DEVICE, PCI_MOCK_NET_BYTES);
	pci_mock_add_virtio(m, 0, VPCI_CAP_NOTIFY, PCI_MOCK_BAR, PCI_MOCK_NOTIFY,
		PCI_MOCK_BAR_BYTES - PCI_MOCK_NOTIFY);
}

void
pci_mock_create(struct pci_mock *m)
{
	static const uint8_t mac[] = {0x52, 0x54, 0, 1, 2, 3};
	/* All addresses but the first page's. */
	const struct vq_mem_region all = {
		.addr = 4096, .size = UINT64_C(1) << 48, .host = (uint8_t *)4096};
	uint32_t i;

	memset(m, 0, sizeof(*m));
	pthread_mutex_init(&m->lock, NULL);
	m->memory = aligned_alloc(64, PCI_MOCK_BAR_BYTES);
	assert_non_null(m->memory);
	memset(m->memory, 0, PCI_MOCK_BAR_BYTES);
	memset(m->memory + PCI_MOCK_NOTIFY, 0xff, PCI_MOCK_BAR_BYTES - PCI_MOCK_NOTIFY);
	m->bars[PCI_MOCK_BAR] = (struct pci_bar){m->memory, PCI_MOCK_BAR_BYTES};
	make_config_space(m);
	m->offered = VQ_FEATURE(VERSION_1) | VQ_FEATURE(ACCESS_PLATFORM) | VQ_FEATURE(MAC) |
		     VQ_FEATURE(STATUS) | VQ_FEATURE(CTRL_VQ) | VQ_FEATURE(CTRL_RX) |
		     VQ_FEATURE(CTRL_MAC_ADDR) | VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(INDIRECT_DESC) |
		     VQ_FEATURE(EVENT_IDX) | VQ_FEATURE(IN_ORDER) | VQ_FEATURE(CSUM);
	m->num_queues = 3;
	m->ctrl = 2;
	memcpy(&m->net[VPCI_NET_MAC], mac, sizeof(mac));
	pci_mock_put16(&m->net[VPCI_NET_STATUS], VPCI_NET_LINK_UP);
	for (i = 0; i < PCI_MOCK_QUEUES; i++) {
		m->queues[i].max = PCI_MOCK_SIZE;
		m->queues[i].size = PCI_MOCK_SIZE;
		m->queues[i].vector = VPCI_NO_VECTOR;
		m->queues[i].notify_off = (uint16_t)i;
	}
	m->config_vector = VPCI_NO_VECTOR;
	assert_int_equal(vq_mem_create(&all, 1, &m->mem), 0);
	pci_mock_enter(m);
}

void
pci_mock_destroy(struct pci_mock *m)
{
	pci_mock_leave(m);
	if (m->violations != 0)
		fail_msg("the driver broke the rules %u times, first: %s", m->violations,
			m->violation);
	vq_mem_destroy(m->mem);
	free(m->memory);
	pthread_mutex_destroy(&m->lock);
}

void
pci_mock_pairs(struct pci_mock *m, uint16_t pairs)
{
	m->offered |= VQ_FEATURE(MQ);
	m->num_queues = (uint16_t)(2 * pairs + 1);
	m->ctrl = 2 * (uint32_t)pairs;
	pci_mock_put16(&m->net[VPCI_NET_PAIRS_MAX], pairs);
}

static int
read_config(void *priv, void *to, size_t len, off_t at)
{
	struct pci_mock *m = priv;
	int n = (int)len;

	pthread_mutex_lock(&m->lock);
	m->looks += at == VPCI_VENDOR_ID;
	if (at < 0 || (size_t)at + len > sizeof(m->config)) {
		pci_mock_violate(m, "%zu bytes read at 0x%lx of configuration space", len, at);
		n = -1;
	} else if (m->unreadable) {
		n = -1;
	} else if (m->gone || (m->hides && at == VPCI_VENDOR_ID)) {
		memset(to, 0xff, len);
	} else {
		memcpy(to, m->config + at, len);
	}
	pthread_mutex_unlock(&m->lock);
	return n;
}

/* A device that has not been reset since must not get at memory again: it goes on where it was. */
static void
set_command(struct pci_mock *m, uint16_t command)
{
	bool before = pci_mock_masters(m);
	uint32_t i;

	pci_mock_put16(&m->config[VPCI_COMMAND], command);
	for (i = 0; i < PCI_MOCK_QUEUES && !before && pci_mock_masters(m); i++) {
		if (m->queues[i].enable)
			pci_mock_violate(m, "bus mastering given to a device with rings");
	}
}

static int
write_config(void *priv, const void *from, size_t len, off_t at)
{
	struct pci_mock *m = priv;
	uint16_t command;

	pthread_mutex_lock(&m->lock);
	if (m->gone) {
		pci_mock_violate(m, "configuration space written of a device that is gone");
	} else if (at != VPCI_COMMAND || len != sizeof(command)) {
		pci_mock_violate(m, "%zu bytes written at 0x%lx of configuration space", len, at);
	} else {
		memcpy(&command, from, sizeof(command));
		set_command(m, command);
	}
	pthread_mutex_unlock(&m->lock);
	return (int)len;
}

struct pci_access
pci_mock_access(struct pci_mock *m)
{
	return (struct pci_access){
		.read_config = read_config,
		.write_config = write_config,
		.load = pci_mock_load,
		.store = pci_mock_store,
		.priv = m,
	};
}

bool
pci_mock_masters(const struct pci_mock *m)
{
	return (m->config[VPCI_COMMAND] & VPCI_COMMAND_MASTER) != 0;
}

bool
pci_mock_notified_locked(struct pci_mock *m, uint32_t queue, uint32_t *value)
{
	uint32_t multiplier, word;
	uint8_t *at;

	memcpy(&multiplier, pci_mock_cap(m, VPCI_CAP_NOTIFY) + VPCI_CAP_MULTIPLIER, 4);
	at = m->memory + PCI_MOCK_NOTIFY + m->queues[queue].notify_off * (size_t)multiplier;
	if (m->accepted & VQ_FEATURE(NOTIFICATION_DATA))
		word = __atomic_exchange_n((uint32_t *)(void *)at, SILENCE, __ATOMIC_ACQ_REL);
	else
		word = __atomic_exchange_n(
			(uint16_t *)(void *)at, (uint16_t)SILENCE, __ATOMIC_ACQ_REL);
	if ((uint16_t)word == (uint16_t)SILENCE)
		return false;
	if (value != NULL)
		*value = word;
	return true;
}

bool
pci_mock_notified(struct pci_mock *m, uint32_t queue, uint32_t *value)
{
	bool notified;

	pthread_mutex_lock(&m->lock);
	notified = pci_mock_notified_locked(m, queue, value);
	pthread_mutex_unlock(&m->lock);
	return notified;
}

void
pci_mock_set_status(struct pci_mock *m, uint8_t clear, uint8_t set)
{
	pthread_mutex_lock(&m->lock);
	m->status = (uint8_t)((m->status & ~clear) | set);
	pthread_mutex_unlock(&m->lock);
}

void
pci_mock_set_link(struct pci_mock *m, bool up)
{
	pthread_mutex_lock(&m->lock);
	pci_mock_put16(&m->net[VPCI_NET_STATUS], up ? VPCI_NET_LINK_UP : 0);
	m->generation++;
	pthread_mutex_unlock(&m->lock);
}

void
pci_mock_unplug(struct pci_mock *m)
{
	uint32_t i;

	pthread_mutex_lock(&m->lock);
	m->gone = true;
	m->accesses = 0;
	for (i = 0; i < PCI_MOCK_QUEUES; i++)
		m->queues[i].enable = 0;
	pthread_mutex_unlock(&m->lock);
}
