# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Paired trials, A B B A: two sides measured next to each other in the same machine state.

Two identical binaries differ by several per cent between trials on a virtual machine, and by a
factor of two between its states. So each trial has a probe before and after it (between two trials
it is the same one); a pair whose probes do not all name one state is dropped and counted; states
are never mixed.
"""

import statistics
import time
from collections import namedtuple

import state

Trial = namedtuple('Trial', 'rate before after')
Pair = namedtuple('Pair', 'ours peer')
Row = namedtuple('Row', 'ours peer ratio spread pairs state')


SECONDS = 200  # of a case, unless other things are said


def trial(probe, side, before=None):
    before = before or probe()
    rate = side()
    return Trial(rate, before, probe())


def collect(probe, ours, peer, wanted, *, places=(), done=(), seconds=SECONDS,
            clock=time.monotonic, found=lambda pair, pairs: None):
    """Run pairs until one state has `wanted` more of them than `done`, those of an earlier run; or
    one state of each of `places` ('near', 'far').

    No pair begins after `seconds`. `found` is told of each new pair, and of all. Returns all of
    them, `done` included.
    """
    pairs = list(done)
    before = {s: len(p) for s, p in by_state(pairs).items()}
    begin = clock()
    reading = None
    while True:
        order = (ours, peer) if len(pairs) % 2 == 0 else (peer, ours)
        trials = []
        for side in order:
            trials.append(trial(probe, side, reading))
            reading = trials[-1].after
        pairs.append(Pair(*(trials if order[0] is ours else reversed(trials))))
        found(pairs[-1], pairs)
        fresh = {s: len(p) - before.get(s, 0) for s, p in by_state(pairs).items()}
        if enough(fresh, wanted, places) or clock() - begin >= seconds:
            return pairs


def enough(counted, wanted, places=()):
    """Has one state as many pairs as wanted, or one of each of these places?"""
    full = [state.place(name) for name, n in counted.items() if n >= wanted]
    return all(p in full for p in places) if places else bool(full)


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
