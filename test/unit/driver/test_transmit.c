/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/* Transmit: every shape of mbuf, the exact slots that each takes, and who frees what when. */

#include <string.h>

#include <rte_cycles.h>
#include <rte_malloc.h>

#include "rig.h"
#include "sluice.h"

static struct rig r;
static uint8_t sent[70000], got[70000];

static const struct rig_config port_indirect = {0};
static const struct rig_config port_direct = {.args = "indirect=0"};
static const struct rig_config port_any_order = {.args = "in_order=0"};
static const struct rig_config port_cached = {.cache = 32};
static const struct rig_config port_cached_any_order = {.cache = 32, .args = "in_order=0"};
static const struct rig_config port_fast_free = {.cache = 32,
	.tx_offloads = RTE_ETH_TX_OFFLOAD_MBUF_FAST_FREE | RTE_ETH_TX_OFFLOAD_MULTI_SEGS};

/* How a packet is made. */
struct shape {
	uint32_t segs;     /* segments with data */
	uint32_t headroom; /* of the first */
	bool shared;       /* somebody else holds the first mbuf as well */
	bool clone;        /* the first is an indirect mbuf */
	bool empty;        /* an empty segment after the first */
};

static struct rte_mbuf *
make(const struct shape *s, uint32_t seg_len)
{
	struct rte_mbuf *head = NULL;
	uint32_t i;

	rig_pattern(sent, s->segs * seg_len, s->segs);
	for (i = 0; i < s->segs; i++) {
		struct rte_mbuf *m = rte_pktmbuf_alloc(r.pool);

		assert_non_null(m);
		if (i == 0)
			m->data_off = (uint16_t)s->headroom;
		memcpy(rte_pktmbuf_append(m, (uint16_t)seg_len), sent + i * seg_len, seg_len);
		if (head == NULL)
			head = m;
		else
			assert_int_equal(rte_pktmbuf_chain(head, m), 0);
		if (i == 0 && s->empty) {
			m = rte_pktmbuf_alloc(r.pool);
			assert_non_null(m);
			assert_int_equal(rte_pktmbuf_chain(head, m), 0);
		}
	}
	if (s->clone) {
		struct rte_mbuf *clone = rte_pktmbuf_clone(head, r.pool);

		assert_non_null(clone);
		rte_pktmbuf_free(head);
		head = clone;
	}
	if (s->shared)
		rte_pktmbuf_refcnt_update(head, 1);
	return head;
}

/* Descriptors that the device sees for it. */
static uint32_t
descriptors(const struct shape *s)
{
	bool push = !s->shared && !s->clone && s->headroom >= 12 && s->headroom % 2 == 0;

	return s->segs + (push ? 0 : 1);
}

static uint32_t
slots(const struct shape *s, bool indirect)
{
	uint32_t n = descriptors(s);

	return indirect && n > 1 && n <= 8 ? 1 : n;
}

static uint32_t
free_slots(void)
{
	uint32_t i, n = 0;

	for (i = 0; i < RIG_RING; i++)
		n += rte_eth_tx_descriptor_status(r.port, 0, (uint16_t)i) == RTE_ETH_TX_DESC_DONE;
	return n;
}

static const struct shape shapes[] = {
	{1, 128, false, false, false},
	{1, 12, false, false, false},
	{1, 11, false, false, false}, /* too little room, and odd */
	{1, 13, false, false, false}, /* odd */
	{1, 0, false, false, false},
	{1, 128, true, false, false},
	{1, 128, false, true, false},
	{2, 128, false, false, false},
	{2, 0, false, false, false},
	{2, 128, false, false, true},
	{7, 0, false, false, false}, /* the header makes eight, the whole table */
	{8, 128, false, false, false},
	{8, 0, false, false, false}, /* nine: direct */
	{9, 128, false, false, false},
	{20, 128, false, false, true},
	{40, 128, true, false, false},
};

