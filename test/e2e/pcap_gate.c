/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */
/* Preloaded: a net_pcap port reads nothing until the file PCAP_GATE has its first byte set. Its
 * capture is played at once when a switch starts, before any guest can be there to get it.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

typedef int pcap_next_fn(void *pcap, void **header, const unsigned char **packet);

static pcap_next_fn *real_next;
static const volatile char *gate;

static void
find(void)
{
	void *lib = dlopen("libpcap.so.0.8", RTLD_NOW | RTLD_NOLOAD);
	int fd = open(getenv("PCAP_GATE"), O_RDONLY | O_CLOEXEC);
	void *map;

	if (lib == NULL || fd < 0)
		abort();
	map = mmap(NULL, 1, PROT_READ, MAP_SHARED, fd, 0);
	close(fd);
	real_next = (pcap_next_fn *)dlsym(lib, "pcap_next_ex");
	if (map == MAP_FAILED || real_next == NULL)
		abort();
	gate = map;
}

int pcap_next_ex(void *pcap, void **header, const unsigned char **packet);

__attribute__((visibility("default"))) int
pcap_next_ex(void *pcap, void **header, const unsigned char **packet)
{
	if (gate == NULL)
		find();
	/* 0: nothing within the time, which a capture does not say otherwise. */
	return gate[0] != 0 ? real_next(pcap, header, packet) : 0;
}
