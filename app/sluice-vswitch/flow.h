/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * What the switch reads in the first bytes of a frame. No DPDK.
 */
#ifndef FLOW_H
#define FLOW_H

#include <stdbool.h>
#include <stdint.h>
#include <string.h>

/** A MAC address as a number: the first byte on the wire is the lowest. */
static inline uint64_t
mac_at(const uint8_t *bytes)
{
	uint32_t low;
	uint16_t high;

	memcpy(&low, bytes, 4);
	memcpy(&high, bytes + 4, 2);
	return (uint64_t)high << 32 | low;
}

/** Multicast or broadcast? */
static inline bool
mac_is_group(uint64_t mac)
{
	return mac & 1;
}

/** 01:80:c2:00:00:00..0f, for the bridge itself and its neighbour: never forwarded (802.1D 7.12.6).
 */
static inline bool
mac_is_reserved(uint64_t mac)
{
	return (mac & UINT64_C(0x00ffffffffff)) == UINT64_C(0x0000c28001) && mac >> 40 < 16;
}

/** Stir a number until every bit depends on all of it. */
static inline uint64_t
mix64(uint64_t x)
{
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	x *= UINT64_C(0xd6e8feb86659fd93);
	x ^= x >> 32;
	return x;
}

/**
 * A number that all frames of a flow have in common: addresses, and for IP (behind at most one VLAN
 * tag) the 5-tuple, without the ports where a packet is a fragment.
 * @param len bytes at `head`, at least 14; what lies behind is not looked at
 */
uint32_t flow_hash(const uint8_t *head, uint32_t len);

#endif
