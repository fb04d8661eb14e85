# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What there is to fuzz: one line a target. NAME is fuzz_NAME.c here, its seeds are seeds/NAME/."""

from typing import NamedTuple


class Target(NamedTuple):
    """A target is its own source, more sources of this folder, and whole libraries."""
    libraries: tuple
    more: tuple = ()
    # Functions of libraries that the target has its own __wrap_ of.
    wrap: tuple = ()
    # Bytes of an input: enough for a story, short enough to be changed at every place.
    max_len: int = 1024
    # Seconds that one input may take: a loop without an end is a finding, a busy machine is none.
    timeout: int = 100


TARGETS = {
    "backend": Target(("virtqueue", "vhost_user"),
                      ("fuzz_vu.c", "fuzz_vu_app.c", "fuzz_vu_say.c"),
                      ("mmap", "munmap", "vu_backend_message"), timeout=60),
    "frontend": Target(("virtqueue", "vhost_user"), ("fuzz_vu.c", "fuzz_vu_peer.c"),
                       ("poll", "clock_gettime"), timeout=60),
    "vq_device": Target(("virtqueue",), ("hostile_driver.c", "reference.c")),
    "vq_driver": Target(("virtqueue",)),
    "vq_net": Target(("virtqueue",), ("hostile_driver.c", "reference.c")),
    "vq_mem": Target(("virtqueue",)),
}
