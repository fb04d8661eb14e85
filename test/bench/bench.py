#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Measure against the stock pieces; print a table, write build/bench/*.json.

A machine like this wavers: what counts is the median of paired ratios inside one machine state.
"""

import argparse
import datetime
import json
import os
import platform
import sys
import tempfile

HERE = os.path.dirname(os.path.realpath(__file__))
sys.path[:0] = [os.path.join(HERE, '..', 'e2e'), HERE]
sys.dont_write_bytecode = True

# pylint: disable=wrong-import-position
from harness import build  # noqa: E402
from harness.hugepages import Hugepages  # noqa: E402
from harness.proc import ProcError  # noqa: E402
from harness.rig import Rig  # noqa: E402
from loopback import Ours, Stock  # noqa: E402
from pairs import collect, row  # noqa: E402
from state import Probe  # noqa: E402

TARGET = 1.0  # ours is to be at least as fast
FEWEST = 3    # pairs in a state that make a row
HUGE_MB = 1280

# name: (frame size, ring size, stock in_order)
CASES = {f'loopback-{size}-{ring}{"-inorder" if in_order else ""}': (size, ring, in_order)
         for in_order in (False, True) for size in (64, 1518) for ring in (256, 1024)}
DEFAULT = [name for name in CASES if not name.endswith('-inorder')]


def run_case(name, pairs, probe, huge_dir):
    """Rows of one case, one for each machine state that had enough pairs."""
    size, ring, in_order = CASES[name]
    rig = Rig()
    try:
        ours = Ours(rig, size, ring, huge_dir)
        stock = Stock(rig, size, ring, huge_dir, in_order)
        print(f'{name}: ours {ours.modes}', flush=True)
        tried, usable = collect(probe, ours.measure, stock.measure, pairs,
                                progress=lambda text: print('  ' + text, flush=True))
    finally:
        rig.close()
    dropped = len(tried) - sum(map(len, usable.values()))
    if dropped:
        print(f'  {dropped} of {len(tried)} pairs dropped: the state of the machine changed')
    peer = 'net_virtio_user - net_vhost, split mergeable' + (' in-order' if in_order else '')
    found = [row(state, p) for state, p in usable.items() if len(p) >= FEWEST]
    return [{'case': name, 'unit': 'Mpps', 'ours': round(r.ours, 3), 'peer': round(r.peer, 3),
             'peer_name': peer, 'ratio': round(r.ratio, 3),
             'spread': [round(s, 3) for s in r.spread], 'pairs': r.pairs, 'state': r.state,
             'dropped': dropped, 'target': TARGET}
            for r in sorted(found, key=lambda r: -r.pairs)]


def cpu_name():
    with open('/proc/cpuinfo', encoding='utf-8') as f:
        for line in f:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.machine()


def table(rows):
    lines = [f'{"case":<26} {"ours":>8} {"stock":>8} {"unit":<5} {"ratio":>6} {"quartiles":>13} '
             f'{"pairs":>5}  state']
    for r in rows:
        lines.append(f'{r["case"]:<26} {r["ours"]:>8.3f} {r["peer"]:>8.3f} {r["unit"]:<5} '
                     f'{r["ratio"]:>6.3f} {r["spread"][0]:>6.3f}..{r["spread"][1]:.3f} '
                     f'{r["pairs"]:>5}  {r["state"]}')
    return '\n'.join(lines)


def write_json(name, rows, pages):
    directory = os.path.join(build.build_dir(), 'bench')
    os.makedirs(directory, exist_ok=True)
    path = os.path.join(directory, name + '.json')
    about = {'date': datetime.date.today().isoformat(), 'cpu': cpu_name(),
             'kernel': platform.release(), 'pages': pages}
    with open(path, 'w', encoding='ascii') as f:
        json.dump({'bench': name, 'about': about, 'rows': rows}, f, indent=1)
        f.write('\n')
    return path


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument('--build', default='build', help='build directory (default: build)')
    parser.add_argument('--case', action='append', choices=list(CASES), metavar='NAME',
                        help='only this one; may be repeated: ' + ' '.join(CASES))
    parser.add_argument('--pairs', type=int, default=10, help='pairs in one state (default 10)')
    options = parser.parse_args()
    os.environ['SLUICE_BUILD'] = os.path.realpath(options.build)
    gone = build.missing()
    if gone:
        print(f'bench: {gone} is not there: run make', file=sys.stderr)
        return 1
    names = options.case or DEFAULT
    probe = Probe()
    rows = []
    with Hugepages(HUGE_MB, tempfile.mkdtemp(prefix='sl-huge-', dir='/tmp')) as huge:
        pages = '4 kB: ' + huge.reason if huge.reason else '2 MB'
        print(f'{cpu_name()}, pages of {pages}')
        try:
            for name in names:
                rows += run_case(name, options.pairs, probe, None if huge.reason
                                 else huge.directory)
        except ProcError as error:
            print(f'bench: {name}: {error}', file=sys.stderr)
            return 1
    print('\n' + table(rows))
    print('written: ' + write_json('loopback', rows, pages))
    unmeasured = set(names) - {r['case'] for r in rows}
    if unmeasured:
        print('no machine state lasted for ' + ', '.join(sorted(unmeasured)), file=sys.stderr)
        return 1
    return 0


if __name__ == '__main__':
    sys.exit(main())
