/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */
/* Preloaded: DPDK says that it is of another version than the driver was built for. */

unsigned int rte_version_minor(void);
const char *rte_version(void);

unsigned int
rte_version_minor(void)
{
	return 77;
}

const char *
rte_version(void)
{
	return "DPDK 22.77";
}
