/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */

#include <stdlib.h>
#include <string.h>

#include "coalesce_config.h"
#include "port_config.h"

static const char *const mode_names[] = {
	[COALESCE_OFF] = "off",
	[COALESCE_STATIC] = "static",
	[COALESCE_ADAPTIVE] = "adaptive",
	[COALESCE_AS_SWITCH] = "as the switch",
};

const char *
coalesce_mode_name(enum coalesce_mode mode)
{
	return mode_names[mode];
}

int
coalesce_config_set_mode(struct coalesce_config *c, const char *text, struct problem *out)
{
	enum coalesce_mode mode;

	for (mode = COALESCE_OFF; mode < COALESCE_AS_SWITCH; mode++) {
		if (strcmp(text, mode_names[mode]) == 0) {
			c->mode = mode;
			return 0;
		}
	}
	return problem(out, "\"%s\": give off, adaptive or static,frames=N,usecs=N", text);
}

int
coalesce_config_set(
	struct coalesce_config *c, const char *key, const char *value, struct problem *out)
{
	if (strcmp(key, "frames") == 0)
		return parse_whole(key, value, 1, COALESCE_FRAMES_MAX, &c->frames, out);
	if (strcmp(key, "usecs") == 0)
		return parse_whole(key, value, 1, COALESCE_USECS_MAX, &c->usecs, out);
	return problem(out, "unknown key \"%s\": known are frames=N and usecs=N", key);
}

int
coalesce_config_check(const struct coalesce_config *c, struct problem *out)
{
	if (c->mode == COALESCE_STATIC && (c->frames == 0 || c->usecs == 0))
		return problem(out, "static needs both: give static,frames=N,usecs=N");
	if (c->mode == COALESCE_AS_SWITCH && c->frames + c->usecs != 0)
		return problem(out,
			"frames and usecs need coalesce=static: give it too, or leave them out");
	if (c->mode != COALESCE_STATIC && c->frames + c->usecs != 0)
		return problem(out, "%s takes no frames and usecs: leave them out, or give static",
			coalesce_mode_name(c->mode));
	return 0;
}

int
coalesce_config_parse(struct coalesce_config *c, const char *text, struct problem *out)
{
	struct coalesce_config parsed = {.mode = COALESCE_OFF};
	char *copy = strdup(text);
	char *rest = copy;
	char *item, *value;
	int ret;

	if (copy == NULL)
		return problem(out, "out of memory");
	ret = coalesce_config_set_mode(&parsed, strsep(&rest, ","), out);
	while (ret == 0 && (item = strsep(&rest, ",")) != NULL) {
		value = strchr(item, '=');
		if (value != NULL)
			*value++ = '\0';
		ret = coalesce_config_set(&parsed, item, value == NULL ? "" : value, out);
	}
	free(copy);
	if (ret == 0)
		ret = coalesce_config_check(&parsed, out);
	if (ret == 0)
		*c = parsed;
	return ret;
}
