# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""build/bench/NAME.samples: each trial of an experiment as it was measured, one a line."""

import json
import os

import results
from experiment import Sample
from harness import build
from pairs import Trial


def directory():
    return os.path.join(build.build_dir(), 'bench')


class Samples:
    """Those of the last run; with `append` those of the runs before it too.

    Within a part only one build counts, the one measured last: another's samples of that part are
    put aside when it is measured again.
    """

    def __init__(self, name, *, append=False):
        self.path = os.path.join(directory(), name + '.samples')
        self.build = results.fingerprint()
        self.samples = []
        self._builds = {}
        os.makedirs(directory(), exist_ok=True)
        if append and os.path.exists(self.path):
            with open(self.path, encoding='ascii') as f:
                for line in f:
                    self._keep(*self._read(line))
        else:
            with open(self.path, 'w', encoding='ascii'):
                pass

    @staticmethod
    def _read(line):
        of_build, part, point, variant, number, seed, (figures, *readings) = json.loads(line)
        trial = Trial(figures, *map(results.reading_from_json, readings))
        return of_build, Sample(part, point, variant, number, seed, trial)

    def _keep(self, of_build, sample):
        if self._builds.setdefault(sample.part, of_build) != of_build:
            self.samples = [s for s in self.samples if s.part != sample.part]
            self._builds[sample.part] = of_build
        self.samples.append(sample)

    def add(self, sample):
        """Kept at once: a run that is broken off loses nothing."""
        self._keep(self.build, sample)
        with open(self.path, 'a', encoding='ascii') as f:
            f.write(json.dumps([self.build, sample.part, sample.point, sample.variant, sample.round,
                                sample.seed, sample.trial]) + '\n')

    def next_round(self, part):
        """Where a run that adds to this part goes on."""
        if self._builds.get(part) != self.build:
            return 0
        return max((s.round + 1 for s in self.samples if s.part == part), default=0)

    def builds(self):
        return sorted(set(self._builds.values()))
