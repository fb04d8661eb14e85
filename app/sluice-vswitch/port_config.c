/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <ctype.h>
#include <grp.h>
#include <pwd.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "port_config.h"

#define BIT(key) (UINT32_C(1) << (key))

enum key {
	KEY_PATH,
	KEY_DEV,
	KEY_MODE,
	KEY_OWNER,
	KEY_GROUP,
	KEY_PERM,
	KEY_QUEUES,
	KEY_LOOPBACK,
	KEY_MTU,
	KEY_MRG_RXBUF,
	KEY_IN_ORDER,
	KEY_INDIRECT,
	KEY_EVENT_IDX,
	KEY_COALESCE,
	KEY_FRAMES,
	KEY_USECS,
	KEYS,
};

static const char *const key_names[KEYS] = {
	[KEY_PATH] = "path",
	[KEY_DEV] = "dev",
	[KEY_MODE] = "mode",
	[KEY_OWNER] = "owner",
	[KEY_GROUP] = "group",
	[KEY_PERM] = "perm",
	[KEY_QUEUES] = "queues",
	[KEY_LOOPBACK] = "loopback",
	[KEY_MTU] = "mtu",
	[KEY_MRG_RXBUF] = "mrg_rxbuf",
	[KEY_IN_ORDER] = "in_order",
	[KEY_INDIRECT] = "indirect",
	[KEY_EVENT_IDX] = "event_idx",
	[KEY_COALESCE] = "coalesce",
	[KEY_FRAMES] = "frames",
	[KEY_USECS] = "usecs",
};

/* What an ethdev port understands. */
#define KEYS_OF_DEV (BIT(KEY_DEV) | BIT(KEY_QUEUES) | BIT(KEY_MTU))
/* What makes sense only where we make the socket. */
#define KEYS_OF_SERVER (BIT(KEY_OWNER) | BIT(KEY_GROUP) | BIT(KEY_PERM))

int
parse_whole(const char *what, const char *text, uint32_t min, uint32_t max, uint32_t *out,
	struct problem *problem_out)
{
	unsigned long long value;
	char *end;

	if (!isdigit((unsigned char)text[0]))
		return problem(problem_out, "%s: \"%s\" is not a number: give %u..%u", what, text,
			min, max);
	errno = 0;
	value = strtoull(text, &end, 10);
	if (*end != '\0')
		return problem(problem_out, "%s: \"%s\" is not a number: give %u..%u", what, text,
			min, max);
	if (errno != 0 || value < min || value > max)
		return problem(
			problem_out, "%s: %s is out of range: give %u..%u", what, text, min, max);
	*out = (uint32_t)value;
	return 0;
}

int
parse_switch(const char *key, const char *value, bool *out, struct problem *p)
{
	if (strcmp(value, "on") == 0)
		*out = true;
	else if (strcmp(value, "off") == 0)
		*out = false;
	else
		return problem(p, "%s=%s: give on or off", key, value);
	return 0;
}

static int
parse_loopback(const char *value, enum loopback *out, struct problem *p)
{
	static const char *const names[] = {
		[LOOPBACK_OFF] = "off",
		[LOOPBACK_ON] = "on",
		[LOOPBACK_MBUF] = "mbuf",
	};
	uint32_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (strcmp(value, names[i]) == 0) {
			*out = (enum loopback)i;
			return 0;
		}
	return problem(p, "loopback=%s: give on, off or mbuf", value);
}

static int
parse_text(const char *key, const char *value, char *out, size_t max, struct problem *p)
{
	if (strlen(value) > max)
		return problem(p, "%s is %zu bytes long, at most %zu are possible: shorten it (%s)",
			key, strlen(value), max, value);
	memcpy(out, value, strlen(value) + 1);
	return 0;
}

static int
parse_perm(const char *value, mode_t *out, struct problem *p)
{
	char *end;
	unsigned long mode = strtoul(value, &end, 8);

	if (!isdigit((unsigned char)value[0]) || *end != '\0' || mode == 0 || mode > 0777)
		return problem(
			p, "perm=%s: not an octal mode: give 0001..0777, such as 0660", value);
	*out = (mode_t)mode;
	return 0;
}

/* A number stands for itself; anything else must be a name that the system knows. */
static int
parse_owner(const char *value, uid_t *out, struct problem *p)
{
	const struct passwd *user;
	uint32_t id;

	if (isdigit((unsigned char)value[0])) {
		if (parse_whole("owner", value, 0, UINT32_MAX - 1, &id, p) < 0)
			return -EINVAL;
		*out = id;
		return 0;
	}
	user = getpwnam(value);
	if (user == NULL)
		return problem(
			p, "owner=%s: no such user: give a name of passwd(5) or a number", value);
	*out = user->pw_uid;
	return 0;
}

static int
parse_group(const char *value, gid_t *out, struct problem *p)
{
	const struct group *group;
	uint32_t id;

	if (isdigit((unsigned char)value[0])) {
		if (parse_whole("group", value, 0, UINT32_MAX - 1, &id, p) < 0)
			return -EINVAL;
		*out = id;
		return 0;
	}
	group = getgrnam(value);
	if (group == NULL)
		return problem(
			p, "group=%s: no such group: give a name of group(5) or a number", value);
	*out = group->gr_gid;
	return 0;
}

