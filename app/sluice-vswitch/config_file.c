/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

/*
 * The configuration file, in libconfig's syntax:
 *
 *   ageing = 300; addresses = 16384;
 *   coalesce = { mode = "static"; frames = 32; usecs = 50; };
 *   idle = "sleep"; idle_usecs = 100; suppress_kicks = true;
 *   report = "/var/log/sluice.json";
 *   ports = (
 *     { name = "vm0"; path = "/run/sluice/vm0"; mode = "server"; perm = "0660"; queues = 2; },
 *     { name = "up0"; dev = "net_tap0"; mtu = 9000; }
 *   );
 *
 * The keys of a port are those of --port. Whatever is not known is refused, with its line.
 */

#include <string.h>
#include <sys/stat.h>

#include <libconfig.h>

#include "config.h"

/* Put FILE:LINE: in front of a problem. */
static int
problem_here(const config_setting_t *s, const char *file, struct problem *out)
{
	const char *source = config_setting_source_file(s);
	char place[PATH_MAX + 16];

	snprintf(place, sizeof(place), "%s:%u", source != NULL ? source : file,
		config_setting_source_line(s));
	return problem_at(out, place);
}

/* The value of a setting as the command line would have it. */
static int
setting_text(const config_setting_t *s, char *text, size_t len, struct problem *out)
{
	switch (config_setting_type(s)) {
	case CONFIG_TYPE_STRING:
		if (strlen(config_setting_get_string(s)) >= len)
			return problem(out, "%s: at most %zu bytes are possible: shorten it",
				config_setting_name(s), len - 1);
		strcpy(text, config_setting_get_string(s));
		return 0;
	case CONFIG_TYPE_INT:
	case CONFIG_TYPE_INT64:
		snprintf(text, len, "%lld", config_setting_get_int64(s));
		return 0;
	case CONFIG_TYPE_BOOL:
		snprintf(text, len, "%s", config_setting_get_bool(s) ? "on" : "off");
		return 0;
	default:
		return problem(out, "%s: give a string, a whole number, true or false",
			config_setting_name(s));
	}
}

static int
read_port_key(struct port_config *p, const config_setting_t *s, struct problem *out)
{
	const char *key = config_setting_name(s);
	char text[PATH_MAX];

	if (strcmp(key, "name") == 0)
		return 0;
	/* 0660 without quotes is a decimal number here, and another mode. */
	if (strcmp(key, "perm") == 0 && config_setting_type(s) != CONFIG_TYPE_STRING)
		return problem(out, "perm: write the octal mode in quotes, such as \"0660\"");
	if (setting_text(s, text, sizeof(text), out) < 0)
		return -EINVAL;
	return port_config_set(p, key, text, out);
}

static int
read_port(struct switch_config *c, const config_setting_t *s, const char *file, struct problem *out)
{
	struct port_config p;
	const char *name;
	int i;

	if (!config_setting_is_group(s)) {
		problem(out, "a port is a group: { name = \"..\"; path = \"..\"; }");
		return problem_here(s, file, out);
	}
	if (!config_setting_lookup_string(s, "name", &name)) {
		problem(out, "a port without a name: give name = \"..\";");
		return problem_here(s, file, out);
	}
	if (port_config_init(&p, name, out) < 0)
		return problem_here(s, file, out);
	for (i = 0; i < config_setting_length(s); i++) {
		const config_setting_t *key = config_setting_get_elem(s, (unsigned int)i);

		if (read_port_key(&p, key, out) < 0)
			return problem_here(key, file, out);
	}
	if (port_config_check(&p, out) < 0 || switch_config_add_port(c, &p, out) < 0) {
		char place[PORT_NAME_MAX + 16];

		snprintf(place, sizeof(place), "port %s", p.name);
		problem_at(out, place);
		return problem_here(s, file, out);
	}
	return 0;
}

static int
read_ports(
	struct switch_config *c, const config_setting_t *s, const char *file, struct problem *out)
{
	int i;

	if (!config_setting_is_list(s)) {
		problem(out, "ports is a list: ports = ( { name = \"..\"; .. }, .. );");
		return problem_here(s, file, out);
	}
	for (i = 0; i < config_setting_length(s); i++)
		if (read_port(c, config_setting_get_elem(s, (unsigned int)i), file, out) < 0)
			return -EINVAL;
	return 0;
}

/*
 * The keys of the group, as the command line would have them: "static,frames=32,usecs=50". What
 * another mode does not use may stay in the file.
 */
static int
coalesce_words(const config_setting_t *group, const char *file, char *words, size_t len,
	struct problem *out)
{
	struct coalesce_config c = {.mode = COALESCE_STATIC};
	int i;

