#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Compare two commands that print one number each: compare.py [OPTIONS] 'COMMAND A' 'COMMAND B'

A B B A with the probe around each, as all benchmarks; keep a trial short, 0.25 s. Prints, for each
state of the machine that was met: the medians of both, the median of the paired ratios A / B and
their quartiles. With the same command twice it shows what a difference is worth here.
"""

import argparse
import os
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, '../e2e'))
sys.dont_write_bytecode = True

import pairs as paired  # noqa: E402
import state  # noqa: E402


class Failed(Exception):
    pass


def side(command):
    """A function that runs the command and returns its number."""
    try:
        argv = shlex.split(command)
    except ValueError as error:
        raise Failed(f'{command}: {error}: quote it as for a shell') from error
    if not argv:
        raise Failed('an empty command: give one that prints a number')

    def run():
        try:
            done = subprocess.run(argv, stdout=subprocess.PIPE, text=True, timeout=60, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Failed(f'{command}: {error}') from error
        try:
            if done.returncode == 0 and float(done.stdout) > 0:
                return float(done.stdout)
        except ValueError:
            pass
        raise Failed(f'{command}: exit status {done.returncode}, '
                     f'and {done.stdout.strip()[:60]!r} instead of a number above 0')
    return run


def report(found):
    usable = paired.by_state(found)
    for name, some in sorted(usable.items()):
        row = paired.row(name, some)
        print(f'{name:12} A {row.ours:8.4g}  B {row.peer:8.4g}  A/B {row.ratio:.3f} '
              f'({row.spread[0]:.3f} .. {row.spread[1]:.3f})  pairs {row.pairs}')
    dropped = len(found) - sum(map(len, usable.values()))
    if not usable:
        raise Failed(f'none of {dropped} pairs was in one state: measure at a quieter time, or '
                     'with more --seconds')
    print(f'dropped: {dropped} of {len(found)} pairs, the state changed or the CPUs were not ours')


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--pairs', type=int, default=10, metavar='N',
                        help='until one state has so many (%(default)s)')
    parser.add_argument('--seconds', type=float, default=50, metavar='S',
                        help='and not longer than this (%(default)s)')
    parser.add_argument('--cpus', default='0,1', metavar='A,B', help='of the probe (%(default)s)')
    parser.add_argument('--build', default='build', help='where the probe is (%(default)s)')
    parser.add_argument('a', metavar='COMMAND_A')
    parser.add_argument('b', metavar='COMMAND_B')
    args = parser.parse_args()
    if args.pairs < 1:
        sys.exit(f'compare.py: --pairs {args.pairs}: at least 1')
    os.environ['SLUICE_BUILD'] = os.path.abspath(args.build)
    try:
        probe = state.Probe(args.cpus.split(','))
        found = paired.collect(probe, side(args.a), side(args.b), args.pairs, seconds=args.seconds)
        report(found)
    except Failed as error:
        sys.exit(f'compare.py: {error}')
    except subprocess.CalledProcessError as error:
        sys.exit(f'compare.py: {(error.stderr or "the probe failed").strip()}')
    except FileNotFoundError as error:
        sys.exit(f'compare.py: {error}: run make, or name its directory with --build')


if __name__ == '__main__':
    main()
