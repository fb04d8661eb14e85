#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Compare two builds by their latency at a low load: compare_latency.py [OPTIONS] BEFORE

Frames of 64 bytes at a fixed rate go from sluice-traffic through the driver and the switch
(loopback=on) and back, with the driver and the switch of --build and with those of the build
directory BEFORE; sluice-traffic is the same for both. A B B A with the probe around each, as all
benchmarks. Prints, for each state of the machine that was met: the medians of both p50, the median
of the paired ratios (less is better) and their quartiles. Fails if a ratio is above --limit.
"""

import argparse
import os
import sys
import tempfile
from contextlib import contextmanager

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'e2e'), HERE]
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import pairs as paired  # noqa: E402
from definition import Place, end_on_sigterm  # noqa: E402
from harness import build  # noqa: E402
from harness.hugepages import Hugepages  # noqa: E402
from harness.proc import ProcError  # noqa: E402
from harness.traffic import Traffic  # noqa: E402
from open_loop import OURS, ended  # noqa: E402
from results import FEWEST, Failure  # noqa: E402
from rigs import GUEST_CPU, SwitchHost  # noqa: E402
from state import Probe  # noqa: E402

HUGE_MB = 768
SECONDS = 0.5  # of a trial
PARTS = ('driver', 'switch')


@contextmanager
def built(directory):
    """The harness takes what it starts from another build directory."""
    before = build.build_dir()
    os.environ['SLUICE_BUILD'] = directory
    try:
        yield
    finally:
        os.environ['SLUICE_BUILD'] = before


class Latency:
    """A switch that gives frames back, and a sender with the driver: p50 one way and back, in us.

    Both start anew for each trial: where a process happens to have its memory is worth more than
    what is to be seen.
    """

    def __init__(self, place, name, driver, switch, options):
        self.place, self.name, self.switch, self.options = place, name, switch, options
        self.sock = place.rig.path(name)
        with built(driver):
            self.plugin, self.env = build.plugin_option()

    def __call__(self):
        rig, ring = self.place.rig, self.options.ring
        with built(self.switch):
            host = SwitchHost(self.place, [self.sock])
        traffic = rig.add(
            Traffic, 'traffic', cpu=GUEST_CPU, mem=128, huge_dir=self.place.huge_dir,
            eal=('-d', self.plugin), env=self.env,
            vdevs=[f'{OURS},path={self.sock},queue_size={ring}'],
            options=f'--tx {OURS} --rx {OURS} --rx-descs {ring} --tx-descs {ring} --drain 20 '
            f'--rate {self.options.rate} --when-late shift --duration {SECONDS} --warmup 0.1')
        with ended(rig, traffic, host.process):
            received = traffic.result()['receiver']
        if not received['received']:
            raise ProcError(f'{self.name}: nothing came back')
        return received['latency_ns']['p50'] / 1e3


def sides(place, options):
    """That of this build, and that of BEFORE in one part or in both."""
    now, before = build.build_dir(), options.before
    parts = {part: before if options.only in (part, None) else now for part in PARTS}
    return (Latency(place, 'now', now, now, options),
            Latency(place, 'before', *(parts[part] for part in PARTS), options))


def report(found, limit):
    """Lines about what was found, and whether all of it is within the limit."""
    usable = {name: some for name, some in paired.by_state(found).items() if len(some) >= FEWEST}
    if not usable:
        raise Failure(f'fewer than {FEWEST} of {len(found)} pairs were in one state: measure at a '
                      'quieter time, or with more --seconds')
    rows = [paired.row(name, some) for name, some in sorted(usable.items())]
    lines = [f'{row.state:12} p50 {row.ours:7.2f} us, before {row.peer:7.2f} us, ratio '
             f'{row.ratio:.3f} ({row.spread[0]:.3f}..{row.spread[1]:.3f}), pairs {row.pairs}'
             for row in rows]
    lines.append(f'dropped: {len(found) - sum(row.pairs for row in rows)} of {len(found)} pairs')
    return lines, all(row.ratio <= limit for row in rows)


def command_line():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('before', metavar='BEFORE', help='build directory of the other state')
    parser.add_argument('--build', default='build', help='that of this one (%(default)s)')
    parser.add_argument('--only', choices=PARTS, help='compare this part; the other one is ours')
    parser.add_argument('--rate', default='20k', help='frames a second (%(default)s)')
    parser.add_argument('--ring', type=int, default=256, help='size of the rings (%(default)s)')
    parser.add_argument('--limit', type=float, default=1.1, metavar='RATIO',
                        help='of the ratio (%(default)s)')
    parser.add_argument('--pairs', type=int, default=10, metavar='N',
                        help='until one state has so many (%(default)s)')
    parser.add_argument('--seconds', type=float, default=120, metavar='S',
                        help='and not longer than this (%(default)s)')
    return parser


def main():
    options = command_line().parse_args()
    if options.pairs < FEWEST:
        raise Failure(f'--pairs {options.pairs}: at least {FEWEST}')
    options.before = os.path.realpath(options.before)
    os.environ['SLUICE_BUILD'] = os.path.realpath(options.build)
    for directory in (build.build_dir(), options.before):
        with built(directory):
            if build.missing():
                raise Failure(f'{build.missing()} is not there: build it')
    with Hugepages(HUGE_MB, tempfile.mkdtemp(prefix='sl-huge-', dir='/tmp')) as huge:
        with Place(None if huge.reason else huge.directory) as place:
            found = paired.collect(Probe(), *sides(place, options), options.pairs,
                                   seconds=options.seconds)
    lines, good = report(found, options.limit)
    print('\n'.join(lines))
    if not good:
        raise Failure(f'a ratio is above {options.limit}')


if __name__ == '__main__':
    end_on_sigterm('compare_latency')
    try:
        sys.exit(main())
    except (Failure, ProcError) as failure:
        sys.exit(f'compare_latency: {failure}')
