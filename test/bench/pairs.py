# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Paired trials, A B B A: two sides measured next to each other in the same machine state.

Two identical binaries differ by several per cent between trials on a virtual machine, and by a
factor of two between its states. So each trial has a probe before and after it; a pair whose
probes do not all name one state is dropped and counted; states are never mixed.
"""

import statistics
import time
from collections import namedtuple

import state

Trial = namedtuple('Trial', 'rate before after')
Pair = namedtuple('Pair', 'ours peer')
Row = namedtuple('Row', 'ours peer ratio spread pairs state')


def trial(probe, side):
    before = probe()
    rate = side()
    return Trial(rate, before, probe())


def collect(probe, ours, peer, wanted, *, done=(), seconds=None, clock=time.monotonic,
            found=lambda pair, pairs: None):
    """Run pairs until one state has `wanted` more of them than `done`, those of an earlier run.

    Tries at most three times as many, or as long as `seconds` let another pair begin. `found` is
    told of each new pair, and of all. Returns all of them, `done` included.
    """
    pairs = list(done)
    before = {s: len(p) for s, p in by_state(pairs).items()}
    begin = clock()
    for _ in range(3 * wanted):
        if len(pairs) % 2 == 0:
            a = trial(probe, ours)
            b = trial(probe, peer)
        else:
            b = trial(probe, peer)
            a = trial(probe, ours)
        pairs.append(Pair(a, b))
        found(pairs[-1], pairs)
        fresh = [len(p) - before.get(s, 0) for s, p in by_state(pairs).items()]
        if max(fresh, default=0) >= wanted or (seconds and clock() - begin >= seconds):
            break
    return pairs


def fastest(pairs):
    return state.fastest(r for pair in pairs for t in pair for r in (t.before, t.after))


def states_of(pair, best):
    """The names that the four probes of a pair give, each once."""
    return list(dict.fromkeys(state.name(r, best) for t in pair for r in (t.before, t.after)))


def counts(names):
    return len(names) == 1 and state.BUSY not in names


def by_state(pairs):
    states = {}
    best = fastest(pairs)
    for pair in pairs:
        names = states_of(pair, best)
        if counts(names):
            states.setdefault(names[0], []).append(pair)
    return states


def spread(values):
    """The quartiles of sorted values; of fewer than 4 the extremes."""
    if len(values) < 4:
        return [values[0], values[-1]]
    quartiles = statistics.quantiles(values, n=4, method='inclusive')
    return [quartiles[0], quartiles[2]]


def row(name, pairs):
    """Medians of both sides and of the paired ratios, with the spread of those."""
    ratios = sorted(p.ours.rate / p.peer.rate for p in pairs)
    return Row(statistics.median(p.ours.rate for p in pairs),
               statistics.median(p.peer.rate for p in pairs),
               statistics.median(ratios), spread(ratios), len(pairs), name)
