# SPDX-License-Identifier: BSD-3-Clause
# Copyright (c) 2026 The Sluice developers
"""One of our halves with a stock other half, against the stock pair, in the loop of `loopback`.

`halves-driver-..`: our driver with stock net_vhost: like the peer, two copies on the host.
`halves-switch-..`: stock net_virtio_user with our switch, which copies once.
"""

from functools import partial

from definition import Bench, Case
from loopback import HUGE_MB, stock
from rigs import Guests, Side, SwitchHost, VhostHost


def sides(place, half, size, ring):
    sock = place.rig.path('ours')
    if half == 'driver':
        host = VhostHost(place, [sock], ring=ring, fwd='mac')
    else:
        host = SwitchHost(place, [sock])
    guests = Guests(place, [sock], ours=half == 'driver', ring=ring, fwd='mac')
    return Side(guests, host, size), stock(place, size, ring)


CASES = {f'halves-{half}-{size}-{ring}':
         Case('Mpps', 1.0, partial(sides, half=half, size=size, ring=ring))
         for half in ('driver', 'switch') for size in (64, 1518) for ring in (256, 1024)}

BENCH = Bench('halves', 'our driver or our switch with a stock other half, against the stock pair',
              CASES, huge_mb=HUGE_MB)
