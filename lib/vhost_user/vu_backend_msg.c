/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "vu_backend_impl.h"

/* Protocol features that the handlers below keep. */
#define PROTOCOL_FEATURES                                                                          \
	(VU_PROTOCOL(MQ) | VU_PROTOCOL(REPLY_ACK) | VU_PROTOCOL(NET_MTU) |                         \
		VU_PROTOCOL(RESET_DEVICE) | VU_PROTOCOL(CONFIGURE_MEM_SLOTS) |                     \
		VU_PROTOCOL(STATUS))

/* The smallest MTU that IPv4 allows. */
#define MTU_MIN 68

/*
 * A handler checks all of its message first, calls vu_backend_touch() before the first thing that
 * workers may see, and changes nothing when it fails. One with a reply leaves it in the payload.
 */
typedef int (*handler)(struct vu_backend *b, struct vu_msg *msg);

static struct vu_ring *
ring_at(struct vu_backend *b, uint32_t index)
{
	return index < vu_backend_rings(b) ? &b->rings[index] : NULL;
}

static uint64_t
offered(const struct vu_backend *b)
{
	return b->config.features | VQ_FEATURE(PROTOCOL_FEATURES);
}

static int
get_features(struct vu_backend *b, struct vu_msg *msg)
{
	msg->payload.u64 = offered(b);
	return 0;
}

static int
set_features(struct vu_backend *b, struct vu_msg *msg)
{
	uint64_t features = msg->payload.u64;
	bool was_plain = b->features_set && !(b->features & VQ_FEATURE(PROTOCOL_FEATURES));
	bool plain = !(features & VQ_FEATURE(PROTOCOL_FEATURES));
	uint32_t i;

	if (features & ~offered(b))
		return -EINVAL;
	if (b->features_set && features == b->features)
		return 0;
	if (vu_rings_running(b))
		return -EBUSY;
	vu_backend_touch(b);
	b->features = features;
	b->features_set = true;
	/* Rings have no enable bit of their own unless the frontend knows of it. */
	for (i = 0; i < vu_backend_rings(b) && plain != was_plain; i++)
		b->rings[i].enabled = plain;
	vu_rings_settle(b);
	return 0;
}

static int
set_owner(struct vu_backend *b, struct vu_msg *msg)
{
	(void)b;
	(void)msg;
	return 0; /* whoever is connected owns the device */
}

static int
reset_device(struct vu_backend *b, struct vu_msg *msg)
{
	(void)msg;
	vu_backend_touch(b);
	vu_rings_reset(b);
	return 0;
}

static int
set_mem_table(struct vu_backend *b, struct vu_msg *msg)
{
	const struct vu_wire_table *t = &msg->payload.table;
	size_t head = offsetof(struct vu_wire_table, regions);

	if (msg->hdr.size < head || t->count > VU_TABLE_REGIONS || t->count != msg->nfds ||
		msg->hdr.size < head + t->count * sizeof(t->regions[0]))
		return -EINVAL;
	return vu_memory_set(b, t->regions, t->count, msg->fds);
}

static int
add_mem_reg(struct vu_backend *b, struct vu_msg *msg)
{
	if (msg->nfds != 1)
		return -EINVAL;
	return vu_memory_add(b, &msg->payload.single.region, msg->fds[0]);
}

static int
rem_mem_reg(struct vu_backend *b, struct vu_msg *msg)
{
	return vu_memory_remove(b, &msg->payload.single.region);
}

static int
get_max_mem_slots(struct vu_backend *b, struct vu_msg *msg)
{
	(void)b;
	msg->payload.u64 = VU_MEM_SLOTS;
	return 0;
}

static int
set_vring_num(struct vu_backend *b, struct vu_msg *msg)
{
	struct vu_ring *r = ring_at(b, msg->payload.state.index);
	uint32_t num = msg->payload.state.num;

	if (r == NULL || !vq_size_ok(num))
		return -EINVAL;
	if (r->size == num)
		return 0;
	if (r->ready)
		return -EBUSY;
	vu_backend_touch(b);
	r->size = num;
	vu_ring_settle(b, msg->payload.state.index);
	return 0;
}

static int
set_vring_base(struct vu_backend *b, struct vu_msg *msg)
{
	struct vu_ring *r = ring_at(b, msg->payload.state.index);

	if (r == NULL || msg->payload.state.num > UINT16_MAX)
		return -EINVAL;
	if (r->ready)
		return -EBUSY;
	vu_backend_touch(b);
	r->base = (uint16_t)msg->payload.state.num;
	return 0;
}

