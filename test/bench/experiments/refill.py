# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""When to post receive buffers, and how many: budget against half and eager."""

from contextlib import nullcontext
from functools import partial

import open_loop
from experiment import Column, Compare, Curve, Experiment, Part
from open_loop import OURS, STOCK

FINDING = '''
A patch to Linux's virtio-net (2019) that posts receive buffers before half of the ring is empty:
2842 drops became 360, 87.3 % fewer, in 30 minutes of 400 thousand UDP packets a second to a
guest.
'''

METHOD = '''
The sender is `sluice-traffic` on a stock `net_vhost` port: it is the device end of the ring and
an open loop straight into it, so a frame for which no buffer is posted is *refused*, and that is
a drop. The receiver is `sluice-traffic` behind our driver with `refill=half` (Linux before the
patch), `eager` (DPDK's rule) or `budget` (ours, 64 buffers), and behind stock `net_virtio_user`
(DPDK's rule in DPDK). Each has a CPU of its own. Now and then the receiver is away: it does not
poll for a fixed time. The pauses in between are random (seeded, the same for all variants of a
round), so the ring is met at any phase. The time is given in units of N/rate, in which a ring of
N buffers is filled; the rate is such that this is 5.12 ms, long against the machine's own stalls.
A stall of the sender shifts its schedule, so it does not make a burst of what it missed. *own
stalls* is the most that the stalls of the two loops can have added to the drops: what was due in
them beyond half a ring.

What is to be expected, for an absence of x N/rate: a rule that refills once t N buffers are
missing meets each absence with a level that is uniform between (1 - t) N and N, so it drops
nothing up to x = 1 - t, N (x - 1 + t)^2 / (2 t) up to x = 1 and N (x - 1 + t / 2) beyond. t is
1/2 for *half* and 0 for *eager*; for *budget* too, since this receiver keeps up and *budget* fills
the ring in the first call that finds nothing. So a rule can save at most the N/2 buffers that
*half* had not posted: the effect is near 100 % between 1/2 and 1 and falls off beyond. The broken
lines and *expected* are this, with the absences as they were.

Against *eager* and *net_virtio*, fewer drops than one frame an absence count as one: none of the
three should have any up to x = 1, and a frame more or less is the moment at which an absence ends.

For the pool that ran dry, the receiver takes all mbufs that its pool has and keeps what it
receives, until the ring is empty; then it gives all back at once. Each call of rx_burst is timed:
the figure is the longest of the next 64 calls, its median over the times that the pool was dry,
since any one call may be hit by a stall of the machine.
'''

LIMITS = '''
The effect depends on how long a receiver is away, measured in ring sizes: 87.3 % is what that
machine's stalls gave. Absences shorter than half a ring cost nothing under any rule; of long ones
no rule saves more than N/2 frames. There is no guest kernel here, and no interrupt: what NAPI
does between the wake-up and the refill is not in these figures. Drops are counted, speed is not:
what a rule costs in publications is the column *posts* (calls that posted, for 1000 frames);
`make bench-instr` and doc/performance.md have the cost of the receive path. That *budget* is
bounded in one call is shown in TSC cycles of one machine.

The scenario of the patch has no absences but the machine's own stalls. Where these are many rings
long (256 frames are 0.64 ms at 400 kpps) they decide, and not the rule: a few slices make the sum,
which may say the opposite of the medians. `LONG=1` runs 60 slices of each rule; *trials* says how
many there were.
'''

UNIT = 0.00512            # seconds: N / rate
EVERY = 0.006             # between two absences, in the mean
ABSENCES = 45             # in a trial
DRY, BETWEEN = 0.008, 0.008
SPELLS = 40               # of a dry pool in a trial
SLICE = 10
RULES = {'half': (OURS, 'refill=half'), 'eager': (OURS, 'refill=eager'),
         'budget': (OURS, 'refill=budget'), 'net_virtio': (STOCK, 'mrg_rxbuf=1')}
BUDGETS = (16, 32, 64, 128, 256)
RULES.update({f'budget-{b}': (OURS, f'refill=budget,refill_budget={b}') for b in BUDGETS})
PUBLISHED = 1 - 0.873     # what was left of the drops
FLOOR = 1                 # a frame an absence: a moment more or less at its ends


def expected(rule, ring, absence):
    """Buffers that are missing in an absence of so many N/rate."""
    t = 0.5 if rule == 'half' else 0
    if absence >= 1:
        return ring * (absence - 1 + t / 2)
    return ring * (absence - 1 + t) ** 2 / (2 * t) if absence > 1 - t else 0


