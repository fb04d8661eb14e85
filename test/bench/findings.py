#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Run experiments: findings.py NAME.. | all; write build/bench/NAME.json and curves as SVG.

--doc makes doc/findings.md from the JSON files of all experiments; alone, it measures nothing.
"""

import argparse
import json
import os
import sys
import tempfile
import time
import traceback

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'e2e'), HERE]
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
import curve as curves  # noqa: E402
import experiment as experiments  # noqa: E402
import outcome  # noqa: E402
import report  # noqa: E402
from definition import Place, end_on_sigterm  # noqa: E402
from harness.hugepages import Hugepages  # noqa: E402
from results import FEWEST, Failure, about, check_built, cpu_name, rewrite, table  # noqa: E402
from samples import Samples, directory  # noqa: E402
from state import Probe  # noqa: E402


def chosen_parts(experiment, options):
    """The parts to be measured, and of the points those that were asked for (None: all)."""
    by_name = {part.name: part for part in experiment.parts}
    for name in options.part or ():
        if name not in by_name:
            raise Failure(f'{experiment.name} has no part {name}; it has: {" ".join(by_name)}')
        if by_name[name].long_only and not options.long:
            raise Failure(f'{name} takes long: ask for it with --long (make: LONG=1)')
    parts = [part for part in experiment.parts
             if (part.name in options.part if options.part else options.long or not part.long_only)]
    if not options.point:
        return [(part, None) for part in parts]
    chosen = []
    for part in parts:
        points = [p for p in part.points if outcome.label(p) in options.point]
        if points:
            chosen.append((part, points))
    there = {outcome.label(p) for part, points in chosen for p in points}
    for point in options.point:
        if point not in there:
            raise Failure(f'no point {point}; there are: ' + ' '.join(
                dict.fromkeys(outcome.label(p) for part in parts for p in part.points)))
    return chosen


def show(part, sample, best):
    figures = ', '.join(f'{c.heading} {c.format.format(sample.trial.rate[c.figure])}'
                        for c in part.columns if sample.trial.rate.get(c.figure) is not None)
    state = outcome.state_of(sample, best) or 'dropped, if the state counts'
    print(f'  {sample.round + 1:3} {outcome.label(sample.point)} {sample.variant} '
          f'(seed {sample.seed}): {figures or sample.trial.rate}   {state}', flush=True)


def measure(experiment, samples, huge_dir, options):
    """Run the parts; a part that fails leaves the others their turn. Returns what failed."""
    failed = []
    probe = Probe()
    for part, points in chosen_parts(experiment, options):
        print(f'{experiment.name}, {part.name}: {part.title}', flush=True)
        begin = time.monotonic()

        def found(sample, part=part):
            samples.add(sample)
            show(part, sample, outcome.fastest(samples.samples))
        said = None
        try:
            with Place(huge_dir) as place:
                experiments.run_part(
                    experiment, part, place, probe, points=points, seed=options.seed, found=found,
                    rounds=experiments.rounds_of(part, options.long, options.rounds),
                    first=samples.next_round(part.name))
        except (Failure, AssertionError) as error:
            said = str(error)
        except Exception as error:  # pylint: disable=broad-exception-caught
            traceback.print_exc()
            said = f'{type(error).__name__}: {error}'
        if said:
            failed.append(f'{part.name}: {said}')
        print(f'  FAILED: {said}' if said else f'  {time.monotonic() - begin:.0f} s', flush=True)
    return failed


def draw(made):
    """Write the curves next to the JSON; what could not be drawn."""
    failed = []
    for curve in made['curves']:
        path = os.path.join(directory(), f'{made["bench"]}-{curve["name"]}.svg')
        try:
            text = curves.svg(curve)
        except Failure as failure:
            failed.append(str(failure))
            continue
        with open(path, 'w', encoding='utf-8') as f:
            f.write(text)
    return list(dict.fromkeys(failed))


def run(experiment, options):
    """Measure one experiment and write what was found; raises Failure if something is missing."""
    chosen_parts(experiment, options)
    begin = time.monotonic()
    samples = Samples(experiment.name, append=options.append)
    with Hugepages(experiment.huge_mb, tempfile.mkdtemp(prefix='sl-huge-', dir='/tmp')) as huge:
        pages = '4 kB: ' + huge.reason if huge.reason else '2 MB'
        print(f'{cpu_name()}, pages of {pages}, seed {options.seed}')
        failed = measure(experiment, samples, None if huge.reason else huge.directory, options)
    made, missing = outcome.outcome(experiment, samples.samples)
    made = {'bench': experiment.name,
            'about': {**about(pages), 'build': ', '.join(samples.builds()), 'seed': options.seed,
                      'long': options.long, 'minutes': round((time.monotonic() - begin) / 60, 1)},
            **made}
    path = os.path.join(directory(), experiment.name + '.json')
    rewrite(path, json.dumps(made, indent=1) + '\n')
    failed += draw(made)
    print('\n'.join('\n' + report.plain(t) for t in made['tables']))
    print('\n' + table(made['rows']))
    print(f'\nwritten: {path}', flush=True)
    if missing and (options.rounds or FEWEST) >= FEWEST:
        failed.append(f'fewer than {FEWEST} pairs in one state: {", ".join(missing)}')
    if failed:
        raise Failure('; '.join(failed))


def run_all(names, options):
    """One after the other; the next has its turn whatever becomes of one. Returns what failed."""
    failed = []
    for name in names:
        try:
            run(experiments.load(name), options)
        except Failure as failure:
            if len(names) > 1:
                print(f'findings: {name}: {failure}', file=sys.stderr, flush=True)
            failed.append(f'{name}: {failure}')
    return failed


def show_list():
    for name in experiments.names():
        experiment = experiments.load(name)
        print(f'{name}: {experiment.title}')
        for part in experiment.parts:
            print(f'    {part.name}: {part.title}{" (only with --long)" if part.long_only else ""}')


def command_line():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('name', nargs='*', metavar='NAME', help='which; all: one after the other')
    parser.add_argument('--list', action='store_true', help='say what there is')
    parser.add_argument('--build', default='build', help='build directory (default: build)')
    parser.add_argument('--long', action='store_true', help='the long forms too')
    parser.add_argument('--part', action='append', metavar='P',
                        help='only this part; may be repeated')
    parser.add_argument('--point', action='append', metavar='X',
                        help='only this point of it; may be repeated')
    parser.add_argument('--rounds', type=int, metavar='N', help='rounds of each part')
    parser.add_argument('--seed', type=int, default=1, metavar='S',
                        help='all other seeds are made from it (default 1)')
    parser.add_argument('--append', action='store_true',
                        help='add to the trials of earlier runs; a part that was measured with '
                        'another build begins anew')
    parser.add_argument('--doc', action='store_true', help='write doc/findings.md')
    return parser


def main():
    parser = command_line()
    options = parser.parse_args()
    os.environ['SLUICE_BUILD'] = os.path.realpath(options.build)
    if options.list:
        return show_list()
    there = experiments.names()
    names = there if options.name == ['all'] else options.name
    for name in names:
        if name not in there:
            raise Failure(f'no experiment {name}; there are: {" ".join(there)}')
    if not names and not options.doc:
        raise Failure(f'which? there are: {" ".join(there)}, or all')
    if options.rounds is not None and options.rounds < 1:
        raise Failure('--rounds: at least 1')
    if names:
        check_built()
    failed = run_all(names, options)
    if options.doc:
        print(f'written: {report.write()}')
    if failed:
        raise Failure('\n  '.join(['failed:', *failed] if len(names) > 1 else failed))
    return None


if __name__ == '__main__':
    end_on_sigterm('findings')
    try:
        sys.exit(main())
    except Failure as told:
        sys.exit(f'findings: {told}')
