# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The state of the machine around a trial, and whether two trials may be compared."""

import os
import subprocess

from harness import build

# A cache line that comes from a shared cache takes 55 to 110 ns one way, one from further away 210
# to 270 ns: measured on several two-CPU virtual machines, nothing was ever between.
FAR_NS = 160
# A CPU with a stranger on its sibling thread adds at 2/3 of its speed or less. The full speed
# differs between machines: it is the best that was seen in this run.
CLEAN_SHARE = 0.85


class Probe:
    """Call it while nothing polls; 0.1 s."""

    def __init__(self, cpus=(0, 1)):
        self._argv = [os.path.join(build.build_dir(), 'test/bench/probe'), *map(str, cpus)]
        self._best = 0.0

    def __call__(self):
        text = subprocess.run(self._argv, check=True, capture_output=True, text=True).stdout
        one_way, *adds = map(float, text.split())
        self._best = max(self._best, *adds)
        return one_way, tuple(adds)

    def name(self, reading):
        """'near clean', 'far shared', .. with the best speed known by now."""
        one_way, adds = reading
        clean = min(adds) >= CLEAN_SHARE * self._best
        return f'{"far" if one_way >= FAR_NS else "near"} {"clean" if clean else "shared"}'
