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
/* And one at an answer that comes late, but within the second that a driver waits. */
#define SLOW_MS  900
#define NS_PER_S UINT64_C(1000000000)

static _Atomic(uint64_t) passed_ns;
static _Atomic(uint64_t) stopped_ns; /* 0: it goes */
static pthread_mutex_t list_lock = PTHREAD_MUTEX_INITIALIZER;
static struct pci_mock *list;

void
pci_mock_pass_ms(uint32_t ms)
{
	atomic_fetch_add(&passed_ns, ms * UINT64_C(1000000));
}

void
pci_mock_pass_us(uint32_t us)
{
	atomic_fetch_add(&passed_ns, us * UINT64_C(1000));
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __real_clock_gettime(clockid_t clock, struct timespec *ts);

static uint64_t
real_ns(clockid_t clock)
{
	struct timespec ts;

	(void)__real_clock_gettime(clock, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

void
pci_mock_stop_clock(bool stop)
{
	atomic_store(&stopped_ns, stop ? real_ns(CLOCK_MONOTONIC) : 0);
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
take_command(struct pci_mock *m, const struct pci_mock_queue *q, uint16_t head,
	struct pci_mock_command *command)
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
	*command = c;
	return (uint8_t *)(uintptr_t)in.addr;
}

static void
answer(struct pci_mock *m, struct pci_mock_queue *q)
{
	struct vq_avail *avail = (struct vq_avail *)(uintptr_t)q->driver;
	struct vq_used *used = (struct vq_used *)(uintptr_t)q->device;
	struct vq_used_elem *e = &used->ring[m->used_idx % q->size];
	uint16_t head = vq_load(&avail->ring[m->avail_idx++ % q->size]);
	struct pci_mock_command c;
	uint8_t *ack = take_command(m, q, head, &c);
	bool coalesce, refused;

	if (ack == NULL)
		return;
	coalesce = c.class == PCI_MOCK_CLASS_COALESCE;
	if (coalesce && m->answer == PCI_MOCK_SILENT_COALESCE) {
		m->answer = PCI_MOCK_SILENT;
		return;
	}
	if (coalesce && m->answer == PCI_MOCK_SLOW_COALESCE)
		pci_mock_pass_ms(SLOW_MS);
	refused = m->answer == PCI_MOCK_REFUSES ||
		  (coalesce && m->answer == PCI_MOCK_REFUSES_COALESCE);
	if (coalesce && !refused)
		refused = !pci_mock_set_coalesce(m, &c);
	*e = (struct vq_used_elem){head, 1};
	if (m->answer == PCI_MOCK_WRONG_ID)
		e->id = head ^ 1;
	else if (m->answer == PCI_MOCK_TOO_LONG)
		e->len = 2;
	else if (m->answer == PCI_MOCK_WRITES_NOTHING)
		e->len = 0;
	else
		*ack = refused;
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
	/* Silent from this one on. */
	m->called = m->answer == PCI_MOCK_SILENT;
}

int
__wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	uint64_t ns = clock == CLOCK_MONOTONIC ? atomic_load(&stopped_ns) : 0;
	struct pci_mock *m;

	pthread_mutex_lock(&list_lock);
	for (m = list; m != NULL; m = m->next) {
		pthread_mutex_lock(&m->lock);
		look_at_commands(m);
		pthread_mutex_unlock(&m->lock);
	}
	pthread_mutex_unlock(&list_lock);
	if (ns == 0)
		ns = real_ns(clock);
	ns += atomic_load(&passed_ns);
	*ts = (struct timespec){
		.tv_sec = (time_t)(ns / NS_PER_S), .tv_nsec = (long)(ns % NS_PER_S)};
	return 0;
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
