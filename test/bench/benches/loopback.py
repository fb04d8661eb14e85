# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""A guest in `mac` mode and a host that gives its frames back.

Ours: our driver and our switch, loopback=on. Peer: stock net_virtio_user and a testpmd with stock
net_vhost in `mac` mode, of the installed DPDK or of --peer-dpdk.
"""

from functools import partial

from definition import Bench, Case
from rigs import Guests, Side, SwitchHost, VhostHost

HUGE_MB = 1280


def stock(place, size, ring, in_order):
    sock = place.rig.path('stock')
    program = place.peer_program()
    host = VhostHost(place, [sock], ring=ring, fwd='mac', program=program)
    guests = Guests(place, [sock], ours=False, ring=ring, fwd='mac', program=program,
                    in_order=in_order)
    return Side(guests, host, size, ', in order' if in_order else '')


def sides(place, size, ring, in_order):
    sock = place.rig.path('ours')
    host = SwitchHost(place, [sock])
    guests = Guests(place, [sock], ours=True, ring=ring, fwd='mac')
    return Side(guests, host, size), stock(place, size, ring, in_order)


CASES = {f'loopback-{size}-{ring}{"-inorder" if in_order else ""}':
         Case('Mpps', 1.0, partial(sides, size=size, ring=ring, in_order=in_order))
         for in_order in (False, True) for size in (64, 1518) for ring in (256, 1024)}

BENCH = Bench('loopback', 'guest to host and back, against the stock pair', CASES,
              default=[name for name in CASES if not name.endswith('-inorder')], huge_mb=HUGE_MB)
