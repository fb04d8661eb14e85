/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stddef.h>
#include <string.h>

#include <rte_byteorder.h>
#include <rte_ether.h>
#include <rte_hash_crc.h>
#include <rte_ip.h>
#include <rte_udp.h>

#include "frame.h"

#define MAGIC_MEASURE 0x5153
#define MAGIC_WARMUP  0x5157
#define SOURCE        RTE_IPV4(198u, 18, 0, 1)
#define DESTINATION   RTE_IPV4(198u, 19, 0, 1)
#define DISCARD       9
/* Flow F: source port 32768 + F % 16384, source address + F / 16384. */
#define FIRST_PORT     32768
#define PORTS_OF_FLOWS 16384
#define LINE           64

struct head {
	struct rte_ether_hdr eth;
	struct rte_ipv4_hdr ip;
	struct rte_udp_hdr udp;
	uint16_t magic;
	uint16_t stream;
	uint16_t flow;
	uint32_t sequence;
	uint64_t tsc;
	uint32_t crc;
} __attribute__((packed, aligned(2)));

_Static_assert(sizeof(struct head) == FRAME_HEAD, "the head is one line");
_Static_assert(offsetof(struct head, crc) == SIZE_LEAST, "the shortest frame ends before the CRC");
_Static_assert(FLOWS_MAX <= UINT16_MAX + 1, "flows have 16 bits");

#define IP_AT  offsetof(struct head, ip)
#define UDP_AT offsetof(struct head, udp)
#define OWN_AT offsetof(struct head, magic)

/* Part of a head, for those that take bytes. */
static inline const uint8_t *
part_of(const struct head *h, size_t at)
{
	return (const uint8_t *)h + at;
}

static inline uint16_t
folded(uint64_t sum)
{
	sum = (sum & 0xffffffff) + (sum >> 32);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (sum & 0xffff) + (sum >> 16);
	return (uint16_t)sum;
}

/* CRC-32C of bytes at any address. */
static uint32_t
crc_of(const uint8_t *at, size_t len, uint32_t crc)
{
	for (; len >= sizeof(uint64_t); len -= sizeof(uint64_t), at += sizeof(uint64_t)) {
		uint64_t word;

		memcpy(&word, at, sizeof(word));
		crc = rte_hash_crc_8byte(word, crc);
	}
	for (; len > 0; len--)
		crc = rte_hash_crc_1byte(*at++, crc);
	return crc;
}

static inline uint32_t
source_of(uint32_t flow)
{
	return rte_cpu_to_be_32(SOURCE + flow / PORTS_OF_FLOWS);
}

static inline uint16_t
port_of(uint32_t flow)
{
	return rte_cpu_to_be_16((uint16_t)(FIRST_PORT + flow % PORTS_OF_FLOWS));
}

static inline uint8_t
prepared(uint32_t at)
{
	at %= FRAME_PERIOD;
	return (uint8_t)(at * 7 + (at >> 8));
}

void
frame_prepare(uint8_t *frame, uint32_t size)
{
	uint32_t i;

	for (i = SIZE_LEAST; i < size; i++)
		frame[i] = prepared(i);
}

void
frame_prepare_segment(uint8_t *segment)
{
	uint32_t i;

	for (i = 0; i < FRAME_HEAD; i++)
		segment[i] = prepared(i);
}

static void
sum_rests(struct frame_maker *m)
{
	uint8_t bytes[SIZE_MOST];
	uint32_t sum = 0, size;

	frame_prepare(bytes, sizeof(bytes));
	/* The first byte of each pair is the low one here: sums do not mind which, if all agree. */
	for (size = SIZE_LEAST; size <= SIZE_MOST; size++) {
		m->rest_sum[size] = folded(sum);
		if (size < SIZE_MOST)
			sum += (uint32_t)bytes[size] << (size % 2 * 8);
	}
}

