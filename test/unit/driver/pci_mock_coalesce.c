/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Moderation of interrupts, as the driver may set it (virtio 1.3, section 5.1.6.5.10). */

#include <string.h>

#include "pci_mock.h"

#define TX_SET 0
#define RX_SET 1
#define VQ_SET 2

static uint32_t
le32(const uint8_t *at)
{
	return (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16 |
	       (uint32_t)at[3] << 24;
}

static struct pci_mock_coalesce
values(const uint8_t *at)
{
	return (struct pci_mock_coalesce){.max_packets = le32(at), .max_usecs = le32(at + 4)};
}

static bool
set_receive(struct pci_mock *m, const struct pci_mock_command *c)
{
	uint32_t i;

	if (!(m->accepted & VQ_FEATURE(NOTF_COAL)))
		pci_mock_violate(m, "RX_SET without NOTF_COAL");
	if (c->len != 8) {
		pci_mock_violate(m, "RX_SET of %u bytes", c->len);
		return false;
	}
	m->coalesce = values(c->data);
	for (i = 0; i < PCI_MOCK_QUEUES; i += 2) {
		if (i != m->ctrl && m->queues[i].enable)
			m->queues[i].coalesce = m->coalesce;
	}
	return true;
}

static bool
set_queue(struct pci_mock *m, const struct pci_mock_command *c)
{
	const uint32_t index = (uint32_t)c->data[0] | (uint32_t)c->data[1] << 8;

	if (!(m->accepted & VQ_FEATURE(VQ_NOTF_COAL)))
		pci_mock_violate(m, "VQ_SET without VQ_NOTF_COAL");
	if (c->len != 12 || c->data[2] != 0 || c->data[3] != 0) {
		pci_mock_violate(
			m, "VQ_SET of %u bytes, reserved 0x%x%02x", c->len, c->data[3], c->data[2]);
		return false;
	}
	/* One that does not exist, that is for commands, or that is not in use. */
	if (index >= PCI_MOCK_QUEUES || index >= m->num_queues || index == m->ctrl ||
		!m->queues[index].enable)
		return false;
	m->queues[index].coalesce = values(c->data + 4);
	return true;
}

bool
pci_mock_set_coalesce(struct pci_mock *m, const struct pci_mock_command *c)
{
	if (!(m->accepted & VQ_FEATURE(CTRL_VQ)))
		pci_mock_violate(m, "moderation without CTRL_VQ");
	if (c->command == RX_SET)
		return set_receive(m, c);
	if (c->command == VQ_SET)
		return set_queue(m, c);
	/* This driver has no use for the others. */
	pci_mock_violate(m, "moderation command %u", c->command);
	return false;
}

void
pci_mock_begin_coalesce(struct pci_mock *m, struct pci_mock_queue *q)
{
	const bool receive = (q - m->queues) % 2 == 0 && q != &m->queues[m->ctrl];

	q->coalesce = receive ? m->coalesce : (struct pci_mock_coalesce){0};
}
