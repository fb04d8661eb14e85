# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Paired trials, A B B A: two sides measured next to each other in the same machine state.

Two identical binaries differ by several per cent between trials on a virtual machine, and by a
factor of two between its states. So each trial has a probe before and after it; a pair whose
probes do not all name one state is dropped and counted; states are never mixed.
"""

import statistics
from collections import namedtuple

Trial = namedtuple('Trial', 'rate before after')
Row = namedtuple('Row', 'ours peer ratio spread pairs state')


def trial(probe, measure):
    before = probe()
    rate = measure()
    return Trial(rate, before, probe())


def collect(probe, ours, peer, wanted, *, limit=None, progress=lambda text: None):
    """Run pairs until one state has `wanted` of them, at most `limit` (default three times that).

    Returns (all pairs, those usable by state). Names are given at the end, when the best speed
    of the machine is known as well as it will be.
    """
    pairs = []
    limit = limit or 3 * wanted
    while len(pairs) < limit:
        if len(pairs) % 2 == 0:
            a = trial(probe, ours)
            b = trial(probe, peer)
        else:
            b = trial(probe, peer)
            a = trial(probe, ours)
        pairs.append((a, b))
        usable = by_state(probe, pairs)
        progress(f'{len(pairs):3}: {a.rate:7.3f} / {b.rate:7.3f} = {a.rate / b.rate:.3f}   '
                 f'{state_of(probe, (a, b)) or "state changed"}')
        if max((len(p) for p in usable.values()), default=0) >= wanted:
            break
    return pairs, by_state(probe, pairs)


def state_of(probe, pair):
    """The one state of a pair, or None."""
    names = {probe.name(r) for t in pair for r in (t.before, t.after)}
    return names.pop() if len(names) == 1 else None


def by_state(probe, pairs):
    states = {}
    for pair in pairs:
        name = state_of(probe, pair)
        if name:
            states.setdefault(name, []).append(pair)
    return states


def row(state, pairs):
    """Medians of both sides and of the paired ratios; the spread is their quartiles."""
    ratios = sorted(a.rate / b.rate for a, b in pairs)
    if len(ratios) >= 4:
        quartiles = statistics.quantiles(ratios, n=4, method='inclusive')
        spread = [quartiles[0], quartiles[2]]
    else:
        spread = [ratios[0], ratios[-1]]
    return Row(statistics.median(a.rate for a, _ in pairs),
               statistics.median(b.rate for _, b in pairs),
               statistics.median(ratios), spread, len(pairs), state)
