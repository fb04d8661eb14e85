# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""What the samples of an experiment say: rows of comparisons, tables, curves."""

import math
import random
import statistics
from collections import Counter

import pairs as paired
import state
from results import ENOUGH, FEWEST

ANY = 'any'
RESAMPLES = 1000


def label(point):
    return f'{point:g}' if isinstance(point, float) else str(point)


def quartiles(values):
    """(low, median, high); of fewer than 4 values the extremes."""
    low, high = paired.spread(sorted(values))
    return low, statistics.median(values), high


def fastest(samples):
    return state.fastest(r for s in samples for r in (s.trial.before, s.trial.after))


def state_of(sample, best):
    """Its machine state; None where that changed or the machine was not ours."""
    found = {state.name(r, best) for r in (sample.trial.before, sample.trial.after)}
    return found.pop() if len(found) == 1 and state.BUSY not in found else None


def busy(sample, best):
    return state.BUSY in (state.name(r, best) for r in (sample.trial.before, sample.trial.after))


def settled(samples, best, any_state):
    """(state, samples in it): those in the state that most of them are in."""
    if any_state:
        return ANY, [s for s in samples if not busy(s, best)]
    found = [state_of(s, best) for s in samples]
    counted = Counter(name for name in found if name)
    if not counted:
        return None, []
    name = counted.most_common(1)[0][0]
    return name, [s for s, of in zip(samples, found) if of == name]


# --- comparisons --------------------------------------------------------------------------------


def ratio(ours, peer, floor):
    """Two zeros are alike; a ratio to nothing is infinite."""
    ours, peer = max(ours, floor), max(peer, floor)
    if peer == 0:
        return 1.0 if ours == 0 else math.inf
    return ours / peer


def _pairs(compare, part, samples, points):
    """Of the same round and point."""
    by_place = {}
    for s in samples:
        if s.part == part.name and s.point in points and compare.figure in s.trial.rate:
            trial = s.trial._replace(rate=s.trial.rate[compare.figure])
            by_place.setdefault((s.round, label(s.point)), {})[s.variant] = trial
    return [paired.Pair(found[compare.ours], found[compare.peer]) for found in by_place.values()
            if compare.ours in found and compare.peer in found]


def _by_state(pairs, best, any_state):
    found = {}
    for pair in pairs:
        names = paired.states_of(pair, best)
        if any_state and state.BUSY not in names:
            found.setdefault(ANY, []).append(pair)
        elif not any_state and paired.counts(names):
            found.setdefault(names[0], []).append(pair)
    return found


def _total(pairs, floor):
    return ratio(*(math.fsum(getattr(pair, side).rate for pair in pairs) / len(pairs)
                   for side in ('ours', 'peer')), floor)


def _total_spread(pairs, floor):
    """What other draws of the same pairs would have given: the quartiles of it."""
    draw = random.Random(1)
    found = [_total(draw.choices(pairs, k=len(pairs)), floor) for _ in range(RESAMPLES)]
    return paired.spread(sorted(found))


def _figures(compare, pairs):
    """ours, peer, their ratio and its spread."""
    sides = [[getattr(pair, side).rate for pair in pairs] for side in ('ours', 'peer')]
    if compare.how == 'total':
        return *map(statistics.fmean, sides), _total(pairs, compare.floor), \
            _total_spread(pairs, compare.floor)
    found = sorted(ratio(*both, compare.floor) for both in zip(*sides))
    return *map(statistics.median, sides), statistics.median(found), paired.spread(found)


def _finite(value, digits=4):
    return None if math.isinf(value) or math.isnan(value) else round(value, digits)


def _cases(compare, part):
    points = [p for p in part.points if compare.points is None or p in compare.points]
    if compare.pool:
        return [(compare.case, points)]
    if len(part.points) == 1:
        return [(compare.case, points)]
    return [(f'{compare.case} {label(p)}', [p]) for p in points]


def rows(experiment, samples):
    """(rows, cases that have too few pairs in each state). Only of what was measured."""
    best = fastest(samples)
    made, missing = [], []
    measured = {(s.part, label(s.point), s.variant) for s in samples}
    for part in experiment.parts:
        for compare in part.comparisons:
            for case, points in _cases(compare, part):
                if not all(any((part.name, label(p), v) in measured for p in points)
                           for v in (compare.ours, compare.peer)):
                    continue
                pairs = _pairs(compare, part, samples, points)
                usable = _by_state(pairs, best, compare.any_state)
                dropped = len(pairs) - sum(map(len, usable.values()))
                found = [_row(part, compare, case, name, some, dropped)
                         for name, some in sorted(usable.items(), key=lambda i: -len(i[1]))
                         if len(some) >= FEWEST]
                made += found
                if not found:
                    missing.append(f'{part.name}: {case}')
    return made, missing