static void
test_every_shape(void **state)
{
	struct vq_net_hdr hdr;
	uint32_t i, nseg;

	(void)state;
	for (i = 0; i < COUNT_OF(shapes); i++) {
		const struct shape *s = &shapes[i];
		const uint32_t seg_len = 100;
		struct rte_mbuf *m = make(s, seg_len);
		uint16_t data_off = m->data_off;

		assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 1);
		/* The application's view of what it still holds is as it was. */
		if (s->shared) {
			assert_int_equal(m->data_off, data_off);
			assert_int_equal(m->pkt_len, s->segs * seg_len);
			assert_memory_equal(rte_pktmbuf_mtod(m, void *), sent, seg_len);
		}
		assert_int_equal(rig_take(&r, got, sizeof(got), &hdr, &nseg), s->segs * seg_len);
		assert_memory_equal(got, sent, s->segs * seg_len);
		assert_int_equal(nseg, descriptors(s));
		assert_memory_equal(&hdr, &(struct vq_net_hdr){0}, sizeof(hdr));
		rig_complete(&r);
		assert_int_equal(rte_eth_tx_burst(r.port, 0, NULL, 0), 0);
		if (s->shared)
			rte_pktmbuf_free(m);
		assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
	}
}

/* The ring takes exactly as many packets of a shape as have slots, and gives the others back. */
static void
fill(const struct shape *s, bool indirect)
{
	uint32_t fit = RIG_RING / slots(s, indirect);
	struct rte_mbuf *pkts[RIG_RING + 1];
	struct vq_net_hdr hdr;
	uint32_t i, n, nseg;

	/* The pool holds only so many. */
	n = (RIG_POOL - RIG_RING) / (s->segs + s->clone + s->empty);
	if (n < 2)
		return;
	n = RTE_MIN(n, fit + 1);
	for (i = 0; i < n; i++)
		pkts[i] = make(s, 60);
	assert_int_equal(rte_eth_tx_burst(r.port, 0, pkts, (uint16_t)n), RTE_MIN(n, fit));
	for (i = 0; i < RTE_MIN(n, fit); i++) {
		assert_int_equal(rig_take(&r, got, sizeof(got), &hdr, &nseg), s->segs * 60);
		assert_memory_equal(got, sent, s->segs * 60);
		if (s->shared)
			rte_pktmbuf_refcnt_update(pkts[i], -1);
	}
	assert_int_equal(rig_take(&r, got, sizeof(got), &hdr, &nseg), -1);
	if (n > fit) {
		/* Still ours. */
		if (s->shared)
			rte_pktmbuf_refcnt_update(pkts[fit], -1);
		rte_pktmbuf_free(pkts[fit]);
	}
	rig_complete(&r);
	rte_eth_tx_burst(r.port, 0, NULL, 0);
	assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
}

static void
test_slots_are_exact_indirect(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(shapes); i++)
		fill(&shapes[i], true);
}

static void
test_slots_are_exact_direct(void **state)
{
	uint32_t i;

	(void)state;
	for (i = 0; i < COUNT_OF(shapes); i++)
		fill(&shapes[i], false);
}

static void
test_full_ring_in_steps(void **state)
{
	struct rte_mbuf *m;
	struct vq_net_hdr hdr;
	uint32_t i, nseg;

	(void)state;
	for (i = 0; i < RIG_RING; i++) {
		m = make(&shapes[0], 60);
		assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 1);
	}
	assert_int_equal(free_slots(), 0);
	m = make(&shapes[0], 60);
	assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 0);
	assert_int_equal(rig_xstat(&r, "tx_q0_ring_full"), 1);
	assert_int_equal(rig_take(&r, got, sizeof(got), &hdr, &nseg), 60);
	rig_complete(&r);
	assert_int_equal(free_slots(), 1);
	assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 1);
	assert_int_equal(rig_xstat(&r, "tx_q0_good_packets"), RIG_RING + 1);
	assert_int_equal(rig_xstat(&r, "tx_q0_good_bytes"), 60 * (RIG_RING + 1));
	while (rig_take(&r, got, sizeof(got), &hdr, &nseg) >= 0 && r.ntaken < 10)
		;
	rig_complete(&r);
	assert_int_equal(rte_eth_tx_done_cleanup(r.port, 0, 4), 4);
	assert_int_equal(rte_eth_tx_done_cleanup(r.port, 0, 0), 6);
	assert_int_equal(rte_eth_tx_done_cleanup(r.port, 0, 0), 0);
}