	snprintf(words, len, "static");
	for (i = 0; i < config_setting_length(group); i++) {
		const config_setting_t *s = config_setting_get_elem(group, (unsigned int)i);
		const char *key = config_setting_name(s);
		size_t used = strlen(words);
		char text[32];
		int ret = setting_text(s, text, sizeof(text), out);

		if (ret == 0 && strcmp(key, "mode") == 0) {
			ret = coalesce_config_set_mode(&c, text, out);
			if (ret < 0)
				problem_at(out, "mode");
		} else if (ret == 0 && strcmp(key, "frames") != 0 && strcmp(key, "usecs") != 0) {
			ret = problem(
				out, "unknown key \"%s\": known are mode, frames, usecs", key);
		} else if (ret == 0) {
			snprintf(words + used, len - used, ",%s=%s", key, text);
		}
		if (ret < 0)
			return problem_here(s, file, out);
	}
	if (c.mode != COALESCE_STATIC)
		snprintf(words, len, "%s", coalesce_mode_name(c.mode));
	return 0;
}

static int
read_coalesce(
	struct switch_config *c, const config_setting_t *s, const char *file, struct problem *out)
{
	char words[128];
	int ret;

	if (config_setting_is_group(s)) {
		ret = coalesce_words(s, file, words, sizeof(words), out);
		if (ret < 0)
			return ret;
	} else {
		ret = setting_text(s, words, sizeof(words), out);
	}
	if (ret == 0)
		ret = coalesce_config_parse(&c->coalesce, words, out);
	if (ret < 0) {
		problem_at(out, "coalesce");
		return problem_here(s, file, out);
	}
	return 0;
}

static int
read_scalar(
	struct switch_config *c, const config_setting_t *s, const char *file, struct problem *out)
{
	const char *key = config_setting_name(s);
	char text[PATH_MAX];
	int ret;

	ret = setting_text(s, text, sizeof(text), out);
	if (ret == 0 && strcmp(key, "ageing") == 0)
		ret = parse_whole("ageing", text, 0, AGEING_MAX, &c->ageing, out);
	else if (ret == 0 && strcmp(key, "addresses") == 0)
		ret = parse_whole(key, text, ADDRESSES_MIN, ADDRESSES_MAX, &c->addresses, out);
	else if (ret == 0 && strcmp(key, "idle_usecs") == 0)
		ret = switch_config_set_idle_usecs(&c->idle, key, text, out);
	else if (ret == 0 && strcmp(key, "idle") == 0)
		ret = switch_config_set_idle(&c->idle, text, out) < 0 ? problem_at(out, key) : 0;
	else if (ret == 0 && strcmp(key, "suppress_kicks") == 0)
		ret = parse_switch(key, text, &c->suppress_kicks, out);
	else if (ret == 0)
		ret = switch_config_set_report(c, text, out);
	return ret < 0 ? problem_here(s, file, out) : 0;
}

static bool
is_scalar(const char *key)
{
	static const char *const keys[] = {
		"addresses", "ageing", "idle", "idle_usecs", "report", "suppress_kicks"};
	size_t i;

	for (i = 0; i < sizeof(keys) / sizeof(keys[0]); i++)
		if (strcmp(key, keys[i]) == 0)
			return true;
	return false;
}

static int
read_root(struct switch_config *c, const config_t *root, const char *file, struct problem *out)
{
	const config_setting_t *top = config_root_setting(root);
	int i;

	for (i = 0; i < config_setting_length(top); i++) {
		const config_setting_t *s = config_setting_get_elem(top, (unsigned int)i);
		const char *key = config_setting_name(s);
		int ret;

		if (strcmp(key, "ports") == 0) {
			ret = read_ports(c, s, file, out);
		} else if (strcmp(key, "coalesce") == 0) {
			ret = read_coalesce(c, s, file, out);
		} else if (is_scalar(key)) {
			ret = read_scalar(c, s, file, out);
		} else {
			problem(out,
				"unknown setting \"%s\": known are ports, addresses, ageing, "
				"coalesce, idle, idle_usecs, report, suppress_kicks",
				key);
			ret = problem_here(s, file, out);
		}
		if (ret < 0)
			return ret;
	}
	return 0;
}

int
switch_config_read(struct switch_config *c, const char *name, struct problem *out)
{
	FILE *stream = fopen(name, "re");
	struct stat st;
	config_t root;
	int ret;

	/* libconfig's scanner ends the process over a directory. */
	if (stream != NULL && fstat(fileno(stream), &st) == 0 && S_ISDIR(st.st_mode)) {
		fclose(stream);
		stream = NULL;
		errno = EISDIR;
	}
	if (stream == NULL)
		return problem(out, "%s: %s: give --config a file that can be read", name,
			strerror(errno));
	config_init(&root);
	if (config_read(&root, stream) == CONFIG_TRUE) {
		ret = read_root(c, &root, name, out);
	} else {
		const char *file = config_error_file(&root);

		ret = problem(out, "%s:%d: %s", file != NULL ? file : name,
			config_error_line(&root), config_error_text(&root));
	}
	config_destroy(&root);
	fclose(stream);
	return ret;
}
