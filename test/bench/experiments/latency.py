# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""The highest rate that meets a loss ratio, and one-way latency below it: ours against stock."""

import statistics
from functools import partial

from experiment import Column, Compare, Curve, Experiment, Part
from harness.traffic import Traffic
from open_loop import OURS, STOCK, ended, stalls
from results import Failure
from rigs import GUEST_CPU, SwitchHost, VhostHost, hold
from search import Search, in_step

FINDING = '''
No figure of somebody else's is repeated here: what a user pays for a rate is its latency, and what
a rate is worth depends on the loss that goes with it. Both are compared with the stock pieces in
the same run.
'''

METHOD = '''
One `sluice-traffic` on one CPU sends frames of 64 bytes (with check sequence) and receives them
again; on the other CPU is what sends them back: our driver with `sluice-vswitch`, `loopback=on`, or
stock `net_virtio_user` (mergeable) with a testpmd with stock `net_vhost` in `mac` mode, of the
installed DPDK. Rings of 256 and 1024, bursts up to 32. An open loop: a frame that is due and finds
the transmit ring full is *refused*, and counts as lost.

*Rate*: the highest rate at which at most one frame in 1000 is lost. Searched between 1.25 times
what comes back without a limit and 1/64 of that, by halving in factors (steps of 6.7 % at the end);
a trial of 0.25 s that loses more is repeated up to twice, because one that loses less shows that
the rate can be carried, and one that loses more may only show that a CPU stood still (ETSI GS
NFV-TST 009, binary search with loss verification). The searches of both sides go in step, trial by
trial. A rate is that of the sender's time stamps, not that which was asked for; a trial that was
offered less than nine tenths of it does not pass. A stall of the sender itself moves its schedule
(`--when-late shift`): a CPU that both sends and receives loses nothing by standing still, so the
losses are those of the side that sends back, its CPU's stalls included.

*Latency*: from the time stamp before a frame is written to that after the call of rx_burst that
gave it, so through both rings, the sender's own call and the receiver's turn; with the percentiles
of a histogram whose buckets are 1.6 % wide. At 10, 50 and 90 % of the lower one of the two rates
(the same load for both), and of each side's own.
'''

LIMITS = '''
Rates are those of two shared virtual CPUs: a ring of N frames bridges a stall of N/rate, so the
rate at a loss ratio is as much a figure of the machine's stalls as of the programs; the ratio of
the two sides, which met the same, is what can be compared. p99.9 and the maximum are stalls
(several of 1 to 8 ms a second when others are busy), on either CPU; they are given, and prove
nothing. One lcore sends and receives: at a high rate a frame also waits for the turn in which the
other 31 are written. The percentages of one run are of the rates that this run found. The rows of
*rate* hold pairs from any state of the machine: a search takes longer than a state lasts. The best
of three tries decides a step, which flatters both sides, and more so the one whose tries differ
more.
'''

RATIO = 1e-3
REPEAT, STEPS, RANGE = 3, 6, 64
HEADROOM = 1.25  # over what comes back without a limit: an overload may cost both ends time
PROBE, SEARCH, MEASURE = 0.2, 0.25, 0.4  # seconds of a trial: without a limit, of a search, else
OFFERED = 0.9
VARIANTS = ['ours', 'stock']
SHARES = (10, 50, 90)
MEM = 128

rates_found = {}  # of this run: (variant, ring): those of each round


class Hosts:
    """The two sides that send frames back. Of the one that rests nothing polls."""

    def __init__(self, place, part):
        del part
        self.place = place
        self.socks = {v: place.rig.path(v) for v in VARIANTS}

    def __enter__(self):
        ours = SwitchHost(self.place, [self.socks['ours']])
        hold(ours.process)
        self.hosts = {'ours': ours,
                      'stock': VhostHost(self.place, [self.socks['stock']], ring=1024, fwd='mac')}
        return self

    def __exit__(self, *exc):
        pass

    def run(self, variant, ring, rate, seconds):
        """Send at a rate; what became of the frames."""
        host, sock = self.hosts[variant], self.socks[variant]
        driver, more = (OURS, '') if variant == 'ours' else (STOCK, ',mrg_rxbuf=1,in_order=0')
        host.on()
        traffic = self.place.rig.add(
            Traffic, 'traffic', cpu=GUEST_CPU, plugin=driver == OURS, mem=MEM,
            huge_dir=self.place.huge_dir,
            vdevs=[f'{driver},path={sock},queue_size={ring}{more}'],
            options=f'--tx {driver} --rx {driver} --rx-descs {ring} --tx-descs {ring} '
            f'--rate {rate if rate == "max" else round(rate)} --when-late shift --burst 32 '
            f'--duration {seconds} --warmup 0.05 --drain 20')
        with ended(self.place.rig, traffic):
            result = traffic.result()
        host.off()
        return result


def offered(result):
    """Frames a second, by the sender's time stamps."""
    return result['sender']['offered'] / result['sender']['seconds']