/* A chain that no ring of this size can carry is dropped and counted, and blocks nothing. */
static void
test_more_segments_than_the_ring(void **state)
{
	struct rte_mbuf *pkts[2];
	struct vq_net_hdr hdr;
	uint32_t nseg;

	(void)state;
	pkts[0] = make(&(struct shape){RIG_RING + 1, 128, false, false, false}, 10);
	pkts[1] = make(&shapes[0], 60);
	assert_int_equal(rte_eth_tx_burst(r.port, 0, pkts, 2), 2);
	assert_int_equal(rig_xstat(&r, "tx_q0_too_many_segs"), 1);
	assert_int_equal(rig_xstat(&r, "tx_q0_good_packets"), 1);
	assert_int_equal(rig_take(&r, got, sizeof(got), &hdr, &nseg), 60);
	assert_int_equal(rig_take(&r, got, sizeof(got), &hdr, &nseg), -1);
}

/* A device that completes in another order: each mbuf comes back once. */
static void
test_completions_in_any_order(void **state)
{
	struct rte_mbuf *pkts[RIG_RING];
	struct vq_net_hdr hdr;
	uint32_t i, nseg, lap;

	(void)state;
	for (lap = 0; lap < 10; lap++) {
		for (i = 0; i < RIG_RING; i++)
			pkts[i] = make(&shapes[i % 3], 60 + i);
		assert_int_equal(rte_eth_tx_burst(r.port, 0, pkts, RIG_RING / 2), RIG_RING / 2);
		for (i = 0; i < RIG_RING / 2; i++)
			assert_true(rig_take(&r, got, sizeof(got), &hdr, &nseg) > 0);
		for (i = 0; i < r.ntaken / 2; i++) {
			struct vq_chain c = r.taken[i];

			r.taken[i] = r.taken[r.ntaken - 1 - i];
			r.taken[r.ntaken - 1 - i] = c;
		}
		rig_complete(&r);
		rte_pktmbuf_free_bulk(pkts + RIG_RING / 2, RIG_RING / 2);
		rte_eth_tx_burst(r.port, 0, NULL, 0);
		assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
	}
}

/* The application transmits, then does nothing more with the queue. */
static void
test_an_idle_queue_gives_its_mbufs_back(void **state)
{
	struct rte_mbuf *m = make(&shapes[7], 60);
	struct vq_net_hdr hdr;
	uint32_t nseg;
	int i;

	(void)state;
	assert_int_equal(rte_eth_tx_burst(r.port, 0, &m, 1), 1);
	assert_int_equal(rig_take(&r, got, sizeof(got), &hdr, &nseg), 120);
	rig_complete(&r);
	for (i = 0; i < 500 && rig_free(&r) != RIG_POOL - RIG_RING; i++)
		rte_delay_us_sleep(10000);
	assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
}

static uint32_t given_back;

/* As an application may: it asks something of the port, and frees memory. */
static void
give_back(void *buf, void *arg)
{
	(void)arg;
	assert_int_equal(rte_eth_dev_set_mtu(r.port, 1400), 0);
	rte_free(buf);
	given_back++;
}

static struct rte_mbuf *
make_external(void)
{
	uint16_t len = 256;
	void *buf = rte_malloc("test", len, 0);
	struct rte_mbuf_ext_shared_info *info =
		rte_pktmbuf_ext_shinfo_init_helper(buf, &len, give_back, NULL);
	struct rte_mbuf *m = rte_pktmbuf_alloc(r.pool);

	assert_non_null(info);
	assert_non_null(m);
	rte_pktmbuf_attach_extbuf(m, buf, rte_malloc_virt2iova(buf), len, info);
	assert_non_null(rte_pktmbuf_append(m, 60));
	return m;
}

