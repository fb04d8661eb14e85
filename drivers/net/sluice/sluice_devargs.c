/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <rte_kvargs.h>
#include <rte_string_fns.h>

#include "sluice.h"

enum kind {
	DECLINE_IF_0, /* the device is left to another driver */
	DECLINE_IF_1,
	PATH,
	MAC,
	REFILL,
	COALESCE,
	NUMBER,    /* uint32_t */
	SIZE,      /* uint32_t, a power of two */
	FLAG,      /* bool */
	NO_EFFECT, /* of net_virtio_user; taken, and said that it does nothing */
	ONLY_ZERO, /* the same, as long as it is 0 */
};

struct key {
	const char *name;
	enum kind kind;
	uint8_t of; /* enum sluice_args_of */
	size_t at;  /* offset in struct sluice_devargs */
	uint32_t min, max;
};

#define AT(field) offsetof(struct sluice_devargs, field)
#define USER      SLUICE_ARGS_USER
#define PCI       SLUICE_ARGS_PCI

static const struct key keys[] = {
	{"sluice", DECLINE_IF_0, PCI, AT(declined), 0, 1},
	{"vdpa", DECLINE_IF_1, PCI, AT(declined), 0, 1},
	{"path", PATH, USER, 0, 0, 0},
	{"server", FLAG, USER, AT(server), 0, 1},
	{"queues", NUMBER, USER, AT(queues), 1, SLUICE_PAIRS_MAX},
	{"queue_size", SIZE, USER | PCI, AT(queue_size), 1, VQ_SIZE_MAX},
	{"mac", MAC, USER, 0, 0, 0},
	{"mrg_rxbuf", FLAG, USER | PCI, AT(mrg_rxbuf), 0, 1},
	{"in_order", FLAG, USER | PCI, AT(in_order), 0, 1},
	{"indirect", FLAG, USER | PCI, AT(indirect), 0, 1},
	{"event_idx", FLAG, USER | PCI, AT(event_idx), 0, 1},
	{"refill", REFILL, USER | PCI, 0, 0, 0},
	{"refill_budget", NUMBER, USER | PCI, AT(refill_budget), 1, VQ_SIZE_MAX},
	{"coalesce", COALESCE, USER | PCI, 0, 0, 0},
	{"coalesce_frames", NUMBER, USER | PCI, AT(coalesce_static.frames), 1, VQ_SIZE_MAX},
	{"coalesce_usecs", NUMBER, USER | PCI, AT(coalesce_static.usecs), 1,
		SLUICE_COALESCE_USECS_MAX},
	{"cq", NO_EFFECT, USER, 0, 0, 0},
	{"iface", NO_EFFECT, USER, 0, 0, 0},
	{"speed", NO_EFFECT, USER | PCI, 0, 0, 0},
	{"vectorized", NO_EFFECT, USER | PCI, 0, 0, 0},
	{"packed_vq", ONLY_ZERO, USER, 0, 0, 0},
};

static const char *const refill_names[] = {
	[VQ_REFILL_BUDGET] = "budget",
	[VQ_REFILL_HALF] = "half",
	[VQ_REFILL_EAGER] = "eager",
};

static const char *const coalesce_names[] = {
	[SLUICE_COALESCE_OFF] = "off",
	[SLUICE_COALESCE_STATIC] = "static",
	[SLUICE_COALESCE_ADAPTIVE] = "adaptive",
};

static int
parse_number(const char *text, uint32_t min, uint32_t max, uint32_t *out)
{
	unsigned long n;
	char *end;

	/* strtoul() takes signs and blanks, too. */
	if (text[0] < '0' || text[0] > '9')
		return -EINVAL;
	errno = 0;
	n = strtoul(text, &end, 10);
	if (errno != 0 || *end != '\0' || n < min || n > max)
		return -EINVAL;
	*out = (uint32_t)n;
	return 0;
}