static int
set_vring_addr(struct vu_backend *b, struct vu_msg *msg)
{
	const struct vu_wire_addr *a = &msg->payload.addr;
	struct vu_ring *r = ring_at(b, a->index);
	struct vu_ring next;

	/* The only flag is for a dirty log, which we do not offer. */
	if (r == NULL || a->flags != 0)
		return -EINVAL;
	if ((a->desc & 15) != 0 || (a->avail & 1) != 0 || (a->used & 3) != 0)
		return -EINVAL;
	if (r->addr_set && r->desc_addr == a->desc && r->avail_addr == a->avail &&
		r->used_addr == a->used)
		return 0;
	if (r->ready)
		return -EBUSY;
	next = *r;
	next.desc_addr = a->desc;
	next.avail_addr = a->avail;
	next.used_addr = a->used;
	next.addr_set = true;
	/* Addresses may come before any memory does; with memory there they must be in it. */
	if (b->memory.count != 0 && !vu_ring_mapped(b, &next))
		return -EFAULT;
	vu_backend_touch(b);
	*r = next;
	vu_ring_settle(b, a->index);
	return 0;
}

static int
get_vring_base(struct vu_backend *b, struct vu_msg *msg)
{
	struct vu_ring *r = ring_at(b, msg->payload.state.index);

	if (r == NULL)
		return -EINVAL;
	vu_backend_touch(b);
	vu_ring_stop(r);
	r->kicked = false;
	vu_ring_put_fd(&r->kick, -1);
	msg->payload.state.num = r->base;
	return 0;
}

/*
 * Only something like an eventfd may stand behind a ring: a worker writes to it with our rights.
 * That it does not block keeps out accidents only: the peer shares the description and can undo it,
 * so whoever writes must be able to get a writer out of it that waits.
 */
static int
check_event_fd(int fd)
{
	struct stat st;
	int flags = fcntl(fd, F_GETFL);

	if (flags < 0 || fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & S_IFMT) != 0) /* anonymous inodes have no type */
		return -EINVAL;
	return !(flags & O_NONBLOCK) && fcntl(fd, F_SETFL, flags | O_NONBLOCK) < 0 ? -errno : 0;
}

/* The ring and the descriptor (or -1) of a KICK, CALL or ERR message. */
static int
parse_event(struct vu_backend *b, struct vu_msg *msg, uint32_t *index)
{
	uint64_t v = msg->payload.u64;

	*index = (uint32_t)(v & VU_VRING_INDEX_MASK);
	if ((v & ~(VU_VRING_INDEX_MASK | VU_VRING_NOFD)) != 0 || ring_at(b, *index) == NULL)
		return -EINVAL;
	if (msg->nfds != (v & VU_VRING_NOFD ? 0 : 1))
		return -EINVAL;
	return msg->nfds == 0 ? 0 : check_event_fd(msg->fds[0]);
}

static int
take_event(struct vu_msg *msg)
{
	return msg->nfds == 0 ? -1 : vu_msg_take_fd(msg, 0);
}

static int
set_vring_kick(struct vu_backend *b, struct vu_msg *msg)
{
	uint32_t i;
	int err = parse_event(b, msg, &i);

	if (err != 0)
		return err;
	vu_backend_touch(b);
	vu_ring_put_fd(&b->rings[i].kick, take_event(msg));
	b->rings[i].kicked = true;
	vu_ring_settle(b, i);
	return 0;
}

static int
set_vring_call(struct vu_backend *b, struct vu_msg *msg)
{
	uint32_t i;
	int err = parse_event(b, msg, &i);

	if (err != 0)
		return err;
	/* Of a ring that is not ready workers know nothing; update() comes with its start. */
	if (b->rings[i].ready && b->ops->call_changed == NULL)
		vu_backend_touch(b);
	vu_ring_put_fd(&b->rings[i].call, take_event(msg));
	if (b->rings[i].ready && !b->quiesced) {
		b->told = true;
		b->ops->call_changed(b->priv, i);
	}
	return 0;
}

static int
set_vring_err(struct vu_backend *b, struct vu_msg *msg)
{
	uint32_t i;
	int err = parse_event(b, msg, &i);

	if (err != 0)
		return err;
	vu_ring_put_fd(&b->rings[i].err, take_event(msg)); /* workers do not see it */
	return 0;
}

