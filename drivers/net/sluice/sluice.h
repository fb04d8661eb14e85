/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/**
 * @file
 * The driver from inside: device, rings, queues, and the transport between them and a backend.
 *
 * Threads. A queue's burst functions run on whatever lcore the application polls it from, one at a
 * time; receive and transmit of a pair may be two lcores. Everything else of a ring is touched
 * under dev->lock by the thread that calls an ethdev operation or by the transport's control
 * thread, and only while the ring's gate is closed (sluice_gate.h).
 *
 * Lock order: dev->turn, DPDK's memory lock, dev->lock (DPDK calls back with its lock held when
 * memory comes and goes). So nothing under dev->lock may allocate, free or walk DPDK memory. Nor
 * may it free mbufs that were transmitted: one with an external buffer calls the application, which
 * may free memory or ask something of the port. They are parked, and freed under dev->turn alone.
 */
#ifndef SLUICE_H
#define SLUICE_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <rte_ethdev.h>
#include <rte_ether.h>
#include <rte_log.h>
#include <rte_mbuf.h>

#include "dpdk_compat.h"
#include "vq_driver.h"
#include "vq_refill.h"
#include "sluice_coalesce.h"
#include "sluice_devargs.h"

/** Queue pairs of a device at most. */
#define SLUICE_PAIRS_MAX 128
/** Entries of the indirect table behind each transmit slot; longer chains go direct. */
#define SLUICE_TX_TABLE 8
/** Descriptors in use from which on completions are taken back unless the application says when. */
#define SLUICE_TX_HELD_MAX 192
/** Segments of a transmitted packet at most. */
#define SLUICE_TX_SEGS_MAX 256
/** Bytes of a frame beside the MTU: Ethernet header and one VLAN tag. */
#define SLUICE_FRAME_OVERHEAD (RTE_ETHER_HDR_LEN + RTE_VLAN_HLEN)
/** Longest frame: what the 16-bit lengths of virtio and of an MTU leave. */
#define SLUICE_FRAME_MAX 65535
/** Shortest receive buffer that is accepted. */
#define SLUICE_RX_BUF_MIN 64
/** mbufs of a receive chain at most; backends take chains of 256 descriptors. */
#define SLUICE_RX_CHAIN_MAX 256
/** Completions that are taken from a ring at a time. */
#define SLUICE_CHUNK 64

struct pollfd;
struct sluice_control;
struct sluice_ctrlq;
struct sluice_dev;
struct sluice_rxq;
struct sluice_txq;

struct sluice_ring_stats {
	uint64_t kicks;            /* notifications sent */
	uint64_t kicks_suppressed; /* not sent: the device did not want them */
	uint64_t broken;           /* times the device broke the rules of the ring */
};

/** A ring and what every ring has; the first member of a queue. */
struct sluice_ring {
	/* Hot; see sluice_gate.h. */
	_Atomic(uint32_t) busy;
	_Atomic(uint32_t) open;
	_Atomic(uint32_t) turns; /* bursts so far: tells an idle queue from a busy one */
	uint32_t hdr_len;        /* bytes of the virtio header, from the negotiated features */
	uint32_t addr_at;        /* offset in an mbuf of the address that descriptors carry */
	int kick;                /* container: eventfd of ours that the device waits on */
	volatile void *doorbell; /* PCI: register for notifications */
	struct sluice_ring_stats stats;
	struct sluice_dev *dev;
	struct vq_driver vq;
	/* Cold. */
	_Atomic(uint32_t) fault;          /* vq.fault, for control to see while bursts run */
	struct sluice_ring_stats cleared; /* value of each counter when it was last cleared */
	int call;                         /* eventfd that the device would call us with */
	uint16_t index;                   /* 2 * pair, + 1 for transmit */
	const struct rte_memzone *zone;
	void *priv;
};

struct sluice_rx_stats {
	uint64_t packets, bytes;
	uint64_t no_mbuf;      /* refills that the pool could not serve in full */
	uint64_t refills;      /* refills that posted something */
	uint64_t posted;       /* buffers posted */
	uint64_t low_water;    /* fewest buffers that the device had at the end of a receive call */
	uint64_t bad_length;   /* dropped: no byte behind the header */
	uint64_t bad_merged;   /* dropped: num_buffers or the lengths of merged buffers are wrong */
	uint64_t no_scatter;   /* dropped: several buffers, and the application takes only one */
	uint64_t intr_armed;   /* times that the application armed the queue, to sleep */
	uint64_t intr_at_once; /* of these: it was woken at once, there was work */
	uint64_t intr_events;  /* of these: it had been woken, and had got frames */
	uint64_t intr_held; /* of these: not for the first frame, but for a time or for several */
	uint64_t coalesce_profile; /* in force */
	uint64_t coalesce_changes; /* of it */
};