/* Whoever frees an external buffer holds no lock that its callback needs. */
static void
test_external_buffers_are_freed_without_a_lock(void **state)
{
	struct rte_mbuf *pkts[3] = {make_external(), make_external(), make_external()};
	struct vq_net_hdr hdr;
	uint32_t nseg;
	int i;

	(void)state;
	given_back = 0;
	/* By the control thread, as the queue lies idle.. */
	assert_int_equal(rte_eth_tx_burst(r.port, 0, &pkts[0], 1), 1);
	assert_int_equal(rig_take(&r, got, sizeof(got), &hdr, &nseg), 60);
	rig_complete(&r);
	for (i = 0; i < 500 && rig_free(&r) != RIG_POOL - RIG_RING - 2; i++)
		rte_delay_us_sleep(10000);
	assert_int_equal(given_back, 1);
	/* ..or the backend goes.. */
	assert_int_equal(rte_eth_tx_burst(r.port, 0, &pkts[1], 1), 1);
	host_thread_stop(&r.h);
	vu_backend_disconnect(r.h.b, "test");
	for (i = 0; i < 500 && rig_free(&r) != RIG_POOL - RIG_RING - 1; i++)
		rte_delay_us_sleep(10000);
	assert_int_equal(given_back, 2);
	host_thread_start(&r.h);
	rig_wait_link(&r, true);
	/* ..and by a stop. */
	assert_int_equal(rte_eth_tx_burst(r.port, 0, &pkts[2], 1), 1);
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(given_back, 3);
}

static struct rte_mempool *other;

/* A packet of one segment, which nobody else holds. */
static struct rte_mbuf *
make_plain(struct rte_mempool *pool)
{
	struct rte_mbuf *m = rte_pktmbuf_alloc(pool);

	assert_non_null(m);
	rig_pattern(sent, 60, 1);
	memcpy(rte_pktmbuf_append(m, 60), sent, 60);
	return m;
}

/* So many of them. */
static void
send_plain(struct rte_mempool *pool, uint16_t n)
{
	struct rte_mbuf *pkts[RIG_RING];
	uint16_t i;

	for (i = 0; i < n; i++)
		pkts[i] = make_plain(pool);
	assert_int_equal(rte_eth_tx_burst(r.port, 0, pkts, n), n);
}

/* Take all that is in the ring, and complete it. */
static void
complete_all(void)
{
	struct vq_net_hdr hdr;
	uint32_t nseg;

	while (rig_take(&r, got, sizeof(got), &hdr, &nseg) >= 0)
		;
	rig_complete(&r);
}

/*
 * Packets that go back to their pool unseen between those that must not: shared ones, clones,
 * chains, and those of another pool, which becomes the usual one at last. Everything returns to
 * where it came from, once, and is as a pool's mbufs must be.
 */
