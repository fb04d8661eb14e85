/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>

#include "config.h"

void
switch_config_init(struct switch_config *c)
{
	memset(c, 0, sizeof(*c));
	c->ageing = AGEING_DEFAULT;
	c->addresses = ADDRESSES_DEFAULT;
	c->idle.usecs = IDLE_USECS_DEFAULT;
	c->suppress_kicks = true;
}

int
switch_config_add_port(struct switch_config *c, const struct port_config *p, struct problem *out)
{
	uint32_t i;

	for (i = 0; i < c->nports; i++) {
		const struct port_config *other = &c->ports[i];

		if (strcmp(p->name, other->name) == 0)
			return problem(out, "there is a port \"%s\" already: give it another name",
				p->name);
		if (p->path[0] != '\0' && strcmp(p->path, other->path) == 0)
			return problem(out, "port \"%s\" has the path %s already: give another",
				other->name, p->path);
		if (p->dev[0] != '\0' && strcmp(p->dev, other->dev) == 0)
			return problem(out, "port \"%s\" has the device %s already: give another",
				other->name, p->dev);
	}
	if (c->nports == PORTS_MAX)
		return problem(out, "too many ports: at most %d are possible", PORTS_MAX);
	c->ports[c->nports++] = *p;
	return 0;
}

int
switch_config_set_idle(struct idle_config *c, const char *text, struct problem *out)
{
	if (strcmp(text, "poll") != 0 && strcmp(text, "sleep") != 0)
		return problem(out, "\"%s\": give poll or sleep", text);
	c->sleep = strcmp(text, "sleep") == 0;
	/* Whoever goes back to polling, over a file that says otherwise, means all of it. */
	if (!c->sleep)
		c->usecs_given = false;
	return 0;
}

int
switch_config_set_idle_usecs(
	struct idle_config *c, const char *what, const char *text, struct problem *out)
{
	c->usecs_given = true;
	return parse_whole(what, text, 0, IDLE_USECS_MAX, &c->usecs, out);
}

int
switch_config_set_report(struct switch_config *c, const char *text, struct problem *out)
{
	if (text[0] == '\0')
		return problem(out, "missing value: give the name of a file");
	if (strlen(text) >= sizeof(c->report))
		return problem(out, "the name is %zu bytes long: at most %zu are possible",
			strlen(text), sizeof(c->report) - 1);
	memcpy(c->report, text, strlen(text) + 1);
	return 0;
}

static int
option_port(struct switch_config *c, const char *value, struct problem *out)
{
	char place[64];
	struct port_config p;
	int ret;

	ret = port_config_parse(&p, value, out);
	if (ret == 0)
		ret = switch_config_add_port(c, &p, out);
	if (ret < 0) {
		snprintf(place, sizeof(place), "--port %.*s", (int)strcspn(value, ","), value);
		return problem_at(out, place);
	}
	return 0;
}

static int
option_ageing(struct switch_config *c, const char *value, struct problem *out)
{
	return parse_whole("--ageing", value, 0, AGEING_MAX, &c->ageing, out);
}

static int
option_addresses(struct switch_config *c, const char *value, struct problem *out)
{
	return parse_whole("--addresses", value, ADDRESSES_MIN, ADDRESSES_MAX, &c->addresses, out);
}

static int
option_coalesce(struct switch_config *c, const char *value, struct problem *out)
{
	if (coalesce_config_parse(&c->coalesce, value, out) < 0)
		return problem_at(out, "--coalesce");
	return 0;
}

static int
option_idle(struct switch_config *c, const char *value, struct problem *out)
{
	if (switch_config_set_idle(&c->idle, value, out) < 0)
		return problem_at(out, "--idle");
	return 0;
}

static int
option_idle_usecs(struct switch_config *c, const char *value, struct problem *out)
{
	return switch_config_set_idle_usecs(&c->idle, "--idle-usecs", value, out);
}

static int
option_suppress_kicks(struct switch_config *c, const char *value, struct problem *out)
{
	return parse_switch("--suppress-kicks", value, &c->suppress_kicks, out);
}

static int
option_report(struct switch_config *c, const char *value, struct problem *out)
{
	if (switch_config_set_report(c, value, out) < 0)
		return problem_at(out, "--report");
	return 0;
}

static const struct option {
	const char *name;
	const char *value; /* NULL: takes none */
	int (*take)(struct switch_config *c, const char *value, struct problem *out);
} options[] = {
	{"--config", "FILE", switch_config_read},
	{"--port", "NAME,path=SOCK or NAME,dev=ETHDEV", option_port},
	{"--ageing", "SECONDS", option_ageing},
	{"--addresses", "NUMBER", option_addresses},
	{"--coalesce", "off, adaptive or static,frames=N,usecs=N", option_coalesce},
	{"--idle", "poll or sleep", option_idle},
	{"--idle-usecs", "MICROSECONDS", option_idle_usecs},
	{"--suppress-kicks", "on or off", option_suppress_kicks},
	{"--report", "FILE", option_report},
	{"--help", NULL, NULL},
	{"--version", NULL, NULL},
};

/* Find the option that a word is, alone or with =value behind it. */
static const struct option *
find_option(const char *word)
{
	size_t len = strcspn(word, "=");
	size_t i;

	for (i = 0; i < sizeof(options) / sizeof(options[0]); i++)
		if (strlen(options[i].name) == len && strncmp(word, options[i].name, len) == 0)
			return &options[i];
	return NULL;
}

bool
switch_config_is_option(const char *word)
{
	const struct option *o = find_option(word);

	return o != NULL && o->value != NULL;
}

int
switch_config_options(struct switch_config *c, int argc, char *const *argv, struct problem *out)
{
	int i;

	for (i = 0; i < argc; i++) {
		const struct option *o = find_option(argv[i]);
		const char *value = strchr(argv[i], '=');

		if (o == NULL)
			return problem(
				out, "unknown option \"%s\": see sluice-vswitch --help", argv[i]);
		if (o->value == NULL) {
			if (value != NULL)
				return problem(
					out, "%s takes no value: leave \"%s\" out", o->name, value);
			if (strcmp(o->name, "--help") == 0)
				c->help = true;
			else
				c->version = true;
			continue;
		}
		if (value != NULL)
			value++;
		else if (++i < argc)
			value = argv[i];
		if (value == NULL || value[0] == '\0')
			return problem(out, "%s: missing value: give %s", o->name, o->value);
		if (o->take(c, value, out) < 0)
			return -EINVAL;
	}
	if (c->help || c->version)
		return 0;
	if (c->nports == 0)
		return problem(out, "no port: give --port NAME,path=SOCK, or --config FILE");
	if (c->idle.usecs_given && !c->idle.sleep)
		return problem(out,
			"--idle-usecs (idle_usecs) %u, but workers poll for ever: give --idle "
			"sleep, or leave it out",
			c->idle.usecs);
	return 0;
}