static int
set_vring_enable(struct vu_backend *b, struct vu_msg *msg)
{
	struct vu_ring *r = ring_at(b, msg->payload.state.index);

	if (r == NULL || msg->payload.state.num > 1)
		return -EINVAL;
	if (r->enabled == (msg->payload.state.num == 1))
		return 0;
	vu_backend_touch(b);
	r->enabled = msg->payload.state.num == 1;
	return 0;
}

static int
get_protocol_features(struct vu_backend *b, struct vu_msg *msg)
{
	(void)b;
	msg->payload.u64 = PROTOCOL_FEATURES;
	return 0;
}

static int
set_protocol_features(struct vu_backend *b, struct vu_msg *msg)
{
	uint64_t features = msg->payload.u64;

	if (features & ~PROTOCOL_FEATURES)
		return -EINVAL;
	if (features != b->protocol_features && vu_rings_running(b))
		return -EBUSY;
	b->protocol_features = features;
	return 0;
}

static int
get_queue_num(struct vu_backend *b, struct vu_msg *msg)
{
	msg->payload.u64 = b->config.queue_pairs;
	return 0;
}

static int
net_set_mtu(struct vu_backend *b, struct vu_msg *msg)
{
	uint64_t mtu = msg->payload.u64;

	if (mtu < MTU_MIN || mtu > UINT16_MAX || (b->config.mtu != 0 && mtu > b->config.mtu))
		return -EINVAL;
	if (mtu == b->mtu)
		return 0;
	if (b->ops->mtu_changed == NULL)
		vu_backend_touch(b);
	b->mtu = (uint16_t)mtu;
	if (!b->quiesced) {
		b->told = true;
		b->ops->mtu_changed(b->priv);
	}
	return 0;
}

static int
set_status(struct vu_backend *b, struct vu_msg *msg)
{
	uint64_t status = msg->payload.u64;

	if (status > UINT8_MAX)
		return -EINVAL;
	if (status == 0)
		return reset_device(b, msg);
	/* FEATURES_OK does not stick unless they are (virtio 1.3, 3.1.1). */
	if (!b->features_set)
		status &= ~(uint64_t)VU_STATUS_FEATURES_OK;
	b->status = (uint8_t)status;
	return 0;
}

static int
get_status(struct vu_backend *b, struct vu_msg *msg)
{
	msg->payload.u64 = b->status;
	return 0;
}

/** A request that we serve. */
struct request {
	const char *name;
	handler handle;    /* NULL: known, not offered */
	uint32_t size;     /* of the payload; ANY: the handler checks */
	uint8_t max_fds;   /* more are a mistake; all that nobody takes are closed */
	uint8_t reply;     /* bytes of its own reply, 0: the acknowledgement if wanted */
	uint64_t protocol; /* features of which one must have been agreed on; 0: always there */
};

#define ANY    UINT32_MAX
#define U64    sizeof(uint64_t)
#define STATE  sizeof(struct vu_wire_state)
#define ADDR   sizeof(struct vu_wire_addr)
#define SINGLE sizeof(struct vu_wire_single)
#define SLOTS  VU_PROTOCOL(CONFIGURE_MEM_SLOTS)

