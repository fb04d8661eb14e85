# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""How the cost of a packet grows: our switch against itself with fewer ports, addresses, slots.

`growth-*`: the worker's turn over guests in one process, one thread, on one CPU (`turn`), of which
two are busy. `growth-vm2vm-*`: two busy guests in a testpmd, as in `switching`; idle ones are ports
of other testpmds, up and never polled. Costs are nanoseconds a packet, of 64 bytes where a case
does not say 1518; less is better, and the ratio is to be at most the target. Bursts are those of
the guests, against 32; they have no target: they show what it costs to handle a packet alone.
"""

import os
from functools import partial

from definition import Bench, Case, Command
from harness import build
from rigs import Guests, Side, SwitchHost, TestpmdGuests

HUGE_MB = 1280
CPU = 1
PORTS, ADDRESSES, RING, BURST = 2, 16, 256, 32
FLAT, TWICE, NOT_SLOWER = 1.1, 2.0, 1.0
PACKETS = 2000000
IN_FLIGHT = 1024
IDLE_PORTS, IDLE_RING = 31, 64  # of one testpmd, which has 32 ports at most


class Cost:
    """Nanoseconds a packet, of a side that gives millions of packets a second."""

    def __init__(self, side, name):
        self.side, self.name = side, name

    def __call__(self):
        return 1e3 / self.side()


def turn(ports=PORTS, addresses=ADDRESSES, ring=RING, burst=BURST, size=64):
    words = {'ports': ports, 'addresses': addresses, 'ring': ring, 'burst': burst, 'size': size,
             'packets': PACKETS}
    return Command('turn', 'taskset', '-c', CPU, os.path.join(build.build_dir(), 'test/bench/turn'),
                   *(word for key, value in words.items() for word in (f'--{key}', value)))


def idle_guests(place, socks):
    """Ports that are up and do nothing."""
    for first in range(0, len(socks), IDLE_PORTS):
        devices = [f'net_sluice_user{i},path={sock},queue_size={IDLE_RING}'
                   for i, sock in enumerate(socks[first:first + IDLE_PORTS])]
        TestpmdGuests(place, f'idle{first}', devices, ours=True, ring=IDLE_RING, fwd='io',
                      mbufs=2 * len(devices) * IDLE_RING)


def vm2vm(place, ports=PORTS, ring=RING, burst=BURST, size=64):
    socks = [place.rig.path(f'{ports}-{ring}-{burst}-{i}') for i in range(ports)]
    host = SwitchHost(place, socks)
    guests = Guests(place, socks[:PORTS], ours=True, ring=ring, fwd='io', burst=burst)
    idle_guests(place, socks[PORTS:])
    return Side(guests, host, size, tx_first=IN_FLIGHT // burst)


def sides(place, start, grown, size=64):
    """`grown`: {what: (few, many)}."""
    few, many = ({what: pair[i] for what, pair in grown.items()} for i in (0, 1))
    return [Cost(start(place, size=size, **some), ', '.join(f'{k} {v}' for k, v in some.items()))
            for some in (many, few)]


def in_one_thread(place, **some):
    del place
    return turn(**some)


def case(target, start, size=64, **grown):
    return Case('ns/packet', target, partial(sides, start=start, grown=grown, size=size), 'less')


CASES = {
    **{f'growth-ports-{n}': case(FLAT, in_one_thread, ports=(PORTS, n)) for n in (8, 64)},
    **{f'growth-addresses-{n}': case(TWICE, in_one_thread, addresses=(ADDRESSES, n))
       for n in (1000, 16000, 1000000)},
    **{f'growth-ring-1024-{n}': case(NOT_SLOWER, in_one_thread, n, ring=(RING, 1024))
       for n in (64, 1518)},
    **{f'growth-burst-{n}': case(None, in_one_thread, burst=(BURST, n)) for n in (1, 4, 8, 64)},
    'growth-vm2vm-ports-64': case(FLAT, vm2vm, ports=(PORTS, 64)),
    **{f'growth-vm2vm-ring-1024-{n}': case(NOT_SLOWER, vm2vm, n, ring=(RING, 1024))
       for n in (64, 1518)},
    **{f'growth-vm2vm-burst-{n}': case(None, vm2vm, burst=(BURST, n)) for n in (1, 4, 8, 64)},
}

BENCH = Bench('growth', 'what a packet costs with more ports, addresses, slots, in smaller bursts; '
              'against ours with fewer', CASES, huge_mb=HUGE_MB)