static int
parse_mac(const char *text, struct sluice_devargs *out)
{
	out->has_mac = rte_ether_unformat_addr(text, &out->mac) == 0 &&
		       rte_is_valid_assigned_ether_addr(&out->mac);
	return out->has_mac ? 0 : -EINVAL;
}

/* Which of the names? -1: none. */
static int
parse_name(const char *text, const char *const *names, unsigned int n)
{
	unsigned int i;

	for (i = 0; i < n; i++) {
		if (strcmp(text, names[i]) == 0)
			return (int)i;
	}
	return -1;
}

static int
parse_refill(const char *text, struct sluice_devargs *out)
{
	const int mode = parse_name(text, refill_names, RTE_DIM(refill_names));

	if (mode < 0)
		return -EINVAL;
	out->refill = (enum vq_refill_mode)mode;
	return 0;
}

static int
parse_coalesce(const char *text, struct sluice_devargs *out)
{
	const int mode = parse_name(text, coalesce_names, RTE_DIM(coalesce_names));

	if (mode < 0)
		return -EINVAL;
	out->coalesce = (enum sluice_coalesce_mode)mode;
	return 0;
}

/* Parse one value. NULL, or the text of what it may be. */
static const char *
parse_value(const struct key *key, const char *value, struct sluice_devargs *out, char *text,
	size_t len)
{
	void *field = (char *)out + key->at;
	uint32_t n;

	switch (key->kind) {
	case DECLINE_IF_0:
	case DECLINE_IF_1:
		if (parse_number(value, key->min, key->max, &n) != 0)
			return "0 or 1";
		*(bool *)field |= n == (key->kind == DECLINE_IF_1);
		return NULL;
	case PATH:
		if (strlcpy(out->path, value, sizeof(out->path)) < sizeof(out->path))
			return NULL;
		snprintf(text, len, "a path of at most %d bytes", VU_PATH_MAX);
		return text;
	case MAC:
		return parse_mac(value, out) == 0 ? NULL
						  : "a unicast address such as 02:00:00:00:00:01";
	case REFILL:
		return parse_refill(value, out) == 0 ? NULL : "budget, half or eager";
	case COALESCE:
		return parse_coalesce(value, out) == 0 ? NULL : "off, static or adaptive";
	case NUMBER:
		if (parse_number(value, key->min, key->max, field) == 0)
			return NULL;
		snprintf(text, len, "a number from %u to %u", key->min, key->max);
		return text;
	case SIZE:
		if (parse_number(value, key->min, key->max, field) == 0 &&
			vq_size_ok(*(uint32_t *)field))
			return NULL;
		snprintf(text, len, "a power of two from %u to %u", key->min, key->max);
		return text;
	case FLAG:
		if (parse_number(value, key->min, key->max, &n) != 0)
			return "0 or 1";
		*(bool *)field = n != 0;
		return NULL;
	case ONLY_ZERO:
		return parse_number(value, 0, 0, &n) == 0 ? NULL : "0 (there are split rings only)";
	case NO_EFFECT:
		break;
	}
	return NULL;
}

static const struct key *
find_key(const char *name, enum sluice_args_of of)
{
	unsigned int i;

	for (i = 0; i < RTE_DIM(keys); i++) {
		if ((keys[i].of & of) && strcmp(keys[i].name, name) == 0)
			return &keys[i];
	}
	return NULL;
}

static int
parse_pair(const char *dev, const struct rte_kvargs_pair *pair, enum sluice_args_of of,
	uint32_t *given, struct sluice_devargs *out, char *ignored, size_t ignored_len)
{
	const struct key *key = find_key(pair->key, of);
	char text[64];
	const char *must;

	if (key == NULL) {
		SLUICE_LOG(ERR, dev, "unknown device argument '%s': known are %s", pair->key,
			of == SLUICE_ARGS_PCI ? SLUICE_PCI_PARAMS : SLUICE_USER_PARAMS);
		return -EINVAL;
	}
	if (*given & (UINT32_C(1) << (key - keys))) {
		SLUICE_LOG(ERR, dev, "device argument '%s' given twice: give it once", key->name);
		return -EINVAL;
	}
	*given |= UINT32_C(1) << (key - keys);
	if (pair->value == NULL || pair->value[0] == '\0') {
		SLUICE_LOG(ERR, dev, "device argument '%s' has no value: write %s=VALUE", key->name,
			key->name);
		return -EINVAL;
	}
	must = parse_value(key, pair->value, out, text, sizeof(text));
	if (must != NULL) {
		SLUICE_LOG(ERR, dev, "device argument %s=%s: must be %s", key->name, pair->value,
			must);
		return -EINVAL;
	}
	if (key->kind == NO_EFFECT || key->kind == ONLY_ZERO) {
		if (ignored[0] != '\0')
			strlcat(ignored, ", ", ignored_len);
		strlcat(ignored, key->name, ignored_len);
	}
	return 0;
}

