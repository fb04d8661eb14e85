# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What a benchmark is. Each file of benches/ defines one as BENCH; that is all it takes."""

import importlib
import os
import re
import signal
import subprocess
import sys
from collections import namedtuple

from harness.proc import ProcError
from harness.rig import Rig

HERE = os.path.dirname(os.path.realpath(__file__))
BENCHES = os.path.join(HERE, 'benches')

# sides: called with a Place, returns (ours, peer). A side is called for a trial, returns its rate,
# and has a `name`. Of the side that rests nothing polls. The ratio is ours / peer, so a unit is one
# of which more is better; `target` is the ratio to be reached.
Case = namedtuple('Case', 'unit target sides')


class Bench:
    """`default`: names of the cases that run when none is asked for (default: all)."""

    def __init__(self, name, text, cases, default=None, huge_mb=0):
        self.name, self.text, self.cases, self.huge_mb = name, text, cases, huge_mb
        self.default = list(default or cases)


class Place:
    """What the sides of a case may use: processes that end with it, hugepages, a peer's DPDK."""

    def __init__(self, huge_dir=None, peer_dpdk=None):
        self.huge_dir = huge_dir
        self.peer_testpmd = os.path.join(peer_dpdk, 'dpdk-testpmd') if peer_dpdk else None
        self.peer_used = False
        self.rig = Rig()

    def peer_program(self):
        """The testpmd of a side that may be a DPDK of the user's choice; None: the installed."""
        self.peer_used = True
        return self.peer_testpmd

    def __enter__(self):
        return self

    def __exit__(self, *exc):
        for process in self.rig.processes:
            process.signal(signal.SIGCONT)  # a guest that ends talks to its host
        self.rig.close()


class Command:
    """A side that is a program: the last number that it prints is the rate."""

    def __init__(self, name, *argv, timeout=60):
        self.name, self.argv, self.timeout = name, [str(word) for word in argv], timeout

    def __call__(self):
        try:
            done = subprocess.run(self.argv, stdin=subprocess.DEVNULL, capture_output=True,
                                  text=True, timeout=self.timeout, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise ProcError(f'{self.name}: {error}') from None
        numbers = re.findall(r'(?<![\w.])[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?(?![\w.])', done.stdout)
        if done.returncode != 0 or not numbers:
            said = (done.stderr.strip() or done.stdout.strip() or 'nothing').splitlines()[-1]
            raise ProcError(f'{" ".join(self.argv)}: exit status {done.returncode}, said: {said}')
        return float(numbers[-1])


def end_on_sigterm(program):
    """Told to stop: processes and hugepages go as at any end, which is not to be broken off."""
    def end(number, frame):
        del frame
        signal.signal(number, signal.SIG_IGN)
        sys.exit(f'{program}: stopped')
    signal.signal(signal.SIGTERM, end)


def names(folder=BENCHES):
    return sorted(f[:-3] for f in os.listdir(folder) if f.endswith('.py') and f[0] != '_')


def load(name, folder=BENCHES, what='BENCH'):
    """What the file of that name in the folder defines."""
    if folder not in sys.path:
        sys.path.insert(0, folder)
    return getattr(importlib.import_module(name), what)