void
frame_maker_init(struct frame_maker *m, const struct options *o, const uint8_t src[6],
	const uint8_t dst[6], bool warmup)
{
	struct head h = {
		.eth.ether_type = RTE_BE16(RTE_ETHER_TYPE_IPV4),
		.ip.version_ihl = RTE_IPV4_VHL_DEF,
		.ip.fragment_offset = RTE_BE16(RTE_IPV4_HDR_DF_FLAG),
		.ip.time_to_live = 64,
		.ip.next_proto_id = IPPROTO_UDP,
		.ip.dst_addr = RTE_BE32(DESTINATION),
		.udp.dst_port = RTE_BE16(DISCARD),
		.magic = warmup ? MAGIC_WARMUP : MAGIC_MEASURE,
		.stream = (uint16_t)o->stream,
	};

	memcpy(&h.eth.dst_addr, dst, 6);
	memcpy(&h.eth.src_addr, src, 6);
	memcpy(m->head, &h, sizeof(h));
	m->ip_sum = rte_raw_cksum(part_of(&h, IP_AT), sizeof(h.ip));
	m->udp_sum = rte_raw_cksum(part_of(&h, UDP_AT), SIZE_LEAST - UDP_AT);
	/* The pseudo header of an empty packet: lengths come with the frame. */
	h.ip.total_length = RTE_BE16(sizeof(h.ip));
	m->udp_sum += rte_ipv4_phdr_cksum((const void *)part_of(&h, IP_AT), 0);
	m->stream = o->stream;
	m->verify = o->verify;
	sum_rests(m);
}

/* Each line says whose it is and which, so that no other can pass for it. */
static void
mark_lines(struct rte_mbuf *mbuf, const struct head *h)
{
	uint64_t whose = h->sequence | (uint64_t)h->flow << 32 | (uint64_t)h->stream << 48;
	uint32_t at = LINE, line;
	uint64_t mark;

	for (line = 1; mbuf != NULL; mbuf = mbuf->next, at = 0)
		for (; at + sizeof(mark) <= mbuf->data_len; at += LINE, line++) {
			mark = whose + line * UINT64_C(0x9e3779b97f4a7c15);
			memcpy(rte_pktmbuf_mtod_offset(mbuf, uint8_t *, at), &mark, sizeof(mark));
		}
}

/* Over the pseudo header, the UDP header and our own. */
static uint64_t
head_sum(const struct head *h)
{
	return (uint64_t)rte_ipv4_phdr_cksum((const void *)part_of(h, IP_AT), 0) +
	       rte_raw_cksum(part_of(h, UDP_AT), FRAME_HEAD - UDP_AT);
}

/* The sum of the bytes behind the head, in any number of mbufs. @return their CRC and our head's */
static uint32_t
sum_content(const struct head *h, const struct rte_mbuf *mbuf, uint64_t *sum)
{
	uint32_t crc = crc_of(part_of(h, OWN_AT), SIZE_LEAST - OWN_AT, 0);
	uint32_t skip = FRAME_HEAD, at = 0;

	for (; mbuf != NULL; at += mbuf->data_len, mbuf = mbuf->next) {
		uint32_t len = mbuf->data_len, skipped = len < skip ? len : skip;
		const uint8_t *bytes = rte_pktmbuf_mtod_offset(mbuf, const uint8_t *, skipped);
		uint16_t part;

		skip -= skipped;
		crc = crc_of(bytes, len - skipped, crc);
		part = rte_raw_cksum(bytes, len - skipped);
		/* Of bytes that begin at an odd place the sum comes out the other way round. */
		*sum += (at + skipped) % 2 == 0 ? part : rte_bswap16(part);
	}
	return crc;
}

/* Write what needs a look at every byte. */
static void
write_verified(struct rte_mbuf *mbuf, struct head *h)
{
	uint64_t sum = 0;

	mark_lines(mbuf, h);
	h->crc = sum_content(h, mbuf, &sum);
	h->udp.dgram_cksum = (uint16_t)~folded(head_sum(h) + sum);
}

