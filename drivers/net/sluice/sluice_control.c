/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <rte_errno.h>

#include "sluice_control.h"

void
sluice_control_wake(const struct sluice_dev *dev)
{
	const uint64_t one = 1;

	if (write(dev->control->wake, &one, sizeof(one)) < 0)
		return; /* it is awake */
}

/* The application may call us back: not with a lock. */
static void
tell(const struct sluice_control *control, struct rte_eth_dev *eth, uint32_t events)
{
	static const struct {
		uint32_t bit;
		enum rte_eth_event_type type;
	} types[] = {
		{SLUICE_EVENT_RECOVERING, RTE_ETH_EVENT_ERR_RECOVERING},
		{SLUICE_EVENT_LINK, RTE_ETH_EVENT_INTR_LSC},
		{SLUICE_EVENT_RECOVERED, RTE_ETH_EVENT_RECOVERY_SUCCESS},
		{SLUICE_EVENT_LOST, RTE_ETH_EVENT_RECOVERY_FAILED},
		{SLUICE_EVENT_REMOVED, RTE_ETH_EVENT_INTR_RMV},
	};
	unsigned int i;

	if (events & SLUICE_EVENT_LINK)
		(void)sluice_ops.link_update(eth, 0);
	/* Until one of them closes the port. */
	for (i = 0; i < RTE_DIM(types) && control->dev != NULL; i++)
		if (events & types[i].bit)
			rte_eth_dev_callback_process(eth, types[i].type, NULL);
}

static SLUICE_THREAD_RESULT
control_thread(void *arg)
{
	struct sluice_control *control = arg;
	struct sluice_dev *dev = control->dev;
	struct rte_eth_dev *eth = &rte_eth_devices[dev->data->port_id];
	struct pollfd fds[2];
	uint32_t events;
	uint64_t count;
	bool started;
	int timeout;

	pthread_mutex_lock(&dev->lock);
	while (!control->exit) {
		fds[0] = (struct pollfd){.fd = control->wake, .events = POLLIN};
		fds[1] = (struct pollfd){.fd = -1, .events = POLLIN};
		timeout = dev->transport->prepare_wait(dev, &fds[1]);
		pthread_mutex_unlock(&dev->lock);
		(void)poll(fds, RTE_DIM(fds), timeout);
		if (read(control->wake, &count, sizeof(count)) < 0)
			count = 0;
		pthread_mutex_lock(&dev->turn);
		pthread_mutex_lock(&dev->lock);
		events = control->exit ? 0 : dev->transport->turn(dev);
		started = dev->started;
		pthread_mutex_unlock(&dev->lock);
		if (started)
			sluice_free_transmitted(dev);
		pthread_mutex_unlock(&dev->turn);
		tell(control, eth, events);
		if (control->dev == NULL) {
			free(control);
			return SLUICE_THREAD_RETURN;
		}
		pthread_mutex_lock(&dev->lock);
	}
	pthread_mutex_unlock(&dev->lock);
	return SLUICE_THREAD_RETURN;
}

int
sluice_control_start(struct sluice_dev *dev)
{
	struct sluice_control *control = calloc(1, sizeof(*control));
	char name[SLUICE_THREAD_NAME_SIZE];
	int err;

	if (control == NULL)
		return -ENOMEM;
	control->dev = dev;
	control->wake = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	err = control->wake < 0 ? -errno : 0;
	dev->control = control;
	snprintf(name, sizeof(name), "sluice-%u", dev->data->port_id);
	if (err == 0)
		err = sluice_thread_create(&control->thread, name, control_thread, control);
	if (err == 0)
		return 0;
	SLUICE_LOG(ERR, dev->name, "no control thread: %s", rte_strerror(err < 0 ? -err : err));
	if (control->wake >= 0)
		close(control->wake);
	free(control);
	dev->control = NULL;
	return -EAGAIN;
}

void
sluice_control_stop(struct sluice_dev *dev)
{
	struct sluice_control *control = dev->control;
	bool own;

	if (control == NULL)
		return;
	own = sluice_thread_is_self(control->thread);
	if (!own) {
		pthread_mutex_lock(&dev->lock);
		control->exit = true;
		pthread_mutex_unlock(&dev->lock);
		sluice_control_wake(dev);
		sluice_thread_join(control->thread);
	}
	close(control->wake);
	dev->control = NULL;
	if (own) {
		/* The thread ends when the callback returns; nobody waits for it. */
		sluice_thread_detach(control->thread);
		control->dev = NULL;
	} else {
		free(control);
	}
}
