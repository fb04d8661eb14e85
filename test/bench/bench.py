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
import outcome  # noqa: E402
import pairs as paired  # noqa: E402
import perfdoc  # noqa: E402
from dpdk import Dpdk, default_directory  # noqa: E402
from harness.hugepages import Hugepages  # noqa: E402
from harness.proc import ProcError  # noqa: E402
from results import (  # noqa: E402
    FEWEST, Failure, Results, about, check_built, cpu_name, table)
from state import BUSY, Probe  # noqa: E402

PLACES = ('near', 'far', 'sibling')


def run_case(name, case, place, results, options):
    """Measure one case; what is found goes to the results pair by pair."""
    with place:
        ours, peer = case.sides(place)
        if options.peer_dpdk and not place.peer_used:
            raise Failure('it has no peer that --peer-dpdk could replace')
        print(f'{name}: {ours.name} / {peer.name}', flush=True)
        if getattr(ours, 'modes', None):
            print(f'  ours: {"; ".join(ours.modes)}')
        if getattr(peer, 'modes', None):
            print(f'  peer: {"; ".join(peer.modes)}')

        def found(pair, pairs):
            results.add(name, peer.name, pair, pairs)
            names = paired.states_of(pair, paired.fastest(pairs))
            label = ', '.join(names) + ('' if paired.counts(names) else ': dropped')
            print(f'  {len(pairs):3}: {pair.ours.rate:7.3f} / {pair.peer.rate:7.3f} = '
                  f'{pair.ours.rate / pair.peer.rate:.3f}   {label}', flush=True)
        done = results.begin(name, peer.name, append=options.append)
        pairs = paired.collect(Probe(), ours, peer, options.pairs, done=done,
                               places=options.state or (), seconds=options.seconds, found=found)
    counted = {s: len(p) for s, p in paired.by_state(pairs).items()}
    if not paired.enough(counted, FEWEST, options.state or ()):
        busy = sum(BUSY in paired.states_of(pair, paired.fastest(pairs)) for pair in pairs)
        raise Failure(f'fewer than {FEWEST} pairs in '
                      + (' or in '.join(options.state) if options.state else 'one state')
                      + f': of {len(pairs)} the machine was busy in {busy}, and changed in '
                      f'{len(pairs) - busy - sum(counted.values())}')


def run(bench, cases, options):
    """Measure cases of a bench, write what was found, and return what failed: [text]."""
    results = Results(bench.name, bench.cases)
    failed = []
    with Hugepages(bench.huge_mb, tempfile.mkdtemp(prefix='sl-huge-', dir='/tmp')) as huge:
        pages = '4 kB: ' + huge.reason if huge.reason else '2 MB'
        print(f'{bench.name}: {cpu_name()}, pages of {pages}', flush=True)
        for name in cases:
            place = definition.Place(None if huge.reason else huge.directory, options.dpdk,
                                     options.peer_dpdk)
            try:
                run_case(name, bench.cases[name], place, results, options)
            except (Failure, ProcError) as failure:
                failed.append(f'{name}: {failure}')
                print(f'  FAILED: {failure}', flush=True)
            rows = results.write({'text': bench.text, **about(pages)})
    print('\n' + table([row for row in rows if row['case'] in cases], outcome.result))
    print(f'written: {results.path("json")} and .svg\n', flush=True)
    return failed


def run_all(chosen, benches, options):
    check_built()
    failed = []
    for name, cases in chosen.items():
        failed += run(benches[name], cases, options)
    if options.doc:
        print('\n'.join(perfdoc.refresh()))
    if failed:
        raise Failure('\n  '.join(['failed:', *failed] if len(failed) > 1 else failed))


def show_list(benches):
    for name, bench in benches.items():
        print(f'{name}: {bench.text}')
        for case in bench.cases:
            print(f'    {case}{"" if case in bench.default else "   (only when named)"}')


def command_line():
    parser = argparse.ArgumentParser(description=__doc__.partition('\n')[0])
    parser.add_argument('bench', nargs='?', metavar='BENCH',
                        help='which benchmark (default: each that has the cases, or all)')
    parser.add_argument('--list', action='store_true', help='say what there is')
    parser.add_argument('--check', action='store_true',
                        help='measure nothing, only look whether the other words are right')
    parser.add_argument('--build', default='build', help='build directory (default: build)')
    parser.add_argument('--case', action='append', metavar='NAME',
                        help='only this one, or those whose names begin so, up to a dash; may be '
                        'repeated')
    parser.add_argument('--pairs', type=int, default=10, metavar='N',
                        help='pairs in one state (default 10)')
    parser.add_argument('--state', action='append', choices=PLACES,
                        help='go on until that many are of this state; may be repeated')
    parser.add_argument('--seconds', type=float, metavar='S', default=paired.SECONDS,
                        help=f'begin no pair of a case after this time (default {paired.SECONDS})')
    parser.add_argument('--append', action='store_true',
                        help='add to the pairs that earlier runs of this build measured')
    parser.add_argument('--dpdk', metavar='DIR',
                        help='testpmds of both sides, made by test/bench/peers/build-dpdk DIR; '
                        f'"installed": those of the system (default: {default_directory()}, if '
                        'there is one)')
    parser.add_argument('--peer-dpdk', metavar='DIR', help='testpmds of the peer only')
    parser.add_argument('--doc', action='store_true',
                        help='write the tables of doc/performance.md anew')
    return parser


def main():
    options = command_line().parse_args()
    os.environ['SLUICE_BUILD'] = os.path.realpath(options.build)
    there = definition.names()
    if options.bench and options.bench not in there:
        raise Failure(f'no bench {options.bench}; there are: {" ".join(there)}')
    benches = {name: definition.load(name)
               for name in ([options.bench] if options.bench else there)}
    if options.list:
        return show_list(benches)
    if options.pairs < 1:
        raise Failure('--pairs: at least 1')
    try:
        chosen = definition.choose(options.case, benches)
    except LookupError as error:
        raise Failure(str(error)) from None
    if options.dpdk is None and os.path.exists(os.path.join(default_directory(), 'dpdk-testpmd')):
        options.dpdk = default_directory()
    options.dpdk = None if options.dpdk in (None, 'installed') else Dpdk(options.dpdk)
    options.peer_dpdk = options.peer_dpdk and Dpdk(options.peer_dpdk)
    return None if options.check else run_all(chosen, benches, options)


if __name__ == '__main__':
    definition.end_on_sigterm('bench')
    try:
        sys.exit(main())
    except (Failure, ProcError) as failure:
        sys.exit(f'bench: {failure}')
