# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""Guest to guest: one testpmd with two ports in `io` mode, a host that switches between them.

Ours: our driver and our switch, which copies from guest to guest. Peers, with stock
net_virtio_user: OVS-DPDK by its NORMAL action, and a testpmd with two net_vhost ports in `io` mode
that looks at no address; both copy into a buffer of theirs and out of it. What both ports receive
is counted.
"""

from functools import partial

from definition import Bench, Case
from peers.ovs import OvsHost
from rigs import Guests, Side, SwitchHost, VhostHost

HUGE_MB = 1792


def sides(place, peer, size, ring):
    socks = [place.rig.path(f'ours{i}') for i in (0, 1)]
    host = SwitchHost(place, socks)
    ours = Side(Guests(place, socks, ours=True, ring=ring, fwd='io'), host, size)
    socks = [place.rig.path(f'peer{i}') for i in (0, 1)]
    if peer == 'ovs':
        host = OvsHost(place, socks)
        program = None
    else:
        program = place.peer_program()
        host = VhostHost(place, socks, ring=ring, fwd='io', program=program)
    guests = Guests(place, socks, ours=False, ring=ring, fwd='io', program=program)
    return ours, Side(guests, host, size)


CASES = {f'{peer}-{size}-{ring}': Case('Mpps', 1.0, partial(sides, peer=peer, size=size, ring=ring))
         for peer in ('ovs', 'testpmd') for size in (64, 1518) for ring in (256, 1024)}

BENCH = Bench('switching', 'guest to guest, against OVS-DPDK and a testpmd between two net_vhost',
              CASES, default=[name for name in CASES if name.endswith('-1024')], huge_mb=HUGE_MB)