typedef uint16_t (*sluice_rx_burst_fn)(struct sluice_rxq *, struct rte_mbuf **, uint16_t);
typedef uint16_t (*sluice_tx_burst_fn)(struct sluice_txq *, struct rte_mbuf **, uint16_t);

/** What is the same in every mbuf that a queue receives; laid out as from data_off on. */
struct sluice_fresh {
	uint16_t data_off;
	uint16_t refcnt;
	uint16_t nb_segs;
	uint16_t port;
	uint64_t
		ol_flags; /* EXTERNAL stays for good in mbufs of a pool that pins buffers to them */
};

struct sluice_rxq {
	struct sluice_ring ring;
	sluice_rx_burst_fn burst;
	struct rte_mempool *pool;
	struct sluice_fresh fresh; /* of a packet's first */
	uint32_t post_at;  /* bytes of a buffer before what is posted, where the header lies */
	uint32_t post_len; /* bytes that are posted, header included */
	uint32_t chain;    /* mbufs in a row that a frame lies in; 1: or merged ones, sluice_rx.h */
	int32_t data_at;   /* from a struct rte_mbuf of the pool to its buffer */
	struct vq_refill refill;
	struct sluice_rx_stats stats;
	/* With chains. */
	void **places; /* one a slot */
	void **free_chains;
	uint32_t nfree;
	/* Cold. */
	struct sluice_rx_stats cleared;
	_Atomic(bool) armed; /* the application may sleep: sluice_intr.c */
	struct sluice_coalesce coalesce;
	struct rte_eth_rxconf conf;
	/* Room for one mbuf a slot: buffers while there is no device, and a refill's new ones; with
	 * chains, what received frames left over. */
	struct rte_mbuf **parked;
	uint32_t nparked;
};

struct sluice_tx_stats {
	uint64_t packets, bytes; /* accepted: put into the ring */
	uint64_t ring_full;      /* packets not accepted, the ring had no room for them */
	uint64_t link_down;      /* packets not accepted, the gate was shut */
	uint64_t too_many_segs;  /* dropped: no ring of this size can carry that many segments */
	uint64_t reset_drops; /* of the accepted: in the ring when the backend went or we stopped */
};

struct sluice_txq {
	struct sluice_ring ring;
	sluice_tx_burst_fn burst;
	struct rte_mempool *pool; /* that plain packets in flight come from: sluice_tx.c */
	uint32_t odd;             /* packets in flight that are not plain, or of another pool */
	uint32_t free_thresh;     /* completions are taken back below this number of free slots */
	bool push;                /* header and data may share a descriptor */
	_Atomic(uint16_t) reaped; /* vq.used_idx after the last burst, for control to see */
	uint64_t zero_addr;       /* device address of a header of zeros */
	struct sluice_tx_stats stats;
	/* Cold. */
	struct sluice_tx_stats cleared;
	const struct vq_used *used; /* vq.used: control must not read vq while bursts run */
	uint32_t turns_seen;        /* control thread: ring.turns at its last look */
	struct rte_eth_txconf conf;
	/* Room for one mbuf a slot: what control took back. Under dev->turn. */
	struct rte_mbuf **parked;
	uint32_t nparked;
};

/** What a turn of the control thread changed, for the application to be told. */
#define SLUICE_EVENT_LINK       UINT32_C(1)
#define SLUICE_EVENT_REMOVED    UINT32_C(2)
#define SLUICE_EVENT_RECOVERING UINT32_C(4) /* the device failed, it is being brought up again */
#define SLUICE_EVENT_RECOVERED  UINT32_C(8)
#define SLUICE_EVENT_LOST       UINT32_C(16) /* it cannot be */

/**
 * How a device is reached. Functions return 0 or a negative errno and are called under dev->lock,
 * but where another thing is said; notify() comes from the data path.
 */
