/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdio.h>

#include "feature_bits.h"
#include "vq_wire.h"

static const char *const names[64] = {
	[VQ_F_CSUM] = "CSUM",
	[VQ_F_GUEST_CSUM] = "GUEST_CSUM",
	[VQ_F_MTU] = "MTU",
	[VQ_F_MAC] = "MAC",
	[VQ_F_GUEST_TSO4] = "GUEST_TSO4",
	[VQ_F_GUEST_TSO6] = "GUEST_TSO6",
	[VQ_F_HOST_TSO4] = "HOST_TSO4",
	[VQ_F_HOST_TSO6] = "HOST_TSO6",
	[VQ_F_MRG_RXBUF] = "MRG_RXBUF",
	[VQ_F_STATUS] = "STATUS",
	[VQ_F_CTRL_VQ] = "CTRL_VQ",
	[VQ_F_CTRL_RX] = "CTRL_RX",
	[VQ_F_CTRL_VLAN] = "CTRL_VLAN",
	[VQ_F_GUEST_ANNOUNCE] = "GUEST_ANNOUNCE",
	[VQ_F_MQ] = "MQ",
	[VQ_F_CTRL_MAC_ADDR] = "CTRL_MAC_ADDR",
	[VQ_F_NOTIFY_ON_EMPTY] = "NOTIFY_ON_EMPTY",
	[VQ_F_ANY_LAYOUT] = "ANY_LAYOUT",
	[VQ_F_INDIRECT_DESC] = "INDIRECT_DESC",
	[VQ_F_EVENT_IDX] = "EVENT_IDX",
	[VQ_F_PROTOCOL_FEATURES] = "PROTOCOL_FEATURES",
	[VQ_F_VERSION_1] = "VERSION_1",
	[VQ_F_ACCESS_PLATFORM] = "ACCESS_PLATFORM",
	[VQ_F_RING_PACKED] = "RING_PACKED",
	[VQ_F_IN_ORDER] = "IN_ORDER",
	[VQ_F_ORDER_PLATFORM] = "ORDER_PLATFORM",
	[VQ_F_NOTIFICATION_DATA] = "NOTIFICATION_DATA",
	[VQ_F_RING_RESET] = "RING_RESET",
	[VQ_F_HASH_REPORT] = "HASH_REPORT",
};

uint64_t
offered_features(const struct port_config *c)
{
	/*
	 * The control queue, with receive modes and announcements, is the frontend's own work: it
	 * asks us only whether it may offer it. Every frame that the switch sends to a port fits
	 * whatever mode the guest is in.
	 */
	uint64_t f = VQ_FEATURE(VERSION_1) | VQ_FEATURE(ANY_LAYOUT) | VQ_FEATURE(MQ) |
		     VQ_FEATURE(MTU) | VQ_FEATURE(CTRL_VQ) | VQ_FEATURE(CTRL_RX) |
		     VQ_FEATURE(CTRL_VLAN) | VQ_FEATURE(CTRL_MAC_ADDR) | VQ_FEATURE(GUEST_ANNOUNCE);

	if (c->mrg_rxbuf)
		f |= VQ_FEATURE(MRG_RXBUF);
	if (c->in_order)
		f |= VQ_FEATURE(IN_ORDER);
	if (c->indirect)
		f |= VQ_FEATURE(INDIRECT_DESC);
	if (c->event_idx)
		f |= VQ_FEATURE(EVENT_IDX);
	return f;
}

void
feature_names(uint64_t features, char *out, size_t len)
{
	size_t used = 0;

	out[0] = '\0';
	for (; features != 0 && used < len; features &= features - 1) {
		int bit = __builtin_ctzll(features);
		const char *space = used == 0 ? "" : " ";
		int n;

		if (names[bit] != NULL)
			n = snprintf(out + used, len - used, "%s%s", space, names[bit]);
		else
			n = snprintf(out + used, len - used, "%sBIT_%d", space, bit);
		used += (size_t)n;
	}
}