class Absences:
    """`at`: the ring and the absence of a point. A frame needs `buffers` buffers."""

    def __init__(self, place, at, buffers=1, sender='', receiver=''):
        self.place, self.at, self.buffers = place, at, buffers
        self.sender, self.receiver = sender, receiver

    def measure(self, variant, point, seed):
        ring, absence = self.at(point)
        rate = round(ring / self.buffers / UNIT)
        away = absence * UNIT
        spells = f'--away {away * 1e6:.0f} --away-every {EVERY * 1e6:.0f} --seed {seed}'
        sent, received = open_loop.trial(
            self.place, *RULES[variant], ring=ring, seconds=ABSENCES * (EVERY + away),
            sender=f'--rate {rate} --when-late shift {self.sender}',
            receiver=f'{spells if absence else ""} {self.receiver}')
        return self.figures(sent, received, variant, ring, rate)

    def figures(self, sent, received, rule, ring, rate):
        sender, receiver = sent['sender'], received['receiver']
        absences = receiver['absences']
        mean = receiver['away_us'] / 1e6 / absences if absences else 0
        count = sender['seconds'] / (EVERY + mean)  # of those while frames were sent
        half = ring / 2 / self.buffers
        stalled = [entry['us'] / 1e6 for result in (sent, received) for loop in result['stalls']
                   for entry in loop['longest']]
        return {'drops': sender['refused'] / count, 'absence': mean / UNIT,
                'expected': expected(rule, ring, mean / UNIT) / self.buffers,
                'own': sum(max(0, s * rate - half) for s in stalled) / count,
                'stall_ms': max(stalled, default=0) * 1e3, 'refused': sender['refused'],
                'offered': sender['offered'], **of_the_driver(received)}


class DryPool:
    """The receiver takes all mbufs of its pool until the ring is empty, then gives them back."""

    def __init__(self, place):
        self.place = place

    def measure(self, variant, point, seed):
        sent, received = open_loop.trial(
            self.place, *RULES[variant], ring=point, seconds=SPELLS * (DRY + BETWEEN),
            sender=f'--rate {round(point / UNIT)} --when-late shift',
            receiver=f'--starve {DRY * 1e6:.0f} --starve-every {BETWEEN * 1e6:.0f} --seed {seed} '
            '--time-calls')
        calls = received['receiver']['rx_calls']
        after = calls['after_dry_cycles']
        return {'longest': after['p50'], 'longest_us': calls['after_dry_ns']['p50'] / 1e3,
                'longest_p90': after['p90'], 'times': after['count'],
                'refused': sent['sender']['refused'], **of_the_driver(received)}


class OwnStalls:
    """The patch's own scenario: nobody is away, the machine takes its CPUs now and then."""

    def __init__(self, place):
        self.place = place

    def measure(self, variant, point, seed):
        del seed  # there is nothing random but the machine
        sent, received = open_loop.trial(self.place, *RULES[variant], ring=point, seconds=SLICE,
                                         sender='--rate 400k --when-late shift', receiver='')
        sender = sent['sender']
        longest, in_all = open_loop.stalls(received)
        return {'drops': sender['refused'], 'offered': sender['offered'],
                'ppm': sender['refused'] / sender['offered'] * 1e6, 'stall_ms': longest / 1e3,
                'stalled_ms': in_all / 1e3, **of_the_driver(received)}


def start(bench, **more):
    """Processes live for a trial only."""
    return lambda place, part: nullcontext(bench(place, **more))


def of_the_driver(received):
    """What only ours counts."""
    port, = received['ports']
    own = port.get('xstats', {})
    if 'rx_q0_low_water' not in own:
        return {}
    return {'low_water': own['rx_q0_low_water'],
            'posts': own['rx_q0_refills'] / max(1, own['rx_q0_good_packets']) * 1000}


COLUMNS = [Column('drops', 'drops an absence', '{:.2f}'), Column('expected', 'expected', '{:.2f}'),
           Column('own', 'own stalls, at most', '{:.2f}'),
           Column('low_water', 'low-water mark', '{:.0f}'), Column('posts', 'posts', '{:.0f}'),
           Column('stall_ms', 'longest stall, ms', '{:.2f}')]


def compare(points, between, stock=True, unit='frames an absence'):
    """The published effect where it can exist, and never worse than what refills at once."""
    less = partial(Compare, figure='drops', ours='budget', unit=unit, better='less', how='total',
                   any_state=True)
    return [less('budget / half', peer='half', target=PUBLISHED, points=between),
            less('budget / half, all of these', peer='half', target=PUBLISHED, points=between,
                 pool=True),
            *(less(f'budget / {peer}', peer=peer, target=1, points=points, floor=FLOOR)
              for peer in ('eager', 'net_virtio')[:1 + stock])]