static void
test_each_packet_goes_back_to_its_pool(void **state)
{
	struct rte_mbuf *pkts[RIG_RING / 2], *all[RIG_POOL], *shared[RIG_RING / 2];
	uint32_t lap, i, n, nshared;

	(void)state;
	other = rte_pktmbuf_pool_create("other", RIG_POOL, 32, 0, RIG_ROOM, SOCKET_ID_ANY);
	assert_non_null(other);
	for (lap = 0; lap < 60; lap++) {
		nshared = 0;
		for (i = 0; i < COUNT_OF(pkts); i++) {
			/* All of the usual shape in some laps, all of one pool in others. */
			uint32_t kind = lap % 5 == 0 ? 0 : lap % 5 == 1 ? 1 : (lap + i) % 8;

			switch (kind) {
			case 1:
				pkts[i] = make_plain(other);
				break;
			case 2:
				pkts[i] = shared[nshared++] = make_plain(i % 2 ? r.pool : other);
				rte_mbuf_refcnt_update(pkts[i], 1);
				break;
			case 3:
				pkts[i] = make(&(struct shape){1, 128, false, true, false}, 60);
				break;
			case 4:
				pkts[i] = make(&(struct shape){2, 128, false, false, false}, 30);
				break;
			default:
				pkts[i] = make_plain(r.pool);
			}
		}
		assert_int_equal(rte_eth_tx_burst(r.port, 0, pkts, COUNT_OF(pkts)), COUNT_OF(pkts));
		complete_all();
		/* In parts. */
		if (lap % 3 != 0)
			assert_int_equal(rte_eth_tx_done_cleanup(r.port, 0, 7), 7);
		rte_eth_tx_done_cleanup(r.port, 0, 0);
		for (i = 0; i < nshared; i++) {
			assert_int_equal(rte_mbuf_refcnt_read(shared[i]), 1);
			assert_int_equal(shared[i]->pkt_len, 60);
			rte_pktmbuf_free(shared[i]);
		}
		assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
		assert_int_equal(rte_mempool_avail_count(other), RIG_POOL);
	}
	for (n = 0; rte_mempool_get(r.pool, (void **)&all[n]) == 0; n++) {
		assert_ptr_equal(all[n]->pool, r.pool);
		assert_int_equal(rte_mbuf_refcnt_read(all[n]), 1);
		assert_int_equal(all[n]->nb_segs, 1);
		assert_null(all[n]->next);
		assert_true(RTE_MBUF_DIRECT(all[n]));
	}
	assert_int_equal(n, RIG_POOL - RIG_RING);
	rte_mempool_put_bulk(r.pool, (void **)all, n);
	rte_mempool_free(other);
}

static void
assert_all_belong_to(struct rte_mempool *pool)
{
	struct rte_mbuf *all[RIG_POOL + 1];
	uint32_t n;

	for (n = 0; rte_mempool_get(pool, (void **)&all[n]) == 0; n++)
		assert_ptr_equal(all[n]->pool, pool);
	rte_mempool_put_bulk(pool, (void **)all, n);
}

/* The usual pool stays what it is while plain packets are in flight; then it is that of the next,
 * whose packets are all as easy to free. */
static void
test_the_usual_pool_follows_an_empty_ring(void **state)
{
	const struct sluice_txq *q = rte_eth_devices[r.port].data->tx_queues[0];
	struct rte_mempool *usual = r.pool, *next;
	uint32_t lap;

	(void)state;
	other = rte_pktmbuf_pool_create("other", RIG_POOL, 32, 0, RIG_ROOM, SOCKET_ID_ANY);
	assert_non_null(other);
	for (lap = 0; lap < 20; lap++, usual = next) {
		next = usual == other ? r.pool : other;
		send_plain(usual, 16);
		assert_int_equal(q->odd, 0);
		complete_all();
		assert_int_equal(rte_eth_tx_done_cleanup(r.port, 0, 7), 7);
		send_plain(next, 8);
		assert_int_equal(q->odd, 8);
		complete_all();
		assert_int_equal(rte_eth_tx_done_cleanup(r.port, 0, 0), 16 - 7 + 8);
		assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
		assert_int_equal(rte_mempool_avail_count(other), RIG_POOL);
	}
	assert_all_belong_to(r.pool);
	assert_all_belong_to(other);
	rte_mempool_free(other);
}

/* In flight when the port stops: of two pools, plain and shared. */
static void
test_a_stop_gives_each_back(void **state)
{
	struct rte_mbuf *pkts[8], *shared;
	uint32_t i;

	(void)state;
	other = rte_pktmbuf_pool_create("other", RIG_POOL, 32, 0, RIG_ROOM, SOCKET_ID_ANY);
	assert_non_null(other);
	for (i = 0; i < COUNT_OF(pkts); i++)
		pkts[i] = make_plain(i % 2 ? r.pool : other);
	shared = pkts[3];
	rte_mbuf_refcnt_update(shared, 1);
	assert_int_equal(rte_eth_tx_burst(r.port, 0, pkts, COUNT_OF(pkts)), COUNT_OF(pkts));
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	assert_int_equal(rte_mempool_avail_count(other), RIG_POOL);
	assert_int_equal(rig_free(&r), RIG_POOL - 1);
	assert_int_equal(rte_mbuf_refcnt_read(shared), 1);
	rte_pktmbuf_free(shared);
	rte_mempool_free(other);
}

