/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What lies in memory that driver and device share: the split ring of virtio 1.3, section 2.7, the
 * header of a network packet (5.1.6) and the feature bits we know. Nothing but the wire.
 *
 * All fields are little-endian; the build refuses big-endian hosts, so they are used in place.
 */
#ifndef VQ_WIRE_H
#define VQ_WIRE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

/* Feature bits, by bit number (virtio 1.3, sections 5.1.3 and 6). */
#define VQ_F_CSUM              0
#define VQ_F_GUEST_CSUM        1
#define VQ_F_MTU               3
#define VQ_F_MAC               5
#define VQ_F_GUEST_TSO4        7
#define VQ_F_GUEST_TSO6        8
#define VQ_F_HOST_TSO4         11
#define VQ_F_HOST_TSO6         12
#define VQ_F_MRG_RXBUF         15
#define VQ_F_STATUS            16
#define VQ_F_CTRL_VQ           17
#define VQ_F_CTRL_RX           18
#define VQ_F_CTRL_VLAN         19
#define VQ_F_GUEST_ANNOUNCE    21
#define VQ_F_MQ                22
#define VQ_F_CTRL_MAC_ADDR     23
#define VQ_F_NOTIFY_ON_EMPTY   24
#define VQ_F_ANY_LAYOUT        27
#define VQ_F_INDIRECT_DESC     28
#define VQ_F_EVENT_IDX         29
#define VQ_F_PROTOCOL_FEATURES 30 /* of vhost-user, never seen by a driver */
#define VQ_F_VERSION_1         32
#define VQ_F_ACCESS_PLATFORM   33
#define VQ_F_RING_PACKED       34
#define VQ_F_IN_ORDER          35
#define VQ_F_ORDER_PLATFORM    36
#define VQ_F_NOTIFICATION_DATA 38
#define VQ_F_RING_RESET        40
#define VQ_F_VQ_NOTF_COAL      52
#define VQ_F_NOTF_COAL         53
#define VQ_F_HASH_REPORT       57

/** The mask of a feature bit. */
#define VQ_FEATURE(bit) (UINT64_C(1) << VQ_F_##bit)

/** Largest split ring the specification allows (2.7). Sizes are powers of two from 1 up to it. */
#define VQ_SIZE_MAX 32768

/* Flags of a descriptor (2.7.5). */
#define VQ_DESC_NEXT     1
#define VQ_DESC_WRITE    2
#define VQ_DESC_INDIRECT 4

/** A descriptor, and an entry of an indirect table. */
struct vq_desc {
	uint64_t addr;
	uint32_t len;
	uint16_t flags;
	uint16_t next;
};

/* The driver asks not to be called (2.7.6). */
#define VQ_AVAIL_NO_INTERRUPT 1
/* The device asks not to be notified (2.7.8). */
#define VQ_USED_NO_NOTIFY 1

/** Available ring; the used_event field follows ring[size]. */
struct vq_avail {
	_Atomic(uint16_t) flags;
	_Atomic(uint16_t) idx;
	_Atomic(uint16_t) ring[];
};

struct vq_used_elem {
	uint32_t id;
	uint32_t len;
};

/** Used ring; the avail_event field follows ring[size]. */
struct vq_used {
	_Atomic(uint16_t) flags;
	_Atomic(uint16_t) idx;
	struct vq_used_elem ring[];
};

/** Header before each packet (5.1.6); num_buffers is absent for a legacy device without MRG_RXBUF.
 */
struct vq_net_hdr {
	uint8_t flags;
	uint8_t gso_type;
	uint16_t hdr_len;
	uint16_t gso_size;
	uint16_t csum_start;
	uint16_t csum_offset;
	uint16_t num_buffers;
};

_Static_assert(sizeof(struct vq_desc) == 16, "descriptor");
_Static_assert(sizeof(_Atomic(uint16_t)) == 2, "ring index");
_Static_assert(offsetof(struct vq_avail, ring) == 4, "available ring");
_Static_assert(sizeof(struct vq_used_elem) == 8, "used element");
_Static_assert(offsetof(struct vq_used, ring) == 4, "used ring");
_Static_assert(sizeof(struct vq_net_hdr) == 12, "packet header");

#define VQ_NET_HDR_MAX 20

/** Where EVENT_IDX has the driver's wish: behind the available ring (2.7.7). */
static inline _Atomic(uint16_t) *
vq_used_event(struct vq_avail *avail, uint32_t size)
{
	return &avail->ring[size];
}

/** And the device's: behind the used ring (2.7.10). */
static inline _Atomic(uint16_t) *
vq_avail_event(struct vq_used *used, uint32_t size)
{
	return (_Atomic(uint16_t) *)(void *)&used->ring[size];
}

/**
 * Bytes of the header before each packet, from the negotiated features: the one place that knows.
 * @return 10 (legacy, not mergeable), 12, or 20 with HASH_REPORT.
 */
static inline uint32_t
vq_net_hdr_len(uint64_t features)
{
	if (features & VQ_FEATURE(HASH_REPORT))
		return 20;
	if (features & (VQ_FEATURE(MRG_RXBUF) | VQ_FEATURE(VERSION_1)))
		return 12;
	return 10;
}

/** Is n a size that a split ring may have? */
static inline int
vq_size_ok(uint32_t n)
{
	return n >= 1 && n <= VQ_SIZE_MAX && (n & (n - 1)) == 0;
}

#endif