def absences(ring, points, stock=True):
    between = [x for x in points if 0.5 < x <= 1]
    x = f'absence of the receiver, N/rate (N = {ring})'
    return Part(
        f'absence-{ring}', f'Absences, ring of {ring}',
        ['half', 'eager', 'budget', 'net_virtio'][:3 + stock],
        points, start(Absences, at=lambda x: (ring, x)), rounds=4, columns=COLUMNS,
        any_state=True, comparisons=compare([x for x in points if x], between, stock),
        curves=[Curve(f'absence-{ring}', f'Drops an absence, ring of {ring}', 'drops', x,
                      'frames dropped an absence', at=lambda x: x if x <= 1.5 else None,
                      model='expected', any_state=True),
                Curve(f'low-water-{ring}', f'Fewest posted buffers, ring of {ring}', 'low_water', x,
                      'buffers', variants=['half', 'eager', 'budget'], any_state=True)])


TELLING = {'ring 256, 0.9': (256, 0.9), 'ring 256, 1': (256, 1), 'ring 1024, 1': (1024, 1)}
BUDGET_PART = Part(
    'budgets', 'Budgets, at the absences that tell most', [f'budget-{b}' for b in BUDGETS],
    list(TELLING), start(Absences, at=TELLING.get), rounds=4, columns=COLUMNS, any_state=True,
    curves=[Curve('budgets', 'Drops an absence', 'drops', 'ring, absence in N/rate',
                  'frames dropped an absence', model='expected', any_state=True)])
JUMBO = [0.75, 0.9, 1]
JUMBO_PART = Part(
    'jumbo', 'Frames of 9000 bytes over 5 buffers of 2 KB, ring of 256',
    ['half', 'eager', 'budget', 'net_virtio'], JUMBO,
    start(Absences, at=lambda x: (256, x), buffers=5, sender='--size 9000',
          receiver='--size 9000 --mbuf-size 2048'),
    rounds=4, columns=COLUMNS, any_state=True, comparisons=compare(JUMBO, JUMBO))

RINGS = [256, 1024]
DRY_PART = Part(
    'dry-pool', 'A pool that ran dry and came back: the longest of the next 64 receive calls',
    ['half', 'eager', 'budget-16', 'budget', 'budget-256', 'net_virtio'], RINGS, start(DryPool),
    rounds=5,
    columns=[Column('longest', 'cycles, median of the times', '{:.0f}'),
             Column('longest_us', 'us', '{:.2f}'), Column('longest_p90', 'cycles, p90', '{:.0f}'),
             Column('times', 'times', '{:.0f}'), Column('posts', 'posts', '{:.0f}')],
    comparisons=[Compare(f'budget / {peer}', 'longest', 'budget', peer, 'TSC cycles', target,
                         better='less', points=points)
                 for peer in ('eager', 'net_virtio', 'half')
                 for points, target in (([1024], 0.25), ([256], None))])
OWN_PART = Part(
    'own-stalls', 'The scenario of the patch, 400 kpps, the rules in turns of 10 s each',
    ['half', 'eager', 'budget'], RINGS[:1], start(OwnStalls), rounds=60, long_only=True,  # 10 minutes of each
    any_state=True,
    columns=[Column('drops', 'drops a slice', '{:.0f}'), Column('ppm', 'of a million', '{:.0f}'),
             Column('low_water', 'low-water mark', '{:.0f}'), Column('posts', 'posts', '{:.0f}'),
             Column('stall_ms', 'longest stall of the receiver, ms', '{:.2f}'),
             Column('stalled_ms', 'ms in its stalls above 0.1 ms', '{:.1f}')],
    comparisons=[Compare(f'budget / {peer}', 'drops', 'budget', peer, 'frames in 10 s', target,
                         better='less', how='total', any_state=True)
                 for peer, target in (('half', PUBLISHED), ('eager', 1))])

EXPERIMENT = Experiment(
    'refill', 'Refill: when to post receive buffers', FINDING, METHOD, LIMITS,
    [absences(256, [0, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1.25, 2, 4]),
     absences(1024, [0.5, 0.7, 0.9, 1, 1.5], stock=False), BUDGET_PART, JUMBO_PART, DRY_PART,
     OWN_PART], huge_mb=640)
