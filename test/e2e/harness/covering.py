# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A pairwise covering array: every pair of values of every two parameters is in some case."""

from itertools import combinations, product


def pairs_of(case, names):
    return {((a, case[a]), (b, case[b])) for a, b in combinations(names, 2)}


def pairwise(parameters, allowed=lambda case: True):
    """Greedy and deterministic. `parameters`: {name: [values]}; returns a list of dicts."""
    names = list(parameters)
    candidates = [dict(zip(names, values)) for values in product(*parameters.values())]
    candidates = [(c, pairs_of(c, names)) for c in candidates if allowed(c)]
    missing = set().union(*(p for _, p in candidates))
    cases = []
    while missing:
        best = max(candidates, key=lambda c: len(c[1] & missing))  # the first of equals
        cases.append(best[0])
        missing -= best[1]
    return cases


def name_of(case):
    """A short test id: name for on, no-name for off, name=value otherwise."""
    parts = []
    for key, value in case.items():
        if value is True:
            parts.append(key)
        elif value is False:
            parts.append('no-' + key)
        else:
            parts.append(f'{key}{value}')
    return '-'.join(parts)