struct sluice_transport {
	bool iova;       /**< descriptors carry IOVA, else virtual addresses */
	bool reconnects; /**< a device that is not there yet, or does not answer, is waited for */
	bool filters; /**< the device filters received frames: it is told of modes and addresses */
	bool steers;  /**< received frames go to every pair in use, none can do without its queue */
	/** When a device fails it is brought up again, and the application is told of that. */
	enum rte_eth_err_handle_mode error_mode;
	/** dev_start: make contact. 0, or an errno that sluice_absent() knows: the link stays down
	 * and the transport brings it up later by itself. */
	int (*connect)(struct sluice_dev *dev);
	/** What both sides have of `wanted`; -ENOSPC if the device has fewer queue pairs. */
	int (*negotiate)(
		struct sluice_dev *dev, uint64_t wanted, uint32_t pairs, uint64_t *features);
	/** Fix the features, and make the memory known. */
	int (*set_features)(struct sluice_dev *dev, uint64_t features);
	int (*start_ring)(struct sluice_dev *dev, struct sluice_ring *ring);
	int (*enable_ring)(struct sluice_dev *dev, struct sluice_ring *ring, bool enable);
	int (*driver_ok)(struct sluice_dev *dev);
	/** All rings, disabled first; the device does not touch them any more. */
	int (*stop_rings)(struct sluice_dev *dev);
	/** Tell the device of the MTU; the device may know better (-EREMOTEIO). */
	int (*set_mtu)(struct sluice_dev *dev, uint16_t mtu);
	/** Leave the device: it touches neither rings nor buffers afterwards. */
	void (*reset)(struct sluice_dev *dev);
	void (*notify)(struct sluice_ring *ring);
	/** One line for the log, after the features: protocol details; may be empty. */
	void (*describe)(struct sluice_dev *dev, char *text, size_t len);
	/**
	 * Receive interrupts, without the lock while no ring runs; NULL: there are none.
	 * rx_intr_check() (dev_configure): may as many queues as are configured have them? 0, or
	 * -ENOTSUP with the reason in dev->why; NULL: always. rx_intr_start() (dev_start, before
	 * connect()): eth->intr_handle gets nb_rx_queues efds, the eventfd of queue i at i.
	 * rx_intr_stop() takes them away again, at dev_configure, when a receive queue goes, or
	 * after close(): not at a stop.
	 */
	int (*rx_intr_check)(struct sluice_dev *dev);
	int (*rx_intr_start)(struct sluice_dev *dev);
	void (*rx_intr_stop)(struct sluice_dev *dev);
	/** From the control thread: what to wait for in `fd`, and for how long.
	 * @return milliseconds, -1: without end */
	int (*prepare_wait)(struct sluice_dev *dev, struct pollfd *fd);
	/** From the control thread, under dev->turn too: look after the device.
	 * @return SLUICE_EVENT_* */
	uint32_t (*turn)(struct sluice_dev *dev);
	/** dev_close: everything goes, and nothing touches the device afterwards. Called without
	 * the lock, also from within a link callback. */
	void (*close)(struct sluice_dev *dev);
};

struct sluice_dev {
	const char *name;
	struct rte_eth_dev_data *data;
	const struct sluice_transport *transport;
	void *transport_priv;
	struct sluice_control *control;
	struct sluice_devargs args;
	struct rte_ether_addr mac;
	bool scatter; /* the application takes packets of several segments */
	/* What the device can do at most: known since probing. */
	uint32_t pairs_max;
	uint32_t ring_max[2]; /* receive, transmit: by the ring's index modulo 2 */
	uint32_t mtu_max;
	bool rx_intr; /* receive interrupts are set up */
	/* Under the lock, which ethdev's own are not: a device that comes up is told of these. */
	bool promiscuous, all_multicast;

	pthread_mutex_t turn; /* dev_stop, or a turn of the control thread */
	pthread_mutex_t lock;
	/* Under the lock. */
	bool started;
	bool up;           /* rings run, gates are open */
	uint64_t wanted;   /* features we would use */
	uint64_t features; /* negotiated; before that, wanted */
	uint32_t pairs;    /* that the application configured: the larger of receive and transmit */
	/* By ring index; a ring that stands in for a queue that the application did not set up,
	 * too. */
	struct sluice_ring *rings[2 * SLUICE_PAIRS_MAX];
	struct sluice_ring *spares[2 * SLUICE_PAIRS_MAX];
	struct sluice_ctrlq *ctrlq; /* NULL: the device has no control queue */
	struct sluice_coalesce_told told;
	_Atomic(bool) link; /* read by anybody */
	char why[256];      /* sluice_refuse() */
};

extern int sluice_logtype;