static const struct request requests[VU_REQUESTS] = {
	/* clang-format off */
	[VU_GET_FEATURES] = {"GET_FEATURES", get_features, 0, 0, U64, 0},
	[VU_SET_FEATURES] = {"SET_FEATURES", set_features, U64, 0, 0, 0},
	[VU_SET_OWNER] = {"SET_OWNER", set_owner, 0, 0, 0, 0},
	[VU_RESET_OWNER] = {"RESET_OWNER", reset_device, 0, 0, 0, 0},
	[VU_SET_MEM_TABLE] = {"SET_MEM_TABLE", set_mem_table, ANY, VU_TABLE_REGIONS, 0, 0},
	[VU_SET_VRING_NUM] = {"SET_VRING_NUM", set_vring_num, STATE, 0, 0, 0},
	[VU_SET_VRING_ADDR] = {"SET_VRING_ADDR", set_vring_addr, ADDR, 0, 0, 0},
	[VU_SET_VRING_BASE] = {"SET_VRING_BASE", set_vring_base, STATE, 0, 0, 0},
	[VU_GET_VRING_BASE] = {"GET_VRING_BASE", get_vring_base, STATE, 0, STATE, 0},
	[VU_SET_VRING_KICK] = {"SET_VRING_KICK", set_vring_kick, U64, 1, 0, 0},
	[VU_SET_VRING_CALL] = {"SET_VRING_CALL", set_vring_call, U64, 1, 0, 0},
	[VU_SET_VRING_ERR] = {"SET_VRING_ERR", set_vring_err, U64, 1, 0, 0},
	[VU_GET_PROTOCOL_FEATURES] = {"GET_PROTOCOL_FEATURES", get_protocol_features, 0, 0, U64, 0},
	[VU_SET_PROTOCOL_FEATURES] = {"SET_PROTOCOL_FEATURES", set_protocol_features, U64, 0, 0, 0},
	[VU_GET_QUEUE_NUM] = {"GET_QUEUE_NUM", get_queue_num, 0, 0, U64, VU_PROTOCOL(MQ)},
	[VU_SET_VRING_ENABLE] = {"SET_VRING_ENABLE", set_vring_enable, STATE, 0, 0, 0},
	[VU_NET_SET_MTU] = {"NET_SET_MTU", net_set_mtu, U64, 0, 0, VU_PROTOCOL(NET_MTU)},
	[VU_RESET_DEVICE] = {"RESET_DEVICE", reset_device, 0, 0, 0, VU_PROTOCOL(RESET_DEVICE)},
	[VU_GET_MAX_MEM_SLOTS] = {"GET_MAX_MEM_SLOTS", get_max_mem_slots, 0, 0, U64, SLOTS},
	[VU_ADD_MEM_REG] = {"ADD_MEM_REG", add_mem_reg, SINGLE, 1, 0, SLOTS},
	[VU_REM_MEM_REG] = {"REM_MEM_REG", rem_mem_reg, SINGLE, 1, 0, SLOTS},
	[VU_SET_STATUS] = {"SET_STATUS", set_status, U64, 0, 0, VU_PROTOCOL(STATUS)},
	[VU_GET_STATUS] = {"GET_STATUS", get_status, 0, 0, U64, VU_PROTOCOL(STATUS)},
	/* clang-format on */
};

static const struct request *
find_request(const struct vu_backend *b, uint32_t number)
{
	const struct request *q = number < VU_REQUESTS ? &requests[number] : NULL;

	if (q == NULL || q->handle == NULL)
		return NULL;
	return q->protocol == 0 || (q->protocol & b->protocol_features) ? q : NULL;
}

static int
answer(struct vu_backend *b, struct vu_msg *msg, uint32_t size)
{
	msg->hdr.flags = VU_FLAG_VERSION | VU_FLAG_REPLY;
	msg->hdr.size = size;
	vu_msg_close_fds(msg);
	return vu_tx_push(&b->tx, msg);
}

static int
acknowledge(struct vu_backend *b, struct vu_msg *msg, int err)
{
	msg->payload.u64 = err == 0 ? 0 : 1;
	return answer(b, msg, sizeof(msg->payload.u64));
}

int
vu_backend_message(struct vu_backend *b, struct vu_msg *msg)
{
	const struct request *q = find_request(b, msg->hdr.request);
	bool need_reply = (msg->hdr.flags & VU_FLAG_NEED_REPLY) != 0;
	int err;

	b->stats.messages++;
	if (msg->hdr.flags & VU_FLAG_REPLY) {
		b->stats.bad_messages++;
		return -EPROTO; /* we never ask */
	}
	if (q == NULL)
		err = -ENOTSUP;
	else if ((q->size != ANY && msg->hdr.size != q->size) || msg->nfds > q->max_fds)
		err = -EINVAL;
	else
		err = q->handle(b, msg);
	if (err == 0 && q->reply != 0)
		return answer(b, msg, q->reply);
	if (err != 0) {
		b->stats.bad_messages++;
		vu_backend_log(b, 1, "request %u (%s, %u bytes, %u descriptors) refused: %s",
			msg->hdr.request, q != NULL ? q->name : "not offered", msg->hdr.size,
			msg->nfds, strerror(-err));
	}
	if (need_reply && (b->protocol_features & VU_PROTOCOL(REPLY_ACK)) &&
		(q == NULL || q->reply == 0))
		return acknowledge(b, msg, err);
	/*
	 * A refused request that nobody waits for leaves all as it was. The peer would wait for
	 * ever for a reply that cannot be given, and one that uses what was not offered may do so
	 * too.
	 */
	return err != 0 && (q == NULL || q->reply != 0) ? err : 0;
}
