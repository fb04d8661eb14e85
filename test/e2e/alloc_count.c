/* SPDX-License-Identifier: BSD-3-Clause
 * Copyright (c) 2026 The Sluice developers
 */
/* Preloaded: counts the calls of the C library's allocator by each thread. ALLOC_COUNT names a
 * file that the test maps; slot i of it is {thread id, calls}. DPDK's own rte_malloc does not come
 * by here: it takes a lock and shows in a profile, but takes no memory from the system.
 */

#include <dlfcn.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SLOTS 128

struct slot {
	_Atomic uint64_t tid;
	_Atomic uint64_t calls;
};

static struct slot unseen[1];
static struct slot *slots;
static _Atomic unsigned int used;
static _Thread_local struct slot *mine __attribute__((tls_model("initial-exec")));

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t n, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t align, size_t size);
extern void __libc_free(void *p);

__attribute__((constructor)) static void
map_slots(void)
{
	const char *path = getenv("ALLOC_COUNT");
	int fd = path != NULL ? open(path, O_RDWR | O_CLOEXEC) : -1;
	void *map;

	if (fd < 0)
		return;
	map = mmap(NULL, SLOTS * sizeof(*slots), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		slots = map;
}

static void
count(void)
{
	if (mine == NULL) {
		unsigned int i = slots != NULL ? atomic_fetch_add(&used, 1) : SLOTS;

		if (i >= SLOTS) {
			unseen->calls++;
			return;
		}
		mine = &slots[i];
		mine->tid = (uint64_t)syscall(SYS_gettid);
	}
	mine->calls++;
}

#define EXPORT __attribute__((visibility("default")))

EXPORT void *
malloc(size_t size)
{
	count();
	return __libc_malloc(size);
}

EXPORT void *
calloc(size_t n, size_t size)
{
	count();
	return __libc_calloc(n, size);
}

EXPORT void *
realloc(void *old, size_t size)
{
	count();
	return __libc_realloc(old, size);
}

EXPORT void *
aligned_alloc(size_t align, size_t size)
{
	count();
	return __libc_memalign(align, size);
}

EXPORT int
posix_memalign(void **out, size_t align, size_t size)
{
	count();
	*out = __libc_memalign(align, size);
	return *out != NULL ? 0 : 12;
}

EXPORT void
free(void *p)
{
	count();
	__libc_free(p);
}
