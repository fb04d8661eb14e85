/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "flow.h"

#define ETHERTYPE_IPV4 0x0800
#define ETHERTYPE_IPV6 0x86dd
#define ETHERTYPE_VLAN 0x8100

#define PROTO_TCP  6
#define PROTO_UDP  17
#define PROTO_SCTP 132

static uint16_t
be16_at(const uint8_t *p)
{
	return (uint16_t)(p[0] << 8 | p[1]);
}

static uint64_t
u64_at(const uint8_t *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static uint32_t
u32_at(const uint8_t *p)
{
	uint32_t v;

	memcpy(&v, p, sizeof(v));
	return v;
}

static bool
has_ports(uint8_t proto)
{
	return proto == PROTO_TCP || proto == PROTO_UDP || proto == PROTO_SCTP;
}

static uint64_t
hash_ipv4(uint64_t h, const uint8_t *ip, uint32_t len)
{
	uint32_t header;

	if (len < 20)
		return h;
	header = (uint32_t)(ip[0] & 0xf) * 4;
	h = mix64(h ^ u64_at(ip + 12)); /* both addresses */
	h = mix64(h ^ ip[9]);
	/* The fragments behind the first have no ports, so none of them may count. */
	if ((be16_at(ip + 6) & 0x3fff) == 0 && header >= 20 && len >= header + 4 &&
		has_ports(ip[9]))
		h = mix64(h ^ u32_at(ip + header));
	return h;
}

static uint64_t
hash_ipv6(uint64_t h, const uint8_t *ip, uint32_t len)
{
	uint32_t i;

	if (len < 40)
		return h;
	for (i = 8; i < 40; i += 8)
		h = mix64(h ^ u64_at(ip + i));
	h = mix64(h ^ ip[6]);
	/* With an extension header between, the ports are not where we look. */
	if (len >= 44 && has_ports(ip[6]))
		h = mix64(h ^ u32_at(ip + 40));
	return h;
}

uint32_t
flow_hash(const uint8_t *head, uint32_t len)
{
	uint64_t h = mix64(mac_at(head) ^ mac_at(head + 6) << 16);
	uint16_t type = be16_at(head + 12);
	uint32_t at = 14;

	if (type == ETHERTYPE_VLAN && len >= 18) {
		h = mix64(h ^ (be16_at(head + 14) & 0xfff));
		type = be16_at(head + 16);
		at = 18;
	}
	if (type == ETHERTYPE_IPV4)
		h = hash_ipv4(h, head + at, len - at);
	else if (type == ETHERTYPE_IPV6)
		h = hash_ipv6(h, head + at, len - at);
	return (uint32_t)h;
}
