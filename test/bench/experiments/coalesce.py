# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Adaptive coalescing of calls: against none, and against the best fixed setting."""

import statistics
from contextlib import contextmanager

from _guest_streams import Guest
from _packet_streams import Packets
from experiment import Column, Compare, Curve, Experiment, Part

STATIC = {f'{frames} frames, {usecs} us': (frames, usecs)
          for frames, usecs in ((8, 8), (16, 32), (64, 64), (128, 128), (256, 256))}
OFF, BEST, ADAPTIVE = 'off', 'best static', 'adaptive'
SETTINGS = {OFF: 'coalesce=off', ADAPTIVE: 'coalesce=adaptive',
            **{name: f'coalesce=static,frames={frames},usecs={usecs}'
               for name, (frames, usecs) in STATIC.items()}}

SIZES = {14: 1.03, 100: 1.16, 500: 1.25, 1400: 1.28, 2048: 1.22, 4096: 1.05}
EVERY_US = 200
MESSAGES = {f'{size}, one each {EVERY_US} us': size for size in (14, 500, 1400)}
PING = 'ping'
RATES = {'10 kpps': (10000, 'even'), '50 kpps': (50000, 'even'),
         '200 kpps, 8 at a time': (200000, 'bursts:8')}
IDLE = {'1 kpps': (1000, 'even')}

BYTES, PACKETS, IDLE_LINK = 'guest, bytes:', 'packets:', 'idle link:'

swept = {}  # (kind, point): {variant: [figure, ..]}, what the sweeps of this run found


class _Bench:
    """measure() of a variant or, for `BEST`, of the static one that the sweep found best."""

    def __init__(self, kind, stream, figures):
        self._kind, self._stream, self._figures = kind, stream, figures

    def _figure(self, point):
        """The figure that decides, and how to compare it."""
        name, more = self._figures(point)
        return name, max if more else min

    def sweep(self, variant, point):
        found = self._stream(variant, point)
        swept.setdefault((self._kind, point), {}).setdefault(variant, []).append(
            found[self._figure(point)[0]])
        return found

    def _best(self, point):
        for variant in STATIC:
            if variant not in swept.get((self._kind, point), {}):
                self.sweep(variant, point)
        found = swept[self._kind, point]
        choose = self._figure(point)[1]
        return choose(STATIC, key=lambda v: statistics.median(found[v]))

    def compare(self, variant, point):
        if variant != BEST:
            return self._stream(variant, point)
        variant = self._best(point)
        frames, usecs = STATIC[variant]
        return {**self._stream(variant, point), 'frames': frames, 'usecs': usecs}


class _Trials:
    def __init__(self, measure):
        self._measure = measure

    def measure(self, variant, point, seed):
        del seed  # nothing here is drawn
        return self._measure(variant, point)


def _start(make, method):
    @contextmanager
    def start(place, part):
        del part
        yield _Trials(getattr(make(place), method))
    return start


def _guest(place):
    guest = Guest(place, SETTINGS)

    def stream(variant, point):
        if point == PING:
            return guest.ping(variant)
        if point in MESSAGES:
            return guest.stream(variant, MESSAGES[point], EVERY_US)
        return guest.stream(variant, point)

    def figures(point):
        if point == PING:
            return 'ping_us', False
        return ('cpu_us_message', False) if point in MESSAGES else ('mbps', True)
    return _Bench('guest', stream, figures)


def _packets(place):
    packets = Packets(place, SETTINGS)
    return _Bench('packets', lambda variant, point: packets.stream(
        variant, *{**RATES, **IDLE}[point]), lambda point: ('packets_cpu_s', True))


GUEST_COLUMNS = [Column('mbps', 'Mb/s', '{:.1f}'),
                 Column('cpu_us_message', 'guest CPU, us a message', '{:.2f}'),
                 Column('calls_packet', 'calls a packet', '{:.4f}'),
                 Column('lost', 'lost (ring full)', '{:.0f}')]
PACKET_COLUMNS = [Column('packets_cpu_s', 'packets a CPU second', '{:.0f}'),
                  Column('wakes_packet', 'wakes a packet', '{:.4f}'),
                  Column('calls_packet', 'calls a packet', '{:.4f}'),
                  Column('p50_us', 'p50, us', '{:.1f}'), Column('p99_us', 'p99, us', '{:.0f}'),
                  Column('received_kpps', 'received, kpps', '{:.1f}'),
                  Column('lost', 'lost', '{:.0f}')]
CHOSEN = [Column('frames', 'frames', '{:.0f}'), Column('usecs', 'us', '{:.0f}'),
          Column('profile', 'profile', '{:.0f}')]

