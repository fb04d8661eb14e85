# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""One way, as fast as the receiving end takes it; what arrives at the end is counted.

- `oneway-tohost-..`: the guest's testpmd sends (`txonly`). Ours: the switch forwards to a DPDK
  device, net_null, that frees what it is given. Peer: net_vhost in a testpmd that frees
  (`rxonly`).
- `oneway-toguest-..`: the guest's testpmd frees (`rxonly`). The frames come from net_null, which
  writes nothing into them: ours through the switch, the peer's through a testpmd in `io` mode.

So both hosts copy once, between the guest's memory and an mbuf. The switch looks up addresses
besides, and finds none: net_null's are all zero, and nothing lives behind it.
"""

from functools import partial

from definition import Bench, Case
from loopback import HUGE_MB
from rigs import Guests, Side, SwitchHost, VhostHost

TARGET = 1.5
SINK, SOURCE = 'net_null0,no-rx=1', 'net_null0,size={}'


def to_host(place, ours, size, ring):
    sock = place.rig.path('ours' if ours else 'stock')
    if ours:
        host = SwitchHost(place, [sock], vdev=SINK)
    else:
        host = VhostHost(place, [sock], ring=ring, fwd='rxonly')
    guests = Guests(place, [sock], ours=ours, ring=ring, fwd='txonly')
    return Side(guests, host, size, at=host, tx_first=None)


def to_guest(place, ours, size, ring):
    sock = place.rig.path('ours' if ours else 'stock')
    source = SOURCE.format(size)
    if ours:
        host = SwitchHost(place, [sock], vdev=source)
    else:
        host = VhostHost(place, [sock], ring=ring, fwd='io', more=[source])
    return Side(Guests(place, [sock], ours=ours, ring=ring, fwd='rxonly'), host, size,
                tx_first=None)


def sides(place, way, size, ring):
    return [way(place, ours, size, ring) for ours in (True, False)]


CASES = {f'oneway-{name}-{size}-{ring}': Case('Mpps', TARGET,
                                              partial(sides, way=way, size=size, ring=ring))
         for name, way in (('tohost', to_host), ('toguest', to_guest))
         for size in (64, 1518) for ring in (256, 1024)}

BENCH = Bench('oneway', 'from a guest to the host, or back, against the stock pair', CASES,
              default=[name for name in CASES if name.endswith('-1024')], huge_mb=HUGE_MB)
