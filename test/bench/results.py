# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What a bench leaves in build/bench: NAME.pairs, each pair as it was measured, one a line; made
from that, NAME.json, which holds the rows, and NAME.svg."""

import datetime
import hashlib
import json
import os
import platform
import subprocess

import definition
import pairs as paired
import plot
from harness import build, traffic
from state import Reading

FEWEST = 3  # pairs in a state that make a row
ENOUGH = 10  # and that say something about a target


class Failure(Exception):
    """One line for the user: what is wrong and what to do."""


def check_built():
    """All that measuring takes, or Failure: a build may have ended half way."""
    paths = [traffic.program(), *(os.path.join(build.build_dir(), 'test/bench', name)
                                  for name in ('probe', 'pair', 'limit', 'turn'))]
    gone = build.missing() or next((path for path in paths if not os.access(path, os.X_OK)), None)
    if gone:
        raise Failure(f'{gone} is not there: run make, or name another directory with --build')


def rewrite(path, text, encoding='ascii'):
    """A file is there as it was or as it is to be, whatever happens in between."""
    aside = path + '.new'
    with open(aside, 'w', encoding=encoding) as f:
        f.write(text)
    os.replace(aside, path)


def cpu_name():
    with open('/proc/cpuinfo', encoding='utf-8') as f:
        for line in f:
            if line.startswith('model name'):
                return line.split(':', 1)[1].strip()
    return platform.machine()


def dpdk_version():
    """As our own programs say it; they and the stock ones share its libraries."""
    try:
        done = subprocess.run([traffic.program(), '--version'], capture_output=True, text=True,
                              timeout=10, check=False)
    except OSError:
        return 'unknown'
    return done.stdout.strip().rpartition(', ')[2] or 'unknown'


def about(pages):
    """When and where something was measured."""
    return {'date': datetime.date.today().isoformat(), 'cpu': cpu_name(),
            'kernel': platform.release(), 'dpdk': dpdk_version(), 'pages': pages}


def fingerprint():
    """Of what is measured: pairs of two builds are not to be mixed."""
    digest = hashlib.sha256()
    for path in (build.plugin(), build.vswitch(), traffic.program(),
                 os.path.join(build.build_dir(), 'test/bench/pair')):
        if os.path.exists(path):
            with open(path, 'rb') as f:
                digest.update(f.read())
    return digest.hexdigest()[:12]


def reading_from_json(reading):
    one_way, adds, *more = reading
    return Reading(one_way, tuple(adds), *more)


def from_json(pair):
    return paired.Pair(*(paired.Trial(rate, *map(reading_from_json, readings))
                         for rate, *readings in pair))


class Results:
    """The pairs of a bench by (case, peer's name), in the order of their first measurement.

    They stay from run to run until the same case and peer are measured again. Those of one case
    are of one build, the one measured last.
    """

    def __init__(self, name, cases):
        self.name, self.cases = name, cases
        self.directory = os.path.join(build.build_dir(), 'bench')
        self.build = fingerprint()
        self.pairs, self._builds = {}, {}
        os.makedirs(self.directory, exist_ok=True)
        if os.path.exists(self.path('pairs')):
            self._load()

    def path(self, kind):
        return os.path.join(self.directory, f'{self.name}.{kind}')

    def _load(self):
        with open(self.path('pairs'), encoding='ascii') as f:
            for line in f:
                try:
                    entry = json.loads(line)
                except ValueError:
                    continue  # broken off
                if len(entry) != 4 or entry[1] not in self.cases:
                    continue  # of an older form, or of a case that is no more
                of_build, case, peer, pair = entry
                self._of_build(case, of_build)
                self.pairs.setdefault((case, peer), []).append(from_json(pair))

    def begin(self, case, peer, *, append=False):
        """This case is measured now. Returns the pairs that it goes on from: with `append` those of
        earlier runs of this build."""
        self._of_build(case, self.build)
        if not append:
            self.pairs.pop((case, peer), None)
        rewrite(self.path('pairs'),
                ''.join(self._line(of_case, of_peer, pair)
                        for (of_case, of_peer), pairs in self.pairs.items() for pair in pairs))
        return self.pairs.get((case, peer), [])

    def _of_build(self, case, of_build):
        """What another build left of this case counts no more."""
        if self._builds.setdefault(case, of_build) != of_build:
            self.pairs = {key: pairs for key, pairs in self.pairs.items() if key[0] != case}
            self._builds[case] = of_build

    def _line(self, case, peer, pair):
        return json.dumps([self._builds[case], case, peer, pair]) + '\n'

    def add(self, case, peer, pair, pairs):
        """Kept at once: a run that is broken off loses nothing."""
        self.pairs[case, peer] = list(pairs)
        with open(self.path('pairs'), 'a', encoding='ascii') as f:
            f.write(self._line(case, peer, pair))

    def builds(self):
        return sorted({self._builds[case] for (case, _), pairs in self.pairs.items() if pairs})

    def rows(self):
        """One for each machine state that had enough pairs."""
        rows = []
        for (case, peer), pairs in self.pairs.items():
            usable = paired.by_state(pairs)
            dropped = len(pairs) - sum(map(len, usable.values()))
            found = [paired.row(s, p) for s, p in usable.items() if len(p) >= FEWEST]
            rows += [{'case': case, 'unit': self.cases[case].unit, 'ours': round(r.ours, 3),
                      'peer': round(r.peer, 3), 'peer_name': peer, 'ratio': round(r.ratio, 3),
                      'spread': [round(s, 3) for s in r.spread], 'pairs': r.pairs,
                      'state': r.state, 'target': definition.target(self.cases[case], r.state),
                      'dropped': dropped, **self._better(case)}
                     for r in sorted(found, key=lambda r: -r.pairs)]
        order = list(self.cases)
        return sorted(rows, key=lambda r: order.index(r['case']))

    def _better(self, case):
        better = self.cases[case].better
        return {} if better == 'more' else {'better': better}

    def write(self, about):
        rows = self.rows()
        made = {'bench': self.name, 'about': {**about, 'build': ', '.join(self.builds())},
                'rows': rows}
        rewrite(self.path('json'), json.dumps(made, indent=1) + '\n')
        rewrite(self.path('svg'), plot.svg(f'{self.name}: ours / peer', rows), 'utf-8')
        return rows


def table(rows, result=None):
    """For the terminal; with a column of what `result` says of a row."""
    told = [(result(r) if result else '') for r in rows]
    width = max([len('result'), *map(len, told)]) + 2 if result else 0
    lines = [f'{"case":<28} {"ours":>8} {"peer":>8} {"unit":<9} {"ratio":>6} {"quartiles":>13} '
             f'{"target":>6} {"pairs":>5} {"dropped":>7}  {"state":<12} '
             f'{"result" if result else "":<{width}}peer']
    for r, said in zip(rows, told):
        ratio, low, high, target = (cell(v) for v in (r['ratio'], *r['spread'], r['target']))
        if r.get('better') == 'less' and r['target'] is not None:
            target = '<' + target
        lines.append(f'{r["case"]:<28} {r["ours"]:>8.3f} {r["peer"]:>8.3f} {r["unit"]:<9} '
                     f'{ratio:>6} {low:>6}..{high:<5} '
                     f'{target:>6} {r["pairs"]:>5} {r["dropped"]:>7}  {r["state"]:<12} '
                     f'{said:<{width}}{r["peer_name"]}')
    return '\n'.join(lines)


def cell(value):
    """A ratio; "-" if there is none: no target, or a peer of 0."""
    return '-' if value is None else f'{value:.3f}'
