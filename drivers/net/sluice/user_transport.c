/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <unistd.h>

#include <rte_errno.h>

#include "user.h"

static int
user_negotiate(struct sluice_dev *dev, uint64_t wanted, uint32_t pairs, uint64_t *features)
{
	struct user_conn *conn = user_conn_of(dev);
	int err = 0;

	/* A start after a stop goes on with what this connection agreed on. */
	if (!conn->agreed) {
		err = vu_frontend_negotiate(conn->fe, wanted, pairs, &conn->features, &conn->pairs);
		if (err != 0 && err != -ENOSPC)
			return err;
	}
	if (conn->pairs < pairs)
		return sluice_refuse(dev, -ENOSPC,
			"the backend at %s has %u queue pair%s, %u are configured: configure "
			"fewer, or "
			"more there",
			conn->socket.path, conn->pairs, conn->pairs == 1 ? "" : "s", pairs);
	*features = conn->features;
	return 0;
}

static int
user_set_features(struct sluice_dev *dev, uint64_t features)
{
	struct user_conn *conn = user_conn_of(dev);
	int err;

	if (conn->agreed)
		return 0;
	err = vu_frontend_set_features(conn->fe, features);
	if (err == -EINVAL)
		return sluice_refuse(dev, -EINVAL, "the backend at %s refuses features 0x%" PRIx64,
			conn->socket.path, features);
	if (err == 0)
		err = user_memory_show(conn);
	conn->agreed = err == 0;
	return err;
}

static int
refused_ring(const struct sluice_ring *ring, int err)
{
	if (err != -EREMOTEIO)
		return err;
	return sluice_refuse(ring->dev, err,
		"the backend at %s refuses ring %u of %u descriptors: give it fewer, or fewer "
		"queues",
		user_conn_of(ring->dev)->socket.path, ring->index, ring->vq.size);
}

static int
user_start_ring(struct sluice_dev *dev, struct sluice_ring *ring)
{
	const struct vu_ring_addr addr = {
		.desc = (uintptr_t)ring->vq.desc,
		.avail = (uintptr_t)ring->vq.avail,
		.used = (uintptr_t)ring->vq.used,
	};

	int err = vu_frontend_start_ring(user_conn_of(dev)->fe, ring->index, ring->vq.size, 0,
		&addr, ring->kick, ring->call);

	return refused_ring(ring, err);
}

static int
user_enable_ring(struct sluice_dev *dev, struct sluice_ring *ring, bool enable)
{
	return refused_ring(
		ring, vu_frontend_enable_ring(user_conn_of(dev)->fe, ring->index, enable));
}

static int
user_driver_ok(struct sluice_dev *dev)
{
	return vu_frontend_driver_ok(user_conn_of(dev)->fe);
}

static int
user_stop_rings(struct sluice_dev *dev)
{
	struct vu_frontend *fe = user_conn_of(dev)->fe;
	uint32_t i;
	uint16_t base;
	int err = 0;

	vu_frontend_set_deadline(fe, USER_TIMEOUT_MS);
	for (i = 0; i < 2 * dev->pairs && err == 0; i++) {
		err = vu_frontend_enable_ring(fe, i, false);
		if (err == 0)
			err = vu_frontend_stop_ring(fe, i, &base);
	}
	return err;
}

static int
user_set_mtu(struct sluice_dev *dev, uint16_t mtu)
{
	struct vu_frontend *fe = user_conn_of(dev)->fe;

	/* Else it is part of an attempt. */
	if (dev->up)
		vu_frontend_set_deadline(fe, USER_TIMEOUT_MS);
	return vu_frontend_set_mtu(fe, mtu);
}

static void
user_reset(struct sluice_dev *dev)
{
	user_conn_drop(user_conn_of(dev));
}

static void
user_notify(struct sluice_ring *ring)
{
	const uint64_t one = 1;

	/* Full means that the device has been told already; nothing else can be done about errors.
	 */
	if (write(ring->kick, &one, sizeof(one)) < 0)
		return;
}

static void
user_describe(struct sluice_dev *dev, char *text, size_t len)
{
	snprintf(text, len, " protocol 0x%" PRIx64,
		vu_frontend_protocol_features(user_conn_of(dev)->fe));
}

const struct sluice_transport user_transport = {
	.reconnects = true,
	.connect = user_conn_try,
	.negotiate = user_negotiate,
	.set_features = user_set_features,
	.start_ring = user_start_ring,
	.enable_ring = user_enable_ring,
	.driver_ok = user_driver_ok,
	.stop_rings = user_stop_rings,
	.set_mtu = user_set_mtu,
	.reset = user_reset,
	.notify = user_notify,
	.describe = user_describe,
	.rx_intr_start = user_rx_intr_start,
	.rx_intr_stop = user_rx_intr_stop,
	.prepare_wait = user_conn_prepare_wait,
	.turn = user_conn_turn,
	.close = user_conn_destroy,
};
