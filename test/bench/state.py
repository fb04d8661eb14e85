# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The state of the machine around a trial, and whether two trials may be compared."""

import os
import subprocess
from collections import namedtuple

from harness import build

# A cache line that comes from a shared cache takes 40 to 110 ns one way, one from further away 210
# to 270 ns: measured on several two-CPU virtual machines, little was ever between. 33 to 42 ns,
# with adding slowed down on both, is when the two CPUs are threads of one core.
SIBLING_NS = 43
FAR_NS = 160
# A CPU with a stranger on its sibling thread adds at 2/3 of its speed or less. The full speed
# differs between machines: it is the best that was seen in a bench, and no less than two additions
# a cycle of the nominal clock (2.2 and 7 were seen on two machines).
CLEAN_SHARE = 0.85
ADDS_A_CYCLE = 2
# The probe never waits: in the time that it did not have its CPUs, another process of this machine
# had them. One that computes takes half; a machine that is alone also has moments of 0.8.
OWN_SHARE = 0.75

BUSY = 'busy'

Reading = namedtuple('Reading', 'one_way adds share nominal')


class Probe:
    """Call it while nothing polls; 0.05 s."""

    def __init__(self, cpus=(0, 1)):
        self._argv = [os.path.join(build.build_dir(), 'test/bench/probe'), *map(str, cpus)]

    def __call__(self):
        text = subprocess.run(self._argv, check=True, capture_output=True, text=True).stdout
        one_way, *adds, share, nominal = map(float, text.split())
        return Reading(one_way, tuple(adds), share, nominal)


def fastest(readings):
    """The speed of a CPU that is alone, known the better the more readings there are."""
    return max((max(*r.adds, ADDS_A_CYCLE * r.nominal) for r in readings), default=0)


def place(name):
    """'near', 'far', .. of the name of a state."""
    return name.split()[0]


def name(reading, fastest):
    """'near clean', 'far shared', .. where a CPU adds at `fastest` when it is alone; or BUSY."""
    if reading.share < OWN_SHARE:
        return BUSY
    slow = [adds < CLEAN_SHARE * fastest for adds in reading.adds]
    where = 'sibling' if reading.one_way < SIBLING_NS and all(slow) else 'near'
    if reading.one_way >= FAR_NS:
        where = 'far'
    return f'{where} {"shared" if any(slow) else "clean"}'