/* A device that is left to another driver: then its arguments are that driver's, too. */
static bool
is_declined(const struct rte_kvargs *list, enum sluice_args_of of)
{
	struct sluice_devargs out = {0};
	char text[64];
	unsigned int i;

	for (i = 0; i < list->count; i++) {
		const struct key *key = find_key(list->pairs[i].key, of);
		const char *value = list->pairs[i].value;

		if (key != NULL && value != NULL &&
			(key->kind == DECLINE_IF_0 || key->kind == DECLINE_IF_1))
			(void)parse_value(key, value, &out, text, sizeof(text));
	}
	return out.declined;
}

/* What fits together. */
static int
check(const char *dev, enum sluice_args_of of, const struct sluice_devargs *args)
{
	const struct vq_adapt_profile *p = &args->coalesce_static;

	if (of == SLUICE_ARGS_USER && args->path[0] == '\0') {
		SLUICE_LOG(ERR, dev,
			"device argument 'path' is missing: write path=SOCKET, the backend's "
			"socket");
		return -EINVAL;
	}
	if (args->coalesce == SLUICE_COALESCE_STATIC && (p->frames == 0 || p->usecs == 0)) {
		SLUICE_LOG(ERR, dev,
			"device argument coalesce=static: give coalesce_frames and coalesce_usecs "
			"too");
		return -EINVAL;
	}
	if (args->coalesce != SLUICE_COALESCE_STATIC && (p->frames != 0 || p->usecs != 0)) {
		SLUICE_LOG(ERR, dev,
			"device argument '%s' means something with coalesce=static only: write "
			"that, or leave it out",
			p->frames != 0 ? "coalesce_frames" : "coalesce_usecs");
		return -EINVAL;
	}
	return 0;
}

int
sluice_devargs_parse(
	const char *name, const char *text, enum sluice_args_of of, struct sluice_devargs *out)
{
	struct rte_kvargs *list;
	char ignored[64] = "";
	uint32_t given = 0;
	unsigned int i;
	int err = 0;

	RTE_BUILD_BUG_ON(RTE_DIM(keys) > 32);
	*out = (struct sluice_devargs){
		.queues = 1,
		.queue_size = 256,
		.mrg_rxbuf = true,
		.in_order = true,
		.indirect = true,
		.refill = VQ_REFILL_BUDGET,
		.refill_budget = VQ_REFILL_BUDGET_DEFAULT,
	};
	/* Without a list of keys: it would refuse an unknown one without telling which. */
	list = rte_kvargs_parse(text == NULL ? "" : text, NULL);
	if (list == NULL) {
		SLUICE_LOG(
			ERR, name, "device arguments '%s': write key=value[,key=value]...", text);
		return -EINVAL;
	}
	out->declined = is_declined(list, of);
	for (i = 0; i < list->count && err == 0 && !out->declined; i++)
		err = parse_pair(name, &list->pairs[i], of, &given, out, ignored, sizeof(ignored));
	rte_kvargs_free(list);
	if (err == 0 && !out->declined)
		err = check(name, of, out);
	if (err != 0)
		return err;
	if (ignored[0] != '\0')
		SLUICE_LOG(NOTICE, name, "arguments that have no effect here: %s", ignored);
	return 0;
}