/** One line about a device. */
#define SLUICE_LOG(level, dev_name, fmt, ...)                                                      \
	rte_log(RTE_LOG_##level, (uint32_t)sluice_logtype, "%s: " fmt "\n", dev_name, ##__VA_ARGS__)

static inline struct sluice_dev *
sluice_dev_of(const struct rte_eth_dev *eth)
{
	return eth->data->dev_private;
}

/**
 * The address of the start of an mbuf's buffer, as descriptors carry it.
 * @param addr_at of the ring
 */
static inline uint64_t
sluice_buf_addr(const struct rte_mbuf *m, uint32_t addr_at)
{
	return *(const uint64_t *)(const void *)((const char *)m + addr_at);
}

/** After a publication: tell the device unless it does not want to know. */
static inline void
sluice_ring_notify(struct sluice_ring *ring)
{
	if (vq_driver_need_notify(&ring->vq)) {
		ring->stats.kicks++;
		ring->dev->transport->notify(ring);
	} else {
		ring->stats.kicks_suppressed++;
	}
}

/* sluice_ethdev.c: the face to ethdev. */
extern const struct eth_dev_ops sluice_ops;
/** Is this the DPDK that the driver was built for, in a primary process? @return 0 or errno, logged
 */
int sluice_check_process(const char *name);
/** Fill a port that probing has allocated; dev->name, args, transport, data, limits and wanted are
 * set. */
int sluice_ethdev_init(struct rte_eth_dev *eth);
/** Probing has allocated a port: who it is. @return NULL, logged, if there was none to be had */
struct sluice_dev *sluice_port_begin(
	struct rte_eth_dev *eth, const char *name, const struct sluice_devargs *args);
/** The port is complete, or with an errno given back. @return err */
int sluice_port_end(struct rte_eth_dev *eth, int err);
/** The bus takes a device away: stop and close its port. */
int sluice_remove(const char *name);
/** Features that device arguments ask for, and as many queue pairs as there are. */
uint64_t sluice_wanted_features(const struct sluice_dev *dev);

/* sluice_ring.c: memory. */
/**
 * Make the ring in a queue, of exactly `size` entries.
 * @param table_len entries of each indirect table; 0: none
 * @return 0, -ENOMEM or -EMFILE..; said in the log
 */
int sluice_ring_create(struct sluice_ring *ring, struct sluice_dev *dev, uint16_t index,
	uint32_t size, uint32_t table_len, int socket);
void sluice_ring_destroy(struct sluice_ring *ring);
/** Memory beside the ring, VQ_CACHE_LINE bytes of zeros: for a header that packets share, or for
 * the command of a control queue. */
void *sluice_ring_tail(const struct sluice_ring *ring);
/** Device address of something in the memory of the ring. */
uint64_t sluice_ring_addr(const struct sluice_ring *ring, const volatile void *at);
/** Make or drop the rings that stand in for queues of a pair that the application did not set up.
 */
int sluice_spares_create(struct sluice_dev *dev);
void sluice_spares_destroy(struct sluice_dev *dev);

/* sluice_queue.c: the queue operations of ethdev. */
int sluice_rx_queue_setup(struct rte_eth_dev *eth, uint16_t queue, uint16_t nb_desc,
	unsigned int socket, const struct rte_eth_rxconf *conf, struct rte_mempool *pool);
int sluice_tx_queue_setup(struct rte_eth_dev *eth, uint16_t queue, uint16_t nb_desc,
	unsigned int socket, const struct rte_eth_txconf *conf);
void sluice_rx_queue_release(struct rte_eth_dev *eth, uint16_t queue);
void sluice_tx_queue_release(struct rte_eth_dev *eth, uint16_t queue);
/**
 * Can the buffers of every queue hold what the MTU lets in, if merging is (not) available?
 * @return 0, or -EINVAL with the queue's number and the remedy in dev->why
 */
int sluice_check_frames(struct sluice_dev *dev, uint16_t mtu, bool mergeable);

/* sluice_info.c: what an application may ask of queues. */
void sluice_rxq_info(struct rte_eth_dev *eth, uint16_t queue, struct rte_eth_rxq_info *info);
void sluice_txq_info(struct rte_eth_dev *eth, uint16_t queue, struct rte_eth_txq_info *info);
int sluice_rx_burst_mode(struct rte_eth_dev *eth, uint16_t queue, struct rte_eth_burst_mode *mode);
int sluice_tx_burst_mode(struct rte_eth_dev *eth, uint16_t queue, struct rte_eth_burst_mode *mode);
sluice_rx_count sluice_rx_queue_count(void *queue);
int sluice_tx_queue_count(void *queue);
int sluice_rx_descriptor_status(void *queue, uint16_t offset);
int sluice_tx_descriptor_status(void *queue, uint16_t offset);

/* sluice_link.c: rings up and down, under dev->lock. */
/** Put one line, with the remedy, into dev->why for whoever logs it; return err. */
int sluice_refuse(struct sluice_dev *dev, int err, const char *format, ...)
	__attribute__((format(printf, 3, 4)));
/**
 * The transport has made contact: negotiate, start the rings, open the gates.
 * @return 0, or an errno with the reason in dev->why (if sluice_absent() does not know it)
 */
int sluice_up(struct sluice_dev *dev);
/**
 * Close the gates and take the rings from the data path: receive buffers are parked, what was
 * transmitted and not completed is dropped and counted. The device must have stopped or gone.
 * @return 0, or -EBUSY if a burst does not end (then nothing has been taken)
 */
int sluice_down(struct sluice_dev *dev);
/** Close the gates only, or none (-EBUSY): before rings are stopped at the device. */
int sluice_quiesce(struct sluice_dev *dev);
/** No backend, or none that talks: worth another try. The others are a misfit. */
bool sluice_absent(const struct sluice_dev *dev, int err);
/** After these two, under dev->turn without dev->lock: free what was taken from transmit rings. */
void sluice_free_transmitted(struct sluice_dev *dev);
/** Under the lock, while the rings run: frames may be this large from now on. */
void sluice_set_frames(struct sluice_dev *dev, uint16_t mtu);
/** Every so often from the control thread, under the lock: reap idle transmit queues. */
void sluice_idle(struct sluice_dev *dev);
/** A ring that the device broke, or NULL. Counted once by sluice_down(). */
const struct sluice_ring *sluice_broken(const struct sluice_dev *dev);

/* sluice_rx.c, sluice_tx.c: the data path. */
uint16_t sluice_rx_burst(void *queue, struct rte_mbuf **pkts, uint16_t n);
uint16_t sluice_tx_burst(void *queue, struct rte_mbuf **pkts, uint16_t n);
int sluice_tx_done_cleanup(void *queue, uint32_t n);
/** Buffers for every slot from the pool, parked. 0 or -ENOMEM if no frame could be received. */
int sluice_rx_fill(struct sluice_rxq *q);
/** Post what is parked, choose the burst function. The ring is empty. */
void sluice_rx_open(struct sluice_rxq *q, uint64_t features);
/** Post what the refill policy wants, as far as the pool gives. Gate entered. */
void sluice_rx_top_up(struct sluice_rxq *q);
/** Buffers that the longest frame takes, be it merged ones or a chain. */
uint32_t sluice_rx_buffers(const struct sluice_rxq *q, uint32_t hdr_len, uint16_t mtu);
/** Will buffers be posted one by one, or in chains? Neither parked nor posted yet. */
void sluice_rx_choose(struct sluice_rxq *q, bool mergeable, uint32_t hdr_len);
/** Say how large frames may be. Gate closed. */
void sluice_rx_set_need(struct sluice_rxq *q, uint16_t mtu);
void sluice_rx_park(struct sluice_rxq *q);
void sluice_rx_free_parked(struct sluice_rxq *q);
void sluice_tx_open(struct sluice_txq *q, uint64_t features);
/** Take back what is completed, at most `most`. Gate entered, or closed. @return packets */
uint32_t sluice_tx_reap(struct sluice_txq *q, uint32_t most);
/** From control, gate closed: park what is completed; nothing is parked yet. */
void sluice_tx_park(struct sluice_txq *q);
/** Park the rest too: what was not completed counts as reset_drops. */
void sluice_tx_drain(struct sluice_txq *q);

/* sluice_intr.c: receive interrupts. */
/** For dev_configure. 0, or -ENOTSUP with the reason in dev->why */
int sluice_intr_check(struct sluice_dev *dev);
/** Set up what the port is configured for, unless it is; every receive queue is there. 0 or errno,
 * logged */
int sluice_intr_start(struct rte_eth_dev *eth);
/** No ring runs. Registrations of the application are gone afterwards. */
void sluice_intr_stop(struct rte_eth_dev *eth);
/** After gates were opened: who armed a queue while its gate was shut may sleep in vain. */
void sluice_intr_wake(struct sluice_dev *dev);
/** By the lcore that polls the queue, or while nobody does. */
int sluice_rx_intr_enable(struct rte_eth_dev *eth, uint16_t queue);
int sluice_rx_intr_disable(struct rte_eth_dev *eth, uint16_t queue);

/* sluice_stats.c */
int sluice_stats_get(
	struct rte_eth_dev *eth, struct rte_eth_stats *stats, sluice_queue_stats *queues);
int sluice_stats_reset(struct rte_eth_dev *eth);
int sluice_xstats_get(struct rte_eth_dev *eth, struct rte_eth_xstat *xstats, unsigned int n);
int sluice_xstats_names(struct rte_eth_dev *eth, struct rte_eth_xstat_name *names, unsigned int n);

#endif
