# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What a benchmark is. Each file of benches/ defines one as BENCH; that is all it takes."""

import difflib
import importlib
import os
import re
import signal
import subprocess
import sys
from collections import namedtuple

import state
from harness.proc import ProcError
from harness.rig import Rig

HERE = os.path.dirname(os.path.realpath(__file__))
BENCHES = os.path.join(HERE, 'benches')

# sides: called with a Place, returns (ours, peer). A side is called for a trial, returns its rate,
# and has a `name`. Of the side that rests nothing polls. The ratio is ours / peer; `better` says
# whether the unit is one of which 'more' is better or 'less'. `target` is the ratio to be reached,
# or, where less is better, not to be exceeded; or one for each place of the CPUs ('near', 'far') for
# which there is one; or None.
Case = namedtuple('Case', 'unit target sides better', defaults=('more',))


def target(case, of_state):
    """None: there is none in that state."""
    if isinstance(case.target, dict):
        return case.target.get(state.place(of_state))
    return case.target


class Bench:
    """`default`: names of the cases that run when none is asked for (default: all)."""

    def __init__(self, name, text, cases, default=None, huge_mb=0):
        self.name, self.text, self.cases, self.huge_mb = name, text, cases, huge_mb
        self.default = list(default or cases)


class Place:
    """What the sides of a case may use: processes that end with it, hugepages, DPDKs (class Dpdk;
    None: the installed one), that of the peer's testpmds and that of ours."""

    def __init__(self, huge_dir=None, dpdk=None, peer_dpdk=None):
        self.huge_dir = huge_dir
        self.dpdk, self.peer_dpdk = dpdk, peer_dpdk or dpdk
        self.peer_used = False
        self.rig = Rig()

    def use_installed(self):
        """For a case that is about the DPDK that the distribution built."""
        self.dpdk = self.peer_dpdk = None

    def dpdk_of(self, ours):
        if ours:
            return self.dpdk
        self.peer_used = True
        return self.peer_dpdk

    def peer_program(self):
        """The testpmd of the peer, None: the installed one."""
        dpdk = self.dpdk_of(False)
        return dpdk.testpmd if dpdk else None

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


def choose(words, benches):
    """{bench's name: [case]}, in their order: each word is a case's name, the beginning of some up
    to a dash, or a bench's name, which means its usual cases. No word: all usual cases.

    Raises LookupError, of one line, for a word that is none of these.
    """
    chosen = {name: [] for name in benches}
    for word in words or benches:
        found = matching(word, benches)
        if not found:
            near = near_names(word, benches)
            raise LookupError(f'no case {word}' + (f'; near to it: {" ".join(near)}' if near else '')
                              + '; --list (make bench-list) shows all')
        for name, case in found:
            chosen[name].append(case)
    return {name: [c for c in benches[name].cases if c in cases]
            for name, cases in chosen.items() if cases}


def matching(word, benches):
    """[(bench's name, case)] that a word means."""
    if word in benches:
        return [(word, case) for case in benches[word].default]
    there = [(name, case) for name, bench in benches.items() for case in bench.cases]
    exact = [(name, case) for name, case in there if case == word]
    return exact or [(name, case) for name, case in there if case.startswith(word + '-')]


def near_names(word, benches):
    there = [*benches, *(case for bench in benches.values() for case in bench.cases)]
    begun = [name for name in there if name.startswith(word)]
    return begun[:5] or difflib.get_close_matches(word, there, 5)
