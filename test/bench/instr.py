#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Count the instructions that each end of a ring spends on a packet; compare with the table.

`pair --one-thread` under callgrind: the same numbers on every machine and in every run, so a change
of a few per cent is seen that no clock here could show. They say nothing about cache misses, which
are most of what a ring costs: a change that saves instructions is measured with the clock as well.

Counted are the library's functions and, at the driver's end, what the poll-mode driver does around
them. Not counted: the copies that the C library makes, and the application. Each case runs twice,
for a few and for many packets, and only the difference counts, so that nothing of the start is in.

The cases that begin with "PMD" are the poll-mode driver itself, in `pmd_instr` under DPDK: its
receive and transmit bursts with all that they call, mbufs and their pool included.

The cases that begin with "turn" are what a worker of the switch does in its turn, by `turn`: its
parts in the library and in the table of addresses, the rest, and all of it.

No figure may grow by more than TOLERANCE. That holds for the compiler that the table names: another
one makes code that differs by more than any change worth seeing (clang 14 against gcc 12: -13 % at
the driver's end, +18 % at the device's), so its figures are printed beside the table's with a
warning and nothing fails. The same goes for another DPDK and the cases that need it.
"""

import argparse
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor

HERE = os.path.dirname(os.path.realpath(__file__))
ROOT = os.path.join(HERE, '..', '..')
LIB = os.path.join(ROOT, 'lib/virtqueue')
HEADERS = os.path.join(ROOT, '.deps/driver-headers')
# Beside pmd_instr.c: the driver, what it stands on, and the device of the unit tests.
PMD_SOURCES = ('drivers/net/sluice/*.c', 'lib/virtqueue/*.c', 'lib/vhost_user/*.c',
               'test/unit/driver/rig.c', 'test/unit/vhost_user/host.c')
PMD_INCLUDES = ('drivers/net/sluice', 'lib/virtqueue', 'lib/vhost_user', 'test/unit/driver',
                'test/unit/vhost_user')
# Drivers that DPDK is told of by constructors.
PMD_LIBRARIES = ('-Wl,--no-as-needed', '-lrte_bus_vdev', '-lrte_bus_pci', '-lrte_mempool_ring',
                 '-lbsd', '-lcmocka')
# Beside turn*.c: its guests, and all of the switch that a worker runs.
TURN_SOURCES = ('test/bench/turn*.c', 'test/bench/pair_*.c', 'lib/virtqueue/*.c',
                *(f'app/sluice-vswitch/{f}.c' for f in (
                    'deliver_eth', 'deliver_vhost', 'fault', 'fdb', 'flow', 'forward', 'learn',
                    'ring_call', 'sleep', 'stats', 'view', 'worker')))
TURN_INCLUDES = ('app/sluice-vswitch', 'lib/virtqueue', 'lib/vhost_user')
TABLE = os.path.join(HERE, 'instructions.json')

TOLERANCE = 0.02
LEAST = 0.1  # instructions a packet: less is no growth, however many per cent it is
# A portable machine, one without AVX: valgrind does not know all that the newest ones have.
FLAGS = ['-O3', '-march=x86-64-v2', '-std=c11', '-D_GNU_SOURCE', '-fno-strict-aliasing',
         '-fvisibility=hidden', '-pthread']
COMMON = ['--one-thread', '--ring', '256', '--burst', '32', '--turn', '64']
FEW, MANY = 16384, 16384 + 65536

CASES = {
    '64': [],
    '64, not mergeable': ['--no-mrg'],
    '64, any order': ['--no-in-order'],
    '64, any order, not mergeable': ['--no-in-order', '--no-mrg'],
    '64, EVENT_IDX': ['--event-idx'],
    '64, chains of 2': ['--chain'],
    '64, chains of 2, indirect': ['--indirect'],
    '1518': ['--size', '1518'],
    '1518, not mergeable': ['--size', '1518', '--no-mrg'],
    '1518, any order': ['--size', '1518', '--no-in-order'],
    '1518, any order, not mergeable': ['--size', '1518', '--no-in-order', '--no-mrg'],
}
# Device arguments, and segments of a transmitted packet.
PMD_FEW, PMD_MANY = 4096, 4096 + 16384
PMD_CASES = {
    'PMD 64': ['mrg_rxbuf=1', '1'],
    'PMD 64, not mergeable': ['mrg_rxbuf=0', '1'],
    'PMD 64, any order': ['in_order=0', '1'],
    'PMD 64, any order, not mergeable': ['in_order=0,mrg_rxbuf=0', '1'],
    'PMD 64, sent in 2 segments': ['mrg_rxbuf=1', '2'],
    'PMD 64, sent in 2 segments, direct': ['indirect=0', '2'],
}
PMD = {'rx': 'sluice_rx_burst', 'tx': 'sluice_tx_burst'}
TURN_COMMON = ['--ring', '256', '--burst', '32', '--by-turns']
TURN_CASES = {
    'turn 64': [],
    'turn 64, any order': ['--no-in-order'],
    'turn 64, bursts of 1': ['--burst', '1'],
    'turn 64, loopback': ['--loopback', 'on'],
    'turn 64, loopback by mbufs': ['--loopback', 'mbuf'],
    'turn 64, 16 addresses': ['--addresses', '16'],
    'turn 64, 10,000 addresses': ['--addresses', '10000'],
    'turn 64, to 4 ports': ['--ports', '5', '--destinations', '4'],
    'turn 64, 64 ports': ['--ports', '64'],
    'turn 1518': ['--size', '1518'],
}
# Title of a column, and the function whose cost it is, with all it calls.
DRIVER = {'tx add': 'driver_tx_add', 'tx reap': 'driver_tx_reap', 'rx reap': 'driver_rx_reap',
          'rx post': 'driver_rx_post'}
DEVICE = {'take': 'vq_net_take', 'put': 'vq_net_put', 'release': 'vq_net_release',
          'call': 'vq_device_call'}
SUMS = {'driver': DRIVER, 'device': DEVICE}
TURN = {**DEVICE, 'lookup': 'fdb_lookup'}


class Failure(Exception):
    pass


class Skip(Exception):
    """A part of it cannot run here, and why."""


def run(argv):
    done = subprocess.run(argv, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          check=False)
    if done.returncode != 0:
        raise Failure(f'{" ".join(argv[:3])} ..: {done.stdout.strip() or done.returncode}')
    return done.stdout


def valgrind(out, argv):
    run(['valgrind', '--tool=callgrind', '--compress-strings=no', '--compress-pos=no',
         f'--callgrind-out-file={out}', *argv])


def compiler(cc):
    return f'{os.path.basename(cc)} {run([cc, "-dumpfullversion", "-dumpversion"]).strip()}'


def build(cc, directory):
    """The program, and the names of its own functions."""
    program = os.path.join(directory, 'pair')
    sources = [os.path.join(HERE, f) for f in sorted(os.listdir(HERE))
               if re.fullmatch(r'pair(_\w+)?\.c', f)]
    sources += [os.path.join(LIB, f) for f in sorted(os.listdir(LIB)) if f.endswith('.c')]
    run([cc, *FLAGS, '-I', LIB, *sources, '-o', program])
    return program, own_functions(program)


def pkg_config(*what):
    return run(['pkg-config', *what, 'libdpdk']).split()


def build_with_dpdk(cc, directory, pool, name, patterns, includes, more=((), ())):
    """A program of these sources; Skip where it cannot be built. more: flags and libraries."""
    if not shutil.which('pkg-config'):
        raise Skip('pkg-config is missing: run make deps')
    try:
        flags = [f for f in pkg_config('--cflags') if not f.startswith('-march=')]
        libraries = pkg_config('--libs')
    except Failure as error:
        raise Skip(f'no DPDK: {error}') from error
    flags += more[0]
    for include in includes:
        flags += ['-I', os.path.join(ROOT, include)]
    sources = []
    for pattern in patterns:
        sources += sorted(glob.glob(os.path.join(ROOT, pattern)))
    objects = [os.path.join(directory, f'{name}.{i}.o') for i in range(len(sources))]
    list(pool.map(lambda job: run([cc, *FLAGS, *flags, '-c', job[0], '-o', job[1]]),
                  zip(sources, objects)))
    program = os.path.join(directory, name)
    run([cc, *objects, '-pthread', *libraries, *more[1], '-o', program])
    return program


def build_pmd(cc, directory, pool):
    if not os.path.isdir(HEADERS):
        raise Skip('the driver headers of DPDK are missing: run make deps')
    flags = ['-DALLOW_INTERNAL_API', '-DALLOW_EXPERIMENTAL_API', '-isystem', HEADERS,
             '-DSLUICE_DPDK_VERSION_BUILT="this"']
    return build_with_dpdk(cc, directory, pool, 'pmd_instr',
                           ('test/bench/pmd_instr.c', *PMD_SOURCES), PMD_INCLUDES,
                           (flags, PMD_LIBRARIES))


def own_functions(program):
    symbols = (line.split() for line in run(['nm', program]).splitlines())
    return {s[2] for s in symbols if len(s) == 3 and s[1] in 'tT'}


class Profile:
    """Costs out of a callgrind file without compressed names."""

    def __init__(self, path, own):
        self._own = own
        self._self = defaultdict(int)
        self._arcs = defaultdict(lambda: defaultdict(int))
        name = callee = None
        with open(path, encoding='utf-8') as lines:
            for line in lines:
                key, _, value = line.rstrip('\n').partition('=')
                if key == 'fn':
                    name = value
                elif key == 'cfn':
                    callee = value
                elif re.match(r'[+*\d-]\S* \d', line):
                    cost = int(line.split()[1])
                    if callee:
                        self._arcs[name][callee] += cost
                        callee = None
                    else:
                        self._self[name] += cost

    def _counted(self, name):
        """What a function and our functions below it cost, and what it costs with all others."""
        own = everything = self._self[name]
        for callee, cost in self._arcs[name].items():
            everything += cost
            if callee in self._own:
                below, all_below = self._counted(callee)
                own += cost * below / all_below
        return own, everything

    def cost(self, function, with_others=False):
        # The compiler appends to the name of a function that it changed.
        return sum(self._counted(name)[with_others] for name in list(self._self)
                   if name.split('.')[0] == function)


def measure(program, own, directory, case):
    costs = []
    for packets in (FEW, MANY):
        out = os.path.join(directory, f'{list(CASES).index(case)}.{packets}')
        valgrind(out, [program, *COMMON, *CASES[case], '--packets', str(packets)])
        profile = Profile(out, own)
        costs.append({f: profile.cost(f) for end in SUMS.values() for f in end.values()})
    figures = {}
    for end, parts in SUMS.items():
        of_parts = {f'{end} {title}': (costs[1][f] - costs[0][f]) / (MANY - FEW)
                    for title, f in parts.items()}
        figures.update({title: round(n, 2) for title, n in of_parts.items()})
        figures[end] = round(sum(of_parts.values()), 2)
    return figures


def measure_pmd(program, directory, case):
    costs = []
    for packets in (PMD_FEW, PMD_MANY):
        out = os.path.join(directory, f'pmd.{list(PMD_CASES).index(case)}.{packets}')
        valgrind(out, [program, str(packets), *PMD_CASES[case]])
        profile = Profile(out, ())
        costs.append({part: profile.cost(f, with_others=True) for part, f in PMD.items()})
    figures = {part: (costs[1][part] - costs[0][part]) / (PMD_MANY - PMD_FEW) for part in PMD}
    figures['rx + tx'] = sum(figures.values())
    return {part: round(n, 2) for part, n in figures.items()}


def measure_turn(program, directory, case):
    own = own_functions(program)
    names = {**TURN, 'turn': 'worker_turn'}
    costs = []
    for packets in (FEW, MANY):
        out = os.path.join(directory, f'turn.{list(TURN_CASES).index(case)}.{packets}')
        valgrind(out, [program, *TURN_COMMON, *TURN_CASES[case], '--packets', str(packets)])
        profile = Profile(out, own)
        costs.append({part: profile.cost(f) for part, f in names.items()})
    figures = {part: (costs[1][part] - costs[0][part]) / (MANY - FEW) for part in names}
    whole = figures.pop('turn')
    figures = {**figures, 'rest': whole - sum(figures.values()), 'turn': whole}
    return {part: round(n, 2) for part, n in figures.items()}


def print_table(measured, table):
    print('instructions a packet, and in brackets what the table has where that differs')
    for case, figures in measured.items():
        print(f'{case}:')
        for column, n in figures.items():
            old = table.get(case, {}).get(column)
            note = '' if old in (None, n) else f'  ({old:.2f})'
            print(f'    {column:16} {n:8.2f}{note}')


def grown(measured, table):
    """What grew by more than is let pass, one line each."""
    lines = []
    for case, figures in measured.items():
        if case not in table:
            lines.append(f'{case}: not in the table')
            continue
        old = table[case]
        lines += [f'{case}: {part} grew from {old[part]:.2f} to {n:.2f}'
                  for part, n in figures.items()
                  if n > old[part] * (1 + TOLERANCE) and n > old[part] + LEAST]
    return lines


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument('--update', action='store_true', help='write the table anew')
    args = parser.parse_args()
    cc = os.environ.get('CC', 'gcc')
    for tool in (cc, 'valgrind', 'nm'):
        if not shutil.which(tool):
            raise Failure(f'{tool} is missing: run make deps')
    with open(TABLE, encoding='utf-8') as f:
        table = json.load(f)
    version = compiler(cc)
    with tempfile.TemporaryDirectory() as directory, ThreadPoolExecutor(os.cpu_count()) as pool:
        program, own = build(cc, directory)
        results = pool.map(lambda case: measure(program, own, directory, case), CASES)
        measured = dict(zip(CASES, results))
        dpdk = table['about']['dpdk']
        try:
            program = build_pmd(cc, directory, pool)
            dpdk = ' '.join(pkg_config('--modversion'))
            results = pool.map(lambda case: measure_pmd(program, directory, case), PMD_CASES)
            measured.update(zip(PMD_CASES, results))
            program = build_with_dpdk(cc, directory, pool, 'turn', TURN_SOURCES, TURN_INCLUDES)
            results = pool.map(lambda case: measure_turn(program, directory, case), TURN_CASES)
            measured.update(zip(TURN_CASES, results))
        except Skip as reason:
            if args.update:
                raise Failure(f'the table needs DPDK: {reason}') from reason
            print(f'PMD and turn: skipped: {reason}')
    print_table(measured, table['cases'])
    if args.update:
        about = {'unit': 'instructions a packet', 'compiler': version, 'dpdk': dpdk,
                 'flags': ' '.join(FLAGS), 'options': ' '.join(COMMON), 'turn': ' '.join(TURN_COMMON)}
        with open(TABLE, 'w', encoding='utf-8') as f:
            json.dump({'about': about, 'cases': measured}, f, indent=1)
            f.write('\n')
        return
    if version != table['about']['compiler']:
        print(f'warning: this is {version}, the table is of {table["about"]["compiler"]}: '
              'nothing is concluded')
        return
    if dpdk != table['about']['dpdk']:
        print(f'warning: this is DPDK {dpdk}, the table is of {table["about"]["dpdk"]}: '
              'nothing is concluded of the PMD and the turn')
        measured = {case: figures for case, figures in measured.items() if case in CASES}
    lines = grown(measured, table['cases'])
    if lines:
        raise Failure('\n  '.join(['more instructions than the table has', *lines,
                                   'wanted? test/bench/instr.py --update, and say why']))
    print('none grew')


if __name__ == '__main__':
    try:
        main()
    except Failure as error:
        sys.exit(f'instr.py: {error}')