void
frame_write(const struct frame_maker *m, struct rte_mbuf *mbuf, uint32_t flow, uint32_t sequence,
	uint64_t tsc)
{
	uint32_t size = rte_pktmbuf_pkt_len(mbuf);
	uint16_t ip_len = rte_cpu_to_be_16((uint16_t)(size - IP_AT));
	uint16_t udp_len = rte_cpu_to_be_16((uint16_t)(size - UDP_AT));
	uint32_t source = source_of(flow);
	uint16_t port = port_of(flow);
	struct head h;
	uint64_t sum;

	memcpy(&h, m->head, sizeof(h));
	h.ip.total_length = ip_len;
	h.ip.src_addr = source;
	h.ip.hdr_checksum = (uint16_t)~folded((uint64_t)m->ip_sum + ip_len + source);
	h.udp.src_port = port;
	h.udp.dgram_len = udp_len;
	h.flow = (uint16_t)flow;
	h.sequence = sequence;
	h.tsc = tsc;
	if (m->verify) {
		write_verified(mbuf, &h);
	} else {
		/* A sum of 32-bit words is as good as one of 16 bits, once it is folded. */
		sum = (uint64_t)m->udp_sum + source + port + 2 * (uint64_t)udp_len + h.flow +
		      sequence + (tsc & 0xffffffff) + (tsc >> 32) + m->rest_sum[size];
		h.udp.dgram_cksum = (uint16_t)~folded(sum);
	}
	/* 0 would say that there is none. */
	if (h.udp.dgram_cksum == 0)
		h.udp.dgram_cksum = 0xffff;
	memcpy(rte_pktmbuf_mtod(mbuf, void *), &h, m->verify ? FRAME_HEAD : SIZE_LEAST);
}

static bool
content_right(const struct head *h, const struct rte_mbuf *mbuf)
{
	uint64_t sum = head_sum(h);

	return rte_raw_cksum(part_of(h, IP_AT), sizeof(h->ip)) == 0xffff &&
	       sum_content(h, mbuf, &sum) == h->crc && folded(sum) == 0xffff;
}

enum frame_kind
frame_read(const struct frame_maker *m, const struct rte_mbuf *mbuf, uint32_t flows,
	struct frame_info *info)
{
	const struct head *own = (const void *)m->head;
	uint32_t need = m->verify ? FRAME_HEAD : SIZE_LEAST;
	const struct head *h;
	struct head copy;

	h = rte_pktmbuf_read(mbuf, 0, need, &copy);
	if (h == NULL)
		h = rte_pktmbuf_read(mbuf, 0, OWN_AT + 4, &copy);
	if (h == NULL || h->eth.ether_type != own->eth.ether_type ||
		h->ip.version_ihl != own->ip.version_ihl || h->ip.next_proto_id != IPPROTO_UDP ||
		h->ip.dst_addr != own->ip.dst_addr || h->udp.dst_port != own->udp.dst_port ||
		h->stream != own->stream)
		return FRAME_FOREIGN;
	if (h->magic != own->magic)
		return h->magic == MAGIC_WARMUP ? FRAME_WARMUP : FRAME_FOREIGN;
	if (rte_pktmbuf_pkt_len(mbuf) < need ||
		rte_be_to_cpu_16(h->ip.total_length) + IP_AT != rte_pktmbuf_pkt_len(mbuf) ||
		rte_be_to_cpu_16(h->udp.dgram_len) + UDP_AT != rte_pktmbuf_pkt_len(mbuf))
		return FRAME_BAD_LENGTH;
	info->flow = h->flow;
	info->sequence = h->sequence;
	info->sent = h->tsc;
	if (info->flow >= flows || h->ip.src_addr != source_of(info->flow) ||
		h->udp.src_port != port_of(info->flow))
		return FRAME_BAD_HEADER;
	if (m->verify && !content_right(h, mbuf))
		return FRAME_BAD_CONTENT;
	return FRAME_GOOD;
}
