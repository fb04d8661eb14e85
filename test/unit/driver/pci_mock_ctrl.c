/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* The control queue, and the clock that gives the device its turns. */

#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "pci_mock.h"

/* How far a look at an answer that never comes takes the clock. */
#define SILENT_MS 100

static _Atomic(uint64_t) passed_ms;
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pci_mock *list;

void
pci_mock_pass_ms(uint32_t ms)
{
	atomic_fetch_add(&passed_ms, ms);
}

void
pci_mock_enter(struct pci_mock *m)
{
	pthread_mutex_lock(&list_lock);
	m->next = list;
	list = m;
	pthread_mutex_unlock(&list_lock);
}

void
pci_mock_leave(struct pci_mock *m)
{
	struct pci_mock **at = &list;

	pthread_mutex_lock(&list_lock);
	while (*at != m)
		at = &(*at)->next;
	*at = m->next;
	pthread_mutex_unlock(&list_lock);
}

/* One descriptor that is read, one byte that is written. @return where the answer goes */
static uint8_t *
take_command(struct pci_mock *m, const struct pci_mock_queue *q, uint16_t head)
{
	const struct vq_desc *desc = (const struct vq_desc *)(uintptr_t)q->desc;
	const struct vq_desc out = desc[head];
	const uint8_t *bytes = (const uint8_t *)(uintptr_t)out.addr;
	struct pci_mock_command c = {0};
	struct vq_desc in;

	if (out.flags != VQ_DESC_NEXT || out.next >= q->size || out.len < 3 ||
		out.len > 2 + sizeof(c.data)) {
		pci_mock_violate(
			m, "a command that begins with flags %u, %u bytes", out.flags, out.len);
		return NULL;
	}
	in = desc[out.next];
	if (in.flags != VQ_DESC_WRITE || in.len != 1) {
		pci_mock_violate(
			m, "a command that ends with flags %u, %u bytes", in.flags, in.len);
		return NULL;
	}
	c.class = bytes[0];
	c.command = bytes[1];
	c.len = out.len - 2;
	memcpy(c.data, bytes + 2, c.len);
	if (m->ncommands < PCI_MOCK_COMMANDS)
		m->commands[m->ncommands++] = c;
	return (uint8_t *)(uintptr_t)in.addr;
}

static void
answer(struct pci_mock *m, struct pci_mock_queue *q)
{
	struct vq_avail *avail = (struct vq_avail *)(uintptr_t)q->driver;
	struct vq_used *used = (struct vq_used *)(uintptr_t)q->device;
	struct vq_used_elem *e = &used->ring[m->used_idx % q->size];
	uint16_t head = vq_load(&avail->ring[m->avail_idx++ % q->size]);
	uint8_t *ack = take_command(m, q, head);

	if (ack == NULL)
		return;
	*e = (struct vq_used_elem){head, 1};
	if (m->answer == PCI_MOCK_WRONG_ID)
		e->id = head ^ 1;
	else if (m->answer == PCI_MOCK_TOO_LONG)
		e->len = 2;
	else if (m->answer == PCI_MOCK_WRITES_NOTHING)
		e->len = 0;
	else
		*ack = m->answer == PCI_MOCK_REFUSES;
	m->used_idx++;
	if (m->accepted & VQ_FEATURE(EVENT_IDX))
		vq_store(vq_avail_event(used, q->size), m->avail_idx);
	vq_publish_index(&used->idx, m->used_idx);
}

/* What has been notified, and only that. */
static void
look_at_commands(struct pci_mock *m)
{
	struct pci_mock_queue *q;

	if (m->ctrl >= PCI_MOCK_QUEUES || m->gone)
		return;
	q = &m->queues[m->ctrl];
	if (!q->enable || !pci_mock_masters(m))
		return;
	m->called |= pci_mock_notified_locked(m, m->ctrl, NULL);
	if (!m->called)
		return;
	if (!(m->status & VPCI_DRIVER_OK))
		pci_mock_violate(m, "a command before DRIVER_OK");
	if (m->answer == PCI_MOCK_SILENT) {
		pci_mock_pass_ms(SILENT_MS);
		return;
	}
	while (vq_load_index(&((struct vq_avail *)(uintptr_t)q->driver)->idx) != m->avail_idx)
		answer(m, q);
	m->called = false;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	struct pci_mock *m;
	uint64_t ms;
	int err;

	pthread_mutex_lock(&list_lock);
	for (m = list; m != NULL; m = m->next) {
		pthread_mutex_lock(&m->lock);
		look_at_commands(m);
		pthread_mutex_unlock(&m->lock);
	}
	pthread_mutex_unlock(&list_lock);
	err = __real_clock_gettime(clock, ts);
	ms = atomic_load(&passed_ms);
	ts->tv_sec += (time_t)(ms / 1000);
	ts->tv_nsec += (long)(ms % 1000) * 1000000;
	if (ts->tv_nsec >= 1000000000) {
		ts->tv_nsec -= 1000000000;
		ts->tv_sec++;
	}
	return err;
}

int
pci_mock_last_command(struct pci_mock *m, uint8_t class, uint8_t command)
{
	int value = -1;
	uint32_t i;

	pthread_mutex_lock(&m->lock);
	for (i = 0; i < m->ncommands; i++) {
		const struct pci_mock_command *c = &m->commands[i];

		if (c->class == class && c->command == command)
			value = c->len == 1 ? c->data[0] : c->data[0] | c->data[1] << 8;
	}
	pthread_mutex_unlock(&m->lock);
	return value;
}

void
pci_mock_forget_commands(struct pci_mock *m)
{
	PCI_MOCK_SET(m, ncommands, 0);
}
