/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include "sluice_rx.h"

/* Post the chain that was freed last; as many mbufs as it takes are parked. */
static void
post(struct sluice_rxq *q)
{
	const uint32_t before = q->post_at;
	struct vq_sg sg[SLUICE_RX_CHAIN_MAX];
	void **chain = q->free_chains;
	uint32_t i;

	q->free_chains = chain[0];
	q->nfree--;
	for (i = 0; i < q->chain; i++) {
		struct rte_mbuf *m = q->parked[--q->nparked];

		chain[i] = m;
		sg[i] = (struct vq_sg){sluice_buf_addr(m, q->ring.addr_at) + before, q->post_len};
	}
	vq_driver_add_chain(&q->ring.vq, sg, q->chain, VQ_DESC_WRITE, chain);
}

uint32_t
sluice_chain_spread(const struct sluice_rxq *q, void *const *chain)
{
	struct rte_mbuf *head = chain[0];
	struct rte_mbuf *tail = head;
	uint32_t left, used = 1;

	head->data_len = (uint16_t)(q->post_len - q->ring.hdr_len);
	for (left = head->pkt_len - head->data_len; left != 0; left -= tail->data_len) {
		tail->next = chain[used++];
		tail = tail->next;
		sluice_rx_renew_next(q, tail, RTE_MIN(left, q->post_len));
	}
	head->nb_segs = (uint16_t)used;
	return used;
}

/* The policy counts descriptors; whole chains are posted, and one more rather than a part. */
void
sluice_chain_refill(struct sluice_rxq *q, uint32_t consumed)
{
	uint32_t free = q->nfree * q->chain;
	uint32_t want = vq_refill_want(&q->refill, free, consumed * q->chain);
	uint32_t posted = 0;

	if (q->refill.size - free < q->stats.low_water)
		q->stats.low_water = q->refill.size - free;
	if (want == 0 || unlikely(q->ring.vq.fault != VQ_DRIVER_OK))
		return;
	want = (want + q->chain - 1) / q->chain * q->chain;
	if (want > q->nparked)
		q->nparked += sluice_rx_allocate(q->pool, q->parked + q->nparked, want - q->nparked,
			vq_refill_all_or_nothing(&q->refill));
	if (unlikely(want > q->nparked))
		q->stats.no_mbuf++;
	for (; posted < want && q->nparked >= q->chain; posted += q->chain)
		post(q);
	if (unlikely(posted == 0))
		return;
	q->stats.refills++;
	q->stats.posted += posted;
	vq_driver_publish(&q->ring.vq);
	sluice_ring_notify(&q->ring);
}

void
sluice_chain_open(struct sluice_rxq *q)
{
	uint32_t i;

	q->free_chains = NULL;
	q->nfree = 0;
	for (i = q->refill.size; i != 0; i -= q->chain)
		sluice_chain_release(q, q->places + i - q->chain, q->chain);
	while (q->nfree != 0 && q->nparked >= q->chain)
		post(q);
}

void
sluice_chain_park(void *cookie, void *arg)
{
	struct sluice_rxq *q = arg;

	sluice_chain_release(q, cookie, 0);
}