/* Single segments and chains in turns under the promise of FAST_FREE. */
static void
test_fast_free(void **state)
{
	struct rte_mbuf *pkts[16];
	uint32_t i, lap;

	(void)state;
	for (lap = 0; lap < 50; lap++) {
		for (i = 0; i < COUNT_OF(pkts); i++)
			pkts[i] = make(&shapes[(lap + i) % 5 == 0 ? 7 : 0], 60);
		assert_int_equal(rte_eth_tx_burst(r.port, 0, pkts, COUNT_OF(pkts)), COUNT_OF(pkts));
		complete_all();
		rte_eth_tx_done_cleanup(r.port, 0, 0);
		assert_int_equal(rig_free(&r), RIG_POOL - RIG_RING);
	}
}

/* The default of tx_free_thresh, and what the application says instead. */
static void
test_how_many_are_held(void **state)
{
	static const uint16_t thresh[][2] = {{1, 1}, {64, 16}, {256, 64}, {512, 320}, {1024, 832}};
	const struct rte_eth_txconf own = {.tx_free_thresh = 7};
	struct rte_eth_txq_info info;
	uint32_t i;

	(void)state;
	assert_int_equal(rte_eth_dev_stop(r.port), 0);
	for (i = 0; i < COUNT_OF(thresh); i++) {
		const uint16_t ring = thresh[i][0];

		assert_int_equal(rte_eth_tx_queue_setup(r.port, 0, ring, SOCKET_ID_ANY, NULL), 0);
		assert_int_equal(rte_eth_tx_queue_info_get(r.port, 0, &info), 0);
		assert_int_equal(info.conf.tx_free_thresh, thresh[i][1]);
	}
	assert_int_equal(rte_eth_tx_queue_setup(r.port, 0, 64, SOCKET_ID_ANY, &own), 0);
	assert_int_equal(rte_eth_tx_queue_info_get(r.port, 0, &info), 0);
	assert_int_equal(info.conf.tx_free_thresh, 7);
}

int
main(void)
{
#define WITH(how, test) RIG_TEST(&r, how, test)
	const struct CMUnitTest tests[] = {
		WITH(port_indirect, test_every_shape),
		WITH(port_direct, test_every_shape),
		WITH(port_any_order, test_every_shape),
		WITH(port_indirect, test_slots_are_exact_indirect),
		WITH(port_direct, test_slots_are_exact_direct),
		WITH(port_indirect, test_full_ring_in_steps),
		WITH(port_any_order, test_full_ring_in_steps),
		WITH(port_indirect, test_more_segments_than_the_ring),
		WITH(port_any_order, test_completions_in_any_order),
		WITH(port_indirect, test_an_idle_queue_gives_its_mbufs_back),
		WITH(port_fast_free, test_an_idle_queue_gives_its_mbufs_back),
		WITH(port_fast_free, test_fast_free),
		WITH(port_cached, test_every_shape),
		WITH(port_cached, test_full_ring_in_steps),
		WITH(port_cached_any_order, test_completions_in_any_order),
		WITH(port_indirect, test_each_packet_goes_back_to_its_pool),
		WITH(port_cached, test_each_packet_goes_back_to_its_pool),
		WITH(port_cached_any_order, test_each_packet_goes_back_to_its_pool),
		WITH(port_fast_free, test_each_packet_goes_back_to_its_pool),
		WITH(port_indirect, test_the_usual_pool_follows_an_empty_ring),
		WITH(port_cached, test_the_usual_pool_follows_an_empty_ring),
		WITH(port_cached_any_order, test_the_usual_pool_follows_an_empty_ring),
		WITH(port_cached, test_a_stop_gives_each_back),
		WITH(port_indirect, test_how_many_are_held),
		WITH(port_indirect, test_external_buffers_are_freed_without_a_lock),
	};

	return rig_main(tests, COUNT_OF(tests));
}
