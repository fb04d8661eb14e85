# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Both ends of lib/virtqueue (`pair`) against the barest ring that moves the same bytes with the
same copies between the same CPUs (`limit`): how much of the machine the virtqueue leaves unused."""

import os
from functools import partial

from definition import Bench, Case, Command
from harness import build

SECONDS = 0.25
TARGETS = {64: 0.7, 1518: 0.9}


def sides(place, **options):
    del place
    words = [word for key, value in {**options, 'seconds': SECONDS}.items()
             for word in (f'--{key}', value)]
    return [Command(f'{name} {options["mode"]}',
                    os.path.join(build.build_dir(), 'test/bench', name), *words)
            for name in ('pair', 'limit')]


CASES = {f'limit-{mode}-{size}-{ring}':
         Case('Mpps', TARGETS[size], partial(sides, mode=mode, size=size, ring=ring))
         for mode in ('loop', 'tx', 'rx') for size in (64, 1518) for ring in (256, 1024)}

BENCH = Bench('limit', 'both ends of the library, against a bare ring with the same copies', CASES,
              default=[name for name in CASES if name.endswith('-1024')], huge_mb=128)