def _row(part, compare, case, name, pairs, dropped):
    ours, peer, found, spread = _figures(compare, pairs)
    return {'case': case, 'unit': compare.unit, 'ours': _finite(ours), 'peer': _finite(peer),
            'peer_name': compare.peer, 'ratio': _finite(found),
            'spread': [_finite(s) for s in spread], 'pairs': len(pairs), 'state': name,
            'target': compare.target, 'dropped': dropped, 'better': compare.better,
            'ours_name': compare.ours, 'how': compare.how, 'part': part.name}


def verdict(row):
    """Is the target met? If not, by how much of the ratio, and can the spread explain it?"""
    target, found = row['target'], row['ratio']
    if target is None:
        return ''
    if found is None:
        return 'missed: the peer has 0'
    sign = 1 if row['better'] == 'more' else -1
    if sign * (found - target) >= 0:
        return 'met'
    nearest = row['spread'][1 if sign > 0 else 0]
    missed = f'missed by {abs(found - target):.3g}'
    if nearest is None or sign * (nearest - target) >= 0:
        missed += ', within the spread'
    return missed


def result(row):
    """Of a benchmark: as the verdict, but few pairs meet no target."""
    said = verdict({'better': 'more', **row})
    if row['pairs'] >= ENOUGH:
        return said or '-'
    return f'few pairs, {said}' if said.startswith('missed') else 'few pairs'


# --- tables and curves --------------------------------------------------------------------------


def _at(part, samples, point, variant=None):
    return [s for s in samples if s.part == part.name and label(s.point) == label(point)
            and variant in (None, s.variant)]


def table(part, samples, best):
    """Medians of each point and variant, in the state that most trials of the point were in."""
    lines = []
    for point in part.points:
        name, there = settled(_at(part, samples, point), best, part.any_state)
        for variant in part.variants:
            found = [s.trial.rate for s in there if s.variant == variant]
            if not found:
                continue
            cells = []
            for column in part.columns:
                values = [f[column.figure] for f in found if f.get(column.figure) is not None]
                cells.append(column.format.format(statistics.median(values)) if values else '-')
            lines.append([label(point), variant, *cells, str(len(found)), name])
    return {'part': part.name, 'title': part.title, 'lines': lines,
            'head': ['point', 'variant', *(c.heading for c in part.columns), 'trials', 'state']}


def curve(part, wanted, samples, best):
    places = {}
    for i, point in enumerate(part.points):
        if wanted.at:
            place = wanted.at(point)
        elif all(isinstance(p, (int, float)) for p in part.points):
            place = point
        else:
            place = i
        if place is not None:
            places[label(point)] = place
    there = {label(p): settled(_at(part, samples, p), best, wanted.any_state)[1]
             for p in part.points if label(p) in places}
    lines = []
    for variant in wanted.variants or part.variants:
        line = {'variant': variant}
        for key, figure in ('points', wanted.figure), ('model', wanted.model):
            found = [(place, [s.trial.rate[figure] for s in there[name] if s.variant == variant
                              and s.trial.rate.get(figure) is not None])
                     for name, place in places.items()] if figure else []
            line[key] = [[place, *quartiles(values)] for place, values in found if values]
        if line['points']:
            lines.append(line)
    named = wanted.at is None and not all(isinstance(p, (int, float)) for p in part.points)
    return {'name': wanted.name, 'part': part.name, 'title': wanted.title, 'x': wanted.x,
            'y': wanted.y, 'log_x': wanted.log_x, 'log_y': wanted.log_y, 'lines': lines,
            'ticks': [[name, place] for name, place in places.items()] if named else None}


def outcome(experiment, samples):
    """What goes into NAME.json besides `bench` and `about`; and the cases that have no row."""
    best = fastest(samples)
    made, missing = rows(experiment, samples)
    parts = [part for part in experiment.parts if any(s.part == part.name for s in samples)]
    return {'rows': made,
            'tables': [table(part, samples, best) for part in parts if part.columns],
            'curves': [found for part in parts for wanted in part.curves
                       if (found := curve(part, wanted, samples, best))['lines']]}, missing