PARTS = [
    Part('guest-sweep', 'TCP into a guest: fixed settings', list(STATIC), [*SIZES, *MESSAGES],
         rounds=2, long_rounds=6, start=_start(_guest, 'sweep'), columns=GUEST_COLUMNS),
    Part('guest', 'TCP into a guest: adaptive', [OFF, BEST, ADAPTIVE],
         [*SIZES, *MESSAGES, PING], rounds=6, long_rounds=20, start=_start(_guest, 'compare'),
         columns=[*GUEST_COLUMNS, Column('ping_us', 'ping, us', '{:.0f}'), *CHOSEN],
         comparisons=[
             *(Compare(BYTES, 'mbps', ADAPTIVE, OFF, 'Mb/s', target, points=[size])
               for size, target in SIZES.items()),
             Compare(BYTES, 'mbps', ADAPTIVE, BEST, 'Mb/s', 0.95, points=list(SIZES)),
             Compare(BYTES, 'cpu_us_message', ADAPTIVE, OFF, 'us/msg', 1.0, 'less',
                     points=list(MESSAGES)),
             Compare(BYTES, 'cpu_us_message', ADAPTIVE, BEST, 'us/msg', 1.05, 'less',
                     points=list(MESSAGES)),
             Compare(IDLE_LINK, 'ping_us', ADAPTIVE, OFF, 'us', 1.1, 'less', points=[PING])],
         curves=[Curve('guest', 'TCP into a guest', 'mbps', 'bytes of a message', 'Mb/s',
                       log_x=True, at=lambda point: point if point in SIZES else None)]),
    Part('packets-sweep', 'Packets under receive interrupts: fixed settings', list(STATIC),
         list(RATES), rounds=2, long_rounds=6, start=_start(_packets, 'sweep'),
         columns=PACKET_COLUMNS),
    Part('packets', 'Packets under receive interrupts: adaptive', [OFF, BEST, ADAPTIVE],
         [*IDLE, *RATES], rounds=8, long_rounds=20, start=_start(_packets, 'compare'),
         columns=[*PACKET_COLUMNS, *CHOSEN],
         comparisons=[
             Compare(PACKETS, 'packets_cpu_s', ADAPTIVE, OFF, '/CPU s', 1.0, points=list(RATES)),
             Compare(PACKETS, 'packets_cpu_s', ADAPTIVE, BEST, '/CPU s', 0.95, points=list(RATES)),
             Compare('calls a packet:', 'calls_packet', ADAPTIVE, OFF, 'calls', 1.0, 'less',
                     points=list(RATES), any_state=True),
             Compare(IDLE_LINK, 'p50_us', ADAPTIVE, OFF, 'us', 1.1, 'less', points=list(IDLE))],
         curves=[Curve('packets', 'Packets under receive interrupts', 'packets_cpu_s', '',
                       'packets a second of CPU time', log_y=True)]),
]

FINDING = '''
Dynamic interrupt moderation (netdim) in Linux's virtio_net, 2023: a TCP stream into a guest
became faster by 3, 16, 25, 28, 22 and 5 % with messages of 14, 100, 500, 1400, 2048 and 4096
bytes, compared with no moderation.
'''

METHOD = '''
*Guest*: one guest in QEMU (TCG) on one CPU, whose virtio_net has a device for each setting
(ring 1024), each in a network namespace of its own and at a port of its own of one switch
(`--idle sleep`) on the other CPU; there the host's kernel sends through a tap. Numbers as
points: messages of so many bytes as fast as it goes, without TCP_NODELAY, as netperf's
TCP_STREAM has it, so that the sending kernel merges them into full segments; Mb/s is what the
receiving program got in 0.9 s after a warm-up of 0.3 s, by its own clock. *One each ..*: a
message at each such time, with TCP_NODELAY; what counts is the CPU time of all of QEMU for a
message. *ping*: one packet at a time, 10 ms apart, the median of 60 round trips.

*Packets*: sluice-traffic, paced, through the switch, which polls, to a receiver of our driver
that sleeps on its receive interrupts; both threads are on one CPU and sleep when they have
nothing to do. What counts is packets a second of CPU time of the receiver. At 1 kpps each
packet finds everybody asleep: the idle link.

*best static*: the setting that a sweep of five (first and third table) found best at that very
point; the last columns say which. *profile*: which of the five of adaptive coalescing (0: none)
was in force at the end of the trial.
'''

LIMITS = '''
The guest's part does not show the gain of the finding, and no fixed setting shows it either.
Three things keep the calls few without any moderation (*calls a packet*): the sending kernel
hands the tap whole bursts of segments, the switch decides once a burst whether to call, and
Linux takes no interrupts while it is behind (NAPI), which under TCG, at a fraction of the speed
of the switch and the sender, it always is. Messages of 14 bytes are the exception: there the
sender is the bottleneck, and what could be merged is further apart than most settings wait. The
finding's device interrupted for every few packets, and its guest had other CPUs for the program
that reads. So ratios near 1 are what this set-up can give; what it shows is that adaptive
coalescing costs nothing there.

What an interrupt costs is emulated, too: a call wakes a thread of QEMU, which stops the one
that executes the guest, on the same CPU. An interrupt of a real guest is far cheaper, and so is
everything else that a real guest does.

A worker that is about to sleep (`--idle-usecs`, 50) makes the calls that are held back: in the
guest's part a setting above that merges only what comes closer together.

The packets' part runs at full speed, with a switch that polls. Its interrupt is an eventfd: a
system call of the switch and a switch of threads. In a real guest both a call and an interrupt cost
more, so that fewer of them are worth more. It counts the CPU time of the receiver and not that of
the switch. *best static* was chosen by the median of two trials of each setting, whatever the state
of the machine: by chance it may not be the best, which favours adaptive. Moderation is paid for
with latency (p50): on average half of the `usecs` in force.
'''

EXPERIMENT = Experiment('coalesce', 'Adaptive coalescing (netdim, 2023)', finding=FINDING,
                        method=METHOD, limits=LIMITS, parts=PARTS, huge_mb=640)
