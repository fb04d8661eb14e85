/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What goes over the socket of vhost-user: header, requests, payloads, feature bits. Nothing but
 * the wire. All fields are in the byte order of the host; frontend and backend share one machine.
 */
#ifndef VU_WIRE_H
#define VU_WIRE_H

#include <stddef.h>
#include <stdint.h>

/* Flags of a header. */
#define VU_FLAG_VERSION      0x1u
#define VU_FLAG_VERSION_MASK 0x3u
#define VU_FLAG_REPLY        0x4u
#define VU_FLAG_NEED_REPLY   0x8u

/** Requests of the frontend; the numbers that are missing are not used by either of our ends. */
enum vu_request {
	VU_GET_FEATURES = 1,
	VU_SET_FEATURES = 2,
	VU_SET_OWNER = 3,
	VU_RESET_OWNER = 4,
	VU_SET_MEM_TABLE = 5,
	VU_SET_LOG_BASE = 6,
	VU_SET_LOG_FD = 7,
	VU_SET_VRING_NUM = 8,
	VU_SET_VRING_ADDR = 9,
	VU_SET_VRING_BASE = 10,
	VU_GET_VRING_BASE = 11,
	VU_SET_VRING_KICK = 12,
	VU_SET_VRING_CALL = 13,
	VU_SET_VRING_ERR = 14,
	VU_GET_PROTOCOL_FEATURES = 15,
	VU_SET_PROTOCOL_FEATURES = 16,
	VU_GET_QUEUE_NUM = 17,
	VU_SET_VRING_ENABLE = 18,
	VU_SEND_RARP = 19,
	VU_NET_SET_MTU = 20,
	VU_SET_BACKEND_REQ_FD = 21,
	VU_IOTLB_MSG = 22,
	VU_SET_VRING_ENDIAN = 23,
	VU_GET_CONFIG = 24,
	VU_SET_CONFIG = 25,
	VU_CREATE_CRYPTO_SESSION = 26,
	VU_CLOSE_CRYPTO_SESSION = 27,
	VU_POSTCOPY_ADVISE = 28,
	VU_POSTCOPY_LISTEN = 29,
	VU_POSTCOPY_END = 30,
	VU_GET_INFLIGHT_FD = 31,
	VU_SET_INFLIGHT_FD = 32,
	VU_RESET_DEVICE = 34,
	VU_GET_MAX_MEM_SLOTS = 36,
	VU_ADD_MEM_REG = 37,
	VU_REM_MEM_REG = 38,
	VU_SET_STATUS = 39,
	VU_GET_STATUS = 40,
	VU_GET_SHARED_OBJECT = 41,
	VU_SET_DEVICE_STATE_FD = 42,
	VU_CHECK_DEVICE_STATE = 43,
	VU_REQUESTS,
};

/* Protocol features, by bit number. */
#define VU_PF_MQ                  0
#define VU_PF_REPLY_ACK           3
#define VU_PF_NET_MTU             4
#define VU_PF_RESET_DEVICE        13
#define VU_PF_CONFIGURE_MEM_SLOTS 15
#define VU_PF_STATUS              16

/** The mask of a protocol feature. */
#define VU_PROTOCOL(bit) (UINT64_C(1) << VU_PF_##bit)

/* Payload of SET_VRING_KICK, _CALL and _ERR. */
#define VU_VRING_INDEX_MASK UINT64_C(0xff)
#define VU_VRING_NOFD       UINT64_C(0x100)

/* Device status (virtio 1.3, section 2.1). */
#define VU_STATUS_ACKNOWLEDGE 0x01u
#define VU_STATUS_DRIVER      0x02u
#define VU_STATUS_DRIVER_OK   0x04u
#define VU_STATUS_FEATURES_OK 0x08u

/** Regions in one SET_MEM_TABLE; as many descriptors travel with it. */
#define VU_TABLE_REGIONS 8
/** Descriptors in one message, either way. */
#define VU_FDS_MAX 8

struct vu_header {
	uint32_t request;
	uint32_t flags;
	uint32_t size; /* of what follows */
};

struct vu_wire_region {
	uint64_t guest;
	uint64_t size;
	uint64_t user;
	uint64_t offset; /* in the file */
};

struct vu_wire_table {
	uint32_t count;
	uint32_t padding;
	struct vu_wire_region regions[VU_TABLE_REGIONS];
};

struct vu_wire_single {
	uint64_t padding;
	struct vu_wire_region region;
};

struct vu_wire_state {
	uint32_t index;
	uint32_t num;
};

struct vu_wire_addr {
	uint32_t index;
	uint32_t flags;
	uint64_t desc;
	uint64_t used;
	uint64_t avail;
	uint64_t log;
};

/** Longest payload that is read; anything longer has no meaning for us and ends the connection. */
#define VU_PAYLOAD_MAX 512

union vu_payload {
	uint64_t u64;
	struct vu_wire_state state;
	struct vu_wire_addr addr;
	struct vu_wire_table table;
	struct vu_wire_single single;
	uint8_t bytes[VU_PAYLOAD_MAX];
};

_Static_assert(sizeof(struct vu_header) == 12, "header");
_Static_assert(sizeof(struct vu_wire_region) == 32, "memory region");
_Static_assert(offsetof(struct vu_wire_table, regions) == 8, "memory table");
_Static_assert(sizeof(struct vu_wire_table) == 264, "memory table");
_Static_assert(sizeof(struct vu_wire_single) == 40, "single memory region");
_Static_assert(sizeof(struct vu_wire_state) == 8, "ring state");
_Static_assert(offsetof(struct vu_wire_addr, desc) == 8, "ring addresses");
_Static_assert(sizeof(struct vu_wire_addr) == 40, "ring addresses");
_Static_assert(sizeof(union vu_payload) == VU_PAYLOAD_MAX, "payload");

#endif
