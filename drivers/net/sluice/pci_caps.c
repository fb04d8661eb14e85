/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/types.h>

#include "pci_caps.h"
#include "pci_wire.h"

/* One capability, of any kind: as long as the longest that we read. */
struct cap {
	uint8_t at;
	uint8_t bytes[VPCI_CAP_NOTIFY_LEN];
};

struct walk {
	const struct pci_access *access;
	const struct pci_bar *bars;
	struct pci_caps *out;
	bool virtio; /* there was a capability of ours, whatever became of it */
	char *why;
	size_t len;
};

static int __attribute__((format(printf, 3, 4)))
refuse(struct walk *walk, int err, const char *format, ...)
{
	va_list ap;

	va_start(ap, format);
	vsnprintf(walk->why, walk->len, format, ap);
	va_end(ap);
	return err;
}

static int
read_config(struct walk *walk, void *to, size_t len, off_t at)
{
	if (walk->access->read_config(walk->access->priv, to, len, at) == (int)len)
		return 0;
	return refuse(walk, -EIO, "its configuration space cannot be read at 0x%x", (unsigned)at);
}

static uint32_t
le32(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

/* What each structure must be; in a table, since they differ in nothing else. */
static const struct kind {
	const char *name;
	size_t window; /* in struct pci_caps */
	uint8_t type;
	uint8_t cap_len;
	uint8_t align;
	uint8_t min_len;
} kinds[] = {
	{"common", offsetof(struct pci_caps, common), VPCI_CAP_COMMON, VPCI_CAP_BYTES, 4,
		VPCI_COMMON_LEN},
	{"notification", offsetof(struct pci_caps, notify), VPCI_CAP_NOTIFY, VPCI_CAP_NOTIFY_LEN, 2,
		2},
	{"device", offsetof(struct pci_caps, device), VPCI_CAP_DEVICE, VPCI_CAP_BYTES, 4, 1},
};

static struct pci_window *
window_of(struct pci_caps *caps, const struct kind *kind)
{
	return (struct pci_window *)(void *)((char *)caps + kind->window);
}

/*
 * A device may have several of a kind, in order of its preference; the first that can be used is
 * taken. One in an I/O BAR cannot, one with a reserved BAR is to be ignored, anything else that is
 * wrong with it is no accident.
 */
static int
take(struct walk *walk, const struct kind *kind, const struct cap *cap)
{
	struct pci_window *window = window_of(walk->out, kind);
	uint8_t bar = cap->bytes[VPCI_CAP_BAR];
	uint32_t offset = le32(cap->bytes + VPCI_CAP_OFFSET);
	uint32_t length = le32(cap->bytes + VPCI_CAP_LENGTH);

	if (window->base != NULL || bar >= VPCI_BARS || walk->bars[bar].addr == NULL)
		return 0;
	if (cap->bytes[VPCI_CAP_LEN] < kind->cap_len)
		return refuse(walk, -EINVAL, "its %s capability at 0x%x has %u bytes of %u",
			kind->name, cap->at, cap->bytes[VPCI_CAP_LEN], kind->cap_len);
	if ((uint64_t)offset + length > walk->bars[bar].len || length < kind->min_len ||
		offset % kind->align != 0)
		return refuse(walk, -EINVAL,
			"its %s capability at 0x%x (offset 0x%x, length 0x%x) does not fit into "
			"BAR %u of 0x%llx bytes",
			kind->name, cap->at, offset, length, bar,
			(unsigned long long)walk->bars[bar].len);
	window->base = walk->bars[bar].addr + offset;
	window->len = length;
	if (kind->type == VPCI_CAP_NOTIFY)
		walk->out->notify_multiplier = le32(cap->bytes + VPCI_CAP_MULTIPLIER);
	return 0;
}

static int
look_at(struct walk *walk, struct cap *cap)
{
	uint32_t i;
	uint16_t control;

	if (cap->bytes[0] == VPCI_CAP_MSIX) {
		memcpy(&control, cap->bytes + VPCI_MSIX_CONTROL, sizeof(control));
		walk->out->msix_vectors = (control & VPCI_MSIX_TABLE_MASK) + 1U;
	}
	if (cap->bytes[0] != VPCI_CAP_VENDOR)
		return 0;
	walk->virtio = true;
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (cap->bytes[VPCI_CAP_TYPE] == kinds[i].type)
			return take(walk, &kinds[i], cap);
	return 0;
}

/* All that must be there? */
static int
check_complete(struct walk *walk)
{
	uint32_t i;

	if (!walk->virtio)
		return refuse(walk, -ENOTSUP,
			"a legacy device without virtio 1.0 capabilities: give it "
			"disable-legacy=on or "
			"disable-modern=off");
	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
		if (window_of(walk->out, &kinds[i])->base == NULL)
			return refuse(walk, -EINVAL, "it has no %s capability in a memory BAR",
				kinds[i].name);
	return 0;
}

static int
walk_list(struct walk *walk)
{
	uint64_t seen = 0; /* by position / 4 */
	struct cap cap = {0};
	uint16_t status;
	int err;

	err = read_config(walk, &status, sizeof(status), VPCI_STATUS);
	if (err == 0 && (status & VPCI_STATUS_CAPS))
		err = read_config(walk, &cap.at, 1, VPCI_CAPS_FIRST);
	while (err == 0 && cap.at != 0) {
		size_t whole = sizeof(cap.bytes);

		/* The two lowest bits are reserved. */
		cap.at &= 0xfc;
		if (cap.at < VPCI_CAPS_MIN || (seen & (UINT64_C(1) << (cap.at / 4))))
			return refuse(walk, -EINVAL,
				"its list of capabilities leads to 0x%x, where none can be",
				cap.at);
		seen |= UINT64_C(1) << (cap.at / 4);
		if (whole > (size_t)(VPCI_CONFIG_LEN - cap.at))
			whole = (size_t)(VPCI_CONFIG_LEN - cap.at);
		memset(cap.bytes, 0, sizeof(cap.bytes));
		err = read_config(walk, cap.bytes, whole, cap.at);
		if (err == 0)
			err = look_at(walk, &cap);
		cap.at = cap.bytes[1];
	}
	return err != 0 ? err : check_complete(walk);
}

int
pci_caps_walk(const struct pci_access *access, const struct pci_bar bars[VPCI_BARS],
	struct pci_caps *out, char *why, size_t len)
{
	struct walk walk = {.access = access, .bars = bars, .out = out, .why = why, .len = len};
	int err;

	*out = (struct pci_caps){0};
	err = walk_list(&walk);
	if (err != 0)
		*out = (struct pci_caps){0};
	return err;
}