int
port_config_init(struct port_config *p, const char *name, struct problem *out)
{
	size_t i;

	*p = (struct port_config){
		.owner = (uid_t)-1,
		.group = (gid_t)-1,
		.mrg_rxbuf = true,
		.in_order = true,
		.indirect = true,
		.event_idx = true,
		.coalesce.mode = COALESCE_AS_SWITCH,
	};
	if (name[0] == '\0')
		return problem(out, "a port needs a name: NAME,path=SOCK or NAME,dev=ETHDEV");
	if (strlen(name) > PORT_NAME_MAX)
		return problem(out, "name \"%s\" is %zu bytes long: at most %d are possible", name,
			strlen(name), PORT_NAME_MAX);
	/* DPDK's telemetry takes no other characters in a key. */
	for (i = 0; name[i] != '\0'; i++)
		if (!isalnum((unsigned char)name[i]) && name[i] != '_')
			return problem(out,
				"name \"%s\": only letters, digits and _ are possible in it", name);
	memcpy(p->name, name, i + 1);
	return 0;
}

static int
set_key(struct port_config *p, enum key key, const char *name, const char *value,
	struct problem *out)
{
	switch (key) {
	case KEY_PATH:
		return parse_text(name, value, p->path, VU_PATH_MAX, out);
	case KEY_DEV:
		return parse_text(name, value, p->dev, PORT_DEV_MAX, out);
	case KEY_MODE:
		if (strcmp(value, "server") != 0 && strcmp(value, "client") != 0)
			return problem(out, "mode=%s: give server or client", value);
		p->client = value[0] == 'c';
		return 0;
	case KEY_OWNER:
		return parse_owner(value, &p->owner, out);
	case KEY_GROUP:
		return parse_group(value, &p->group, out);
	case KEY_PERM:
		return parse_perm(value, &p->perm, out);
	case KEY_QUEUES:
		return parse_whole(name, value, 1, PAIRS_MAX, &p->queues, out);
	case KEY_LOOPBACK:
		return parse_loopback(value, &p->loopback, out);
	case KEY_MTU:
		return parse_whole(name, value, PORT_MTU_MIN, PORT_MTU_MAX, &p->mtu, out);
	case KEY_MRG_RXBUF:
		return parse_switch(name, value, &p->mrg_rxbuf, out);
	case KEY_IN_ORDER:
		return parse_switch(name, value, &p->in_order, out);
	case KEY_INDIRECT:
		return parse_switch(name, value, &p->indirect, out);
	case KEY_EVENT_IDX:
		return parse_switch(name, value, &p->event_idx, out);
	case KEY_COALESCE:
		return coalesce_config_set_mode(&p->coalesce, value, out) < 0
			       ? problem_at(out, name)
			       : 0;
	case KEY_FRAMES:
	case KEY_USECS:
		return coalesce_config_set(&p->coalesce, name, value, out);
	case KEYS:
		break;
	}
	return -EINVAL;
}

int
port_config_set(struct port_config *p, const char *key, const char *value, struct problem *out)
{
	enum key i;

	for (i = 0; i < KEYS; i++)
		if (strcmp(key, key_names[i]) == 0)
			break;
	if (i == KEYS)
		return problem(out,
			"unknown key \"%s\": known are path, dev, mode, owner, group, perm, "
			"queues, "
			"loopback, mtu, mrg_rxbuf, in_order, indirect, event_idx, "
			"coalesce, frames, usecs",
			key);
	if (p->given & BIT(i))
		return problem(out, "%s is given twice: leave one out", key);
	if (value[0] == '\0')
		return problem(out, "%s: missing value: give %s=VALUE", key, key);
	p->given |= BIT(i);
	return set_key(p, i, key, value, out);
}

int
port_config_check(const struct port_config *p, struct problem *out)
{
	uint32_t wrong = 0;
	const char *where;

	if (p->path[0] == '\0' && p->dev[0] == '\0')
		return problem(out, "neither path nor dev: give path=SOCK or dev=ETHDEV");
	if (p->path[0] != '\0' && p->dev[0] != '\0')
		return problem(out, "both path and dev: a port is a socket or an ethdev, not both");
	if (p->dev[0] != '\0') {
		wrong = p->given & ~KEYS_OF_DEV;
		where = "a port with dev=: leave it out (possible are queues and mtu)";
	} else if (p->client) {
		wrong = p->given & KEYS_OF_SERVER;
		where = "mode=client, where the other side makes the socket: leave it out";
	}
	if (wrong != 0)
		return problem(
			out, "%s makes no sense with %s", key_names[__builtin_ctz(wrong)], where);
	return coalesce_config_check(&p->coalesce, out);
}

int
port_config_parse(struct port_config *p, const char *text, struct problem *out)
{
	char *copy = strdup(text);
	char *rest = copy;
	char *item;
	int ret;

	if (copy == NULL)
		return problem(out, "out of memory");
	item = strsep(&rest, ",");
	if (strchr(item, '=') != NULL)
		ret = problem(out, "the name comes first: NAME,%s..", item);
	else
		ret = port_config_init(p, item, out);
	while (ret == 0 && (item = strsep(&rest, ",")) != NULL) {
		char *value = strchr(item, '=');

		if (value != NULL)
			*value++ = '\0';
		if (item[0] == '\0')
			ret = problem(out, "a key is missing: write NAME,key=value,key=value");
		else
			ret = port_config_set(p, item, value == NULL ? "" : value, out);
	}
	if (ret == 0)
		ret = port_config_check(p, out);
	free(copy);
	return ret;
}