def loss_ratio(result):
    sender = result['sender']
    return (sender['refused'] + result['receiver']['lost']) / sender['offered']


class Rates(Hosts):
    def __init__(self, place, part):
        super().__init__(place, part)
        self.done = {}  # of the round under way: those whose turn has not come

    def passes(self, variant, ring, rate):
        result = self.run(variant, ring, rate, SEARCH)
        found = offered(result)
        return found if found >= OFFERED * rate and loss_ratio(result) <= RATIO else None

    def search(self, ring):
        searches = {}
        for variant in VARIANTS:
            result = self.run(variant, ring, 'max', PROBE)
            most = result['receiver']['received'] / result['receiver']['seconds']
            searches[variant] = Search(partial(self.passes, variant, ring),
                                       HEADROOM * most / RANGE, HEADROOM * most, REPEAT)
        in_step(list(searches.values()), STEPS)
        for variant, search in searches.items():
            rates_found.setdefault((variant, ring), []).append(search.found)
        return {variant: {'rate': search.found / 1e6, 'most': search.most / HEADROOM / 1e6,
                          'trials': search.trials} for variant, search in searches.items()}

    def measure(self, variant, point, seed):
        """Both sides at once, when the first one has its turn."""
        if (point, seed) not in self.done:
            self.done = {(point, seed): self.search(point)}
        return self.done[point, seed][variant]


class Latencies(Rates):
    """At a share of the lower rate, or of the side's own."""

    def __init__(self, place, part):
        super().__init__(place, part)
        self.ring = int(part.name.split('-')[1])

    def rate(self, variant, point):
        if ('ours', self.ring) not in rates_found:
            self.search(self.ring)
        found = {v: statistics.median(rates_found[v, self.ring]) for v in VARIANTS}
        if 0 in found.values():
            raise Failure(f'no rate is carried with at most {RATIO} lost: the machine is too busy')
        whole = min(found.values()) if point in COMMON else found[variant]
        return whole * share(point) / 100

    def measure(self, variant, point, seed):
        rate = self.rate(variant, point)
        result = self.run(variant, self.ring, rate, MEASURE)
        latency, late = result['receiver']['latency_ns'], result['sender']['lateness_ns']
        longest, total = stalls(result)
        return {'asked': rate / 1e6, 'offered': offered(result) / 1e6,
                'loss': loss_ratio(result), 'late': late['p99'] / 1e3,
                'stall': longest, 'stalls': total,
                **{name: latency[name] / 1e3 for name in ('p50', 'p99', 'p99_9', 'max')}}


RATE = Part(
    'rate', 'Highest rate at a loss ratio of 0.001, by ring', VARIANTS, [256, 1024], Rates,
    rounds=5, any_state=True,
    columns=[Column('rate', 'Mpps', '{:.2f}'), Column('most', 'without a limit, Mpps', '{:.2f}'),
             Column('trials', 'trials', '{:.0f}')],
    comparisons=[Compare('rate at a loss of 0.001, ring', 'rate', 'ours', 'stock', 'Mpps', 1.0,
                         any_state=True)])

COMMON = [f'{share} %' for share in SHARES]
OWN = [f'own {share} %' for share in SHARES]


def share(point):
    """In per cent."""
    return int(point.split()[-2])


def of_lower(point):
    return share(point) if point in COMMON else None


def latencies(ring):
    less = partial(Compare, ours='ours', peer='stock', unit='us', better='less', points=COMMON)
    return Part(
        f'latency-{ring}', f'One-way latency at shares of these rates, ring of {ring}', VARIANTS,
        COMMON + OWN, Latencies, rounds=6,
        columns=[Column('offered', 'offered, Mpps', '{:.3f}'),
                 Column('asked', 'asked for', '{:.3f}'), Column('loss', 'lost', '{:.1e}'),
                 Column('p50', 'p50, us', '{:.2f}'), Column('p99', 'p99', '{:.1f}'),
                 Column('p99_9', 'p99.9', '{:.0f}'), Column('max', 'max', '{:.0f}'),
                 Column('late', 'sent late by, p99', '{:.1f}'),
                 Column('stall', 'longest own stall, us', '{:.0f}')],
        comparisons=[less(f'p50, ring {ring}, at', 'p50', target=1.0),
                     less(f'p99, ring {ring}, at', 'p99', target=1.0)],
        curves=[Curve(f'p50-{ring}', f'Median one-way latency, ring of {ring}', 'p50',
                      'load, per cent of the lower rate', 'us', log_y=True, at=of_lower),
                Curve(f'p99-{ring}', f'p99 of one-way latency, ring of {ring}', 'p99',
                      'load, per cent of the lower rate', 'us', log_y=True, at=of_lower)])


EXPERIMENT = Experiment(
    'latency', 'Latency, and the rate at a loss ratio', FINDING, METHOD, LIMITS,
    [RATE, latencies(256), latencies(1024)], huge_mb=1280)
