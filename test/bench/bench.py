#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Measure ours against a peer; print a table, write build/bench/NAME.json and .svg.

A machine like this wavers: what counts is the median of paired ratios inside one machine state.
"""

import argparse
import os
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'e2e'), HERE]
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import definition  # noqa: E402
import pairs as paired  # noqa: E402
from harness import build  # noqa: E402
from harness.hugepages import Hugepages  # noqa: E402
from harness.proc import ProcError  # noqa: E402
from results import FEWEST, Failure, Results, about, cpu_name, table  # noqa: E402
from state import Probe  # noqa: E402


def run_case(name, case, place, results, options):
    """Measure one case; what is found goes to the results pair by pair."""
    with place:
        ours, peer = case.sides(place)
        if options.peer_dpdk and not place.peer_used:
            raise Failure(f'{name} has no peer that --peer-dpdk could replace')
        print(f'{name}: {ours.name} / {peer.name}', flush=True)
        if getattr(ours, 'modes', None):
            print(f'  ours: {"; ".join(ours.modes)}')

        def found(pair, pairs):
            results.add(name, peer.name, pair, pairs)
            names = paired.states_of(pair, paired.fastest(pairs))
            label = ', '.join(names) + ('' if paired.counts(names) else ': dropped')
            print(f'  {len(pairs):3}: {pair.ours.rate:7.3f} / {pair.peer.rate:7.3f} = '
                  f'{pair.ours.rate / pair.peer.rate:.3f}   {label}', flush=True)
        done = results.of(name, peer.name)
        pairs = paired.collect(Probe(), ours, peer, options.pairs, done=done,
                               seconds=options.seconds, found=found)
    return max(map(len, paired.by_state(pairs).values()), default=0) >= FEWEST


def run(bench, options):
    gone = build.missing()
    if gone:
        raise Failure(f'{gone} is not there: run make')
    names = options.case or bench.default
    for name in names:
        if name not in bench.cases:
            raise Failure(f'{bench.name} has no case {name}; it has: {" ".join(bench.cases)}')
    results = Results(bench.name, bench.cases, append=options.append)
    unmeasured = []
    with Hugepages(bench.huge_mb, tempfile.mkdtemp(prefix='sl-huge-', dir='/tmp')) as huge:
        pages = '4 kB: ' + huge.reason if huge.reason else '2 MB'
        print(f'{cpu_name()}, pages of {pages}')
        for name in names:
            place = definition.Place(None if huge.reason else huge.directory, options.peer_dpdk)
            if not run_case(name, bench.cases[name], place, results, options):
                unmeasured.append(name)
            rows = results.write({'text': bench.text, **about(pages)})
    print('\n' + table(rows))
    print(f'written: {results.path("json")} and .svg')
    if unmeasured:
        raise Failure(f'fewer than {FEWEST} pairs in one state: {", ".join(unmeasured)}')


def show_list():
    for name in definition.names():
        bench = definition.load(name)
        print(f'{name}: {bench.text}')
        for case in bench.cases:
            print(f'    {case}{"" if case in bench.default else "   (only when named)"}')


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('bench', nargs='?', default='loopback', metavar='BENCH',
                        help='which (default: loopback)')
    parser.add_argument('--list', action='store_true', help='say what there is')
    parser.add_argument('--build', default='build', help='build directory (default: build)')
    parser.add_argument('--case', action='append', metavar='NAME',
                        help='only this one; may be repeated')
    parser.add_argument('--pairs', type=int, default=10, metavar='N',
                        help='pairs in one state (default 10)')
    parser.add_argument('--seconds', type=float, metavar='S',
                        help='begin no pair of a case after this time')
    parser.add_argument('--append', action='store_true',
                        help='add to the pairs of the last run of this build')
    parser.add_argument('--peer-dpdk', metavar='DIR',
                        help='testpmd of the peer, made by test/bench/peers/build-dpdk DIR')
    options = parser.parse_args()
    os.environ['SLUICE_BUILD'] = os.path.realpath(options.build)
    if options.list:
        return show_list()
    if options.bench not in definition.names():
        raise Failure(f'no bench {options.bench}; there are: {" ".join(definition.names())}')
    if options.pairs < 1:
        raise Failure('--pairs: at least 1')
    if options.peer_dpdk:
        options.peer_dpdk = os.path.realpath(options.peer_dpdk)
        if not os.access(os.path.join(options.peer_dpdk, 'dpdk-testpmd'), os.X_OK):
            raise Failure(f'{options.peer_dpdk} has no dpdk-testpmd: '
                          f'test/bench/peers/build-dpdk {options.peer_dpdk} makes it')
    return run(definition.load(options.bench), options)


if __name__ == '__main__':
    definition.end_on_sigterm('bench')
    try:
        sys.exit(main())
    except (Failure, ProcError) as failure:
        sys.exit(f'bench: {failure}')
