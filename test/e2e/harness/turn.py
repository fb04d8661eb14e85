# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Two runs on one machine would be four pollers on two CPUs: SLUICE_TURN names a lock file."""

import contextlib
import fcntl
import os


@contextlib.contextmanager
def taken():
    path = os.environ.get('SLUICE_TURN')
    if not path:
        yield
        return
    with open(path, 'a', encoding='ascii') as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
