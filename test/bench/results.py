# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What a bench leaves in build/bench: NAME.pairs, each pair as it was measured, one a line; made
from that, NAME.json, which holds the rows, and NAME.svg."""

import hashlib
import json
import os

import pairs as paired
import plot
from harness import build
from state import Reading

FEWEST = 3  # pairs in a state that make a row


class Failure(Exception):
    """One line for the user: what is wrong and what to do."""


def fingerprint():
    """Of what is measured: pairs of two builds are not to be mixed."""
    digest = hashlib.sha256()
    for path in (build.plugin(), build.vswitch(),
                 os.path.join(build.build_dir(), 'test/bench/pair')):
        if os.path.exists(path):
            with open(path, 'rb') as f:
                digest.update(f.read())
    return digest.hexdigest()[:12]


def from_json(pair):
    return paired.Pair(*(paired.Trial(rate, *(Reading(r[0], tuple(r[1]), *r[2:]) for r in readings))
                         for rate, *readings in pair))


class Results:
    """The pairs of a bench by (case, peer's name), in the order of their first measurement."""

    def __init__(self, name, cases, *, append=False):
        self.name, self.cases = name, cases
        self.directory = os.path.join(build.build_dir(), 'bench')
        self.pairs = {}
        self.build = fingerprint()
        os.makedirs(self.directory, exist_ok=True)
        if append and os.path.exists(self.path('pairs')):
            self._load()
        else:
            with open(self.path('pairs'), 'w', encoding='ascii') as f:
                f.write(json.dumps({'build': self.build}) + '\n')

    def path(self, kind):
        return os.path.join(self.directory, f'{self.name}.{kind}')

    def _load(self):
        with open(self.path('pairs'), encoding='ascii') as f:
            if json.loads(f.readline())['build'] != self.build:
                raise Failure(f'{self.path("pairs")} was measured with another build: '
                              'leave out --append')
            for line in f:
                case, peer, pair = json.loads(line)
                if case in self.cases:
                    self.pairs.setdefault((case, peer), []).append(from_json(pair))

    def of(self, case, peer):
        return self.pairs.get((case, peer), [])

    def add(self, case, peer, pair, pairs):
        """Kept at once: a run that is broken off loses nothing."""
        self.pairs[case, peer] = list(pairs)
        with open(self.path('pairs'), 'a', encoding='ascii') as f:
            f.write(json.dumps([case, peer, pair]) + '\n')

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
                      'state': r.state, 'target': self.cases[case].target, 'dropped': dropped}
                     for r in sorted(found, key=lambda r: -r.pairs)]
        return rows

    def write(self, about):
        rows = self.rows()
        with open(self.path('json'), 'w', encoding='ascii') as f:
            json.dump({'bench': self.name, 'about': {**about, 'build': self.build}, 'rows': rows},
                      f, indent=1)
            f.write('\n')
        with open(self.path('svg'), 'w', encoding='utf-8') as f:
            f.write(plot.svg(f'{self.name}: ours / peer', rows))
        return rows


def table(rows):
    lines = [f'{"case":<24} {"ours":>8} {"peer":>8} {"unit":<5} {"ratio":>6} {"quartiles":>13} '
             f'{"target":>6} {"pairs":>5} {"dropped":>7}  {"state":<12} peer']
    for r in rows:
        lines.append(f'{r["case"]:<24} {r["ours"]:>8.3f} {r["peer"]:>8.3f} {r["unit"]:<5} '
                     f'{r["ratio"]:>6.3f} {r["spread"][0]:>6.3f}..{r["spread"][1]:<5.3f} '
                     f'{r["target"]:>6.2f} {r["pairs"]:>5} {r["dropped"]:>7}  {r["state"]:<12} '
                     f'{r["peer_name"]}')
    return '\n'.join(lines)
