# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What an experiment is, and how its trials are run.

Each file of experiments/ defines one as EXPERIMENT. In each round all points are visited, at each
all variants: A B C, in the next round C B A, so that a drift of the machine favours none. A round
has a seed for each point, the same for all variants: they meet the same load and absences.
"""

import hashlib
import os
from dataclasses import dataclass, field
from typing import Any, Callable

import definition
import pairs as paired

FOLDER = os.path.join(definition.HERE, 'experiments')
ALL = ('refill', 'mrg', 'wakeups', 'coalesce', 'latency')  # in this order


@dataclass(frozen=True)
class Column:
    """Of the table of a part: the median of a figure, as `format` (of str.format) shows it.

    A figure that a variant does not have is shown as "-".
    """
    figure: str
    heading: str
    format: str = '{:.3g}'


@dataclass(frozen=True)
class Compare:
    """ours / peer, two variants, in one figure: a row for each of `points` (None: of each point).

    `pool`: one row for all these points together. how='median' of the paired ratios, or 'total',
    the ratio of the sums, for counts that are often 0. What is below `floor` is taken as `floor`,
    which is what the noise of the instrument may leave. `any_state`: for what the state of the
    machine does not move; else a pair whose four probes name more than one state is dropped.
    """
    case: str
    figure: str
    ours: str
    peer: str
    unit: str
    target: float | None = None
    better: str = 'more'
    points: tuple | list | None = None
    how: str = 'median'
    any_state: bool = False
    pool: bool = False
    floor: float = 0


@dataclass(frozen=True)
class Curve:
    """A picture: `figure` over the points, a line for each variant. x and y are what the axes say.

    `at` makes the place on the x axis of a point (None: leave it out); without it, numbers stand
    where they belong and other points in their order, with their names. `model`: a figure that says
    what was to be expected, drawn as a broken line.
    """
    name: str
    title: str
    figure: str
    x: str
    y: str
    log_x: bool = False
    log_y: bool = False
    variants: tuple | list | None = None
    at: Callable[[Any], float | None] | None = None
    any_state: bool = False
    model: str | None = None


@dataclass(frozen=True)
class Part:
    """`start(place, part)` gives a context manager, alive for the whole part, whose
    measure(variant, point, seed) returns a dict of numbers. Nothing of it polls between two calls.
    """
    name: str
    title: str
    variants: list
    points: list
    start: Callable
    rounds: int = 5
    long_rounds: int | None = None
    columns: list = field(default_factory=list)
    comparisons: list = field(default_factory=list)
    curves: list = field(default_factory=list)
    long_only: bool = False
    any_state: bool = False  # of the table


@dataclass(frozen=True)
class Experiment:
    """`finding`: what was measured elsewhere; `method`: how it is repeated; `limits`: what the
    figures do not say. All three go into doc/findings.md as they stand."""
    name: str
    title: str
    finding: str
    method: str
    limits: str
    parts: list
    huge_mb: int = 0


@dataclass(frozen=True)
class Sample:
    """A trial as it was measured: `trial.rate` is the dict of figures."""
    part: str
    point: Any
    variant: str
    round: int
    seed: int
    trial: paired.Trial


def names():
    """Those that there are, in their order."""
    there = definition.names(FOLDER)
    return [name for name in ALL if name in there] + [name for name in there if name not in ALL]


def load(name):
    return definition.load(name, FOLDER, 'EXPERIMENT')


def seed_of(base, experiment, part, point, number):
    """Of a point in a round. 31 bits, never 0."""
    text = f'{base}/{experiment}/{part}/{point}/{number}'
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4], 'big') % 0x7fffffff + 1


def rounds_of(part, long, asked=None):
    return asked or (long and part.long_rounds) or part.rounds


def run_part(experiment, part, place, probe, *, rounds, first=0, points=None, seed=1,
             found=lambda sample: None):
    """Run `rounds` rounds, numbered from `first`; `found` is told of each sample at once."""
    with part.start(place, part) as bench:
        for number in range(first, first + rounds):
            variants = part.variants if number % 2 == 0 else part.variants[::-1]
            for point in part.points if points is None else points:
                this = seed_of(seed, experiment.name, part.name, point, number)
                for variant in variants:
                    trial = paired.trial(
                        probe, lambda v=variant, p=point, s=this: bench.measure(v, p, s))
                    found(Sample(part.name, point, variant, number, this, trial))
